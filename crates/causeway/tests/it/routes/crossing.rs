//! From chain to chain, with trades before the deposit, as part of the fill, or both.

use alloy::primitives::{Address, U256};
use anyhow::Result;
use domain::quote::{Bound, Swap};
use serde_json::json;

use super::{Wish, act, cross, out, place, serve, step_ids};
use crate::harness::{Engine, Harness, eventually, user_balance};

/// The user trades a token that the solver does not hold, in the same transaction as the deposit.
#[tokio::test]
async fn a_token_the_solver_does_not_hold_is_traded_before_the_deposit() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    for (symbol, cents) in [("USDC", 40_000), ("ETH", 150_000), ("WETH", 90_000)] {
        let (from, to) = (place(&harness, "base", "TAIL"), place(&harness, "optimism", symbol));
        let done = cross(&harness, &service, &Wish::exact_input(from, to, cents)).await?;
        assert_eq!(step_ids(&done.quote), ["approve", "deposit"]);
        assert!(done.stored.origin_swap.is_some(), "{symbol}");
        // There is no WETH in stock, but the fill wraps native currency.
        assert_eq!(done.stored.destination_swap.is_some(), symbol == "WETH", "{symbol}");
        assert_eq!((done.rest, done.kept), (U256::ZERO, U256::ZERO));
    }
    service.stop().await
}

#[tokio::test]
async fn a_token_the_solver_does_not_hold_is_bought_with_the_fill() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    for (symbol, steps) in [("USDC", &["approve", "deposit"][..]), ("ETH", &["deposit"])] {
        let (from, to) = (place(&harness, "base", symbol), place(&harness, "arbitrum", "TAIL"));
        let done = cross(&harness, &service, &Wish::exact_input(from, to, 70_000)).await?;
        assert_eq!(step_ids(&done.quote), steps);
        assert!(done.stored.origin_swap.is_none() && done.stored.destination_swap.is_some());
        assert_eq!((done.rest, done.kept), (U256::ZERO, U256::ZERO));
    }
    let (from, to) = (place(&harness, "optimism", "TAIL"), place(&harness, "arbitrum", "TAIL"));
    let done = cross(&harness, &service, &Wish::exact_input(from, to, 50_000)).await?;
    assert!(done.stored.origin_swap.is_some() && done.stored.destination_swap.is_some());
    service.stop().await
}

/// The harness has USDC and native currency, and none of the other currencies it could pay out.
#[tokio::test]
async fn a_token_the_solver_is_out_of_is_bought_with_the_fill() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    for (from, to) in [("USDC", "USDT"), ("DAI", "DAI"), ("USDT", "WETH"), ("WETH", "DAI")] {
        let (from, to) = (place(&harness, "arbitrum", from), place(&harness, "base", to));
        let done = cross(&harness, &service, &Wish::exact_input(from, to, 30_000)).await?;
        assert!(done.stored.origin_swap.is_none(), "{from:?}");
        let payout = &done.stored.terms.as_ref().unwrap().payout.address;
        assert_ne!(payout.evm(), Some(to.currency));
        assert!(done.stored.destination_swap.is_some(), "{to:?}");
    }
    service.stop().await
}

/// Wallets with enough native currency for gas and for nothing else: tokens pay instead.
#[tokio::test]
async fn without_native_currency_tokens_pay() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    for filler in &harness.fillers {
        harness.chain("base").set_balance(filler.address, place(&harness, "base", "ETH").worth(6_000)).await?;
    }
    let service = serve(&harness).await?;
    let usdc = place(&harness, "base", "USDC").currency;
    for symbol in ["TAIL", "ETH", "WETH", "DAI"] {
        for trade in ["EXACT_INPUT", "EXACT_OUTPUT"] {
            let (from, to) = (place(&harness, "optimism", "ETH"), place(&harness, "base", symbol));
            let fixed = if trade == "EXACT_INPUT" { from } else { to };
            let wish = Wish { trade, amount: fixed.worth(30_000), ..Wish::exact_input(from, to, 0) };
            let done = cross(&harness, &service, &wish).await?;
            assert_eq!(done.stored.terms.as_ref().unwrap().payout.address.evm(), Some(usdc), "{symbol}");
        }
    }
    service.stop().await
}

fn bought(swap: Option<&Swap>) -> (U256, U256) {
    match swap {
        Some(Swap { input, bound: Bound::MostInput(most), .. }) => (input.units(), most.units()),
        other => panic!("not a trade for an exact output: {other:?}"),
    }
}

/// Headroom for a pool to move that was not needed goes to the recipient or to us, as was agreed.
#[tokio::test]
async fn an_exact_output_arrives_exactly_and_its_headroom_goes_where_it_was_agreed() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (usdc, tail) = (place(&harness, "base", "USDC"), place(&harness, "optimism", "TAIL"));
    for true_exact in [false, true] {
        let wish = Wish::output("EXACT_OUTPUT", usdc, tail, 60_000);
        let done = cross(&harness, &service, &wish.with(json!({"enableTrueExactOutput": true_exact}))).await?;
        assert_eq!(done.delivered, tail.worth(60_000));
        let (input, most) = bought(done.stored.destination_swap.as_ref());
        assert_eq!(done.stored.figures.paid.units(), most);
        assert!(most > input);
        let unused = most - input;
        let shares = if true_exact { (U256::ZERO, unused) } else { (unused, U256::ZERO) };
        assert_eq!((done.rest, done.kept), shares);
    }
    // USDC pays for DAI: tokens are left over instead of native currency.
    let dai = place(&harness, "optimism", "DAI");
    for true_exact in [false, true] {
        let wish = Wish::output("EXACT_OUTPUT", usdc, dai, 80_000);
        let done = cross(&harness, &service, &wish.with(json!({"enableTrueExactOutput": true_exact}))).await?;
        assert_eq!(done.delivered, dai.worth(80_000));
        let (input, most) = bought(done.stored.destination_swap.as_ref());
        let shares = if true_exact { (U256::ZERO, most - input) } else { (most - input, U256::ZERO) };
        assert_eq!((done.rest, done.kept), shares);
    }
    service.stop().await
}

#[tokio::test]
async fn outputs_are_fixed_through_pools_on_either_side() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let (base, arbitrum) = (|symbol| place(&harness, "base", symbol), |symbol| place(&harness, "arbitrum", symbol));
    for (from, to) in [("TAIL", "USDC"), ("TAIL", "ETH"), ("TAIL", "TAIL"), ("USDT", "TAIL")] {
        for trade in ["EXACT_OUTPUT", "EXPECTED_OUTPUT"] {
            let wish = Wish::output(trade, base(from), arbitrum(to), 45_000);
            let done = cross(&harness, &service, &wish).await?;
            if trade == "EXACT_OUTPUT" {
                assert_eq!(done.delivered, wish.amount);
            } else {
                // The least input that brings it may bring a little more.
                assert!(done.delivered >= wish.amount, "{} for {}", done.delivered, wish.amount);
                assert!(done.delivered < wish.amount + wish.amount / U256::from(1_000u64));
            }
            // The unused input of the user's own trade was returned to them: `cross` saw the exact input leave.
            if from == "TAIL" && trade == "EXACT_OUTPUT" {
                let (input, most) = bought(done.stored.origin_swap.as_ref());
                assert!(input == done.stored.figures.input.units() && most > input);
            }
        }
    }
    service.stop().await
}

/// Once the user's balance and allowance are known, an approval that is there is not asked for again.
#[tokio::test]
async fn an_approval_that_is_there_is_not_asked_for() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = serve(&harness).await?;
    for (symbol, approvals) in [("USDC", 1), ("USDT", 2)] {
        let (from, to) = (place(&harness, "base", symbol), place(&harness, "optimism", "USDC"));
        let holds = from.worth(100_000);
        let user = from.holder(holds).await?;
        let wish = Wish::exact_input(from, to, 10_000);
        let body = wish.body(user.address, user.address);
        let first = harness.quote(&body).await?;
        // Nothing is known yet, so a token that wants it is set to zero first.
        assert_eq!(step_ids(&first).len(), approvals + 1, "{symbol}");
        assert!(first["details"].get("userBalance").is_none(), "unknown is not zero: {first}");
        let approve = crate::harness::transactions(&first)?.into_iter().nth(approvals - 1).unwrap();
        from.chain.send(user.private_key, approve.to, approve.value, approve.data).await?;
        let quoted = || async {
            let quote = harness.quote(&body).await?;
            Ok(step_ids(&quote) == ["deposit"] && user_balance(&quote) == Some(holds))
        };
        eventually("the allowance is known", quoted).await?;
        let quote = harness.quote(&body).await?;
        assert_eq!(step_ids(&quote), ["deposit"]);
        act(from.chain, &quote, &user).await?;
        harness.wait_for(crate::harness::request_id(&quote), "success").await?;
        assert_eq!(to.balance(user.address).await?, out(&quote));
        // The allowance is used up, and what was read of it is not used again.
        assert!(step_ids(&harness.quote(&body).await?).contains(&"approve"), "{symbol}");
    }
    let native = place(&harness, "base", "ETH");
    let user = native.holder(U256::ZERO).await?;
    let body = Wish::exact_input(native, place(&harness, "optimism", "ETH"), 5_000).body(user.address, user.address);
    let ether = U256::from(10u64).pow(U256::from(18));
    let known = || async { Ok(user_balance(&harness.quote(&body).await?) == Some(ether)) };
    eventually("the balance is known", known).await?;
    assert_eq!(native.chain.balance(Address::ZERO, user.address).await?, ether);
    service.stop().await
}
