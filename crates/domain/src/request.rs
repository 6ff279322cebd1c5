//! The life of a request. Workers report what happened; only [`step`] says what follows.

use crate::fail::{FailReason, RefundFailReason};
use crate::money::Amount;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Quoted; no deposit that counts has been seen.
    Waiting,
    /// Signed for by the user; one of our relayers sends the deposit.
    Depositing,
    /// Paid for by the user; the fill is decided or due.
    Pending,
    /// The fill was handed to the destination's nodes.
    Submitted,
    /// The recipient has been paid.
    Success,
    /// Cannot be filled; the deposit is on its way back.
    Refunding,
    Refunded,
    /// Neither filled nor refunded, and nothing more will be tried.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The user has signed, and the transaction is ours to send.
    Relayed,
    /// Proof that the relayed transaction did not and will not happen.
    RelayVoid {
        reason: FailReason,
    },
    /// The same, where something else stands for the deposit: a fast fill, or another deposit.
    RelayGone,
    /// The order's deposit reached the confirmations we ask for.
    DepositAccepted {
        output: Amount,
    },
    /// An integrator stands for the deposit, which is still to come.
    FastFill {
        output: Amount,
    },
    /// Proof that a fill ahead of the deposit did not and will not pay, and there is no deposit.
    FastFillVoid,
    /// The order's deposit is in, and cannot be filled.
    DepositRefused {
        reason: FailReason,
    },
    /// The order has no deposit: a reorg removed it. `fill_decided` says whether a payment, of either kind, already
    /// excludes every other outcome.
    DepositGone {
        fill_decided: bool,
    },
    /// The deposit stayed away for the whole confirmation window.
    DepositLost,
    /// The due payment can no longer be made, and none was.
    CannotFill {
        reason: FailReason,
    },
    /// A person decided that it is refunded instead of filled, or although it has failed. Nothing is paid or decided
    /// yet.
    OperatorRefund,
    FillSent,
    FillMined,
    /// Proof that the fill did not and will not pay.
    FillVoid {
        reason: FailReason,
    },
    RefundMined,
    RefundVoid,
    /// Nothing goes back: for a reason that callers are told, or because nobody is named whom it could go to.
    RefundImpossible {
        reason: Option<RefundFailReason>,
    },
    /// The chain shows a payment for this request that the database did not know of.
    Found {
        refund: bool,
    },
    /// The user's own transaction, on the same chain and without a deposit, is in a block. A failure is reported only
    /// while no block holds a success.
    Executed {
        success: bool,
    },
}

/// Money that has to go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Fill {
        output: Amount,
    },
    /// The fill once decided, whose payment turned out void.
    FillAgain,
    Refund,
}

/// The step after an event: the next state and its consequences, as data for the caller to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Move(Next),
    /// Nodes and restarts repeat themselves; hearing it twice is normal.
    AlreadyDone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub state: State,
    pub reason: Option<FailReason>,
    pub refund_reason: Option<RefundFailReason>,
    pub due: Option<Due>,
    /// The payment that was due before no longer is.
    pub withdraw_due: bool,
    /// The integrator's hold for a fill ahead of the deposit is free again.
    pub release_hold: bool,
}

impl Step {
    const fn to(state: State) -> Next {
        Next { state, reason: None, refund_reason: None, due: None, withdraw_due: false, release_hold: false }
    }
}

impl Next {
    const fn because(mut self, reason: FailReason) -> Self {
        self.reason = Some(reason);
        self
    }

    const fn due(mut self, due: Due) -> Self {
        self.due = Some(due);
        self
    }

    const fn then(self) -> Option<Step> {
        Some(Step::Move(self))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request that is {state:?} cannot meet {event:?}")]
pub struct IllegalTransition {
    pub state: State,
    pub event: Event,
}

/// The one place that says what follows from an event, by the state it meets.
pub fn step(state: State, event: Event) -> Result<Step, IllegalTransition> {
    let next = match state {
        State::Waiting => from_waiting(event),
        State::Depositing => from_depositing(event),
        State::Pending => from_pending(event),
        State::Submitted => from_submitted(event),
        State::Success => from_success(event),
        State::Refunding => from_refunding(event),
        State::Refunded => from_refunded(event),
        State::Failed => from_failed(event),
    };
    next.ok_or(IllegalTransition { state, event })
}

const DONE: Option<Step> = Some(Step::AlreadyDone);
const IMPOSSIBLE: Option<Step> = None;

fn found(refund: bool) -> Option<Step> {
    let state = if refund { State::Refunded } else { State::Success };
    Next { withdraw_due: true, ..Step::to(state) }.then()
}

fn refund(reason: FailReason) -> Option<Step> {
    let next = Step::to(State::Refunding).because(reason).due(Due::Refund);
    // A fast fill that was never paid owes nothing.
    Next { withdraw_due: true, release_hold: true, ..next }.then()
}

/// Back to where it was before anybody stood for the deposit.
fn unfilled(state: State) -> Option<Step> {
    Next { withdraw_due: true, release_hold: true, ..Step::to(state) }.then()
}

fn from_waiting(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        Relayed => Step::to(State::Depositing).then(),
        // A reorg took the deposit away before.
        RelayVoid { reason } => Step::to(State::Failed).because(reason).then(),
        RelayGone => DONE,
        FastFill { output } => Step::to(State::Waiting).due(Due::Fill { output }).then(),
        FastFillVoid | CannotFill { .. } => unfilled(State::Waiting),
        DepositAccepted { output } => Step::to(State::Pending).due(Due::Fill { output }).then(),
        DepositRefused { reason } => Step::to(State::Refunding).because(reason).due(Due::Refund).then(),
        DepositGone { .. } => DONE,
        DepositLost => Step::to(State::Failed).because(FailReason::DepositReorged).then(),
        // Filled ahead of its deposit.
        FillSent => Step::to(State::Submitted).then(),
        FillMined => Step::to(State::Success).then(),
        FillVoid { .. } => DONE,
        Found { refund } => found(refund),
        Executed { success: true } => Step::to(State::Success).then(),
        Executed { success: false } => Step::to(State::Failed).because(FailReason::TransactionReverted).then(),
        RefundVoid => DONE,
        OperatorRefund | RefundMined | RefundImpossible { .. } => IMPOSSIBLE,
    }
}

fn from_depositing(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        Relayed | DepositGone { .. } | FillVoid { .. } | RefundVoid => DONE,
        RelayVoid { reason } => Step::to(State::Failed).because(reason).then(),
        RelayGone => Step::to(State::Waiting).then(),
        FastFill { output } => Step::to(State::Depositing).due(Due::Fill { output }).then(),
        FastFillVoid | CannotFill { .. } => unfilled(State::Depositing),
        DepositAccepted { output } => Step::to(State::Pending).due(Due::Fill { output }).then(),
        DepositRefused { reason } => Step::to(State::Refunding).because(reason).due(Due::Refund).then(),
        DepositLost => Step::to(State::Failed).because(FailReason::DepositReorged).then(),
        // Filled ahead of its deposit.
        FillSent => Step::to(State::Submitted).then(),
        FillMined => Step::to(State::Success).then(),
        Found { refund } => found(refund),
        Executed { success: true } => Step::to(State::Success).then(),
        Executed { success: false } => Step::to(State::Failed).because(FailReason::TransactionReverted).then(),
        OperatorRefund | RefundMined | RefundImpossible { .. } => IMPOSSIBLE,
    }
}

fn from_pending(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        Relayed | RelayVoid { .. } | RelayGone => DONE,
        DepositAccepted { .. } | DepositRefused { .. } => DONE,
        // With a payment on its way, only that payment decides; the missing deposit is our loss to chase.
        DepositGone { fill_decided: true } => DONE,
        DepositGone { fill_decided: false } => Next { withdraw_due: true, ..Step::to(State::Waiting) }.then(),
        FillSent => Step::to(State::Submitted).then(),
        FillMined => Step::to(State::Success).then(),
        FillVoid { reason } | CannotFill { reason } => refund(reason),
        OperatorRefund => refund(FailReason::ManualAdminRefund),
        Found { refund } => found(refund),
        RefundVoid => DONE,
        DepositLost | RefundMined | RefundImpossible { .. } | Executed { .. } => IMPOSSIBLE,
        FastFill { .. } | FastFillVoid => IMPOSSIBLE,
    }
}

fn from_submitted(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        Relayed | RelayVoid { .. } | RelayGone => DONE,
        FastFillVoid => unfilled(State::Waiting),
        DepositAccepted { .. } | DepositRefused { .. } | DepositGone { .. } | DepositLost => DONE,
        FillSent => DONE,
        FillMined => Step::to(State::Success).then(),
        FillVoid { reason } => refund(reason),
        Found { refund } => found(refund),
        RefundVoid => DONE,
        OperatorRefund | CannotFill { .. } | RefundMined | RefundImpossible { .. } | Executed { .. } => IMPOSSIBLE,
        FastFill { .. } => IMPOSSIBLE,
    }
}

fn from_success(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        Relayed | RelayVoid { .. } | RelayGone => DONE,
        DepositAccepted { .. } | DepositRefused { .. } | DepositGone { .. } | DepositLost => DONE,
        FillSent | FillMined | Found { .. } => DONE,
        // Sent twice, or in another block.
        Executed { success: true } => DONE,
        // A reorg took the success away, and the transaction failed where it landed again.
        Executed { success: false } => Step::to(State::Failed).because(FailReason::TransactionReverted).then(),
        // The chain took back a success and then failed it: the recipient is still owed.
        FillVoid { .. } => Step::to(State::Success).due(Due::FillAgain).then(),
        CannotFill { .. } | OperatorRefund | RefundMined | RefundVoid | RefundImpossible { .. } => IMPOSSIBLE,
        FastFill { .. } | FastFillVoid => IMPOSSIBLE,
    }
}

fn from_refunding(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        Relayed | RelayVoid { .. } | RelayGone => DONE,
        DepositAccepted { .. } | DepositRefused { .. } | DepositLost => DONE,
        // A deposit that left the chain by itself is not ours to return.
        DepositGone { fill_decided: false } => Next { withdraw_due: true, ..Step::to(State::Waiting) }.then(),
        DepositGone { fill_decided: true } => DONE,
        RefundMined => Step::to(State::Refunded).then(),
        RefundVoid => Step::to(State::Refunding).due(Due::Refund).then(),
        RefundImpossible { reason } => {
            Next { refund_reason: reason, withdraw_due: true, ..Step::to(State::Failed) }.then()
        }
        FillVoid { .. } | CannotFill { .. } => DONE,
        Found { refund } => found(refund),
        OperatorRefund | FillSent | FillMined | Executed { .. } | FastFill { .. } | FastFillVoid => IMPOSSIBLE,
    }
}

fn from_refunded(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        Relayed | RelayVoid { .. } | RelayGone => DONE,
        DepositAccepted { .. } | DepositRefused { .. } | DepositGone { .. } | DepositLost => DONE,
        RefundMined | FillVoid { .. } | CannotFill { .. } | Found { .. } | RefundImpossible { .. } => DONE,
        RefundVoid => Step::to(State::Refunded).due(Due::Refund).then(),
        OperatorRefund | FillSent | FillMined | Executed { .. } | FastFill { .. } | FastFillVoid => IMPOSSIBLE,
    }
}

fn from_failed(event: Event) -> Option<Step> {
    use Event::*;
    match event {
        RelayVoid { .. } | RelayGone => DONE,
        Relayed => IMPOSSIBLE,
        DepositAccepted { .. } | DepositRefused { .. } | DepositGone { .. } | DepositLost => DONE,
        RefundImpossible { .. } | RefundVoid | FillVoid { .. } | CannotFill { .. } => DONE,
        Found { refund } => found(refund),
        // The user sent it again, and it went through.
        Executed { success: true } => Step::to(State::Success).then(),
        Executed { success: false } => DONE,
        // Its deposit is still there, and names whom it may go to if a person says so.
        OperatorRefund => refund(FailReason::ManualAdminRefund),
        FillSent | FillMined | RefundMined | FastFill { .. } | FastFillVoid => IMPOSSIBLE,
    }
}

impl State {
    pub const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Depositing,
        Self::Pending,
        Self::Submitted,
        Self::Success,
        Self::Refunding,
        Self::Refunded,
        Self::Failed,
    ];

    /// As it is stored. Callers see [`State::status`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Depositing => "depositing",
            Self::Pending => "pending",
            Self::Submitted => "submitted",
            Self::Success => "success",
            Self::Refunding => "refunding",
            Self::Refunded => "refunded",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The public status. A refund under way is `pending`: clients stop at `failure`.
    pub const fn status(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Depositing => "depositing",
            Self::Pending | Self::Refunding => "pending",
            Self::Submitted => "submitted",
            Self::Success => "success",
            Self::Refunded => "refund",
            Self::Failed => "failure",
        }
    }

    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Success | Self::Refunded | Self::Failed => true,
            Self::Waiting | Self::Depositing | Self::Pending | Self::Submitted | Self::Refunding => false,
        }
    }
}

#[cfg(test)]
mod tests;
