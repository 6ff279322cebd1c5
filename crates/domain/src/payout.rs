//! The life of a payout: money that leaves a depository, signed for by its allocator, and executed once or not at all.
//!
//! The allocator intends and signs; a lane of the solver sends. Only a final block says that a payout was executed.

use alloy_primitives::{B256, U256, keccak256};

use crate::ids::PayoutNonce;

/// Transactions of one payout that may fail before a person has to look.
pub const MAX_VOIDS: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Returns a deposit to its owner.
    Refund = 1,
    /// Returns the excess of a deposit.
    Excess = 2,
    /// Pays settled deposits to the treasury.
    Batch = 3,
}

/// The nonce of a payout. It follows from the kind and the key of the deposit or batch, so the contract itself refuses
/// to pay the same thing twice.
pub fn nonce(kind: Kind, key: B256) -> PayoutNonce {
    let kind = U256::from(kind as u8).to_be_bytes::<32>();
    PayoutNonce(keccak256([kind, key.0].concat()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Reserved and not signed, or to be signed again.
    Intended,
    Signed,
    /// A final block shows its nonce used.
    Executed,
    /// It fails on chain: a person has to look.
    Parked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Signed,
    /// A final block is past the signature's time, and the nonce is unused.
    SignatureExpired,
    /// The same, once too often.
    GivenUp,
    /// A final block shows the nonce used, by whomever.
    NonceUsed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a payout that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    state: State,
    event: Event,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Intended, Self::Signed, Self::Executed, Self::Parked];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intended => "intended",
            Self::Signed => "signed",
            Self::Executed => "executed",
            Self::Parked => "parked",
        }
    }
}

pub fn step(state: State, event: Event) -> Result<State, IllegalTransition> {
    let impossible = Err(IllegalTransition { state, event });
    match state {
        State::Intended => match event {
            Event::Signed => Ok(State::Signed),
            // A signature of before may have been used, or a database that was lost may have signed it.
            Event::NonceUsed => Ok(State::Executed),
            Event::SignatureExpired | Event::GivenUp => impossible,
        },
        State::Signed => match event {
            Event::SignatureExpired => Ok(State::Intended),
            Event::GivenUp => Ok(State::Parked),
            Event::NonceUsed => Ok(State::Executed),
            // One live signature at a time.
            Event::Signed => impossible,
        },
        State::Executed => match event {
            Event::NonceUsed => Ok(State::Executed),
            Event::Signed | Event::SignatureExpired | Event::GivenUp => impossible,
        },
        State::Parked => match event {
            Event::NonceUsed => Ok(State::Executed),
            Event::Signed | Event::SignatureExpired | Event::GivenUp => impossible,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_share_nonces() {
        let key = B256::repeat_byte(7);
        let nonces = [Kind::Refund, Kind::Excess, Kind::Batch].map(|kind| nonce(kind, key));
        assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2] && nonces[0] != nonces[2]);
    }

    #[test]
    fn a_payout_is_signed_again_only_after_its_signature_ran_out() {
        let signed = step(State::Intended, Event::Signed).unwrap();
        assert!(step(signed, Event::Signed).is_err());
        let again = step(signed, Event::SignatureExpired).unwrap();
        assert_eq!(step(again, Event::Signed), Ok(State::Signed));
    }

    #[test]
    fn a_used_nonce_ends_a_payout_whatever_it_was() {
        for state in State::ALL {
            assert_eq!(step(state, Event::NonceUsed), Ok(State::Executed));
        }
        for event in [Event::Signed, Event::SignatureExpired, Event::GivenUp] {
            assert!(step(State::Executed, event).is_err() && step(State::Parked, event).is_err());
        }
    }
}
