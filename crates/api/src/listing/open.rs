//! Answers that go on for long: how many of them are open, and that they end with the service.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::api_key::ApiKeyId;
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;

/// Of one process: for one key, and in all.
const EXPORTS: (usize, usize) = (2, 8);
const STREAMS: (usize, usize) = (10, 200);
/// Streams of the dashboard's pages, each a tab that somebody sees: they take nothing from those of the key.
const WATCHES: (usize, usize) = (20, 200);
const RETRY_AFTER_SECS: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Long {
    Export,
    Stream,
    Watch,
}

#[derive(Debug)]
pub struct OpenAnswers {
    counts: Mutex<HashMap<(Long, ApiKeyId), usize>>,
    stop: CancellationToken,
}

/// One open answer. It counts until it is dropped.
#[derive(Debug)]
pub struct Open {
    all: Arc<OpenAnswers>,
    what: (Long, ApiKeyId),
}

impl OpenAnswers {
    /// `stop` ends them all.
    pub fn new(stop: CancellationToken) -> Self {
        Self { counts: Mutex::default(), stop }
    }

    pub fn open(self: &Arc<Self>, kind: Long, key: ApiKeyId) -> Result<Open, ApiError> {
        let (per_key, in_all) = match kind {
            Long::Export => EXPORTS,
            Long::Stream => STREAMS,
            Long::Watch => WATCHES,
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let open: usize = counts.iter().filter(|((known, _), _)| *known == kind).map(|(_, count)| count).sum();
        let own = counts.entry((kind, key)).or_default();
        if *own >= per_key || open >= in_all {
            return Err(ApiError::TooMany { retry_after_secs: RETRY_AFTER_SECS });
        }
        *own += 1;
        Ok(Open { all: self.clone(), what: (kind, key) })
    }
}

impl Open {
    pub fn stop(&self) -> &CancellationToken {
        &self.all.stop
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut counts = self.all.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.what) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_few_open_and_gets_them_back() {
        let all = Arc::new(OpenAnswers::new(CancellationToken::new()));
        let (one, other) = (ApiKeyId::new([1; 10]), ApiKeyId::new([2; 10]));
        let first = all.open(Long::Export, one).unwrap();
        let second = all.open(Long::Export, one).unwrap();
        assert!(matches!(all.open(Long::Export, one), Err(ApiError::TooMany { .. })));
        assert!(all.open(Long::Export, other).is_ok());
        assert!(all.open(Long::Stream, one).is_ok());
        let watches: Vec<_> = (0..20).map(|_| all.open(Long::Watch, one).unwrap()).collect();
        assert!(all.open(Long::Watch, one).is_err() && all.open(Long::Stream, one).is_ok());
        drop(watches);
        drop(first);
        let third = all.open(Long::Export, one).unwrap();
        drop((second, third));
        assert!(all.counts.lock().unwrap().is_empty());
    }

    #[test]
    fn all_keys_together_have_a_limit() {
        let all = Arc::new(OpenAnswers::new(CancellationToken::new()));
        let key = |n: u8| ApiKeyId::new([n; 10]);
        let open: Vec<_> = (0..8).map(|n| all.open(Long::Export, key(n)).unwrap()).collect();
        assert!(all.open(Long::Export, key(9)).is_err());
        drop(open);
        assert!(all.open(Long::Export, key(9)).is_ok());
    }
}
