//! The life of a transfer to the treasury: seen in a block, and once final credited to an account or set aside.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// In a block that is not final.
    Seen,
    Credited,
    /// Final and without an account to credit: a person has to look at it.
    Unattributed,
    /// Its block is no longer part of the chain.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A block shows it.
    Seen,
    /// It is final, and an account is credited with it.
    Credited,
    /// It is final, and belongs to no account.
    SetAside,
    /// A reorg took its block away.
    BlockGone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transfer to the treasury that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    state: State,
    event: Event,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Seen, Self::Credited, Self::Unattributed, Self::Gone];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Credited => "credited",
            Self::Unattributed => "unattributed",
            Self::Gone => "gone",
        }
    }
}

pub fn step(state: State, event: Event) -> Result<State, IllegalTransition> {
    let impossible = Err(IllegalTransition { state, event });
    match state {
        State::Seen => match event {
            Event::Seen => Ok(State::Seen),
            Event::Credited => Ok(State::Credited),
            Event::SetAside => Ok(State::Unattributed),
            Event::BlockGone => Ok(State::Gone),
        },
        State::Gone => match event {
            // It was mined again in another block.
            Event::Seen => Ok(State::Seen),
            Event::BlockGone => Ok(State::Gone),
            Event::Credited | Event::SetAside => impossible,
        },
        // Final decisions stand. A block that is read again shows the transfer again.
        State::Credited => match event {
            Event::Seen | Event::Credited => Ok(State::Credited),
            Event::SetAside | Event::BlockGone => impossible,
        },
        State::Unattributed => match event {
            Event::Seen | Event::SetAside => Ok(State::Unattributed),
            Event::Credited | Event::BlockGone => impossible,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_credited_once_and_only_while_its_block_stands() {
        assert_eq!(step(State::Seen, Event::Credited), Ok(State::Credited));
        assert!(step(State::Gone, Event::Credited).is_err() && step(State::Unattributed, Event::Credited).is_err());
        let gone = step(State::Seen, Event::BlockGone).unwrap();
        assert_eq!(step(gone, Event::Seen), Ok(State::Seen));
    }

    #[test]
    fn a_final_decision_stands() {
        for state in [State::Credited, State::Unattributed] {
            assert_eq!(step(state, Event::Seen), Ok(state));
            assert!(step(state, Event::BlockGone).is_err());
        }
    }
}
