//! Answers of nodes, kept for a while and read in the background, so that neither quoting nor paying waits for a node.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;

/// Answers kept. At this number all are dropped and read again.
const MAX_ANSWERS: usize = 100_000;
/// Concurrent reads; one more is not started.
const MAX_CONCURRENT_READS: usize = 32;

#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    inner: Mutex<Answers<K, V>>,
    reads: Arc<Semaphore>,
}

/// Answers by question, and the questions under way, each with the moment it was asked: an answer is as old as that.
#[derive(Debug)]
struct Answers<K, V> {
    known: HashMap<K, (V, Instant)>,
    asked: HashMap<K, Instant>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        let inner = Mutex::new(Answers { known: HashMap::new(), asked: HashMap::new() });
        Self { inner, reads: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)) }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Cache<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<(V, Instant)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).known.get(key).copied()
    }

    pub(crate) fn answered(&self, key: K, answer: Option<V>) {
        let Answers { known, asked } = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let began = asked.remove(&key).unwrap_or_else(Instant::now);
        let Some(answer) = answer else { return };
        if known.len() >= MAX_ANSWERS {
            known.clear();
        }
        known.insert(key, (answer, began));
    }
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    /// Runs a read in the background, unless the same one or too many are under way.
    pub(crate) fn ask(&self, key: K, read: impl Future<Output = ()> + Send + 'static) {
        let Ok(permit) = self.reads.clone().try_acquire_owned() else { return };
        if !self.begin(key) {
            return;
        }
        tokio::spawn(async move {
            let _permit = permit;
            read.await;
        });
    }

    /// False when the read is already under way.
    fn begin(&self, key: K) -> bool {
        let mut answers = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !answers.asked.contains_key(&key);
        if is_new {
            answers.asked.insert(key, Instant::now());
        }
        is_new
    }
}
