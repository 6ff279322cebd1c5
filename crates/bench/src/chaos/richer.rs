//! The verdict on money: nobody ended richer than they should.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use alloy::primitives::Address;
use anyhow::{Result, bail};
use devnet::Devnet;
use serde::Serialize;

use super::adversary::{Adversary, Attempt, Score, Trick};
use super::market::Market;
use super::plan::Transfer;
use super::record::Record;
use super::traffic::{Integrator, Traffic};
use super::verdict::Books;
use super::worth::{Party, TOLERANCE, dollars, least_gain};

/// The service may know a price that is this old.
const PRICE_AGE: Duration = Duration::from_secs(5);

/// Gains in millionths of a dollar, each part at the price of its moment.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Gains {
    /// Moves of the price of ether.
    pub price_moves: usize,
    pub tricks: BTreeMap<Trick, Score>,
    /// Users whose deposits a reorg took away and whose orders were filled all the same: the risk of paying before
    /// finality.
    pub lucky: i64,
    pub integrator: i64,
    /// The service itself: wallets, treasury, depositories and the account on the venue, less what it owes as app
    /// balances.
    pub house: i64,
}

/// The accounts of one transfer. A smart account may have another address than its owner.
fn party(transfer: &Transfer, traffic: &Traffic<'_>) -> Party {
    let mut accounts = vec![transfer.user.address, transfer.stranger.address, transfer.recipient];
    let smart = traffic.account(transfer.index).map(|account| account.address);
    accounts.extend(smart.filter(|address| *address != transfer.user.address));
    Party { accounts, wallets: Vec::new() }
}

/// Users, and those who are followed: the adversary's attempts, the integrator and the service itself.
pub(crate) fn parties(
    (traffic, transfers): (&Traffic<'_>, &[Transfer]),
    adversary: &Adversary,
    integrator: &Integrator,
    (devnet, books): (&Devnet, &Books),
) -> (Vec<Party>, Vec<Party>) {
    let wallet = integrator.wallet.address;
    let integrator = Party { accounts: vec![wallet], wallets: vec![wallet] };
    let depositories: BTreeSet<Address> = devnet.chains.iter().map(|chain| chain.contracts.depository).collect();
    let ours = books.wallets.iter().copied().chain([books.treasury]).chain(depositories);
    let house = Party { accounts: ours.collect(), wallets: Vec::new() };
    let attempts = adversary.attempts.iter().map(Attempt::party);
    (transfers.iter().map(|transfer| party(transfer, traffic)).collect(), attempts.chain([integrator, house]).collect())
}

/// Everybody in a run.
pub(crate) struct People<'a> {
    pub traffic: &'a Traffic<'a>,
    pub transfers: &'a [Transfer],
    pub adversary: &'a Adversary,
    pub books: &'a Books,
}

impl People<'_> {
    /// Compares everybody's worth with that before. Everyone richer than they should be is wrong.
    pub(crate) async fn judge(
        &self,
        market: &Market<'_>,
        record: &Record<'_>,
        wrong: &mut Vec<String>,
    ) -> Result<Gains> {
        let lucky = self.users(market, record, wrong).await?;
        let changes = record.followed().await?;
        let [attempts @ .., integrator, house] = &changes[..] else { bail!("somebody is missing") };
        if integrator.gain() > TOLERANCE {
            wrong.push(format!("the integrator is {} dollars richer", dollars(integrator.gain())));
        }
        let tricks = self.adversary.score(&self.books.permits(self.traffic), (record, attempts), wrong).await?;
        let owed: i128 = attempts.iter().chain([integrator]).map(|change| change.app).sum();
        Ok(Gains {
            price_moves: market.count(),
            tricks,
            lucky: i64::try_from(lucky)?,
            integrator: i64::try_from(integrator.gain())?,
            house: i64::try_from(house.gain() + self.traffic.venue.solver_change()? - owed)?,
        })
    }

    /// Judges the users; returns the gain of those whose deposits are gone.
    async fn users(&self, market: &Market<'_>, record: &Record<'_>, wrong: &mut Vec<String>) -> Result<i128> {
        let changes = record.users().await?;
        let deposits = self.traffic.deposits();
        let gone = deposits.iter().filter(|deposit| self.traffic.sends.is_abandoned(deposit.tx));
        let gone: BTreeSet<usize> = gone.map(|deposit| deposit.transfer).collect();
        let mut lucky = 0;
        for (transfer, mut change) in self.transfers.iter().zip(changes) {
            change.stable += self.traffic.venue.change(transfer.index)?;
            let Some(since) = self.traffic.paying_since(transfer.index) else { continue };
            let gain = least_gain(&change, market, since - PRICE_AGE);
            if gone.contains(&transfer.index) {
                lucky += gain.max(0);
            } else if gain > TOLERANCE {
                let (index, kind) = (transfer.index, transfer.kind);
                wrong.push(format!("transfer {index} ({kind:?}): its user is {} dollars richer", dollars(gain)));
            }
        }
        Ok(lucky)
    }
}
