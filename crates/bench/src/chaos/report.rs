//! The report of a chaos run, for people and for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use harness::Engine;
use serde::Serialize;
use tokio::sync::watch;

use super::ChaosArgs;
use super::faults::{Counts, get};
use super::hooks::HookTally;
use super::plan::{Kind, Transfer};
use super::richer::Gains;
use super::traffic::Traffic;
use super::verdict::Tally;
use super::worth::dollars;

/// Seconds of two parts of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Phases {
    /// Until the last fault, user and attempt of the adversary.
    pub faults: f64,
    /// Until every transfer had ended, after that.
    pub endings: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub seed: u64,
    pub transfers: u64,
    pub database: Engine,
    pub seconds: u64,
    pub phases: Phases,
    pub kinds: BTreeMap<Kind, usize>,
    pub kills: u64,
    pub crashes: u64,
    pub ended: u64,
    pub reorgs: u64,
    pub transactions_removed: u64,
    pub transactions_moved: u64,
    pub faults: u64,
    pub venue_faults: u64,
    pub venue_restarts: u64,
    /// Fast fills that were accepted.
    pub ahead: usize,
    /// Permits of users that were taken.
    pub permits: usize,
    /// Raw calls of users that were taken.
    pub calls: usize,
    #[serde(flatten)]
    pub tally: Tally,
    pub gains: Gains,
    pub hooks: HookTally,
    /// Rows the audit compared.
    pub audited: u64,
    /// Everything that went wrong; empty after a good run.
    pub wrong: Vec<String>,
}

impl Report {
    pub(crate) fn new(counts: &Counts, transfers: &[Transfer], tally: Tally, wrong: Vec<String>) -> Self {
        let mut kinds = BTreeMap::new();
        for transfer in transfers {
            *kinds.entry(transfer.kind).or_default() += 1;
        }
        Self {
            seed: 0,
            transfers: 0,
            database: Engine::Sqlite,
            seconds: 0,
            phases: Phases::default(),
            kinds,
            kills: get(&counts.kills),
            crashes: get(&counts.crashes),
            ended: get(&counts.ended),
            reorgs: get(&counts.reorgs),
            transactions_removed: get(&counts.removed),
            transactions_moved: get(&counts.moved),
            faults: get(&counts.faults),
            venue_faults: get(&counts.venue_faults),
            venue_restarts: get(&counts.venue_restarts),
            ahead: 0,
            permits: 0,
            calls: 0,
            tally,
            gains: Gains::default(),
            hooks: HookTally::default(),
            audited: 0,
            wrong,
        }
    }

    fn of(&self, kind: Kind) -> usize {
        self.kinds.get(&kind).copied().unwrap_or_default()
    }

    pub(crate) fn print(&self) {
        let Tally { deposits, fills, refunds, returns, kept, abandoned, losses } = self.tally;
        let Phases { faults, endings } = self.phases;
        let (seed, database, seconds) = (self.seed, self.database.name(), self.seconds);
        println!(
            "seed {seed} on {database}, {seconds} s: {faults:.1} s of faults, {endings:.1} s more to the last end"
        );
        println!(
            "{} killed, {} died at a crash point, {} ended by themselves; {} faults of nodes; {} reorgs took away {} \
             transactions and put {} of them elsewhere",
            self.kills,
            self.crashes,
            self.ended,
            self.faults,
            self.reorgs,
            self.transactions_removed,
            self.transactions_moved
        );
        println!("{} faults of the venue, {} restarts of it", self.venue_faults, self.venue_restarts);
        println!(
            "{deposits} deposits of {} transfers: {fills} filled, {refunds} refunded, {returns} returned, {kept} not \
             worth it; {abandoned} more gone with their blocks, {losses} of them paid for",
            self.transfers
        );
        println!(
            "{} sponsored, {} of {} promised ahead of their deposits",
            self.of(Kind::Sponsored),
            self.ahead,
            self.of(Kind::Ahead)
        );
        println!(
            "{} into the venue, {} out of it, {} at deposit addresses; {} of {} permits and {} of {} raw calls taken",
            self.of(Kind::VenueIn),
            self.of(Kind::VenueOut) + self.of(Kind::VenueOdd),
            self.of(Kind::OpenAddress) + self.of(Kind::StrictAddress),
            self.permits,
            self.of(Kind::Authorization) + self.of(Kind::Permit2),
            self.calls,
            self.of(Kind::UserOperation) + self.of(Kind::DelegatedBatch)
        );
        let usd = |micros: i64| dollars(i128::from(micros));
        println!("the price of ether moved {} times", self.gains.price_moves);
        for (trick, score) in &self.gains.tricks {
            let (attempts, refused) = (score.attempts, score.refused);
            let (gain, best) = (usd(score.gain), usd(score.best));
            println!("{trick:?}: {attempts} attempts, {refused} refused; gain {gain} dollars, {best} at best");
        }
        let Gains { lucky, integrator, house, .. } = self.gains;
        println!(
            "gain of the house {}, of the integrator {}, of users whose deposits are gone {} dollars",
            usd(house),
            usd(integrator),
            usd(lucky)
        );
        let HookTally { events, repeats, refused } = self.hooks;
        println!("{events} webhooks, {repeats} of them again under their id, {refused} posts refused");
        println!("the audit compared {} things", self.audited);
        if self.wrong.is_empty() {
            println!("every deposit has exactly one end, nobody is richer than they should be, and all of it was told");
        }
        for wrong in self.wrong.iter().take(50) {
            println!("WRONG: {wrong}");
        }
        if self.wrong.len() > 50 {
            println!("and {} more", self.wrong.len() - 50);
        }
    }
}

/// Prints progress every few seconds until the last fault.
pub(crate) async fn speak(
    counts: &Counts,
    traffic: &Traffic<'_>,
    args: &ChaosArgs,
    transfers: &[Transfer],
    clouds: &watch::Receiver<bool>,
) {
    let mut clouds = clouds.clone();
    while tokio::time::timeout(Duration::from_secs(5), clouds.wait_for(|calm| *calm)).await.is_err() {
        let quoted = transfers.iter().filter(|transfer| traffic.order(transfer.index).is_some()).count();
        eprintln!(
            "{} of {} kills, {} reorgs, {} faults; {quoted} quotes, {} deposits",
            get(&counts.kills),
            args.kills,
            get(&counts.reorgs),
            get(&counts.faults),
            traffic.deposits().len()
        );
    }
}
