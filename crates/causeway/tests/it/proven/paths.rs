//! The paths that webhooks tell, and the stories in which a receiver gets exactly their events, in order and signed.

use std::fs;

use anyhow::{Context, Result};

use super::{Proof, crates};

const PLAIN: &str = "every_path_tells_exactly_its_sequence";
const TURNS: &str = "every_path_that_turns_tells_exactly_its_sequence";
const VENUE: &str = "every_path_through_the_venue_tells_exactly_its_sequence";

/// The paths of a request, as `docs/webhooks.md` has them.
pub(super) const PATHS: &[Proof] = &[
    ("ordinary, into the venue and out of it too", &[PLAIN, VENUE]),
    ("announced by `/transactions/index` before it is in a block, or executed on the venue", &[PLAIN, VENUE]),
    ("never paid", &[PLAIN]),
    ("gasless: a signed deposit that the service sends (`docs/gasless.md`)", &[PLAIN]),
    ("gasless on the same chain", &[PLAIN]),
    ("gasless, and the relayed transaction is lost or fails", &[PLAIN]),
    ("deposit address", &[PLAIN]),
    ("another amount or currency at an open deposit address", &[TURNS]),
    ("fast fill, ahead of the deposit", &[PLAIN, VENUE]),
    ("fast fill that fails", &[TURNS]),
    ("same chain", &[PLAIN, "a_same_chain_request_ends_as_the_chain_shows_it_last"]),
    ("refund", &[PLAIN, TURNS, VENUE]),
    ("no refund possible", &[PLAIN, TURNS, VENUE]),
    ("refund by a person, after no other was possible", &[TURNS]),
    ("deposit taken back by a reorg before it counted", &[PLAIN]),
    ("deposit taken back by a reorg before its fill was decided", &[TURNS]),
    ("second or wrong deposit", &[PLAIN]),
];

/// The rows of the table in `docs/webhooks.md`.
pub(super) fn documented_paths() -> Result<Vec<String>> {
    let page = fs::read_to_string(crates().join("../docs/webhooks.md"))?;
    let (_, table) = page.split_once("| path | events |\n|---|---|\n").context("the table of paths")?;
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| Ok(row.split('|').nth(1).context("a path")?.trim().to_owned())).collect()
}
