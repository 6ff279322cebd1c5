//! Deposits by contracts: anyone may bring a call that a wallet contract has signed, with calldata of their own around
//! it, and any contract may deposit in the transaction of whoever calls it.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use anyhow::{Result, ensure};
use evm::calldata;
use evm::contracts::{Call3Value, Router};
use serde_json::json;

use crate::harness::{Engine, Harness, amount, ask, blocks_pass, eventually, execute, new_account, request_id};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// A wallet that makes every call it is brought, as a Safe does for a call that its owners signed.
async fn wallet_contract(chain: &devnet::Chain, holding: U256) -> Result<Address> {
    let wallet = new_account().address;
    let code: Bytes = chain.rpc("eth_getCode", (chain.contracts.multicall3, "latest")).await?;
    chain.set_code(wallet, code).await?;
    chain.set_token_balance(chain.token("USDC").address, wallet, holding).await?;
    // What is set by hand is in every answer of the node from the block after next on.
    blocks_pass(chain, 2).await?;
    Ok(wallet)
}

#[tokio::test]
async fn a_wallets_plain_deposit_that_a_stranger_brings_goes_back_to_the_wallet() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let (value, holding) = (U256::from(40_000_000u64), U256::from(50_000_000u64));
    let wallet = wallet_contract(base, holding).await?;
    let (thief, recipient) = (base.fresh_user().await?, new_account().address);
    let quote = harness.quote(&ask(thief.address, recipient, (BASE, usdc), (OPTIMISM, there), value)).await?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;

    // The wallet's own transfer, and behind its arguments the id of the stranger's order.
    let transfer = calldata::implicit_deposit(harness.depository, value, order);
    let brought = calldata::aggregate(&[(usdc, transfer)]);
    base.send(thief.private_key, wallet, U256::ZERO, brought).await?;
    ensure!(base.balance(usdc, wallet).await? == holding - value, "the wallet has deposited");

    let back = || async { Ok(base.balance(usdc, wallet).await? > holding - U256::from(1_000_000u64)) };
    eventually("the wallet has its money again", back).await?;
    assert_eq!(harness.status(request_id(&quote)).await?["status"], "waiting");
    assert_eq!(optimism.balance(there, recipient).await?, U256::ZERO);
    service.stop().await
}

#[tokio::test]
async fn a_user_with_code_is_not_quoted_a_plain_deposit() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let wallet = wallet_contract(base, U256::ZERO).await?;
    let (user, value) = (new_account().address, U256::from(40_000_000u64));
    let native = (Address::ZERO, U256::from(20_000_000_000_000_000u64));
    for (who, (token, to, amount), explicit, code) in [
        (wallet, (usdc, there, value), Some(false), 400),
        (wallet, (usdc, there, value), Some(true), 200),
        (wallet, (usdc, there, value), None, 200),
        // Native currency has no plain form.
        (wallet, (native.0, native.0, native.1), Some(false), 200),
        (user, (usdc, there, value), Some(false), 200),
    ] {
        let mut body = ask(who, new_account().address, (BASE, token), (OPTIMISM, to), amount);
        body["explicitDeposit"] = json!(explicit);
        // The first quote of a wallet is as good as the second.
        for _ in 0..2 {
            let (answered, answer) = harness.post("/quote/v2", &body).await?;
            ensure!(answered == code, "{who} {explicit:?}: {answer}");
            ensure!(code == 200 || answer["errorCode"] == "UNSUPPORTED_EXECUTION_TYPE", "{answer}");
        }
    }
    service.stop().await
}

/// The user calls a contract, here the router, and it deposits a wei under the order that the user is about to pay.
#[tokio::test]
async fn dust_that_a_called_contract_deposits_leaves_the_order_open() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(20_000_000_000_000_000u64);
    let quote =
        harness.quote(&ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value)).await?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let dust = Call3Value {
        target: harness.depository,
        allowFailure: false,
        value: U256::ONE,
        callData: calldata::deposit_native(user.address, order),
    };
    let (refund_to, metadata) = (user.address, Bytes::new());
    let call = Router::multicallCall { calls: vec![dust], refundTo: refund_to, nftRecipient: refund_to, metadata };
    base.send(user.private_key, base.contracts.router, U256::ONE, call.abi_encode().into()).await?;
    harness.walked(base).await?;
    assert_eq!(harness.status(request_id(&quote)).await?["status"], "waiting");

    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    assert_eq!(optimism.balance(Address::ZERO, recipient).await?, amount(&quote["details"]["currencyOut"]["amount"]));
    service.stop().await
}
