//! The answer to a quote, written by our writer and by `serde_json`, for the benchmark that says what our writer is worth.

use solver::Quoted;

use super::body::QuoteBody;
use super::response::QuoteResponse;
use crate::App;
use crate::caller::Caller;
use crate::in_process::Acting;
use crate::json::{self, Object};

/// A quote that is priced and not kept, to be written again and again.
#[derive(Debug)]
pub struct QuoteSample {
    app: App,
    quoted: Quoted,
}

impl App {
    /// Prices the body of a call to `/quote/v2`, without a key. None if it cannot be quoted.
    pub async fn sample_quote(&self, body: &[u8]) -> Option<QuoteSample> {
        let Object(body) = serde_json::from_slice::<Object<QuoteBody>>(body).ok()?;
        let mut ask = body.into_ask(&self.catalog, &Caller::from(&Acting::Nobody)).ok()?;
        self.quoter.prepare(&mut ask).await.ok()?;
        Some(QuoteSample { app: self.clone(), quoted: self.quoter.price(ask).ok()? })
    }
}

impl QuoteSample {
    /// Hands two writers of the same answer to `measure`: ours and `serde_json`, which begins with as much room. None if
    /// there is no answer to write.
    pub fn compare<T>(&self, measure: impl FnOnce(&dyn Fn() -> Vec<u8>, &dyn Fn() -> Vec<u8>) -> T) -> Option<T> {
        let answer = QuoteResponse::new(&self.quoted, &self.app.catalog, &self.app.rendered, None)?;
        let ours = || json::by_us(&answer).unwrap_or_default();
        let theirs = || json::by_serde_json(&answer).unwrap_or_default();
        Some(measure(&ours, &theirs))
    }
}
