//! Advice: opinions of the market, the solver and the operator, handed in by whoever starts the allocator.
//!
//! It decides when a payout is made and what its gas costs. Whether anything is owed, to whom, and how much the deposit
//! was, the allocator reads from the chains. A wrong price makes a batch early or late; a wrong cost makes a refund
//! smaller, and the rest of the deposit goes to the treasury; a wrong list makes a refund wait for a person.

use std::fmt;
use std::sync::Arc;

use alloy::primitives::Address;
use domain::ids::ChainId;
use domain::money::{Amount, OutOfRange, UsdMicros};
use domain::quote::Quote;
use store::relays::Burnt;

/// The worth of an amount of a currency on a chain. None while no price is known.
pub type BatchWorth = dyn Fn(ChainId, Address, Amount) -> Option<UsdMicros> + Send + Sync;

/// The cost of a refund on a chain, in the currency refunded. None while no price is known.
pub type RefundCost = dyn Fn(ChainId, Address) -> Result<Option<Amount>, OutOfRange> + Send + Sync;

/// The cost of a relay on a chain, in the currency that it brought. None while no price is known.
pub type RelayCost = dyn Fn(ChainId, Address, Burnt) -> Result<Option<Amount>, OutOfRange> + Send + Sync;

/// The gas of failed fills that comes off a refund on a chain, in the currency refunded. None while no price is known.
pub type Wasted =
    dyn Fn(ChainId, Address, &Quote, &[(ChainId, Amount)]) -> Result<Option<Amount>, OutOfRange> + Send + Sync;

/// Whether an address is on one of the operator's lists.
pub type Listed = dyn Fn(Address) -> bool + Send + Sync;

#[derive(Clone)]
pub struct Advice {
    pub batch_worth: Arc<BatchWorth>,
    pub refund_cost: Arc<RefundCost>,
    /// The cost of the sweep that brought a deposit, in its currency.
    pub sweep_cost: Arc<RefundCost>,
    /// The cost of the relay that brought a deposit, in its currency.
    pub relay_cost: Arc<RelayCost>,
    pub wasted: Arc<Wasted>,
    /// Addresses that are not served.
    pub is_blocked: Arc<Listed>,
    /// Exchanges: nothing is refunded to them by itself, because they would not know whose it is.
    pub is_custodial: Arc<Listed>,
}

impl Advice {
    /// True if one of them is not served.
    pub fn blocks(&self, parties: impl IntoIterator<Item = Address>) -> bool {
        parties.into_iter().any(|who| (self.is_blocked)(who))
    }
}

impl fmt::Debug for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advice").finish_non_exhaustive()
    }
}
