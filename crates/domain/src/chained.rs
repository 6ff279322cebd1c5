//! How an error is written to the log: with everything that caused it, on one line.

/// An error with everything that caused it, on one line.
#[derive(Debug)]
pub struct Chained<'a>(pub &'a dyn std::error::Error);

impl std::fmt::Display for Chained<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
