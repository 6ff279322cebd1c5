//! Saved chains: a template per chain, deployed once and loaded from then on, and the state of a data folder.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use alloy_primitives::{B256, hex, keccak256};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::anvil::{Anvil, Setup};
use crate::artifacts::{self, ThirdParty};
use crate::deploy::{Deployment, deploy};
use crate::keys::Keys;
use crate::locked::Locked;
use crate::networks::Network;
use crate::progress::Progress;
use crate::tools::{ANVIL_VERSION, CONTRACT_PACKAGES, Cache};

/// The code that shapes a template is part of its key, so that a change to it is never missed.
const SOURCES: [&str; 8] = [
    include_str!("artifacts.rs"),
    include_str!("deploy.rs"),
    include_str!("stage.rs"),
    include_str!("tokens.rs"),
    include_str!("uniswap.rs"),
    include_str!("keys.rs"),
    include_str!("anvil.rs"),
    include_str!("state.rs"),
];

/// A hash of everything a template is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn new(fillers: usize) -> Self {
        let mut parts = vec![ANVIL_VERSION.to_owned(), fillers.to_string()];
        parts.extend(CONTRACT_PACKAGES.map(|p| format!("{}@{}", p.name, p.version)));
        parts.extend(artifacts::ALL.iter().chain(&SOURCES).map(|text| keccak256(text).to_string()));
        let hash: B256 = keccak256(parts.join("\n"));
        Self(hex::encode(&hash[..10]))
    }
}

/// A chain at rest.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub state: PathBuf,
    pub deployment: Deployment,
}

/// The saved template of each network, deployed now if there is none yet. The flag is true when all were there.
pub(crate) async fn templates(
    cache: &Cache,
    anvil: &Path,
    key: &Key,
    networks: &[Network],
    keys: &Keys,
    progress: &Progress,
) -> Result<(Vec<Saved>, bool)> {
    let home = cache.root().join(format!("template-{}", key.0));
    if home.is_dir() {
        return Ok((load(&home, networks)?, true));
    }
    // Another process may be deploying; waiting for its lock blocks.
    let lock = {
        let (cache, name) = (cache.clone(), format!("template-{}", key.0));
        tokio::task::spawn_blocking(move || cache.lock(&name)).await??
    };
    if home.is_dir() {
        return Ok((load(&home, networks)?, true));
    }
    let third_party = {
        let (cache, progress) = (cache.clone(), progress.clone());
        tokio::task::spawn_blocking(move || ThirdParty::load(&cache, &progress)).await??
    };
    progress.say("Deploying contracts and pools to the local chains, for this start and all later ones");
    let scratch = tempfile::Builder::new().prefix(".template-").tempdir_in(cache.root())?;
    let builds = networks.iter().map(|network| build(network, anvil, scratch.path(), keys, &third_party));
    futures::future::try_join_all(builds).await?;
    fs::rename(scratch.path(), &home).with_context(|| format!("cannot move the template to {}", home.display()))?;
    forget_old(cache, &home);
    drop(lock);
    Ok((load(&home, networks)?, false))
}

async fn build(network: &Network, anvil: &Path, dir: &Path, keys: &Keys, third_party: &ThirdParty) -> Result<()> {
    let setup = Setup {
        binary: anvil,
        name: network.name,
        chain_id: network.id,
        port: 0,
        load: None,
        dump: Some(&state_file(dir, network)),
        dir,
        dir_is_temporary: false,
    };
    let node = Anvil::start(setup).await?;
    let deployment = deploy(&node.rpc, network.id, keys, third_party).await;
    let deployment = deployment.with_context(|| format!("cannot set up {}", network.name))?;
    node.stop().await?;
    fs::write(facts_file(dir, network), serde_json::to_vec_pretty(&deployment)?)?;
    Ok(())
}

fn load(home: &Path, networks: &[Network]) -> Result<Vec<Saved>> {
    let one = |network: &Network| {
        let facts = fs::read(facts_file(home, network)).context("an incomplete template")?;
        let state = state_file(home, network);
        if !state.is_file() {
            bail!("no {}", state.display());
        }
        Ok(Saved { state, deployment: serde_json::from_slice(&facts)? })
    };
    let all: Result<Vec<Saved>> = networks.iter().map(one).collect();
    all.with_context(|| {
        format!("cannot use the saved chains in {}; delete that folder and start again", home.display())
    })
}

fn state_file(dir: &Path, network: &Network) -> PathBuf {
    dir.join(format!("{}.state.json", network.name))
}

fn facts_file(dir: &Path, network: &Network) -> PathBuf {
    dir.join(format!("{}.facts.json", network.name))
}

/// Each change of a contract leaves a template behind; a few stay, for developers who switch between branches.
fn forget_old(cache: &Cache, current: &Path) {
    let Ok(entries) = fs::read_dir(cache.root()) else {
        return;
    };
    let mut old: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|e| {
            e.file_name().to_string_lossy().starts_with("template-") && e.path() != current && e.path().is_dir()
        })
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    old.sort();
    for (_, path) in old.iter().rev().skip(5) {
        // Another process may be removing it too, which is fine.
        drop(fs::remove_dir_all(path));
    }
}

/// A folder in which a devnet continues where it was stopped.
#[derive(Debug)]
pub(crate) struct DataDir {
    dir: PathBuf,
    _lock: Locked,
}

/// The folder's record of the run that used it last.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Marker {
    /// The run goes on, or it was killed: nothing was saved.
    Running,
    Stopped {
        key: Key,
        deployments: Vec<Deployment>,
    },
}

impl DataDir {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let lock =
            File::create(dir.join("devnet.lock")).with_context(|| format!("cannot write to {}", dir.display()))?;
        match Locked::new(lock) {
            Ok(lock) => Ok(Self { dir, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                bail!("{} is in use by another local network; stop that one or choose another folder", dir.display())
            }
            Err(TryLockError::Error(e)) => Err(e).with_context(|| format!("cannot lock {}", dir.display())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn state_file(&self, network: &Network) -> PathBuf {
        state_file(&self.dir, network)
    }

    /// The chains that an earlier run left, if it ended in order and was made from the same contracts.
    pub(crate) fn resume(&self, key: &Key, networks: &[Network], progress: &Progress) -> Option<Vec<Saved>> {
        let marker = fs::read(self.marker_file()).ok()?;
        let reason = match serde_json::from_slice(&marker) {
            Ok(Marker::Stopped { key: found, deployments }) if found == *key && deployments.len() == networks.len() => {
                let saved = networks.iter().zip(deployments);
                let saved = saved.map(|(network, deployment)| Saved { state: self.state_file(network), deployment });
                return Some(saved.collect());
            }
            Ok(Marker::Stopped { .. }) => "The contracts have changed since the last run",
            Ok(Marker::Running) => "The last run was not stopped in order",
            Err(_) => "The last run was of another version",
        };
        progress.say(&format!("{reason}: starting with new chains"));
        None
    }

    /// Call once the chains run: the state files they were loaded from are of no use any more.
    pub(crate) fn begin(&self, networks: &[Network]) -> Result<()> {
        self.mark(&Marker::Running)?;
        for network in networks {
            match fs::remove_file(self.state_file(network)) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).context("cannot remove an old state"),
                _ => (),
            }
        }
        Ok(())
    }

    /// Call once the chains have stopped.
    pub(crate) fn finish(&self, key: &Key, networks: &[Network], deployments: Vec<Deployment>) -> Result<()> {
        for network in networks {
            let file = self.state_file(network);
            ensure!(file.is_file(), "{} was not saved to {}; is the disk full?", network.name, file.display());
        }
        self.mark(&Marker::Stopped { key: key.clone(), deployments })
    }

    fn marker_file(&self) -> PathBuf {
        self.dir.join("devnet.json")
    }

    fn mark(&self, marker: &Marker) -> Result<()> {
        let file = self.marker_file();
        fs::write(&file, serde_json::to_vec_pretty(marker)?).with_context(|| format!("cannot write {}", file.display()))
    }
}
