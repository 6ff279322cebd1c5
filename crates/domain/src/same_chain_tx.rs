//! The life of a same-chain transaction with an app fee: seen in a block, and once final booked for its apps.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// In a block that is not final.
    Seen,
    Booked,
    /// Its block is no longer part of the chain.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A block shows it.
    Seen,
    /// It is final, and its app fees are credited.
    Booked,
    /// A reorg took its block away.
    BlockGone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a same-chain transaction that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    state: State,
    event: Event,
}

impl Event {
    pub const ALL: [Self; 3] = [Self::Seen, Self::Booked, Self::BlockGone];
}

impl State {
    pub const ALL: [Self; 3] = [Self::Seen, Self::Booked, Self::Gone];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Booked => "booked",
            Self::Gone => "gone",
        }
    }
}

pub fn step(state: State, event: Event) -> Result<State, IllegalTransition> {
    let impossible = Err(IllegalTransition { state, event });
    match state {
        State::Seen => match event {
            Event::Seen => Ok(State::Seen),
            Event::Booked => Ok(State::Booked),
            Event::BlockGone => Ok(State::Gone),
        },
        State::Gone => match event {
            // It was mined again in another block.
            Event::Seen => Ok(State::Seen),
            Event::BlockGone => Ok(State::Gone),
            Event::Booked => impossible,
        },
        State::Booked => match event {
            // A block that is read again shows the transaction again.
            Event::Seen => Ok(State::Booked),
            // It is final, and its fees are credited once.
            Event::Booked | Event::BlockGone => impossible,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_booked_once_and_only_while_its_block_stands() {
        let gone = step(State::Seen, Event::BlockGone).unwrap();
        assert!(step(gone, Event::Booked).is_err());
        let again = step(gone, Event::Seen).unwrap();
        let booked = step(again, Event::Booked).unwrap();
        assert_eq!(step(booked, Event::Seen), Ok(State::Booked));
        assert!(step(booked, Event::Booked).is_err() && step(booked, Event::BlockGone).is_err());
    }
}
