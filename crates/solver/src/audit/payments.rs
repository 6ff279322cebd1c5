//! Payments: each against its receipt, and every nonce accounted for.

use std::collections::BTreeMap;

use alloy::primitives::Address;
use domain::ids::{ChainId, ClaimId};
use domain::money::Amount;
use evm::{AgreedTx, At, Head, calldata};
use futures::StreamExt;
use futures::stream;
use store::audit::{self, Payment};
use store::payments::Purpose;
use store::{blocks, claims, depository_ledger, lanes};

use super::{Audit, Check};
use crate::error::SolverError;
use crate::handle::ChainHandle;

const PAGE: i64 = 500;
/// Transactions asked for at once.
const MAX_CONCURRENT_READS: usize = 16;

impl Audit<'_, '_> {
    pub(super) fn payments(&mut self) -> Result<(), SolverError> {
        let mut checks: BTreeMap<ChainId, Check> = BTreeMap::new();
        // The venue has a check of its own.
        for handle in self.chains.iter().filter(|handle| handle.venue.is_none()) {
            checks.insert(
                handle.id(),
                Check::new(&handle.chain.name, "payments are on the chain and paid what they say"),
            );
        }
        let mut after = 0;
        loop {
            let page = audit::payments(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|payment| payment.id) else { break };
            // Many transactions are read at once: an audit mostly waits for nodes.
            let seen = self.read(&page)?;
            for (payment, seen) in page.into_iter().zip(seen) {
                let (Some(handle), Some(check)) = (self.handle(payment.chain), checks.get_mut(&payment.chain)) else {
                    continue;
                };
                self.payment(&handle, &payment, seen, check)?;
            }
            (self.progress)("", "payments", u64::try_from(last).unwrap_or_default(), 0);
            after = last;
        }
        self.checks.extend(checks.into_values());
        Ok(())
    }

    /// The transaction of each payment, if it has one.
    fn read(&self, page: &[Payment]) -> Result<Vec<Option<AgreedTx>>, SolverError> {
        let asked: Vec<_> = page
            .iter()
            .map(|payment| {
                let (handle, hash) = (self.handle(payment.chain), payment.tx);
                async move {
                    match (handle, hash) {
                        (Some(handle), Some(hash)) if handle.venue.is_none() => handle.nodes.transaction(hash).await,
                        _ => Ok(None),
                    }
                }
            })
            .collect();
        let answers = self.wait(stream::iter(asked).buffered(MAX_CONCURRENT_READS).collect::<Vec<_>>());
        Ok(answers.into_iter().collect::<Result<_, _>>()?)
    }

    fn payment(
        &mut self,
        handle: &ChainHandle,
        payment: &Payment,
        seen: Option<AgreedTx>,
        check: &mut Check,
    ) -> Result<(), SolverError> {
        let Some(hash) = payment.tx else {
            if matches!(payment.state.as_str(), "mined" | "final") {
                check.differs(format!("payment {} is {} and has no transaction", payment.id, payment.state));
            }
            return Ok(());
        };
        check.compared += 1;
        let differs = |check: &mut Check, how: &str| {
            check.differs(format!("payment {} ({} of {}): {how}", payment.id, payment.purpose.as_str(), payment.order));
        };
        match (payment.state.as_str(), seen) {
            ("mined" | "final" | "reverted" | "void", None) => {
                differs(check, &format!("its transaction {hash} is not on the chain"));
            }
            // The payment is on its way, as far as the snapshot knows.
            (_, None) => {}
            ("mined" | "final", Some(seen)) => {
                for how in self.wrong(handle, payment, &seen)? {
                    differs(check, &how);
                }
            }
            ("reverted" | "void", Some(seen)) => {
                if seen.sent.id() == Some(payment.order.0) && has_paid(handle, payment, &seen) {
                    differs(check, &format!("it is {} and transaction {hash} has paid", payment.state));
                }
            }
            (_, Some(seen)) => {
                let taken = blocks::cursor(self.tx, payment.chain)?.map_or(0, |cursor| cursor.number);
                if self.is_doubtful(payment.chain, seen.head.number) {
                    check.waits(&format!("payment {}, mined in block {},", payment.id, seen.head.number));
                } else if seen.head.number <= taken {
                    differs(check, &format!("it is {} and was mined in block {}", payment.state, seen.head.number));
                }
            }
        }
        Ok(())
    }

    /// Errors of a payment that should have been made.
    fn wrong(&mut self, handle: &ChainHandle, payment: &Payment, seen: &AgreedTx) -> Result<Vec<String>, SolverError> {
        let (sent, mut wrong) = (&seen.sent, Vec::new());
        if !sent.success {
            wrong.push(format!("transaction {} failed", sent.hash));
            return Ok(wrong);
        }
        if (sent.from, sent.nonce) != (payment.wallet, payment.nonce) {
            wrong.push(format!("transaction {} is nonce {} of {}", sent.hash, sent.nonce, sent.from));
        }
        // The calldata of a payout ends with its own key, and that of a relay is the user's.
        if !matches!(payment.purpose, Purpose::Payout | Purpose::Relay) && sent.id() != Some(payment.order.0) {
            wrong.push(format!("transaction {} names another order", sent.hash));
        }
        if payment.purpose == Purpose::Claim {
            let named = calldata::claimed(&sent.input).map(|shown| (shown.account, shown.recipient));
            let known =
                claims::find(self.tx, ClaimId(payment.order.0))?.map(|it| (it.claim.wallet, it.claim.recipient));
            if named.is_none() || named != known {
                wrong.push(format!("transaction {} names {named:?}, and its claim is of {known:?}", sent.hash));
            }
        }
        if payment.block_hash != Some(seen.head.hash) {
            wrong.push(format!("transaction {} is in block {}", sent.hash, seen.head.hash));
        }
        // Money that the router calls with is paid to nobody, and so is a sweep; a payout is checked against its own
        // figures.
        let pays_nobody = matches!(payment.purpose, Purpose::Payout | Purpose::Sweep | Purpose::Relay);
        if pays_nobody || payment.recipient == handle.chain.router {
            return Ok(wrong);
        }
        let quote = match payment.purpose {
            Purpose::Fill => depository_ledger::quote_of(self.tx, payment.order)?,
            Purpose::Refund
            | Purpose::Return
            | Purpose::Excess
            | Purpose::Claim
            | Purpose::Refill
            | Purpose::Payout
            | Purpose::Sweep
            | Purpose::Relay => None,
        };
        let traded = quote.as_ref().filter(|quote| quote.destination_swap.is_some());
        let (currency, owed) = match traded {
            Some(quote) => (quote.ask.destination.address.packed().unwrap_or_default(), quote.figures.minimum),
            None => (payment.currency, payment.amount),
        };
        let paid = Amount::new(sent.paid(currency, payment.recipient, handle.chain.router));
        let plain = payment.target == payment.currency || payment.target == payment.recipient;
        if paid < owed || (plain && paid != owed) {
            wrong.push(format!("it paid {paid}, and the database says {owed}"));
        }
        Ok(wrong)
    }

    /// Checks that every nonce of every wallet belongs to a payment, and that the chain has used as many as we know.
    pub(super) fn nonces(&mut self, handle: &ChainHandle, at: Head) -> Result<(), SolverError> {
        let mut check = Check::new(&handle.chain.name, "every nonce of our wallets belongs to a payment");
        // The treasury's nonces are used by hand as well.
        for lane in lanes::all(self.tx, handle.id())?.into_iter().filter(|lane| !handle.is_treasury_lane(lane.wallet)) {
            check.compared += 1;
            let wallet: Address = lane.wallet;
            let known = audit::nonces(self.tx, handle.id(), wallet, at.number)?;
            let lowest = known.lowest.unwrap_or(lane.next_nonce);
            let spanned = lane.next_nonce.saturating_sub(lowest);
            if known.count != spanned {
                check.differs(format!(
                    "wallet {wallet}: {} payments for the {spanned} nonces from {lowest} to {}",
                    known.count, lane.next_nonce
                ));
            }
            let used = self.wait(handle.nodes.nonce_at(wallet, At::Number(at.number)))?;
            let mined = lowest.saturating_add(known.mined);
            // A payment in a doubtful block has used its nonce.
            let doubtful =
                self.doubtful.get(&handle.id()).is_some_and(|blocks| blocks.range(..=at.number).next().is_some());
            let most = if doubtful { lowest.saturating_add(known.count) } else { mined };
            if !(mined..=most).contains(&used) {
                check.differs(format!(
                    "wallet {wallet}: the chain has used {used} nonces at block {}, the database knows of {mined}",
                    at.number
                ));
            }
        }
        self.checks.push(check);
        Ok(())
    }
}

fn has_paid(handle: &ChainHandle, payment: &Payment, seen: &AgreedTx) -> bool {
    let bare = payment.target == payment.currency;
    let arrived = seen.sent.paid(payment.currency, payment.recipient, handle.chain.router);
    seen.sent.success && (!bare || !arrived.is_zero())
}
