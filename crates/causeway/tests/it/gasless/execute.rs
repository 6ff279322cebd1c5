//! Raw calls of smart accounts, which a relayer sends: ERC-4337 behind the real entry point, and EIP-7702.

use ::harness::{
    BatchedCall, account_of, authorize, batch, first_operation, operation, raw_call, sign_operation, unsigned_batch,
};
use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use devnet::{Account, AccountAbstraction, Devnet, Fault};
use evm::calldata;
use evm::contracts::Multicall3;
use serde_json::{Value, json};

use super::{BASE, DOLLAR, OPTIMISM, accepted, balance_of, body, listed, quick, step, user_of};
use crate::audit::agrees;
use crate::fast_fill::{Integrator, integrator};
use crate::harness::{Engine, Harness, amount, ask, eventually, new_account, request_id};
use crate::lying_nodes;

/// Posts a raw call with a key.
async fn execute(
    harness: &Harness,
    by: &Integrator,
    chain: u64,
    to: Address,
    data: Bytes,
    more: Value,
) -> Result<(u16, Value)> {
    let mut body = raw_call(chain, to, &data);
    for (name, value) in more.as_object().into_iter().flatten() {
        match name.as_str() {
            "authorizationList" => body["data"][name] = value.clone(),
            "subsidizeFees" => body["executionOptions"][name] = value.clone(),
            _ => body[name] = value.clone(),
        }
    }
    by.post(harness, "/execute", &body).await
}

/// A call that the service does not relay, because it fails.
async fn reverts(harness: &Harness, by: &Integrator, to: Address, data: Bytes, more: Value) -> Result<Value> {
    let (status, answer) = execute(harness, by, BASE, to, data, more).await?;
    ensure!(status == 400 && answer["errorCode"] == "EXECUTION_REVERTED", "{status} {answer}");
    Ok(answer)
}

/// An account of ERC-4337 behind the real entry point: its operation deposits, and nobody of it has native currency.
#[tokio::test]
async fn an_operation_of_a_smart_account_deposits() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, helper, owner) = (base.token("USDC").address, base.fresh_user().await?, new_account());
    let contracts = AccountAbstraction::deploy(base, &helper).await?;
    let salt = U256::from(7);
    let account = account_of(base, &contracts, owner.address, salt).await?;
    base.set_token_balance(usdc, account, U256::from(50 * DOLLAR)).await?;
    let recipient = new_account().address;
    let mut asked =
        ask(account, recipient, (BASE, usdc), (OPTIMISM, optimism.token("USDC").address), U256::from(20 * DOLLAR));
    asked["originGasOverhead"] = json!(900_000);
    let quote = harness.quote(&asked).await?;
    let id = request_id(&quote);
    // The first operation brings the account into being.
    let operation = |calls: Vec<BatchedCall>| first_operation(account, &contracts, (owner.address, salt), calls);
    let entry = contracts.entry_point;
    let good = sign_operation(base, entry, operation(batch(&quote)?), &owner).await?;
    let request = json!({ "requestId": id });
    // Not signed by the owner; no deposit in it; an operation that fails inside a bundle that does not.
    let forged = sign_operation(base, entry, operation(batch(&quote)?), &new_account()).await?;
    let answer = reverts(&harness, &by, entry, forged, request.clone()).await?;
    ensure!(answer["error"] == answer["message"] && answer["details"]["revert"].is_string(), "{answer}");
    let other = vec![BatchedCall { target: usdc, value: U256::ZERO, data: calldata::transfer(recipient, U256::ONE) }];
    let other = sign_operation(base, entry, operation(other), &owner).await?;
    let (status, answer) = execute(&harness, &by, BASE, entry, other, request.clone()).await?;
    ensure!(status == 400 && answer["errorCode"] == "INVALID_PARAMETERS", "{answer}");
    let mut failing = batch(&quote)?;
    failing.push(BatchedCall { target: usdc, value: U256::ZERO, data: calldata::transfer(recipient, U256::MAX) });
    let failing = sign_operation(base, entry, operation(failing), &owner).await?;
    reverts(&harness, &by, entry, failing, request.clone()).await?;
    // Our own contracts, and value, are not for callers.
    let (status, answer) = execute(&harness, &by, BASE, harness.depository, good.clone(), request.clone()).await?;
    ensure!(status == 400 && answer["message"].as_str().is_some_and(|text| text.starts_with("data.to")), "{answer}");
    ensure!(harness.status(id).await?["status"] == "waiting");
    let (status, answer) = execute(&harness, &by, BASE, entry, good.clone(), request.clone()).await?;
    ensure!(status == 200 && answer["requestId"] == id, "{answer}");
    let done = harness.wait_for(id, "success").await?;
    let expected = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == expected, "{done}");
    ensure!(base.balance(usdc, account).await? == U256::from(30 * DOLLAR));
    ensure!(base.balance(Address::ZERO, account).await?.is_zero());
    let (status, answer) = execute(&harness, &by, BASE, entry, good, request).await?;
    ensure!(status == 409, "{answer}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Calls of an account whose code makes them for anybody who asks: good enough for a test, and for nothing else.
fn calls(calls: Vec<BatchedCall>) -> Bytes {
    let call = |it: BatchedCall| Multicall3::Call3 { target: it.target, allowFailure: false, callData: it.data };
    Multicall3::aggregate3Call { calls: calls.into_iter().map(call).collect() }.abi_encode().into()
}

/// No node takes a call, whoever's doing that is: it ends at once and at its caller's cost, and the permit behind it in
/// the same lane is mined.
#[tokio::test]
async fn a_call_that_no_node_takes_holds_up_no_permit() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let nodes = [lying_nodes::endpoint(base).await?, lying_nodes::endpoint(base).await?];
    let harness = Harness::with(Engine::Sqlite, |config| {
        quick(config);
        for chain in config.chains.iter_mut().filter(|chain| chain.id == BASE) {
            chain.endpoints = nodes.iter().map(lying_nodes::configured).collect();
        }
    })
    .await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let usdc = base.token("USDC").address;
    let (user, other) = (user_of(base, "USDC", 50 * DOLLAR).await?, user_of(base, "USDC", 50 * DOLLAR).await?);
    let (friend, recipient) = (new_account().address, new_account().address);
    let quote = harness.quote(&body(&harness, other.address, recipient, "USDC", 20)).await?;
    let transfer = calldata::transfer(friend, U256::from(DOLLAR));
    let data = calls(vec![BatchedCall { target: usdc, value: U256::ZERO, data: transfer }]);
    let list = authorize(&user, BASE, base.contracts.multicall3)?;
    let before = balance_of(&harness, &by).await?;
    for node in &nodes {
        node.faults.set(Fault { reject_set_code: true, ..Fault::default() });
    }
    let more = json!({ "subsidizeFees": true, "authorizationList": list });
    let (status, answer) = execute(&harness, &by, BASE, user.address, data.clone(), more.clone()).await?;
    ensure!(status == 200, "{answer}");
    accepted(&harness, step(&quote, "authorize1")?, &other).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    let id = answer["requestId"].as_str().context("a request")?;
    harness.wait_for(id, "failure").await?;
    ensure!(base.balance(usdc, friend).await?.is_zero());
    eventually("the nonce is charged", || async { Ok(balance_of(&harness, &by).await? < before) }).await?;
    // Taken by nodes, the same call makes the account call itself, with the code that it takes on in the transaction.
    nodes.iter().for_each(|node| node.faults.clear());
    let (status, answer) = execute(&harness, &by, BASE, user.address, data, more).await?;
    ensure!(status == 200, "{answer}");
    harness.wait_for(answer["requestId"].as_str().context("a request")?, "success").await?;
    ensure!(base.balance(usdc, friend).await? == U256::from(DOLLAR));
    // The bytes alone take more gas than a quote's relay may.
    let mut long = body(&harness, user.address, recipient, "USDC", 20);
    (long["usePermit"], long["originGasOverhead"]) = (json!(false), json!(80_000));
    let quote = harness.quote(&long).await?;
    let more = json!({ "requestId": request_id(&quote) });
    let (status, answer) = execute(&harness, &by, BASE, user.address, vec![1; 30_000].into(), more).await?;
    ensure!(status == 400 && answer["errorCode"] == "INVALID_PARAMETERS", "{answer}");
    ensure!(answer["message"].as_str().is_some_and(|text| text.starts_with("data.data")), "{answer}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// An account with EIP-7702 code that it is given by the very transaction. The code makes what the account's own key
/// has signed, once: with a quote it deposits, and without one its call is charged to the caller's app balance.
#[tokio::test]
async fn a_call_of_a_smart_account_is_relayed() -> Result<()> {
    let harness = Harness::with(Engine::Postgres, quick).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let usdc = base.token("USDC").address;
    let contracts = AccountAbstraction::deploy(base, &base.fresh_user().await?).await?;
    let entry = contracts.entry_point;
    let (user, recipient) = (user_of(base, "USDC", 50 * DOLLAR).await?, new_account().address);
    let mut asked =
        ask(user.address, recipient, (BASE, usdc), (OPTIMISM, optimism.token("USDC").address), U256::from(20 * DOLLAR));
    asked["originGasOverhead"] = json!("300000");
    let quote = harness.quote(&asked).await?;
    let id = request_id(&quote);
    let list = authorize(&user, BASE, contracts.delegate)?;
    let more = json!({ "requestId": id, "authorizationList": list });
    let good = sign_operation(base, entry, operation(user.address, 0, batch(&quote)?), &user).await?;
    // Without its authorization the account has no code.
    reverts(&harness, &by, entry, good.clone(), json!({ "requestId": id })).await?;
    // With it the code obeys the account alone: neither a stranger's signature nor a caller without one.
    let forged = sign_operation(base, entry, operation(user.address, 0, batch(&quote)?), &new_account()).await?;
    reverts(&harness, &by, entry, forged, more.clone()).await?;
    let unsigned = unsigned_batch(batch(&quote)?);
    reverts(&harness, &by, user.address, unsigned, more.clone()).await?;
    ensure!(harness.status(id).await?["status"] == "waiting");
    let (status, answer) = execute(&harness, &by, BASE, entry, good.clone(), more).await?;
    ensure!(status == 200, "{answer}");
    let done = harness.wait_for(id, "success").await?;
    let expected = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == expected, "{done}");
    ensure!(base.balance(usdc, user.address).await? == U256::from(30 * DOLLAR));
    ensure!(base.balance(usdc, harness.depository).await? == U256::from(20 * DOLLAR));
    ensure!(base.balance(Address::ZERO, user.address).await?.is_zero());
    // Signed once, it is good once, whoever pays for it.
    reverts(&harness, &by, entry, good, json!({ "subsidizeFees": true })).await?;
    relayed_without_a_quote(&harness, &by, entry, &user).await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// A call of the account's own, without a quote: somebody has to pay for the gas.
async fn relayed_without_a_quote(harness: &Harness, by: &Integrator, entry: Address, user: &Account) -> Result<()> {
    let base = harness.chain("base");
    let (usdc, friend) = (base.token("USDC").address, new_account().address);
    let transfer = calldata::transfer(friend, U256::from(DOLLAR));
    let transfer = || vec![BatchedCall { target: usdc, value: U256::ZERO, data: transfer.clone() }];
    let stranger = new_account();
    let forged = sign_operation(base, entry, operation(user.address, 1, transfer()), &stranger).await?;
    reverts(harness, by, entry, forged, json!({ "subsidizeFees": true })).await?;
    let data = sign_operation(base, entry, operation(user.address, 1, transfer()), user).await?;
    let (status, answer) = execute(harness, by, BASE, entry, data.clone(), json!({})).await?;
    ensure!(status == 400 && answer["errorCode"] == "INVALID_PARAMETERS", "{answer}");
    let before = balance_of(harness, by).await?;
    let (status, answer) = execute(harness, by, BASE, entry, data, json!({ "subsidizeFees": true })).await?;
    ensure!(status == 200, "{answer}");
    let id = answer["requestId"].as_str().context("a request")?.to_owned();
    harness.wait_for(&id, "success").await?;
    ensure!(base.balance(usdc, friend).await? == U256::from(DOLLAR));
    eventually("the gas is charged", || async { Ok(balance_of(harness, by).await? < before) }).await?;
    for query in [format!("id={id}"), format!("features=gasless_execution&id={id}")] {
        eventually(&format!("{query} is listed"), || async { Ok(listed(harness, by, &query).await?.len() == 1) })
            .await?;
    }
    let (status, _) = harness.post("/execute", &json!({})).await?;
    ensure!(status == 401, "a key is needed");
    Ok(())
}
