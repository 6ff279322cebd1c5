//! The processes that serve one database: each is a row with a heartbeat, timed by the database's clock.
//!
//! On Postgres a thread with its own connection sends the heartbeat, reads which leases this process still holds and
//! how many processes answer callers, and listens for commits meant for the worker. A SQLite file has one process,
//! ensured by its file lock, so it needs no heartbeat.

mod heartbeat;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;

use crate::leases::{self, Beat, Kind, Lease};
use crate::{Options, Store, StoreError, Tx};

/// A process's description for the others.
#[derive(Clone, Debug)]
pub struct About {
    /// Unique among all processes, ever.
    pub id: String,
    /// A name for people.
    pub name: String,
    pub role: &'static str,
    /// True if it answers API callers.
    pub answers: bool,
}

/// This process among those that serve the database. Clones are the same instance.
#[derive(Clone, Debug)]
pub struct Instance {
    shared: Arc<Shared>,
    _last: Arc<Last>,
    beats: Option<watch::Receiver<Beat>>,
    /// The interval between heartbeats, and between attempts of a standby to take a lease.
    interval: Duration,
}

#[derive(Debug)]
struct Shared {
    about: About,
    answering: Arc<AtomicU32>,
    /// No more heartbeats after leaving: one would bring the row back.
    left: AtomicBool,
}

/// Dropped with the last clone: a process that has left sends no heartbeat.
#[derive(Debug)]
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::Relaxed);
    }
}

impl Instance {
    /// Registers this process. It counts as dead after `ttl` without a heartbeat.
    pub async fn join(options: &Options, store: &Store, about: About, ttl: Duration) -> Result<Self, StoreError> {
        let answering = Arc::new(AtomicU32::new(1));
        let shared = Arc::new(Shared { about, answering, left: AtomicBool::new(false) });
        let interval = ttl / 3;
        let beats = if store.is_sqlite() {
            let about = shared.about.clone();
            store.write(move |tx| alone(tx, &about)).await?;
            None
        } else {
            Some(heartbeat::start(options, store, shared.clone(), ttl, interval)?)
        };
        let last = Arc::new(Last(shared.clone()));
        Ok(Self { shared, _last: last, beats, interval })
    }

    pub fn about(&self) -> &About {
        &self.shared.about
    }

    /// The number of processes that answer callers, as of the last heartbeat: each grants its share of the rate limits.
    pub fn answering(&self) -> Arc<AtomicU32> {
        self.shared.answering.clone()
    }

    /// Takes the lease, unless a live process holds it.
    pub async fn take(&self, store: &Store, kind: Kind) -> Result<Option<Lease>, StoreError> {
        let about = self.shared.about.clone();
        let epoch = store.write(move |tx| leases::take(tx, kind, &about.id, &about.name)).await?;
        let Some(epoch) = epoch else { return Ok(None) };
        Ok(Some(Lease::taken(kind, epoch, self.beats.as_ref())))
    }

    /// Stands by until the lease is ours.
    pub async fn acquire(&self, store: &Store, kind: Kind) -> Lease {
        let mut woken = store.woken();
        let mut trouble = false;
        loop {
            // A process without a heartbeat would lose the lease at once.
            if self.is_alive() {
                match self.take(store, kind).await {
                    Ok(Some(lease)) => return lease,
                    Ok(None) => trouble = false,
                    Err(error) => {
                        if !trouble {
                            warn!(error = &error as &dyn std::error::Error, "cannot take the {} lease", kind.name());
                        }
                        trouble = true;
                    }
                }
            }
            // A released lease is announced; a dead holder is found by polling.
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                changed = woken.changed() => if changed.is_err() { tokio::time::sleep(self.interval).await },
            }
        }
    }

    fn is_alive(&self) -> bool {
        self.beats.as_ref().is_none_or(|beats| beats.borrow().good_until > tokio::time::Instant::now())
    }

    /// Releases a lease, so that another process can take it at once.
    pub async fn release(&self, store: &Store, kind: Kind) -> Result<(), StoreError> {
        let id = self.shared.about.id.clone();
        store.write(move |tx| leases::release(tx, kind, &id)).await
    }

    /// Stops the heartbeat and deletes this process's row.
    pub async fn leave(&self, store: &Store) -> Result<(), StoreError> {
        self.shared.left.store(true, Ordering::Relaxed);
        let id = self.shared.about.id.clone();
        let unit = move |tx: &mut Tx<'_>| {
            tx.execute("delete from instance where instance_id = $1", &[id.as_str().into()]).map(drop)
        };
        store.write(unit).await
    }
}

/// A process as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub name: String,
    pub role: String,
}

/// All live processes.
pub fn alive(tx: &mut Tx<'_>) -> Result<Vec<Seen>, StoreError> {
    let rows = tx.rows("select name, role from instance where expires_at > {now_ms} order by started_at, name", &[])?;
    rows.iter().map(|row| Ok(Seen { name: row.text(0)?.to_owned(), role: row.text(1)?.to_owned() })).collect()
}

/// Registers the only process of a SQLite file, without expiry.
fn alone(tx: &mut Tx<'_>, about: &About) -> Result<(), StoreError> {
    tx.execute("delete from instance", &[])?;
    beat(tx, about, i64::MAX / 2).map(drop)
}

/// Writes a heartbeat and returns the count of heartbeats so far.
fn beat(tx: &mut Tx<'_>, about: &About, ttl_millis: i64) -> Result<i64, StoreError> {
    let row = tx.row(
        "insert into instance (instance_id, name, role, answers, started_at, beats, expires_at)
         values ($1, $2, $3, $4, {now_ms}, 1, {now_ms} + $5)
         on conflict (instance_id) do update set expires_at = excluded.expires_at, beats = instance.beats + 1
         returning beats",
        &[
            about.id.as_str().into(),
            about.name.as_str().into(),
            about.role.into(),
            i64::from(about.answers).into(),
            ttl_millis.into(),
        ],
    )?;
    row.ok_or(StoreError::ManyRows(0))?.int(0)
}
