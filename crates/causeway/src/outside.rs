//! Clock and randomness, which the rest of the code is handed.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::time::Timestamp;
use solver::solver::Outside;

pub fn outside() -> Outside {
    Outside { clock, random, crash: crate::crash::at }
}

pub fn clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives randomness");
}
