//! Money that comes after the time of its order.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use causeway::env::system_env;
use causeway::service::Service;
use domain::time::Timestamp;
use serde_json::json;

use super::{DOLLAR, address, body, delivered, is_back, listed, pay, quick, usdc};
use crate::harness::{Harness, new_account, request_id};
use crate::keys::create;

const TTL_SECS: u64 = 300;

/// The time by which the clock of the service is ahead of ours: it moves with those of the chains.
static AHEAD_MILLIS: AtomicI64 = AtomicI64::new(0);

fn clock() -> Timestamp {
    Timestamp::from_millis(causeway::env::clock().millis() + AHEAD_MILLIS.load(Ordering::Relaxed))
}

/// The quoted amount after the time of its quote: from a strict address it goes back, at an open one it is priced anew.
#[tokio::test]
async fn money_that_comes_late_goes_back_or_is_priced_anew() -> Result<()> {
    let harness = Harness::isolated(quick).await?;
    let mut env = system_env();
    env.clock = clock;
    let service = Service::start(&harness.config, env).await?;
    harness.wait_until_served().await?;
    let (_, key) = create(&harness, &[])?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, refund_to) = (base.fresh_user().await?, new_account().address);
    let (strict_to, open_to) = (new_account().address, new_account().address);
    let strict = json!({ "strict": true, "refundTo": refund_to, "ttl": TTL_SECS });
    let strict = harness.quote(&body(&harness, strict_to, strict)).await?;
    let open = harness.quote(&body(&harness, open_to, json!({ "ttl": TTL_SECS }))).await?;
    // The estimated time of a fill is added to the expiry.
    let takes = strict["details"]["timeEstimate"].as_u64().context("an estimate")?;
    let passed = Duration::from_secs(TTL_SECS + takes + 3);
    for chain in &harness.devnet.chains {
        chain.advance_time(passed).await?;
    }
    AHEAD_MILLIS.store(i64::try_from(passed.as_millis())?, Ordering::Relaxed);
    // A price of this time is known, and so is the time.
    harness.set_price(base, "DAI", 100_010_000).await?;
    let sent = 10 * DOLLAR;
    pay(base, &user, address(&strict)?, sent).await?;
    pay(base, &user, address(&open)?, sent).await?;
    let ended = harness.wait_for(request_id(&strict), "refund").await?;
    ensure!(ended["failReason"] == "TTL_EXPIRED", "{ended}");
    let back_to = (usdc(&harness), refund_to);
    is_back(&harness, &key, request_id(&strict), back_to, U256::ZERO, U256::from(sent)).await?;
    ensure!(optimism.balance(optimism.token("USDC").address, strict_to).await?.is_zero());
    let got = delivered(&harness, &key, address(&open)?, 1, open_to).await?;
    ensure!(got > U256::from(9 * DOLLAR) && got < U256::from(sent), "{got}");
    // Another request than the first, which is late for good.
    let first = listed(&harness, &key, &format!("id={}", request_id(&open))).await?;
    ensure!(first[0]["status"] == "waiting" && first[0]["supersededByRequestId"].is_string(), "{first:?}");
    service.stop().await
}
