//! Deposit addresses of others. Anybody may sweep a strict one and pay at any of them: the adversary sweeps before the
//! service does, for itself where it can, and leaves dust. The owner of the address has to be served all the same.

use std::time::Duration;

use alloy::primitives::{B256, U256};
use anyhow::Result;
use devnet::Account;
use domain::ids::OrderId;
use evm::calldata;
use serde_json::json;

use super::hands::Hands;
use crate::chaos::addresses::{Given, Sent, address};

/// Fifty USDC.
const AMOUNT: u64 = 50_000_000;
const GAS_LIMIT: u64 = 300_000;
/// Time between two sweeps, and between a payment and dust: about a block.
const SWEEP_INTERVAL: Duration = Duration::from_millis(300);
const SWEEPS: usize = 4;

/// Sweeps a strict address: its first dust, and then the payment, in the payment's own block if it can.
pub(super) async fn swept_first(hands: &Hands<'_>) -> Result<()> {
    let Some((order, owner)) = give_out(hands, true).await? else { return Ok(()) };
    let (main, second) = (&hands.attempt.main, &hands.attempt.second);
    let (factory, usdc) = (hands.origin().contracts.deposit_address_factory, hands.origin().token("USDC").address);
    let sweep = async |depositor| {
        let data = calldata::sweep(OrderId(order), depositor, usdc, B256::ZERO);
        let tx = hands.call(main, (factory, U256::ZERO, data), GAS_LIMIT)?;
        hands.sends.send(tx).await;
        anyhow::Ok(())
    };
    if hands.attempt.coin {
        pay(hands, main, U256::ONE, true).await?;
        sweep(owner).await?;
    }
    pay(hands, second, U256::from(AMOUNT), false).await?;
    for _ in 0..SWEEPS {
        sweep(owner).await?;
        // Another depositor is another address, which holds nothing.
        sweep(main.address).await?;
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
    Ok(())
}

/// Leaves dust at an open address before and after its owner pays.
pub(super) async fn dust_first(hands: &Hands<'_>) -> Result<()> {
    if give_out(hands, false).await?.is_none() {
        return Ok(());
    }
    let (main, second) = (&hands.attempt.main, &hands.attempt.second);
    pay(hands, main, U256::from(7), true).await?;
    tokio::time::sleep(SWEEP_INTERVAL).await;
    pay(hands, second, U256::from(AMOUNT), false).await?;
    tokio::time::sleep(SWEEP_INTERVAL).await;
    pay(hands, main, U256::from(7), true).await
}

/// Has an address given out to somebody else, who is also its refund recipient. Returns its order and that account.
async fn give_out(hands: &Hands<'_>, strict: bool) -> Result<Option<(B256, alloy::primitives::Address)>> {
    let attempt = hands.attempt;
    let owner = attempt.second.address;
    let mut ask = hands.ask("USDC", "USDC", U256::from(AMOUNT));
    (ask["user"], ask["refundTo"], ask["useDepositAddress"]) = (json!(owner), json!(owner), json!(true));
    if strict {
        ask["strict"] = json!(true);
    }
    let Some((quote, order)) = hands.quote(&ask).await? else { return Ok(None) };
    attempt.deeds().victim = Some(Given {
        label: format!("a victim of {:?}", attempt.trick),
        order: order.id,
        chain: attempt.origin,
        destination: attempt.destination,
        from: "USDC",
        to: "USDC",
        at: address(&quote)?,
        strict,
        quoted: U256::from(AMOUNT),
        minimum: order.minimum,
        refund_to: owner,
        recipient: attempt.recipient.address,
        sent: Vec::new(),
    });
    Ok(Some((order.id, owner)))
}

/// A plain transfer to the victim's address.
async fn pay(hands: &Hands<'_>, from: &Account, amount: U256, dust: bool) -> Result<()> {
    let Some(at) = hands.attempt.deeds().victim.as_ref().map(|victim| victim.at) else { return Ok(()) };
    let usdc = hands.origin().token("USDC").address;
    let tx = hands.call(from, (usdc, U256::ZERO, calldata::transfer(at, amount)), GAS_LIMIT)?;
    if let Some(victim) = &mut hands.attempt.deeds().victim {
        victim.sent.push(Sent { tx, amount, dust });
    }
    hands.sends.send(tx).await;
    Ok(())
}
