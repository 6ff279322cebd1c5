//! What is beyond an order that does not grow with its deposit goes back.

use alloy::primitives::{U256, utils::parse_units};
use anyhow::{Context, Result, ensure};
use domain::ids::OrderId;
use evm::calldata;
use serde_json::json;

use crate::process::causeway;
use crate::stand::{Engine, Stand, amount, ask, blocks_pass, eventually, new_account, operator, request_id};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// Exactly so much is bought, and three tenths too much are deposited: the order is filled, and they go back.
#[tokio::test]
async fn what_is_deposited_beyond_an_exact_output_goes_back() -> Result<()> {
    let stand = Stand::with(Engine::Sqlite, |config| {
        config.chains.iter_mut().for_each(|chain| chain.finality_blocks = 5);
    })
    .await?;
    let service = stand.serve().await?;
    let (base, optimism) = (stand.chain("base"), stand.chain("optimism"));
    let (usdc, tail) = (base.token("USDC").address, optimism.token("TAIL").address);
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let bought: U256 = parse_units("900", 18)?.into();
    let mut body = ask(user.address, recipient, (BASE, usdc), (OPTIMISM, tail), bought);
    body["tradeType"] = json!("EXACT_OUTPUT");
    // Pools are read after all else.
    eventually("there is a quote", || async { Ok(stand.post("/quote/v2", &body).await?.0 == 200) }).await?;
    let quote = stand.quote(&body).await?;
    let order: OrderId = quote["protocol"]["v2"]["orderId"].as_str().context("an order")?.parse()?;
    let quoted = amount(&quote["details"]["currencyIn"]["amount"]);
    let beyond = quoted * U256::from(3) / U256::from(10);
    let had = base.balance(usdc, user.address).await?;
    let deposit = calldata::implicit_deposit(stand.depository, quoted + beyond, order);
    base.send(user.private_key, usdc, U256::ZERO, deposit).await?;
    stand.wait_for(request_id(&quote), "success").await?;
    ensure!(optimism.balance(tail, recipient).await? >= bought);
    eventually("the rest is back", || async { Ok(base.balance(usdc, user.address).await? > had - quoted - beyond) })
        .await?;
    let back = base.balance(usdc, user.address).await? - (had - quoted - beyond);
    ensure!(back < beyond && back > beyond - U256::from(1_000_000u64), "{back} of {beyond}");
    blocks_pass(base, 12).await?;
    ensure!(base.balance(usdc, user.address).await? == had - quoted - beyond + back, "it went back twice");
    ensure!(stand.status(request_id(&quote)).await?["status"] == "success");
    let (_, trace) = operator(&stand, &format!("/requests/{}/trace", request_id(&quote))).await?;
    let rules: Vec<&str> =
        trace["events"].as_array().into_iter().flatten().filter_map(|it| it["rule"].as_str()).collect();
    ensure!(rules.ends_with(&["excess-due", "excess-returned"]), "{trace}");
    service.stop().await?;
    let audit = causeway().args(["audit", "--config"]).arg(stand.folder.path().join("dev.toml")).output()?;
    ensure!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    Ok(())
}
