//! Pools that move between the quote and the trade, further than was agreed.

use alloy::primitives::aliases::{U24, U160};
use alloy::primitives::{B256, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result};
use evm::calldata;
use evm::swap::SwapRouter;
use serde_json::{Value, json};

use super::{Place, Wish, caught_up, nothing_is_left, out, place, serve};
use crate::harness::{Harness, amount, eventually, new_account, request_id, transactions};

/// Sells an amount of a token for the wrapped one, or the other way round. Returns the amount bought.
async fn trade(from: Place, to: Place, sold: U256) -> Result<U256> {
    let (chain, dex) = (from.chain, from.chain.contracts.swap_router);
    let mover = from.holder(sold).await?;
    let params = SwapRouter::ExactInputSingleParams {
        tokenIn: from.currency,
        tokenOut: to.currency,
        fee: U24::from(3_000),
        recipient: mover.address,
        amountIn: sold,
        amountOutMinimum: U256::ZERO,
        sqrtPriceLimitX96: U160::ZERO,
    };
    chain.send(mover.private_key, from.currency, U256::ZERO, calldata::approve(dex, sold)).await?;
    let swap = SwapRouter::exactInputSingleCall { params }.abi_encode();
    chain.send(mover.private_key, dex, U256::ZERO, swap.into()).await?;
    to.balance(mover.address).await
}

/// Sends the last step of a quote as a wallet would that does not simulate it first.
async fn send_blindly(place: Place, from: alloy::primitives::Address, quote: &Value) -> Result<Value> {
    let last = transactions(quote)?.pop().context("a step")?;
    place.chain.rpc::<Value>("anvil_impersonateAccount", [from]).await?;
    let request = json!({"from": from, "to": last.to, "value": last.value, "data": last.data, "gas": "0x1e8480"});
    let hash: B256 = place.chain.rpc("eth_sendTransaction", [request]).await?;
    let mined = || async { Ok(!place.chain.rpc::<Value>("eth_getTransactionReceipt", [hash]).await?.is_null()) };
    eventually("the transaction is mined", mined).await?;
    place.chain.rpc("eth_getTransactionReceipt", [hash]).await
}

/// The revert costs the user gas and nothing else: no deposit is made, so nothing has to come back.
#[tokio::test]
async fn the_users_own_trade_reverts_beyond_the_tolerance() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let here = |symbol| place(&harness, "base", symbol);
    let (tail, weth) = (here("TAIL"), here("WETH"));
    let options = [
        Wish::exact_input(tail, place(&harness, "optimism", "USDC"), 10_000),
        Wish::output("EXACT_OUTPUT", tail, place(&harness, "optimism", "USDC"), 10_000),
        Wish::exact_input(tail, here("USDC"), 10_000),
        Wish::output("EXACT_OUTPUT", tail, here("USDC"), 10_000),
    ];
    let mut quotes = Vec::new();
    caught_up(&harness, &service).await?;
    for wish in &options {
        let user = tail.holder(tail.worth(100_000)).await?;
        let quote = harness.quote(&wish.body(user.address, user.address)).await?;
        let approve = transactions(&quote)?.into_iter().next().context("an approval")?;
        tail.chain.send(user.private_key, approve.to, approve.value, approve.data).await?;
        quotes.push((user, quote));
    }
    // A fifth of the pool's own.
    let got = trade(tail, weth, tail.worth(3_000_000)).await?;
    for (user, quote) in &quotes {
        let receipt = send_blindly(tail, user.address, quote).await?;
        assert_eq!(receipt["status"], "0x0", "{receipt}");
        assert_eq!(tail.balance(user.address).await?, tail.worth(100_000));
    }
    nothing_is_left(tail.chain).await?;
    assert_eq!(harness.status(request_id(&quotes[0].1)).await?["status"], "waiting");
    trade(weth, tail, got).await?;
    // Back where it was, less two fees: within the tolerance the same transaction goes through.
    let (user, quote) = &quotes[0];
    let receipt = send_blindly(tail, user.address, quote).await?;
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    harness.wait_for(request_id(quote), "success").await?;
    let delivered = place(&harness, "optimism", "USDC").balance(user.address).await?;
    assert!(delivered >= amount(&quote["details"]["currencyOut"]["minimumAmount"]), "{delivered}");
    service.stop().await
}

#[tokio::test]
async fn a_fill_whose_pool_moved_too_far_is_refunded_in_the_currency_of_the_deposit() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let there = |symbol| place(&harness, "arbitrum", symbol);
    let (tail, weth) = (there("TAIL"), there("WETH"));
    let (usdc, own_tail) = (place(&harness, "base", "USDC"), place(&harness, "base", "TAIL"));
    let deposits = [
        (Wish::exact_input(usdc, tail, 20_000), usdc),
        (Wish::output("EXACT_OUTPUT", usdc, tail, 20_000), usdc),
        // The refund is in the currency that reached the depository.
        (Wish::exact_input(own_tail, tail, 20_000), place(&harness, "base", "ETH")),
    ];
    caught_up(&harness, &service).await?;
    let mut quotes = Vec::new();
    for (wish, returned) in &deposits {
        let user = wish.from.holder(wish.from.worth(100_000)).await?;
        let (recipient, refund_to) = (new_account().address, new_account().address);
        let mut body = wish.body(user.address, recipient);
        body["refundTo"] = json!(refund_to);
        quotes.push((harness.quote(&body).await?, user, recipient, refund_to, wish.from, *returned));
    }
    let got = trade(weth, tail, weth.worth(3_000_000)).await?;
    let treasury = there("USDC").balance(harness.treasury.address).await?;
    for (quote, user, _, _, from, _) in &quotes {
        super::act(from.chain, quote, user).await?;
    }
    for (quote, _, recipient, refund_to, _, returned) in &quotes {
        let status = harness.wait_for(request_id(quote), "refund").await?;
        // Seen before the fill is sent or, where the pool moves later still, by its transaction.
        let reason = status["failReason"].as_str().unwrap_or_default();
        assert!(["SLIPPAGE", "TRANSACTION_REVERTED"].contains(&reason), "{status}");
        assert_eq!(tail.balance(*recipient).await?, U256::ZERO);
        let refund = &quote["details"]["refundCurrency"];
        assert_eq!(
            refund["currency"]["address"].as_str().unwrap().parse::<alloy::primitives::Address>()?,
            returned.currency
        );
        let (deposited, back) = (amount(&refund["amount"]), returned.balance(*refund_to).await?);
        assert!(back < deposited && back > deposited - returned.worth(100), "{back} of {deposited}");
    }
    assert_eq!(there("USDC").balance(harness.treasury.address).await?, treasury);
    nothing_is_left(tail.chain).await?;
    trade(tail, weth, got).await?;
    service.stop().await
}

/// Within the tolerance less arrives than was quoted, and never less than the minimum.
#[tokio::test]
async fn a_pool_that_moved_a_little_brings_a_little_less() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "TAIL"), place(&harness, "optimism", "TAIL"));
    let user = from.holder(from.worth(100_000)).await?;
    let recipient = new_account().address;
    caught_up(&harness, &service).await?;
    let quote = harness.quote(&Wish::exact_input(from, to, 50_000).body(user.address, recipient)).await?;
    let got = trade(from, place(&harness, "base", "WETH"), from.worth(40_000)).await?;
    super::act(from.chain, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    let delivered = to.balance(recipient).await?;
    assert!(delivered < out(&quote), "{delivered}");
    assert!(delivered >= amount(&quote["details"]["currencyOut"]["minimumAmount"]), "{delivered}");
    for place in [from, to] {
        nothing_is_left(place.chain).await?;
    }
    trade(place(&harness, "base", "WETH"), from, got).await?;
    service.stop().await
}
