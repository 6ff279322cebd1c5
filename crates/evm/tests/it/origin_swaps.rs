//! Users trade on a real DEX and deposit what comes out, in one transaction.

use alloy::primitives::{Address, U256};
use alloy::rpc::types::TransactionReceipt;
use evm::Id;
use evm::swap::Trade;

use crate::desk::{Desk, NATIVE, units};

async fn swap(desk: &Desk, trade: &Trade<'_>) -> TransactionReceipt {
    let user = desk.sender.address;
    let message = desk.entry.origin_swap(desk.chain.contracts.depository, trade, user, desk.order, desk.request);
    let message = message.by_sender(desk.entry.approval_proxy);
    assert_eq!(desk.entry.request_in(message.to, &message.data), Some(desk.request));
    desk.send(&message).await
}

async fn assert_deposited(desk: &Desk, receipt: &TransactionReceipt, currency: Address, amount: U256) {
    let deposit = desk.only_deposit(receipt).await;
    assert_eq!((deposit.id, deposit.depositor), (Id::Event(desk.order.0), desk.sender.address));
    assert_eq!((deposit.currency, deposit.amount, deposit.sender), (currency, amount, desk.sender.address));
    desk.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_token_for_a_token() {
    let desk = Desk::open().await;
    let (route, input) = (desk.route(&["USDC", "WETH"], &[500]), units(300, 6));
    let (trade, output) = desk.sell(&route, input).await;
    desk.approve_proxy("USDC", input).await;
    let receipt = swap(&desk, &trade).await;
    assert_deposited(&desk, &receipt, desk.token("WETH"), output).await;
    assert_eq!(desk.balance(desk.token("USDC"), desk.sender.address).await, units(9_700, 6));
}

#[tokio::test]
async fn a_token_for_the_native_currency_through_two_pools() {
    let desk = Desk::open().await;
    let (route, input) = (desk.route(&["DAI", "USDC", "ETH"], &[100, 3000]), units(700, 18));
    let (trade, output) = desk.sell(&route, input).await;
    desk.approve_proxy("DAI", input).await;
    let receipt = swap(&desk, &trade).await;
    assert_deposited(&desk, &receipt, NATIVE, output).await;
    assert_eq!(desk.balance(desk.token("DAI"), desk.sender.address).await, units(9_300, 18));
}

#[tokio::test]
async fn the_native_currency_for_a_token() {
    let desk = Desk::open().await;
    let (route, input) = (desk.route(&["ETH", "USDC"], &[500]), units(1, 18));
    let (trade, output) = desk.sell(&route, input).await;
    let receipt = swap(&desk, &trade).await;
    assert_deposited(&desk, &receipt, desk.token("USDC"), output).await;
    assert_eq!(desk.native_before_gas(&[&receipt]).await, units(99, 18));
}

#[tokio::test]
async fn tokens_that_an_exact_output_did_not_need_come_back() {
    let desk = Desk::open().await;
    let (route, output) = (desk.route(&["USDT", "USDC", "WETH"], &[100, 500]), units(1, 18));
    let (trade, input) = desk.buy(&route, output).await;
    desk.approve_proxy("USDT", trade.most_input()).await;
    let receipt = swap(&desk, &trade).await;
    assert_deposited(&desk, &receipt, desk.token("WETH"), output).await;
    assert_eq!(desk.balance(desk.token("USDT"), desk.sender.address).await, units(10_000, 6) - input);
}

#[tokio::test]
async fn native_value_that_an_exact_output_did_not_need_comes_back() {
    let desk = Desk::open().await;
    for (route, output, out) in [
        (desk.route(&["ETH", "USDC"], &[500]), units(500, 6), "USDC"),
        (desk.route(&["ETH", "USDC", "DAI"], &[500, 100]), units(500, 18), "DAI"),
    ] {
        let before = desk.balance(NATIVE, desk.sender.address).await;
        let (trade, input) = desk.buy(&route, output).await;
        let receipt = swap(&desk, &trade).await;
        assert_deposited(&desk, &receipt, desk.token(out), output).await;
        assert_eq!(desk.native_before_gas(&[&receipt]).await, before - input);
    }
}

#[tokio::test]
async fn an_exact_output_in_the_native_currency() {
    let desk = Desk::open().await;
    let (route, output) = (desk.route(&["USDC", "ETH"], &[500]), units(1, 17));
    let (trade, input) = desk.buy(&route, output).await;
    desk.approve_proxy("USDC", trade.most_input()).await;
    let receipt = swap(&desk, &trade).await;
    assert_deposited(&desk, &receipt, NATIVE, output).await;
    assert_eq!(desk.balance(desk.token("USDC"), desk.sender.address).await, units(10_000, 6) - input);
}

#[tokio::test]
async fn wrapping_and_unwrapping_before_the_deposit() {
    let desk = Desk::open().await;
    let (wrap, unwrap, amount) = (desk.route(&["ETH", "WETH"], &[]), desk.route(&["WETH", "ETH"], &[]), units(2, 18));
    let receipt = swap(&desk, &desk.sell(&wrap, amount).await.0).await;
    assert_deposited(&desk, &receipt, desk.token("WETH"), amount).await;

    desk.chain.set_token_balance(desk.token("WETH"), desk.sender.address, units(5, 18)).await.unwrap();
    desk.approve_proxy("WETH", units(3, 18)).await;
    // A fiftieth more than needed is sent along, and comes back.
    let receipt = swap(&desk, &desk.buy(&unwrap, amount).await.0).await;
    assert_deposited(&desk, &receipt, NATIVE, amount).await;
    assert_eq!(desk.balance(desk.token("WETH"), desk.sender.address).await, units(3, 18));
}

#[tokio::test]
async fn a_price_that_moved_too_far_stops_everything() {
    let desk = Desk::open().await;
    let (route, user) = (desk.route(&["ETH", "USDC"], &[500]), desk.stranger());
    let (trade, _) = desk.sell(&route, units(1, 18)).await;
    let first = desk.entry.same_chain_swap(&trade, None, desk.sender.address, user, desk.request);
    let first = first.by_sender(desk.entry.approval_proxy);
    desk.send(&first).await;
    // The first swap has moved the price.
    let error = desk.try_send(&first).await.unwrap_err();
    assert!(error.contains("Too little received"), "{error}");
}
