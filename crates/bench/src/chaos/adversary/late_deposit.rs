//! A fast fill is a free option where its hold is old dollars and its deposit may come at any time: the adversary waits
//! until its time is over, and then deposits if ether has fallen, and never if it has not.

use std::time::{Duration, Instant, UNIX_EPOCH};

use alloy::primitives::{U64, U256};
use anyhow::{Context, Result};
use devnet::Chain;
use serde_json::{Value, json};

use super::Debt;
use super::hands::Hands;
use crate::chaos::FAST_FILL_WINDOW;

/// A fifth of an ether.
const WEI: u64 = 200_000_000_000_000_000;
/// The wait for a price that suits.
const PRICE_TIMEOUT: Duration = Duration::from_secs(12);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn attempt(hands: &Hands<'_>) -> Result<()> {
    let (chain, wei) = (hands.origin(), U256::from(WEI));
    let Some((quote, order)) = hands.quote(&hands.ask("ETH", "USDC", wei)).await? else { return Ok(()) };
    let (asked, asked_at) = now(chain).await?;
    if !hands.fast_fill(&order.request).await {
        return Ok(());
    }
    let (accepted, accepted_at) = now(chain).await?;
    hands.owe(Debt { chain: hands.attempt.origin, wei, accepted: (asked, accepted), due: None, order: order.id });
    let earliest = over(chain, asked_at).await?;
    // The service's clock may be a part of a second ahead of the last block.
    let latest = over(chain, accepted_at + 1).await?;
    hands.due((earliest, latest));
    let (then, until) = (hands.market.now(), Instant::now() + PRICE_TIMEOUT);
    while Instant::now() < until {
        if hands.market.now() * 100 < then * 95 {
            return hands.follow(&quote, order.id, &hands.attempt.main, "ETH", wei).await;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// The first block seen after the window of a fast fill that was accepted at this time.
async fn over(chain: &Chain, accepted_at: u64) -> Result<u64> {
    loop {
        let (block, time) = head(chain).await?;
        if time > accepted_at + FAST_FILL_WINDOW.as_secs() {
            return Ok(block);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The last block of a chain, and its time.
async fn head(chain: &Chain) -> Result<(u64, u64)> {
    let block: Value = chain.rpc("eth_getBlockByNumber", json!(["latest", false])).await?;
    let number = |name: &str| serde_json::from_value::<U64>(block[name].clone()).context("a block without its members");
    Ok((number("number")?.to(), number("timestamp")?.to()))
}

/// The same with the time at which a window that begins now begins: the chain's or ours, whichever is later. A chain
/// that has stood still, for a reorg or on a busy machine, is behind by as much, and the window ends that much later.
async fn now(chain: &Chain) -> Result<(u64, u64)> {
    let (block, time) = head(chain).await?;
    Ok((block, time.max(UNIX_EPOCH.elapsed()?.as_secs())))
}
