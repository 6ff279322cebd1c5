//! A plain token deposit is attributed by an id in the calldata around it. Whoever brings a contract wallet's signed
//! call chooses the rest of the calldata, and puts the id of an order of their own there.

use alloy::primitives::U256;
use anyhow::Result;
use devnet::Chain;
use domain::ids::OrderId;
use evm::calldata;

use super::hands::Hands;
use super::{Attempt, bytecode};

/// Fifty USDC.
pub(super) const AMOUNT: u64 = 50_000_000;
const GAS_LIMIT: u64 = 300_000;

/// Sets up the victim's wallet, which pays whoever brings its call.
pub(super) async fn prepare(attempt: &Attempt, chain: &Chain) -> Result<()> {
    let (usdc, amount) = (chain.token("USDC").address, U256::from(AMOUNT));
    chain.set_token_balance(usdc, attempt.contract, amount).await?;
    chain.set_code(attempt.contract, bytecode::pays(usdc, chain.contracts.depository, amount)).await
}

pub(super) async fn attempt(hands: &Hands<'_>) -> Result<()> {
    let amount = U256::from(AMOUNT);
    let Some((_, order)) = hands.quote(&hands.ask("USDC", "USDC", amount)).await? else { return Ok(()) };
    let beside = calldata::implicit_deposit(hands.origin().contracts.depository, amount, OrderId(order.id));
    let tx = hands.call(&hands.attempt.main, (hands.attempt.contract, U256::ZERO, beside), GAS_LIMIT)?;
    hands.bring(tx, order.id, "USDC", amount);
    hands.sends.send(tx).await;
    Ok(())
}
