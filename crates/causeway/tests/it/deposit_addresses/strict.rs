//! Strict addresses: one order each, paid exactly, or sent back.

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use devnet::Account;
use evm::calldata;
use serde_json::{Value, json};

use super::{BASE, DOLLAR, SENTINEL, address, body, child, delivered, is_back, listed, pay, quick, under, usdc};
use crate::audit::agrees;
use crate::fast_fill::integrator;
use crate::harness::{Engine, Harness, amount, eventually, found, new_account, request_id};
use crate::keys::create;

/// A strict address: dust first, then the exact amount; a second payment goes back; both hashes find the request.
#[tokio::test]
async fn a_strict_address_is_paid_exactly_behind_dust_and_paid_again() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, stranger) = (base.fresh_user().await?, base.fresh_user().await?);
    let (recipient, refund_to) = (new_account().address, new_account().address);
    let quote = harness.quote(&body(&harness, recipient, json!({ "strict": true, "refundTo": refund_to }))).await?;
    let (id, at) = (request_id(&quote), address(&quote)?);
    ensure!(harness.status(id).await?["depositAddress"]["depositAddressType"] == "strict");
    let exact = 10 * DOLLAR;
    // Dust does not end the order, whoever sends it.
    pay(base, &stranger, at, 7).await?;
    let paid = pay(base, &user, at, exact).await?;
    let done = harness.wait_for(id, "success").await?;
    let expected = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == expected, "{done}");
    ensure!(base.balance(usdc(&harness), at).await?.is_zero());
    ensure!(base.balance(usdc(&harness), harness.depository).await? >= U256::from(exact + 7));
    let shown = &done["depositAddress"];
    ensure!(shown["depositTxHash"] == paid.to_string(), "{done}");
    ensure!(shown["depositor"] == format!("{:#x}", user.address), "{done}");
    let sweep = done["inTxHashes"][0].as_str().context("the sweep")?;
    ensure!(sweep != paid.to_string(), "{done}");
    // What comes after is a request of its own, which goes back.
    pay(base, &user, at, exact).await?;
    let second = child(&harness, id, "DOUBLE_SPEND", "refund").await?;
    let back_to = (usdc(&harness), refund_to);
    is_back(&harness, &by.key, under(&second)?, back_to, U256::ZERO, U256::from(exact)).await?;
    ensure!(harness.status(id).await?["status"] == "success");
    for (query, least) in [
        (format!("depositAddress={at:#x}"), 2),
        (format!("depositTxHash={paid}"), 1),
        (format!("depositTxHash={sweep}"), 1),
        (format!("term={paid}"), 1),
        (format!("features=deposit_address&id={id}"), 1),
    ] {
        eventually("it is listed", || async {
            let found = listed(&harness, &by.key, &query).await?;
            Ok(found.len() >= least && found.iter().any(|record| record["id"] == id))
        })
        .await?;
    }
    let record = listed(&harness, &by.key, &format!("id={id}")).await?.into_iter().next().context("listed")?;
    let at_text = format!("{at:#x}");
    ensure!(record["depositAddress"]["type"] == "strict" && record["depositAddress"]["address"] == at_text, "{record}");
    ensure!(record["data"]["inTxs"][0]["txHash"] == sweep, "{record}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// A strict quote of ten dollars: the quote, its address, the recipient and whom it is refunded to.
async fn strict(harness: &Harness) -> Result<(Value, Address, Address, Address)> {
    let (recipient, refund_to) = (new_account().address, new_account().address);
    let quote = harness.quote(&body(harness, recipient, json!({ "strict": true, "refundTo": refund_to }))).await?;
    let at = address(&quote)?;
    Ok((quote, at, recipient, refund_to))
}

/// The excess of an order, once it is back.
async fn excess(harness: &Harness, id: &str) -> Result<U256> {
    found("the excess is back", || async {
        let answer = harness.status(id).await?;
        let mut returns = answer["returns"].as_array().into_iter().flatten();
        Ok(returns.find(|it| it["kind"] == "excess" && it["status"] == "refund").map(|it| amount(&it["amount"])))
    })
    .await
}

/// More, less, another currency, another chain, an exact output, and a stranger who sweeps what is only partly paid.
#[tokio::test]
async fn a_strict_address_is_paid_over_under_and_in_another_currency() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let (_, key) = create(&harness, &[])?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (token, there) = (usdc(&harness), optimism.token("USDC").address);
    let user = base.fresh_user().await?;
    // More: filled as quoted, and the rest goes back.
    let (over, at, recipient, refund_to) = strict(&harness).await?;
    pay(base, &user, at, 30 * DOLLAR).await?;
    harness.wait_for(request_id(&over), "success").await?;
    let expected = amount(&over["details"]["currencyOut"]["amount"]);
    ensure!(delivered(&harness, &key, at, 1, recipient).await? == expected);
    let told = excess(&harness, request_id(&over)).await?;
    ensure!(base.balance(token, refund_to).await? == told, "{told}");
    ensure!(told < U256::from(20 * DOLLAR) && told > U256::from(19 * DOLLAR), "{told}");
    // Less: refunded when the rest has not come.
    let (under_paid, at, recipient, refund_to) = strict(&harness).await?;
    let sent = U256::from(6 * DOLLAR);
    pay(base, &user, at, 6 * DOLLAR).await?;
    let ended = harness.wait_for(request_id(&under_paid), "refund").await?;
    ensure!(ended["failReason"] == "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL", "{ended}");
    is_back(&harness, &key, request_id(&under_paid), (token, refund_to), U256::ZERO, sent).await?;
    ensure!(optimism.balance(there, recipient).await?.is_zero());
    // Another currency: native, of which anybody has some.
    let (other, at, _, refund_to) = strict(&harness).await?;
    let sent = U256::from(10u64).pow(U256::from(16));
    base.send(user.private_key, at, sent, Default::default()).await?;
    let native = child(&harness, request_id(&other), "INCORRECT_DEPOSIT_CURRENCY", "refund").await?;
    is_back(&harness, &key, under(&native)?, (Address::ZERO, refund_to), U256::ZERO, sent).await?;
    ensure!(harness.status(request_id(&other)).await?["status"] == "waiting");
    partly_swept(&harness, &key, &user).await?;
    on_another_chain(&harness, &user).await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// A stranger sweeps what is partly paid: that part goes back, and the order can still be paid. It is for an exact
/// output.
async fn partly_swept(harness: &Harness, key: &str, user: &Account) -> Result<()> {
    let (base, token) = (harness.chain("base"), usdc(harness));
    let (recipient, refund_to) = (new_account().address, new_account().address);
    let hundred = (100 * DOLLAR).to_string();
    let asked = json!({ "strict": true, "refundTo": refund_to, "amount": hundred, "tradeType": "EXACT_OUTPUT" });
    let partly = harness.quote(&body(harness, recipient, asked)).await?;
    let at = address(&partly)?;
    let order = partly["protocol"]["v2"]["orderId"].as_str().context("an order")?.parse()?;
    let factory = harness.config.chains[0].contracts.deposit_address_factory.context("a factory")?;
    // Less than a tenth, which is never swept before the order is over.
    pay(base, user, at, 9 * DOLLAR).await?;
    let sweep = calldata::sweep(order, refund_to, token, B256::ZERO);
    let stranger = base.fresh_user().await?;
    base.send(stranger.private_key, factory, U256::ZERO, sweep).await?;
    let part = child(harness, request_id(&partly), "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL", "refund").await?;
    is_back(harness, key, under(&part)?, (token, refund_to), U256::ZERO, U256::from(9 * DOLLAR)).await?;
    let costs = amount(&partly["details"]["currencyIn"]["amount"]).to::<u64>();
    ensure!(costs > 100 * DOLLAR, "{partly}");
    pay(base, user, at, costs).await?;
    harness.wait_for(request_id(&partly), "success").await?;
    ensure!(delivered(harness, key, at, 1, recipient).await? == U256::from(100 * DOLLAR));
    Ok(())
}

/// The right amount at the same address of another chain pays for nothing, and goes back there when somebody asks.
async fn on_another_chain(harness: &Harness, user: &Account) -> Result<()> {
    let arbitrum = harness.chain("arbitrum");
    arbitrum.fund(user.address).await?;
    let (quote, at, _, refund_to) = strict(harness).await?;
    pay(arbitrum, user, at, 10 * DOLLAR).await?;
    harness.walked(arbitrum).await?;
    let reindex = json!({ "chainId": BASE, "depositAddress": at, "targetChainId": arbitrum.id });
    let (code, report) = harness.post("/transactions/deposit-address/reindex", &reindex).await?;
    ensure!(code == 200 && report["triggeredCurrencies"][0]["balance"] == "10000000", "{report}");
    let astray = child(harness, request_id(&quote), "DEPOSIT_CHAIN_MISMATCH", "refund").await?;
    // The transaction that it names has moved exactly what is back.
    let tx = astray["txHashes"][0].as_str().context("the return")?.parse()?;
    let token = arbitrum.token("USDC").address;
    let receipt = arbitrum.receipt(tx).await?;
    let moved = receipt
        .inner
        .logs()
        .iter()
        .filter(|log| log.address() == token && log.topics().get(2) == Some(&refund_to.into_word()))
        .fold(U256::ZERO, |sum, log| sum + U256::from_be_slice(&log.data().data));
    ensure!(arbitrum.balance(token, refund_to).await? == moved, "{moved} {astray}");
    ensure!(moved < U256::from(10 * DOLLAR) && moved > U256::from(9 * DOLLAR), "{moved}");
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting");
    Ok(())
}

/// Native currency by a plain transfer and out of a contract, which leaves no transaction to the address.
#[tokio::test]
async fn native_currency_is_found_by_transactions_and_by_balance() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let user = base.fresh_user().await?;
    let price = U256::from(10u64).pow(U256::from(16));
    for by_contract in [false, true] {
        let recipient = new_account().address;
        let mut asked = body(&harness, recipient, json!({ "strict": true, "refundTo": user.address }));
        asked["originCurrency"] = json!(SENTINEL);
        asked["destinationCurrency"] = json!(SENTINEL);
        asked["amount"] = json!(price.to_string());
        let quote = harness.quote(&asked).await?;
        let at = address(&quote)?;
        ensure!(quote["steps"][0]["items"][0]["data"]["data"] == "0x", "{quote}");
        match by_contract {
            false => drop(base.send(user.private_key, at, price, Default::default()).await?),
            // As a contract's payment would leave it: a balance, and no transaction to the address.
            true => base.set_balance(at, price).await?,
        }
        let done = harness.wait_for(request_id(&quote), "success").await?;
        ensure!(
            optimism.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"])
        );
        ensure!(done["depositAddress"]["depositTxHash"].is_null() == by_contract, "{done}");
    }
    service.stop().await
}
