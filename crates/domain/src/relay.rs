//! The states of a relay: a transaction that a user signed for and one of our relayers sends.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Due, or a payment on its way that no block has.
    Live,
    /// In a block, or given up by ourselves: nothing speaks against the next one of its account.
    Done,
    /// Failed in a block, refused by every node, or proven not to have happened: its account waits a while.
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A block has it, and the deposit that it was for.
    Landed,
    /// It failed in a block, brought no deposit, or is proven not to have happened.
    Failed,
    /// Every node refuses it.
    Refused,
    /// We gave it up, unsent or cancelled.
    GivenUp,
}

/// A block overrides what was known before: it may show a relay that was refused or failed before a reorg.
pub const fn step(state: State, event: Event) -> State {
    match (state, event) {
        (State::Live | State::Done | State::Void, Event::Landed) => State::Done,
        (State::Live | State::Done | State::Void, Event::Failed | Event::Refused) => State::Void,
        // One that was refused was cancelled for that.
        (State::Void, Event::GivenUp) => State::Void,
        (State::Live | State::Done, Event::GivenUp) => State::Done,
    }
}

impl State {
    pub const ALL: [Self; 3] = [Self::Live, Self::Done, Self::Void];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Done => "done",
            Self::Void => "void",
        }
    }
}

impl Event {
    pub const ALL: [Self; 4] = [Self::Landed, Self::Failed, Self::Refused, Self::GivenUp];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_held_against_its_account_unless_we_gave_it_up() {
        for (event, after) in [
            (Event::Landed, [State::Done, State::Done, State::Done]),
            (Event::Failed, [State::Void, State::Void, State::Void]),
            (Event::Refused, [State::Void, State::Void, State::Void]),
            (Event::GivenUp, [State::Done, State::Done, State::Void]),
        ] {
            assert_eq!(State::ALL.map(|state| step(state, event)), after, "{event:?}");
        }
    }
}
