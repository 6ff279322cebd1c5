//! The life of one outgoing payment. It ends final, or void by proof: never by giving up.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Committed with its lane, nonce and contents; perhaps already on its way.
    Decided,
    /// At least one node took it.
    Sent,
    /// In a block, successful.
    Mined,
    /// In a block, and failed there. Only when that block is final is the payment void.
    Reverted,
    Final,
    /// A final block shows its nonce consumed by something that is not a success of it.
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Sent,
    Mined,
    Reverted,
    /// A reorg took its block away: the same bytes go out again.
    Unmined,
    /// Its block is final.
    Finalised,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a payment that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    state: State,
    event: Event,
}

pub fn step(state: State, event: Event) -> Result<State, IllegalTransition> {
    let impossible = Err(IllegalTransition { state, event });
    match state {
        State::Decided => match event {
            Event::Sent => Ok(State::Sent),
            // The process died between the node's answer and our note of it.
            Event::Mined => Ok(State::Mined),
            Event::Reverted => Ok(State::Reverted),
            Event::Unmined => Ok(State::Decided),
            Event::Finalised => impossible,
        },
        State::Sent => match event {
            Event::Sent | Event::Unmined => Ok(State::Sent),
            Event::Mined => Ok(State::Mined),
            Event::Reverted => Ok(State::Reverted),
            Event::Finalised => impossible,
        },
        State::Mined => match event {
            // A node may still be telling us that it took what is already mined.
            Event::Sent | Event::Mined => Ok(State::Mined),
            Event::Unmined => Ok(State::Sent),
            Event::Finalised => Ok(State::Final),
            Event::Reverted => impossible,
        },
        State::Reverted => match event {
            Event::Sent | Event::Reverted => Ok(State::Reverted),
            Event::Unmined => Ok(State::Sent),
            Event::Finalised => Ok(State::Void),
            Event::Mined => impossible,
        },
        State::Final => match event {
            Event::Sent | Event::Mined | Event::Finalised => Ok(State::Final),
            Event::Reverted | Event::Unmined => impossible,
        },
        State::Void => match event {
            Event::Sent | Event::Reverted | Event::Finalised => Ok(State::Void),
            Event::Mined | Event::Unmined => impossible,
        },
    }
}

impl State {
    pub const ALL: [Self; 6] = [Self::Decided, Self::Sent, Self::Mined, Self::Reverted, Self::Final, Self::Void];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::Sent => "sent",
            Self::Mined => "mined",
            Self::Reverted => "reverted",
            Self::Final => "final",
            Self::Void => "void",
        }
    }
}

impl Event {
    pub const ALL: [Self; 5] = [Self::Sent, Self::Mined, Self::Reverted, Self::Unmined, Self::Finalised];
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_final_or_void_stays_so(events in proptest::collection::vec(0usize..Event::ALL.len(), 0..40)) {
            let mut state = State::Decided;
            for event in events.into_iter().map(|at| Event::ALL[at]) {
                let Ok(next) = step(state, event) else { continue };
                if matches!(state, State::Final | State::Void) {
                    prop_assert_eq!(next, state);
                }
                state = next;
            }
        }
    }

    #[test]
    fn only_a_final_revert_is_void() {
        for state in State::ALL {
            for event in Event::ALL {
                if step(state, event) == Ok(State::Void) {
                    assert!(matches!((state, event), (State::Reverted, Event::Finalised) | (State::Void, _)));
                }
            }
        }
    }
}
