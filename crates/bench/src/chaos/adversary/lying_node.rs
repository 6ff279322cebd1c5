//! One node of a chain belongs to the adversary, and says whatever pays: a deposit or a transfer to the treasury that
//! never was, or that a fill has failed. It lies for a while only; the other node is as good or bad as always.

use std::time::Duration;

use alloy::primitives::{B256, Bytes, U256};
use anyhow::{Context, Result};
use devnet::{Account, Faults, Forgery};
use evm::account_tag::tag;
use evm::topics::NATIVE_DEPOSIT;

use super::hands::Hands;

/// Longer than it takes until a transfer is final.
const LYING_TIME: Duration = Duration::from_secs(9);
/// A tenth of an ether, and a hundred USDC.
const WEI: u64 = 100_000_000_000_000_000;
const AMOUNT: u64 = 100_000_000;
const GAS_LIMIT: u64 = 60_000;

/// A deposit under the adversary's own order.
pub(super) async fn invented_deposit(hands: &Hands<'_>) -> Result<()> {
    let (wei, main) = (U256::from(WEI), &hands.attempt.main);
    let Some((_, order)) = hands.quote(&hands.ask("ETH", "USDC", wei)).await? else { return Ok(()) };
    let depository = hands.origin().contracts.depository;
    let forgery = Forgery::native_deposit(main.address, depository, NATIVE_DEPOSIT, wei, order.id);
    let faults = &hands.liars[hands.attempt.origin].faults;
    faults.update(|fault| fault.forgeries.push(forgery));
    nothing(hands, hands.attempt.origin, main).await?;
    tokio::time::sleep(LYING_TIME).await;
    honest_again(faults, main);
    Ok(())
}

/// A balance that nobody paid for.
pub(super) async fn invented_funding(hands: &Hands<'_>) -> Result<()> {
    let base = hands.devnet.chains.iter().position(|chain| chain.name == domain::ledger::CHAIN);
    let base = base.context("no chain of app balances")?;
    let (chain, liar) = (&hands.devnet.chains[base], &hands.liars[base].faults);
    let (main, treasury) = (&hands.attempt.main, hands.devnet.keys.treasury.address);
    let (usdc, amount) = (chain.token("USDC").address, U256::from(AMOUNT));
    liar.update(|fault| {
        fault.forgeries.push(Forgery::token_funding(
            main.address,
            usdc,
            treasury,
            amount,
            tag(hands.attempt.app.address),
        ));
    });
    nothing(hands, base, main).await?;
    hands.claim(&hands.attempt.app, LYING_TIME).await?;
    honest_again(liar, main);
    Ok(())
}

/// A fill that is shown as failed, so that its order is refunded as well.
pub(super) async fn failed_fill(hands: &Hands<'_>) -> Result<()> {
    let amount = U256::from(AMOUNT);
    let Some((quote, order)) = hands.quote(&hands.ask("USDC", "USDC", amount)).await? else { return Ok(()) };
    let liar = &hands.liars[hands.attempt.destination].faults;
    let fillers = &hands.devnet.keys.fillers;
    liar.update(|fault| fault.forgeries.extend(fillers.iter().map(|filler| Forgery::failed(filler.address))));
    hands.follow(&quote, order.id, &hands.attempt.main, "USDC", amount).await?;
    tokio::time::sleep(LYING_TIME).await;
    fillers.iter().for_each(|filler| honest_again(liar, filler));
    Ok(())
}

/// A transaction for the node to lie about.
async fn nothing(hands: &Hands<'_>, chain: usize, from: &Account) -> Result<B256> {
    let tx = hands.sends.sign(chain, from, (from.address, U256::ZERO, Bytes::new()), GAS_LIMIT, false)?;
    hands.sends.send(tx).await;
    Ok(tx)
}

fn honest_again(liar: &Faults, about: &Account) {
    liar.update(|fault| fault.forgeries.retain(|forgery| forgery.sender != about.address));
}
