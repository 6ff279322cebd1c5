//! The contracts and accounts of a chain that make up its market: feeds, balances, allowances and the DEX.

use std::time::Duration;

use alloy::primitives::Address;

#[derive(Clone, Debug)]
pub struct Feed {
    /// The currency it prices; zero is the native one.
    pub currency: Address,
    pub address: Address,
    /// An answer older than this, by the chain's own time, is no answer.
    pub max_age_secs: u64,
}

/// The contracts and accounts to read on a chain.
#[derive(Clone, Debug)]
pub struct Watchlist {
    pub multicall3: Address,
    pub feeds: Vec<Feed>,
    pub treasury: Address,
    pub wallets: Vec<Address>,
    /// Wallets that hold gas and nothing else: their native currency is nobody's payout.
    pub relayers: Vec<Address>,
    pub tokens: Vec<Address>,
    /// The contract through which wallets spend the treasury's tokens beside their allowances, if there is one.
    pub spend_limiter: Option<Address>,
    /// The contract that prices data, if the chain charges for data.
    pub gas_oracle: Option<Address>,
    /// Wei per unit of gas, on top of the base fee.
    pub tip: u128,
    pub max_age: Duration,
    /// The DEX whose pools are looked for, if any.
    pub dex: Option<Dex>,
}

/// The contracts and tokens among which pools are looked for.
#[derive(Clone, Debug)]
pub struct Dex {
    pub factory: Address,
    pub quoter: Address,
    /// The token that stands for the native currency in pools.
    pub wrapped: Address,
    /// Tokens and their decimals, the wrapped one included. Pools are looked for between all of them.
    pub tokens: Vec<(Address, u8)>,
    /// In millionths.
    pub fee_tiers: Vec<u32>,
    /// A pool with more ticks than this is left out: anyone can make one, and reading it would hold up all others.
    pub most_ticks: usize,
}

/// Far above the ticks of pools in use.
pub const MAX_TICKS: usize = 10_000;
