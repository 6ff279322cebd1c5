//! Many random transfers at once, over all chains, currencies and kinds of trade.
//!
//! A trade moves its pools, so each locks those it may use from its quote until it is mined; the next trade is quoted
//! once the service has seen that block. So every quote must come true to the unit.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use causeway::service::Service;
use evm::calldata;
use evm::contracts::SpendLimiter;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, Semaphore};

use super::{Place, Wish, act, nothing_is_left, out, place, seen, serve, stored};
use crate::harness::{Harness, amount, new_account, request_id};

const TRANSFERS: usize = 208;
/// The number of transfers at once, of those whose pools are free.
const MAX_CONCURRENT_TRANSFERS: usize = 24;
const CHAINS: [&str; 3] = ["base", "optimism", "arbitrum"];
const SYMBOLS: [&str; 6] = ["ETH", "WETH", "USDC", "USDT", "DAI", "TAIL"];
const TRADES: [&str; 3] = ["EXACT_INPUT", "EXACT_OUTPUT", "EXPECTED_OUTPUT"];

/// SplitMix64: a seed must repeat a run.
struct Rng(u64);

impl Rng {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.roll(choices.len() as u64)).unwrap()]
    }

    /// Worth a dollar to two thousand, and not a round number.
    fn wish(&mut self, harness: &Harness) -> (Wish, bool, u64) {
        loop {
            let from = place(harness, self.of(&CHAINS), self.of(&SYMBOLS));
            let to = place(harness, self.of(&CHAINS), self.of(&SYMBOLS));
            let (trade, to_self, cents) = (self.of(&TRADES), self.roll(4) == 0, 100 + self.roll(199_901));
            let here = from.chain.id == to.chain.id;
            // More pools than a trade may go through.
            if here && way(from.symbol, to.symbol).len() > domain::swap::MAX_HOPS {
                continue;
            }
            let mut wish = if trade == "EXACT_INPUT" {
                Wish::exact_input(from, to, cents)
            } else {
                Wish::output(trade, from, to, cents)
            };
            wish.amount += U256::from(self.roll(997));
            if self.roll(3) == 0 {
                let fee = self.roll(200).to_string();
                wish.more["appFees"] = json!([{"recipient": new_account().address, "fee": fee}]);
            }
            if !here && !to.currency.is_zero() && self.roll(4) == 0 {
                wish.more["topupGas"] = json!(true);
            }
            return (wish, to_self && from.key() != to.key(), cents);
        }
    }
}

/// A pair of tokens with pools between them.
type Edge = (&'static str, &'static str);

const EDGES: [Edge; 4] = [("USDC", "DAI"), ("USDC", "USDT"), ("WETH", "TAIL"), ("WETH", "USDC")];

/// The pairs a trade goes through: pools make a tree, with USDC and WETH in its middle.
fn way(from: &'static str, to: &'static str) -> BTreeSet<Edge> {
    let to_usdc = |symbol: &str| -> BTreeSet<Edge> {
        match symbol {
            "ETH" | "WETH" => [EDGES[3]].into(),
            "TAIL" => [EDGES[2], EDGES[3]].into(),
            "USDT" => [EDGES[1]].into(),
            "DAI" => [EDGES[0]].into(),
            _ => BTreeSet::new(),
        }
    };
    to_usdc(from).symmetric_difference(&to_usdc(to)).copied().collect()
}

/// The pools a transfer moves, on the chain of each side. A currency of the inventory is not traded; any other goes the
/// shortest way to one.
fn pools(wish: &Wish) -> [BTreeSet<Edge>; 2] {
    let tail = |symbol| if symbol == "TAIL" { [EDGES[2]].into() } else { BTreeSet::new() };
    if wish.from.chain.id == wish.to.chain.id {
        [way(wish.from.symbol, wish.to.symbol), BTreeSet::new()]
    } else {
        [tail(wish.from.symbol), tail(wish.to.symbol)]
    }
}

/// The block of the last trade, by chain and pair.
type Locks = BTreeMap<(u64, Edge), Mutex<u64>>;

/// The expected changes of the books when all is done, by chain and currency.
#[derive(Default)]
struct Ledger {
    deposited: BTreeMap<(u64, Address), U256>,
    paid: BTreeMap<(u64, Address), U256>,
    fees: BTreeMap<(u64, Address), U256>,
    fill_gas: BTreeMap<u64, U256>,
    kinds: BTreeMap<String, usize>,
    options: BTreeMap<String, usize>,
}

fn add<K: Ord>(sums: &mut BTreeMap<K, U256>, key: K, amount: U256) {
    *sums.entry(key).or_default() += amount;
}

struct Run<'a> {
    harness: &'a Harness,
    service: &'a Service,
    locks: &'a Locks,
    slots: &'a Semaphore,
    ledger: &'a std::sync::Mutex<Ledger>,
}

impl Run<'_> {
    /// Locks in one order for all, so that there is no deadlock.
    async fn hold(&self, wish: &Wish) -> Result<Vec<((u64, Edge), MutexGuard<'_, u64>)>> {
        let [origin, destination] = pools(wish);
        let origin = origin.into_iter().map(|edge| (wish.from.chain.id, edge));
        let all: BTreeSet<_> = origin.chain(destination.into_iter().map(|edge| (wish.to.chain.id, edge))).collect();
        let mut held = Vec::new();
        for key in all {
            held.push((key, self.locks[&key].lock().await));
        }
        Ok(held)
    }

    async fn transfer(&self, wish: &Wish, to_self: bool, cents: u64) -> Result<()> {
        let Wish { from, to, .. } = *wish;
        let mut held = self.hold(wish).await?;
        let slot = self.slots.acquire().await?;
        // Enough for the fees of a fixed output, and for the headroom for pools to move.
        let user = from.holder(from.worth(cents + cents / 5 + 1_000)).await?;
        let recipient = if to_self { user.address } else { new_account().address };
        let had = (from.balance(user.address).await?, to.balance(recipient).await?);
        for ((chain, _), block) in &held {
            let chain = if *chain == from.chain.id { from.chain } else { to.chain };
            seen(self.service, chain, **block).await?;
        }
        let quote = self.harness.quote(&wish.body(user.address, recipient)).await?;
        let (gas, mined) = act(from.chain, &quote, &user).await?;
        let here = from.chain.id == to.chain.id;
        for (_, block) in held.iter_mut().filter(|((chain, _), _)| *chain == from.chain.id) {
            **block = mined;
        }
        // The user's own trade is over; the fill's is still to come.
        held.retain(|((chain, _), _)| !here && *chain == to.chain.id);
        let kind = if here { self.on_one_chain(wish, &quote) } else { self.filled(wish, &quote, &mut held).await? };
        drop(held);
        drop(slot);

        let gas_of = |place: Place| if place.currency.is_zero() { gas } else { U256::ZERO };
        let spent = had.0 - from.balance(user.address).await? - gas_of(from);
        let own_gas = if to_self && here { gas_of(to) } else { U256::ZERO };
        let delivered = to.balance(recipient).await? + own_gas - had.1;
        let details = &quote["details"];
        let input = amount(&details["currencyIn"]["amount"]);
        ensure!(spent == input, "{spent} were spent instead of {input}");
        ensure!(delivered == out(&quote), "{delivered} were delivered instead of {}", out(&quote));
        let minimum = amount(&details["currencyOut"]["minimumAmount"]);
        ensure!(delivered >= minimum, "{delivered} were delivered, less than {minimum}");
        let top_up = &details["currencyGasTopup"]["amount"];
        if let Some(top_up) = top_up.as_str() {
            let gas = to.chain.balance(Address::ZERO, recipient).await?;
            ensure!(gas >= top_up.parse::<U256>()?, "{gas} instead of the {top_up} to top up with");
        }
        let fixed = if wish.trade == "EXACT_INPUT" { input } else { out(&quote) };
        let met = if wish.trade == "EXPECTED_OUTPUT" { fixed >= wish.amount } else { fixed == wish.amount };
        ensure!(met, "{fixed} instead of the {} that was asked for", wish.amount);
        let mut ledger = self.ledger.lock().unwrap();
        *ledger.kinds.entry(format!("{kind}, {}", wish.trade)).or_default() += 1;
        for member in wish.more.as_object().into_iter().flat_map(|more| more.keys()) {
            *ledger.options.entry(member.clone()).or_default() += 1;
        }
        Ok(())
    }

    /// A same-chain transaction: its fees are the treasury's.
    fn on_one_chain(&self, wish: &Wish, quote: &Value) -> String {
        let fee = amount(&quote["fees"]["relayer"]["amount"]) + amount(&quote["fees"]["app"]["amount"]);
        add(&mut self.ledger.lock().unwrap().fees, wish.from.key(), fee);
        format!("same-chain: {}", quote["details"]["operation"].as_str().unwrap_or_default())
    }

    async fn filled(
        &self,
        wish: &Wish,
        quote: &Value,
        held: &mut [((u64, Edge), MutexGuard<'_, u64>)],
    ) -> Result<String> {
        let status = self.harness.wait_for(request_id(quote), "success").await?;
        let fill = status["txHashes"][0].as_str().context("a fill")?.parse()?;
        let receipt = wish.to.chain.receipt(fill).await?;
        for (_, block) in held {
            **block = receipt.block_number.context("a mined transaction has a block")?;
        }
        let promise = stored(self.service, quote).await?;
        let traded = (promise.origin_swap.is_some(), promise.destination_swap.is_some());
        let [origin, destination] = pools(wish);
        ensure!(traded == (!origin.is_empty(), !destination.is_empty()), "trades other than it must: {traded:?}");
        let terms = promise.terms.context("an order")?;
        let key = |key: &domain::quote::CurrencyKey| (key.chain.0, key.address.evm().unwrap_or_default());
        let mut ledger = self.ledger.lock().unwrap();
        add(&mut ledger.deposited, key(&terms.deposit), promise.figures.deposit.units());
        add(&mut ledger.paid, key(&terms.payout), promise.figures.paid.units());
        let top_up = promise.figures.top_up.unwrap_or_default().units();
        add(&mut ledger.paid, (wish.to.chain.id, Address::ZERO), top_up);
        let gas = U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
        add(&mut ledger.fill_gas, wish.to.chain.id, gas);
        let kind = match traded {
            (false, false) => "crossing",
            (true, false) => "crossing: origin trade",
            (false, true) => "crossing: destination trade",
            (true, true) => "crossing: trades on both sides",
        };
        Ok(kind.to_owned())
    }
}

const STOCK_CENTS: u64 = 100_000_000;

/// Stocks the treasury with every currency it may pay out, so that every pair has its direct route.
async fn stock(harness: &Harness) -> Result<()> {
    for chain in CHAINS {
        let spend_limiter = harness.chain(chain).contracts.spend_limiter;
        let mut calls = Vec::new();
        for symbol in ["WETH", "USDT", "DAI"] {
            let place = place(harness, chain, symbol);
            let stock = place.worth(STOCK_CENTS);
            place.chain.set_token_balance(place.currency, harness.treasury.address, stock).await?;
            calls.push((place.currency, calldata::approve(spend_limiter, stock)));
            for filler in &harness.fillers {
                let limit = SpendLimiter::setLimitCall { filler: filler.address, token: place.currency, amount: stock };
                calls.push((place.currency, calldata::approve(filler.address, stock)));
                calls.push((spend_limiter, limit.abi_encode().into()));
            }
        }
        harness.chain(chain).send_all(harness.treasury.private_key, calls).await?;
        for filler in &harness.fillers {
            harness.chain(chain).set_balance(filler.address, place(harness, chain, "ETH").worth(STOCK_CENTS)).await?;
        }
    }
    Ok(())
}

/// Balances by chain and currency: of the depository, the treasury, and all wallets together.
async fn books(harness: &Harness) -> Result<[BTreeMap<(u64, Address), U256>; 3]> {
    let mut books = [const { BTreeMap::new() }; 3];
    for place in CHAINS.iter().flat_map(|chain| SYMBOLS.map(|symbol| place(harness, chain, symbol))) {
        books[0].insert(place.key(), place.balance(harness.depository).await?);
        books[1].insert(place.key(), place.balance(harness.treasury.address).await?);
        for filler in &harness.fillers {
            add(&mut books[2], place.key(), place.balance(filler.address).await?);
        }
    }
    Ok(books)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_random_quotes_come_true_to_the_unit() -> Result<()> {
    let began = std::time::Instant::now();
    let seed = match std::env::var("CAUSEWAY_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs(),
    };
    println!("CAUSEWAY_SEED={seed}");
    let harness = Harness::isolated(|_| ()).await?;
    stock(&harness).await?;
    let service = serve(&harness).await?;
    super::caught_up(&harness, &service).await?;
    let before = books(&harness).await?;
    println!("ready after {:?}", began.elapsed());

    let mut rng = Rng(seed);
    let options: Vec<_> = (0..TRANSFERS).map(|_| rng.wish(&harness)).collect();
    let chains = harness.devnet.chains.iter().map(|chain| chain.id);
    let locks = chains.flat_map(|chain| EDGES.map(|edge| ((chain, edge), Mutex::new(0)))).collect();
    let (slots, ledger) = (Semaphore::new(MAX_CONCURRENT_TRANSFERS), std::sync::Mutex::default());
    let run = Run { harness: &harness, service: &service, locks: &locks, slots: &slots, ledger: &ledger };
    let transfers = options.iter().enumerate().map(|(n, (wish, to_self, cents))| {
        let run = &run;
        async move {
            let name = || {
                let Wish { from, to, trade, amount, .. } = wish;
                let (here, there) = (&from.chain.name, &to.chain.name);
                format!("{n}: {amount} {trade}, {} on {here} to {} on {there}", from.symbol, to.symbol)
            };
            run.transfer(wish, *to_self, *cents).await.with_context(name)
        }
    });
    let failures: Vec<_> = futures::future::join_all(transfers).await.into_iter().filter_map(Result::err).collect();
    let Ledger { deposited, paid, fees, fill_gas, kinds, options: asked } = ledger.into_inner()?;
    for (kind, count) in kinds.iter().chain(&asked) {
        println!("{count:4} {kind}");
    }
    let done: usize = kinds.values().sum();
    println!("{done} transfers after {:?}", began.elapsed());
    ensure!(failures.is_empty(), "{} failed: {failures:#?}", failures.len());
    ensure!(done >= 200, "only {done} transfers");

    // Nothing was made and nothing was lost on the way.
    let after = books(&harness).await?;
    for key in before[0].keys() {
        let of = |sums: &BTreeMap<(u64, Address), U256>| sums.get(key).copied().unwrap_or_default();
        assert_eq!(of(&after[0]) - of(&before[0]), of(&deposited), "the depository's {key:?}");
        let native = key.1.is_zero();
        let payer = if native { 2 } else { 1 };
        let gas = if native { fill_gas.get(&key.0).copied().unwrap_or_default() } else { U256::ZERO };
        let earned = if native { U256::ZERO } else { of(&fees) };
        assert_eq!(of(&before[payer]) + earned, of(&after[payer]) + of(&paid) + gas, "what was paid of {key:?}");
        if native {
            assert_eq!(of(&after[1]) - of(&before[1]), of(&fees), "the treasury's {key:?}");
        }
    }
    for chain in &harness.devnet.chains {
        nothing_is_left(chain).await?;
    }
    service.stop().await
}
