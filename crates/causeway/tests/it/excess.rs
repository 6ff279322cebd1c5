//! The excess of a deposit goes back where the order does not grow with it.

use alloy::primitives::{Address, U256, utils::parse_units};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use devnet::Account;
use domain::ids::OrderId;
use evm::calldata;
use serde_json::{Value, json};

use crate::fast_fill::{USDC, books, integrator};
use crate::harness::{Engine, Harness, amount, ask, blocks_pass, eventually, new_account, operator, request_id};
use crate::process::causeway;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// The exact output, of a token that is bought on the destination: about eighteen dollars.
fn bought() -> Result<U256> {
    Ok(parse_units("900", 18)?.into())
}

/// The body that asks for the exact output. Pools are read after all else, so that this waits until there is a quote.
async fn exactly(harness: &Harness, user: Address, recipient: Address) -> Result<Value> {
    let (usdc, tail) = (harness.chain("base").token("USDC").address, harness.chain("optimism").token("TAIL").address);
    let mut body = ask(user, recipient, (BASE, usdc), (OPTIMISM, tail), bought()?);
    body["tradeType"] = json!("EXACT_OUTPUT");
    eventually("there is a quote", || async { Ok(harness.post("/quote/v2", &body).await?.0 == 200) }).await?;
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

fn audited(harness: &Harness) -> Result<()> {
    let audit = causeway().args(["audit", "--config"]).arg(harness.folder.path().join("dev.toml")).output()?;
    ensure!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    Ok(())
}

/// The deposit for an exact output is three tenths too large: the order is filled, and the excess goes back.
#[tokio::test]
async fn the_excess_over_an_exact_output_goes_back() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, tail) = (base.token("USDC").address, optimism.token("TAIL").address);
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let quote = harness.quote(&exactly(&harness, user.address, recipient).await?).await?;
    let had = base.balance(usdc, user.address).await?;
    let (quoted, beyond) = deposit_too_much(&harness, &quote, &user, 3).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(optimism.balance(tail, recipient).await? >= bought()?);
    eventually("the rest is back", || async { Ok(base.balance(usdc, user.address).await? > had - quoted - beyond) })
        .await?;
    let back = base.balance(usdc, user.address).await? - (had - quoted - beyond);
    ensure!(back < beyond && back > beyond - U256::from(1_000_000u64), "{back} of {beyond}");
    blocks_pass(base, 12).await?;
    ensure!(base.balance(usdc, user.address).await? == had - quoted - beyond + back, "it went back twice");
    let status = harness.status(request_id(&quote)).await?;
    let returned = &status["returns"][0];
    ensure!(
        status["status"] == "success" && returned["kind"] == "excess" && returned["status"] == "refund",
        "{status}"
    );
    ensure!(crate::harness::amount(&returned["amount"]) == back, "{returned}");
    let (_, trace) = operator(&harness, &format!("/requests/{}/trace", request_id(&quote))).await?;
    let rules: Vec<&str> =
        trace["events"].as_array().into_iter().flatten().filter_map(|it| it["rule"].as_str()).collect();
    ensure!(rules.ends_with(&["excess-due", "excess-returned"]), "{trace}");
    service.stop().await?;
    audited(&harness)
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
        let quote = harness.quote(&exactly(&harness, user.address, recipient).await?).await?;
        let had = base.balance(usdc, user.address).await?;
        let (quoted, beyond) = deposit_too_much(&harness, &quote, &user, tenths).await?;
        let ended = harness.wait_for(request_id(&quote), status).await?;
        let kept = if status == "refund" { U256::ZERO } else { quoted };
        eventually("the rest is back", || async {
            Ok(base.balance(usdc, user.address).await? > had - quoted - beyond)
        })
        .await?;
        let lost = had - base.balance(usdc, user.address).await? - kept;
        ensure!(lost < U256::from(1_000_000u64), "{lost} of {quoted} and {beyond}");
        ensure!(optimism.balance(tail, recipient).await?.is_zero() == (status == "refund"), "{ended}");
        ensure!(status == "success" || ended["failReason"] == "SLIPPAGE", "{ended}");
    }
    service.stop().await?;
    audited(&harness)
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
    let (code, quote) = by.post(&harness, "/quote/v2", &exactly(&harness, user.address, recipient).await?).await?;
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
    blocks_pass(base, 15).await?;
    ensure!(base.balance(usdc, user.address).await? == had - quoted - beyond, "it went back as well");
    ensure!(books(&service, by.wallet.address).await? == (balance, 0));
    let rules = harness.trace(request_id(&quote)).await?["events"].to_string();
    ensure!(!rules.contains("excess-"), "{rules}");
    service.stop().await?;
    audited(&harness)
}
