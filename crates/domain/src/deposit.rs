//! The life of one deposit, and whether it pays for the order it names.

use std::time::Duration;

use alloy_primitives::Address;

use crate::fail::FailReason;
use crate::ids::ChainId;
use crate::money::{Amount, OutOfRange, Ratio};
use crate::quote::{Operation, Quote};
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
pub struct Impossible {
    state: State,
    event: Event,
}

pub fn step(state: State, event: Event) -> Result<State, Impossible> {
    let impossible = Err(Impossible { state, event });
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

/// What a deposit says about itself.
#[derive(Clone, Debug)]
pub struct Facts {
    pub chain: ChainId,
    /// Zero for the chain's native currency.
    pub currency: Address,
    pub amount: Amount,
    /// Who paid: the token's sender or the transaction's, never the `depositor` argument anyone may fill in.
    pub payer: Address,
    pub block_time: Timestamp,
}

/// What a deposit means for the order it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It pays for the order; this much goes to the recipient.
    Fill { output: Amount },
    /// It is the order's deposit, but the order cannot be filled with it: the money goes back.
    Refund { reason: FailReason },
    /// It does not belong to the order, whose life goes on without it; a row of its own, to be returned.
    Stranger { reason: FailReason },
}

/// Fills need time to be mined before the order's deadline.
const LAST_FILL_BEFORE_DEADLINE_SECS: i64 = 600;

/// A deposit of less than this share of the quoted amount must come from the quoted wallet to count.
const QUALIFYING_BPS: u16 = 9_000;

/// An exchange at the quoted rate is for the quoted amount: beyond this share of it, the rate would be a free bet.
const MOST_EXCHANGED_BPS: u16 = 11_000;

pub fn judge(quote: &Quote, deposit: &Facts) -> Result<Verdict, OutOfRange> {
    let stranger = |reason| Ok(Verdict::Stranger { reason });
    let refund = |reason| Ok(Verdict::Refund { reason });
    if deposit.chain != quote.ask.origin.chain {
        return stranger(FailReason::DepositChainMismatch);
    }
    if Some(deposit.currency) != quote.ask.origin.address.evm() {
        return stranger(FailReason::OriginCurrencyMismatch);
    }
    if deposit.amount.is_zero() {
        return stranger(FailReason::DepositedAmountTooLowToFill);
    }
    let quoted = quote.figures.input;
    let enough = quoted.mul_ceil(Ratio::bps(QUALIFYING_BPS))?;
    if deposit.amount < enough && Some(deposit.payer) != quote.ask.user.evm() {
        return stranger(FailReason::DepositedAmountTooLowToFill);
    }
    if let Some(reason) = too_late(quote, deposit.block_time) {
        return refund(reason);
    }
    let most = quoted.mul_floor(Ratio::bps(MOST_EXCHANGED_BPS))?;
    if quote.figures.operation == Operation::Swap && deposit.amount > most {
        return refund(FailReason::Slippage);
    }
    let output = output_for(quote, deposit.amount)?;
    if output.is_zero() || output < quote.figures.minimum {
        return refund(FailReason::DepositedAmountTooLowToFill);
    }
    Ok(Verdict::Fill { output })
}

/// Why an order can no longer be filled at this time of the chain.
pub fn too_late(quote: &Quote, now: Timestamp) -> Option<FailReason> {
    let expired = |secs: u32| now > quote.created_at.plus(Duration::from_secs(secs.into()));
    if now.secs() > i64::from(quote.deadline) - LAST_FILL_BEFORE_DEADLINE_SECS {
        return Some(FailReason::ProtocolDeadlineExpired);
    }
    quote.ask.ttl_secs.is_some_and(expired).then_some(FailReason::TtlExpired)
}

/// The quoted rate, applied to what arrived less the fees. Gas and the flat fee do not shrink with the deposit: else a
/// tiny one would have us pay for its fill.
fn output_for(quote: &Quote, deposited: Amount) -> Result<Amount, OutOfRange> {
    let (figures, fees) = (&quote.figures, &quote.figures.fees);
    if deposited == figures.input {
        return Ok(figures.output);
    }
    let relay = fees.relay.mul_ceil(Ratio::new(deposited.units(), figures.input.units())?)?;
    let taken = fees.fill_gas.checked_add(fees.flat)?.checked_add(relay)?;
    let quoted_net = figures.input.checked_sub(fees.total()?)?;
    figures.output.mul_floor(Ratio::new(deposited.saturating_sub(taken).units(), quoted_net.units())?)
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
        let late = Timestamp::from_secs(i64::from(quote.deadline) - LAST_FILL_BEFORE_DEADLINE_SECS + 1);
        let cases: [(&str, Facts, Verdict); 6] = [
            (
                "another chain",
                Facts { chain: ChainId(1), ..right.clone() },
                Verdict::Stranger { reason: FailReason::DepositChainMismatch },
            ),
            (
                "another currency",
                Facts { currency: stranger, ..right.clone() },
                Verdict::Stranger { reason: FailReason::OriginCurrencyMismatch },
            ),
            (
                "dust from a stranger",
                Facts { amount: part(right.amount, 8_999), payer: stranger, ..right.clone() },
                Verdict::Stranger { reason: FailReason::DepositedAmountTooLowToFill },
            ),
            (
                "too little from the user",
                Facts { amount: part(right.amount, 5_000), ..right.clone() },
                Verdict::Refund { reason: FailReason::DepositedAmountTooLowToFill },
            ),
            (
                "the whole amount from a stranger",
                Facts { payer: stranger, ..right.clone() },
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
    fn a_deposit_that_does_not_cover_the_fixed_fees_is_never_filled() {
        let mut quote = a_quote();
        quote.figures.minimum = Amount::ZERO;
        let mut deposit = facts(&quote);
        let fixed = quote.figures.fees.total().unwrap();
        for amount in
            [Amount::new(alloy_primitives::U256::from(1)), Amount::new(alloy_primitives::U256::from(2)), fixed]
        {
            deposit.amount = amount;
            let refund = Verdict::Refund { reason: FailReason::DepositedAmountTooLowToFill };
            assert_eq!(judge(&quote, &deposit), Ok(refund), "{amount}");
        }
        deposit.amount = Amount::ZERO;
        assert!(matches!(judge(&quote, &deposit), Ok(Verdict::Stranger { .. })));
    }

    #[test]
    fn an_exchange_is_not_stretched_beyond_its_quote() {
        let mut quote = a_quote();
        quote.figures.operation = Operation::Swap;
        let mut deposit = facts(&quote);
        deposit.amount = part(quote.figures.input, 11_000);
        assert!(matches!(judge(&quote, &deposit), Ok(Verdict::Fill { .. })));
        deposit.amount = deposit.amount.checked_add(Amount::new(alloy_primitives::U256::from(1))).unwrap();
        assert_eq!(judge(&quote, &deposit), Ok(Verdict::Refund { reason: FailReason::Slippage }));
    }
}
