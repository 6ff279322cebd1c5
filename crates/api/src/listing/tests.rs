//! Every parameter of the listing, on both engines: a table of queries over one set of requests.
//!
//! The set has a request for each letter. Every query of the table leaves some of them out, so one that was ignored
//! would be noticed; and any two queries together find what both find.

mod errors;
mod kinds;
mod records;
mod seeds;
mod v2;

use std::collections::BTreeSet;

use axum::extract::Query;
use domain::api_key::ApiKey;

use self::seeds::{World, hash_of, id_of, letter_of};
use crate::error::ApiError;
use crate::listing::v3::query::{Asked, V3Query};

/// Runs each case on a fresh database of each engine.
macro_rules! on_both_engines {
    ($($case:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::listing::tests::seeds::World::sqlite().await?).await
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::listing::tests::seeds::World::postgres().await?).await
            })*
        }
    };
}
pub(crate) use on_both_engines;

on_both_engines! {
    every_filter_finds_what_it_names_and_nothing_else
    every_filter_means_the_same_in_a_group
    groups_are_alternatives_of_conjunctions
    sorting_is_by_three_keys_in_both_directions
    the_total_counts_all_pages
    children_come_with_their_parent
}

fn escape(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn read(world: &World, caller: &ApiKey, query: &str) -> Result<Asked, ApiError> {
    let uri: axum::http::Uri = format!("/requests/v3?{query}").parse().unwrap();
    let Query(parsed) = Query::<V3Query>::try_from_uri(&uri).unwrap();
    parsed.read(world.lookup(), caller).await
}

/// The letters that a query finds, in its order.
async fn found(world: &World, query: &str) -> anyhow::Result<String> {
    let asked = read(world, &world.caller, query).await.map_err(|error| anyhow::anyhow!("{query}: {error}"))?;
    let (search, catalog) = (asked.search, world.catalog.clone());
    let page = world.store.list(move |tx| search.page(tx, &catalog, None, 50)).await?;
    Ok(page.found.iter().map(|listed| letter_of(listed.request.id)).collect())
}

fn sorted(letters: &str) -> String {
    letters.chars().collect::<BTreeSet<char>>().into_iter().collect()
}

/// Everything that is shown without being named.
const ALL: &str = "abcdefghijklpqrstu";

fn account(n: u8) -> String {
    format!("0x{}", alloy_primitives::hex::encode([n; 20]))
}

/// A query, and the letters it finds. The name before `=` is its filter.
fn cases() -> Vec<(String, &'static str)> {
    let (own, foreign) = (seeds::OWN_KEY, seeds::FOREIGN_KEY);
    let of = |name: &str, value: &str, letters| (format!("{name}={}", escape(value)), letters);
    vec![
        of("user", &account(0x44), "b"),
        of("user", &account(0x44).to_uppercase().replace("0X", "0x"), "b"),
        of("recipient", &account(0x33), "bh"),
        of("id", &id_of('c').to_string(), "c"),
        of("orderId", &seeds::order_of('d').to_string(), "d"),
        of("depositTxHash", &hash_of('a', 1).to_string(), "a"),
        // The sweep, and the transfer into the address before it.
        of("depositTxHash", &hash_of('t', 1).to_string(), "t"),
        of("depositTxHash", &hash_of('t', 3).to_string(), "t"),
        of("fillTxHash", &hash_of('a', 2).to_string(), "a"),
        of("fillTxHash", &hash_of('c', 1).to_string(), "c"),
        of("refundTxHash", &hash_of('h', 2).to_string(), "h"),
        // A transaction that we send for the user is no refund.
        of("refundTxHash", &hash_of('s', 2).to_string(), ""),
        of("refundTxHash", &hash_of('t', 1).to_string(), ""),
        of("refundTxHash", &hash_of('u', 1).to_string(), ""),
        of("originChainId", "10", "r"),
        of("destinationChainId", "10", "abghijklpqstu"),
        of("chainId", "10", "abghijklpqrstu"),
        of("status", "success", "acdefru"),
        of("status", "pending", "bgjklpqt"),
        of("status", "failure", "i"),
        of("status", "refund", "h"),
        of("status", "depositing", "s"),
        of("failReason", "SOLVER_BALANCE_TOO_LOW", "h"),
        of("failReason", "UNKNOWN", ""),
        of("failReason", "DEPOSIT_REORGED", "i"),
        of("refundFailReason", "AMOUNT_TOO_LOW_TO_REFUND", "i"),
        of("apiKey", own, "b"),
        of("apiKey", &format!("{own},{foreign}"), "bq"),
        of("apiKey", seeds::OWN_TEXT, "b"),
        of("apiKey", "key_ffffffffffffffffffff", ""),
        of("requestType", "bridge", "ahijklpqstu"),
        of("requestType", "Crosschain Swap", "br"),
        of("requestType", "same-chain swap", "c"),
        of("requestType", "SEND", "d"),
        of("requestType", "wrap", "e"),
        of("requestType", "unwrap", "f"),
        of("requestType", "call", "g"),
        of("currencyInChainId", "10", "r"),
        of("currencyOutChainId", "8453", "cdefr"),
        of("currencyInAddress", &account(2), "r"),
        of("currencyOutAddress", &account(2), "bc"),
        of("currencyInSymbol", "usdt", "r"),
        of("currencyInSymbol", "eth", "e"),
        of("currencyOutSymbol", "UsDt", "bc"),
        of("features", "fast_fill", "j"),
        of("features", "gas_top_up,fixed_rate", "kl"),
        of("features", "app_fees", "b"),
        of("features", "gasless_swap", "s"),
        of("features", "deposit_address", "t"),
        of("features", "gasless_execution", "u"),
        of("features", "deposit_address,gasless_swap,gasless_execution", "stu"),
        of("startTimestamp", "1790000017", "qrstu"),
        of("endTimestamp", "1790000002", "ab"),
        of("startBlock", "108", "ahtu"),
        of("endBlock", "101", "a"),
        of("amountUsdMin", "1000", "r"),
        of("amountUsdMax", "99.5", "d"),
        of("appFeesAmountUsdMin", "0.000001", "b"),
        of("appFeesAmountUsdMax", "0", "acdefghijklpqrstu"),
        of("fillTimeMin", "4.5", "a"),
        of("fillTimeMax", "4.499", "cdef"),
        of("term", &id_of('d').to_string(), "d"),
        of("term", &seeds::order_of('e').to_string(), "e"),
        of("term", &account(0x33), "bh"),
        of("term", &hash_of('h', 2).to_string(), "h"),
        of("term", &hash_of('a', 1).to_string(), "a"),
        of("term", &hash_of('s', 2).to_string(), "s"),
        of("term", &account(seeds::DEPOSIT_ADDRESS), "t"),
        of("depositAddress", &account(seeds::DEPOSIT_ADDRESS), "t"),
        of("depositAddress", &account(0x76), ""),
    ]
}

/// Those whose meaning changes with another parameter.
fn is_plain(query: &str) -> bool {
    !["chainId=", "originChainId=", "startBlock=", "endBlock=", "id=", "orderId=", "term="]
        .iter()
        .any(|name| query.starts_with(name))
}

/// Those of the table that are the ends of one range exclude each other, which is refused.
fn are_one_range(one: &str, other: &str) -> bool {
    [("start", "end"), ("Min", "Max")].iter().any(|(from, to)| one.replace(from, to) == other)
}

async fn every_filter_finds_what_it_names_and_nothing_else(world: World) -> anyhow::Result<()> {
    assert_eq!(sorted(&found(&world, "").await?), ALL);
    let cases = cases();
    for (query, letters) in &cases {
        assert_eq!(sorted(&found(&world, query).await?), *letters, "{query}");
        assert!(letters.len() < ALL.len(), "{query} would find the same if it were ignored");
    }
    for (at, (one, of_one)) in cases.iter().enumerate() {
        let name = |query: &str| query.split('=').next().unwrap().to_owned();
        for (other, of_other) in cases[at..].iter().filter(|(other, _)| name(other) != name(one)).step_by(3) {
            if is_plain(one) && is_plain(other) && !are_one_range(&name(one), &name(other)) {
                let both: String = of_one.chars().filter(|letter| of_other.contains(*letter)).collect();
                assert_eq!(sorted(&found(&world, &format!("{one}&{other}")).await?), both, "{one}&{other}");
            }
        }
    }
    let at = account(seeds::DEPOSIT_ADDRESS);
    for (query, letters) in [
        // One side's chain overrides both.
        ("chainId=10&destinationChainId=8453", "cdefr"),
        ("chainId=8453&originChainId=10", "r"),
        // Blocks are the origin's where it is named.
        ("startBlock=200&originChainId=8453", ""),
        ("startBlock=101&endBlock=101&originChainId=8453", "a"),
        ("startTimestamp=1790000100&sortBy=updatedAt", "h"),
        ("endTimestamp=1790000099&sortBy=updatedAt&startTimestamp=1790000017", "qrstu"),
        ("features=gasless_swap&status=depositing", "s"),
        ("features=gasless_swap&status=success", ""),
        ("features=gasless_execution,deposit_address&status=success", "u"),
        (&format!("depositAddress={at}&features=deposit_address"), "t"),
        (&format!("depositAddress={at}&features=gasless_swap,gasless_execution"), ""),
        (&format!("depositAddress={at}&status=pending&destinationChainId=10"), "t"),
        (&format!("depositAddress={at}&status=success"), ""),
        ("privateChainsToInclude=other", ALL),
        ("apiKey=key_01010101010101010101&referrer=shop", "b"),
        ("apiKey=key_01010101010101010101&referrer=Shop", ""),
    ] {
        assert_eq!(sorted(&found(&world, query).await?), letters, "{query}");
    }
    // Those that wait, those on private chains and those that nobody paid for are shown to whoever names them.
    let private = format!("privateChainsToInclude={}", seeds::PRIVATE.to_uppercase());
    assert_eq!(sorted(&found(&world, &private).await?), format!("{}m{}", &ALL[..12], &ALL[12..]));
    for (letter, shown) in [('n', "n"), ('o', "o"), ('m', "")] {
        assert_eq!(found(&world, &format!("id={}", id_of(letter))).await?, shown);
        assert_eq!(found(&world, &format!("term={}", seeds::order_of(letter))).await?, shown);
    }
    assert_eq!(found(&world, &format!("id={}&{private}", id_of('m'))).await?, "m");
    assert_eq!(found(&world, &format!("id={}&originChainId=10", id_of('o'))).await?, "");
    Ok(())
}

/// A JSON group of one member.
fn group(name: &str, value: &serde_json::Value) -> String {
    serde_json::json!([{ name: value }]).to_string()
}

async fn every_filter_means_the_same_in_a_group(world: World) -> anyhow::Result<()> {
    let top_only = ["features", "term", "startTimestamp", "endTimestamp", "startBlock", "endBlock", "amountUsdMin"];
    for (query, letters) in cases() {
        let (name, value) = query.split_once('=').unwrap();
        let value: String = url::form_urlencoded::parse(format!("x={value}").as_bytes()).next().unwrap().1.into_owned();
        let range = name.starts_with("amount") || name.starts_with("appFees") || name.starts_with("fillTime");
        if range || top_only.contains(&name) {
            let refused =
                read(&world, &world.caller, &format!("filters={}", escape(&group(name, &value.into())))).await;
            assert!(refused.is_err(), "{name} is for the top level");
            continue;
        }
        let several: Vec<&str> = if name == "apiKey" { value.split(',').collect() } else { vec![value.as_str()] };
        let several = serde_json::json!(several);
        let asked = |name: &str, value| format!("filters={}", escape(&group(name, value)));
        assert_eq!(sorted(&found(&world, &asked(name, &several)).await?), letters, "{name}: {several}");
        let rest: String = ALL.chars().filter(|letter| !letters.contains(*letter)).collect();
        let not = format!("not:{name}");
        assert_eq!(sorted(&found(&world, &asked(&not, &several)).await?), rest, "{not}: {several}");
    }
    for (name, empty) in [
        ("apiKey", "acdefghijklprstu"),
        ("failReason", "abcdefgjklpqrstu"),
        ("refundFailReason", "abcdefghjklpqrstu"),
        ("fillTxHash", "bghijklpqrstu"),
        ("refundTxHash", "abcdefgijklpqrstu"),
        ("depositTxHash", "bgijklpqrs"),
        ("depositAddress", "abcdefghijklpqrsu"),
        ("user", ""),
        ("currencyInSymbol", ""),
    ] {
        let asked = |name: &str| format!("filters={}", escape(&group(name, &serde_json::Value::Null)));
        assert_eq!(sorted(&found(&world, &asked(name)).await?), empty, "{name} is empty");
        let rest: String = ALL.chars().filter(|letter| !empty.contains(*letter)).collect();
        assert_eq!(sorted(&found(&world, &asked(&format!("not:{name}"))).await?), rest, "{name} is present");
    }
    Ok(())
}

async fn groups_are_alternatives_of_conjunctions(world: World) -> anyhow::Result<()> {
    let (user, recipient) = (account(0x44), account(0x33));
    for (filters, top, letters) in [
        (serde_json::json!([]), "", ALL),
        (serde_json::json!([{}]), "", ALL),
        (serde_json::json!([{ "user": user }, { "status": "failure" }]), "", "bi"),
        (serde_json::json!([{ "user": user, "status": "failure" }]), "", ""),
        (serde_json::json!([{ "recipient": recipient, "not:user": user }]), "", "h"),
        (serde_json::json!([{ "recipient": recipient }]), "status=refund", "h"),
        (serde_json::json!([{ "status": ["failure", "refund"] }]), "", "hi"),
        (serde_json::json!([{ "originChainId": 10 }, { "requestType": "Send" }]), "", "dr"),
        (serde_json::json!([{ "originChainId": "10" }]), "", "r"),
        (serde_json::json!([{ "apiKey": seeds::OWN_KEY, "referrer": "shop" }]), "", "b"),
        (serde_json::json!([{ "apiKey": seeds::OWN_KEY, "not:referrer": "shop" }]), "", ""),
        (serde_json::json!([{ "apiKey": seeds::OWN_KEY, "not:referrer": null }]), "", "b"),
        (serde_json::json!([{ "referrer": "shop" }]), "apiKey=key_01010101010101010101", "b"),
        // Requests that wait are shown by the group that names them.
        (serde_json::json!([{ "id": [id_of('n').to_string(), id_of('o').to_string()] }]), "", "no"),
        (serde_json::json!([{ "id": id_of('o').to_string() }, { "status": "failure" }]), "", "io"),
        (serde_json::json!([{ "id": id_of('o').to_string(), "status": "failure" }]), "", ""),
    ] {
        let query = format!("filters={}&{top}", escape(&filters.to_string()));
        assert_eq!(sorted(&found(&world, &query).await?), letters, "{filters} {top}");
    }
    Ok(())
}

async fn sorting_is_by_three_keys_in_both_directions(world: World) -> anyhow::Result<()> {
    let reversed = |letters: &str| letters.chars().rev().collect::<String>();
    let by_age = ALL;
    // A refund was a while later than the rest.
    let by_change = "abcdefgijklpqrstuh";
    for (query, letters) in [
        ("", reversed(by_age)),
        ("sortDirection=asc", by_age.to_owned()),
        ("sortBy=createdAt&sortDirection=desc", reversed(by_age)),
        ("sortBy=updatedAt", reversed(by_change)),
        ("sortBy=updatedAt&sortDirection=asc", by_change.to_owned()),
    ] {
        assert_eq!(found(&world, query).await?, letters, "{query}");
    }
    // One has sent less than all, one more.
    let by_worth = found(&world, "sortBy=amountUsd").await?;
    assert!(by_worth.starts_with('d') && by_worth.ends_with('r'), "{by_worth}");
    assert_eq!(found(&world, "sortBy=amountUsd&sortDirection=desc").await?, reversed(&by_worth));
    Ok(())
}

async fn the_total_counts_all_pages(world: World) -> anyhow::Result<()> {
    let ids: Vec<String> = "acno".chars().map(|letter| id_of(letter).to_string()).collect();
    let filters = escape(&serde_json::json!([{ "id": ids }]).to_string());
    for (query, total) in
        [("includeTotal=true".to_owned(), ALL.len()), (format!("includeTotal=true&filters={filters}"), 4)]
    {
        let asked = read(&world, &world.caller, &query).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        assert!(asked.total);
        let (search, catalog) = (asked.search, world.catalog.clone());
        let letters = world
            .store
            .list(move |tx| {
                let (mut letters, mut after) = (String::new(), None);
                loop {
                    let page = search.page(tx, &catalog, after, 2)?;
                    assert_eq!(search.total(tx, &catalog)?, total as u64);
                    letters.extend(page.found.iter().map(|listed| letter_of(listed.request.id)));
                    after = page.last;
                    if after.is_none() {
                        return Ok::<_, store::StoreError>(letters);
                    }
                }
            })
            .await?;
        assert_eq!(letters.len(), total, "{letters}");
        assert_eq!(sorted(&letters).len(), total);
    }
    Ok(())
}

async fn children_come_with_their_parent(world: World) -> anyhow::Result<()> {
    let id = id_of('a');
    assert_eq!(found(&world, &format!("id={id}")).await?, "a");
    assert_eq!(sorted(&found(&world, &format!("id={id}&includeChildRequests=true")).await?), "ap");
    assert_eq!(sorted(&found(&world, "includeChildRequests=true").await?), ALL, "only together with an id");
    Ok(())
}
