//! Claims never exceed the available balance, however many come at once.

use alloy::primitives::U256;
use anyhow::{Result, ensure};
use futures::future::{join_all, try_join_all};
use serde_json::Value;

use super::{BASE, OPTIMISM, USDC, agrees, arrived, asked, body, post, sign, usdc};
use crate::fast_fill::{Integrator, integrator};
use crate::funding::{balance, credited};
use crate::harness::{Engine, Harness, ask, new_account, request_id};

/// Money set aside for fast fills and sponsored transfers cannot be claimed; two hundred claims at once get the rest.
async fn never_more_than_there_is(engine: Engine) -> Result<()> {
    let harness = Harness::new(engine).await?;
    let service = harness.serve().await?;
    let by: Integrator = integrator(&harness, 400).await?;
    let (wallet, recipient) = (by.wallet.address, new_account().address);
    let (user, there) = (harness.chain("base").fresh_user().await?, harness.chain("optimism").token("USDC").address);
    let quoted = ask(user.address, recipient, (BASE, usdc(&harness)), (OPTIMISM, there), U256::from(95 * USDC));
    let (code, quote) = by.post(&harness, "/quote/v2", &quoted).await?;
    ensure!(code == 200, "{quote}");
    ensure!(by.fast_fill(&harness, request_id(&quote)).await?.0 == 200);
    let path = format!("/app-fees/{wallet:#x}/claim");
    let (code, refused) = harness.post(&path, &body(&harness, recipient, Some(306 * USDC))).await?;
    ensure!(code == 400 && refused["errorCode"] == "INSUFFICIENT_FUNDS", "{refused}");

    let asks = (0..200).map(|_| async { asked(&harness, wallet, &body(&harness, recipient, Some(10 * USDC))).await });
    let steps = try_join_all(asks).await?;
    let calls = join_all(steps.iter().map(|step| async { post(&harness, step, &sign(&by.wallet, step)?).await })).await;
    let answers = calls.into_iter().collect::<Result<Vec<_>>>()?;
    let accepted = answers.iter().filter(|(code, _)| *code == 200).count();
    let low = |(code, body): &(u16, Value)| *code == 400 && body["errorCode"] == "INSUFFICIENT_FUNDS";
    ensure!(accepted == 30 && answers.iter().filter(|answer| low(answer)).count() == 170, "{accepted}");
    let left = balance(&harness, wallet).await?;
    ensure!(left["availableBalanceUsd"] == 5.0, "{left}");
    credited(&harness, wallet, "100000000").await?;
    ensure!(arrived(&harness, recipient).await? == 300 * USDC);
    service.stop().await?;
    agrees(&harness).await
}

#[tokio::test]
async fn many_claims_at_once_never_exceed_the_balance_sqlite() -> Result<()> {
    never_more_than_there_is(Engine::Sqlite).await
}

#[tokio::test]
async fn many_claims_at_once_never_exceed_the_balance_postgres() -> Result<()> {
    never_more_than_there_is(Engine::Postgres).await
}
