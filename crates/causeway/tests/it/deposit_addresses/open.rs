//! Open addresses: whatever arrives is priced, or sent back to whom it can.

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    BASE, DOLLAR, SENTINEL, address, body, child, delivered, is_back, listed, pay, pay_in, quick, under, usdc,
};
use crate::audit::agrees;
use crate::fast_fill::integrator;
use crate::harness::{Engine, Harness, amount, eventually, new_account, request_id};
use crate::keys::create;

/// An exchange pays four times at an open address: each time is a transfer of its own. What cannot be quoted goes back.
#[tokio::test]
async fn an_open_address_is_paid_again_and_again() -> Result<()> {
    let harness = Harness::with(Engine::Postgres, |config| {
        quick(config);
        // Half a dollar is too little to be quoted, and enough to be sent back.
        config.fees.flat_usd = "1".to_owned();
        std::fs::write(config.folder.join("blocked.txt"), "# nobody yet\n").unwrap();
        config.screening.blocked = Some("blocked.txt".into());
    })
    .await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let base = harness.chain("base");
    let (exchange, recipient, refund_to) = (base.fresh_user().await?, new_account().address, new_account().address);
    let asked = body(&harness, recipient, json!({ "refundTo": refund_to }));
    let (code, quote) = by.post(&harness, "/quote/v2", &asked).await?;
    ensure!(code == 200, "{quote}");
    let (id, at) = (request_id(&quote).to_owned(), address(&quote)?);
    let mut arrived = U256::ZERO;
    // More first, then less: quotes of their own, while the first one waits. Then the quoted ten, and the same again.
    for (turn, dollars) in [25, 5, 10, 10].into_iter().enumerate() {
        let transfer = pay(base, &exchange, at, dollars * DOLLAR).await?;
        let before = arrived;
        arrived = delivered(&harness, &by.key, at, turn + 1, recipient).await?;
        let got = arrived - before;
        ensure!(got > U256::from((dollars - 2) * DOLLAR) && got < U256::from(dollars * DOLLAR), "{got} of {dollars}");
        ensure!(turn != 2 || got == amount(&quote["details"]["currencyOut"]["amount"]), "{got} is not as quoted");
        ensure!((harness.status(&id).await?["status"] == "waiting") == (turn < 2), "payment {turn}");
        eventually("the transfer finds its request", || async {
            Ok(listed(&harness, &by.key, &format!("depositTxHash={transfer}")).await?.len() == 1)
        })
        .await?;
    }
    let records = listed(&harness, &by.key, &format!("depositAddress={at:#x}")).await?;
    ensure!(records.len() == 4, "{records:?}");
    ensure!(records.iter().all(|record| record["depositAddress"]["type"] == "open"), "{records:?}");
    let first = records.iter().find(|record| record["id"] == id).context("the first request")?;
    let superseded = first["supersededByRequestId"].as_str().context("superseded")?;
    ensure!(records.iter().any(|record| record["id"] == superseded && superseded != id), "{records:?}");
    in_another_currency_and_too_little(&harness, &by.key).await?;
    // The recipient is not served any more: what arrives goes back when it has waited long enough.
    std::fs::write(harness.folder.path().join("blocked.txt"), format!("{recipient}\n"))?;
    eventually("there is no quote", || async { Ok(harness.post("/quote/v2", &asked).await?.0 == 400) }).await?;
    pay(base, &exchange, at, 20 * DOLLAR).await?;
    let unserved = child(&harness, &id, "NO_QUOTES", "refund").await?;
    let (back_to, sent) = ((usdc(&harness), refund_to), U256::from(20 * DOLLAR));
    is_back(&harness, &by.key, under(&unserved)?, back_to, U256::ZERO, sent).await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Four addresses at once: one is paid in another currency of the solver's, which is priced, and three too little,
/// which goes back to whom the quote names, or to the sender, or stays where it is if nobody is named.
async fn in_another_currency_and_too_little(harness: &Harness, key: &str) -> Result<()> {
    let (base, token) = (harness.chain("base"), usdc(harness));
    let (user, sender) = (base.fresh_user().await?, base.fresh_user().await?);
    let (recipient, refund_to) = (new_account().address, new_account().address);
    let quoted = async |changes: Value| harness.quote(&body(harness, recipient, changes)).await;
    let other = quoted(json!({})).await?;
    let named = quoted(json!({ "refundTo": refund_to })).await?;
    let sentinel = quoted(json!({ "refundTo": SENTINEL })).await?;
    let nobody = quoted(json!({})).await?;
    let half = DOLLAR / 2;
    let had = base.balance(token, sender.address).await?;
    pay(base, &user, address(&nobody)?, half).await?;
    pay_in("USDT", base, &user, address(&other)?, 12 * DOLLAR).await?;
    pay(base, &user, address(&named)?, half).await?;
    pay(base, &sender, address(&sentinel)?, half).await?;
    let got = delivered(harness, key, address(&other)?, 1, recipient).await?;
    ensure!(got > U256::from(10 * DOLLAR) && got < U256::from(12 * DOLLAR), "{got}");
    let half = U256::from(half);
    for (quote, who, without) in [(&named, refund_to, U256::ZERO), (&sentinel, sender.address, had - half)] {
        let low = child(harness, request_id(quote), "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL", "refund").await?;
        is_back(harness, key, under(&low)?, (token, who), without, half).await?;
    }
    for quote in [&other, &named, &sentinel, &nobody] {
        ensure!(harness.status(request_id(quote)).await?["status"] == "waiting");
    }
    ensure!(base.balance(token, address(&nobody)?).await? == half, "it went to somebody");
    Ok(())
}

/// Nobody to refund to, the sender as refund recipient, an exchange as sender, a token that is not seen, and money on
/// another chain.
#[tokio::test]
async fn money_at_an_address_goes_back_to_whom_it_can() -> Result<()> {
    let vasp = new_account();
    let harness = Harness::with(Engine::Sqlite, |config| {
        quick(config);
        std::fs::write(config.folder.join("custodial.txt"), format!("{}\n", vasp.address)).unwrap();
        config.screening.custodial = Some("custodial.txt".into());
    })
    .await?;
    let service = harness.serve().await?;
    let (_, key) = create(&harness, &[])?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    base.fund(vasp.address).await?;
    let strict = json!({ "strict": true, "refundTo": SENTINEL });
    // The sender of too little gets it back; an exchange does not.
    let mut ended = Vec::new();
    for from in [&user, &vasp] {
        let quote = harness.quote(&body(&harness, new_account().address, strict.clone())).await?;
        let had = base.balance(usdc(&harness), from.address).await?;
        pay(base, from, address(&quote)?, 6 * DOLLAR).await?;
        ended.push((quote, had));
    }
    let ((back, had), sent) = (&ended[0], U256::from(6 * DOLLAR));
    harness.wait_for(request_id(back), "refund").await?;
    is_back(&harness, &key, request_id(back), (usdc(&harness), user.address), *had - sent, sent).await?;
    let kept = harness.wait_for(request_id(&ended[1].0), "failure").await?;
    ensure!(kept["refundFailReason"] == "REFUND_RECIPIENT_IS_VASP", "{kept}");
    // Without a refund recipient, too little stays where it is, and more is filled with it.
    let recipient = new_account().address;
    let open = harness.quote(&body(&harness, recipient, json!({}))).await?;
    let at = address(&open)?;
    pay(base, &user, at, 5).await?;
    // A token that the solver does not hold is not seen at all.
    pay_in("TAIL", base, &user, at, DOLLAR).await?;
    harness.let_pass(base, 12).await?;
    ensure!(base.balance(usdc(&harness), at).await? == U256::from(5));
    ensure!(harness.status(request_id(&open)).await?["status"] == "waiting");
    pay(base, &user, at, 12 * DOLLAR).await?;
    let both = delivered(&harness, &key, at, 1, recipient).await?;
    ensure!(both > U256::from(11 * DOLLAR) && both < U256::from(12 * DOLLAR), "{both}");
    ensure!(base.balance(usdc(&harness), at).await?.is_zero());
    // The same address on another chain: found when somebody asks, and priced from there.
    let arbitrum = harness.chain("arbitrum");
    arbitrum.fund(user.address).await?;
    pay(arbitrum, &user, at, 15 * DOLLAR).await?;
    harness.walked(arbitrum).await?;
    let reindex = json!({ "chainId": BASE, "depositAddress": at, "targetChainId": arbitrum.id });
    let (code, report) = harness.post("/transactions/deposit-address/reindex", &reindex).await?;
    ensure!(code == 200 && report["triggeredCurrencies"][0]["balance"] == "15000000", "{report}");
    let (code, again) = harness.post("/transactions/deposit-address/reindex", &reindex).await?;
    ensure!(code == 429, "{again}");
    let from_there = delivered(&harness, &key, at, 2, recipient).await? - both;
    ensure!(from_there > U256::from(14 * DOLLAR) && from_there < U256::from(15 * DOLLAR), "{from_there}");
    ensure!(base.balance(base.token("TAIL").address, at).await? == U256::from(DOLLAR), "a token nobody asked for");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}
