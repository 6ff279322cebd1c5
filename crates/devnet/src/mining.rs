//! The mining of blocks. One task per chain mines at an interval; tests may pause it, mine by hand or raise the base
//! fee.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::rpc::Rpc;

/// 0.01 gwei, about the base fee of the real chains. Left alone it would fall to a few wei in empty blocks, and every
/// fee in a quote with it.
pub(crate) const BASE_FEE: u64 = 10_000_000;

/// The longest that a block waits for reads. A caller that was stopped in the middle of one must not stop the chain.
const READS_TIMEOUT: Duration = Duration::from_secs(1);

/// The rest after a block of a chain that gives way, in the time that the block took. One block keeps a handful of
/// services busy for about as long as that.
const REST: u32 = 3;
const MAX_REST: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) struct Miner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rpc: Rpc,
    /// Held while anything changes the head, so that a paused chain stands still from the moment `pause` returns.
    paused: Mutex<bool>,
    /// Held for writing while the node makes blocks: see [`Miner::between_blocks`].
    blocks: RwLock<()>,
    base_fee: AtomicU64,
}

impl Miner {
    pub(crate) fn new(rpc: Rpc) -> Self {
        Self(Arc::new(Inner {
            rpc,
            paused: Mutex::new(false),
            blocks: RwLock::new(()),
            base_fee: AtomicU64::new(BASE_FEE),
        }))
    }

    /// Mines once per `block_time` until the returned task is aborted. A chain that gives way mines less often where
    /// blocks take long.
    pub(crate) fn run(&self, chain: String, block_time: Duration, gives_way: bool) -> JoinHandle<()> {
        let miner = self.clone();
        tokio::spawn(async move {
            let mut next = Instant::now();
            let mut failing = false;
            loop {
                tokio::time::sleep_until(next).await;
                next = Instant::now() + block_time;
                let paused = miner.0.paused.lock().await;
                if *paused {
                    continue;
                }
                let mined = miner.blocks(1).await;
                if let (Ok(took), true) = (&mined, gives_way) {
                    next = next.max(Instant::now() + (*took * REST).min(MAX_REST));
                }
                if let (Err(e), false) = (&mined, failing) {
                    tracing::error!(chain.name = %chain, "cannot mine on {chain}: {e:#}");
                }
                failing = mined.is_err();
            }
        })
    }

    pub(crate) async fn mine(&self, n: u64) -> Result<()> {
        let _still = self.0.paused.lock().await;
        self.blocks(n).await?;
        Ok(())
    }

    pub(crate) async fn pause(&self, paused: bool) {
        *self.0.paused.lock().await = paused;
    }

    /// A moment in which no block is made, for as long as the guard is held. A node that makes a block between a call's
    /// choice of the latest block and its read of the state answers from the block before, without anything that was
    /// set by hand since.
    pub(crate) async fn between_blocks(&self) -> RwLockReadGuard<'_, ()> {
        self.0.blocks.read().await
    }

    pub(crate) fn set_base_fee(&self, wei: u64) {
        self.0.base_fee.store(wei, Ordering::Relaxed);
    }

    /// Replaces the last `depth` blocks; each pair puts a signed transaction into the block of that position.
    pub(crate) async fn reorg(&self, depth: u64, transactions: Value) -> Result<()> {
        let _still = self.0.paused.lock().await;
        let _alone = tokio::time::timeout(READS_TIMEOUT, self.0.blocks.write()).await;
        self.0.rpc.call::<Value>("anvil_reorg", json!([depth, transactions])).await?;
        Ok(())
    }

    /// Makes blocks, and says how long the node took.
    async fn blocks(&self, n: u64) -> Result<Duration> {
        let _alone = tokio::time::timeout(READS_TIMEOUT, self.0.blocks.write()).await;
        let began = Instant::now();
        let fee = format!("{:#x}", self.0.base_fee.load(Ordering::Relaxed));
        let mut left = n;
        while left > 0 {
            let chunk = left.min(100);
            let block = || [("anvil_setNextBlockBaseFeePerGas", json!([fee])), ("evm_mine", json!([]))];
            self.0.rpc.batch((0..chunk).flat_map(|_| block())).await?;
            left -= chunk;
        }
        Ok(began.elapsed())
    }
}
