//! Comparisons of our quotes with the chain's own quoter.
//!
//! A pool that does not pay what we compute is worse than no pool: a promise made on it is paid from our own pocket.

use alloy::primitives::aliases::U24;
use alloy::primitives::{Address, B256, Bytes, U160, U256};
use alloy::sol_types::SolCall;
use evm::pools::QuoterV2;
use evm::{ChainError, Nodes};

use crate::pool::{Pool, PoolKey};
use crate::step::Fixed;

/// A trade that a pool and its mirror see differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub pool: PoolKey,
    /// The token to be sold or, if `buying`, bought.
    pub token: Address,
    pub buying: bool,
    pub amount: U256,
    pub ours: U256,
    /// None when the chain refuses the trade.
    pub theirs: Option<U256>,
}

/// Compares one trade, whose direction and size the seed says. None when both agree, or we would make no offer.
pub async fn compare(
    nodes: &Nodes,
    quoter: Address,
    at: B256,
    pool: &Pool,
    seed: B256,
) -> Result<Option<Mismatch>, ChainError> {
    let (token, fixed, amount) = sample(pool, seed);
    let Some(ours) = offer(pool, seed) else { return Ok(None) };
    let data = match fixed {
        Fixed::Input => ask_to_sell(pool, token, amount),
        Fixed::Output => ask_to_buy(pool, token, amount),
    };
    let theirs = match nodes.seconded_call(quoter, data, at).await? {
        Some(answer) if answer.len() >= 32 => Some(U256::from_be_slice(&answer[..32])),
        Some(_) => return Err(ChainError::Undecodable("quote")),
        None => None,
    };
    let mismatch = Mismatch { pool: *pool.key(), token, buying: fixed == Fixed::Output, amount, ours, theirs };
    Ok((theirs != Some(ours)).then_some(mismatch))
}

/// Compares a trade each way with either side fixed. One of the four is as large as they get: a wrong depth does not
/// show in trades of dust.
pub async fn compare_all_ways(
    nodes: &Nodes,
    quoter: Address,
    at: B256,
    pool: &Pool,
) -> Result<Option<Mismatch>, ChainError> {
    let large = at[4] % 4;
    for way in 0..4 {
        let mut seed = at;
        (seed[0], seed[1]) = (way & 1, way >> 1);
        if way == large {
            // A pool with concentrated liquidity has less than an eighth of its apparent depth.
            let sized = |shift: u8| {
                let mut sized = seed;
                sized[2] = shift;
                sized
            };
            seed = (0..SHIFTS).map(sized).find(|sized| offer(pool, *sized).is_some()).unwrap_or(seed);
        }
        if let Some(mismatch) = compare(nodes, quoter, at, pool, seed).await? {
            return Ok(Some(mismatch));
        }
    }
    Ok(None)
}

/// The number of sizes, each half of the one before.
const SHIFTS: u8 = 24;

/// Our side of the trade that a seed says: the output we would give, or the input we would take.
fn offer(pool: &Pool, seed: B256) -> Option<U256> {
    match sample(pool, seed) {
        (token, Fixed::Input, amount) => pool.sell(token, amount),
        (token, Fixed::Output, amount) => pool.buy(token, amount),
    }
}

/// A trade from dust to an eighth of the depth at the current price, which takes most pools across several ticks.
fn sample(pool: &Pool, seed: B256) -> (Address, Fixed, U256) {
    let key = pool.key();
    let token = if seed[0] & 1 == 0 { key.token0 } else { key.token1 };
    let fixed = if seed[1] & 1 == 0 { Fixed::Input } else { Fixed::Output };
    let amount = (pool.depth(token) >> 3_usize) >> usize::from(seed[2] % SHIFTS);
    // The low digits decide the rounding.
    let odd = amount.saturating_sub(U256::from(seed[3]));
    (token, fixed, odd.max(U256::from(1)))
}

fn ask_to_sell(pool: &Pool, token: Address, amount: U256) -> Bytes {
    let params = QuoterV2::ExactInput {
        tokenIn: token,
        tokenOut: pool.other(token),
        amountIn: amount,
        fee: U24::saturating_from(pool.key().fee),
        sqrtPriceLimitX96: U160::ZERO,
    };
    QuoterV2::quoteExactInputSingleCall { params }.abi_encode().into()
}

fn ask_to_buy(pool: &Pool, token: Address, amount: U256) -> Bytes {
    let params = QuoterV2::ExactOutput {
        tokenIn: pool.other(token),
        tokenOut: token,
        amount,
        fee: U24::saturating_from(pool.key().fee),
        sqrtPriceLimitX96: U160::ZERO,
    };
    QuoterV2::quoteExactOutputSingleCall { params }.abi_encode().into()
}
