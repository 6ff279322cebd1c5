//! The tokens of a chain and amounts of them.

use alloy::sol;
use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};

sol! {
    interface Erc20 {
        function mint(address to, uint256 value) external;
        function approve(address spender, uint256 value) external;
        function balanceOf(address account) external view returns (uint256);
        function transfer(address to, uint256 value) external;
        function deposit() external payable;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub symbol: String,
    pub name: String,
    pub address: Address,
    pub decimals: u8,
    /// Its price in USD with 8 decimals; none for a token that only the DEX prices.
    pub feed: Option<Address>,
}

pub(crate) const fn ether(n: u64) -> U256 {
    U256::from_limbs(widening(n, 1_000_000_000_000_000_000))
}

const fn widening(a: u64, b: u64) -> [u64; 4] {
    let product = a as u128 * b as u128;
    [product as u64, (product >> 64) as u64, 0, 0]
}

/// `n` whole tokens.
pub(crate) fn units(n: u64, decimals: u8) -> U256 {
    U256::from(n) * U256::from(10).pow(U256::from(decimals))
}
