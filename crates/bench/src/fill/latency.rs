//! One deposit per block: the time from the block's announcement to the fill in the destination's mempool.

use std::time::Instant;

use alloy::primitives::{Address, B256, Bytes, U64, U256, keccak256};
use anyhow::{Context, Result, bail, ensure};
use devnet::Rng;
use serde_json::{Value, json};

use super::Filling;
use super::lister::Lister;
use super::report::LatencyStats;
use crate::socket::Subscription;
use crate::stats::{Latency, nanos};

/// Gas of the bare transaction: as much as a fill.
const FILL_GAS: u64 = 60_000;
/// Blocks in which a transaction is searched.
const MAX_BLOCKS: u32 = 60;

/// Fills and baselines, one after the other, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub fills: Vec<u64>,
    pub while_listing: Vec<u64>,
    pub baselines: Vec<u64>,
    pub mined_in_next_block: usize,
}

impl Samples {
    pub(crate) fn add(&mut self, more: Self) {
        self.fills.extend(more.fills);
        self.while_listing.extend(more.while_listing);
        self.baselines.extend(more.baselines);
        self.mined_in_next_block += more.mined_in_next_block;
    }

    pub(crate) fn stats(self) -> LatencyStats {
        let Self { fills, while_listing, baselines, mined_in_next_block } = self;
        LatencyStats {
            baseline: Latency::of(baselines),
            fill: Latency::of(fills),
            while_listing: (!while_listing.is_empty()).then(|| Latency::of(while_listing)),
            pages_listed: 0,
            mined_in_next_block,
        }
    }
}

/// Takes fill and baseline in turn, so that both see the same load on the machine. With a lister, every second fill is
/// taken while it lists.
pub(crate) async fn take(filling: &Filling<'_>, samples: u64, far: bool, lister: Option<&Lister>) -> Result<Samples> {
    let (origin, destination) = (filling.origin(), filling.destination());
    let turns = if lister.is_some() { 2 } else { 1 };
    let orders = filling.orders(usize::try_from(samples)? * turns).await?;
    let deposits = filling.deposits(&orders).await?;
    let mut bare = Bare::new(filling, far).await?;
    let mut heads = Subscription::to(&origin.ws_url, "newHeads").await?;
    let mut pool = Subscription::to(&destination.ws_url, "newPendingTransactions").await?;
    let mut all = Samples::default();
    for (n, raw) in deposits.iter().enumerate() {
        let lists = lister.filter(|_| n % 2 == 1);
        if let Some(lister) = lists {
            lister.go_on().await?;
        }
        heads.forget().await;
        pool.forget().await;
        let deposit = origin.send_raw(raw).await?;
        let (seen, block) = holding(&mut heads, origin, deposit).await?;
        let (taken, fill) = pool.next().await?;
        let took = nanos(taken.duration_since(seen));
        if let Some(lister) = lists {
            lister.pause();
            all.while_listing.push(took);
            continue;
        }
        all.fills.push(took);
        all.mined_in_next_block += usize::from(is_next(filling, &fill, &block).await?);
        all.baselines.push(bare.once(filling, &mut heads, &mut pool, far).await?);
    }
    Ok(all)
}

/// The announcement of the block that contains a transaction.
pub(super) async fn holding(heads: &mut Subscription, chain: &devnet::Chain, tx: B256) -> Result<(Instant, Value)> {
    for _ in 0..MAX_BLOCKS {
        let (seen, head) = heads.next().await?;
        let block: Value = chain.rpc("eth_getBlockByHash", (head["hash"].clone(), false)).await?;
        if block["transactions"].as_array().is_some_and(|all| all.contains(&json!(tx))) {
            return Ok((seen, head));
        }
    }
    bail!("{tx} is in none of {MAX_BLOCKS} blocks")
}

/// True if the destination mined the fill in its first block after the deposit's.
async fn is_next(filling: &Filling<'_>, fill: &Value, deposit_block: &Value) -> Result<bool> {
    let hash: B256 = fill.as_str().context("a pending transaction without a hash")?.parse()?;
    let destination = filling.destination();
    let receipt = destination.receipt(hash).await?;
    ensure!(filling.is_filler(receipt.from), "something else is in the destination's pool");
    let number = receipt.block_number.context("a receipt without a block")?;
    let before: Value = destination.rpc("eth_getBlockByNumber", (U64::from(number - 1), false)).await?;
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<U256>().ok());
    // Blocks are a second apart and their times whole seconds: the block before it is no younger than the deposit's.
    Ok(time(&before["timestamp"]) <= time(&deposit_block["timestamp"]))
}

/// The baseline: receive the block's announcement, sign one transaction, send it.
struct Bare {
    heads: Subscription,
    signer: devnet::Account,
    nonce: u64,
    client: reqwest::Client,
}

impl Bare {
    async fn new(filling: &Filling<'_>, far: bool) -> Result<Self> {
        let signer = Rng::new(2).account();
        let destination = filling.destination();
        destination.set_balance(signer.address, U256::from(10u64).pow(U256::from(20))).await?;
        let nonce: U256 = destination.rpc("eth_getTransactionCount", (signer.address, "pending")).await?;
        let origin = filling.origin();
        let url = if far { &origin.second_ws_url } else { &origin.ws_url };
        let heads = Subscription::to(url, "newHeads").await?;
        let client = devnet::http::client().tcp_nodelay(true).build()?;
        Ok(Self { heads, signer, nonce: nonce.to(), client })
    }

    async fn once(
        &mut self,
        filling: &Filling<'_>,
        near: &mut Subscription,
        pool: &mut Subscription,
        far: bool,
    ) -> Result<u64> {
        let destination = filling.destination();
        let url = if far { &destination.second_rpc_url } else { &destination.rpc_url };
        for socket in [&mut self.heads, &mut *near, &mut *pool] {
            socket.forget().await;
        }
        let (seen, head) = near.next().await?;
        // The delayed subscription may still announce the block before.
        while self.heads.next().await?.1["hash"] != head["hash"] {}
        let call = (Address::repeat_byte(0xbe), U256::ONE, Bytes::from(keccak256("baseline").to_vec()));
        let raw = destination.sign(&self.signer, self.nonce, call, FILL_GAS)?;
        self.nonce += 1;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw]});
        let sending = tokio::spawn(self.client.post(url.clone()).json(&body).send());
        let (taken, _) = pool.next().await?;
        let answer: Value = sending.await??.json().await?;
        ensure!(answer["error"].is_null(), "the node refused: {answer}");
        Ok(nanos(taken.duration_since(seen)))
    }
}
