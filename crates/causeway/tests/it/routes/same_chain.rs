//! Same-chain transactions of the user: swap, wrap, unwrap, send.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use causeway::service::Service;
use serde_json::{Value, json};

use super::{Place, Wish, act, caught_up, nothing_is_left, out, place, serve, step_ids};
use crate::harness::{Engine, Harness, amount, new_account};

/// Executes a same-chain quote, and checks that everybody has the quoted amounts.
async fn stay(harness: &Harness, service: &Service, wish: &Wish, to_self: bool) -> Result<Value> {
    let Wish { from, to, .. } = *wish;
    let user = from.holder(from.worth(500_000)).await?;
    let recipient = if to_self { user.address } else { new_account().address };
    caught_up(harness, service).await?;
    let quote = harness.quote(&wish.body(user.address, recipient)).await?;
    ensure!(quote["protocol"].is_null(), "there is no order: {quote}");
    let had = (from.balance(user.address).await?, to.balance(recipient).await?);
    let treasury = from.balance(harness.treasury.address).await?;
    let (gas, _) = act(from.chain, &quote, &user).await?;
    let gas_of = |place: Place| if place.currency.is_zero() { gas } else { U256::ZERO };
    let spent = had.0 - from.balance(user.address).await? - gas_of(from);
    let delivered = to.balance(recipient).await? + if to_self { gas_of(to) } else { U256::ZERO } - had.1;
    assert_eq!(spent, amount(&quote["details"]["currencyIn"]["amount"]), "{wish:?}");
    assert_eq!(delivered, out(&quote), "{wish:?}");
    assert!(delivered >= amount(&quote["details"]["currencyOut"]["minimumAmount"]));
    let fees = amount(&quote["fees"]["relayer"]["amount"]) + amount(&quote["fees"]["app"]["amount"]);
    assert_eq!(from.balance(harness.treasury.address).await? - treasury, fees, "{wish:?}");
    nothing_is_left(from.chain).await?;
    Ok(quote)
}

fn app_fee(bps: &str) -> Value {
    json!({"appFees": [{"recipient": new_account().address, "fee": bps}]})
}

#[tokio::test]
async fn a_swap_on_one_chain_is_the_users_own_transaction() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let here = |symbol| place(&harness, "arbitrum", symbol);
    let pairs =
        [("TAIL", "USDC"), ("USDC", "TAIL"), ("ETH", "TAIL"), ("TAIL", "ETH"), ("USDT", "DAI"), ("WETH", "USDT")];
    for (n, (from, to)) in pairs.into_iter().enumerate() {
        let wish = Wish::exact_input(here(from), here(to), 25_000);
        let wish = if n % 2 == 0 { wish.with(app_fee("50")) } else { wish };
        let quote = stay(&harness, &service, &wish, n % 3 == 0).await?;
        assert_eq!(quote["details"]["operation"], "swap");
        let steps = match from {
            "ETH" => &["swap"][..],
            "USDT" => &["approve", "approve", "swap"],
            _ => &["approve", "swap"],
        };
        assert_eq!(step_ids(&quote), steps);
        assert!(!amount(&quote["fees"]["relayer"]["amount"]).is_zero());
    }
    for (from, to) in [("TAIL", "USDC"), ("ETH", "DAI"), ("USDT", "ETH")] {
        for trade in ["EXACT_OUTPUT", "EXPECTED_OUTPUT"] {
            let wish = Wish::output(trade, here(from), here(to), 30_000).with(app_fee("30"));
            let quote = stay(&harness, &service, &wish, from == "ETH").await?;
            let arrived = out(&quote);
            assert!(arrived == wish.amount || (trade == "EXPECTED_OUTPUT" && arrived > wish.amount), "{arrived}");
        }
    }
    service.stop().await
}

#[tokio::test]
async fn wrapping_is_at_par_and_needs_no_pool() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    let here = |symbol| place(&harness, "base", symbol);
    for (from, to, operation) in [("ETH", "WETH", "wrap"), ("WETH", "ETH", "unwrap")] {
        for trade in ["EXACT_INPUT", "EXACT_OUTPUT", "EXPECTED_OUTPUT"] {
            for (to_self, more) in
                [(true, json!({})), (false, json!({})), (true, app_fee("20")), (false, app_fee("20"))]
            {
                let free = more == json!({});
                let wish = Wish { trade, ..Wish::exact_input(here(from), here(to), 12_345) }.with(more);
                let quote = stay(&harness, &service, &wish, to_self).await?;
                assert_eq!(quote["details"]["operation"], operation);
                let (paid, arrived) = (amount(&quote["details"]["currencyIn"]["amount"]), out(&quote));
                assert_eq!(if trade == "EXACT_INPUT" { paid } else { arrived }, wish.amount);
                assert_eq!(paid == arrived, free);
                // The token itself unwraps for its owner, who then has nothing to approve.
                let steps = if from == "ETH" || (free && to_self) { &["swap"][..] } else { &["approve", "swap"] };
                assert_eq!(step_ids(&quote), steps);
            }
        }
    }
    service.stop().await
}

#[tokio::test]
async fn sending_is_one_step_and_costs_nothing() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    for symbol in ["ETH", "USDC", "USDT", "TAIL", "WETH"] {
        let here = place(&harness, "optimism", symbol);
        for trade in ["EXACT_INPUT", "EXACT_OUTPUT"] {
            let wish = Wish { trade, ..Wish::exact_input(here, here, 4_321) }.with(app_fee("100"));
            let quote = stay(&harness, &service, &wish, false).await?;
            assert_eq!(quote["details"]["operation"], "send");
            assert_eq!(step_ids(&quote), ["send"]);
            assert_eq!(out(&quote), wish.amount, "sending collects no fees");
        }
        let user = new_account().address;
        let wish = Wish::exact_input(here, here, 4_321);
        let (code, answer) = harness.post("/quote/v2", &wish.body(user, user)).await?;
        assert_eq!((code, &answer["errorCode"]), (400, &json!("UNSUPPORTED_ROUTE")), "{answer}");
    }
    service.stop().await
}

/// A contract that takes money and no data is paid through the router, once it is known to be one.
#[tokio::test]
async fn native_currency_is_sent_to_a_contract_without_data() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    let here = place(&harness, "optimism", "ETH");
    let (user, recipient) = (here.holder(here.worth(10_000)).await?, new_account().address);
    // Reverts if there is calldata.
    here.chain.set_code(recipient, vec![0x36, 0x15, 0x60, 0x07, 0x57, 0x5f, 0xfd, 0x5b, 0x00].into()).await?;
    let body = Wish::exact_input(here, here, 4_000).body(user.address, recipient);
    harness.quote(&body).await?;
    let known = || service.solver.recipient_code.is_contract(domain::ids::ChainId(here.chain.id), recipient);
    crate::harness::eventually("the recipient is known", || async { Ok(known()) }).await?;
    let quote = harness.quote(&body).await?;
    act(here.chain, &quote, &user).await?;
    assert_eq!(here.chain.balance(Address::ZERO, recipient).await?, here.worth(4_000));
    nothing_is_left(here.chain).await?;
    service.stop().await
}
