//! Uses of the output on the destination: gas beside it, calls with it, and shares for integrators out of it.

use alloy::primitives::{Address, U256, hex};
use alloy::sol_types::SolCall;
use anyhow::Result;
use evm::contracts::Erc20;
use serde_json::{Value, json};

use super::{Place, Wish, cross, nothing_is_left, out, place, serve};
use crate::harness::{Engine, Harness, amount, new_account};

fn call(to: Address, value: U256, data: impl AsRef<[u8]>) -> Value {
    json!({"to": to, "value": value.to_string(), "data": format!("0x{}", hex::encode(data))})
}

fn transfer(token: Address, to: Address, amount: U256) -> Value {
    call(token, U256::ZERO, Erc20::transferCall { to, amount }.abi_encode())
}

#[tokio::test]
async fn gas_is_delivered_beside_the_output() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "USDC"));
    for (more, cents) in
        [(json!({"topupGas": true}), 200), (json!({"topupGas": true, "topupGasAmount": "7500000"}), 750)]
    {
        let done = cross(&harness, &service, &Wish::exact_input(from, to, 10_000).with(more)).await?;
        let native = Place { symbol: "ETH", currency: Address::ZERO, ..to };
        assert_eq!(native.balance(done.recipient).await?, native.worth(cents));
        assert_eq!(amount(&done.quote["details"]["currencyGasTopup"]["amount"]), native.worth(cents));
    }
    service.stop().await
}

/// The price of the trade and the top-up may both come out of native currency, and must not mix.
#[tokio::test]
async fn gas_is_delivered_beside_bought_tokens() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "TAIL"));
    let native = place(&harness, "optimism", "ETH");
    for wish in [Wish::exact_input(from, to, 20_000), Wish::output("EXACT_OUTPUT", from, to, 20_000)] {
        let done = cross(&harness, &service, &wish.with(json!({"topupGas": true}))).await?;
        let payout = &done.stored.terms.as_ref().unwrap().payout.address;
        let rest = if payout.evm() == Some(Address::ZERO) { done.rest } else { U256::ZERO };
        assert_eq!(native.balance(done.recipient).await?, native.worth(200) + rest);
    }
    service.stop().await
}

#[tokio::test]
async fn calls_spend_native_output_and_the_rest_is_the_recipients() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "ETH"), place(&harness, "optimism", "ETH"));
    let (weth, third) = (to.chain.contracts.weth, new_account().address);
    let spent = to.worth(6_000);
    let txs = json!([call(weth, spent, hex!("d0e30db0")), transfer(weth, third, spent)]);
    for wish in [Wish::exact_input(from, to, 10_000), Wish::output("EXACT_OUTPUT", from, to, 9_000)] {
        let had = to.chain.balance(weth, third).await?;
        let done = cross(&harness, &service, &wish.with(json!({"txs": txs}))).await?;
        assert_eq!(to.chain.balance(weth, third).await? - had, spent);
        assert_eq!(done.delivered, out(&done.quote) - spent);
    }
    service.stop().await
}

#[tokio::test]
async fn calls_spend_tokens_and_the_rest_is_the_recipients() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "USDC"));
    let third = new_account().address;
    let spent = to.worth(6_000);
    let txs = json!([transfer(to.currency, third, spent)]);
    for wish in [Wish::exact_input(from, to, 10_000), Wish::output("EXACT_OUTPUT", from, to, 6_000)] {
        let had = to.balance(third).await?;
        let done = cross(&harness, &service, &wish.with(json!({"txs": txs, "topupGas": true}))).await?;
        assert_eq!(to.balance(third).await? - had, spent);
        assert_eq!(done.delivered, out(&done.quote) - spent);
    }
    service.stop().await
}

/// Wrapping logs no transfer of the wrapped token, and yet the fill must count as one.
#[tokio::test]
async fn calls_spend_currency_that_the_fill_has_wrapped() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "ETH"), place(&harness, "optimism", "WETH"));
    let third = new_account().address;
    let spent = to.worth(6_000);
    let txs = json!([transfer(to.currency, third, spent)]);
    for wish in [Wish::exact_input(from, to, 10_000), Wish::output("EXACT_OUTPUT", from, to, 7_000)] {
        let had = to.balance(third).await?;
        let done = cross(&harness, &service, &wish.with(json!({"txs": txs}))).await?;
        assert!(done.stored.destination_swap.is_some());
        assert_eq!(to.balance(third).await? - had, spent);
        assert_eq!(done.delivered, out(&done.quote) - spent);
        if done.stored.destination_swap.is_some_and(|swap| swap.path.is_wrapping()) {
            // At par there is nothing to set aside.
            assert_eq!((done.stored.figures.paid, done.rest), (done.stored.figures.output, U256::ZERO));
        }
    }
    service.stop().await
}

#[tokio::test]
async fn calls_spend_tokens_that_the_fill_has_bought() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (from, tail) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "TAIL"));
    let third = new_account().address;
    let spent = tail.worth(6_000);
    let txs = json!([transfer(tail.currency, third, spent)]);
    for wish in [Wish::exact_input(from, tail, 10_000), Wish::output("EXACT_OUTPUT", from, tail, 6_000)] {
        let exact = wish.trade == "EXACT_OUTPUT";
        let had = tail.balance(third).await?;
        let done = cross(&harness, &service, &wish.with(json!({"txs": txs}))).await?;
        assert_eq!(tail.balance(third).await? - had, spent);
        assert_eq!(done.delivered, out(&done.quote) - spent);
        assert_eq!(done.rest.is_zero(), !exact, "the headroom is the recipient's");
    }
    service.stop().await
}

/// The same with native currency as the bought one.
#[tokio::test]
async fn calls_spend_native_currency_that_the_fill_has_bought() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "ETH"));
    for filler in &harness.fillers {
        to.chain.set_balance(filler.address, to.worth(6_000)).await?;
    }
    let service = serve(&harness).await?;
    let (weth, third) = (to.chain.contracts.weth, new_account().address);
    let spent = to.worth(20_000);
    let txs = json!([call(weth, spent, hex!("d0e30db0")), transfer(weth, third, spent)]);
    for wish in [Wish::exact_input(from, to, 30_000), Wish::output("EXACT_OUTPUT", from, to, 25_000)] {
        let exact = wish.trade == "EXACT_OUTPUT";
        let had = to.chain.balance(weth, third).await?;
        let done = cross(&harness, &service, &wish.with(json!({"txs": txs}))).await?;
        assert_eq!(to.chain.balance(weth, third).await? - had, spent);
        assert_eq!(done.delivered, out(&done.quote) - spent);
        assert_eq!(done.rest.is_zero(), !exact, "the headroom is the recipient's");
    }
    service.stop().await
}

#[tokio::test]
async fn calls_that_revert_are_refused_with_their_revert_data() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "USDC"));
    let (user, target) = (from.holder(from.worth(100_000)).await?, new_account().address);
    // Reverts with the four bytes c0ffee01.
    to.chain.set_code(target, hex!("63c0ffee015f526004601cfd").into()).await?;
    let wish = Wish::exact_input(from, to, 10_000).with(json!({"txs": [call(target, U256::ZERO, [])]}));
    let call = harness.client.post(harness.url("/quote/v2")).json(&wish.body(user.address, user.address));
    // Calls are tried on a node, which may not answer in time.
    let (code, answer) = harness.served(call).await?;
    assert_eq!((code, &answer["errorCode"]), (400, &json!("DESTINATION_TX_FAILED")), "{answer}");
    assert_eq!(answer["errorData"], "0xc0ffee01");
    let tried = &answer["failedCallData"];
    assert_eq!(tried["to"], json!(to.chain.contracts.spend_limiter));
    assert!(harness.fillers.iter().any(|filler| tried["from"] == json!(filler.address)));
    assert!(tried["data"].as_str().unwrap().contains(&hex::encode(target)));
    nothing_is_left(to.chain).await?;
    service.stop().await
}

#[tokio::test]
async fn shares_for_integrators_come_out_of_the_output_as_it_is_said() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    let (from, to) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "USDC"));
    let fees =
        json!([{"recipient": new_account().address, "fee": "100"}, {"recipient": new_account().address, "fee": "25"}]);
    let plain = cross(&harness, &service, &Wish::exact_input(from, to, 40_000)).await?;
    let shared = cross(&harness, &service, &Wish::exact_input(from, to, 40_000).with(json!({"appFees": fees}))).await?;
    let app = amount(&shared.quote["fees"]["app"]["amount"]);
    assert_eq!(app, from.worth(500));
    // Gas may be a little dearer or cheaper from block to block; the rest is the same.
    let gas = |quote: &Value| amount(&quote["fees"]["relayerGas"]["amount"]);
    assert_eq!(plain.delivered + gas(&plain.quote), shared.delivered + gas(&shared.quote) + app);
    let relayed = |quote: &Value| amount(&quote["fees"]["relayer"]["amount"]);
    assert_eq!(shared.delivered + app + relayed(&shared.quote), from.worth(40_000));
    service.stop().await
}
