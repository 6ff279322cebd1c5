//! CPU time of a process. On a shared machine it says more than wall-clock time: other load on the cores lowers a rate,
//! not the CPU time of a request.

use std::time::Duration;

/// The clock tick of `/proc`, the same for every build of Linux.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of all our threads since the start, including the load's; none if the system does not report it.
pub(crate) fn used() -> Option<Duration> {
    used_by(std::process::id())
}

/// CPU time of another process.
pub(crate) fn used_by(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse(&stat)
}

fn parse(stat: &str) -> Option<Duration> {
    // The second field is a name that may hold anything, so fields are counted from its closing bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<u32>().ok()?, fields.next()?.parse::<u32>().ok()?);
    Some(TICK * user.checked_add(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 99";
        assert_eq!(parse(stat), Some(Duration::from_secs(2)));
        assert_eq!(parse("42 (short) S 1"), None);
    }
}
