//! The keys callers show, as the database has them: remembered for a moment, so that a quote does not wait for a read.
//!
//! A key in use is read again in the background every other second and never trusted for longer than five: that is how
//! soon a revocation takes effect. Texts that are no key are remembered apart, so that guessing cannot push out the
//! keys in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::api_key::{ApiKey, ApiKeyId, KeyText};
use domain::time::Timestamp;
use solver::error::Chained;
use store::keys::{self, KeyHash};
use store::{Store, StoreError};
use tracing::warn;

/// Older than this and it is read again, while the caller goes on with what is known.
const KEY_CACHE_TTL: Duration = Duration::from_secs(2);
/// Older than this and the caller waits.
const KEY_TTL: Duration = Duration::from_secs(5);
/// Of keys, and of texts that are none.
const MAX_CACHED_KEYS: usize = 10_000;

#[derive(Debug)]
pub struct Keys {
    store: Store,
    clock: fn() -> Timestamp,
    known: Mutex<HashMap<KeyHash, Known>>,
    unknown: Mutex<HashMap<KeyHash, Instant>>,
}

#[derive(Debug)]
struct Known {
    key: Arc<ApiKey>,
    read_at: Instant,
    being_read: bool,
}

/// The key behind a text, as it was read.
#[derive(Debug)]
pub enum Memory {
    Key(Arc<ApiKey>),
    NoKey,
    /// Only the database knows.
    Nothing,
}

impl Keys {
    pub fn new(store: Store, clock: fn() -> Timestamp) -> Self {
        Self { store, clock, known: Mutex::default(), unknown: Mutex::default() }
    }

    /// From memory. A key that is about to be forgotten is read again in the background.
    pub fn remembered(self: &Arc<Self>, text: &KeyText) -> Memory {
        let (hash, now) = (KeyHash::of(text), Instant::now());
        let age = |read_at: Instant| now.saturating_duration_since(read_at);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get_mut(&hash).filter(|entry| age(entry.read_at) <= KEY_TTL) {
            if age(entry.read_at) > KEY_CACHE_TTL && !entry.being_read {
                entry.being_read = true;
                tokio::spawn(self.clone().read_again(hash));
            }
            return Memory::Key(entry.key.clone());
        }
        drop(known);
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was made a moment ago is good at once for everybody who did not ask before.
        if unknown.get(&hash).is_some_and(|read_at| age(*read_at) <= KEY_CACHE_TTL) {
            Memory::NoKey
        } else {
            Memory::Nothing
        }
    }

    /// From the database.
    pub async fn read(&self, text: &KeyText) -> Result<Option<Arc<ApiKey>>, StoreError> {
        self.fetch(KeyHash::of(text)).await
    }

    /// A key that was changed here is read again by the next who asks. Other instances hear of it within seconds.
    pub fn forget(&self, id: ApiKeyId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, entry| entry.key.id != id);
    }

    async fn read_again(self: Arc<Self>, hash: KeyHash) {
        if let Err(error) = self.fetch(hash).await {
            warn!(error = %Chained(&error), "a key could not be read again");
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = known.get_mut(&hash) {
                entry.being_read = false;
            }
        }
    }

    async fn fetch(&self, hash: KeyHash) -> Result<Option<Arc<ApiKey>>, StoreError> {
        // The row was as it is read when the read began.
        let (read_at, now) = (Instant::now(), (self.clock)());
        let key = self.store.read(move |tx| keys::by_hash(tx, hash, now)).await?.map(Arc::new);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &key {
            unknown.remove(&hash);
            // Reads may overtake each other: the one that began last counts.
            if known.get(&hash).is_none_or(|entry| entry.read_at <= read_at) {
                make_room(&mut known, |entry| entry.read_at);
                known.insert(hash, Known { key: key.clone(), read_at, being_read: false });
            }
        } else {
            known.remove(&hash);
            make_room(&mut unknown, |read_at| *read_at);
            unknown.insert(hash, read_at);
        }
        Ok(key)
    }
}

/// Forgets what is too old to be of use; if all is in use, one of them.
fn make_room<V>(memory: &mut HashMap<KeyHash, V>, read_at: impl Fn(&V) -> Instant) {
    if memory.len() < MAX_CACHED_KEYS {
        return;
    }
    memory.retain(|_, entry| read_at(entry).elapsed() <= KEY_TTL);
    if memory.len() >= MAX_CACHED_KEYS {
        let any = memory.keys().next().copied();
        any.map(|hash| memory.remove(&hash));
    }
}
