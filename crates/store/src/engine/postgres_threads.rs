//! Units on Postgres: a pool of threads, one connection each.
//!
//! Writes are `serializable`, so that a unit means the same as on SQLite, where there is one writer; `{for_update}`
//! makes the common conflicts wait instead of fail. A unit that fails runs again, a few times beside the others and
//! then alone in this process, so that it gets through. A commit whose answer was lost is reported and never repeated.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use postgres::IsolationLevel;
use tokio::sync::mpsc;

use super::measure::{Counts, money_queued};
use super::read_queue::Priority;
use super::unit::{ReadUnit, Unit, Verdict};
use super::watchdog::{Waiting, Watchdog};
use super::{Inbox, postgres_quotes, read_queue};
use crate::connection::{Link, Session, jittered};
use crate::error::Fault;
use crate::options::Route;
use crate::thread::spawn;
use crate::{Options, PostgresFault, PostgresUrl, StoreError, Tx};

/// The attempts at a unit before its caller hears of the failure.
const ATTEMPTS: u32 = 10;
/// The attempts that run beside other units.
const SIDE_BY_SIDE: u32 = 4;
const RETRY_DELAY: Duration = Duration::from_millis(2);

type MoneyQueue = Arc<Mutex<mpsc::Receiver<Box<dyn Unit>>>>;

pub(crate) fn start(url: &PostgresUrl, options: &Options, inbox: Inbox) -> Result<(), StoreError> {
    let route = Route::new(url)?;
    let money = Arc::new(Mutex::new(inbox.money));
    let turn = Arc::new(RwLock::new(()));
    let mut watchdog = Watchdog::default();
    for number in 0..options.postgres_threads.max(1) {
        let mut pool = Pool {
            link: Link::new(route.clone(), Session::Write),
            money: money.clone(),
            counts: inbox.counts.clone(),
            turn: turn.clone(),
            waiting: watchdog.over_one(),
        };
        spawn(&format!("store-write-{number}"), inbox.running.clone(), move || pool.run())?;
    }
    let readers = [
        ("reads", Priority::Usual, inbox.reads, options.reader_threads, options.read_limit),
        ("lists", Priority::Low, inbox.lists, options.list_threads, options.list_limit),
    ];
    for (name, priority, reads, threads, limit) in readers {
        let reads = read_queue::shared(name, priority, reads);
        for number in 0..threads.max(1) {
            let mut link = Link::new(route.clone(), Session::Read { limit });
            let (reads, waiting) = (reads.clone(), watchdog.over_one());
            spawn(&format!("store-{name}-{number}"), inbox.running.clone(), move || {
                read_queue::take_priority(&reads);
                while let Some(mut read) = read_queue::next(&reads) {
                    let result = waiting.during(|| read_one(&mut link, &mut read));
                    read.unit.answer(result);
                }
            })?;
        }
    }
    let waiting = watchdog.over_one();
    watchdog.keep(options.silence_limit)?;
    postgres_quotes::start(Link::new(route, Session::Write), inbox.quotes, inbox.counts, waiting, inbox.running)
}

/// One thread of the pool.
struct Pool {
    link: Link,
    money: MoneyQueue,
    counts: Arc<Counts>,
    /// Read-locked by units that run side by side, write-locked by one that must run alone.
    turn: Arc<RwLock<()>>,
    waiting: Waiting,
}

impl Pool {
    fn run(&mut self) {
        while let Some(mut unit) = self.next() {
            let result = self.write(unit.as_mut());
            unit.answer(result);
        }
    }

    fn next(&self) -> Option<Box<dyn Unit>> {
        let mut money = self.money.lock().unwrap_or_else(PoisonError::into_inner);
        let unit = money.blocking_recv()?;
        money_queued(money.len());
        Some(unit)
    }

    fn write(&mut self, unit: &mut dyn Unit) -> Result<(), StoreError> {
        let turn = self.turn.clone();
        let mut last = Fault::Contention;
        for attempt in 1..=ATTEMPTS {
            let (_beside, _alone) = if attempt <= SIDE_BY_SIDE {
                (Some(turn.read().unwrap_or_else(PoisonError::into_inner)), None)
            } else {
                (None, Some(turn.write().unwrap_or_else(PoisonError::into_inner)))
            };
            match self.waiting.during(|| attempt_write(&mut self.link, unit, &self.counts))? {
                None => return Ok(()),
                Some(fault) => last = fault,
            }
            if last == Fault::Lost {
                self.link.lose();
            }
            self.counts.retried();
            drop((_beside, _alone));
            std::thread::sleep(jittered(RETRY_DELAY * attempt));
        }
        // A database that accepts connections and drops them is as good as down.
        Err(match last {
            Fault::Lost => StoreError::Unavailable(PostgresFault::lost()),
            Fault::Contention | Fault::Statement => StoreError::Contended { attempts: ATTEMPTS },
        })
    }
}

/// Runs the unit in one transaction. `Some` means that nothing was written and the unit should run again.
fn attempt_write(link: &mut Link, unit: &mut dyn Unit, counts: &Counts) -> Result<Option<Fault>, StoreError> {
    let (client, statements) = link.connected()?;
    let Ok(transaction) = client.build_transaction().isolation_level(IsolationLevel::Serializable).start() else {
        return Ok(Some(Fault::Lost));
    };
    let mut tx = Tx::postgres(transaction, statements);
    let verdict = unit.run(&mut tx);
    match verdict {
        Verdict::Commit => {
            let began = Instant::now();
            match tx.commit() {
                Ok(()) => {
                    counts.committed(1, 0, began.elapsed());
                    Ok(None)
                }
                Err(error) => match Fault::of(&error) {
                    Fault::Contention => Ok(Some(Fault::Contention)),
                    Fault::Statement => Err(error.into()),
                    Fault::Lost => {
                        link.lose();
                        Err(StoreError::CommitUnknown)
                    }
                },
            }
        }
        Verdict::RollBack => {
            if tx.roll_back().is_err() {
                link.lose();
            }
            Ok(None)
        }
        Verdict::Again(fault) => {
            if fault != Fault::Lost && tx.roll_back().is_err() {
                link.lose();
            }
            Ok(Some(fault))
        }
    }
}

fn read_one(link: &mut Link, read: &mut ReadUnit) -> Result<(), StoreError> {
    while Instant::now() < read.deadline {
        let (client, statements) = link.connected()?;
        let builder = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let verdict = match builder.start() {
            Ok(transaction) => read.unit.run(&mut Tx::postgres(transaction, statements).until(read.deadline)),
            Err(_) => Verdict::Again(Fault::Lost),
        };
        match verdict {
            Verdict::Commit | Verdict::RollBack => return Ok(()),
            Verdict::Again(Fault::Lost) => link.lose(),
            Verdict::Again(_) => {}
        }
    }
    Err(StoreError::Timeout)
}
