//! Losses: an order was paid out, and a reorg took its deposit away.
//!
//! The order's input is an empty slot then. The deposit that takes it makes the loss good; if none has by the time the
//! order has ended for good, the loss is booked, and a deposit that comes even later reverses that.

use crate::money::{Amount, OutOfRange, Ratio};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The deposit is away and may come back.
    Missing,
    /// A final block of its chain is past the order's deadline, and the slot is empty.
    Booked,
    /// A deposit has taken the slot.
    Recovered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A reorg took away the deposit that had the slot.
    Vanished,
    DeadlineFinal,
    /// A deposit has taken the slot.
    Landed,
}

pub const fn step(state: State, event: Event) -> State {
    match (state, event) {
        (State::Missing | State::Recovered, Event::Vanished) => State::Missing,
        (State::Booked, Event::Vanished | Event::DeadlineFinal) | (State::Missing, Event::DeadlineFinal) => {
            State::Booked
        }
        (State::Missing | State::Booked | State::Recovered, Event::Landed)
        | (State::Recovered, Event::DeadlineFinal) => State::Recovered,
    }
}

impl State {
    pub const ALL: [Self; 3] = [Self::Missing, Self::Booked, Self::Recovered];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Booked => "booked",
            Self::Recovered => "recovered",
        }
    }
}

/// A deposit of less than this share of what was paid for does not take its place.
const TAKES_PLACE_BPS: u16 = 9_000;

/// True if a deposit takes the slot of an order that was paid out for so much. A smaller one goes back.
pub fn takes_place(paid_for: Amount, deposited: Amount) -> Result<bool, OutOfRange> {
    Ok(deposited >= paid_for.mul_ceil(Ratio::bps(TAKES_PLACE_BPS))?)
}

/// A deposit that takes the slot of an order and is smaller than this share of what was paid for leaves it short.
const WHOLE_BPS: u16 = 9_900;

/// True if an order that was paid out for so much still misses a part after so much was deposited for it.
pub fn is_short(paid_for: Amount, deposited: Amount) -> Result<bool, OutOfRange> {
    Ok(deposited < paid_for.mul_ceil(Ratio::bps(WHOLE_BPS))?)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    #[test]
    fn a_loss_is_booked_once_and_reversed_by_whatever_lands() {
        use Event::*;
        let cases: [(&[Event], State); 6] = [
            (&[Landed], State::Recovered),
            (&[DeadlineFinal], State::Booked),
            (&[DeadlineFinal, DeadlineFinal], State::Booked),
            (&[DeadlineFinal, Landed], State::Recovered),
            (&[Landed, DeadlineFinal], State::Recovered),
            (&[Landed, Vanished, DeadlineFinal], State::Booked),
        ];
        for (events, end) in cases {
            let state = events.iter().fold(State::Missing, |state, event| step(state, *event));
            assert_eq!(state, end, "{events:?}");
        }
    }

    #[test]
    fn nine_tenths_take_the_place_of_the_whole() {
        let of = |units: u64| Amount::new(U256::from(units));
        for (deposited, takes) in [(1_000, true), (900, true), (899, false), (0, false), (5_000, true)] {
            assert_eq!(takes_place(of(1_000), of(deposited)), Ok(takes), "{deposited}");
        }
        // Rounded against the smaller one.
        assert_eq!(takes_place(of(11), of(9)), Ok(false));
    }

    #[test]
    fn an_order_misses_nothing_to_a_hundredth() {
        let of = |units: u64| Amount::new(U256::from(units));
        for (deposited, short) in [(1_000, false), (990, false), (989, true), (900, true), (0, true), (5_000, false)] {
            assert_eq!(is_short(of(1_000), of(deposited)), Ok(short), "{deposited}");
        }
    }
}
