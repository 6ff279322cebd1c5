//! The service's own terms: who pays out, and the fees, spreads and bounds it quotes with.

use std::time::Duration;

use alloy_primitives::{Address, U256};

use crate::catalog::Class;
use crate::ledger::UsdcMicros;
use crate::money::{Amount, OutOfRange, Ratio, UsdMicros};

/// The operator's charges and promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub solver: Address,
    /// The name of the chain of the solver's identity, hashed into every order.
    pub solver_chain: String,
    pub flat_fee: UsdMicros,
    /// The service's share of the input.
    pub relay_bps: ByClass,
    /// The extra charge for exchanging one asset for another out of our inventory.
    pub spread_bps: ByClass,
    /// The most that a lopsided inventory adds to the cost of a transfer, or takes off it.
    pub rebalance_bps: u16,
    pub slippage_bps: u16,
    pub stable_slippage_bps: u16,
    /// A trade that loses more than this to the pools is refused, unless the caller insists.
    pub most_impact_bps: u16,
    pub order_lifetime: Duration,
    pub deposit_addresses: DepositAddressTerms,
    pub fast_fill: FastFillTerms,
}

/// Terms of orders that are paid at an address of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepositAddressTerms {
    /// From quote to deadline. Nobody stands by while an exchange sends.
    pub lifetime: Duration,
    /// The time for the rest of an amount to arrive. After it, too little goes back.
    pub grace: Duration,
    /// The time for which the native balance of an address is looked at after it was given out, paid at or asked about.
    pub watch: Duration,
}

/// Terms on which an integrator's balance stands for the deposit of an order that is filled ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastFillTerms {
    /// Held beyond the deposit's worth, where its currency is not a stablecoin.
    pub margin_bps: u16,
    /// The time for the deposit to land, on its chain's clock. After it the deposit's worth is owed in USDC.
    pub window: Duration,
}

impl FastFillTerms {
    /// The hold for a deposit of this worth.
    pub fn hold(self, worth: UsdMicros, class: Class) -> Result<UsdcMicros, OutOfRange> {
        // A USDC of the ledger counts as a dollar.
        let worth = u64::try_from(worth.0).map_err(|_| OutOfRange)?;
        let held = Amount::new(U256::from(worth)).mul_ceil(Ratio::bps_more(self.margin(class)))?;
        i64::try_from(held.units()).map(UsdcMicros).map_err(|_| OutOfRange)
    }

    /// The worth that a hold stands for: the hold without its margin.
    pub fn worth(self, held: UsdcMicros, class: Class) -> Result<UsdcMicros, OutOfRange> {
        let held = Amount::new(U256::from(u64::try_from(held.0).map_err(|_| OutOfRange)?));
        let worth = held.mul_floor(Ratio::bps_more(self.margin(class)).inverse()?)?;
        i64::try_from(worth.units()).map(UsdcMicros).map_err(|_| OutOfRange)
    }

    fn margin(self, class: Class) -> u16 {
        match class {
            Class::Stable => 0,
            Class::Major | Class::Minor => self.margin_bps,
        }
    }
}

/// A figure for each class of pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByClass {
    pub stable: u16,
    pub major: u16,
    pub minor: u16,
}

impl ByClass {
    pub const fn of(self, class: Class) -> u16 {
        match class {
            Class::Stable => self.stable,
            Class::Major => self.major,
            Class::Minor => self.minor,
        }
    }
}
