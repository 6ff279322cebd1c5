//! Ports for services that are started later, in this process or another, and perhaps a second time.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

/// Below the ports that systems give to outgoing connections (from 32768 on Linux, from 49152 elsewhere). One of those
/// may be free when it is chosen and belong to somebody's connection when the service binds to it, or comes back to it
/// after a crash.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// A port that nobody listens on, given to one caller only in the life of this process.
pub fn free_port() -> Result<u16> {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    // Processes side by side begin far from each other.
    let next = NEXT.get_or_init(|| AtomicU32::new(process::id().wrapping_mul(7_919) % COUNT));
    for _ in 0..COUNT {
        let port = u16::try_from(FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("somebody listens on every port from {FIRST} to {}", FIRST + COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_and_never_one_of_the_systems_own() {
        let ports: Vec<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        let mut different = ports.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ports.len());
        assert!(ports.iter().all(|port| (20_000..32_000).contains(port)), "{ports:?}");
    }
}
