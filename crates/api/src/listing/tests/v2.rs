//! The older listing: each of its parameters on both engines, its refusals, and its records.

use alloy_primitives::Address;
use axum::extract::Query;
use axum::response::IntoResponse;
use domain::api_key::ApiKey;
use domain::catalog::Currency;
use domain::deposit_address::Kind;
use domain::ledger::UsdcMicros;
use domain::money::{Price, Signed};
use domain::outcome::{Outcome, Sponsored};
use domain::sponsorship::{Component, SponsorAsk, Sponsorship};
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::deposit_addresses::Shown;
use store::listing::{self, DepositMissed, Listed};
use store::records::Direction;

use super::seeds::{self, World, hash_of, id_of, letter_of};
use super::{ALL, account, escape, on_both_engines, sorted};
use crate::error::ApiError;
use crate::listing::figures::View;
use crate::listing::v2::query::{Asked, V2Query};
use crate::listing::v2::record::{Reading, RecordV2};
use crate::wire::Rendered;

on_both_engines! {
    every_parameter_finds_what_it_names_and_nothing_else
    pages_and_sortings_are_those_of_the_interface
    a_query_that_does_not_fit_is_refused_by_the_name_of_its_field
}

async fn read(world: &World, caller: Option<&ApiKey>, query: &str) -> Result<Asked, ApiError> {
    let uri: axum::http::Uri = format!("/requests/v2?{query}").parse().unwrap();
    let Query(parsed) = Query::<V2Query>::try_from_uri(&uri).unwrap();
    parsed.read(world.lookup(), caller).await
}

/// The letters that a query without a key finds, in its order.
async fn found(world: &World, query: &str) -> anyhow::Result<String> {
    let asked = read(world, None, query).await.map_err(|error| anyhow::anyhow!("{query}: {error}"))?;
    let (search, catalog) = (asked.search, world.catalog.clone());
    let page = world.store.list(move |tx| search.page(tx, &catalog, None, 50)).await?;
    Ok(page.found.iter().map(|listed| letter_of(listed.request.id)).collect())
}

/// A query, and the letters it finds. The name before `=` is its filter.
fn cases() -> Vec<(String, &'static str)> {
    let of = |name: &str, value: &str, letters| (format!("{name}={}", escape(value)), letters);
    vec![
        // As sender, as recipient, and as the address to pay at, which is how published clients ask.
        of("user", &account(0x44), "b"),
        of("user", &account(0x33), "bh"),
        of("user", &account(0x33).to_uppercase().replace("0X", "0x"), "bh"),
        of("user", &account(seeds::DEPOSIT_ADDRESS), "t"),
        of("hash", &hash_of('a', 1).to_string(), "a"),
        of("hash", &hash_of('a', 2).to_string(), "a"),
        of("hash", &hash_of('h', 2).to_string(), "h"),
        of("hash", &hash_of('s', 2).to_string(), "s"),
        of("hash", &hash_of('b', 1).to_string(), ""),
        of("originChainId", "10", "r"),
        of("destinationChainId", "10", "abghijklpqstu"),
        of("chainId", "10", "abghijklpqrstu"),
        of("status", "success", "acdefru"),
        // One fill is on its way.
        of("status", "pending", "bgjklpqt"),
        of("status", "failure", "i"),
        of("status", "refund", "h"),
        of("status", "depositing", "s"),
        of("startTimestamp", "1790000017", "qrstu"),
        of("endTimestamp", "1790000002", "ab"),
        // Only the user's transactions count: ours stand in blocks above 200.
        of("startBlock", "108", "htu"),
        of("startBlock", "201", ""),
        of("endBlock", "101", "a"),
        of("referrer", "shop", "bq"),
        of("referrer", "Shop", ""),
        of("apiKey", seeds::OWN_KEY, "b"),
        of("apiKey", seeds::OWN_TEXT, "b"),
        of("apiKey", "key_ffffffffffffffffffff", ""),
        // One key, not a list.
        of("apiKey", &format!("{},{}", seeds::OWN_KEY, seeds::FOREIGN_KEY), ""),
        of("id", &id_of('c').to_string(), "c"),
        of("orderId", &seeds::order_of('d').to_string(), "d"),
        of("depositAddress", &account(seeds::DEPOSIT_ADDRESS), "t"),
        of("depositAddress", &account(0x76), ""),
    ]
}

/// Those whose meaning does not change with another parameter.
fn is_plain(query: &str) -> bool {
    !["chainId=", "originChainId=", "startBlock=", "endBlock=", "id=", "orderId="]
        .iter()
        .any(|name| query.starts_with(name))
}

async fn every_parameter_finds_what_it_names_and_nothing_else(world: World) -> anyhow::Result<()> {
    assert_eq!(sorted(&found(&world, "").await?), ALL);
    let cases = cases();
    for (query, letters) in &cases {
        assert_eq!(sorted(&found(&world, query).await?), *letters, "{query}");
        assert!(letters.len() < ALL.len(), "{query} would find the same if it were ignored");
    }
    let name = |query: &str| query.split('=').next().unwrap().to_owned();
    for (at, (one, of_one)) in cases.iter().enumerate().filter(|(_, (one, _))| is_plain(one)) {
        for (other, of_other) in cases[at..].iter().filter(|(other, _)| is_plain(other) && name(other) != name(one)) {
            // A range that ends before it starts is refused.
            if (name(one).as_str(), name(other).as_str()) == ("startTimestamp", "endTimestamp") {
                continue;
            }
            let both: String = of_one.chars().filter(|letter| of_other.contains(*letter)).collect();
            assert_eq!(sorted(&found(&world, &format!("{one}&{other}")).await?), both, "{one}&{other}");
        }
    }
    for (query, letters) in [
        ("chainId=10&destinationChainId=8453", "cdefr"),
        ("chainId=8453&originChainId=10", "r"),
        ("startBlock=101&endBlock=101&originChainId=8453", "a"),
        ("startBlock=101&endBlock=103", "ac"),
        // Times are those of the creation, whatever is sorted by.
        ("startTimestamp=1790000100&sortBy=updatedAt", ""),
        ("startTimestamp=1790000017&sortBy=updatedAt", "qrstu"),
        ("privateChainsToInclude=other", ALL),
        ("includeChildRequests=true", ALL),
    ] {
        assert_eq!(sorted(&found(&world, query).await?), letters, "{query}");
    }
    let id = id_of('a');
    assert_eq!(sorted(&found(&world, &format!("id={id}&includeChildRequests=true")).await?), "ap");
    let private = format!("privateChainsToInclude=x,{}", seeds::PRIVATE);
    assert_eq!(sorted(&found(&world, &private).await?), format!("{}m{}", &ALL[..12], &ALL[12..]));
    // Those that wait and those that nobody paid for are shown to whoever names them.
    for (letter, shown) in [('n', "n"), ('o', "o"), ('m', "")] {
        assert_eq!(found(&world, &format!("id={}", id_of(letter))).await?, shown);
        assert_eq!(found(&world, &format!("orderId={}", seeds::order_of(letter))).await?, shown);
    }
    Ok(())
}

async fn pages_and_sortings_are_those_of_the_interface(world: World) -> anyhow::Result<()> {
    let reversed = |letters: &str| letters.chars().rev().collect::<String>();
    // A refund was a while later than the rest.
    let by_change = "abcdefgijklpqrstuh";
    for (query, letters) in [
        ("", reversed(ALL)),
        ("sortBy=createdAt&sortDirection=asc", ALL.to_owned()),
        ("sortBy=updatedAt", reversed(by_change)),
        ("sortBy=updatedAt&sortDirection=asc", by_change.to_owned()),
    ] {
        assert_eq!(found(&world, query).await?, letters, "{query}");
    }
    for (query, limit) in [("", 20), ("limit=1", 1), ("limit=50", 50)] {
        assert_eq!(read(&world, None, query).await.unwrap().limit, limit);
    }
    let asked =
        read(&world, None, "continuation=abc&includeOrderData=true&includeAuthenticatedData=true").await.unwrap();
    assert!(asked.order_data && asked.authenticated && asked.continuation.as_deref() == Some("abc"));
    let (search, catalog) = (asked.search, world.catalog.clone());
    let paged = world.store.list(move |tx| {
        let (mut letters, mut after) = (String::new(), None);
        loop {
            let page = search.page(tx, &catalog, after, 4)?;
            letters.extend(page.found.iter().map(|listed| letter_of(listed.request.id)));
            after = page.last;
            if after.is_none() {
                return Ok::<_, store::StoreError>(letters);
            }
        }
    });
    assert_eq!(paged.await?, reversed(ALL));
    Ok(())
}

async fn a_query_that_does_not_fit_is_refused_by_the_name_of_its_field(world: World) -> anyhow::Result<()> {
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=51", "limit"),
        ("user=0x12", "user"),
        ("hash=0xab", "hash"),
        ("originChainId=base", "originChainId"),
        ("destinationChainId=-1", "destinationChainId"),
        ("chainId=1.5", "chainId"),
        ("id=0x12", "id"),
        ("orderId=7", "orderId"),
        ("includeOrderData=yes", "includeOrderData"),
        ("includeChildRequests=1", "includeChildRequests"),
        ("includeAuthenticatedData=1", "includeAuthenticatedData"),
        ("startTimestamp=yesterday", "startTimestamp"),
        ("startTimestamp=5&endTimestamp=4", "startTimestamp"),
        ("endBlock=-5", "endBlock"),
        ("startBlock=5&endBlock=4", "startBlock"),
        ("referrer=", "referrer"),
        ("depositAddress=0xzz", "depositAddress"),
        ("status=waiting", "status"),
        ("status=submitted", "status"),
        ("status=fallback", "status"),
        ("sortBy=amountUsd", "sortBy"),
        ("sortDirection=up", "sortDirection"),
    ] {
        let Err(error) = read(&world, None, query).await else { anyhow::bail!("{query} is accepted") };
        let message = error.to_string();
        assert!(message.starts_with(field), "{query}: {message}");
        assert_eq!(error.into_response().status().as_u16(), 400, "{query}: {message}");
    }
    Ok(())
}

/// How a record is asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Asking<'a> {
    caller: Option<&'a ApiKey>,
    authenticated: bool,
    order_data: bool,
}

async fn shown(world: &World, letter: char, asking: Asking<'_>, price_now: PriceNow<'_>) -> Value {
    render(world, &stored(world, letter).await, asking, price_now)
}

type PriceNow<'a> = &'a dyn Fn(&Currency) -> Option<Price>;

pub(super) async fn stored(world: &World, letter: char) -> Listed {
    world.store.list(move |tx| listing::listed(tx, id_of(letter))).await.unwrap().unwrap()
}

pub(super) fn render(world: &World, listed: &Listed, asking: Asking<'_>, price_now: PriceNow<'_>) -> Value {
    let rendered = Rendered::new(&world.catalog).unwrap();
    let Asking { caller, authenticated, order_data } = asking;
    let view = View { catalog: &world.catalog, rendered: &rendered };
    let reading = Reading { view, price_now, caller, authenticated, order_data };
    serde_json::to_value(RecordV2::new(listed, reading).unwrap()).unwrap()
}

pub(super) fn nobody_knows(_: &Currency) -> Option<Price> {
    None
}

#[tokio::test]
async fn a_record_shows_all_that_is_known_of_a_request() {
    let world = World::sqlite().await.unwrap();
    for (name, letter) in [
        ("v2_filled", 'a'),
        ("v2_app_fees", 'b'),
        ("v2_same_chain_swap", 'c'),
        ("v2_send", 'd'),
        ("v2_wrap", 'e'),
        ("v2_unwrap", 'f'),
        ("v2_with_calls", 'g'),
        ("v2_refunded", 'h'),
        ("v2_failed", 'i'),
        ("v2_fast_filled", 'j'),
        ("v2_gas_top_up", 'k'),
        ("v2_fixed_rate", 'l'),
        ("v2_child", 'p'),
    ] {
        insta::assert_json_snapshot!(name, shown(&world, letter, Asking::default(), &nobody_knows).await);
    }
}

#[tokio::test]
async fn a_sponsored_request_shows_who_pays_before_and_after_its_fill() {
    let world = World::sqlite().await.unwrap();
    let mut listed = stored(&world, 'a').await;
    let dollar = listed.request.quote.figures.prices.deposit;
    let ask = SponsorAsk::new(Address::repeat_byte(0x5f), Component::DEFAULT.to_vec(), None);
    let totals = |execution: u128| [execution, 0, 30_000, 0, 0].map(|fee| Signed::cost(seeds::units(fee)));
    let quoted = Sponsorship::allocate(&ask, totals(200_000), dollar, 6).unwrap();
    let fees = Sponsorship::allocate(&ask, totals(150_000), dollar, 6).unwrap();
    listed.request.quote.figures.sponsorship = Some(quoted);
    let before = render(&world, &listed, Asking::default(), &nobody_knows);
    assert_eq!(before["data"]["subsidizedFee"]["origin"]["amount"], "230000");
    assert_eq!(before["data"]["subsidizedFee"]["sponsor"]["amount"], "0", "nothing has left the balance");
    assert!(before["data"]["feeSponsorship"].get("actual").is_none());
    let (payment, drift) = (UsdcMicros(180_000), UsdcMicros::ZERO);
    let sponsored = Sponsored { wallet: ask.wallet, fees, payment, drift, market: None };
    listed.outcome = Some(Outcome { price: dollar, sponsored: Some(sponsored), app_fees: Vec::new() });
    insta::assert_json_snapshot!("v2_sponsored", render(&world, &listed, Asking::default(), &nobody_knows));
}

#[tokio::test]
async fn a_request_shows_its_deposit_address_under_the_names_of_then() {
    let world = World::sqlite().await.unwrap();
    let mut listed = stored(&world, 'a').await;
    let shown = Shown {
        address: Address::repeat_byte(0x77),
        kind: Kind::Strict,
        recovery: None,
        depositor: None,
        deposit_tx: None,
        superseded_by: None,
    };
    listed.deposit_address = Some(shown.clone());
    let record = render(&world, &listed, Asking::default(), &nobody_knows);
    let address = account(0x77);
    let unpaid =
        json!({ "address": address, "depositAddressType": "strict", "depositor": null, "depositTxHash": null });
    assert_eq!(record["depositAddress"], unpaid);
    assert_eq!(record["data"]["supersededByRequestId"], Value::Null);
    let (depositor, tx) = (Some(Address::repeat_byte(0x78)), hash_of('a', 3));
    let superseded_by = Some(id_of('b'));
    listed.deposit_address = Some(Shown { kind: Kind::Open, depositor, deposit_tx: Some(tx), superseded_by, ..shown });
    let record = render(&world, &listed, Asking::default(), &nobody_knows);
    let paid = json!({
        "address": address,
        "depositAddressType": "open",
        "depositor": account(0x78),
        "depositTxHash": tx.to_string(),
    });
    assert_eq!(record["depositAddress"], paid);
    assert_eq!(record["data"]["supersededByRequestId"], id_of('b').to_string());
}

#[tokio::test]
async fn a_deposit_that_fell_out_of_the_chain_says_so() {
    let world = World::sqlite().await.unwrap();
    let mut listed = stored(&world, 'a').await;
    let plain = render(&world, &listed, Asking::default(), &nobody_knows);
    assert!(plain["data"]["inTxs"][0].get("metadata").is_none());
    for (record, _) in listed.txs.iter_mut().filter(|(record, _)| record.direction == Direction::In) {
        record.gone = true;
        let (chain, tx, at) = (record.chain, record.tx, Timestamp::from_millis(1_790_000_060_000));
        listed.missed = vec![DepositMissed { chain, tx, at }];
    }
    let record = render(&world, &listed, Asking::default(), &nobody_knows);
    let deposit = &record["data"]["inTxs"][0];
    assert_eq!(record["status"], "success", "which stays");
    assert_eq!(deposit["status"], "failure");
    insta::assert_json_snapshot!("v2_reorg", deposit["metadata"]);
}

#[tokio::test]
async fn a_refund_comes_before_fills_that_failed() {
    let world = World::sqlite().await.unwrap();
    let mut listed = stored(&world, 'h').await;
    let (mut failed, changes) = listed.txs.last().unwrap().clone();
    (failed.tx, failed.succeeded) = (hash_of('h', 9), false);
    let at = listed.txs.len() - 1;
    listed.txs.insert(at, (failed, changes));
    let record = render(&world, &listed, Asking::default(), &nobody_knows);
    let hashes: Vec<_> = record["data"]["outTxs"].as_array().unwrap().iter().map(|tx| tx["hash"].clone()).collect();
    assert_eq!(hashes, [hash_of('h', 2).to_string(), hash_of('h', 9).to_string()]);
    assert_eq!(record["data"]["failedTxHash"], hash_of('h', 9).to_string());
    assert_eq!(record["data"]["failedTxBlockNumber"], 208);
}

#[tokio::test]
async fn a_fill_on_its_way_is_pending() {
    let world = World::sqlite().await.unwrap();
    let record = shown(&world, 'j', Asking::default(), &nobody_knows).await;
    assert_eq!(record["status"], "pending");
    assert_eq!(record["data"]["failReason"], "N/A");
}

#[tokio::test]
async fn amounts_are_worth_what_they_are_worth_now() {
    let world = World::sqlite().await.unwrap();
    let two_dollars = |_: &Currency| Price::new(200_000_000, 8).ok();
    let record = shown(&world, 'b', Asking::default(), &two_dollars).await;
    let currency_in = &record["data"]["metadata"]["currencyIn"];
    assert_eq!(
        (&currency_in["amountUsd"], &currency_in["amountUsdCurrent"]),
        (&"250.000000".into(), &"500.000000".into())
    );
    let fee = &record["data"]["appFees"][0];
    assert_eq!((&fee["amountUsd"], &fee["amountUsdCurrent"]), (&"0.250000".into(), &"0.500000".into()));
    let record = shown(&world, 'b', Asking::default(), &nobody_knows).await;
    assert_eq!(
        record["data"]["metadata"]["currencyIn"]["amountUsdCurrent"], "250.000000",
        "as quoted, if nobody knows"
    );
}

#[tokio::test]
async fn only_its_own_integrator_sees_an_order_under_way_and_what_the_platform_earns() {
    let world = World::sqlite().await.unwrap();
    for (caller, sees) in
        [(None, false), (Some(&world.stranger), false), (Some(&world.caller), true), (Some(&world.sibling), true)]
    {
        let asking = Asking { caller, authenticated: true, order_data: true };
        let record = shown(&world, 'b', asking, &nobody_knows).await;
        assert_eq!(record["orderData"].get("output").is_some(), sees);
        assert!(record["orderData"]["inputs"][0]["payment"]["amount"].is_string());
        assert_eq!(record["data"].get("platformFee").is_some(), sees);
        assert_eq!(record["referrer"], "shop", "which was open then");
        // Not asked for, not shown.
        let record = shown(&world, 'b', Asking { caller, ..Asking::default() }, &nobody_knows).await;
        assert!(record.get("orderData").is_none() && record["data"].get("platformFee").is_none());
    }
    let all = Asking { order_data: true, ..Asking::default() };
    let ended = shown(&world, 'a', all, &nobody_knows).await;
    assert!(ended["orderData"]["output"]["payments"].is_array(), "what has ended is no secret");
    for letter in ['c', 'p'] {
        assert!(shown(&world, letter, all, &nobody_knows).await.get("orderData").is_none(), "{letter} has no order");
    }
}
