//! Open deposit addresses in the database: with none, with a few and with many of them, by turns on one service, so
//! that other load on the machine falls on all alike.
//!
//! Two things are timed: the fill of one deposit per block, which is on the way of the walk, and the search of a block
//! for transfers to addresses, which follows it. Addresses are put in and taken out by statements while the service
//! runs; nobody pays at them.

// Milliseconds and shares are for reading; measurements stay whole numbers.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use std::time::Duration;

use alloy::primitives::{Address, U64, keccak256};
use anyhow::{Context, Result, ensure};
use clap::Args;
use devnet::{Devnet, Progress};
use domain::ids::ChainId;
use serde::Serialize;
use store::{Store, StoreError, Tx, Value, blocks, deposit_addresses};

use super::{FILL_TIMEOUT, FillArgs, Filling, latency};
use crate::results;
use crate::socket::Subscription;
use crate::stats::{Latency, nanos};

/// Addresses of the size between none and many.
const FEW: u32 = 10;
/// The most that open addresses may add to the p50 of a fill, in percent.
const MAX_PERCENT: u64 = 20;
const ROWS_PER_STATEMENT: u32 = 500;
/// Longer than any measurement, in milliseconds since the Unix epoch.
const FAR_FUTURE: i64 = 4_000_000_000_000;

#[derive(Clone, Debug, Args)]
pub(crate) struct AddressArgs {
    #[command(flatten)]
    pub fill: FillArgs,
    /// Open addresses in the database, half of them for native currency.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(11..=2_000_000))]
    pub addresses: u32,
    /// Turns. Each takes all samples with none, with ten and with all addresses.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub turns: u16,
}

#[derive(Debug, Serialize)]
pub(crate) struct AddressReport {
    pub cores: usize,
    pub sizes: Vec<SizeStats>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SizeStats {
    pub addresses: u32,
    /// From the announcement of a deposit's block to its fill in the destination's mempool.
    pub fill: Latency,
    /// From the announcement of a block to the end of the search for transfers to addresses. None without addresses.
    pub search: Option<Latency>,
}

pub(crate) async fn measure(args: &AddressArgs) -> Result<AddressReport> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let (fillers, own) = (args.fill.lanes.into(), progress.clone());
    let devnet = Devnet::start(devnet::Options { fillers, progress: own, ..devnet::Options::default() }).await?;
    let sizes = Box::pin(on(&devnet, args, &progress)).await;
    devnet.shutdown().await?;
    let report = AddressReport { cores: std::thread::available_parallelism()?.get(), sizes: sizes? };
    results::write(args.fill.json.as_deref(), &report)?;
    Ok(report)
}

async fn on(devnet: &Devnet, args: &AddressArgs, progress: &Progress) -> Result<Vec<SizeStats>> {
    let filling = Filling::start(devnet, &args.fill, false).await?;
    let store = Store::open(&causeway::assemble::database(&filling.world.config)?)?;
    let sizes = [0, FEW, args.addresses];
    let mut taken = sizes.map(|_| (Vec::new(), Vec::new()));
    for turn in 1..=args.turns {
        for (addresses, (fills, searches)) in sizes.into_iter().zip(&mut taken) {
            progress.say(&format!("Turn {turn}: {addresses} open addresses"));
            set(&store, &filling, addresses).await?;
            fills.extend(latency::take(&filling, args.fill.samples, false, None).await?.fills);
            if addresses > 0 {
                searches.extend(searched(&store, &filling, args.fill.samples).await?);
            }
        }
    }
    store.close().await;
    ensure!(filling.served.terminate().await?.success(), "the service did not end in order");
    let stats = |(addresses, (fills, searches)): (u32, (Vec<u64>, Vec<u64>))| SizeStats {
        addresses,
        fill: Latency::of(fills),
        search: (!searches.is_empty()).then(|| Latency::of(searches)),
    };
    Ok(sizes.into_iter().zip(taken).map(stats).collect())
}

/// Leaves so many addresses in the database.
async fn set(store: &Store, filling: &Filling<'_>, addresses: u32) -> Result<()> {
    let (chain, token) = (ChainId(filling.origin().id), filling.origin().token("USDC").address);
    let clear = |tx: &mut Tx<'_>| {
        tx.execute("delete from arrival_cursor", &[])?;
        tx.execute("delete from deposit_address", &[])?;
        tx.execute("delete from request where quote = '{}'", &[])
    };
    store.write(clear).await?;
    for from in (0..addresses).step_by(usize::try_from(ROWS_PER_STATEMENT)?) {
        let to = addresses.min(from + ROWS_PER_STATEMENT);
        store.write(move |tx| insert(tx, chain, token, from..to)).await?;
    }
    if addresses == 0 {
        return Ok(());
    }
    let begin = move |tx: &mut Tx<'_>| match blocks::cursor(tx, chain)? {
        Some(at) => deposit_addresses::set_cursor(tx, chain, at),
        None => Err(StoreError::ManyRows(0)),
    };
    Ok(store.write(begin).await?)
}

/// Inserts addresses with requests that nobody reads.
fn insert(tx: &mut Tx<'_>, chain: ChainId, token: Address, numbers: std::ops::Range<u32>) -> Result<(), StoreError> {
    const ADDRESS_COLUMNS: usize = 7;
    const REQUEST_COLUMNS: usize = 3;
    let (mut addresses, mut requests, mut rows) = (Vec::<Value>::new(), Vec::<Value>::new(), 0);
    for n in numbers {
        let name = |what: &str| keccak256(format!("{what} {n}"));
        let (address, request, order) = (Address::from_word(name("address")), name("request"), name("order"));
        let native = n % 2 == 0;
        let currency = if native { Address::ZERO } else { token };
        let (chain, native) = (chain.0.try_into()?, Value::Int(native.into()));
        addresses.extend([address.into(), request.into(), order.into(), order.into(), chain, currency.into(), native]);
        requests.extend([Value::from(request), order.into(), address.into()]);
        rows += 1;
    }
    let group = |n: usize, columns: usize, rest: &str| {
        let args: Vec<String> = (1..=columns).map(|column| format!("${}", n * columns + column)).collect();
        format!("({}, {rest})", args.join(", "))
    };
    let many = |columns, rest: &str| (0..rows).map(|n| group(n, columns, rest)).collect::<Vec<_>>().join(", ");
    let ends = format!("'open', {FAR_FUTURE}, {FAR_FUTURE}, 0");
    tx.rows_dynamic(
        &format!(
            "insert into deposit_address (address, request_id, order_id, route_key, chain_id, currency, native, kind,
             watched_until, forgotten_at, created_at) values {}",
            many(ADDRESS_COLUMNS, &ends)
        ),
        &addresses,
    )?;
    tx.rows_dynamic(
        &format!(
            "insert into request (request_id, order_id, deposit_address, state, quote, created_at, updated_at, unlisted)
             values {}",
            many(REQUEST_COLUMNS, "'waiting', '{}', 0, 0, 0")
        ),
        &requests,
    )?;
    Ok(())
}

/// The times from a block's announcement to the end of its search.
async fn searched(store: &Store, filling: &Filling<'_>, samples: u64) -> Result<Vec<u64>> {
    let (origin, chain) = (filling.origin(), ChainId(filling.origin().id));
    let mut heads = Subscription::to(&origin.ws_url, "newHeads").await?;
    let mut all = Vec::new();
    for _ in 0..samples {
        heads.forget().await;
        let (seen, head) = heads.next().await?;
        let number: U64 = serde_json::from_value(head["number"].clone()).context("a head without a number")?;
        loop {
            let at = store.read(move |tx| deposit_addresses::cursor(tx, chain)).await?;
            if at.is_some_and(|at| at.number >= number.to::<u64>()) {
                break;
            }
            ensure!(seen.elapsed() < FILL_TIMEOUT, "the service does not search block {number}");
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        all.push(nanos(seen.elapsed()));
    }
    Ok(all)
}

impl AddressReport {
    /// True if fills among all addresses take longer than with none, by more than the bound.
    pub(crate) fn is_delayed(&self) -> bool {
        let (Some(none), Some(all)) = (self.sizes.first(), self.sizes.last()) else { return false };
        let most = u128::from(none.fill.p50_nanos) * u128::from(100 + MAX_PERCENT);
        u128::from(all.fill.p50_nanos) * 100 > most
    }

    pub(crate) fn print(&self) {
        println!("{} cores, shared by chains, service and load", self.cores);
        println!("\n{:>12}{:>12}{:>10}{:>14}{:>10}", "addresses", "fill p50", "p99 ms", "search p50", "p99 ms");
        let millis = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
        for SizeStats { addresses, fill, search } in &self.sizes {
            let of = |pick: fn(&Latency) -> u64| search.as_ref().map_or_else(|| "-".to_owned(), |it| millis(pick(it)));
            println!(
                "{:>12}{:>12}{:>10}{:>14}{:>10}",
                addresses,
                millis(fill.p50_nanos),
                millis(fill.p99_nanos),
                of(|it| it.p50_nanos),
                of(|it| it.p99_nanos)
            );
        }
        if let (Some(none), Some(all)) = (self.sizes.first(), self.sizes.last()) {
            let more = (all.fill.p50_nanos as f64 / none.fill.p50_nanos.max(1) as f64 - 1.0) * 100.0;
            println!("\nThe p50 of a fill among {} addresses: {more:+.1} % of that with none", all.addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_more_is_still_as_fast() {
        let size = |addresses, p50_nanos| SizeStats {
            addresses,
            fill: Latency { count: 1, p10_nanos: p50_nanos, p50_nanos, p99_nanos: p50_nanos },
            search: None,
        };
        for (all, expected) in [(80, false), (120, false), (121, true)] {
            let report = AddressReport { cores: 1, sizes: vec![size(0, 100), size(10, 500), size(100_000, all)] };
            assert_eq!(report.is_delayed(), expected, "{all}");
        }
    }
}
