//! The app ledger: what an integrator's balance is, why it moves, and how much of it may be used for what.
//!
//! It is kept in millionths of a USDC. Every entry moves money between one wallet's account and one of the house's, so
//! debits equal credits by its very form. An entry is named after its cause and written once. Money that is only set
//! aside is a [`Hold`]: it moves nothing until it ends, and it ends once (`hold.rs`).

use alloy_primitives::{Address, U256};

use crate::catalog::{Catalog, Chain, Currency};
use crate::ids::RequestId;
use crate::money::{Amount, OutOfRange, Ratio, pow10};

mod holds;
#[cfg(test)]
mod tests;

pub use holds::{Counted, Hold, HoldId, HoldKind};

/// Millionths of a USDC. Signed: an account may owe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsdcMicros(pub i64);

/// The protocol's name of the chain on which balances are funded and in whose USDC they are kept.
pub const CHAIN: &str = "base";
/// The asset they are kept in.
pub const ASSET: &str = "usdc";

/// No single entry moves more: ten billion USDC.
pub const MAX_AMOUNT: UsdcMicros = UsdcMicros(10_000_000_000_000_000);

/// An account that owes more than this gets nothing new sponsored, at a fixed rate or filled ahead of its deposit.
pub const DEBT_LIMIT: UsdcMicros = UsdcMicros(-50_000_000);

impl UsdcMicros {
    pub const ZERO: Self = Self(0);

    /// From an amount of USDC, which has its own number of decimals. The fraction is lost.
    pub fn of(amount: Amount, decimals: u8) -> Result<Self, OutOfRange> {
        let micros = amount.mul_floor(Ratio::new(pow10(6), pow10(decimals))?)?;
        i64::try_from(micros.units()).map(Self).map_err(|_| OutOfRange)
    }

    /// So many units of USDC, where that is possible without a fraction.
    pub fn in_units(self, decimals: u8) -> Result<Amount, OutOfRange> {
        let micros = u64::try_from(self.0).map_err(|_| OutOfRange)?;
        let units = Amount::new(U256::from(micros)).mul_floor(Ratio::new(pow10(decimals), pow10(6))?)?;
        if Self::of(units, decimals)? == self { Ok(units) } else { Err(OutOfRange) }
    }

    pub fn plus(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }

    pub fn minus(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }

    pub fn negated(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

/// The currency of the ledger on its chain, where a deployment has both.
pub fn currency(chain: &Chain) -> Option<&Currency> {
    chain.tokens.iter().find(|token| chain.name == CHAIN && token.id == ASSET)
}

/// The same, of a whole deployment.
pub fn currency_of(catalog: &Catalog) -> Option<&Currency> {
    catalog.chains().iter().find_map(currency)
}

/// The accounts on the other side of the integrators'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum House {
    /// Money that reached us on chain for app balances, and left again by claims.
    Treasury,
    /// Fees: sponsored ones come in, those of apps go out.
    Fees,
    /// The gains and losses of fixed rates against the market.
    Rates,
    /// Money that fast fills paid out and deposits brought back.
    FastFills,
}

/// The names under which movements are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    BalanceTopup,
    PayFees,
    SetPendingAmount,
    UnsetPendingAmount,
    ResetPendingAmount,
    FastFillReduceBalance,
    FastFillIncreaseBalance,
    Claim,
    ExecuteTransactionRequest,
    FixedRateAccounting,
    IntegratorFixedBpsAccounting,
}

/// Why money moves, by the row that is the reason. One cause moves money once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A transfer to the treasury that names an account, final on its chain.
    Funding { transfer: i64 },
    /// One recipient's share of the app fees of a transfer. `place` is its place among the recipients.
    AppFee { payment: i64, place: u32 },
    /// The same of a same-chain transfer.
    SameChainFee { execution: i64, place: u32 },
    /// The fees of a transfer that its sponsor pays.
    Sponsorship { payment: i64 },
    /// The cost or gain of a fixed rate, whichever way the market stood.
    FixedRate { payment: i64 },
    /// The deposit of a fast fill brought more than was counted on.
    FastFillSurplus { deposit: i64 },
    /// The deposit of a fast fill brought less. It may push the balance below zero.
    FastFillShortage { deposit: i64 },
    /// The deposit of a fast fill did not come in time: its worth, as far as the hold goes.
    FastFillLoss { hold: HoldId },
    /// Its worth beyond the hold. It may push the balance below zero.
    FastFillLossBeyond { hold: HoldId },
    /// It came after all, and is worth no more than this.
    FastFillReturn { hold: HoldId },
    /// The fill failed on the chain by the doing of its recipient or of the caller's calls: the gas it burnt.
    FastFillGas { hold: HoldId },
    /// Paid out to the owner.
    Claim { hold: HoldId },
    /// The gas of a transaction that a relayer sent at the wallet's cost.
    Relay { hold: HoldId },
}

/// Which way a cause may move a wallet's balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    In,
    Out,
    Either,
}

impl Cause {
    /// The id of its entry.
    pub fn id(self) -> String {
        match self {
            Self::Funding { transfer } => format!("topup:{transfer}"),
            Self::AppFee { payment, place } => format!("app-fee:{payment}/{place}"),
            Self::SameChainFee { execution, place } => format!("alone-fee:{execution}/{place}"),
            Self::Sponsorship { payment } => format!("sponsorship:{payment}"),
            Self::FixedRate { payment } => format!("fixed-rate:{payment}"),
            Self::FastFillSurplus { deposit } => format!("surplus:{deposit}"),
            Self::FastFillShortage { deposit } => format!("shortage:{deposit}"),
            Self::FastFillLoss { hold } => format!("loss:{hold}"),
            Self::FastFillLossBeyond { hold } => format!("loss-beyond:{hold}"),
            Self::FastFillReturn { hold } => format!("return:{hold}"),
            Self::FastFillGas { hold } => format!("gas:{hold}"),
            Self::Claim { hold } => format!("paid:{hold}"),
            Self::Relay { hold } => format!("relayed:{hold}"),
        }
    }

    pub fn context(self) -> Context {
        match self {
            Self::Funding { .. } => Context::BalanceTopup,
            Self::AppFee { .. } | Self::SameChainFee { .. } | Self::Sponsorship { .. } => Context::PayFees,
            Self::FixedRate { .. } => Context::FixedRateAccounting,
            Self::FastFillShortage { .. }
            | Self::FastFillLoss { .. }
            | Self::FastFillLossBeyond { .. }
            | Self::FastFillGas { .. } => Context::FastFillReduceBalance,
            Self::FastFillSurplus { .. } | Self::FastFillReturn { .. } => Context::FastFillIncreaseBalance,
            Self::Claim { .. } => Context::Claim,
            Self::Relay { .. } => Context::ExecuteTransactionRequest,
        }
    }

    pub fn house(self) -> House {
        match self {
            Self::Funding { .. } | Self::Claim { .. } => House::Treasury,
            Self::AppFee { .. } | Self::SameChainFee { .. } | Self::Sponsorship { .. } | Self::Relay { .. } => {
                House::Fees
            }
            Self::FixedRate { .. } => House::Rates,
            Self::FastFillSurplus { .. }
            | Self::FastFillShortage { .. }
            | Self::FastFillLoss { .. }
            | Self::FastFillLossBeyond { .. }
            | Self::FastFillReturn { .. }
            | Self::FastFillGas { .. } => House::FastFills,
        }
    }

    fn direction(self) -> Direction {
        match self {
            Self::Funding { .. }
            | Self::AppFee { .. }
            | Self::SameChainFee { .. }
            | Self::FastFillSurplus { .. }
            | Self::FastFillReturn { .. } => Direction::In,
            Self::Sponsorship { .. }
            | Self::FastFillShortage { .. }
            | Self::FastFillLoss { .. }
            | Self::FastFillLossBeyond { .. }
            | Self::FastFillGas { .. }
            | Self::Claim { .. }
            | Self::Relay { .. } => Direction::Out,
            Self::FixedRate { .. } => Direction::Either,
        }
    }
}

/// Money that moves, for a reason. `delta` is what it does to the wallet's balance; the house's moves the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    cause: Cause,
    wallet: Address,
    delta: UsdcMicros,
    request: Option<RequestId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{delta:?} is not what {cause:?} can move")]
pub struct NotAnEntry {
    cause: Cause,
    delta: UsdcMicros,
}

impl Entry {
    /// Nothing at all, too much, or the wrong way is not an entry.
    pub fn new(
        cause: Cause,
        wallet: Address,
        delta: UsdcMicros,
        request: Option<RequestId>,
    ) -> Result<Self, NotAnEntry> {
        let fits = match cause.direction() {
            Direction::In => delta.0 > 0,
            Direction::Out => delta.0 < 0,
            Direction::Either => delta.0 != 0,
        };
        if !fits || delta.0.unsigned_abs() > MAX_AMOUNT.0.unsigned_abs() {
            return Err(NotAnEntry { cause, delta });
        }
        Ok(Self { cause, wallet, delta, request })
    }

    pub fn cause(&self) -> Cause {
        self.cause
    }

    pub fn wallet(&self) -> Address {
        self.wallet
    }

    pub fn delta(&self) -> UsdcMicros {
        self.delta
    }

    pub fn request(&self) -> Option<RequestId> {
        self.request
    }
}

/// One wallet's balance as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub balance: UsdcMicros,
    /// In holds for fast fills.
    pub held: UsdcMicros,
    /// In reservations for sponsorship, in claims under way, and in app fees that wait for their sponsor's fast fills.
    pub reserved: UsdcMicros,
}

impl Account {
    /// The balance left for a new hold of this kind. Never negative.
    pub fn available(&self, kind: HoldKind) -> UsdcMicros {
        let free = self.balance.minus(self.reserved);
        let free = match kind {
            HoldKind::FastFill | HoldKind::Claim | HoldKind::AppFee | HoldKind::Relay => free.minus(self.held),
            HoldKind::Sponsorship => free,
        };
        free.max(UsdcMicros::ZERO)
    }

    /// True if a new hold fits. The same rule stands in the statement that takes it (`store/src/ledger.rs`).
    pub fn covers(&self, kind: HoldKind, amount: UsdcMicros) -> bool {
        if amount == UsdcMicros::ZERO { self.balance >= DEBT_LIMIT } else { self.available(kind) >= amount }
    }
}

/// True if these entries may end a hold: no more than was set aside leaves the wallet by them.
pub fn fits(held: UsdcMicros, wallet: Address, entries: &[Entry]) -> bool {
    let spent = entries.iter().fold(UsdcMicros::ZERO, |sum, entry| sum.minus(entry.delta));
    entries.iter().all(|entry| entry.wallet == wallet) && spent <= held
}

macro_rules! names {
    ($type:ident: $($variant:ident = $name:literal),* $(,)?) => {
        impl $type {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),*
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == text)
            }
        }
    };
}

names! { House: Treasury = "treasury", Fees = "fees", Rates = "rates", FastFills = "fast-fills" }

names! { Counted: Held = "held", Reserved = "reserved" }

names! { Context:
    BalanceTopup = "balance-topup",
    PayFees = "pay-fees",
    SetPendingAmount = "set-pending-amount",
    UnsetPendingAmount = "unset-pending-amount",
    ResetPendingAmount = "reset-pending-amount",
    FastFillReduceBalance = "fast-fill-reduce-balance",
    FastFillIncreaseBalance = "fast-fill-increase-balance",
    Claim = "claim",
    ExecuteTransactionRequest = "execute-transaction-request",
    FixedRateAccounting = "fixed-rate-accounting",
    IntegratorFixedBpsAccounting = "integrator-fixed-bps-accounting",
}
