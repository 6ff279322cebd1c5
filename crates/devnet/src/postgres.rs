//! A Postgres for tests and for local use: a given server, or one of our own from a package.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chown, geteuid};
use tokio::sync::OnceCell;
use url::Url;

use crate::background::on_background_thread;
use crate::locked::Locked;
use crate::process::{Process, Program};
use crate::progress::Progress;
use crate::scratch::scratch;
use crate::tools::Cache;

/// Tests make their databases in this server instead of starting one.
const SERVER_VARIABLE: &str = "CAUSEWAY_TEST_POSTGRES_URL";
/// The user that Postgres runs as when we are root, which it refuses to be.
const NOBODY: u32 = 65534;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Postgres {
    url: Url,
    /// None for a server that is not ours.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    process: Process,
    _lock: Locked,
    _temporary: Option<tempfile::TempDir>,
}

impl Postgres {
    /// The server of `$CAUSEWAY_TEST_POSTGRES_URL`; without that, one of our own with its data in `dir`, which
    /// continues any data there.
    pub async fn start(dir: &Path, progress: &Progress) -> Result<Self> {
        match given()? {
            Some(server) => Ok(server),
            None => Self::start_own(dir, None, progress).await,
        }
    }

    /// One server per test binary; it ends with the process and leaves nothing behind.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        let start = async {
            match given()? {
                Some(server) => Ok(server),
                None => {
                    let temporary = scratch("causeway-postgres-")?;
                    let dir = temporary.path().to_owned();
                    Self::start_own(&dir, Some(temporary), &Progress::silent()).await
                }
            }
        };
        SHARED
            .get_or_init(|| async { on_background_thread("postgres", start).await.expect("a Postgres for the tests") })
            .await
    }

    /// The server's own database; `fresh_database` gives one to work in.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// A new empty database.
    pub async fn fresh_database(&self) -> Result<Url> {
        self.create_database(None).await
    }

    /// A new database with the contents of another, to which nobody may be connected.
    pub async fn copy_of(&self, database: &Url) -> Result<Url> {
        self.create_database(Some(database.path().trim_start_matches('/'))).await
    }

    #[expect(clippy::disallowed_methods, reason = "the time makes the name of a database unique")]
    async fn create_database(&self, template: Option<&str>) -> Result<Url> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
        let name = format!("causeway_{now}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut statement = format!("create database {name}");
        if let Some(template) = template {
            ensure!(
                template.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
                "an odd database name: {template}"
            );
            statement.push_str(&format!(" template {template}"));
        }
        let server = self.url.clone();
        // The client blocks, and refuses to on a thread of the runtime.
        tokio::task::spawn_blocking(move || -> Result<()> {
            let mut client = ::postgres::Client::connect(server.as_str(), ::postgres::NoTls)
                .with_context(|| format!("cannot connect to Postgres at {}", host(&server)))?;
            Ok(client.batch_execute(&statement)?)
        })
        .await?
        .context("cannot create a database")?;
        let mut url = self.url.clone();
        url.set_path(&name);
        Ok(url)
    }

    /// Ends our own server in order.
    pub async fn stop(self) -> Result<()> {
        if let Some(own) = self.own {
            // Fast shutdown: sessions are ended, data is written.
            own.process.stop(Signal::SIGINT, STOP_TIMEOUT).await?;
        }
        Ok(())
    }

    async fn start_own(dir: &Path, temporary: Option<tempfile::TempDir>, progress: &Progress) -> Result<Self> {
        let (dir, quiet) = (dir.to_owned(), progress.clone());
        let prepared = tokio::task::spawn_blocking(move || Prepared::new(&dir, &quiet)).await??;
        progress.say("Starting Postgres");
        let mut attempts = 0;
        let (process, port) = loop {
            attempts += 1;
            // Another process may take the port, or an earlier server may still be ending: both pass.
            match prepared.start(temporary.is_some()).await {
                Ok(started) => break started,
                Err(_) if attempts < 5 => tokio::time::sleep(Duration::from_millis(300)).await,
                Err(e) => return Err(e),
            }
        };
        let url = Url::parse(&format!("postgres://postgres@127.0.0.1:{port}/postgres"))?;
        Ok(Self { url, own: Some(Own { process, _lock: prepared.lock, _temporary: temporary }) })
    }
}

/// The server named by the environment.
#[expect(clippy::disallowed_methods, reason = "the server is the choice of whoever runs the tests")]
fn given() -> Result<Option<Postgres>> {
    match std::env::var(SERVER_VARIABLE) {
        Ok(url) if !url.is_empty() => {
            let url = url.parse().with_context(|| format!("{SERVER_VARIABLE} is not a URL"))?;
            Ok(Some(Postgres { url, own: None }))
        }
        _ => Ok(None),
    }
}

/// The host and port, without the password that the URL may hold.
fn host(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port().unwrap_or(5432))
}

/// A data folder ready for a server.
struct Prepared {
    bin: PathBuf,
    dir: PathBuf,
    data: PathBuf,
    lock: Locked,
}

impl Prepared {
    fn new(dir: &Path, progress: &Progress) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let lock =
            File::create(dir.join("postgres.lock")).with_context(|| format!("cannot write to {}", dir.display()))?;
        let lock = Locked::new(lock).ok().with_context(|| {
            format!("{} is in use by another Postgres of ours; stop that one or choose another folder", dir.display())
        })?;
        let mut cache = Cache::open()?;
        if geteuid().is_root() {
            chown(&dir, Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)))?;
            let reachable = dir.parent().is_none_or(is_open_to_all);
            ensure!(
                reachable,
                "Postgres does not run as root, and no other user can reach {}: choose a folder that others may enter",
                dir.display()
            );
            // The home of root is usually closed to others.
            if !is_open_to_all(cache.root()) {
                cache = Cache::temporary()?;
            }
        }
        let bin = cache.postgres(progress)?.join("bin");
        let data = dir.join("data");
        let prepared = Self { bin, dir, data, lock };
        if !prepared.data.join("PG_VERSION").exists() {
            prepared.init()?;
        }
        Ok(prepared)
    }

    /// The command line up to a Postgres program: when we are root, with the words that make it run as someone else.
    fn command(&self, program: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![];
        if geteuid().is_root() {
            words.extend(["setpriv".into(), format!("--reuid={NOBODY}").into(), format!("--regid={NOBODY}").into()]);
            words.push("--clear-groups".into());
        }
        words.push(self.bin.join(program).into());
        words
    }

    fn init(&self) -> Result<()> {
        let words = self.command("initdb");
        let mut initdb = Command::new(&words[0]);
        initdb.args(&words[1..]).current_dir(&self.dir).arg("-D").arg(&self.data);
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        let out = initdb.output().with_context(|| format!("cannot run {}", words[0].display()))?;
        if !out.status.success() {
            // A half-made folder would be taken for a whole one.
            drop(fs::remove_dir_all(&self.data));
            bail!("cannot set up Postgres in {}: {}", self.dir.display(), String::from_utf8_lossy(&out.stderr));
        }
        Ok(())
    }

    /// Starts it in the foreground of its watchdog. Durable like a production server, but small.
    async fn start(&self, dir_is_temporary: bool) -> Result<(Process, u16)> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut words = self.command("postgres");
        words.extend(["-D".into(), self.data.clone().into(), "-p".into(), port.to_string().into()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "shared_buffers=32MB",
            "max_connections=200",
            "logging_collector=off",
        ] {
            words.extend(["-c".into(), setting.into()]);
        }
        let path = PathBuf::from(words.remove(0));
        // Postgres's immediate shutdown: as sudden as a crash, but it ends its own children too.
        let last_signal = Signal::SIGQUIT;
        let dir = &self.dir;
        let program = Program { name: "postgres".into(), path: &path, args: words, dir, dir_is_temporary, last_signal };
        let mut process = Process::start(program)?;
        let began = Instant::now();
        // Read from its own output: an answer on the port could come from someone else.
        while !process.output().contains("ready to accept connections") {
            process.check()?;
            if began.elapsed() > START_TIMEOUT {
                bail!("Postgres did not come up within {START_TIMEOUT:?}:\n{}", process.output());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok((process, port))
    }
}

/// True when any user may pass through this folder and all above it.
fn is_open_to_all(path: &Path) -> bool {
    path.ancestors().all(|dir| fs::metadata(dir).is_ok_and(|facts| facts.mode() & 0o001 != 0))
}
