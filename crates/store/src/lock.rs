//! One worker per database. Two would sign with the same nonces.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::watch;
use tracing::error;

use crate::engine::{Link, spawn};
use crate::{DatabaseUrl, Options, StoreError};

/// The same for every build: it names the worker of a database, and each database has its own advisory locks.
const ADVISORY_KEY: i64 = 4802711060235190222;
/// How often the session that holds the lock is asked whether it lives.
const PULSE: Duration = Duration::from_secs(1);
/// No answer within this and the lock counts as lost: the server may have given it to another.
const PULSE_LIMIT: Duration = Duration::from_secs(3);

/// Held by the worker for as long as it may pay.
#[derive(Debug)]
pub struct WorkerLock {
    lost: watch::Receiver<bool>,
    _held: Held,
}

#[derive(Debug)]
enum Held {
    /// The operating system releases it with the process, however that ends.
    File { _file: File, _lost: watch::Sender<bool> },
    /// Dropping it tells the thread with the session to let go.
    Session { _release: Sender<()> },
}

impl WorkerLock {
    /// Whether another worker may hold it by now. A file lock is not lost while the process lives.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Resolves when the lock is lost; the worker must stop paying then.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        // The other end going away without a word is no better.
        let _ = lost.wait_for(|lost| *lost).await;
    }
}

/// Takes the lock or says who has it.
pub fn lock(options: &Options) -> Result<WorkerLock, StoreError> {
    match &options.url {
        DatabaseUrl::Sqlite(path) => lock_file(path),
        DatabaseUrl::Postgres(url) => {
            let mut link = Link::for_options(options)?.ok_or(StoreError::Url("not a postgres url"))?;
            let name = url.to_string();
            let (taken, answer) = channel();
            let (release, released) = channel();
            let (lose, lost) = watch::channel(false);
            spawn("store-lock", (), move || {
                let result = take(&mut link, name);
                let held = result.is_ok();
                let _ = taken.send(result);
                if held {
                    hold(&mut link, &released);
                    lose.send_replace(true);
                }
            })?;
            answer.recv().unwrap_or(Err(StoreError::Closed))?;
            Ok(WorkerLock { lost, _held: Held::Session { _release: release } })
        }
    }
}

fn lock_file(path: &Path) -> Result<WorkerLock, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let io = |source| StoreError::File { path: path.clone(), source: Arc::new(source) };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {
            let (lose, lost) = watch::channel(false);
            Ok(WorkerLock { lost, _held: Held::File { _file: file, _lost: lose } })
        }
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(path.display().to_string())),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

fn take(link: &mut Link, name: String) -> Result<(), StoreError> {
    let client = link.connect()?;
    // Nothing may end this session but its loss. Servers before 14 do not know the second.
    client.batch_execute(
        "select set_config(name, '0', false) from pg_settings where name in ('statement_timeout', 'idle_session_timeout')",
    )?;
    let row = client.query_one("select pg_try_advisory_lock($1)", &[&ADVISORY_KEY])?;
    if row.try_get::<_, bool>(0)? { Ok(()) } else { Err(StoreError::Locked(name)) }
}

/// Until it is released or the session ends.
fn hold(link: &mut Link, released: &Receiver<()>) {
    while released.recv_timeout(PULSE) == Err(RecvTimeoutError::Timeout) {
        let alive = link.connected().and_then(|(client, _)| Ok(client.is_valid(PULSE_LIMIT)?));
        if let Err(error) = alive {
            error!(error = &error as &dyn std::error::Error, "the worker's lock was lost with its connection");
            return;
        }
    }
}
