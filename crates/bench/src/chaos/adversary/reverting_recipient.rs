//! A recipient that takes nothing: the fill fails on the chain, the service has paid its gas, and the deposit comes
//! back.

use alloy::primitives::U256;
use anyhow::Result;
use devnet::Chain;
use serde_json::json;

use super::hands::Hands;
use super::{Attempt, bytecode};

/// Three hundredths of an ether.
const WEI: u64 = 30_000_000_000_000_000;

/// One half of them refuses from the beginning; the other half only once it has its quote.
pub(super) async fn prepare(attempt: &Attempt, chain: &Chain) -> Result<()> {
    if attempt.coin {
        chain.set_code(attempt.contract, bytecode::refuses(false)).await?;
    }
    Ok(())
}

pub(super) async fn attempt(hands: &Hands<'_>) -> Result<()> {
    let mut body = hands.ask("ETH", "ETH", U256::from(WEI));
    body["recipient"] = json!(hands.attempt.contract);
    let Some((quote, order)) = hands.quote(&body).await? else { return Ok(()) };
    let destination = &hands.devnet.chains[hands.attempt.destination];
    destination.set_code(hands.attempt.contract, bytecode::refuses(true)).await?;
    hands.follow(&quote, order.id, &hands.attempt.main, "ETH", U256::from(WEI)).await
}
