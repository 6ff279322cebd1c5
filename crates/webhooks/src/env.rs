//! The outside world and the settings, handed down by the binary.

use std::time::Duration;

use domain::time::Timestamp;
use domain::webhook::Retries;

/// Posts under way to one receiver that answers well. Connections to it are kept open for as many.
///
/// It is also the most that a process repeats of one endpoint after it was killed.
pub const MAX_POSTS_PER_ENDPOINT: usize = 16;

/// Functions of the outside world, handed down so that tests can hand down their own.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    pub clock: fn() -> Timestamp,
    pub random: fn(&mut [u8]),
    /// Called at every crash point, where dying must be harmless.
    pub crash: fn(&'static str),
}

impl Env {
    pub(crate) fn roll(self) -> u16 {
        let mut bytes = [0; 2];
        (self.random)(&mut bytes);
        u16::from_be_bytes(bytes)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Loopback addresses and plain HTTP are allowed, for receivers on the same machine.
    pub allow_local: bool,
    pub retries: Retries,
    /// Deliveries that this process begins in a second, at most.
    pub max_per_second: u32,
    /// One attempt, from the name lookup to the last byte that is read.
    pub attempt_timeout: Duration,
    pub connect_timeout: Duration,
    /// The time after its first attempt for which an event holds up later ones of its request.
    pub order_hold: Duration,
    /// The age at which a delivery that is still due is given up.
    pub max_age: Duration,
    /// The age at which the log of an ended delivery is deleted.
    pub kept_for: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow_local: false,
            retries: Retries { most: 10, first_delay: Duration::from_secs(5) },
            max_per_second: 1_200,
            attempt_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            order_hold: Duration::from_secs(60),
            max_age: Duration::from_secs(24 * 3600),
            kept_for: Duration::from_secs(30 * 24 * 3600),
        }
    }
}
