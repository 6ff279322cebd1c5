//! The search for pools and the reading of all their ticks: many calls, all at one block, beside the refreshing of
//! snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::primitives::aliases::{I24, U24};
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use evm::pools::{UniswapFactory, UniswapPool};
use evm::{ChainError, Nodes};

use crate::pool::{Pool, PoolKey};
use crate::tick::{self, Tick};
use crate::watchlist::Dex;

/// Calls in one request: about four million gas, a fraction of what nodes allow.
const CALLS_PER_BATCH: usize = 500;

/// Bounds on the search: the rest of the list is not looked at.
const MAX_TOKENS: usize = 32;
const MAX_POOLS: usize = 256;

const WORD: i32 = 256;

/// The nodes and the block to read from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub nodes: Nodes,
    pub multicall3: Address,
    pub at: B256,
}

impl Source {
    /// Reads in batches. A reverted call is answered with no bytes, which do not decode.
    async fn read(&self, calls: &[(Address, Bytes)]) -> Result<Vec<Bytes>, ChainError> {
        let mut answers = Vec::with_capacity(calls.len());
        for calls in calls.chunks(CALLS_PER_BATCH) {
            let (_, read) = self.nodes.seconded_aggregate(self.multicall3, calls, self.at).await?;
            answers.extend(read.into_iter().map(Result::unwrap_or_default));
        }
        Ok(answers)
    }
}

/// All pools between the tokens of a DEX.
pub(crate) async fn discover(source: &Source, dex: &Dex) -> Result<Vec<PoolKey>, ChainError> {
    let mut tokens: Vec<_> = dex.tokens.iter().map(|(token, _)| *token).collect();
    tokens.truncate(MAX_TOKENS);
    tokens.sort();
    tokens.dedup();
    let mut asked = Vec::new();
    for (place, &token0) in tokens.iter().enumerate() {
        for &token1 in &tokens[place + 1..] {
            asked.extend(dex.fee_tiers.iter().map(|&fee| (token0, token1, fee)));
        }
    }
    let call = |&(token0, token1, fee): &(Address, Address, u32)| {
        let fee = U24::saturating_from(fee);
        let call = UniswapFactory::getPoolCall { tokenA: token0, tokenB: token1, fee };
        (dex.factory, call.abi_encode().into())
    };
    let answers = source.read(&asked.iter().map(call).collect::<Vec<_>>()).await?;
    let mut found = Vec::new();
    for ((token0, token1, fee), answer) in asked.into_iter().zip(answers) {
        match UniswapFactory::getPoolCall::abi_decode_returns(&answer) {
            Ok(address) if !address.is_zero() => found.push((address, token0, token1, fee)),
            _ => {}
        }
    }
    found.truncate(MAX_POOLS);
    let call = |found: &(Address, _, _, _)| (found.0, UniswapPool::tickSpacingCall {}.abi_encode().into());
    let answers = source.read(&found.iter().map(call).collect::<Vec<_>>()).await?;
    let key = |((address, token0, token1, fee), answer): ((Address, Address, Address, u32), Bytes)| {
        let spacing = UniswapPool::tickSpacingCall::abi_decode_returns(&answer).ok()?.as_i32();
        (spacing > 0).then_some(PoolKey { address, token0, token1, fee, spacing })
    };
    Ok(found.into_iter().zip(answers).filter_map(key).collect())
}

/// All ticks of pools. A pool that cannot be read in full is left out; one with more ticks than `most` is returned by
/// address, and its ticks are not read.
async fn ticks(
    source: &Source,
    pools: &[PoolKey],
    most: usize,
) -> Result<(BTreeMap<Address, Arc<[Tick]>>, Vec<Address>), ChainError> {
    let mut words = Vec::new();
    for pool in pools {
        let last = tick::MAX_TICK / pool.spacing;
        words.extend(((-last).div_euclid(WORD)..=last.div_euclid(WORD)).map(|word| (pool, word)));
    }
    let call = |&(pool, word): &(&PoolKey, i32)| {
        let word = i16::try_from(word).unwrap_or_default();
        (pool.address, UniswapPool::tickBitmapCall { wordPosition: word }.abi_encode().into())
    };
    let answers = source.read(&words.iter().map(call).collect::<Vec<_>>()).await?;
    let mut places = BTreeMap::<_, Option<Vec<i32>>>::new();
    for ((pool, word), answer) in words.into_iter().zip(answers) {
        let ticks = places.entry(pool.address).or_insert(Some(Vec::new()));
        match UniswapPool::tickBitmapCall::abi_decode_returns(&answer) {
            Ok(bits) => ticks.iter_mut().for_each(|ticks| ticks.extend(set(bits, word, pool.spacing))),
            Err(_) => *ticks = None,
        }
    }
    let is_crowded = |ticks: &Option<Vec<i32>>| ticks.as_ref().is_some_and(|ticks| ticks.len() > most);
    let crowded: Vec<_> = places.iter().filter(|(_, ticks)| is_crowded(ticks)).map(|(pool, _)| *pool).collect();
    places.retain(|_, ticks| !is_crowded(ticks));
    let asked: Vec<_> =
        places.iter().flat_map(|(&pool, ticks)| ticks.iter().flatten().map(move |&tick| (pool, tick))).collect();
    let mut read = some_ticks(source, &asked).await?;
    let mut all = BTreeMap::new();
    for (pool, places) in places {
        let Some(places) = places else { continue };
        let ticks = places.iter().map(|&place| read.remove(&(pool, place)).flatten());
        if let Some(ticks) = ticks.collect::<Option<Vec<_>>>() {
            all.insert(pool, ticks.into());
        }
    }
    Ok((all, crowded))
}

/// Single ticks; none for one at which no liquidity begins or ends. A tick that could not be read is left out.
pub(crate) async fn some_ticks(
    source: &Source,
    asked: &[(Address, i32)],
) -> Result<BTreeMap<(Address, i32), Option<Tick>>, ChainError> {
    let call = |&(pool, tick): &(Address, i32)| {
        let tick = I24::try_from(tick).unwrap_or_default();
        (pool, UniswapPool::ticksCall { tick }.abi_encode().into())
    };
    let answers = source.read(&asked.iter().map(call).collect::<Vec<_>>()).await?;
    let mut ticks = BTreeMap::new();
    for (&(pool, tick), answer) in asked.iter().zip(answers) {
        if let Ok(read) = UniswapPool::ticksCall::abi_decode_returns(&answer) {
            let tick_at = Tick::new(tick, read.liquidityNet).filter(|_| read.liquidityGross > 0);
            ticks.insert((pool, tick), tick_at);
        }
    }
    Ok(ticks)
}

/// The calls made to every pool at every head: its price and its liquidity.
pub(crate) const STATE_CALLS: usize = 2;

pub(crate) fn state_calls(pool: Address) -> [(Address, Bytes); STATE_CALLS] {
    let slot0 = UniswapPool::slot0Call {}.abi_encode();
    let liquidity = UniswapPool::liquidityCall {}.abi_encode();
    [(pool, slot0.into()), (pool, liquidity.into())]
}

/// A pool from the answers to these calls and its ticks. None when they do not fit together.
pub(crate) fn pool(key: PoolKey, state: &[Bytes], ticks: Arc<[Tick]>) -> Option<Pool> {
    let [slot0, liquidity] = state else { return None };
    let slot0 = UniswapPool::slot0Call::abi_decode_returns(slot0).ok()?;
    let liquidity = UniswapPool::liquidityCall::abi_decode_returns(liquidity).ok()?;
    Pool::new(key, U256::from(slot0.sqrtPriceX96), slot0.tick.as_i32(), liquidity, ticks)
}

/// The pools at the block at which their ticks were read, and the addresses of those that have too many.
pub(crate) async fn pools(
    source: &Source,
    keys: &[PoolKey],
    most_ticks: usize,
) -> Result<(Vec<Pool>, Vec<Address>), ChainError> {
    let (mut ticks, crowded) = ticks(source, keys, most_ticks).await?;
    let calls: Vec<_> = keys.iter().flat_map(|key| state_calls(key.address)).collect();
    let answers = source.read(&calls).await?;
    let pools = keys.iter().zip(answers.chunks(STATE_CALLS));
    let pools = pools.filter_map(|(key, state)| pool(*key, state, ticks.remove(&key.address)?));
    Ok((pools.collect(), crowded))
}

fn set(bits: U256, word: i32, spacing: i32) -> impl Iterator<Item = i32> {
    (0..256_usize).filter(move |&bit| bits.bit(bit)).map(move |bit| (word * WORD + bit as i32) * spacing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_a_tick() {
        let bits = U256::from(1) | (U256::from(1) << 255);
        assert_eq!(set(bits, 0, 10).collect::<Vec<_>>(), [0, 2550]);
        assert_eq!(set(bits, -1, 60).collect::<Vec<_>>(), [-15_360, -60]);
    }
}
