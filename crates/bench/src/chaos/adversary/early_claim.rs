//! A deposit ends the hold of its fast fill, and is short: the adversary claims its whole balance in between.

use std::time::Duration;

use alloy::primitives::U256;
use anyhow::Result;

use super::hands::Hands;

/// The hold is nearly the whole balance, and the deposit eight percent short.
const AMOUNT: u64 = 100_000_000;
const DEPOSIT: u64 = 92_000_000;
const CLAIMING_TIME: Duration = Duration::from_secs(10);

pub(super) async fn attempt(hands: &Hands<'_>) -> Result<()> {
    let Some((_, order)) = hands.quote(&hands.ask("USDC", "USDC", U256::from(AMOUNT))).await? else { return Ok(()) };
    if !hands.fast_fill(&order.request).await {
        return Ok(());
    }
    hands.pay(&hands.attempt.main, "USDC", U256::from(DEPOSIT), order.id).await?;
    match &hands.attempt.integrator {
        Some(integrator) => hands.claim(&integrator.wallet, CLAIMING_TIME).await,
        None => Ok(()),
    }
}
