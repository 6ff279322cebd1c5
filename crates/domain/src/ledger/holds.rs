//! Holds: money that is set aside, and which uses of a balance it narrows.

use std::fmt;

use alloy_primitives::{Address, B256};

use super::{Context, UsdcMicros};
use crate::ids::RequestId;

/// The purpose of a hold. It decides which uses it narrows ([`super::Account::available`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldKind {
    /// Until the deposit of a fast fill is there. Narrows fast fills and claims, not sponsorship.
    FastFill,
    /// Until a withdrawal is paid. Narrows everything: what is on its way out cannot pay for fees too.
    Claim,
    /// Until a sponsored or fixed-rate transfer is done. Narrows everything.
    Sponsorship,
    /// App fees that a sponsor paid while its balance stood for fast fills: until those have ended and it owes nothing.
    /// Narrows everything: the same dollar must not leave twice, whichever way it goes.
    AppFee,
    /// Until a transaction that a relayer sends is final. Narrows everything.
    Relay,
}

impl HoldKind {
    pub const ALL: [Self; 5] = [Self::FastFill, Self::Claim, Self::Sponsorship, Self::AppFee, Self::Relay];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FastFill => "fast-fill",
            Self::Claim => "claim",
            Self::Sponsorship => "sponsorship",
            Self::AppFee => "app-fee",
            Self::Relay => "relay",
        }
    }

    pub const fn counted(self) -> Counted {
        match self {
            Self::FastFill => Counted::Held,
            Self::Claim | Self::Sponsorship | Self::AppFee | Self::Relay => Counted::Reserved,
        }
    }

    pub const fn opened(self) -> Context {
        match self {
            Self::FastFill => Context::FastFillReduceBalance,
            Self::Claim => Context::Claim,
            Self::Sponsorship | Self::AppFee | Self::Relay => Context::SetPendingAmount,
        }
    }

    pub const fn ended(self) -> Context {
        match self {
            Self::FastFill => Context::FastFillIncreaseBalance,
            Self::Claim => Context::Claim,
            Self::Sponsorship | Self::AppFee | Self::Relay => Context::UnsetPendingAmount,
        }
    }
}

/// The column of an account in which a hold is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counted {
    Held,
    Reserved,
}

/// A hold is named after what it is for: a request or a claim, and the number of the attempt. A fast fill that reverted may
/// be asked for again, and is then another hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HoldId {
    pub kind: HoldKind,
    pub subject: B256,
    pub attempt: u32,
}

impl HoldId {
    pub const fn first(kind: HoldKind, subject: B256) -> Self {
        Self { kind, subject, attempt: 0 }
    }

    /// The hold on an app fee: of one payment, and one place among its recipients.
    pub fn of_app_fee(payment: i64, place: u32) -> Self {
        let mut subject = B256::ZERO;
        subject.0[20..28].copy_from_slice(&payment.to_be_bytes());
        subject.0[28..].copy_from_slice(&place.to_be_bytes());
        Self::first(HoldKind::AppFee, subject)
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}/{}", self.kind.as_str(), self.subject, self.attempt)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub id: HoldId,
    pub wallet: Address,
    /// Never negative. A sponsored transfer that costs its sponsor nothing holds nothing, and is refused in debt.
    pub amount: UsdcMicros,
    pub request: Option<RequestId>,
}
