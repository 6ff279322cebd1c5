//! The life of a claim: a withdrawal that was asked for, then signed for by its wallet, and paid once or not at all.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Good for a while. Nothing is set aside.
    Asked,
    /// Signed for: it is set aside, and its payment is on its way.
    Pending,
    /// Its payment is final.
    Success,
    /// It could not be paid, and the balance has it back.
    Failure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Signed,
    Paid,
    Failed,
    /// The chain shows a payment of it that we did not know of.
    Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a claim that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    state: State,
    event: Event,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Asked, Self::Pending, Self::Success, Self::Failure];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

pub fn step(state: State, event: Event) -> Result<State, IllegalTransition> {
    let impossible = Err(IllegalTransition { state, event });
    match state {
        State::Asked => match event {
            Event::Signed | Event::Found => Ok(State::Pending),
            Event::Paid | Event::Failed => impossible,
        },
        State::Pending => match event {
            Event::Paid => Ok(State::Success),
            Event::Failed => Ok(State::Failure),
            Event::Found => Ok(State::Pending),
            // One signature, one payment.
            Event::Signed => impossible,
        },
        State::Success => match event {
            Event::Paid | Event::Found => Ok(State::Success),
            Event::Signed | Event::Failed => impossible,
        },
        State::Failure => match event {
            Event::Failed => Ok(State::Failure),
            Event::Signed | Event::Paid | Event::Found => impossible,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_signed_for_once_and_ends_once() {
        let pending = step(State::Asked, Event::Signed).unwrap();
        assert!(step(pending, Event::Signed).is_err());
        for (end, other) in [(Event::Paid, Event::Failed), (Event::Failed, Event::Paid)] {
            let ended = step(pending, end).unwrap();
            assert_eq!(step(ended, end), Ok(ended));
            assert!(step(ended, other).is_err() && step(ended, Event::Signed).is_err());
        }
    }

    #[test]
    fn nothing_is_paid_that_nobody_signed_for() {
        assert!(step(State::Asked, Event::Paid).is_err() && step(State::Asked, Event::Failed).is_err());
    }
}
