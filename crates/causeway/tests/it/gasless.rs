//! Gasless deposits: the user signs, one of our relayers sends, and the balances are right to the unit.

mod execute;
mod races;
mod refusals;

use std::path::Path;

use ::harness::{permit_domain, sign_permit};
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::signers::SignerSync;
use alloy::sol;
use alloy::sol_types::{SolCall, SolStruct};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use causeway::served::Served;
use devnet::{Account, Chain};
use evm::calldata;
use evm::permits::PERMIT2;
use serde_json::{Value, json};

use crate::audit::agrees;
use crate::fast_fill::{Integrator, integrator};
use crate::funding::balance;
use crate::harness::{Engine, Harness, WAIT_TIMEOUT, amount, ask, blocks_pass, eventually, new_account, request_id};
use crate::process::serve;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const DOLLAR: u64 = 1_000_000;

sol! {
    struct CancelAuthorization {
        address authorizer;
        bytes32 nonce;
    }

    function deposit() external payable;
    function invalidateUnorderedNonces(uint256 wordPos, uint256 mask) external;
    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external;
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
}

/// Blocks are final soon.
fn quick(config: &mut Config) {
    config.chains.iter_mut().for_each(|chain| chain.finality_blocks = 5);
}

/// A user with tokens and nothing else: no native currency at all.
async fn user_of(chain: &Chain, symbol: &str, units: u64) -> Result<Account> {
    let user = new_account();
    chain.set_token_balance(chain.token(symbol).address, user.address, U256::from(units)).await?;
    // What is set by hand is in every answer of the node from the block after next on.
    blocks_pass(chain, 2).await?;
    Ok(user)
}

/// The body of a gasless quote of so many dollars from Base to Optimism's USDC.
pub fn body(harness: &Harness, user: Address, recipient: Address, symbol: &str, dollars: u64) -> Value {
    let (from, to) = (harness.chain("base").token(symbol).address, harness.chain("optimism").token("USDC").address);
    let mut body = ask(user, recipient, (BASE, from), (OPTIMISM, to), U256::from(dollars * DOLLAR));
    body["usePermit"] = json!(true);
    body
}

/// The signature step of a quote.
pub fn step<'a>(quote: &'a Value, id: &str) -> Result<&'a Value> {
    let step = quote["steps"].as_array().and_then(|steps| steps.last()).context("a step")?;
    ensure!(step["id"] == id && step["kind"] == "signature", "{quote}");
    Ok(step)
}

fn number(value: &Value) -> Result<U256> {
    Ok(value.as_str().context("a number as text")?.parse()?)
}

/// Posts a signature as clients do: the body of the step, and the signature in the query.
async fn post(harness: &Harness, step: &Value, signature: &str) -> Result<(u16, Value)> {
    let post = &step["items"][0]["data"]["post"];
    let mut body = post["body"].clone();
    body["referrer"] = json!("test");
    let endpoint = post["endpoint"].as_str().context("an endpoint")?;
    harness.post(&format!("{endpoint}?signature={signature}"), &body).await
}

async fn refused(harness: &Harness, step: &Value, signature: &str, code: &str) -> Result<()> {
    let (status, answer) = post(harness, step, signature).await?;
    ensure!(status == 400 && answer["errorCode"] == code, "{code}: {status} {answer}");
    Ok(())
}

pub async fn accepted(harness: &Harness, step: &Value, by: &Account) -> Result<()> {
    let (status, answer) = post(harness, step, &sign_permit(by, step)?).await?;
    ensure!(status == 200 && answer.get("steps").is_none(), "{status} {answer}");
    Ok(())
}

/// The nonce of a step's authorization.
fn authorization(step: &Value) -> Result<B256> {
    let nonce = step["items"][0]["data"]["sign"]["value"]["nonce"].as_str();
    Ok(nonce.context("the nonce of an authorization")?.parse()?)
}

/// The call of the token with which a user takes an authorization back.
fn cancellation(user: &Account, step: &Value) -> Result<Bytes> {
    let (authorizer, nonce) = (user.address, authorization(step)?);
    let digest = CancelAuthorization { authorizer, nonce }.eip712_signing_hash(&permit_domain(step)?);
    let signature = user.signer().sign_hash_sync(&digest)?;
    let (v, r, s) = (27 + u8::from(signature.v()), signature.r().into(), signature.s().into());
    Ok(cancelAuthorizationCall { authorizer, nonce, v, r, s }.abi_encode().into())
}

/// The names of the rules that moved a request, in order.
async fn rules(harness: &Harness, id: &str) -> Result<Vec<String>> {
    let trace = harness.trace(id).await?;
    let events = trace["events"].as_array().context("events")?;
    Ok(events.iter().filter_map(|event| event["rule"].as_str().map(str::to_owned)).collect())
}

/// A user with USDC and no native currency: one signature under the token's own domain, posted many times at once.
#[tokio::test]
async fn a_user_without_gas_bridges_by_an_authorization() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let usdc = base.token("USDC").address;
    let user = user_of(base, "USDC", 25 * DOLLAR).await?;
    let recipient = new_account().address;
    let quote = harness.quote(&body(&harness, user.address, recipient, "USDC", 20)).await?;
    let plain = {
        let mut body = body(&harness, user.address, recipient, "USDC", 20);
        body["usePermit"] = json!(false);
        harness.quote(&body).await?
    };
    // Our gas on the origin is in the fees, and the user has none to pay.
    ensure!(amount(&quote["fees"]["gas"]["amount"]).is_zero(), "{quote}");
    ensure!(amount(&quote["fees"]["relayerGas"]["amount"]) > amount(&plain["fees"]["relayerGas"]["amount"]), "{quote}");
    let (id, step) = (request_id(&quote), step(&quote, "authorize1")?);
    let post_body = &step["items"][0]["data"]["post"]["body"];
    ensure!(*post_body == json!({ "kind": "eip3009", "requestId": id, "api": "bridge" }), "{post_body}");
    ensure!(step["items"][0]["check"]["endpoint"].as_str().is_some_and(|path| path.contains(id)), "{step}");
    // Only the user's signature over exactly this counts, and under its own kind.
    refused(&harness, step, &sign_permit(&new_account(), step)?, "INVALID_SIGNATURE").await?;
    refused(&harness, step, "0x12", "INVALID_SIGNATURE").await?;
    let mut other = step.clone();
    other["items"][0]["data"]["post"]["body"]["kind"] = json!("permit2");
    refused(&harness, &other, &sign_permit(&user, step)?, "UNSUPPORTED_EXECUTION_TYPE").await?;
    ensure!(harness.status(id).await?["status"] == "waiting");
    let signature = sign_permit(&user, step)?;
    let posts = futures::future::try_join_all((0..4).map(|_| post(&harness, step, &signature))).await?;
    ensure!(posts.iter().all(|(status, _)| *status == 200), "{posts:?}");
    let done = harness.wait_for(id, "success").await?;
    let expected = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == expected, "{done}");
    ensure!(base.balance(usdc, user.address).await? == U256::from(5 * DOLLAR));
    ensure!(base.balance(Address::ZERO, user.address).await?.is_zero());
    ensure!(base.balance(usdc, harness.depository).await? == U256::from(20 * DOLLAR));
    let rules = rules(&harness, id).await?;
    ensure!(rules.iter().filter(|rule| *rule == "relayed").count() == 1, "{rules:?}");
    ensure!(rules.iter().position(|it| it == "relayed") < rules.iter().position(|it| it == "deposit-accepted"));
    // Signed again, after all is done: nothing happens.
    accepted(&harness, step, &user).await?;
    let hash = done["inTxHashes"][0].as_str().context("the deposit")?;
    for query in [format!("id={id}"), format!("depositTxHash={hash}"), format!("features=gasless_swap&id={id}")] {
        eventually("it is listed", || async {
            let found = listed(&harness, &by, &query).await?;
            Ok(found.len() == 1 && found[0]["id"] == id && found[0]["data"]["inTxs"][0]["txHash"] == hash)
        })
        .await?;
    }
    harness.let_pass(base, 6).await?;
    ensure!(base.balance(usdc, harness.depository).await? == U256::from(20 * DOLLAR), "deposited twice");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

async fn listed(harness: &Harness, by: &Integrator, query: &str) -> Result<Vec<Value>> {
    let call = harness.client.get(harness.url(&format!("/requests/v3?{query}"))).header("x-api-key", &by.key);
    let answer: Value = call.send().await?.json().await?;
    Ok(answer["requests"].as_array().context("a listing")?.clone())
}

/// USDT takes no authorizations: one approval of Permit2, then signatures.
#[tokio::test]
async fn a_user_without_gas_bridges_by_permit2() -> Result<()> {
    let harness = Harness::with(Engine::Postgres, quick).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let usdt = base.token("USDT").address;
    let user = user_of(base, "USDT", 100 * DOLLAR).await?;
    let recipient = new_account().address;
    let asked = body(&harness, user.address, recipient, "USDT", 30);
    let quote = harness.quote(&asked).await?;
    let last = step(&quote, "authorize1")?;
    ensure!(quote["steps"][0]["id"] == "approve", "{quote}");
    refused(&harness, last, &sign_permit(&user, last)?, "TRANSFER_AMOUNT_EXCEEDS_ALLOWANCE").await?;
    base.set_balance(user.address, U256::from(10u64).pow(U256::from(17))).await?;
    base.send(user.private_key, usdt, U256::ZERO, calldata::approve(PERMIT2, U256::MAX)).await?;
    base.set_balance(user.address, U256::ZERO).await?;
    // The approval is seen, and not asked for again.
    eventually("one step is left", || async {
        Ok(harness.quote(&asked).await?["steps"].as_array().is_some_and(|steps| steps.len() == 1))
    })
    .await?;
    let quote = harness.quote(&asked).await?;
    let (id, last) = (request_id(&quote), step(&quote, "authorize1")?);
    accepted(&harness, last, &user).await?;
    let done = harness.wait_for(id, "success").await?;
    let expected = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == expected, "{done}");
    ensure!(base.balance(usdt, user.address).await? == U256::from(70 * DOLLAR));
    ensure!(base.balance(usdt, harness.depository).await? == U256::from(30 * DOLLAR));
    // A nonce that the user has spent elsewhere, and money that is gone.
    let quote = harness.quote(&asked).await?;
    let last = step(&quote, "authorize1")?;
    let nonce = number(&last["items"][0]["data"]["sign"]["value"]["nonce"])?;
    let mask = U256::from(1u8) << (nonce & U256::from(0xffu8)).to::<usize>();
    base.set_balance(user.address, U256::from(10u64).pow(U256::from(17))).await?;
    base.call(user.private_key, PERMIT2, &invalidateUnorderedNoncesCall { wordPos: nonce >> 8, mask }).await?;
    refused(&harness, last, &sign_permit(&user, last)?, "INVALID_NONCE").await?;
    let quote = harness.quote(&asked).await?;
    let last = step(&quote, "authorize1")?;
    base.send(user.private_key, usdt, U256::ZERO, calldata::transfer(recipient, U256::from(60 * DOLLAR))).await?;
    refused(&harness, last, &sign_permit(&user, last)?, "GASLESS_PERMIT_BALANCE_TOO_LOW").await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// A swap on one chain, which needs a sponsor for its gas: the gas is charged to the sponsor's balance.
#[tokio::test]
async fn a_gasless_swap_on_one_chain_is_paid_by_its_sponsor() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let base = harness.chain("base");
    let (usdc, weth) = (base.token("USDC").address, base.token("WETH").address);
    let (user, recipient) = (user_of(base, "USDC", 50 * DOLLAR).await?, new_account().address);
    let mut asked = ask(user.address, recipient, (BASE, usdc), (BASE, weth), U256::from(50 * DOLLAR));
    asked["usePermit"] = json!(true);
    let (status, refusal) = harness.post("/quote/v2", &asked).await?;
    ensure!(status == 400 && refusal["errorCode"] == "UNSUPPORTED_EXECUTION_TYPE", "{refusal}");
    asked["subsidizeFees"] = json!(true);
    let (_, quote) = by.post(&harness, "/quote/v2", &asked).await?;
    let (id, last) = (request_id(&quote), step(&quote, "authorize2")?);
    let before = balance_of(&harness, &by).await?;
    accepted(&harness, last, &user).await?;
    harness.wait_for(id, "success").await?;
    let least = amount(&quote["details"]["currencyOut"]["minimumAmount"]);
    ensure!(base.balance(weth, recipient).await? >= least);
    ensure!(base.balance(usdc, user.address).await?.is_zero());
    eventually("the gas is charged", || async { Ok(balance_of(&harness, &by).await? < before) }).await?;
    let paid = before - balance_of(&harness, &by).await?;
    // Cents at the local chain's gas price, and not the whole hold.
    ensure!(paid > 0 && paid < 500_000, "{paid}");
    unwrapped(&harness, &by).await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// The wrapped token unwraps for its caller alone: by a signature it goes through the router, to the user as well.
async fn unwrapped(harness: &Harness, by: &Integrator) -> Result<()> {
    let base = harness.chain("base");
    let (weth, user) = (base.token("WETH").address, base.fresh_user().await?);
    let amount = U256::from(10_000_000_000_000_000u64);
    base.send(user.private_key, weth, amount, depositCall {}.abi_encode().into()).await?;
    let mut asked = ask(user.address, user.address, (BASE, weth), (BASE, Address::ZERO), amount);
    (asked["usePermit"], asked["subsidizeFees"]) = (json!(true), json!(true));
    let (status, quote) = by.post(harness, "/quote/v2", &asked).await?;
    ensure!(status == 200, "{quote}");
    base.send(user.private_key, weth, U256::ZERO, calldata::approve(PERMIT2, U256::MAX)).await?;
    let (tokens, before) = (base.balance(weth, user.address).await?, base.balance(Address::ZERO, user.address).await?);
    accepted(harness, step(&quote, "authorize2")?, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(base.balance(weth, user.address).await? == tokens.saturating_sub(amount));
    // To the unit: the user has sent nothing since.
    ensure!(base.balance(Address::ZERO, user.address).await? == before.saturating_add(amount));
    Ok(())
}

async fn balance_of(harness: &Harness, by: &Integrator) -> Result<i64> {
    let shown = balance(harness, by.wallet.address).await?;
    Ok(shown["amount"].as_str().context("amount")?.parse()?)
}

/// The service dies when a relay is committed: the next one sends it, once, and the same signature changes nothing.
pub async fn crash(harness: &Harness, mut first: Served, toml: &Path) -> Result<()> {
    harness.wait_until_served().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let usdc = base.token("USDC").address;
    let (user, recipient) = (user_of(base, "USDC", 50 * DOLLAR).await?, new_account().address);
    let quote = harness.quote(&body(harness, user.address, recipient, "USDC", 20)).await?;
    let (id, last) = (request_id(&quote), step(&quote, "authorize1")?);
    // The caller may get no answer.
    let _ = post(harness, last, &sign_permit(&user, last)?).await;
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success(), "it ended in order");
    let second = serve(toml, None)?;
    harness.wait_until_served().await?;
    accepted(harness, last, &user).await?;
    harness.wait_for(id, "success").await?;
    harness.let_pass(base, 6).await?;
    ensure!(base.balance(usdc, user.address).await? == U256::from(30 * DOLLAR), "deposited twice");
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == promised);
    ensure!(second.terminate().await?.success());
    Ok(())
}
