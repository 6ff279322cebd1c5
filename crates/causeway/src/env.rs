//! Clock and randomness, passed to the rest of the code.

use std::time::{SystemTime, UNIX_EPOCH};

use alloy::primitives::hex;
use domain::time::Timestamp;
use solver::Env;
use store::instances::About;

use crate::role::Role;

pub fn system_env() -> Env {
    Env { clock, random, crash: crate::crash::at }
}

/// This process's identity for other processes: its activity and a random id.
pub fn about(role: Role, does: &str, env: Env) -> About {
    let mut id = [0; 16];
    (env.random)(&mut id);
    let id = hex::encode(id);
    About { name: format!("{does}-{}", &id[..8]), id, role: role.name(), answers: role.answers() }
}

#[expect(clippy::disallowed_methods, reason = "the clock that all others are handed")]
pub fn clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives randomness");
}
