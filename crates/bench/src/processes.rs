//! CPU and memory of processes, from `/proc`. Without it there are no numbers.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cpu;

/// A process and its name.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub name: String,
    pub id: u32,
}

/// CPU time used by each process up to one moment.
#[derive(Clone, Debug)]
pub(crate) struct Harness {
    at: Instant,
    used: Vec<(String, Duration)>,
}

/// The share of one core that a process took, in thousandths.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Share {
    pub name: String,
    pub core_permille: u64,
}

pub(crate) fn now(watched: &[Watched]) -> Harness {
    let used = watched.iter().map(|it| (it.name.clone(), cpu::used_by(it.id).unwrap_or_default()));
    Harness { at: Instant::now(), used: used.collect() }
}

/// The share of each process since then, the largest first.
pub(crate) fn since(before: &Harness, watched: &[Watched]) -> Vec<Share> {
    let after = now(watched);
    let time = after.at.duration_since(before.at).as_millis().max(1);
    let share = |((name, then), (_, now)): (&(String, Duration), &(String, Duration))| {
        let permille = now.saturating_sub(*then).as_millis() * 1_000 / time;
        Share { name: name.clone(), core_permille: u64::try_from(permille).unwrap_or(u64::MAX) }
    };
    let mut shares: Vec<Share> = before.used.iter().zip(&after.used).map(share).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.core_permille));
    shares
}

/// Resident memory, in KiB.
pub(crate) fn resident_kib(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_has_a_size_and_a_share() {
        let watched = [Watched { name: "this".to_owned(), id: std::process::id() }];
        let before = now(&watched);
        assert!(resident_kib(std::process::id()).is_some_and(|kib| kib > 100));
        assert_eq!(since(&before, &watched).len(), 1);
    }
}
