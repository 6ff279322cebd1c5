//! `fees.gas` is the cost of the user's own transactions: within a tenth of what they use, in every form.

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use devnet::Account;
use domain::ids::ChainId;
use evm::calldata;
use serde_json::{Value, json};

use super::{Place, Wish, caught_up, place, serve};
use crate::harness::{Harness, amount, eventually, new_account, transactions, user_balance};

/// The gas of a quote's steps, as they were mined.
async fn used(place: Place, quote: &Value, user: &Account) -> Result<Vec<u64>> {
    let mut gas = Vec::new();
    for step in transactions(quote)? {
        gas.push(place.chain.send(user.private_key, step.to, step.value, step.data).await?.gas_used);
    }
    Ok(gas)
}

#[tokio::test]
async fn the_gas_of_the_users_steps_is_told_within_a_tenth() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = serve(&harness).await?;
    let here = |symbol| place(&harness, "base", symbol);
    let there = |symbol| place(&harness, "optimism", symbol);
    let apps = json!({"appFees": [{"recipient": new_account().address, "fee": "50"}]});
    let plain = json!({"explicitDeposit": false});
    let table: Vec<(&str, Wish, bool)> = vec![
        ("native deposit", Wish::exact_input(here("ETH"), there("ETH"), 10_000), false),
        ("USDC deposit", Wish::exact_input(here("USDC"), there("USDC"), 10_000), false),
        ("USDT after two approvals", Wish::exact_input(here("USDT"), there("USDC"), 10_000), false),
        ("USDT deposit", Wish::exact_input(here("USDT"), there("USDC"), 10_000), false),
        ("DAI deposit", Wish::exact_input(here("DAI"), there("USDC"), 10_000), false),
        ("WETH deposit", Wish::exact_input(here("WETH"), there("ETH"), 10_000), false),
        ("USDC transfer as deposit", Wish::exact_input(here("USDC"), there("USDC"), 10_000).with(plain), false),
        ("TAIL swapped and deposited", Wish::exact_input(here("TAIL"), there("USDC"), 10_000), false),
        ("wrap", Wish::exact_input(here("ETH"), here("WETH"), 10_000), true),
        ("wrap for another", Wish::exact_input(here("ETH"), here("WETH"), 10_000), false),
        ("wrap with a fee", Wish::exact_input(here("ETH"), here("WETH"), 10_000).with(apps.clone()), true),
        ("unwrap", Wish::exact_input(here("WETH"), here("ETH"), 10_000), true),
        ("unwrap for another", Wish::exact_input(here("WETH"), here("ETH"), 10_000), false),
        ("unwrap with a fee", Wish::exact_input(here("WETH"), here("ETH"), 10_000).with(apps), true),
        ("send ETH", Wish::exact_input(here("ETH"), here("ETH"), 10_000), false),
        ("send USDC", Wish::exact_input(here("USDC"), here("USDC"), 10_000), false),
        ("send USDT", Wish::exact_input(here("USDT"), here("USDT"), 10_000), false),
        ("send DAI", Wish::exact_input(here("DAI"), here("DAI"), 10_000), false),
        ("swap USDC for ETH", Wish::exact_input(here("USDC"), here("ETH"), 10_000), true),
        ("swap ETH for USDC", Wish::exact_input(here("ETH"), here("USDC"), 10_000), true),
        ("swap ETH for USDC for another", Wish::exact_input(here("ETH"), here("USDC"), 10_000), false),
        ("swap USDC for TAIL", Wish::exact_input(here("USDC"), here("TAIL"), 10_000), true),
        ("swap USDC for USDT", Wish::exact_input(here("USDC"), here("USDT"), 10_000), true),
    ];
    // The first deposit and the first fee of each kind are like no other: the depository and the treasury have some of
    // it.
    for symbol in ["USDC", "USDT", "DAI", "WETH"] {
        let there = [here(symbol).chain.contracts.depository, harness.treasury.address];
        for who in there {
            here(symbol).chain.set_token_balance(here(symbol).currency, who, here(symbol).worth(100)).await?;
        }
    }
    let mut wrong = Vec::new();
    for (name, wish, to_self) in table {
        let user = wish.from.holder(wish.amount * U256::from(2)).await?;
        caught_up(&harness, &service).await?;
        let recipient = if to_self { user.address } else { new_account().address };
        let body = wish.body(user.address, recipient);
        for round in ["first", "again"] {
            if name.contains("two approvals") {
                let approve = calldata::approve(harness.depository, U256::from(1));
                wish.from.chain.send(user.private_key, wish.from.currency, U256::ZERO, approve).await?;
            }
            // Balances and allowances are read in the background of a quote, and known to a later one.
            let holds = wish.from.balance(user.address).await?;
            let transactions_at_least = if name.contains("two approvals") { 3 } else { 1 };
            let known = || async {
                let quote = harness.quote(&body).await?;
                Ok(user_balance(&quote) == Some(holds) && transactions(&quote)?.len() >= transactions_at_least)
            };
            eventually("the service knows what the user holds", known).await?;
            caught_up(&harness, &service).await?;
            let quote = harness.quote(&body).await?;
            let price = service.solver.market.latest(ChainId(wish.from.chain.id)).context("a snapshot")?.gas_price();
            let quoted: u64 = (amount(&quote["fees"]["gas"]["amount"]) / U256::from(price)).to();
            let steps = used(wish.from, &quote, &user).await?;
            let used: u64 = steps.iter().sum();
            println!("{name}, {round}: {quoted} quoted, {used} used by {steps:?}, {}", quoted * 1_000 / used);
            if !(used * 9..=used * 11).contains(&(quoted * 10)) {
                wrong.push(format!("{name}, {round}: {quoted} quoted, {used} used by {steps:?}"));
            }
        }
    }
    ensure!(wrong.is_empty(), "{wrong:#?}");
    service.stop().await
}
