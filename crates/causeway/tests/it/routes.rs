//! Quotes come true: trades on either side, calls, top-ups and fees, with every balance checked to the unit.
//!
//! A trade moves pools, so these tests trade on chains of their own (`Harness::isolated`), or on none of the pools.

mod calls;
mod crossing;
mod random;
mod reverts;
mod same_chain;
mod slippage;
mod step_gas;

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use causeway::service::Service;
use devnet::{Account, Chain};
use domain::ids::ChainId;
use domain::quote::Quote;
use serde_json::{Value, json};
use store::requests;

use crate::harness::{Harness, amount, ask, eventually, new_account, request_id, transactions};

/// The number of pools on every chain of the devnet.
const POOLS: usize = 5;

/// A currency on a chain.
#[derive(Clone, Copy, Debug)]
struct Place {
    chain: &'static Chain,
    /// `ETH` is the native currency.
    symbol: &'static str,
    currency: Address,
}

impl Place {
    fn key(self) -> (u64, Address) {
        (self.chain.id, self.currency)
    }

    fn decimals(self) -> u8 {
        if self.symbol == "ETH" { 18 } else { self.chain.token(self.symbol).decimals }
    }

    /// The amount worth so many hundredths of a dollar, at the prices the devnet begins with.
    fn worth(self, cents: u64) -> U256 {
        let price_cents = match self.symbol {
            "ETH" | "WETH" => 300_000u64,
            "TAIL" => 2,
            _ => 100,
        };
        U256::from(cents) * U256::from(10u64).pow(U256::from(self.decimals())) / U256::from(price_cents)
    }

    async fn balance(self, who: Address) -> Result<U256> {
        self.chain.balance(self.currency, who).await
    }

    /// Somebody who holds this much of it, and native currency for gas.
    async fn holder(self, holds: U256) -> Result<Account> {
        let user = new_account();
        let ether = U256::from(10u64).pow(U256::from(18));
        if self.currency.is_zero() {
            self.chain.set_balance(user.address, holds + ether).await?;
        } else {
            self.chain.set_balance(user.address, ether).await?;
            self.chain.set_token_balance(self.currency, user.address, holds).await?;
        }
        Ok(user)
    }
}

fn place(harness: &Harness, chain: &str, symbol: &'static str) -> Place {
    let chain = harness.chain(chain);
    let currency = if symbol == "ETH" { Address::ZERO } else { chain.token(symbol).address };
    Place { chain, symbol, currency }
}

/// A transfer that somebody wants.
#[derive(Clone, Debug)]
struct Wish {
    from: Place,
    to: Place,
    trade: &'static str,
    amount: U256,
    /// Members of the body beside the usual ones.
    more: Value,
}

impl Wish {
    fn exact_input(from: Place, to: Place, cents: u64) -> Self {
        Self { from, to, trade: "EXACT_INPUT", amount: from.worth(cents), more: json!({}) }
    }

    fn output(trade: &'static str, from: Place, to: Place, cents: u64) -> Self {
        Self { from, to, trade, amount: to.worth(cents), more: json!({}) }
    }

    fn with(self, more: Value) -> Self {
        Self { more, ..self }
    }

    fn body(&self, user: Address, recipient: Address) -> Value {
        let mut body = ask(user, recipient, self.from.key(), self.to.key(), self.amount);
        body["tradeType"] = json!(self.trade);
        for (name, value) in self.more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body
    }
}

/// A transfer that arrived, and the balances it changed.
#[derive(Debug)]
struct Crossed {
    quote: Value,
    stored: Quote,
    recipient: Address,
    /// The recipient's balance of the destination currency.
    delivered: U256,
    /// The recipient's balance of the currency the solver paid out, where that was traded.
    rest: U256,
    /// The amount that came back to the treasury, in the currency that was paid out.
    kept: U256,
}

/// Sends the transactions of a quote's steps, in order and without a pause, and returns their cost in gas.
async fn act(chain: &Chain, quote: &Value, user: &Account) -> Result<(U256, u64)> {
    let mut hashes = Vec::new();
    for item in transactions(quote)? {
        hashes.push(chain.submit(user.private_key, item.to, item.value, item.data).await?);
    }
    let (mut gas, mut block) = (U256::ZERO, 0);
    for hash in hashes {
        let receipt = chain.receipt(hash).await?;
        gas += U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
        block = receipt.block_number.context("a mined transaction has a block")?;
    }
    Ok((gas, block))
}

fn step_ids(quote: &Value) -> Vec<&str> {
    quote["steps"].as_array().into_iter().flatten().filter_map(|step| step["id"].as_str()).collect()
}

fn out(quote: &Value) -> U256 {
    amount(&quote["details"]["currencyOut"]["amount"])
}

/// Starts the service and waits until it knows the pools of every chain, which it reads after all else.
async fn serve(harness: &Harness) -> Result<Service> {
    let service = harness.serve().await?;
    for chain in &harness.devnet.chains {
        let known = || {
            let snapshot = service.solver.market.latest(ChainId(chain.id));
            snapshot.is_some_and(|snapshot| snapshot.pools.all().len() >= POOLS)
        };
        eventually("the pools are known", || async { Ok(known()) }).await?;
    }
    Ok(service)
}

/// Waits until the service has seen the chains as they are now.
async fn caught_up(harness: &Harness, service: &Service) -> Result<()> {
    for chain in &harness.devnet.chains {
        seen(service, chain, chain.block_number().await?).await?;
    }
    Ok(())
}

async fn seen(service: &Service, chain: &Chain, block: u64) -> Result<()> {
    // The snapshot must have the pools of its own block: where they could not be read in time it has those of a block
    // before.
    let seen = || {
        let snapshot = service.solver.market.latest(ChainId(chain.id));
        snapshot.is_some_and(|snapshot| snapshot.block >= block && snapshot.check_pools().is_ok())
    };
    eventually("the service sees the block", || async { Ok(seen()) }).await
}

/// The quote as the service keeps it once somebody paid.
async fn stored(service: &Service, quote: &Value) -> Result<Quote> {
    let id = request_id(quote).parse()?;
    let request = service.solver.store.read(move |tx| requests::find(tx, id)).await?;
    Ok(request.context("a quoted request is kept")?.quote)
}

/// Between transactions the contracts that tokens pass through hold nothing.
async fn nothing_is_left(chain: &Chain) -> Result<()> {
    let contracts = &chain.contracts;
    let holders = [contracts.router, contracts.approval_proxy, contracts.spend_limiter, contracts.swap_router];
    let currencies = chain.tokens.iter().map(|token| token.address).chain([Address::ZERO]);
    let pairs = currencies.flat_map(|currency| holders.map(|who| (who, currency)));
    for ((who, currency), left) in balances(chain, pairs).await? {
        ensure!(left.is_zero(), "{left} of {currency} is left at {who} on {}", chain.name);
    }
    Ok(())
}

/// Balances by owner and currency.
type Books = BTreeMap<(Address, Address), U256>;

async fn balances(chain: &Chain, of: impl Iterator<Item = (Address, Address)>) -> Result<Books> {
    let read = |(who, currency)| async move { anyhow::Ok(((who, currency), chain.balance(currency, who).await?)) };
    Ok(futures::future::try_join_all(of.map(read)).await?.into_iter().collect())
}

/// The balances of the solver and the recipient on the destination.
async fn destination_books(harness: &Harness, wish: &Wish, payout: Address, recipient: Address) -> Result<Books> {
    let owners = harness.fillers.iter().map(|filler| filler.address).chain([harness.treasury.address, recipient]);
    let currencies = [Address::ZERO, payout, wish.to.currency];
    balances(wish.to.chain, owners.flat_map(|owner| currencies.map(|currency| (owner, currency)))).await
}

/// A transfer from chain to chain to somebody new, with no other trade on its pools: its quote must come true.
async fn cross(harness: &Harness, service: &Service, wish: &Wish) -> Result<Crossed> {
    let Wish { from, to, .. } = *wish;
    let user = from.holder(from.worth(500_000)).await?;
    let recipient = new_account().address;
    caught_up(harness, service).await?;
    let quote = harness.quote(&wish.body(user.address, recipient)).await?;
    let last = step_ids(&quote).last().copied().context("there are steps")?;
    ensure!(last == "deposit", "the last step is {last}");
    let promise = stored(service, &quote).await?;
    let (terms, figures) = (promise.terms.as_ref().context("an order")?, &promise.figures);
    let (deposit, payout) = (terms.deposit.address.evm().unwrap(), terms.payout.address.evm().unwrap());

    let had = from.balance(user.address).await?;
    let deposited = from.chain.balance(deposit, harness.depository).await?;
    let before = destination_books(harness, wish, payout, recipient).await?;
    let (gas, _) = act(from.chain, &quote, &user).await?;
    let status = harness.wait_for(request_id(&quote), "success").await?;
    let after = destination_books(harness, wish, payout, recipient).await?;

    // The user paid the quoted input, and the depository has it.
    let gas = if from.currency.is_zero() { gas } else { U256::ZERO };
    let spent = had - from.balance(user.address).await? - gas;
    assert_eq!(spent, amount(&quote["details"]["currencyIn"]["amount"]), "{wish:?}");
    assert_eq!(spent, figures.input.units());
    let deposited = from.chain.balance(deposit, harness.depository).await? - deposited;
    assert_eq!(deposited, figures.deposit.units(), "{wish:?}");

    // The wallets paid the quoted amount and their gas; the amount that came back to the treasury is for the caller to
    // judge.
    let fill = to.chain.receipt(status["txHashes"][0].as_str().context("a fill")?.parse()?).await?;
    let fill_gas = U256::from(fill.gas_used) * U256::from(fill.effective_gas_price);
    let sum = |books: &Books, currency| -> U256 {
        harness.fillers.iter().map(|filler| books[&(filler.address, currency)]).sum()
    };
    let treasury = (harness.treasury.address, payout);
    let native = sum(&before, Address::ZERO) - sum(&after, Address::ZERO) - fill_gas;
    let top_up = figures.top_up.unwrap_or_default().units();
    let paid = figures.paid.units();
    let kept = if payout.is_zero() {
        assert_eq!(native, paid + top_up, "{wish:?}");
        after[&treasury] - before[&treasury]
    } else {
        assert_eq!(native, top_up, "{wish:?}");
        paid - (before[&treasury] - after[&treasury])
    };
    let gained = |currency| after[&(recipient, currency)] - before[&(recipient, currency)];
    let delivered = gained(to.currency);
    let rest = if payout == to.currency { U256::ZERO } else { gained(payout) };
    let rest = if payout.is_zero() && !to.currency.is_zero() { rest - top_up } else { rest };
    if promise.ask.options.calls.is_empty() {
        assert_eq!(delivered, out(&quote), "{wish:?}");
    }
    assert!(figures.minimum <= figures.output);
    assert_eq!(figures.minimum.units(), amount(&quote["details"]["currencyOut"]["minimumAmount"]));
    nothing_is_left(from.chain).await?;
    nothing_is_left(to.chain).await?;
    Ok(Crossed { quote, stored: promise, recipient, delivered, rest, kept })
}
