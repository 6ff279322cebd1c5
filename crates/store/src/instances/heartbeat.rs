//! The heartbeat of this process, on a thread and a connection of its own: nothing else can delay it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use postgres::fallible_iterator::FallibleIterator;
use tokio::sync::watch;
use tracing::{error, warn};

use super::{Shared, beat};
use crate::connection::Link;
use crate::engine::measure_answering;
use crate::leases::{Beat, Kind};
use crate::thread::spawn;
use crate::{Options, Store, StoreError, Tx};

/// The time the thread listens before it checks whether something else is due.
const LISTEN_INTERVAL: Duration = Duration::from_millis(200);
/// The most hanging connections that are abandoned for new ones.
const MAX_HANGING: u32 = 4;
/// The age at which rows of dead processes are deleted.
const FORGOTTEN_MILLIS: i64 = 3_600_000;

#[derive(Clone)]
struct Heartbeat {
    options: Options,
    /// Wakes the store's handles on a notification.
    wakes: Arc<watch::Sender<u64>>,
    shared: Arc<Shared>,
    ttl: Duration,
    interval: Duration,
    beats: Arc<watch::Sender<Beat>>,
    /// The number of heartbeats the database has had from us.
    count: Arc<AtomicI64>,
}

/// Sends the first heartbeat at once, so that the caller hears what is wrong; then goes on for as long as the process
/// lasts.
pub(crate) fn start(
    options: &Options,
    store: &Store,
    shared: Arc<Shared>,
    ttl: Duration,
    interval: Duration,
) -> Result<watch::Receiver<Beat>, StoreError> {
    let now = tokio::time::Instant::now();
    let (beats, receiver) = watch::channel(Beat { number: 0, good_until: now, held: Vec::new() });
    let (options, wakes) = (options.clone(), store.wakes());
    let heartbeat = Heartbeat { options, wakes, shared, ttl, interval, beats: Arc::new(beats), count: Arc::default() };
    let first = heartbeat.run()?;
    match first.recv_timeout(ttl.max(Duration::from_secs(10))) {
        Ok(result) => result?,
        Err(_) => return Err(StoreError::Timeout),
    }
    spawn("heartbeat-watch", (), move || watch_over(heartbeat, first))?;
    Ok(receiver)
}

/// A connection can hang without ending, and its thread with it: then another thread tries with another connection.
fn watch_over(heartbeat: Heartbeat, mut tries: Receiver<Result<(), StoreError>>) {
    let (patience, mut hanging) = (heartbeat.ttl * 3, 0);
    loop {
        match tries.recv_timeout(patience) {
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) if hanging >= MAX_HANGING => {
                error!("no connection to the database answers; this process counts as dead until one does");
            }
            Err(RecvTimeoutError::Timeout) => {
                warn!("the heartbeat connection hangs and is abandoned");
                hanging += 1;
                match heartbeat.run() {
                    Ok(next) => tries = next,
                    Err(error) => error!(error = &error as &dyn std::error::Error, "cannot restart the heartbeat"),
                }
            }
        }
    }
}

impl Heartbeat {
    /// Starts a thread that sends heartbeats until this process leaves. The result of every heartbeat is sent to the
    /// returned receiver; without a receiver the thread ends.
    fn run(&self) -> Result<Receiver<Result<(), StoreError>>, StoreError> {
        let heartbeat = self.clone();
        let mut link = Link::for_options(&self.options)?.ok_or(StoreError::Url("not a postgres url"))?;
        let (tell, told) = channel();
        spawn("store-heartbeat", (), move || heartbeat.beat_on(&mut link, &tell))?;
        Ok(told)
    }

    fn beat_on(&self, link: &mut Link, tell: &Sender<Result<(), StoreError>>) {
        let mut listening = false;
        while !self.shared.left.load(Ordering::Relaxed) {
            let began = Instant::now();
            let result = self.beat(link, &mut listening);
            if let Err(error) = &result {
                warn!(error = error as &dyn std::error::Error, "a heartbeat did not reach the database");
                link.lose();
                listening = false;
            }
            if tell.send(result).is_err() {
                return;
            }
            while began.elapsed() < self.interval && !self.shared.left.load(Ordering::Relaxed) {
                self.listen(link, listening);
            }
        }
    }

    fn beat(&self, link: &mut Link, listening: &mut bool) -> Result<(), StoreError> {
        let began = tokio::time::Instant::now();
        if !*listening {
            let client = link.connect()?;
            // A statement that takes longer than this is no heartbeat any more.
            let limit = self.ttl.as_millis().clamp(1, 60_000);
            client.batch_execute(&format!("set statement_timeout = {limit}; listen causeway"))?;
            *listening = true;
            // Covers notifications sent while nobody listened.
            self.wakes.send_modify(|count| *count += 1);
        }
        let (client, statements) = link.connected()?;
        client.is_valid(self.interval)?;
        let mut tx = Tx::postgres(client.transaction()?, statements);
        let ttl_millis = i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX / 2);
        let count = beat(&mut tx, &self.shared.about, ttl_millis)?;
        tx.execute("delete from instance where expires_at < {now_ms} - $1", &[FORGOTTEN_MILLIS.into()])?;
        let answering = "select count(*) from instance where answers = 1 and expires_at > {now_ms}";
        let answering = tx.row(answering, &[])?.ok_or(StoreError::ManyRows(0))?.u32(0)?;
        let mut held = held(&mut tx, &self.shared.about.id)?;
        tx.commit()?;
        if count <= self.count.swap(count, Ordering::Relaxed) {
            error!("the database is older than it was: every lease counts as lost and is taken again");
            held.clear();
        }
        self.shared.answering.store(answering, Ordering::Relaxed);
        measure_answering(answering);
        self.beats.send_modify(|beat| {
            *beat = Beat { number: beat.number + 1, good_until: began + self.ttl, held };
        });
        Ok(())
    }

    /// Waits for a notification for a moment.
    fn listen(&self, link: &mut Link, listening: bool) {
        let began = Instant::now();
        if listening
            && let Ok((client, _)) = link.connected()
            && let Ok(Some(_)) = client.notifications().timeout_iter(LISTEN_INTERVAL).next()
        {
            self.wakes.send_modify(|count| *count += 1);
            return;
        }
        // A connection that has ended does not wait.
        std::thread::sleep(LISTEN_INTERVAL.saturating_sub(began.elapsed()));
    }
}

fn held(tx: &mut Tx<'_>, id: &str) -> Result<Vec<(Kind, i64)>, StoreError> {
    let rows = tx.rows("select kind, epoch from lease where holder = $1", &[id.into()])?;
    let mut held = Vec::new();
    for row in rows {
        if let Some(kind) = Kind::named(row.text(0)?) {
            held.push((kind, row.int(1)?));
        }
    }
    Ok(held)
}
