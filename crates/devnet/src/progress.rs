//! Progress messages while chains are made.

use std::fmt;
use std::sync::Arc;

/// A sink for progress messages to a person who waits at a terminal.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    pub fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(say))
    }

    pub fn silent() -> Self {
        Self::new(|_| ())
    }

    pub fn say(&self, sentence: &str) {
        (self.0)(sentence);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}
