//! The life of a hold: money set aside, later spent or given back, once.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Open,
    /// Spent.
    Posted,
    /// Given back.
    Voided,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Another amount is set aside.
    Change,
    Post,
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hold that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    state: State,
    event: Event,
}

impl State {
    pub const ALL: [Self; 3] = [Self::Open, Self::Posted, Self::Voided];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Posted => "posted",
            Self::Voided => "voided",
        }
    }
}

pub fn step(state: State, event: Event) -> Result<State, IllegalTransition> {
    match (state, event) {
        (State::Open, Event::Change) => Ok(State::Open),
        (State::Open | State::Posted, Event::Post) => Ok(State::Posted),
        (State::Open | State::Voided, Event::Void) => Ok(State::Voided),
        (State::Posted, Event::Void | Event::Change) | (State::Voided, Event::Post | Event::Change) => {
            Err(IllegalTransition { state, event })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_ends_once_and_hearing_it_twice_is_harmless() {
        for (first, second) in [(Event::Post, Event::Void), (Event::Void, Event::Post)] {
            let ended = step(State::Open, first).unwrap();
            assert_eq!(step(ended, first), Ok(ended));
            assert!(step(ended, second).is_err());
            assert!(step(ended, Event::Change).is_err());
        }
    }
}
