//! Uniswap V3 as we read it: the interfaces, and the ticks that a block changed, by pool.
//!
//! Only shapes and logs: a pool's mirror computes what the pool pays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bloom, BloomInput, aliases::I24};
use alloy::rpc::types::Log;
use alloy::sol;
use alloy::sol_types::SolEvent;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::agreement::second;
use crate::contradictions::POOL_LOGS;
use crate::errors::ChainError;
use crate::node::Node;
use crate::nodes::Nodes;
use crate::rpc::{Head, Header};

/// Time for which other nodes are waited for where one shows no logs of a pool and another does.
const DOUBT_TIMEOUT: Duration = Duration::from_millis(500);

sol! {
    #![sol(all_derives)]

    interface UniswapFactory {
        function getPool(address tokenA, address tokenB, uint24 fee) external view returns (address pool);
    }

    interface UniswapPool {
        function slot0()
            external
            view
            returns (
                uint160 sqrtPriceX96,
                int24 tick,
                uint16 observationIndex,
                uint16 observationCardinality,
                uint16 observationCardinalityNext,
                uint8 feeProtocol,
                bool unlocked
            );
        function liquidity() external view returns (uint128);
        function tickSpacing() external view returns (int24);
        function tickBitmap(int16 wordPosition) external view returns (uint256);
        function ticks(int24 tick)
            external
            view
            returns (
                uint128 liquidityGross,
                int128 liquidityNet,
                uint256 feeGrowthOutside0X128,
                uint256 feeGrowthOutside1X128,
                int56 tickCumulativeOutside,
                uint160 secondsPerLiquidityOutsideX128,
                uint32 secondsOutside,
                bool initialized
            );

        event Mint(
            address sender,
            address indexed owner,
            int24 indexed tickLower,
            int24 indexed tickUpper,
            uint128 amount,
            uint256 amount0,
            uint256 amount1
        );
        event Burn(
            address indexed owner,
            int24 indexed tickLower,
            int24 indexed tickUpper,
            uint128 amount,
            uint256 amount0,
            uint256 amount1
        );
    }

    interface QuoterV2 {
        struct ExactInput {
            address tokenIn;
            address tokenOut;
            uint256 amountIn;
            uint24 fee;
            uint160 sqrtPriceLimitX96;
        }

        struct ExactOutput {
            address tokenIn;
            address tokenOut;
            uint256 amount;
            uint24 fee;
            uint160 sqrtPriceLimitX96;
        }

        function quoteExactInputSingle(ExactInput params)
            external
            returns (uint256 amountOut, uint160 priceAfter, uint32 ticksCrossed, uint256 gasEstimate);
        function quoteExactOutputSingle(ExactOutput params)
            external
            returns (uint256 amountIn, uint160 priceAfter, uint32 ticksCrossed, uint256 gasEstimate);
        function quoteExactInput(bytes path, uint256 amountIn)
            external
            returns (uint256 amountOut, uint160[] pricesAfter, uint32[] ticksCrossed, uint256 gasEstimate);
        function quoteExactOutput(bytes path, uint256 amountOut)
            external
            returns (uint256 amountIn, uint160[] pricesAfter, uint32[] ticksCrossed, uint256 gasEstimate);
    }
}

/// The changes that one block made to the liquidity of pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickChanges {
    pub head: Head,
    /// By pool, the ticks whose liquidity may have changed.
    pub changed: BTreeMap<Address, BTreeSet<i32>>,
    /// Pools to be read again: the header hints at changes that the node does not show.
    pub doubtful: BTreeSet<Address>,
}

/// The changes of a block, as a node shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    changes: TickChanges,
    /// The filter over all logs, in the header. Zero where the node shows none.
    bloom: Bloom,
}

impl Shown {
    /// True if the other shows the same header. With another bloom filter, other pools seem to have changed.
    fn is_alike(&self, other: &Self) -> bool {
        (self.changes.head, self.bloom) == (other.changes.head, other.bloom)
    }
}

impl Nodes {
    /// The changes of one block, read by hash so that they are about this block and no other, as two nodes show them
    /// between them, or the only one there is. A tick has changed if either says so: one node alone hides none, and one
    /// that it invents is read from two nodes for nothing. None when no endpoint that answered knows the block.
    pub fn tick_changes<'a>(
        &'a self,
        hash: B256,
        pools: &'a [Address],
    ) -> BoxFuture<'a, Result<Option<TickChanges>, ChainError>> {
        async move {
            let need = second(self.len());
            let mut reads = self.quorum_reads(|node| read(node, hash, pools));
            let (mut said, mut doubt_until) = (Vec::new(), None);
            loop {
                let next = match doubt_until {
                    Some(end) => timeout_at(end, reads.next()).await.ok().flatten(),
                    None => reads.next().await,
                };
                let Some(answer) = next else { break };
                said.push(answer);
                match joined(&said, need) {
                    Some(Joined { shown, settled: true }) => return Ok(Some(self.concluded(&said, shown, pools))),
                    Some(_) => {
                        doubt_until.get_or_insert_with(|| Instant::now() + DOUBT_TIMEOUT);
                    }
                    None => {}
                }
                if said.len() >= need {
                    reads.ask_another();
                }
            }
            if let Some(Joined { shown, .. }) = joined(&said, need) {
                return Ok(Some(self.concluded(&said, shown, pools)));
            }
            self.hear_differing(&said, hash, pools);
            if reads.is_unknown() { Ok(None) } else { Err(reads.error(self)) }
        }
        .boxed()
    }

    /// The changes that were agreed on. Nodes with another header are asked last for a while.
    fn concluded(&self, said: &[(usize, Shown)], agreed: Shown, pools: &[Address]) -> TickChanges {
        let hash = agreed.changes.head.hash;
        for (place, _) in said.iter().filter(|(_, shown)| !shown.is_alike(&agreed)) {
            let reason = "a header that two other nodes contradict";
            inconsistent(&self.nodes()[*place], "eth_getBlockByHash", hash, reason);
        }
        self.hear_differing(said, hash, pools);
        agreed.changes
    }

    /// Has nodes that differ heard again: one may have announced the block before it had its logs.
    fn hear_differing(&self, said: &[(usize, Shown)], hash: B256, pools: &[Address]) {
        if said.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            return;
        }
        let pools: Arc<[Address]> = pools.into();
        let ask = move |node: Arc<Node>| {
            let pools = pools.clone();
            async move { read(&node, hash, &pools).await }
        };
        self.hear_again((POOL_LOGS, hash), ask, |shown: &Shown| shown.changes.head.number);
    }
}

/// The changes that enough nodes show between them.
struct Joined {
    shown: Shown,
    /// False if another node could end a doubt: one shows no logs of a pool that the header hints at, and one does.
    settled: bool,
}

/// Joins the changes that enough nodes show under the same header. A pool of which enough of them show logs is not in
/// doubt because another has not indexed them, or hides them.
fn joined(said: &[(usize, Shown)], need: usize) -> Option<Joined> {
    said.iter().find_map(|(_, first)| {
        let alike: Vec<&Shown> = said.iter().map(|(_, shown)| shown).filter(|shown| shown.is_alike(first)).collect();
        if alike.len() < need {
            return None;
        }
        let mut shown = Shown {
            changes: TickChanges { head: first.changes.head, changed: BTreeMap::new(), doubtful: BTreeSet::new() },
            bloom: first.bloom,
        };
        let mut doubts = BTreeMap::<Address, usize>::new();
        for TickChanges { changed, doubtful, .. } in alike.iter().map(|shown| &shown.changes) {
            for (&pool, ticks) in changed {
                shown.changes.changed.entry(pool).or_default().extend(ticks);
            }
            doubtful.iter().for_each(|&pool| *doubts.entry(pool).or_default() += 1);
        }
        doubts.retain(|_, doubting| alike.len() - *doubting < need);
        let settled = doubts.values().all(|doubting| *doubting == alike.len());
        shown.changes.doubtful = doubts.into_keys().collect();
        Some(Joined { shown, settled })
    })
}

async fn read(node: &Node, hash: B256, pools: &[Address]) -> Result<Option<Shown>, ChainError> {
    let header = node.ask::<Option<Header>>("eth_getBlockByHash", (hash, false));
    let (header, logs) = tokio::join!(header, logs(node, hash, pools));
    // The block comes first: nodes answer for the logs of an unknown one with an error or nothing.
    let Some(header) = header? else { return Ok(None) };
    if header.head().hash != hash {
        return Err(inconsistent(node, "eth_getBlockByHash", hash, "another block"));
    }
    let mut logs = logs?;
    let mut doubtful = owed(&header, pools, &logs);
    if !doubtful.is_empty() {
        logs = self::logs(node, hash, pools).await?;
        doubtful = owed(&header, pools, &logs);
    }
    let mut changed = BTreeMap::<_, BTreeSet<_>>::new();
    for log in &logs {
        match (log.topic0(), log.topics()) {
            (Some(&(UniswapPool::Mint::SIGNATURE_HASH | UniswapPool::Burn::SIGNATURE_HASH)), &[_, _, lower, upper]) => {
                changed.entry(log.address()).or_default().extend([tick(lower), tick(upper)]);
            }
            (Some(&(UniswapPool::Mint::SIGNATURE_HASH | UniswapPool::Burn::SIGNATURE_HASH)), _) => {
                doubtful.insert(log.address());
            }
            _ => {}
        }
    }
    let changes = TickChanges { head: header.head(), changed, doubtful };
    Ok(Some(Shown { changes, bloom: header.logs_bloom.unwrap_or_default() }))
}

/// All logs of the pools, not only those that change liquidity: the swaps of a busy pool then show that the node has
/// indexed the block.
async fn logs(node: &Node, hash: B256, pools: &[Address]) -> Result<Vec<Log>, ChainError> {
    if pools.is_empty() {
        return Ok(Vec::new());
    }
    let logs: Vec<Log> = node.ask("eth_getLogs", [json!({ "blockHash": hash, "address": pools })]).await?;
    if logs.iter().any(|log| log.block_hash != Some(hash) || log.removed) {
        return Err(inconsistent(node, "eth_getLogs", hash, "logs of another block"));
    }
    Ok(logs)
}

/// Pools that the header hints to have changed and that show no log at all. The bloom filter in the header has no false
/// negatives; after a false positive, a pool is read once too often.
fn owed(header: &Header, pools: &[Address], logs: &[Log]) -> BTreeSet<Address> {
    let Some(bloom) = header.logs_bloom.filter(|bloom| !bloom.is_zero()) else { return BTreeSet::new() };
    let hints = |part: &[u8]| bloom.contains_input(BloomInput::Raw(part));
    let topics = [UniswapPool::Mint::SIGNATURE_HASH, UniswapPool::Burn::SIGNATURE_HASH];
    if !topics.iter().any(|topic| hints(topic.as_slice())) {
        return BTreeSet::new();
    }
    let silent = |pool: &Address| logs.iter().all(|log| log.address() != *pool);
    pools.iter().filter(|pool| hints(pool.as_slice()) && silent(pool)).copied().collect()
}

fn tick(topic: B256) -> i32 {
    let [.., high, middle, low] = topic.0;
    I24::from_be_bytes([high, middle, low]).as_i32()
}

fn inconsistent(node: &Node, method: &'static str, block: B256, reason: &'static str) -> ChainError {
    let error = ChainError::Inconsistent { host: node.host.clone(), method, block, reason };
    node.failed(method, &error);
    error
}

#[cfg(test)]
mod tests {
    use alloy::primitives::b256;

    use super::*;

    #[test]
    fn a_tick_is_read_with_its_sign() {
        for (value, text) in [(-1, B256::repeat_byte(0xff)), (887_272, B256::left_padding_from(&[0x0d, 0x89, 0xe8]))] {
            assert_eq!(tick(text), value);
        }
    }

    #[test]
    fn the_events_are_the_public_ones() {
        let mint = b256!("7a53080ba414158be7ec69b987b5fb7d07dee101fe85488f0853ae16239d0bde");
        let burn = b256!("0c396cd989a39f4459b5fa1aed6a9a8dcdbc45908acfd67e028cd568da98982c");
        assert_eq!((UniswapPool::Mint::SIGNATURE_HASH, UniswapPool::Burn::SIGNATURE_HASH), (mint, burn));
    }
}
