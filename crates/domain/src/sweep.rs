//! The states of a sweep, which brings the balance of a deposit address into the depository.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Due, or a payment on its way that no block has. One per balance.
    Live,
    /// In a block.
    Done,
    /// Its payment is void: the balance is where it was.
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Mined,
    /// A reorg took its block away.
    Unmined,
    /// A final block shows that it did not happen.
    Failed,
}

pub const fn step(state: State, event: Event) -> State {
    match (state, event) {
        (State::Live | State::Done, Event::Mined) => State::Done,
        (State::Live | State::Done, Event::Unmined) => State::Live,
        // Proof stays proof.
        (State::Void, Event::Mined | Event::Unmined | Event::Failed) | (State::Live | State::Done, Event::Failed) => {
            State::Void
        }
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
    pub const ALL: [Self; 3] = [Self::Mined, Self::Unmined, Self::Failed];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_follows_its_block_until_it_is_void() {
        for (event, after) in [
            (Event::Mined, [State::Done, State::Done, State::Void]),
            (Event::Unmined, [State::Live, State::Live, State::Void]),
            (Event::Failed, [State::Void, State::Void, State::Void]),
        ] {
            assert_eq!(State::ALL.map(|state| step(state, event)), after, "{event:?}");
        }
    }
}
