//! The excess of a deposit goes back where the order does not grow with it.

use alloy::primitives::{Address, U256, utils::parse_units};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use devnet::Account;
use domain::ids::OrderId;
use evm::calldata;
use serde_json::{Value, json};

use crate::audit::agrees;
use crate::fast_fill::{USDC, books, integrator};
use crate::harness::{
    Engine, Harness, amount, ask, balance_when, eventually, found, in_order, new_account, request_id, rules,
};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// The exact output, of a token that is bought on the destination: about eighteen dollars.
fn bought() -> Result<U256> {
    Ok(parse_units("900", 18)?.into())
}

/// The body that asks for the exact output.
fn exactly(harness: &Harness, user: Address, recipient: Address) -> Result<Value> {
    let (usdc, tail) = (harness.chain("base").token("USDC").address, harness.chain("optimism").token("TAIL").address);
    let mut body = ask(user, recipient, (BASE, usdc), (OPTIMISM, tail), bought()?);
    body["tradeType"] = json!("EXACT_OUTPUT");
    Ok(body)
}

/// Deposits the quoted amount and so many tenths of it more. Returns the quoted amount and the excess.
async fn deposit_too_much(harness: &Harness, quote: &Value, user: &Account, tenths: u64) -> Result<(U256, U256)> {
    let base = harness.chain("base");
    let order: OrderId = quote["protocol"]["v2"]["orderId"].as_str().context("an order")?.parse()?;
    let quoted = amount(&quote["details"]["currencyIn"]["amount"]);
    let beyond = quoted * U256::from(tenths) / U256::from(10);
    let deposit = calldata::implicit_deposit(harness.depository, quoted + beyond, order);
    base.send(user.private_key, base.token("USDC").address, U256::ZERO, deposit).await?;
    Ok((quoted, beyond))
}

fn quick(config: &mut Config) {
    config.chains.iter_mut().for_each(|chain| chain.finality_blocks = 5);
}

/// The deposit for an exact output is three tenths too large: the order is filled, and the excess goes back.
#[tokio::test]
async fn the_excess_over_an_exact_output_goes_back() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, tail) = (base.token("USDC").address, optimism.token("TAIL").address);
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let quote = harness.quote(&exactly(&harness, user.address, recipient)?).await?;
    let id = request_id(&quote);
    let had = base.balance(usdc, user.address).await?;
    let (quoted, beyond) = deposit_too_much(&harness, &quote, &user, 3).await?;
    harness.wait_for(id, "success").await?;
    ensure!(optimism.balance(tail, recipient).await? >= bought()?);
    let without = had - quoted - beyond;
    let has = balance_when(base, (usdc, user.address), "the rest is back", |has| has > without).await?;
    let back = has - without;
    ensure!(back < beyond && back > beyond - U256::from(1_000_000u64), "{back} of {beyond}");
    // The chain has it before the service knows.
    let returned = found("the return is told", || async {
        let status = harness.status(id).await?;
        ensure!(status["status"] == "success", "{status}");
        Ok(Some(status["returns"][0].clone()).filter(|returned| returned["status"] == "refund"))
    })
    .await?;
    ensure!(returned["kind"] == "excess" && amount(&returned["amount"]) == back, "{returned}");
    harness.let_pass(base, 12).await?;
    ensure!(base.balance(usdc, user.address).await? == has, "it went back twice");
    let trace = harness.trace(id).await?;
    ensure!(in_order(&trace, &["excess-due", "excess-returned"]), "{trace}");
    ensure!(rules(&trace).iter().filter(|rule| **rule == "excess-returned").count() == 1, "{trace}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// An excess above the limit for our own funds is not returned beside a fill: nothing is filled, and the whole deposit
/// goes back.
#[tokio::test]
async fn an_excess_above_the_limit_is_refunded_with_its_order() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        quick(config);
        config.chains.iter_mut().for_each(|chain| chain.risk.refund_usd = "10".to_owned());
    })
    .await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, tail) = (base.token("USDC").address, optimism.token("TAIL").address);
    let user = base.fresh_user().await?;
    // Five tenths of eighteen dollars are below ten dollars, and eight tenths are not.
    for (tenths, status) in [(5, "success"), (8, "refund")] {
        let recipient = new_account().address;
        let quote = harness.quote(&exactly(&harness, user.address, recipient)?).await?;
        let had = base.balance(usdc, user.address).await?;
        let (quoted, beyond) = deposit_too_much(&harness, &quote, &user, tenths).await?;
        let ended = harness.wait_for(request_id(&quote), status).await?;
        let kept = if status == "refund" { U256::ZERO } else { quoted };
        let without = had - quoted - beyond;
        let has = balance_when(base, (usdc, user.address), "the rest is back", |has| has > without).await?;
        let lost = had - has - kept;
        ensure!(lost < U256::from(1_000_000u64), "{lost} of {quoted} and {beyond}");
        ensure!(optimism.balance(tail, recipient).await?.is_zero() == (status == "refund"), "{ended}");
        ensure!(status == "success" || ended["failReason"] == "SLIPPAGE", "{ended}");
    }
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// The integrator whose balance stood for the deposit is credited with its excess; nobody gets it twice.
#[tokio::test]
async fn the_excess_of_a_fast_filled_order_is_the_integrators() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let (code, quote) = by.post(&harness, "/quote/v2", &exactly(&harness, user.address, recipient)?).await?;
    ensure!(code == 200, "{quote}");
    let (code, answer) = by.fast_fill(&harness, request_id(&quote)).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request_id(&quote), "success").await?;
    let had = base.balance(usdc, user.address).await?;
    let (quoted, beyond) = deposit_too_much(&harness, &quote, &user, 3).await?;
    let balance = i64::try_from(U256::from(100 * USDC) + beyond)?;
    eventually("the surplus is booked", || async { Ok(books(&service, by.wallet.address).await? == (balance, 0)) })
        .await?;
    // Long enough for both to be final and for a refund of the excess to be mined.
    harness.let_pass(base, 15).await?;
    ensure!(base.balance(usdc, user.address).await? == had - quoted - beyond, "it went back as well");
    ensure!(books(&service, by.wallet.address).await? == (balance, 0));
    let trace = harness.trace(request_id(&quote)).await?;
    ensure!(rules(&trace).iter().all(|rule| !rule.starts_with("excess-")), "{trace}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}
