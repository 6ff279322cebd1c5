//! One balance for two things: it stands for a fast fill that is never paid for, and meanwhile pays sponsored app fees
//! to another wallet of the adversary, which claims them.

use std::time::Duration;

use alloy::primitives::U256;
use anyhow::Result;
use serde_json::json;

use super::hands::Hands;

/// Nearly the whole balance.
const FAST: u64 = 290_000_000;
const SPONSORED: u64 = 300_000_000;
/// Of the sponsored transfer, in hundredths of a percent.
const FEE_BPS: &str = "9000";
const CLAIMING_TIME: Duration = Duration::from_secs(14);

pub(super) async fn attempt(hands: &Hands<'_>) -> Result<()> {
    let Some((_, order)) = hands.quote(&hands.ask("USDC", "USDC", U256::from(FAST))).await? else { return Ok(()) };
    if !hands.fast_fill(&order.request).await {
        return Ok(());
    }
    let amount = U256::from(SPONSORED);
    let mut body = hands.ask("USDC", "USDC", amount);
    body["user"] = json!(hands.attempt.second.address);
    body["subsidizeFees"] = json!(true);
    body["appFees"] = json!([{ "recipient": hands.attempt.app.address, "fee": FEE_BPS }]);
    let Some((quote, order)) = hands.quote(&body).await? else { return Ok(()) };
    hands.follow(&quote, order.id, &hands.attempt.second, "USDC", amount).await?;
    hands.claim(&hands.attempt.app, CLAIMING_TIME).await
}
