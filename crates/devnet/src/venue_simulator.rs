//! A simulator of the perpetuals venue: its public HTTP API for accounts, nonces, fees and transfers, with real
//! signatures.
//!
//! It verifies what the venue verifies, both signatures included, and keeps its books in a journal, so that it
//! continues after its own end. It has no order book, no positions, no proofs and no withdrawals to a chain.

mod accounts;
mod answers;
mod api;
mod book;
mod faults;
mod journal;
mod refusal;
mod setup;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use domain::venue::TxStatus;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;
use venue::{Digest, Network, SignedTransfer};

pub use self::faults::{VenueFault, VenueFaults};
pub use self::setup::{BookedTransfer, NewAccount, VenueAccount};

use self::book::Book;
use self::journal::Journal;

/// Nothing signed for the simulator counts on the real venue.
pub(crate) const NETWORK: Network = Network::TESTNET;

/// Transactions that a fault keeps back.
const MAX_HELD: usize = 64;

#[derive(Clone, Debug)]
pub struct VenueOptions {
    /// A free one by default.
    pub port: u16,
    /// From the taking of a transaction to its commit, and again to its execution.
    pub step: Duration,
}

impl Default for VenueOptions {
    fn default() -> Self {
        Self { port: 0, step: Duration::from_millis(200) }
    }
}

/// A running simulator. It stops answering when it is dropped; the journal stays.
#[derive(Debug, Serialize)]
pub struct VenueSimulator {
    pub url: Url,
    pub network_id: u32,
    #[serde(skip)]
    pub faults: VenueFaults,
    #[serde(skip)]
    state: Arc<State>,
    #[serde(skip)]
    task: JoinHandle<()>,
}

/// The state behind the API.
#[derive(Debug)]
struct State {
    books: Mutex<Books>,
    faults: VenueFaults,
    step: Duration,
    /// When the last transaction was taken.
    taken: watch::Sender<Option<Instant>>,
}

#[derive(Debug)]
struct Books {
    book: Book,
    /// None once the simulator has ended: its file may be another's by then.
    journal: Option<Journal>,
    /// Transactions that a fault keeps back. They are in nobody's books yet, and a restart forgets them.
    held: Vec<SignedTransfer>,
    /// Looks at a transaction while it flickers.
    looks: HashMap<Digest, u64>,
}

impl VenueSimulator {
    /// Starts with the journal in the folder, or with an empty one.
    pub async fn start(folder: &Path, options: VenueOptions) -> Result<Self> {
        let (journal, entries) = Journal::open(&Self::journal_file(folder))?;
        let mut book = Book::default();
        for entry in &entries {
            book.apply(entry).context("the journal of the venue simulator cannot be read")?;
        }
        let listener = TcpListener::bind(("127.0.0.1", options.port))
            .await
            .with_context(|| format!("cannot listen on port {}; choose another", options.port))?;
        let url = Url::parse(&format!("http://{}", listener.local_addr()?))?;
        let faults = VenueFaults::default();
        let books = Mutex::new(Books { book, journal: Some(journal), held: Vec::new(), looks: HashMap::new() });
        let taken = watch::Sender::new(None);
        let state = Arc::new(State { books, faults: faults.clone(), step: options.step, taken });
        let app = api::router(state.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!("the venue simulator ended: {error}");
            }
        });
        Ok(Self { url, network_id: NETWORK.0, faults, state, task })
    }

    /// Tells of every transaction that is taken, by the moment at which it was on disk.
    pub fn taken(&self) -> watch::Receiver<Option<Instant>> {
        self.state.taken.subscribe()
    }

    /// Removes the journal of an earlier run.
    pub(crate) fn forget(folder: &Path) -> Result<()> {
        match std::fs::remove_file(Self::journal_file(folder)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context("cannot remove the venue's journal")
            }
            _ => Ok(()),
        }
    }

    fn journal_file(folder: &Path) -> PathBuf {
        folder.join("venue.journal")
    }
}

impl Drop for VenueSimulator {
    fn drop(&mut self) {
        self.state.books().journal = None;
        self.task.abort();
    }
}

impl State {
    fn books(&self) -> MutexGuard<'_, Books> {
        // A poisoned lock is safe to enter: an entry is applied after it is written, in one step.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when the simulator was dropped: connections that are still open lead nowhere.
    fn has_ended(&self) -> bool {
        self.books().journal.is_none()
    }

    /// The books as they stand now: transactions that are due have moved on.
    fn current(&self) -> Result<MutexGuard<'_, Books>> {
        let fault = self.faults.get();
        let mut books = self.books();
        if !fault.hold_sends {
            books.release(self.now_millis(), fault.reorder)?;
        }
        let due = books.book.due(self.now_millis(), self.step, &fault);
        for entry in due {
            books.write(entry)?;
        }
        Ok(books)
    }

    /// Milliseconds on the venue's clock.
    #[expect(clippy::disallowed_methods, reason = "the venue has a clock of its own")]
    fn now_millis(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        now.saturating_add_signed(self.faults.get().clock_offset_millis)
    }
}

impl Books {
    /// The status that the next look at a transaction shows while it flickers: the true one, none, the true one,
    /// another one. None is "not found".
    fn flickering(&mut self, hash: Digest, status: TxStatus) -> Option<TxStatus> {
        let looks = self.looks.entry(hash).or_default();
        *looks = looks.wrapping_add(1);
        match *looks % 4 {
            2 => None,
            0 if status == TxStatus::Executed => Some(TxStatus::Failed),
            0 => Some(TxStatus::Executed),
            _ => Some(status),
        }
    }

    /// Keeps a transaction back, once.
    fn hold(&mut self, signed: SignedTransfer) -> Result<()> {
        if self.held.iter().all(|held| held.hash(NETWORK) != signed.hash(NETWORK)) {
            ensure!(self.held.len() < MAX_HELD, "more than {MAX_HELD} transactions are kept back");
            self.held.push(signed);
        }
        Ok(())
    }

    /// Takes the transactions that were kept back. One that the venue would refuse by now is rejected.
    fn release(&mut self, now: u64, last_first: bool) -> Result<()> {
        let mut held = std::mem::take(&mut self.held);
        if last_first {
            held.reverse();
        }
        for signed in held {
            let info = signed.to_json();
            let entry = match self.book.judge(&signed, now) {
                Ok(()) => journal::Entry::Taken { info, at: now },
                Err(_) if self.book.tx(signed.hash(NETWORK)).is_some() => continue,
                Err(_) => journal::Entry::Rejected { info, at: now },
            };
            self.write(entry)?;
        }
        Ok(())
    }

    /// On disk first, then in the books.
    fn write(&mut self, entry: journal::Entry) -> Result<()> {
        self.journal.as_mut().context("the venue simulator has ended")?.append(&entry)?;
        self.book.apply(&entry)
    }
}
