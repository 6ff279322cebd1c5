//! Same-chain requests on a real chain: trades, wrapping and sends, with the request named in each.

use alloy::primitives::{Address, Bytes, U256};
use alloy::rpc::types::TransactionReceipt;
use alloy::sol_types::SolCall;
use evm::calldata;
use evm::contracts::Erc20;
use evm::routed::{Calls, Ends, Message};
use evm::steps::{self, Fee};
use evm::swap::{Bound, Trade};

use crate::rig::{NATIVE, Rig, units};

async fn send(rig: &Rig, message: &Message) -> TransactionReceipt {
    assert_eq!(rig.entry.request_in(message.to, &message.data), Some(rig.request));
    let receipt = rig.send(message).await;
    rig.assert_nothing_is_left().await;
    receipt
}

async fn swap(rig: &Rig, trade: &Trade<'_>, fee: Option<Fee>, recipient: Address) -> TransactionReceipt {
    let message = rig.entry.same_chain_swap(trade, fee, rig.sender.address, recipient, rig.request);
    let message = message.by_sender(rig.entry.approval_proxy);
    send(rig, &message).await
}

#[tokio::test]
async fn a_token_for_a_token_with_a_fee() {
    let rig = Rig::open().await;
    let (user, recipient, treasury) = (rig.sender.address, rig.stranger(), rig.stranger());
    let route = rig.route(&["USDC", "WETH"], &[500]);
    let (trade, output) = rig.sell(&route, units(300, 6)).await;
    rig.approve_proxy("USDC", units(303, 6)).await;
    let fee = Fee { amount: units(3, 6), recipient: treasury };
    swap(&rig, &trade, Some(fee), recipient).await;
    assert_eq!(rig.balance(rig.token("WETH"), recipient).await, output);
    assert_eq!(rig.balance(rig.token("USDC"), treasury).await, units(3, 6));
    assert_eq!(rig.balance(rig.token("USDC"), user).await, units(9_697, 6));
}

#[tokio::test]
async fn the_native_currency_for_a_token_with_a_fee() {
    let rig = Rig::open().await;
    let (recipient, treasury) = (rig.stranger(), rig.stranger());
    let route = rig.route(&["ETH", "USDC"], &[500]);
    let (trade, input) = rig.buy(&route, units(1_000, 6)).await;
    let fee = Fee { amount: U256::from(12_345), recipient: treasury };
    let receipt = swap(&rig, &trade, Some(fee), recipient).await;
    assert_eq!(rig.balance(rig.token("USDC"), recipient).await, units(1_000, 6));
    assert_eq!(rig.balance(NATIVE, treasury).await, fee.amount);
    assert_eq!(rig.native_before_gas(&[&receipt]).await, units(100, 18) - input - fee.amount);
}

#[tokio::test]
async fn a_token_for_the_native_currency() {
    let rig = Rig::open().await;
    let (recipient, token) = (rig.stranger(), rig.token("TAIL"));
    let route = rig.route(&["TAIL", "ETH"], &[3000]);
    let (trade, output) = rig.sell(&route, units(5_000, 18)).await;
    rig.approve_proxy("TAIL", units(5_000, 18)).await;
    swap(&rig, &trade, None, recipient).await;
    assert_eq!(rig.balance(NATIVE, recipient).await, output);
    assert_eq!(rig.balance(token, rig.sender.address).await, units(5_000, 18));

    let (trade, input) = rig.buy(&route, units(1, 16)).await;
    rig.approve_proxy("TAIL", trade.most_input()).await;
    swap(&rig, &trade, Some(Fee { amount: U256::ZERO, recipient }), recipient).await;
    assert_eq!(rig.balance(NATIVE, recipient).await, output + units(1, 16));
    assert_eq!(rig.balance(token, rig.sender.address).await, units(5_000, 18) - input);
}

#[tokio::test]
async fn a_recipient_whose_address_means_something_to_the_dex_is_paid_all_the_same() {
    let rig = Rig::open().await;
    let (route, token) = (rig.route(&["ETH", "USDC"], &[500]), rig.token("USDC"));
    for name in [1, 2] {
        let recipient = Address::with_last_byte(name);
        let before = rig.balance(token, recipient).await;
        let (trade, output) = rig.sell(&route, units(1, 16)).await;
        swap(&rig, &trade, None, recipient).await;
        assert_eq!(rig.balance(token, recipient).await, before + output);
    }
}

/// Anyone can make the router approve anyone, permanently. Such a recipient is called while the router pays it.
#[tokio::test]
async fn a_recipient_whom_the_router_has_approved_cannot_take_what_is_unspent() {
    let rig = Rig::open().await;
    let (router, token, recipient) = (rig.entry.router, rig.token("USDC"), rig.stranger());
    let mut plant = Calls::of(router);
    plant.call(token, U256::ZERO, calldata::approve(recipient, U256::MAX));
    let ends = Ends { refund_to: rig.sender.address, nft_recipient: rig.sender.address };
    rig.send(&plant.with_native(U256::ZERO, ends, Bytes::new())).await;

    let route = rig.route(&["USDC", "ETH"], &[500]);
    let (trade, input) = rig.buy(&route, units(1, 17)).await;
    let theft = Erc20::transferFromCall { from: router, to: recipient, amount: trade.most_input() - input };
    rig.chain.set_code(recipient, calls_when_paid(token, &theft.abi_encode())).await.unwrap();
    rig.approve_proxy("USDC", trade.most_input()).await;
    swap(&rig, &trade, None, recipient).await;
    assert_eq!(rig.balance(NATIVE, recipient).await, units(1, 17));
    assert_eq!(rig.balance(token, recipient).await, U256::ZERO);
    assert_eq!(rig.balance(token, rig.sender.address).await, units(10_000, 6) - input);
}

/// A contract that makes one call, of at most 255 bytes, whenever it is called, and ignores its failure.
fn calls_when_paid(target: Address, data: &[u8]) -> Bytes {
    let length = u8::try_from(data.len()).unwrap();
    // Copies the data from behind the code to memory, then calls with it: 7 + 10 + 21 + 3 bytes.
    let copy = [0x60, length, 0x60, 41, 0x60, 0, 0x39];
    let arguments = [0x60, 0, 0x60, 0, 0x60, length, 0x60, 0, 0x60, 0];
    [&copy[..], &arguments, &[0x73], target.as_slice(), &[0x5a, 0xf1, 0x00], data].concat().into()
}

/// With a bound this loose, nobody else would return the rest either.
#[tokio::test]
async fn input_that_a_dry_pool_did_not_take_comes_back() {
    let rig = Rig::open().await;
    let (weth, dai) = (rig.token("WETH"), rig.token("DAI"));
    let pool = rig.open_shallow_pool(weth, dai, units(1, 18)).await;
    let bound = |input| Bound::ExactInput { input, least_output: U256::ONE };
    let (there, back) = (rig.route(&["ETH", "DAI"], &[10_000]), rig.route(&["DAI", "ETH"], &[10_000]));
    let recipient = rig.stranger();

    let before = (rig.balance(NATIVE, rig.sender.address).await, rig.balance(weth, pool).await);
    let receipt = swap(&rig, &rig.trade(&there, bound(units(50, 18))), None, recipient).await;
    let taken = rig.balance(weth, pool).await - before.1;
    assert!(taken > U256::ZERO && taken < units(2, 18), "{taken}");
    assert_eq!(rig.native_before_gas(&[&receipt]).await, before.0 - taken);
    assert!(rig.balance(dai, recipient).await > U256::ZERO);

    rig.approve_proxy("DAI", units(50, 18)).await;
    let before = (rig.balance(dai, rig.sender.address).await, rig.balance(dai, pool).await);
    swap(&rig, &rig.trade(&back, bound(units(50, 18))), None, recipient).await;
    let taken = rig.balance(dai, pool).await - before.1;
    assert!(taken > U256::ZERO && taken < units(4, 18), "{taken}");
    assert_eq!(rig.balance(dai, rig.sender.address).await, before.0 - taken);
    assert!(rig.balance(NATIVE, recipient).await > U256::ZERO);
}

#[tokio::test]
async fn wrapping_and_unwrapping() {
    let rig = Rig::open().await;
    let (user, recipient, treasury) = (rig.sender.address, rig.stranger(), rig.stranger());
    let (wrap, unwrap) = (rig.route(&["ETH", "WETH"], &[]), rig.route(&["WETH", "ETH"], &[]));
    let (wrap, _) = rig.sell(&wrap, units(10, 18)).await;
    let (unwrap, _) = rig.sell(&unwrap, units(4, 18)).await;
    let (weth, fee) = (rig.token("WETH"), Some(Fee { amount: units(1, 18), recipient: treasury }));

    let one = swap(&rig, &wrap, None, user).await;
    let two = swap(&rig, &unwrap, None, user).await;
    assert_eq!((one.to, two.to), (Some(weth), Some(weth)));
    assert_eq!(rig.balance(weth, user).await, units(6, 18));
    assert_eq!(rig.native_before_gas(&[&one, &two]).await, units(94, 18));

    swap(&rig, &wrap, None, recipient).await;
    assert_eq!(rig.balance(weth, recipient).await, units(10, 18));
    swap(&rig, &wrap, fee, user).await;
    assert_eq!(rig.balance(weth, user).await, units(16, 18));
    assert_eq!(rig.balance(NATIVE, treasury).await, units(1, 18));

    rig.approve_proxy("WETH", units(9, 18)).await;
    swap(&rig, &unwrap, None, recipient).await;
    swap(&rig, &unwrap, fee, recipient).await;
    assert_eq!(rig.balance(NATIVE, recipient).await, units(8, 18));
    assert_eq!(rig.balance(weth, treasury).await, units(1, 18));
    assert_eq!(rig.balance(weth, user).await, units(7, 18));
}

#[tokio::test]
async fn sends() {
    let rig = Rig::open().await;
    let (recipient, token) = (rig.stranger(), rig.token("USDT"));
    send(&rig, &steps::send(NATIVE, recipient, U256::from(77), rig.request)).await;
    send(&rig, &steps::send(token, recipient, U256::from(88), rig.request)).await;
    assert_eq!(rig.balance(NATIVE, recipient).await, U256::from(77));
    assert_eq!(rig.balance(token, recipient).await, U256::from(88));
}
