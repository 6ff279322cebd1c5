//! Fills that pass when they are tried and fail when they are made: the deposit goes back, with the chain's revert
//! reason.

use alloy::primitives::aliases::{U24, U160};
use alloy::primitives::{Address, B256, Bytes, U256, hex};
use alloy::sol_types::{Panic, Revert as Sentence, SolCall, SolError};
use anyhow::{Context, Result};
use causeway::service::Service;
use devnet::{Account, Chain};
use domain::ids::{ChainId, RequestId};
use evm::calldata;
use evm::contracts::SpendLimiter;
use evm::swap::SwapRouter;
use serde_json::{Value, json};
use store::Tx;
use store::records::{self, Direction, Record};

use super::{Wish, act, caught_up, nothing_is_left, place, serve, stored};
use crate::harness::{Harness, amount, eventually, new_account, request_id};

/// A contract that answers every call by reverting with these bytes.
fn reverting(data: &[u8]) -> Bytes {
    let [high, low] = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0x61, high, low, 0x60, 0x0c, 0x5f, 0x39, 0x61, high, low, 0x5f, 0xfd], data].concat().into()
}

/// Has a fill sent, which passes when it is tried, and changes the chain before it is mined.
async fn sent_and_then(
    harness: &Harness,
    wish: &Wish,
    quote: &Value,
    user: &Account,
    change: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    wish.to.chain.pause_mining().await;
    act(wish.from.chain, quote, user).await?;
    harness.wait_for(request_id(quote), "submitted").await?;
    change().await?;
    wish.to.chain.mine(1).await?;
    wish.to.chain.resume_mining().await;
    Ok(())
}

/// A transfer whose fill failed.
struct Ended {
    status: Value,
    /// The fill that failed.
    failed: Record,
    /// The amount that went back.
    returned: U256,
}

/// Waits until the deposit is back and it is known why.
async fn ended(harness: &Harness, service: &Service, wish: &Wish, quote: &Value, user: &Account) -> Result<Ended> {
    harness.wait_for(request_id(quote), "refund").await?;
    let explained = || async { Ok(!harness.status(request_id(quote)).await?["details"].is_null()) };
    eventually("the failure is explained", explained).await?;
    let status = harness.status(request_id(quote)).await?;
    let id = request_id(quote).parse()?;
    let records = service.solver.store.read(move |tx| records::of_request(tx, id)).await?;
    let failed = records.into_iter().find(|record| record.direction == Direction::Out && !record.succeeded);
    let failed = failed.context("the failed fill is kept")?;
    let returned = wish.from.balance(user.address).await?;
    nothing_is_left(wish.to.chain).await?;
    Ok(Ended { status, failed, returned })
}

#[tokio::test]
async fn calls_that_turn_out_to_revert_are_quoted_back_and_their_gas_is_the_callers() -> Result<()> {
    // Chains of its own: it lets one of them stand still.
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "USDC"));
    let sentence = |text: &str| reverting(&Sentence::from(text).abi_encode());
    let table: [(Bytes, &str, &str); 6] = [
        (sentence("the shop is closed"), "EXECUTION_REVERTED", "the shop is closed"),
        (sentence("ERC20: transfer amount exceeds balance"), "TRANSFER_AMOUNT_EXCEEDS_BALANCE", "exceeds balance"),
        (reverting(&hex!("c0ffee01")), "EXECUTION_REVERTED", "custom error 0xc0ffee01"),
        (reverting(&Panic::from(0x11).abi_encode()), "EXECUTION_REVERTED", "panic 0x11: arithmetic overflow"),
        (reverting(&[]), "MISSING_REVERT_DATA", "without data"),
        // Jumps to itself until the gas is gone.
        (hex!("5b5f56").into(), "QUOTED_GAS_LIMIT_EXCEEDED", "out of gas"),
    ];
    for (code, reason, details) in table {
        let target = new_account().address;
        let txs = json!([{"to": target, "value": "0", "data": "0x"}]);
        let wish = Wish::exact_input(from, to, 10_000).with(json!({"txs": txs}));
        let user = from.holder(wish.amount).await?;
        caught_up(&harness, &service).await?;
        let quote = harness.quote(&wish.body(user.address, new_account().address)).await?;
        sent_and_then(&harness, &wish, &quote, &user, async || to.chain.set_code(target, code.clone()).await).await?;
        let ended = ended(&harness, &service, &wish, &quote, &user).await?;
        let Ended { status, failed, .. } = &ended;
        assert_eq!(status["failReason"], reason, "{status}");
        assert!(status["details"].as_str().unwrap().contains(details), "{status}");
        let failure = failed.failure.as_ref().unwrap();
        assert_eq!((failure.reason.as_str(), &json!(failure.details)), (reason, &status["details"]));
        assert_eq!((failed.target, failed.chain.0), (Some(to.chain.contracts.spend_limiter), to.chain.id));
        // The gas of the failed fill comes off, at the price both chains have: three thousand dollars.
        let burnt = failed.fee.unwrap().units() * U256::from(3_000) / U256::from(10u64).pow(U256::from(12));
        let kept = wish.amount - ended.returned;
        assert!(kept >= burnt, "{kept} of {burnt}");
        let plain_refund = from.worth(100);
        assert!(kept - burnt < plain_refund, "{kept} and {burnt}: no more than the gas of a refund on top");
        let trace = harness.trace(request_id(&quote)).await?;
        let told = trace["events"].as_array().unwrap().iter().find(|event| event["rule"] == "failure-explained");
        assert_eq!(told.context("the trace tells")?["figures"]["reason"], reason);
        assert_eq!(trace["payments"][0]["failReason"], reason, "{trace}");
        forget(&service, request_id(&quote)).await?;
        let again = || async { Ok(harness.status(request_id(&quote)).await?["failReason"] == reason) };
        eventually("what is found out after the end is told too", again).await?;
        assert_eq!(harness.status(request_id(&quote)).await?["details"], status["details"]);
    }
    service.stop().await
}

/// A call burns all the gas of its fill, in a block that costs three times as much as the quote was made at. The limit
/// is what the quote charged for, so that the gas is paid for by the caller, and is never more than three times as
/// much.
#[tokio::test]
async fn calls_have_no_more_gas_to_burn_than_was_charged_for() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "USDC"));
    let target = new_account().address;
    let txs = json!([{"to": target, "value": "0", "data": "0x"}]);
    let wish = Wish::exact_input(from, to, 10_000).with(json!({"txs": txs}));
    let user = from.holder(wish.amount).await?;
    caught_up(&harness, &service).await?;
    let quote = harness.quote(&wish.body(user.address, new_account().address)).await?;
    let snapshot = service.solver.market.latest(ChainId(to.chain.id)).context("a snapshot")?;
    let base_fee = u64::try_from(snapshot.base_fee)?;
    let change = async || {
        // Jumps to itself until the gas is gone.
        to.chain.set_code(target, hex!("5b5f56").into()).await?;
        to.chain.set_base_fee(3 * base_fee);
        Ok(())
    };
    sent_and_then(&harness, &wish, &quote, &user, change).await?;
    to.chain.set_base_fee(base_fee);
    let ended = ended(&harness, &service, &wish, &quote, &user).await?;

    let stored = stored(&service, &quote).await?;
    let tried = stored.ask.options.tried_gas.context("the fill was tried")?;
    let receipt: Value = to.chain.rpc("eth_getTransactionReceipt", [ended.failed.tx]).await?;
    let burnt_gas = amount(&receipt["gasUsed"]);
    assert!(burnt_gas <= U256::from(tried + tried.div_ceil(10)), "{burnt_gas} of {tried} and a tenth");
    // At the price both chains have: three thousand dollars.
    let micros = |wei: U256| wei * U256::from(3_000) / U256::from(10u64).pow(U256::from(12));
    let burnt = micros(ended.failed.fee.unwrap().units());
    let most = stored.figures.fees.fill_gas.units() * U256::from(3);
    assert!(burnt <= most, "{burnt} is more than three times the quoted gas, {most}");
    let plain_refund = micros(amount(&receipt["effectiveGasPrice"]) * U256::from(130_000));
    let kept = wish.amount - ended.returned;
    assert!(kept >= burnt && kept < burnt + plain_refund, "{kept} of {burnt} and at the most {plain_refund}");
    service.stop().await
}

/// A contract takes what it is sent while it is tried, and refuses it when it is paid: the gas is its own loss, and it
/// is promised nothing for a while.
#[tokio::test]
async fn a_recipient_that_refuses_when_it_is_paid_pays_for_the_gas_and_is_remembered() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "ETH"), place(&harness, "optimism", "ETH"));
    let recipient = new_account().address;
    // Takes everything.
    to.chain.set_code(recipient, hex!("00").into()).await?;
    let wish = Wish::exact_input(from, to, 10_000);
    let user = from.holder(wish.amount).await?;
    caught_up(&harness, &service).await?;
    let body = wish.body(user.address, recipient);
    harness.quote(&body).await?;
    let known = || service.solver.recipient_code.is_contract(ChainId(to.chain.id), recipient);
    eventually("the recipient is known", || async { Ok(known()) }).await?;
    let quote = harness.quote(&body).await?;
    let tried = stored_tried_gas(&service, &quote).await?;
    // Burns all its gas: jumps to itself.
    let change = async || to.chain.set_code(recipient, hex!("5b5f56").into()).await;
    let before = from.balance(user.address).await?;
    sent_and_then(&harness, &wish, &quote, &user, change).await?;
    let ended = ended(&harness, &service, &wish, &quote, &user).await?;

    let receipt: Value = to.chain.rpc("eth_getTransactionReceipt", [ended.failed.tx]).await?;
    let burnt_gas = amount(&receipt["gasUsed"]);
    assert!(burnt_gas <= U256::from(tried + tried.div_ceil(10)), "{burnt_gas} of {tried} and a tenth");
    assert!(ended.failed.failure.as_ref().unwrap().refused);
    let (burnt, kept) = (ended.failed.fee.unwrap().units(), before - ended.returned);
    // The gas of the deposit and of the refund comes on top.
    assert!(kept > burnt && kept < burnt + U256::from(2 * 10u64.pow(12)), "{kept} of {burnt}");

    let refused = || async {
        let (code, answer) = harness.post("/quote/v2", &wish.body(user.address, recipient)).await?;
        Ok(code == 400 && answer["errorCode"] == "DESTINATION_TX_FAILED")
    };
    eventually("it is promised nothing", refused).await?;
    // Even once it would take it again.
    to.chain.set_code(recipient, hex!("00").into()).await?;
    assert!(refused().await?);
    service.stop().await
}

/// The gas that the fill of a quote took when it was tried.
async fn stored_tried_gas(service: &Service, quote: &Value) -> Result<u64> {
    let id = request_id(quote).parse::<RequestId>()?;
    let request = service.solver.store.read(move |tx| store::requests::find(tx, id)).await?;
    request.and_then(|request| request.quote.ask.options.tried_gas).context("the fill was tried")
}

/// Removes the revert reason, as if no node had been able to give it until now.
async fn forget(service: &Service, request: &str) -> Result<()> {
    let id = request.parse::<RequestId>()?;
    let forget = move |tx: &mut Tx<'_>| {
        tx.execute(
            "update transaction_record set fail_reason = null, details = null, explain_left = 1
             where request_id = $1 and succeeded = 0",
            &[id.0.into()],
        )?;
        tx.execute(
            "update request set fail_reason = 'TRANSACTION_REVERTED', details = null where request_id = $1",
            &[id.0.into()],
        )
    };
    service.solver.store.write(forget).await?;
    service.solver.chains.values().for_each(|handle| handle.health.failed.notify_one());
    Ok(())
}

/// A transaction ahead of the fill in its own block.
struct Ahead {
    from: Address,
    to: Address,
    data: Bytes,
}

impl Ahead {
    /// Bids so much that the transaction is mined first.
    async fn send(self, chain: &Chain) -> Result<()> {
        chain.rpc::<Value>("anvil_impersonateAccount", [self.from]).await?;
        let price = U256::from(200_000_000_000u64);
        let tx = json!({"from": self.from, "to": self.to, "data": self.data, "gasPrice": price, "gas": "0x0f4240"});
        chain.rpc::<B256>("eth_sendTransaction", [tx]).await?;
        Ok(())
    }
}

/// A transaction ahead of the fill cannot be foreseen: the state at the decision is no longer the state when it is
/// mined.
#[tokio::test]
async fn a_transaction_ahead_of_a_fill_in_its_block_is_told_and_is_our_loss() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, usdc, tail) =
        (place(&harness, "base", "USDC"), place(&harness, "optimism", "USDC"), place(&harness, "optimism", "TAIL"));
    let weth = place(&harness, "optimism", "WETH");
    let there = usdc.chain;
    let treasury = harness.treasury.address;
    let by_treasury = |to: Address, data: Bytes| Ahead { from: treasury, to, data };
    let approvals = harness.fillers.iter().map(|filler| calldata::approve(filler.address, U256::ZERO));
    let limits = harness.fillers.iter().map(|filler| {
        let limit = SpendLimiter::setLimitCall { filler: filler.address, token: usdc.currency, amount: U256::ZERO };
        Bytes::from(limit.abi_encode())
    });
    let mover = weth.holder(weth.worth(100_000_000)).await?;
    let dex = there.contracts.swap_router;
    there.send(mover.private_key, weth.currency, U256::ZERO, calldata::approve(dex, U256::MAX)).await?;
    let params = SwapRouter::ExactInputSingleParams {
        tokenIn: weth.currency,
        tokenOut: tail.currency,
        fee: U24::from(3_000),
        recipient: mover.address,
        amountIn: weth.worth(10_000_000),
        amountOutMinimum: U256::ZERO,
        sqrtPriceLimitX96: U160::ZERO,
    };
    let trade = SwapRouter::exactInputSingleCall { params }.abi_encode();
    let table = [
        (
            Wish::exact_input(from, tail, 10_000),
            vec![Ahead { from: mover.address, to: dex, data: trade.into() }],
            "TOO_LITTLE_RECEIVED",
            "Too little received",
        ),
        (
            // Gas beside the tokens goes through the spend limiter, with any state of the pools.
            Wish::exact_input(from, usdc, 10_000).with(json!({"topupGas": true})),
            limits.map(|data| by_treasury(there.contracts.spend_limiter, data)).collect(),
            "SOLVER_CAPACITY_EXCEEDED",
            "LimitExceeded(",
        ),
        (
            Wish::exact_input(from, usdc, 10_000),
            approvals.map(|data| by_treasury(usdc.currency, data)).collect(),
            "TRANSFER_AMOUNT_EXCEEDS_ALLOWANCE",
            "InsufficientAllowance(",
        ),
    ];
    for (wish, ahead, reason, details) in table {
        let user = from.holder(wish.amount).await?;
        caught_up(&harness, &service).await?;
        let quote = harness.quote(&wish.body(user.address, new_account().address)).await?;
        there.pause_mining().await;
        act(from.chain, &quote, &user).await?;
        harness.wait_for(request_id(&quote), "submitted").await?;
        let (_, older) = harness.get(&format!("/intents/status/v2?requestId={}", request_id(&quote))).await?;
        assert_eq!(older["status"], "pending", "v2 has no word for it: {older}");
        assert_eq!((&older["failReason"], &older["details"]), (&json!("N/A"), &Value::Null));
        for ahead in ahead {
            ahead.send(there).await?;
        }
        there.mine(1).await?;
        there.resume_mining().await;
        let ended = ended(&harness, &service, &wish, &quote, &user).await?;
        assert_eq!(ended.status["failReason"], reason, "{}", ended.status);
        assert!(ended.status["details"].as_str().unwrap().contains(details), "{}", ended.status);
        assert!(wish.amount - ended.returned < from.worth(100), "only the gas of the refund comes off");
    }
    service.stop().await
}
