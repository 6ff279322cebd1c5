//! Records and lines of the export, as they are shown.

use std::collections::HashMap;

use alloy_primitives::{Address, U256};
use domain::api_key::ApiKey;
use domain::ledger::UsdcMicros;
use domain::money::{Amount, Signed, UsdMicros};
use domain::outcome::{Outcome, Sponsored};
use domain::sponsorship::{Component, SponsorAsk, Sponsorship};
use domain::subject::Purpose;
use serde_json::{Value, json};
use store::listing::{self, PaymentMade};

use super::seeds::{World, hash_of, id_of};
use crate::listing::figures::View;
use crate::listing::v3::record::RecordV3;
use crate::listing::v3::row;
use crate::wire::Rendered;

async fn shown(world: &World, letter: char, owner: Option<&ApiKey>) -> (Value, String) {
    let rendered = Rendered::new(&world.catalog).unwrap();
    let listed = world.store.list(move |tx| listing::listed(tx, id_of(letter))).await.unwrap().unwrap();
    let view = View { catalog: &world.catalog, rendered: &rendered };
    let record = serde_json::to_value(RecordV3::new(&listed, view, owner).unwrap()).unwrap();
    (record, row::row(&listed, view, owner).unwrap())
}

#[tokio::test]
async fn a_record_shows_all_that_is_known_of_a_request() {
    let world = World::sqlite().await.unwrap();
    let mut lines = String::from(row::HEADER);
    lines.push('\n');
    let kinds = [
        ("filled", 'a'),
        ("crosschain_swap", 'b'),
        ("same_chain", 'c'),
        ("send", 'd'),
        ("wrap", 'e'),
        ("unwrap", 'f'),
        ("with_calls", 'g'),
        ("refunded", 'h'),
        ("failed", 'i'),
        ("fast_filled", 'j'),
        ("gas_top_up", 'k'),
        ("fixed_rate", 'l'),
        ("child", 'p'),
    ];
    for (name, letter) in kinds {
        let (record, line) = shown(&world, letter, None).await;
        insta::assert_json_snapshot!(name, record);
        assert_eq!(line.trim_end().split(',').count(), row::HEADER.split(',').count(), "{line}");
        lines.push_str(&line);
    }
    insta::assert_snapshot!("lines", lines.replace('\r', ""));
}

#[tokio::test]
async fn a_line_shows_the_amount_of_a_refund_whoever_paid_it() {
    let world = World::sqlite().await.unwrap();
    let rendered = Rendered::new(&world.catalog).unwrap();
    let view = View { catalog: &world.catalog, rendered: &rendered };
    let mut listed = world.store.list(|tx| listing::listed(tx, id_of('h'))).await.unwrap().unwrap();
    for purpose in [Purpose::Refund, Purpose::Return, Purpose::Excess, Purpose::Payout] {
        listed.payments[0].purpose = purpose;
        let line = row::row(&listed, view, None).unwrap();
        let named: HashMap<&str, &str> = row::HEADER.split(',').zip(line.trim_end().split(',')).collect();
        let refund = ["refundTxHash", "refundCurrencySymbol", "refundAmountFormatted"].map(|name| named[name]);
        assert_eq!(refund, [hash_of('h', 2).to_string().as_str(), "USDC", "249.8"], "{purpose:?}");
    }
}

/// Money that was paid at a deposit address on another chain goes back there.
#[tokio::test]
async fn a_refund_on_a_chain_that_is_neither_end_is_shown() {
    let world = World::sqlite().await.unwrap();
    let rendered = Rendered::new(&world.catalog).unwrap();
    let view = View { catalog: &world.catalog, rendered: &rendered };
    let mut listed = world.store.list(|tx| listing::listed(tx, id_of('h'))).await.unwrap().unwrap();
    let (ask, third) = (&listed.request.quote.ask, world.catalog.chains()[2].id);
    assert!(![ask.origin.chain, ask.destination.chain].contains(&third));
    for (byte, symbol) in [(1, "USDC"), (0, "ETH")] {
        (listed.payments[0].chain, listed.payments[0].currency) = (third, Address::repeat_byte(byte));
        let record = serde_json::to_value(RecordV3::new(&listed, view, None).unwrap()).unwrap();
        let shown = &record["data"]["refundCurrencyData"];
        assert_eq!(shown["amount"], listed.payments[0].amount.to_string(), "{shown}");
        assert_eq!((&shown["currency"]["symbol"], &shown["currency"]["chainId"]), (&json!(symbol), &json!(third.0)));
    }
    // A currency that was not quoted has no price, and none is made up for it.
    listed.payments[0].currency = Address::repeat_byte(2);
    let record = serde_json::to_value(RecordV3::new(&listed, view, None).unwrap()).unwrap();
    assert_eq!(record["data"]["refundCurrencyData"], Value::Null);
}

#[tokio::test]
async fn the_order_of_a_request_shows_all_that_went_back() {
    let world = World::sqlite().await.unwrap();
    let rendered = Rendered::new(&world.catalog).unwrap();
    let view = View { catalog: &world.catalog, rendered: &rendered };
    let mut listed = world.store.list(|tx| listing::listed(tx, id_of('a'))).await.unwrap().unwrap();
    let fill = listed.payments[0];
    let purposes = [Purpose::Refund, Purpose::Return, Purpose::Excess, Purpose::Payout, Purpose::Sweep, Purpose::Relay];
    for (purpose, ordinal) in purposes.into_iter().zip(3..) {
        listed.payments.push(PaymentMade { purpose, tx: Some(hash_of('a', ordinal)), ..fill });
    }
    let record = serde_json::to_value(RecordV3::new(&listed, view, None).unwrap()).unwrap();
    let settled = &record["protocol"]["settlement"]["destination"];
    let hashes = |side: &str| {
        let all = settled[side].as_array().unwrap();
        all.iter().map(|payment| payment["transactionId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hashes("fills"), [hash_of('a', 2).to_string()]);
    assert_eq!(hashes("refunds"), [3, 4, 5, 6].map(|ordinal| hash_of('a', ordinal).to_string()));
}

#[tokio::test]
async fn only_the_integrator_of_a_request_sees_what_is_its_own() {
    let world = World::sqlite().await.unwrap();
    let gated = ["referrer", "platformFee", "apiKeyName"];
    for (owner, sees) in
        [(None, false), (Some(&world.stranger), false), (Some(&world.caller), true), (Some(&world.sibling), true)]
    {
        let (record, line) = shown(&world, 'b', owner).await;
        for member in gated {
            assert_eq!(record["data"].get(member).is_some(), sees, "{member}");
        }
        assert_eq!(line.contains("shop"), sees, "{line}");
    }
    let (record, _) = shown(&world, 'b', Some(&world.sibling)).await;
    assert_eq!(record["data"]["apiKeyName"], "shop", "the name of the key it was asked with");
    insta::assert_json_snapshot!("owned", record);
}

#[tokio::test]
async fn a_sponsored_record_shows_who_pays_each_fee_as_quoted_and_as_it_turned_out() {
    let world = World::sqlite().await.unwrap();
    let rendered = Rendered::new(&world.catalog).unwrap();
    let mut listed = world.store.list(|tx| listing::listed(tx, id_of('l'))).await.unwrap().unwrap();
    let figures = &mut listed.request.quote.figures;
    let price = figures.prices.deposit;
    let ask = SponsorAsk::new(Address::repeat_byte(0x5f), Component::DEFAULT.to_vec(), Some(UsdMicros(190_000)));
    let cost = |units: u64| Signed::cost(Amount::new(U256::from(units)));
    let fees = |execution| {
        let totals = [cost(execution), cost(0), cost(20_000), cost(0), cost(0)];
        Sponsorship::allocate(&ask, totals, price, 6).unwrap()
    };
    figures.sponsorship = Some(fees(180_000));
    let (wallet, payment, drift) = (ask.wallet, UsdcMicros(170_000), UsdcMicros(0));
    let sponsored = Sponsored { wallet, fees: fees(150_000), payment, drift, market: None };
    listed.outcome = Some(Outcome { price, sponsored: Some(sponsored), app_fees: Vec::new() });
    let view = View { catalog: &world.catalog, rendered: &rendered };
    let record = serde_json::to_value(RecordV3::new(&listed, view, None).unwrap()).unwrap();
    let sponsorship = &record["data"]["feeSponsorship"];
    assert_eq!(sponsorship["quoted"]["capHit"], true);
    assert_eq!(sponsorship["actual"]["capHit"], false);
    insta::assert_json_snapshot!("sponsored", sponsorship);
}
