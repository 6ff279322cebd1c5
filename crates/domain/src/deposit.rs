//! The life of one deposit, and whether it pays for the order it names.

use std::time::Duration;

use alloy_primitives::{Address, B256, keccak256};

use crate::fail::FailReason;
use crate::ids::ChainId;
use crate::money::{Amount, OutOfRange, Ratio, Signed};
use crate::quote::{Bound, Quote};
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

/// And less than this share is dust, whoever sent it: any contract that the user calls can deposit in their transaction.
const DUST_BPS: u16 = 1_000;

/// An exchange at the quoted rate is for the quoted amount: this much beyond it, the rate would be a free bet.
const MAX_EXCHANGED_BPS: u16 = 1_000;
/// An order for the quoted amount alone keeps no more than this beyond it.
const MAX_CAPPED_BPS: u16 = 10;

/// And more than this beyond it is no slip of the hand: nothing is filled, and all of it goes back.
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
        return unrecognized(FailReason::OriginCurrencyMismatch);
    }
    if deposit.amount.is_zero() {
        return unrecognized(FailReason::DepositedAmountTooLowToFill);
    }
    if !qualifies(quote, deposit)? {
        return unrecognized(FailReason::DepositedAmountTooLowToFill);
    }
    let quoted = quote.figures.deposit;
    if let Some(reason) = too_late(quote, deposit.block_time) {
        return refund(reason);
    }
    // A quote for one amount at a market's price is not stretched to another. An order bought exactly or paid for
    // by somebody else is filled for the quoted amount alone, and the rest goes back.
    let market = terms.exchange || quote.destination_swap.is_some();
    if is_capped(quote) && deposit.amount > quoted.mul_floor(Ratio::bps_more(MAX_EXCESS_BPS))? {
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

/// True if the amount makes it the order's deposit. Nine tenths of the quoted amount do, from anyone. Less does from the
/// quoted wallet, unless it is dust: otherwise a wei could end an order.
fn qualifies(quote: &Quote, deposit: &Facts) -> Result<bool, OutOfRange> {
    let quoted = quote.figures.deposit;
    if deposit.amount >= quoted.mul_ceil(Ratio::bps(QUALIFYING_BPS))? {
        return Ok(true);
    }
    let from_user = [deposit.payer, deposit.sender].map(Some).contains(&quote.ask.user.packed());
    let dust = deposit.amount < quoted.mul_ceil(Ratio::bps(DUST_BPS))?;
    Ok(from_user && !dust && deposit.amount > quote.figures.fees.fixed()?)
}

/// Why an order can no longer be filled at this time of the chain.
pub fn too_late(quote: &Quote, now: Timestamp) -> Option<FailReason> {
    let expired = |secs: u32| now > quote.created_at.plus(Duration::from_secs(secs.into()));
    let deadline = quote.terms.as_ref().map(|terms| i64::from(terms.deadline));
    if deadline.is_some_and(|deadline| now.secs() > deadline - LAST_FILL_BEFORE_DEADLINE_SECS) {
        return Some(FailReason::ProtocolDeadlineExpired);
    }
    quote.ask.ttl_secs.is_some_and(expired).then_some(FailReason::TtlExpired)
}

/// Why a fill can no longer begin at this time of the chain: a deposit may have come in time, and we not. The time we said
/// it takes, its confirmations among it, is not held against a quote's own time; the end of the order stands.
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
    if !is_capped(quote) || deposited <= quoted.mul_floor(Ratio::bps_more(MAX_CAPPED_BPS))? {
        return Ok(Amount::ZERO);
    }
    deposited.checked_sub(quoted)
}

/// A sponsor or an integrator stands for the quoted amount and no more, and so does an exact purchase.
fn is_capped(quote: &Quote) -> bool {
    quote.figures.sponsorship.is_some() || quote.figures.fixed.is_some() || bought_exactly(quote)
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
mod tests {
    use super::*;
    use crate::pricing::tests::a_quote;

    fn facts(quote: &Quote) -> Facts {
        Facts {
            chain: quote.ask.origin.chain,
            currency: quote.ask.origin.address.evm().unwrap(),
            amount: quote.figures.input,
            payer: quote.ask.user.evm().unwrap(),
            sender: quote.ask.user.evm().unwrap(),
            block_time: quote.created_at,
        }
    }

    fn part(amount: Amount, bps: u16) -> Amount {
        amount.mul_floor(Ratio::bps(bps)).unwrap()
    }

    #[test]
    fn the_quoted_deposit_earns_the_quoted_output() {
        let quote = a_quote();
        assert_eq!(judge(&quote, &facts(&quote)), Ok(Verdict::Fill { output: quote.figures.output }));
    }

    #[test]
    fn every_other_deposit_has_its_verdict() {
        let quote = a_quote();
        let right = facts(&quote);
        let stranger = Address::repeat_byte(0x99);
        let late = Timestamp::from_secs(
            i64::from(quote.terms.as_ref().unwrap().deadline) - LAST_FILL_BEFORE_DEADLINE_SECS + 1,
        );
        let cases: [(&str, Facts, Verdict); 6] = [
            (
                "another chain",
                Facts { chain: ChainId(1), ..right.clone() },
                Verdict::Unrecognized { reason: FailReason::DepositChainMismatch },
            ),
            (
                "another currency",
                Facts { currency: stranger, ..right.clone() },
                Verdict::Unrecognized { reason: FailReason::OriginCurrencyMismatch },
            ),
            (
                "dust from a stranger",
                Facts { amount: part(right.amount, 8_999), payer: stranger, sender: stranger, ..right.clone() },
                Verdict::Unrecognized { reason: FailReason::DepositedAmountTooLowToFill },
            ),
            (
                "too little from the user",
                Facts { amount: part(right.amount, 5_000), ..right.clone() },
                Verdict::Refund { reason: FailReason::DepositedAmountTooLowToFill },
            ),
            (
                "the whole amount from a stranger",
                Facts { payer: stranger, sender: stranger, ..right.clone() },
                Verdict::Fill { output: quote.figures.output },
            ),
            (
                "too late",
                Facts { block_time: late, ..right.clone() },
                Verdict::Refund { reason: FailReason::ProtocolDeadlineExpired },
            ),
        ];
        for (name, facts, verdict) in cases {
            assert_eq!(judge(&quote, &facts), Ok(verdict), "{name}");
        }
    }

    /// A contract that the user calls deposits in the user's transaction: its native currency even seems to be paid by
    /// the user.
    #[test]
    fn dust_under_an_order_is_dust_even_in_the_users_own_transaction() {
        let quote = a_quote();
        let right = facts(&quote);
        let (tenth, contract) = (part(right.amount, 1_000), Address::repeat_byte(0x77));
        let one = Amount::new(alloy_primitives::U256::from(1));
        assert!(tenth > quote.figures.fees.fixed().unwrap());
        let dust = Verdict::Unrecognized { reason: FailReason::DepositedAmountTooLowToFill };
        let short = Verdict::Refund { reason: FailReason::DepositedAmountTooLowToFill };
        for (amount, verdict) in [(one, dust), (tenth.checked_sub(one).unwrap(), dust), (tenth, short)] {
            for payer in [right.payer, contract] {
                let facts = Facts { amount, payer, ..right.clone() };
                assert_eq!(judge(&quote, &facts), Ok(verdict), "{amount} of {payer}");
            }
        }
    }

    #[test]
    fn a_fill_has_the_time_it_was_said_to_take_and_never_longer_than_the_order() {
        let mut quote = a_quote();
        quote.ask.ttl_secs = Some(600);
        quote.figures.time_estimate_secs = 768;
        let at = |secs| quote.created_at.plus(Duration::from_secs(secs));
        assert_eq!(too_late(&quote, at(601)), Some(FailReason::TtlExpired), "for a deposit");
        assert_eq!(fill_too_late(&quote, at(600 + 768)), None);
        assert_eq!(fill_too_late(&quote, at(600 + 769)), Some(FailReason::TtlExpired));
        quote.ask.ttl_secs = None;
        let end = i64::from(quote.terms.as_ref().unwrap().deadline) - LAST_FILL_BEFORE_DEADLINE_SECS;
        assert_eq!(fill_too_late(&quote, Timestamp::from_secs(end)), None);
        let ended = fill_too_late(&quote, Timestamp::from_secs(end + 1));
        assert_eq!(ended, Some(FailReason::ProtocolDeadlineExpired));
    }

    #[test]
    fn more_or_less_is_scaled_at_the_quoted_rate() {
        let quote = a_quote();
        let mut deposit = facts(&quote);
        deposit.amount = part(quote.figures.input, 9_990);
        let Ok(Verdict::Fill { output }) = judge(&quote, &deposit) else { panic!("a little less still fills") };
        assert!(output < quote.figures.output && output >= quote.figures.minimum);
        deposit.amount = quote.figures.input.checked_add(quote.figures.input).unwrap();
        // The second half pays no gas and no flat fee of its own.
        let double = quote.figures.output.checked_add(quote.figures.input).unwrap();
        assert_eq!(judge(&quote, &deposit), Ok(Verdict::Fill { output: double }));
    }

    #[test]
    fn a_deposit_that_does_not_cover_the_fixed_fees_does_not_count() {
        let mut quote = a_quote();
        quote.figures.minimum = Amount::ZERO;
        // Of a small order the fixed fees are more than a tenth.
        quote.figures.fees.flat = part(quote.figures.deposit, 2_000);
        let mut deposit = facts(&quote);
        let fixed = quote.figures.fees.fixed().unwrap();
        let one = Amount::new(alloy_primitives::U256::from(1));
        for amount in [Amount::ZERO, one, fixed] {
            deposit.amount = amount;
            let dust = Verdict::Unrecognized { reason: FailReason::DepositedAmountTooLowToFill };
            assert_eq!(judge(&quote, &deposit), Ok(dust), "{amount}");
        }
        deposit.amount = fixed.checked_add(one).unwrap();
        assert!(!matches!(judge(&quote, &deposit), Ok(Verdict::Unrecognized { .. })));
    }

    #[test]
    fn an_exchange_is_not_stretched_beyond_its_quote() {
        let mut quote = a_quote();
        quote.terms.as_mut().unwrap().exchange = true;
        let mut deposit = facts(&quote);
        deposit.amount = part(quote.figures.input, 11_000);
        assert!(matches!(judge(&quote, &deposit), Ok(Verdict::Fill { .. })));
        deposit.amount = deposit.amount.checked_add(Amount::new(alloy_primitives::U256::from(1))).unwrap();
        assert_eq!(judge(&quote, &deposit), Ok(Verdict::Refund { reason: FailReason::Slippage }));
    }

    #[test]
    fn what_is_beyond_an_order_that_does_not_grow_goes_back() {
        let mut quote = a_quote();
        let mut deposit = facts(&quote);
        deposit.amount = part(quote.figures.deposit, 15_000);
        // An order at the quoted rate grows with its deposit.
        assert_eq!(excess(&quote, deposit.amount), Ok(Amount::ZERO));
        quote.destination_swap = Some(bought(&quote));
        let beyond = deposit.amount.checked_sub(quote.figures.deposit).unwrap();
        assert_eq!(excess(&quote, deposit.amount), Ok(beyond));
        assert_eq!(judge(&quote, &deposit), Ok(Verdict::Fill { output: quote.figures.paid }));
        // A deposit far beyond it is not ours to give back in parts.
        let far = Facts {
            amount: part(quote.figures.deposit, 20_000).checked_add(quote.figures.deposit).unwrap(),
            ..deposit
        };
        assert_eq!(judge(&quote, &far), Ok(Verdict::Refund { reason: FailReason::Slippage }));
        // The parts are the whole.
        assert_eq!(quote.figures.deposit.checked_add(beyond), Ok(deposit.amount));
        // Next to nothing is kept: sending it back would cost more.
        let little = quote.figures.deposit.mul_floor(Ratio::bps_more(MAX_CAPPED_BPS)).unwrap();
        assert_eq!(excess(&quote, little), Ok(Amount::ZERO));
        for amount in [quote.figures.deposit, part(quote.figures.deposit, 5_000), Amount::ZERO] {
            assert_eq!(excess(&quote, amount), Ok(Amount::ZERO), "{amount}");
        }
    }

    /// Exactly the quoted output, for as much as is paid out at the most.
    fn bought(quote: &Quote) -> crate::quote::Swap {
        crate::quote::Swap {
            path: crate::swap::Path::wrapping(Address::repeat_byte(3)),
            input: quote.figures.paid,
            output: quote.figures.output,
            bound: Bound::MostInput(quote.figures.paid),
        }
    }
}
