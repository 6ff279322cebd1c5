//! The life of one deposit, and whether it pays for the order it names.

use std::time::Duration;

use alloy_primitives::{Address, B256, keccak256};

use crate::fail::FailReason;
use crate::ids::ChainId;
use crate::money::{Amount, OutOfRange, Ratio, Signed};
use crate::quote::{Bound, OrderTerms, Quote};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// In a block, with fewer confirmations than we ask for.
    Seen,
    Confirmed,
    Final,
    /// Its block is no longer part of the chain.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Enough blocks stand on it.
    Confirmed,
    Finalised,
    /// A reorg took its block away.
    Vanished,
    /// A reorg put it into another block.
    Landed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a deposit that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    state: State,
    event: Event,
}

pub fn step(state: State, event: Event) -> Result<State, IllegalTransition> {
    let impossible = Err(IllegalTransition { state, event });
    match state {
        State::Seen => match event {
            Event::Confirmed => Ok(State::Confirmed),
            Event::Finalised => Ok(State::Final),
            Event::Vanished => Ok(State::Gone),
            Event::Landed => Ok(State::Seen),
        },
        State::Confirmed => match event {
            Event::Confirmed | Event::Landed => Ok(State::Confirmed),
            Event::Finalised => Ok(State::Final),
            Event::Vanished => Ok(State::Gone),
        },
        State::Final => match event {
            Event::Confirmed | Event::Finalised => Ok(State::Final),
            // A chain that takes back what it called final is not one we may pay against.
            Event::Vanished | Event::Landed => impossible,
        },
        State::Gone => match event {
            Event::Landed => Ok(State::Seen),
            Event::Vanished => Ok(State::Gone),
            Event::Confirmed | Event::Finalised => impossible,
        },
    }
}

impl State {
    pub const ALL: [Self; 4] = [Self::Seen, Self::Confirmed, Self::Final, Self::Gone];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Confirmed => "confirmed",
            Self::Final => "final",
            Self::Gone => "gone",
        }
    }
}

/// The facts a deposit states about itself.
#[derive(Clone, Debug)]
pub struct Facts {
    pub chain: ChainId,
    /// Zero for the chain's native currency.
    pub currency: Address,
    pub amount: Amount,
    /// Whose tokens moved, and who sent the transaction: one of them paid. Never the `depositor` argument, which anyone
    /// may fill in.
    pub payer: Address,
    pub sender: Address,
    /// One of our own wallets sent it, and it is what that sweep of a deposit address was decided for. Anybody may
    /// sweep a strict one.
    pub swept: bool,
    /// A relayer of ours sent it by the very transaction that the user signed for.
    pub relayed: bool,
    pub block_time: Timestamp,
}

/// A deposit's name in 32 bytes, the same in whatever block it stands. A return carries it where a fill carries its
/// order's id.
pub fn key(chain: ChainId, tx: B256, ordinal: u32) -> B256 {
    let mut bytes = Vec::with_capacity(44);
    bytes.extend_from_slice(&chain.0.to_be_bytes());
    bytes.extend_from_slice(tx.as_slice());
    bytes.extend_from_slice(&ordinal.to_be_bytes());
    keccak256(bytes)
}

/// The verdict on a deposit for the order it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It pays for the order; this much is paid out, in the payout currency.
    Fill { output: Amount },
    /// It is the order's deposit, but the order cannot be filled with it: the money goes back.
    Refund { reason: FailReason },
    /// It does not belong to the order, whose life goes on without it; a row of its own, to be returned.
    Unrecognized { reason: FailReason },
}

/// Fills need time to be mined before the order's deadline.
const LAST_FILL_BEFORE_DEADLINE_SECS: i64 = 600;

/// A deposit of less than this share of the quoted amount must come from the quoted wallet to count.
const QUALIFYING_BPS: u16 = 9_000;

/// And less than this share is dust, whoever sent it: any contract that the user calls can deposit in their
/// transaction.
const DUST_BPS: u16 = 1_000;

/// An exchange at the quoted rate is for the quoted amount: this much beyond it, the rate would be a free bet.
const MAX_EXCHANGED_BPS: u16 = 1_000;
/// An order for the quoted amount alone keeps no more than this beyond it.
const MAX_CAPPED_BPS: u16 = 10;

/// A deposit that exceeds the quoted amount by more than this is refunded whole: nothing is filled.
const MAX_EXCESS_BPS: u16 = 10_000;

pub fn judge(quote: &Quote, deposit: &Facts) -> Result<Verdict, OutOfRange> {
    let unrecognized = |reason| Ok(Verdict::Unrecognized { reason });
    let refund = |reason| Ok(Verdict::Refund { reason });
    // A deposit that names no order of ours was not matched to begin with.
    let Some(terms) = &quote.terms else { return unrecognized(FailReason::OrphanedDepositRefund) };
    if deposit.chain != terms.deposit.chain {
        return unrecognized(FailReason::DepositChainMismatch);
    }
    if Some(deposit.currency) != terms.deposit.address.packed() {
        let strict = quote.ask.options.is_strict();
        return unrecognized(if strict {
            FailReason::IncorrectDepositCurrency
        } else {
            FailReason::OriginCurrencyMismatch
        });
    }
    if deposit.amount.is_zero() {
        return unrecognized(FailReason::DepositedAmountTooLowToFill);
    }
    if !qualifies(quote, deposit)? {
        return unrecognized(FailReason::DepositedAmountTooLowToFill);
    }
    let quoted = quote.figures.deposit;
    // At an address, the transfer came before its sweep: the time that we take for that is not held against it.
    let late = if quote.ask.options.deposit_address.is_some() { fill_too_late } else { too_late };
    if let Some(reason) = late(quote, deposit.block_time) {
        return refund(reason);
    }
    // A quote for one amount at a market's price is not stretched to another. An order bought exactly or paid for
    // by somebody else is filled for the quoted amount alone, and the rest goes back.
    let market = terms.exchange || quote.destination_swap.is_some();
    let strict = quote.ask.options.is_strict();
    if strict && deposit.amount < quoted {
        return refund(FailReason::DepositedAmountTooLowToFill);
    }
    if is_capped(quote) && !strict && deposit.amount > quoted.mul_floor(Ratio::bps_more(MAX_EXCESS_BPS))? {
        return refund(FailReason::Slippage);
    }
    if market && !is_capped(quote) && deposit.amount > quoted.mul_floor(Ratio::bps_more(MAX_EXCHANGED_BPS))? {
        return refund(FailReason::Slippage);
    }
    let output = paid_for(quote, deposit.amount)?;
    if output.is_zero() || !reaches_minimum(quote, output)? {
        let reason =
            if quote.origin_swap.is_some() { FailReason::Slippage } else { FailReason::DepositedAmountTooLowToFill };
        return refund(reason);
    }
    Ok(Verdict::Fill { output })
}

/// True if the amount makes it the order's deposit. Nine tenths of the quoted amount do, from anyone. Less does from
/// the quoted wallet, or by its signature, unless it is dust: otherwise a wei could end an order.
fn qualifies(quote: &Quote, deposit: &Facts) -> Result<bool, OutOfRange> {
    let quoted = quote.figures.deposit;
    if quote.ask.options.is_strict() {
        // A stranger may pay dust to the address and sweep it: that must not end the order. We sweep too little only
        // when nothing more is expected.
        return Ok(deposit.swept || deposit.amount >= quoted);
    }
    if deposit.amount >= quoted.mul_ceil(Ratio::bps(QUALIFYING_BPS))? {
        return Ok(true);
    }
    let from_user = deposit.relayed || [deposit.payer, deposit.sender].map(Some).contains(&quote.ask.user.packed());
    let dust = deposit.amount < quoted.mul_ceil(Ratio::bps(DUST_BPS))?;
    Ok(from_user && !dust && deposit.amount > quote.figures.fees.fixed()?)
}

/// The last moment at which a fill begins, by the order's deadline.
pub fn last_fill(terms: &OrderTerms) -> Timestamp {
    Timestamp::from_secs(i64::from(terms.deadline).saturating_sub(LAST_FILL_BEFORE_DEADLINE_SECS))
}

/// Why an order can no longer be filled at this time of the chain.
pub fn too_late(quote: &Quote, now: Timestamp) -> Option<FailReason> {
    let expired = |secs: u32| now > quote.created_at.plus(Duration::from_secs(secs.into()));
    if quote.terms.as_ref().is_some_and(|terms| now.secs() > last_fill(terms).secs()) {
        return Some(FailReason::ProtocolDeadlineExpired);
    }
    quote.ask.ttl_secs.is_some_and(expired).then_some(FailReason::TtlExpired)
}

/// Why a fill can no longer begin at this time of the chain: a deposit may have come in time, and we not. The time we
/// said it takes, its confirmations among it, is not held against a quote's own time; the end of the order stands.
pub fn fill_too_late(quote: &Quote, now: Timestamp) -> Option<FailReason> {
    let said_millis = i64::from(quote.figures.time_estimate_secs).saturating_mul(1_000);
    match too_late(quote, now)? {
        FailReason::TtlExpired => too_late(quote, Timestamp::from_millis(now.millis().saturating_sub(said_millis))),
        ended => Some(ended),
    }
}

/// The payout for a deposit: the quoted rate, applied to what arrived less the fees. Gas and the flat fee do not
/// shrink with the deposit: else a tiny one would have us pay for its fill.
fn paid_for(quote: &Quote, deposited: Amount) -> Result<Amount, OutOfRange> {
    let (figures, fees) = (&quote.figures, &quote.figures.fees);
    if deposited == figures.deposit || (is_capped(quote) && deposited > figures.deposit) {
        return Ok(figures.paid);
    }
    let part = Ratio::new(deposited.units(), figures.deposit.units())?;
    let shares = fees.scaled_shares(part)?;
    let sponsored = figures.sponsorship.as_ref().map_or(Ok(Amount::ZERO), |paid| paid.sponsored_part(part))?;
    let taken = Signed::cost(fees.fixed()?).checked_add(shares)?.checked_sub(Signed::cost(sponsored))?;
    let left = taken.taken_from(deposited).unwrap_or(Amount::ZERO);
    figures.paid.mul_floor(Ratio::new(left.units(), figures.exchanged.units())?)
}

/// The excess of a deposit over its order, where the order does not grow with it. It goes back once the order
/// is filled for good.
pub fn excess(quote: &Quote, deposited: Amount) -> Result<Amount, OutOfRange> {
    let quoted = quote.figures.deposit;
    // Who pays at a strict address was told the amount; all that is beyond it is theirs.
    let kept = if quote.ask.options.is_strict() { 0 } else { MAX_CAPPED_BPS };
    if !is_capped(quote) || deposited <= quoted.mul_floor(Ratio::bps_more(kept))? {
        return Ok(Amount::ZERO);
    }
    deposited.checked_sub(quoted)
}

/// A sponsor or an integrator stands for the quoted amount and no more, and so does an exact purchase or a strict
/// address.
fn is_capped(quote: &Quote) -> bool {
    quote.figures.sponsorship.is_some()
        || quote.figures.fixed.is_some()
        || quote.ask.options.is_strict()
        || bought_exactly(quote)
}

fn bought_exactly(quote: &Quote) -> bool {
    quote.destination_swap.as_ref().is_some_and(|swap| matches!(swap.bound, Bound::MostInput(_)))
}

/// True if the payout still brings the order's minimum. Through a pool that is estimated at the quoted rate: less
/// in moves it less, so the rate can only be better.
pub fn reaches_minimum(quote: &Quote, paid: Amount) -> Result<bool, OutOfRange> {
    let figures = &quote.figures;
    match &quote.destination_swap {
        None => Ok(paid >= figures.minimum),
        // The reserve for the pool to move may be used up.
        Some(swap) if bought_exactly(quote) => Ok(paid >= swap.input),
        Some(_) => Ok(figures.output.mul_floor(Ratio::new(paid.units(), figures.paid.units())?)? >= figures.minimum),
    }
}

#[cfg(test)]
mod tests;
