//! A transfer from the first call to the last status, with every balance checked to the unit.

use alloy::primitives::{Address, B256, U256};
use anyhow::Result;
use domain::ids::OrderId;
use evm::calldata;
use serde_json::json;

use crate::harness::{
    Engine, Harness, amount, ask, balance_when, eventually, execute, fee_of, new_account, request_id,
};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

async fn native(engine: Engine) -> Result<()> {
    let harness = Harness::new(engine).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(100_000_000_000_000_000u64);
    let quote =
        harness.quote(&ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value)).await?;
    let id = request_id(&quote);
    assert_eq!(harness.status(id).await?["status"], "waiting");

    let held = base.balance(Address::ZERO, harness.depository).await?;
    let deposit = execute(base, &quote, &user).await?;
    let status = harness.wait_for(id, "success").await?;

    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    assert_eq!(optimism.balance(Address::ZERO, recipient).await?, promised);
    assert_eq!(base.balance(Address::ZERO, harness.depository).await?, held + value);
    assert_eq!(status["inTxHashes"], json!([deposit]));
    let fill = status["txHashes"][0].as_str().unwrap().parse()?;
    let receipt = optimism.receipt(fill).await?;
    assert!(harness.fillers.iter().any(|filler| filler.address == receipt.from));
    // The fill names its order in the last bytes of its calldata.
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap();
    let sent: serde_json::Value = optimism.rpc("eth_getTransactionByHash", [fill]).await?;
    assert_eq!(sent["input"], order);
    // The one wallet that paid has exactly the output and its gas less than before.
    let before = U256::from(50u64) * U256::from(10u64).pow(U256::from(18));
    let gas = U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
    assert_eq!(before - optimism.balance(Address::ZERO, receipt.from).await?, promised + gas);
    service.stop().await
}

#[tokio::test]
async fn a_usdc_transfer_arrives_to_the_unit() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let value = U256::from(250_000_000u64);
    let quote = harness.quote(&ask(user.address, recipient, (BASE, here), (OPTIMISM, there), value)).await?;
    assert_eq!(quote["steps"].as_array().map(Vec::len), Some(2));
    assert_eq!(quote["steps"][0]["id"], "approve");
    assert_eq!(quote["steps"][1]["id"], "deposit");

    let had = base.balance(here, user.address).await?;
    let inventory = optimism.balance(there, harness.treasury.address).await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;

    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    assert_eq!(optimism.balance(there, recipient).await?, promised);
    assert_eq!(base.balance(here, user.address).await?, had - value);
    assert_eq!(optimism.balance(there, harness.treasury.address).await?, inventory - promised);
    service.stop().await
}

/// A plain transfer that names its order behind the arguments: one transaction instead of two.
#[tokio::test]
async fn a_plain_transfer_deposits() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let mut body = ask(user.address, recipient, (BASE, here), (OPTIMISM, there), U256::from(40_000_000u64));
    body["explicitDeposit"] = json!(false);
    let quote = harness.quote(&body).await?;
    assert_eq!(quote["steps"].as_array().map(Vec::len), Some(1));
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    assert_eq!(optimism.balance(there, recipient).await?, amount(&quote["details"]["currencyOut"]["amount"]));
    service.stop().await
}

/// A deposit too small for the order goes back to the user, less the gas of sending it.
async fn refund(engine: Engine) -> Result<()> {
    let harness = Harness::new(engine).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let refund_to = new_account().address;
    let here = base.token("USDC").address;
    let there = harness.chain("optimism").token("USDC").address;
    let value = U256::from(90_000_000u64);
    let mut body = ask(user.address, recipient, (BASE, here), (OPTIMISM, there), value);
    body["refundTo"] = json!(refund_to);
    body["explicitDeposit"] = json!(false);
    let quote = harness.quote(&body).await?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let half = value / U256::from(2);
    let data = calldata::implicit_deposit(harness.depository, half, order);
    base.send(user.private_key, here, U256::ZERO, data).await?;
    let status = harness.wait_for(request_id(&quote), "refund").await?;
    assert_eq!(status["failReason"], "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL");
    assert_eq!(status["refundFailReason"], "N/A");
    let back = base.balance(here, refund_to).await?;
    assert!(back < half && back > half - U256::from(1_000_000u64), "{back} of {half}");
    assert_eq!(harness.chain("optimism").balance(there, recipient).await?, U256::ZERO);
    service.stop().await
}

#[tokio::test]
async fn a_native_transfer_arrives_to_the_unit_on_sqlite() -> Result<()> {
    native(Engine::Sqlite).await
}

#[tokio::test]
async fn a_native_transfer_arrives_to_the_unit_on_postgres() -> Result<()> {
    native(Engine::Postgres).await
}

#[tokio::test]
async fn a_short_deposit_goes_back_on_sqlite() -> Result<()> {
    refund(Engine::Sqlite).await
}

#[tokio::test]
async fn a_short_deposit_goes_back_on_postgres() -> Result<()> {
    refund(Engine::Postgres).await
}

/// A wallet that sends twice pays once: the second deposit comes back when it is final.
#[tokio::test]
async fn a_second_deposit_under_one_order_is_returned() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(50_000_000_000_000_000u64);
    let quote =
        harness.quote(&ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value)).await?;
    let had = base.balance(Address::ZERO, user.address).await?;
    let first = execute(base, &quote, &user).await?;
    let second = execute(base, &quote, &user).await?;
    let left = had - value - value - fee_of(base, first).await? - fee_of(base, second).await?;
    let status = harness.wait_for(request_id(&quote), "success").await?;
    assert_eq!(status["inTxHashes"], json!([first]));
    let own = (Address::ZERO, user.address);
    let back = balance_when(base, own, "the second deposit is back", |has| has > left).await? - left;
    assert!(back < value && back > value - U256::from(10u64.pow(15)), "{back}");
    harness.let_pass(base, 5).await?;
    assert_eq!(base.balance(Address::ZERO, user.address).await? - left, back);
    assert_eq!(optimism.balance(Address::ZERO, recipient).await?, amount(&quote["details"]["currencyOut"]["amount"]));
    // The second deposit is a request of its own, under the first.
    let parent = request_id(&quote).parse()?;
    let children = service.solver.store.read(move |tx| store::requests::children(tx, parent)).await?;
    assert_eq!(children.len(), 1);
    let child = harness.wait_for(&children[0].to_string(), "refund").await?;
    assert_eq!((&child["failReason"], &child["inTxHashes"]), (&json!("DOUBLE_SPEND"), &json!([second])));
    assert_eq!(child["txHashes"].as_array().map(Vec::len), Some(1));
    // Whoever knows the first finds it there.
    let returns = harness.status(request_id(&quote)).await?["returns"].clone();
    let expected = (&json!("deposit"), &json!(children[0].to_string()), &json!("refund"), &child["txHashes"]);
    let told = &returns[0];
    assert_eq!((&told["kind"], &told["requestId"], &told["status"], &told["txHashes"]), expected, "{returns}");
    service.stop().await
}

/// A deposit under an unknown id goes back to the depositor it names, in the currency that came.
#[tokio::test]
async fn a_deposit_under_an_unknown_order_is_returned_to_its_depositor() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (user, depositor) = (base.fresh_user().await?, new_account().address);
    let (depository, usdc) = (harness.depository, base.token("USDC").address);
    let unknown = OrderId(B256::repeat_byte(0xee));
    let (wei, units) = (U256::from(10u64.pow(16)), U256::from(40_000_000u64));
    base.send(user.private_key, depository, wei, calldata::deposit_native(depositor, unknown)).await?;
    base.send(user.private_key, usdc, U256::ZERO, calldata::approve(depository, units)).await?;
    let data = calldata::deposit_erc20(depositor, usdc, units, unknown);
    base.send(user.private_key, depository, U256::ZERO, data).await?;
    eventually("both are back", || async {
        let native = base.balance(Address::ZERO, depositor).await?;
        let token = base.balance(usdc, depositor).await?;
        Ok(!native.is_zero() && native < wei && !token.is_zero() && token < units)
    })
    .await?;
    service.stop().await
}

#[tokio::test]
async fn twenty_transfers_at_once_all_arrive_to_the_unit() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let transfers = (0..20u64).map(|n| {
        let harness = &harness;
        async move {
            let (user, recipient) = (base.fresh_user().await?, new_account().address);
            let value = U256::from(10_000_000_000_000_000u64 + n);
            let body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
            let quote = harness.quote(&body).await?;
            execute(base, &quote, &user).await?;
            harness.wait_for(request_id(&quote), "success").await?;
            let arrived = optimism.balance(Address::ZERO, recipient).await?;
            anyhow::ensure!(arrived == amount(&quote["details"]["currencyOut"]["amount"]), "{arrived}");
            Ok(())
        }
    });
    for outcome in futures::future::join_all(transfers).await {
        outcome?;
    }
    service.stop().await
}

/// A transfer of zero out of another's account is open to anyone: it is no deposit, and must not take the place of one.
#[tokio::test]
async fn a_transfer_of_nothing_under_a_victims_order_changes_nothing() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (victim, attacker, recipient) = (base.fresh_user().await?, base.fresh_user().await?, new_account().address);
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let body = ask(victim.address, recipient, (BASE, here), (OPTIMISM, there), U256::from(30_000_000u64));
    let quote = harness.quote(&body).await?;
    let order: B256 = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let data = calldata::erc20_fill_from_treasury(victim.address, harness.depository, U256::ZERO, order);
    base.send(attacker.private_key, here, U256::ZERO, data).await?;
    execute(base, &quote, &victim).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    assert_eq!(optimism.balance(there, recipient).await?, amount(&quote["details"]["currencyOut"]["amount"]));
    service.stop().await
}

/// A recipient that refuses the money: the fill fails, and once that is final the user is refunded. Never both.
#[tokio::test]
async fn a_fill_that_reverts_is_refunded_when_that_is_final() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient, refund_to) = (base.fresh_user().await?, new_account().address, new_account().address);
    // revert(0, 0)
    optimism.set_code(recipient, vec![0x5f, 0x5f, 0xfd].into()).await?;
    let value = U256::from(20_000_000_000_000_000u64);
    let mut body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    body["refundTo"] = json!(refund_to);
    let quote = harness.quote(&body).await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    // The fill went through the router if the recipient was known to be a contract by then, and directly if not.
    let explained = || async {
        let status = harness.status(request_id(&quote)).await?;
        Ok(status["failReason"] == "TRANSFER_FAILED" || status["failReason"] == "MISSING_REVERT_DATA")
    };
    eventually("it is told why", explained).await?;
    assert_eq!(optimism.balance(Address::ZERO, recipient).await?, U256::ZERO);
    let back = base.balance(Address::ZERO, refund_to).await?;
    assert!(back < value && back > value - U256::from(10u64.pow(15)), "{back}");
    harness.let_pass(base, 5).await?;
    assert_eq!(base.balance(Address::ZERO, refund_to).await?, back);
    service.stop().await
}

/// A recipient that is known to be a contract is tried before it is promised anything.
#[tokio::test]
async fn a_contract_that_refuses_money_is_not_quoted() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    optimism.set_code(recipient, vec![0x5f, 0x5f, 0xfd].into()).await?;
    let value = U256::from(20_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    let refused = || async {
        let (code, answer) = harness.post("/quote/v2", &body).await?;
        Ok(code == 400 && answer["errorCode"] == "DESTINATION_TX_FAILED")
    };
    eventually("it is known to be a contract, and tried", refused).await?;
    // Tokens do not ask their recipient.
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    harness.quote(&ask(user.address, recipient, (BASE, here), (OPTIMISM, there), U256::from(50_000_000u64))).await?;
    service.stop().await
}

/// A fixed output arrives exactly.
#[tokio::test]
async fn a_fixed_output_arrives_as_it_was_asked_for() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    for kind in ["EXACT_OUTPUT", "EXPECTED_OUTPUT"] {
        let (user, recipient) = (base.fresh_user().await?, new_account().address);
        let wanted = U256::from(100_000_000u64);
        let mut body = ask(user.address, recipient, (BASE, here), (OPTIMISM, there), wanted);
        body["tradeType"] = json!(kind);
        let quote = harness.quote(&body).await?;
        assert_eq!(amount(&quote["details"]["currencyOut"]["amount"]), wanted);
        assert_eq!(amount(&quote["details"]["currencyOut"]["minimumAmount"]) == wanted, kind == "EXACT_OUTPUT");
        let had = base.balance(here, user.address).await?;
        execute(base, &quote, &user).await?;
        harness.wait_for(request_id(&quote), "success").await?;
        assert_eq!(optimism.balance(there, recipient).await?, wanted);
        assert_eq!(had - base.balance(here, user.address).await?, amount(&quote["details"]["currencyIn"]["amount"]));
    }
    service.stop().await
}

/// A contract that takes money and no data is paid through the router.
#[tokio::test]
async fn a_contract_that_refuses_data_is_paid_all_the_same() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    // Reverts if there is calldata: calldatasize, jump past the revert when it is zero.
    optimism.set_code(recipient, vec![0x36, 0x15, 0x60, 0x07, 0x57, 0x5f, 0xfd, 0x5b, 0x00].into()).await?;
    let value = U256::from(20_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    // Quoted as wallets do, a few times while the user looks; by then the recipient is known.
    harness.quote(&body).await?;
    let known = || service.solver.recipient_code.is_contract(domain::ids::ChainId(OPTIMISM), recipient);
    eventually("the recipient is known", || async { Ok(known()) }).await?;
    let quote = harness.quote(&body).await?;
    execute(base, &quote, &user).await?;
    let status = harness.wait_for(request_id(&quote), "success").await?;
    assert_eq!(optimism.balance(Address::ZERO, recipient).await?, amount(&quote["details"]["currencyOut"]["amount"]));
    let fill = optimism.receipt(status["txHashes"][0].as_str().unwrap().parse()?).await?;
    assert_eq!(fill.to, Some(optimism.contracts.router));
    service.stop().await
}

/// A deposit that needs more than one confirmation waits for them, and then counts once.
#[tokio::test]
async fn a_deposit_waits_for_its_confirmations() -> Result<()> {
    let change =
        |config: &mut causeway::config::Config| config.chains.iter_mut().for_each(|chain| chain.confirmations = 4);
    let harness = Harness::with(Engine::Sqlite, change).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(20_000_000_000_000_000u64);
    let quote =
        harness.quote(&ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value)).await?;
    let deposit = base.receipt(execute(base, &quote, &user).await?).await?.block_number.unwrap();
    harness.wait_for(request_id(&quote), "success").await?;
    assert!(base.block_number().await? >= deposit + 3, "filled before its confirmations");
    harness.let_pass(optimism, 5).await?;
    assert_eq!(optimism.balance(Address::ZERO, recipient).await?, amount(&quote["details"]["currencyOut"]["amount"]));
    service.stop().await
}

/// A deposit after its quote's expiry goes back, and so does one that came in time while the service was down.
#[tokio::test]
async fn an_expired_quote_is_not_filled() -> Result<()> {
    const TTL_SECS: u64 = 300;
    let harness = Harness::isolated(|_| ()).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let recipient = new_account().address;
    let service = harness.serve().await?;
    let user = base.fresh_user().await?;
    let value = U256::from(100_000_000_000_000_000u64);
    let mut body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    body["ttl"] = json!(TTL_SECS);
    let (late, in_time) = (harness.quote(&body).await?, harness.quote(&body).await?);
    // The estimated time of a fill is added to the expiry.
    let takes = in_time["details"]["timeEstimate"].as_u64().unwrap();
    service.stop().await?;
    execute(base, &in_time, &user).await?;
    for chain in [base, optimism] {
        chain.advance_time(std::time::Duration::from_secs(TTL_SECS + takes + 3)).await?;
    }
    execute(base, &late, &user).await?;
    let service = harness.serve().await?;
    for quote in [&late, &in_time] {
        let status = harness.wait_for(request_id(quote), "refund").await?;
        assert_eq!(status["failReason"], "TTL_EXPIRED", "{status}");
    }
    assert!(optimism.balance(Address::ZERO, recipient).await?.is_zero());
    service.stop().await
}

/// A blocked wallet gets no quote, and its deposit under somebody else's order is neither filled nor sent back.
#[tokio::test]
async fn a_blocked_wallet_is_not_served() -> Result<()> {
    let blocked = new_account();
    let list = |config: &mut causeway::config::Config| {
        std::fs::write(config.folder.join("blocked.txt"), format!("{} # a thief\n", blocked.address)).unwrap();
        config.screening.blocked = Some("blocked.txt".into());
    };
    let harness = Harness::with(Engine::Sqlite, list).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    base.fund(blocked.address).await?;
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(20_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    for party in ["user", "recipient", "refundTo"] {
        let mut refused = body.clone();
        refused[party] = json!(blocked.address);
        let (code, answer) = harness.post("/quote/v2", &refused).await?;
        assert_eq!((code, &answer["errorCode"]), (400, &json!("SANCTIONED_WALLET_ADDRESS")), "{party}");
    }
    let quote = harness.quote(&body).await?;
    execute(base, &quote, &blocked).await?;
    let left = base.balance(Address::ZERO, blocked.address).await?;
    // Long enough for the deposit to be final and returned, if that were done.
    harness.let_pass(base, 20).await?;
    assert_eq!(harness.status(request_id(&quote)).await?["status"], "waiting");
    assert_eq!(optimism.balance(Address::ZERO, recipient).await?, U256::ZERO);
    assert_eq!(base.balance(Address::ZERO, blocked.address).await?, left);
    assert_eq!(base.balance(Address::ZERO, user.address).await?, U256::from(100u64) * U256::from(10u64.pow(18)));
    service.stop().await
}
