//! The adversary's gain by trick.

use std::collections::BTreeMap;

use alloy::primitives::{U64, U256};
use anyhow::Result;
use devnet::Devnet;
use serde::Serialize;
use serde_json::Value;

use super::{Adversary, Attempt, Debt, Trick, stolen_deposit};
use crate::chaos::ledger::Ledger;
use crate::chaos::market::{MAX_STEP_BPS, Price};
use crate::chaos::permit_verdict::Permits;
use crate::chaos::record::Record;
use crate::chaos::worth::{Change, TOLERANCE, dollars, worth};

/// Blocks around a moment in which its price is uncertain: the service may have read an older one.
const BLOCKS_AROUND: u64 = 16;

/// All attempts at one trick.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Score {
    pub attempts: usize,
    /// Attempts at which something that was asked for was refused.
    pub refused: usize,
    /// Millionths of a dollar, of all attempts and of the best one.
    pub gain: i64,
    pub best: i64,
}

impl Adversary {
    /// Adds up the gains; each attempt that ended richer is wrong.
    pub(crate) async fn score(
        &self,
        permits: &Permits<'_>,
        (record, changes): (&Record<'_>, &[Change]),
        wrong: &mut Vec<String>,
    ) -> Result<BTreeMap<Trick, Score>> {
        let (devnet, ledgers) = (permits.devnet, permits.ledgers);
        let mut scores: BTreeMap<Trick, Score> = BTreeMap::new();
        for (index, (attempt, change)) in self.attempts.iter().zip(changes).enumerate() {
            let (gain, tolerance) = match attempt.trick {
                Trick::LateDeposit => {
                    let owed = attempt.owed(devnet, record, ledgers).await?;
                    (change.gain() + owed, slack(change))
                }
                Trick::FeeExchange => (change.gain_at(attempt.dearest(devnet, record, ledgers).await?), slack(change)),
                Trick::RevertingRecipient => attempt.burnt(change, record, ledgers),
                Trick::StolenDeposit | Trick::EarlyClaim | Trick::SponsoredTwice | Trick::JunkLogs => {
                    (change.gain(), TOLERANCE)
                }
                Trick::InventedDeposit | Trick::InventedFunding | Trick::FailedFill => (change.gain(), TOLERANCE),
                Trick::SweptFirst | Trick::DustFirst => (change.gain(), TOLERANCE),
                Trick::PostedTwice | Trick::CopiedRelay => (change.gain(), TOLERANCE),
                Trick::SpentNonce | Trick::MovedAway => (change.gain(), TOLERANCE + attempt.lost(permits)?),
            };
            if gain > tolerance {
                let of = attempt.trick;
                let how = attempt.debts_told(record);
                wrong.push(format!("the adversary is {} dollars richer by {of:?} ({index}){how}", dollars(gain)));
                wrong.push(format!("its accounts: {change:?}"));
            }
            let (score, gain) = (scores.entry(attempt.trick).or_default(), i64::try_from(gain)?);
            score.best = if score.attempts == 0 { gain } else { score.best.max(gain) };
            score.attempts += 1;
            score.refused += usize::from(attempt.deeds().refused);
            score.gain += gain;
        }
        Ok(scores)
    }

    /// Victims have what they had, but for the gas of a return. Everything that is not so.
    pub(crate) async fn robbed(&self, devnet: &Devnet, wrong: &mut Vec<String>) -> Result<()> {
        for attempt in self.attempts.iter().filter(|attempt| attempt.trick == Trick::StolenDeposit) {
            let chain = &devnet.chains[attempt.origin];
            let has = chain.balance(chain.token("USDC").address, attempt.contract).await?;
            let had = U256::from(stolen_deposit::AMOUNT);
            if has < had * U256::from(9) / U256::from(10) {
                wrong.push(format!("a victim on {} has {has} left of {had}", chain.name));
            }
        }
        Ok(())
    }
}

/// A price may move between the service's decision and its block.
fn slack(change: &Change) -> i128 {
    TOLERANCE + change.ether_moved * i128::from(MAX_STEP_BPS) / 10_000
}

impl Attempt {
    /// The debts of fast fills: a deposit is owed from the fill until it comes or its time is over, and its price is
    /// that of what one holds. Its time is over when the chain says so, whether the service is there to see it or not.
    /// Who was accepted and never filled owes nothing.
    async fn owed(&self, devnet: &Devnet, record: &Record<'_>, ledgers: &[Ledger]) -> Result<i128> {
        let deeds = self.deeds().clone();
        let filled = |order| {
            let mut payments = ledgers.iter().flat_map(|ledger| &ledger.payments);
            payments.any(|payment| payment.success && payment.id() == Some(order))
        };
        let mut sum = 0;
        for Debt { chain, wei, accepted: (asked, accepted), due, order } in deeds.debts {
            if !filled(order) {
                continue;
            }
            let deposit = deeds.deposits.iter().find(|deposit| deposit.id == order);
            let paid = match deposit {
                None => None,
                Some(deposit) => block_of(devnet, deposit.chain, deposit.tx).await?,
            };
            let (history, wei) = (record.history(chain), i128::try_from(wei)?);
            let around = |from: u64, to: u64| history.around(from.saturating_sub(BLOCKS_AROUND), to + BLOCKS_AROUND);
            let (_, high) = around(asked, accepted);
            let low = match (paid, due) {
                // It came in time, or before anybody can tell.
                (Some(paid), due) if due.is_none_or(|(_, latest)| paid <= latest) => history.at(paid),
                (_, Some((earliest, latest))) => around(earliest, latest).0,
                (_, None) => continue,
            };
            sum += worth(wei, low) - worth(wei, high);
        }
        Ok(sum)
    }

    /// The fill of a deposit that a reorg took away, in millionths of a dollar: no trick brings a reorg about, and
    /// whoever pays before finality bears it.
    fn lost(&self, permits: &Permits<'_>) -> Result<i128> {
        match &self.deeds().permit {
            Some(permit) if permits.is_lost(permit)? => Ok(i128::try_from(permit.amount)?),
            Some(_) | None => Ok(0),
        }
    }

    /// The prices around its debts, for whoever looks into a gain.
    fn debts_told(&self, record: &Record<'_>) -> String {
        let one = |debt: &Debt| {
            let at = |block: u64| dollars(record.history(debt.chain).at(block));
            let (asked, accepted) = debt.accepted;
            let due = debt
                .due
                .map(|(earliest, latest)| format!("due at {earliest} ({}) or {latest} ({})", at(earliest), at(latest)));
            let due = due.unwrap_or_else(|| "never due".to_owned());
            format!(": asked at {asked} ({}), accepted at {accepted} ({}), {due}", at(asked), at(accepted))
        };
        self.deeds().debts.iter().map(one).collect()
    }

    /// The highest price from the first deposit to the fill, or to the credit where that waited for prices: the service
    /// may decide at any of them.
    async fn dearest(&self, devnet: &Devnet, record: &Record<'_>, ledgers: &[Ledger]) -> Result<Price> {
        let deeds = self.deeds().clone();
        let history = record.history(self.origin);
        let Some(deposit) = deeds.deposits.first() else { return Ok(history.at(u64::MAX)) };
        let from = block_of(devnet, deposit.chain, deposit.tx).await?.unwrap_or_default();
        let mut to = from;
        for (chain, ledger) in ledgers.iter().enumerate() {
            for payment in ledger.payments.iter().filter(|payment| payment.id() == Some(deposit.id)) {
                to = to.max(record.same_moment(chain, payment.block, self.origin));
            }
        }
        let to = to.max(record.booked_by(self.app.address, self.origin).unwrap_or_default());
        Ok((from..=to).map(|block| history.at(block)).max().unwrap_or_default())
    }

    /// The gas that failed fills have burnt, less what the refund was short of the deposit; a tenth of it is tolerated.
    fn burnt(&self, change: &Change, record: &Record<'_>, ledgers: &[Ledger]) -> (i128, i128) {
        let deeds = self.deeds();
        let failed = ledgers.iter().flat_map(|ledger| &ledger.payments).filter(|payment| !payment.success);
        let of_ours = failed.filter(|payment| payment.id().is_some_and(|id| deeds.orders.contains(&id)));
        let burnt = of_ours.fold(U256::ZERO, |sum, payment| sum + payment.fee);
        let price = record.history(self.origin).at(u64::MAX);
        let burnt = worth(i128::try_from(burnt).unwrap_or(i128::MAX / price), price);
        (burnt + change.gain_at(price), burnt / 10)
    }
}

/// The block of a transaction, if it succeeded.
async fn block_of(devnet: &Devnet, chain: usize, tx: alloy::primitives::B256) -> Result<Option<u64>> {
    let receipt: Value = devnet.chains[chain].rpc("eth_getTransactionReceipt", [tx]).await?;
    let good = receipt["status"] == "0x1";
    Ok(good.then(|| serde_json::from_value::<U64>(receipt["blockNumber"].clone())).transpose()?.map(|it| it.to()))
}
