//! Users trade on a real DEX and deposit what comes out, in one transaction.

use alloy::primitives::{Address, U256};
use alloy::rpc::types::TransactionReceipt;
use evm::Id;
use evm::swap::Trade;

use crate::rig::{NATIVE, Rig, units};

async fn swap(rig: &Rig, trade: &Trade<'_>) -> TransactionReceipt {
    let user = rig.sender.address;
    let message = rig.entry.origin_swap(rig.chain.contracts.depository, trade, user, rig.order, rig.request);
    let message = message.by_sender(rig.entry.approval_proxy);
    assert_eq!(rig.entry.request_in(message.to, &message.data), Some(rig.request));
    rig.send(&message).await
}

async fn assert_deposited(rig: &Rig, receipt: &TransactionReceipt, currency: Address, amount: U256) {
    let deposit = rig.only_deposit(receipt).await;
    assert_eq!((deposit.id, deposit.depositor), (Id::Event(rig.order.0), rig.sender.address));
    assert_eq!((deposit.currency, deposit.amount, deposit.sender), (currency, amount, rig.sender.address));
    rig.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_token_for_a_token() {
    let rig = Rig::open().await;
    let (route, input) = (rig.route(&["USDC", "WETH"], &[500]), units(300, 6));
    let (trade, output) = rig.sell(&route, input).await;
    rig.approve_proxy("USDC", input).await;
    let receipt = swap(&rig, &trade).await;
    assert_deposited(&rig, &receipt, rig.token("WETH"), output).await;
    assert_eq!(rig.balance(rig.token("USDC"), rig.sender.address).await, units(9_700, 6));
}

#[tokio::test]
async fn a_token_for_the_native_currency_through_two_pools() {
    let rig = Rig::open().await;
    let (route, input) = (rig.route(&["DAI", "USDC", "ETH"], &[100, 3000]), units(700, 18));
    let (trade, output) = rig.sell(&route, input).await;
    rig.approve_proxy("DAI", input).await;
    let receipt = swap(&rig, &trade).await;
    assert_deposited(&rig, &receipt, NATIVE, output).await;
    assert_eq!(rig.balance(rig.token("DAI"), rig.sender.address).await, units(9_300, 18));
}

#[tokio::test]
async fn the_native_currency_for_a_token() {
    let rig = Rig::open().await;
    let (route, input) = (rig.route(&["ETH", "USDC"], &[500]), units(1, 18));
    let (trade, output) = rig.sell(&route, input).await;
    let receipt = swap(&rig, &trade).await;
    assert_deposited(&rig, &receipt, rig.token("USDC"), output).await;
    assert_eq!(rig.native_before_gas(&[&receipt]).await, units(99, 18));
}

#[tokio::test]
async fn tokens_that_an_exact_output_did_not_need_come_back() {
    let rig = Rig::open().await;
    let (route, output) = (rig.route(&["USDT", "USDC", "WETH"], &[100, 500]), units(1, 18));
    let (trade, input) = rig.buy(&route, output).await;
    rig.approve_proxy("USDT", trade.most_input()).await;
    let receipt = swap(&rig, &trade).await;
    assert_deposited(&rig, &receipt, rig.token("WETH"), output).await;
    assert_eq!(rig.balance(rig.token("USDT"), rig.sender.address).await, units(10_000, 6) - input);
}

#[tokio::test]
async fn native_value_that_an_exact_output_did_not_need_comes_back() {
    let rig = Rig::open().await;
    for (route, output, out) in [
        (rig.route(&["ETH", "USDC"], &[500]), units(500, 6), "USDC"),
        (rig.route(&["ETH", "USDC", "DAI"], &[500, 100]), units(500, 18), "DAI"),
    ] {
        let before = rig.balance(NATIVE, rig.sender.address).await;
        let (trade, input) = rig.buy(&route, output).await;
        let receipt = swap(&rig, &trade).await;
        assert_deposited(&rig, &receipt, rig.token(out), output).await;
        assert_eq!(rig.native_before_gas(&[&receipt]).await, before - input);
    }
}

#[tokio::test]
async fn an_exact_output_in_the_native_currency() {
    let rig = Rig::open().await;
    let (route, output) = (rig.route(&["USDC", "ETH"], &[500]), units(1, 17));
    let (trade, input) = rig.buy(&route, output).await;
    rig.approve_proxy("USDC", trade.most_input()).await;
    let receipt = swap(&rig, &trade).await;
    assert_deposited(&rig, &receipt, NATIVE, output).await;
    assert_eq!(rig.balance(rig.token("USDC"), rig.sender.address).await, units(10_000, 6) - input);
}

#[tokio::test]
async fn wrapping_and_unwrapping_before_the_deposit() {
    let rig = Rig::open().await;
    let (wrap, unwrap, amount) = (rig.route(&["ETH", "WETH"], &[]), rig.route(&["WETH", "ETH"], &[]), units(2, 18));
    let receipt = swap(&rig, &rig.sell(&wrap, amount).await.0).await;
    assert_deposited(&rig, &receipt, rig.token("WETH"), amount).await;

    rig.chain.set_token_balance(rig.token("WETH"), rig.sender.address, units(5, 18)).await.unwrap();
    rig.approve_proxy("WETH", units(3, 18)).await;
    // A fiftieth more than needed is sent along, and comes back.
    let receipt = swap(&rig, &rig.buy(&unwrap, amount).await.0).await;
    assert_deposited(&rig, &receipt, NATIVE, amount).await;
    assert_eq!(rig.balance(rig.token("WETH"), rig.sender.address).await, units(3, 18));
}

#[tokio::test]
async fn a_price_that_moved_too_far_stops_everything() {
    let rig = Rig::open().await;
    let (route, user) = (rig.route(&["ETH", "USDC"], &[500]), rig.stranger());
    let (trade, _) = rig.sell(&route, units(1, 18)).await;
    let first = rig.entry.same_chain_swap(&trade, None, rig.sender.address, user, rig.request);
    let first = first.by_sender(rig.entry.approval_proxy);
    rig.send(&first).await;
    // The first swap has moved the price.
    let error = rig.try_send(&first).await.unwrap_err();
    assert!(error.contains("Too little received"), "{error}");
}
