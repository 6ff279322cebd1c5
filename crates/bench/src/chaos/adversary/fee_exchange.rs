//! App fees turn a deposit into a balance of USDC. The adversary deposits ether with nearly all of it as a fee to
//! itself, when the feed is above the market.

use std::time::{Duration, Instant};

use alloy::primitives::U256;
use anyhow::Result;
use serde_json::json;

use super::hands::Hands;

/// A fifth of an ether.
const WEI: u64 = 200_000_000_000_000_000;
const FEE_BPS: &str = "9500";
/// The wait for a feed that is far above the market.
const FEED_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) async fn attempt(hands: &Hands<'_>) -> Result<()> {
    let wei = U256::from(WEI);
    let mut body = hands.ask("ETH", "ETH", wei);
    body["appFees"] = json!([{ "recipient": hands.attempt.app.address, "fee": FEE_BPS }]);
    let until = Instant::now() + FEED_TIMEOUT;
    while Instant::now() < until && hands.market.feed() * 1_000 < hands.market.now() * 1_036 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let Some((quote, order)) = hands.quote(&body).await? else { return Ok(()) };
    hands.follow(&quote, order.id, &hands.attempt.main, "ETH", wei).await
}
