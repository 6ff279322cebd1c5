//! What a new block means for what is already on its way.

use alloy::primitives::{Address, B256, Bytes, U256};
use domain::deposit::State as DepositState;
use domain::fail::{FailReason, RefundFailReason};
use domain::money::Amount;
use domain::payment::{self, State as PaymentState};
use domain::request::Event;
use evm::{Head, SentTx};
use metrics::counter;
use serde::Serialize;
use store::payments::{Mined, Purpose, Stored};
use store::{Tx, deposits, dues, lanes, payments, requests, settlements};
use tracing::{error, warn};

use crate::advance::advance;
use crate::error::SolverError;
use crate::payments::{Outcome, pay};
use crate::site::Site;
use crate::solver::Means;

/// Rows that one unit looks after at the most; the rest has its turn at the next block.
const BATCH: i64 = 64;

/// What a block means for what we know: payments mined in it, deposits and payments that ripen under it, and what was
/// due and may now be paid.
pub fn settle(
    tx: &mut Tx<'_>,
    site: &Site,
    head: Head,
    sent: &[SentTx],
    means: &Means,
) -> Result<Vec<Stored>, SolverError> {
    let chain = site.id();
    let mut paid = Vec::new();
    for sent in sent {
        paid.extend(mined(tx, site, head, sent, means)?);
    }
    if site.chain.confirmations > 1 {
        let deep = head.number.saturating_sub(u64::from(site.chain.confirmations) - 1);
        for stored in deposits::ripe(tx, chain, DepositState::Seen, deep, BATCH)? {
            let mut request = match stored.deposit.order_id {
                Some(order) => requests::lock_order(tx, order)?,
                None => None,
            };
            paid.extend(crate::deposits::confirm(tx, &stored, request.as_mut(), means)?);
        }
    }
    if let Some(last) = head.number.checked_sub(site.settings.finality) {
        for stored in deposits::ripe(tx, chain, DepositState::Confirmed, last, BATCH)? {
            let state = domain::deposit::step(stored.state, domain::deposit::Event::Finalised)?;
            deposits::set_state(tx, stored.id, state)?;
        }
        for stored in payments::ripe(tx, chain, last, BATCH)? {
            paid.extend(finalise(tx, &stored, means)?);
        }
    }
    for due in dues::on(tx, chain, BATCH)? {
        let Some(mut request) = requests::lock(tx, due.request)? else { continue };
        match pay(tx, &due, means)? {
            Outcome::Paid(payment) => paid.push(payment),
            Outcome::NotNow(reason) => dues::put(tx, &due, &reason.to_string(), means.now)?,
            Outcome::Settled => dues::remove(tx, due.purpose, due.subject)?,
            Outcome::Worthless => {
                let reason = RefundFailReason::AmountTooLowToRefund;
                paid.extend(advance(tx, &mut request, Event::RefundImpossible { reason }, &(), means)?);
            }
        }
    }
    Ok(paid)
}

/// A transaction of one of our wallets is in a block: ours, or somebody else holds the key.
fn mined(tx: &mut Tx<'_>, site: &Site, head: Head, sent: &SentTx, means: &Means) -> Result<Vec<Stored>, SolverError> {
    let chain = site.id();
    let Some(stored) = payments::at_nonce(tx, chain, sent.from, sent.nonce)? else {
        foreign(tx, site, sent)?;
        return Ok(Vec::new());
    };
    if !is_attempt(&stored, sent) {
        foreign(tx, site, sent)?;
        return Ok(Vec::new());
    }
    // A token that returns `false` leaves a successful receipt and moves nothing.
    let owed = &stored.payment;
    let paid = sent.success && sent.paid(owed.currency, owed.recipient, site.chain.router) >= owed.amount.units();
    let event = if paid { payment::Event::Mined } else { payment::Event::Reverted };
    let state = payment::step(stored.state, event)?;
    payments::set_state(tx, stored.id, state, means.now)?;
    let record = Mined { tx: sent.hash, block_number: head.number, block_hash: head.hash, fee: Amount::new(sent.fee) };
    payments::set_mined(tx, stored.id, Some(record))?;
    if state != PaymentState::Mined {
        warn!(chain.id = %chain, tx = %sent.hash, "a payment reverted; it is void once its block is final");
        return Ok(Vec::new());
    }
    let Some(mut request) = requests::lock(tx, stored.payment.request)? else { return Ok(Vec::new()) };
    let event = match stored.payment.purpose {
        Purpose::Fill => Event::FillMined,
        Purpose::Refund => Event::RefundMined,
    };
    let figures = MinedFigures { chain: chain.0, tx: sent.hash, block: head.number, amount: stored.payment.amount };
    advance(tx, &mut request, event, &figures, means)
}

/// Same nonce and same contents: one of our attempts, whatever fees it was mined with.
fn is_attempt(stored: &Stored, sent: &SentTx) -> bool {
    let Stored { payment, .. } = stored;
    let contents = (Some(payment.target), payment.value.units(), &payment.data);
    contents == (sent.to, sent.value, &sent.input) as (Option<Address>, U256, &Bytes)
}

fn foreign(tx: &mut Tx<'_>, site: &Site, sent: &SentTx) -> Result<(), SolverError> {
    let why = format!(
        "transaction {} used nonce {} of this wallet and is not ours: another process has its key",
        sent.hash, sent.nonce
    );
    error!(chain.id = %site.id(), wallet = %sent.from, "{why}");
    counter!("causeway_lanes_quarantined_total", "chain" => site.id().to_string()).increment(1);
    lanes::quarantine(tx, site.id(), sent.from, Some(&why))?;
    Ok(())
}

/// The block of a payment is final: it stands, or it is void by proof and its order is free.
fn finalise(tx: &mut Tx<'_>, stored: &Stored, means: &Means) -> Result<Vec<Stored>, SolverError> {
    let state = payment::step(stored.state, payment::Event::Finalised)?;
    payments::set_state(tx, stored.id, state, means.now)?;
    if state != PaymentState::Void {
        return Ok(Vec::new());
    }
    settlements::free(tx, stored.payment.order, stored.id)?;
    let Some(mut request) = requests::lock(tx, stored.payment.request)? else { return Ok(Vec::new()) };
    let event = match stored.payment.purpose {
        Purpose::Fill => Event::FillVoid { reason: FailReason::TransactionReverted },
        Purpose::Refund => Event::RefundVoid,
    };
    advance(tx, &mut request, event, &(), means)
}

#[derive(Serialize)]
struct MinedFigures {
    chain: u64,
    tx: B256,
    block: u64,
    amount: Amount,
}
