//! Fills through the router on a real chain and a real DEX, from native funds and from the treasury's tokens.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use devnet::Devnet;
use evm::SentTx;
use evm::contracts::{Erc20, SpendLimiter};
use evm::fills::{Fill, Funds};
use evm::routed::{FromSpendLimiter, Message};
use evm::swap::Wrapped;

use crate::rig::{NATIVE, Rig, units};

const TOP_UP: U256 = U256::from_limbs([700_000_000_000_000, 0, 0, 0]);

/// One order to be filled by the rig's sender.
struct Story {
    rig: Rig,
    recipient: Address,
    rest_to: Address,
}

impl Story {
    async fn new() -> Self {
        let rig = Rig::open().await;
        Self { recipient: rig.stranger(), rest_to: rig.stranger(), rig }
    }

    fn fill<'a>(&self, funds: Funds) -> Fill<'a> {
        Fill {
            router: self.rig.chain.contracts.router,
            funds,
            trade: None,
            recipient: self.recipient,
            top_up: U256::ZERO,
            calls: &[],
            rest_to: self.rest_to,
        }
    }

    /// Lets the sender spend this much of the treasury's tokens.
    async fn spend_limiter(&self, symbol: &str, amount: U256) -> FromSpendLimiter {
        let (chain, treasury) = (self.rig.chain, &Devnet::shared().await.keys.treasury);
        let (spend_limiter, token) = (chain.contracts.spend_limiter, self.rig.token(symbol));
        let limit = SpendLimiter::setLimitCall { filler: self.rig.sender.address, token, amount };
        chain.call(treasury.private_key, spend_limiter, &limit).await.unwrap();
        FromSpendLimiter { spend_limiter, treasury: treasury.address, token, amount }
    }

    async fn send(&self, fill: &Fill<'_>) -> SentTx {
        let message = fill.message(self.rig.order);
        assert_eq!(self.rig.entry.request_in(message.to, &message.data), None);
        let receipt = self.rig.send(&message).await;
        let sent = self.rig.evidence(&receipt).await;
        assert_eq!((sent.success, sent.id()), (true, Some(self.rig.order.0)));
        self.rig.assert_nothing_is_left().await;
        sent
    }

    fn paid(&self, sent: &SentTx, currency: Address, recipient: Address) -> U256 {
        sent.paid(currency, recipient, self.rig.chain.contracts.router)
    }

    /// The evidence agrees with the balance of a recipient who had nothing.
    async fn assert_paid(&self, sent: &SentTx, currency: Address, amount: U256) {
        assert_eq!(self.paid(sent, currency, self.recipient), amount);
        assert_eq!(self.rig.balance(currency, self.recipient).await, amount);
    }

    async fn rest(&self, currency: Address) -> U256 {
        self.rig.balance(currency, self.rest_to).await
    }
}

fn transfer(token: Address, to: Address, amount: U256) -> Message {
    Message { to: token, value: U256::ZERO, data: Erc20::transferCall { to, amount }.abi_encode().into() }
}

#[tokio::test]
async fn native_funds_as_they_are() {
    let story = Story::new().await;
    let sent = story.send(&story.fill(Funds::Native(U256::from(5_000)))).await;
    story.assert_paid(&sent, NATIVE, U256::from(5_000)).await;
}

#[tokio::test]
async fn native_funds_sold_for_a_token_with_a_top_up() {
    let story = Story::new().await;
    let (route, input) = (story.rig.route(&["ETH", "USDC"], &[500]), units(1, 18));
    let (trade, output) = story.rig.sell(&route, input).await;
    let fill = Fill { trade: Some(trade), top_up: TOP_UP, ..story.fill(Funds::Native(input)) };
    let sent = story.send(&fill).await;
    story.assert_paid(&sent, story.rig.token("USDC"), output).await;
    story.assert_paid(&sent, NATIVE, TOP_UP).await;
    assert_eq!(story.rest(NATIVE).await, U256::ZERO);
}

#[tokio::test]
async fn an_exact_output_from_native_funds_returns_the_rest() {
    let story = Story::new().await;
    let (route, output) = (story.rig.route(&["ETH", "USDC", "DAI"], &[500, 100]), units(1_500, 18));
    let (trade, input) = story.rig.buy(&route, output).await;
    let fill = Fill { trade: Some(trade), top_up: TOP_UP, ..story.fill(Funds::Native(trade.most_input())) };
    let sent = story.send(&fill).await;
    story.assert_paid(&sent, story.rig.token("DAI"), output).await;
    story.assert_paid(&sent, NATIVE, TOP_UP).await;
    assert_eq!(story.rest(NATIVE).await, trade.most_input() - input);
}

#[tokio::test]
async fn wrapping_native_funds() {
    let story = Story::new().await;
    let (route, amount) = (story.rig.route(&["ETH", "WETH"], &[]), units(3, 18));
    let (trade, _) = story.rig.sell(&route, amount).await;
    let sent = story.send(&Fill { trade: Some(trade), ..story.fill(Funds::Native(amount)) }).await;
    story.assert_paid(&sent, story.rig.token("WETH"), amount).await;
}

#[tokio::test]
async fn calls_spend_native_funds_and_leave_the_rest_to_the_recipient() {
    let story = Story::new().await;
    let (weth, third) = (story.rig.token("WETH"), story.rig.stranger());
    let calls = [
        Message { to: weth, value: units(2, 18), data: Wrapped::depositCall {}.abi_encode().into() },
        transfer(weth, third, units(2, 18)),
        Message { to: third, value: units(1, 18), data: Bytes::new() },
    ];
    let sent = story.send(&Fill { calls: &calls, ..story.fill(Funds::Native(units(5, 18))) }).await;
    // An order with calls is paid at the router.
    assert_eq!(story.paid(&sent, NATIVE, story.rig.chain.contracts.router), units(5, 18));
    assert_eq!(story.rig.balance(weth, third).await, units(2, 18));
    assert_eq!(story.rig.balance(NATIVE, third).await, units(1, 18));
    assert_eq!(story.rig.balance(NATIVE, story.recipient).await, units(2, 18));
}

#[tokio::test]
async fn calls_after_a_trade_of_native_funds() {
    let story = Story::new().await;
    let (token, third) = (story.rig.token("USDC"), story.rig.stranger());
    let (route, output) = (story.rig.route(&["ETH", "USDC"], &[3000]), units(900, 6));
    let (trade, input) = story.rig.buy(&route, output).await;
    let calls = [transfer(token, third, units(200, 6))];
    let funds = Funds::Native(trade.most_input());
    let fill = Fill { trade: Some(trade), top_up: TOP_UP, calls: &calls, ..story.fill(funds) };
    let sent = story.send(&fill).await;
    assert_eq!(story.paid(&sent, token, story.rig.chain.contracts.router), output);
    assert_eq!(story.rig.balance(token, third).await, units(200, 6));
    story.assert_paid(&sent, token, units(700, 6)).await;
    story.assert_paid(&sent, NATIVE, TOP_UP).await;
    assert_eq!(story.rest(NATIVE).await, trade.most_input() - input);
}

#[tokio::test]
async fn tokens_of_the_treasury_with_a_top_up() {
    let story = Story::new().await;
    let spend_limiter = story.spend_limiter("USDT", units(40, 6)).await;
    let before = story.rig.balance(spend_limiter.token, spend_limiter.treasury).await;
    let fill = Fill { top_up: TOP_UP, ..story.fill(Funds::SpendLimiter(spend_limiter)) };
    let sent = story.send(&fill).await;
    story.assert_paid(&sent, spend_limiter.token, units(40, 6)).await;
    story.assert_paid(&sent, NATIVE, TOP_UP).await;
    assert_eq!(story.rig.balance(spend_limiter.token, spend_limiter.treasury).await, before - units(40, 6));
    let error = story.rig.try_send(&fill.message(story.rig.order)).await.unwrap_err();
    assert!(error.contains("revert"), "the limit is used up: {error}");
}

#[tokio::test]
async fn tokens_sold_for_the_native_currency_are_paid_apart_from_the_top_up() {
    let story = Story::new().await;
    let (route, input) = (story.rig.route(&["USDC", "ETH"], &[500]), units(600, 6));
    let (trade, output) = story.rig.sell(&route, input).await;
    let funds = Funds::SpendLimiter(story.spend_limiter("USDC", input).await);
    let sent = story.send(&Fill { trade: Some(trade), top_up: TOP_UP, ..story.fill(funds) }).await;
    story.assert_paid(&sent, NATIVE, output + TOP_UP).await;
}

#[tokio::test]
async fn an_exact_native_output_from_tokens_returns_the_rest() {
    let story = Story::new().await;
    let (route, output) = (story.rig.route(&["USDT", "USDC", "ETH"], &[100, 500]), units(1, 17));
    let (trade, input) = story.rig.buy(&route, output).await;
    let spend_limiter = story.spend_limiter("USDT", trade.most_input()).await;
    let sent = story.send(&Fill { trade: Some(trade), ..story.fill(Funds::SpendLimiter(spend_limiter)) }).await;
    story.assert_paid(&sent, NATIVE, output).await;
    assert_eq!(story.rest(spend_limiter.token).await, trade.most_input() - input);
}

#[tokio::test]
async fn tokens_sold_for_a_token() {
    let story = Story::new().await;
    let (route, input) = (story.rig.route(&["USDC", "WETH", "TAIL"], &[500, 3000]), units(30, 6));
    let (trade, output) = story.rig.sell(&route, input).await;
    let funds = Funds::SpendLimiter(story.spend_limiter("USDC", input).await);
    let sent = story.send(&Fill { trade: Some(trade), ..story.fill(funds) }).await;
    story.assert_paid(&sent, story.rig.token("TAIL"), output).await;
}

#[tokio::test]
async fn calls_spend_tokens_of_the_treasury() {
    let story = Story::new().await;
    let (spend_limiter, third) = (story.spend_limiter("USDC", units(50, 6)).await, story.rig.stranger());
    let calls = [transfer(spend_limiter.token, third, units(20, 6))];
    let sent =
        story.send(&Fill { calls: &calls, top_up: TOP_UP, ..story.fill(Funds::SpendLimiter(spend_limiter)) }).await;
    assert_eq!(story.paid(&sent, spend_limiter.token, story.rig.chain.contracts.router), units(50, 6));
    assert_eq!(story.rig.balance(spend_limiter.token, third).await, units(20, 6));
    story.assert_paid(&sent, spend_limiter.token, units(30, 6)).await;
    story.assert_paid(&sent, NATIVE, TOP_UP).await;
}

#[tokio::test]
async fn calls_after_a_trade_of_tokens_find_native_value() {
    let story = Story::new().await;
    let (route, output) = (story.rig.route(&["USDC", "ETH"], &[500]), units(1, 17));
    let (trade, input) = story.rig.buy(&route, output).await;
    let (spend_limiter, third) = (story.spend_limiter("USDC", trade.most_input()).await, story.rig.stranger());
    let calls = [Message { to: third, value: units(4, 16), data: Bytes::new() }];
    let sent =
        story.send(&Fill { trade: Some(trade), calls: &calls, ..story.fill(Funds::SpendLimiter(spend_limiter)) }).await;
    assert_eq!(story.paid(&sent, NATIVE, story.rig.chain.contracts.router), output);
    assert_eq!(story.rig.balance(NATIVE, third).await, units(4, 16));
    assert_eq!(story.rig.balance(NATIVE, story.recipient).await, units(6, 16));
    assert_eq!(story.rest(spend_limiter.token).await, trade.most_input() - input);
}
