//! Payments: the only module that creates them.
//!
//! [`pay`] turns a due into a payment in five stages, inside the caller's unit: guard, amount, sponsor, call, lane.
//! [`lane::assign`] alone gives a payment its wallet and nonce, for every subject. [`send`] sends committed payments.

pub mod amount;
pub mod call;
mod decide;
pub mod gas;
pub(crate) mod give_up;
pub(crate) mod lane;
pub mod mined;
pub mod parties;
mod reprice;
pub mod send;
pub mod send_venue;
pub mod trial;
mod tries;
pub mod venue_tx;

use std::fmt;

use domain::fail::{FailReason, RefundFailReason};
use store::payments::PaymentRow;

pub use self::decide::{keep, pay};
pub use self::tries::max_voids;

#[derive(Clone, Debug)]
pub enum Outcome {
    /// Committed with the unit: lane, nonce and contents are fixed.
    Paid(Box<PaymentRow>),
    /// The due row stays, and is tried again when something changes.
    NotNow(Reason),
    /// The order already has its outcome; nothing is owed.
    Settled,
    /// A refund that costs more than it returns.
    Worthless(RefundFailReason),
    /// The order cannot be filled any more, and its deposit goes back.
    CannotFill(FailReason),
}

/// The reason a payment waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    UnknownChain,
    /// A chain of the order takes no payments; the text says why and what to do.
    Refusing(String),
    /// An operator has paused the chain; the text says who and why.
    Paused(String),
    NoMarket,
    /// The chain stands still: its snapshot is older than its age limit.
    Halted,
    /// A contract that the payment goes through is not configured.
    NoContract,
    FeesTooHigh,
    LanesFull,
    /// Another process is the worker.
    Elsewhere,
    /// No lane has the funds.
    Inventory,
    /// Too much is paid out against deposits that are not final.
    OverBudget,
    /// The amount is too large for our own funds.
    TooLarge,
    /// Somebody who pays, is paid or is named is on the operator's list; a person decides.
    Blocked,
    /// The cause of a failed fill is being looked for: it says how much of the deposit goes back.
    CauseUnknown,
    /// The payment is being tried on a node, because code runs in it that is not ours.
    Untried,
    /// The venue rejected it a moment ago.
    Rejected,
    /// The payment failed on the chain too often to be tried again before a person looks at it.
    NeedsPerson,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownChain => f.write_str("the chain is not configured"),
            Self::Refusing(why) => f.write_str(why),
            Self::Paused(why) => write!(f, "the chain is {why}"),
            Self::NoMarket => f.write_str("the chain's prices and balances are not known"),
            Self::Halted => f.write_str("the chain stands still: its prices and balances are too old"),
            Self::NoContract => {
                f.write_str("the chain has no spend limiter or no dex configured, which this payment goes through")
            }
            Self::FeesTooHigh => f.write_str("gas costs more than the configured cap"),
            Self::LanesFull => f.write_str("every lane is full or quarantined"),
            Self::Elsewhere => f.write_str("the worker, which runs elsewhere, is about to pay it"),
            Self::Inventory => f.write_str("no wallet has the funds"),
            Self::OverBudget => f.write_str("too much is paid out against deposits that are not final yet"),
            Self::TooLarge => f.write_str("too large to be returned from our own funds"),
            Self::Blocked => f.write_str("a wallet that is not served is party to it; a person has to decide"),
            Self::CauseUnknown => f.write_str("the cause of its failed fill is being looked for"),
            Self::Untried => f.write_str("it is being tried on a node first"),
            Self::Rejected => f.write_str("the venue rejected it; it is tried again after a pause"),
            Self::NeedsPerson => f.write_str("it failed on the chain too often; a person has to look at it"),
        }
    }
}
