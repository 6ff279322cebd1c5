//! `causeway audit` finds nothing in an honest database, and every forged row in another.

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use domain::ids::OrderId;
use evm::calldata;
use serde_json::Value;
use store::payouts::State;
use store::{StoreError, Tx};

use crate::harness::{Engine, Harness, ask, eventually, execute, new_account, request_id};
use crate::process::causeway;
use crate::repayment;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// The findings, and the success of the command.
pub async fn audit(harness: &Harness) -> Result<(Value, bool)> {
    let toml = harness.folder.path().join("dev.toml");
    let run = move || causeway().args(["audit", "--json", "--config"]).arg(&toml).output();
    let output = tokio::task::spawn_blocking(run).await??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let findings = serde_json::from_str(&text);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((findings.with_context(|| format!("{text}{said}"))?, output.status.success()))
}

pub fn differences(findings: &Value) -> Vec<String> {
    let checks = findings["checks"].as_array().cloned().unwrap_or_default();
    let all = checks.iter().flat_map(|check| check["differences"].as_array().cloned().unwrap_or_default());
    all.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
}

/// The books agree with the chains. The findings are returned. The chains and the service may live on this thread, so
/// that waiting for the command must not hold them up.
pub async fn agrees(harness: &Harness) -> Result<Value> {
    let (findings, content) = audit(harness).await?;
    ensure!(content, "{:#?}", differences(&findings));
    Ok(findings)
}

/// Fills of both kinds, a refund, a return, a return out of the depository, and their repayment.
async fn mix(harness: &Harness) -> Result<()> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let user = base.fresh_user().await?;
    let native = U256::from(20_000_000_000_000_000u64);
    let token = U256::from(60_000_000u64);
    for (from, to, value) in [(Address::ZERO, Address::ZERO, native), (usdc, there, token)] {
        let body = ask(user.address, new_account().address, (BASE, from), (OPTIMISM, to), value);
        let quote = harness.quote(&body).await?;
        execute(base, &quote, &user).await?;
        harness.wait_for(request_id(&quote), "success").await?;
    }
    let body = ask(user.address, new_account().address, (BASE, usdc), (OPTIMISM, there), token);
    let quote = harness.quote(&body).await?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let short = calldata::implicit_deposit(harness.depository, U256::from(20_000_000u64), order);
    base.send(user.private_key, usdc, U256::ZERO, short).await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    for value in [native, native * U256::from(1_000)] {
        let stray = calldata::deposit_native(user.address, OrderId(B256::repeat_byte(0xcc)));
        base.send(user.private_key, harness.depository, value, stray).await?;
    }
    eventually("everything has left the depository", || async {
        let held =
            (base.balance(Address::ZERO, harness.depository).await?, base.balance(usdc, harness.depository).await?);
        Ok(held == (U256::ZERO, U256::ZERO))
    })
    .await
}

pub async fn planted(
    harness: &Harness,
    forge: impl Fn(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static,
) -> Result<Vec<String>> {
    let store = store::Store::open(&causeway::assemble::database(&harness.config)?)?;
    store.write(forge).await?;
    store.close().await;
    let (findings, content) = audit(harness).await?;
    ensure!(!content, "it found nothing");
    Ok(differences(&findings))
}

#[tokio::test]
async fn an_audit_finds_every_forged_row() -> Result<()> {
    let harness = repayment::harness(Engine::Postgres, |_| ()).await?;
    let service = harness.serve().await?;
    mix(&harness).await?;
    // The audit runs beside the service, and after it.
    agrees(&harness).await?;
    // Forged rows contradict payouts that the books have as executed.
    eventually("the books have every payout", || async {
        Ok(repayment::all_payouts(&service).await?.iter().all(|payout| payout.state == State::Executed))
    })
    .await?;
    service.stop().await?;
    let findings = agrees(&harness).await?;
    let compared = |check: &Value| check["compared"].as_u64().unwrap_or_default();
    ensure!(findings["checks"].as_array().is_some_and(|checks| checks.iter().map(compared).sum::<u64>() > 25));

    // Each forged row comes on top of the ones before: the audit must find something new about each.
    let mut said = 0;
    for (what, forge) in forgeries() {
        let found = planted(&harness, forge).await?;
        ensure!(found.len() > said, "{what}: {found:#?}");
        ensure!(found.iter().any(|text| text.contains(what)), "{what}: {found:#?}");
        said = found.len();
    }
    Ok(())
}

type Forgery = fn(&mut Tx<'_>) -> Result<(), StoreError>;

/// The findings of the audit, each with the statement that forges its row.
fn forgeries() -> Vec<(&'static str, Forgery)> {
    fn one(tx: &mut Tx<'_>, sql: &'static str) -> Result<(), StoreError> {
        assert_eq!(tx.execute(sql, &[])?, 1, "{sql}");
        Ok(())
    }
    vec![
        ("the amount of the deposit", |tx| {
            one(tx, "update deposit set amount = '5' where deposit_id in (select min(deposit_id) from deposit)")
        }),
        ("is not in the database", |tx| {
            one(tx, "delete from deposit where deposit_id in (select max(deposit_id) from deposit)")
        }),
        ("is not on the chain", |tx| {
            one(tx, "update deposit set ordinal = 7 where deposit_id in (select min(deposit_id) from deposit)")
        }),
        ("it paid", |tx| {
            one(
                tx,
                "update payment set amount = '1' where payment_id in (select min(payment_id) from payment where purpose = 'fill')",
            )
        }),
        ("payments for the", |tx| {
            one(
                tx,
                "delete from payment where payment_id in (select max(payment_id) from payment where purpose = 'payout')",
            )
        }),
        ("its nonce is not used", |tx| {
            one(tx, "update payout set nonce = subject where payout_id in (select max(payout_id) from payout)")
        }),
        ("has not signed for it", |tx| {
            one(tx, "delete from payout_signature where payout_id in (select max(payout_id) from payout)")
        }),
        ("not its own", |tx| {
            one(
                tx,
                "update settlement set payment_id = 999999 where order_id in
                 (select min(order_id) from settlement where payout_id is null)",
            )
        }),
        ("payouts take", |tx| {
            let batch = "delete from payout_deposit where payout_id in (select min(payout_id) from payout)";
            assert!(tx.execute(batch, &[])? > 0);
            Ok(())
        }),
    ]
}
