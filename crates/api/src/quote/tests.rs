//! Answers that no caller can get without a key yet: a sponsor's share, and a fixed rate.

use alloy_primitives::{Address, B256, U256};
use domain::account::Vm;
use domain::catalog::{Catalog, Chain, Class, Currency, Dex, FillGas, Presentation};
use domain::fees::AppFee;
use domain::ids::{ChainId, RequestId};
use domain::money::{Amount, Price, UsdMicros};
use domain::pair::ByClass;
use domain::pricing::{Fresh, Rates, Route, Side, Terms, draft};
use domain::quote::{Ask, CurrencyKey, Prices, QuoteOptions, Trade};
use domain::sponsorship::{Component, SponsorAsk};
use domain::terms::FastFillTerms;
use domain::time::Timestamp;
use serde_json::Value;
use solver::Quoted;

use crate::json::Answer;
use crate::quote::response::{Currencies, QuoteResponse};
use crate::wire::Rendered;

pub(crate) fn currency(chain: u64, byte: u8, id: &str, decimals: u8, class: Class) -> Currency {
    Currency {
        chain: ChainId(chain),
        address: Address::repeat_byte(byte).into(),
        id: id.to_owned(),
        symbol: id.to_uppercase(),
        name: id.to_owned(),
        decimals,
        class,
        native: byte == 0,
        logo_uri: String::new(),
        resets_allowance: false,
        authorizations: None,
        held: true,
        target: None,
    }
}

pub(crate) fn chain(id: u64, name: &str) -> Chain {
    Chain {
        id: ChainId(id),
        name: name.to_owned(),
        vm: Vm::Evm,
        presentation: Presentation {
            display_name: name.to_owned(),
            http_rpc_url: String::new(),
            ws_rpc_url: String::new(),
            explorer_url: String::new(),
            explorer_name: String::new(),
            icon_url: None,
        },
        native: currency(id, 0, "eth", 18, Class::Major),
        tokens: vec![currency(id, 1, "usdc", 6, Class::Stable), currency(id, 2, "usdt", 6, Class::Stable)],
        depository: Address::repeat_byte(0xd0),
        router: Address::repeat_byte(0xd1),
        approval_proxy: Address::repeat_byte(0xd2),
        multicall3: Address::repeat_byte(0xd3),
        spend_limiter: None,
        deposit_address_factory: None,
        dex: Some(Dex { swap_router: Address::repeat_byte(0xd4), wrapped: Address::repeat_byte(4) }),
        block_time_millis: 2_000,
        confirmations: 1,
        tiers: Vec::new(),
        fill_gas: FillGas {
            native_limit: 40_000,
            erc20_limit: 120_000,
            native_typical: 22_280,
            erc20_typical: 60_000,
            contract_typical: 65_000,
            routed_typical: 200_000,
        },
        private_id: None,
    }
}

pub(crate) fn terms() -> Terms {
    Terms {
        solver: Address::repeat_byte(0xaa),
        solver_chain: "base".to_owned(),
        flat_fee: UsdMicros(20_000),
        relay_bps: ByClass { stable: 1, major: 6, minor: 15 },
        spread_bps: ByClass { stable: 2, major: 5, minor: 30 },
        rebalance_bps: 0,
        most_impact_bps: 1_000,
        slippage_bps: 200,
        stable_slippage_bps: 50,
        order_lifetime: std::time::Duration::from_secs(604_800),
        deposit_addresses: domain::terms::DepositAddressTerms {
            lifetime: std::time::Duration::from_secs(15_552_000),
            grace: std::time::Duration::from_secs(3_600),
            watch: std::time::Duration::from_secs(2_592_000),
        },
        fast_fill: FastFillTerms { margin_bps: 200, window: std::time::Duration::from_secs(1_800) },
    }
}

/// 250 USDC on base for USDT on optimism, at prices that divide nothing evenly.
fn rendered(cap: Option<i64>, selected: &[Component], fixed_rate: Option<&str>, available: i64) -> Value {
    let catalog = Catalog::new(vec![chain(8453, "base"), chain(10, "optimism")]).unwrap();
    let (base, optimism) = (&catalog.chains()[0], &catalog.chains()[1]);
    let (usdc, usdt) = (&base.tokens[0], &optimism.tokens[1]);
    let dollars = |answer| Price::new(answer, 8).unwrap();
    let (ether, here, there) = (dollars(312_345_678_901), dollars(99_970_123), dollars(100_031_337));
    let units = |units: u128| Amount::new(U256::from(units));
    let key = |currency: &Currency| CurrencyKey { chain: currency.chain, address: currency.address.clone() };
    let ask = Ask {
        user: Address::repeat_byte(0x11).into(),
        recipient: Address::repeat_byte(0x22).into(),
        refund_to: None,
        origin: key(usdc),
        destination: key(usdt),
        trade: Trade::ExactInput,
        amount: units(250_000_000),
        slippage_bps: None,
        referrer: None,
        explicit_deposit: true,
        ttl_secs: None,
        key: None,
        options: QuoteOptions {
            app_fees: vec![AppFee { recipient: Address::repeat_byte(0x33), bps: 2 }],
            sponsor: Some(SponsorAsk::new(Address::repeat_byte(0x5f), selected.to_vec(), cap.map(UsdMicros))),
            fixed_rate: fixed_rate.map(|rate| rate.parse().unwrap()),
            ..QuoteOptions::default()
        },
    };
    let route = Route {
        origin: Side { chain: base, currency: usdc },
        deposit: usdc,
        payout: usdt,
        destination: Side { chain: optimism, currency: usdt },
    };
    let rates = Rates {
        prices: Prices {
            origin: here,
            deposit: here,
            origin_native: ether,
            payout: there,
            destination: there,
            destination_native: ether,
        },
        fill_cost: units(60_000 * 12_345_678),
        payable: units(1 << 100),
        payable_native: units(1 << 100),
        deposit_need_bps: 0,
        payout_need_bps: 0,
        hedge: None,
        origin_swap: None,
        destination_swap: None,
        losses_known: true,
        fill_millis: 12,
        sponsor_available: UsdMicros(available),
    };
    let fresh = Fresh {
        id: RequestId(B256::repeat_byte(7)),
        salt: B256::repeat_byte(9),
        now: Timestamp::from_secs(1_790_000_000),
    };
    let quote = draft(&ask, route, rates, &terms()).and_then(|draft| draft.quote(fresh)).unwrap();
    let order = quote.order();
    let order_id = order.as_ref().map(domain::order::Order::id);
    let quoted = Quoted { quote, order, order_id, steps: Vec::new(), balance: None, deposit_address: None };
    let rendered = Rendered::new(&catalog).unwrap();
    let currencies = Currencies::of(&quoted.quote, &catalog, &rendered).unwrap();
    Answer::of(&QuoteResponse::new(&quoted, &currencies, None).unwrap()).unwrap().value()
}

fn micros(usd: &Value) -> i64 {
    let text = usd.as_str().unwrap();
    assert!(text.split_once('.').is_some_and(|(_, fraction)| fraction.len() == 6) && text != "-0.000000", "{text}");
    text.replace('.', "").parse().unwrap()
}

/// Buckets, totals and every view of them, to the last digit that is shown.
fn adds_up(answer: &Value) {
    let quoted = &answer["feeSponsorship"]["quoted"];
    let components = quoted["components"].as_object().unwrap();
    assert_eq!(components.len(), 5);
    for (unit, read) in
        [("amountUsd", micros as fn(&Value) -> i64), ("amount", |it| it.as_str().unwrap().parse().unwrap())]
    {
        let sum = |member: &str| components.values().map(|bucket| read(&bucket[member][unit])).sum::<i64>();
        for bucket in components.values() {
            let parts = read(&bucket["sponsored"][unit]) + read(&bucket["userPays"][unit]);
            assert_eq!(parts, read(&bucket["total"][unit]), "{unit} {bucket}");
        }
        for totals in [quoted, &answer["feeSponsorship"]] {
            assert_eq!(sum("sponsored"), read(&totals["sponsoredTotal"][unit]), "{unit}");
            assert_eq!(sum("userPays"), read(&totals["userPaysTotal"][unit]), "{unit}");
        }
        let fees = &answer["fees"];
        assert_eq!(read(&fees["subsidized"][unit]), sum("sponsored"), "{unit}");
        let parts = read(&fees["relayerGas"][unit]) + read(&fees["relayerService"][unit]);
        assert_eq!(parts, read(&fees["relayer"][unit]), "{unit}");
        assert_eq!(read(&fees["relayer"][unit]) + read(&fees["app"][unit]), sum("total"), "{unit}");
    }
    let (details, shown) = (&answer["details"], &answer["details"]["expandedPriceImpact"]);
    let part = |member: &str| micros(&shown[member]["usd"]);
    let total = micros(&details["totalImpact"]["usd"]);
    assert_eq!(part("swap") + part("execution") + part("relay") + part("app") + part("sponsored"), total);
    assert_eq!(total, micros(&details["currencyOut"]["amountUsd"]) - micros(&details["currencyIn"]["amountUsd"]));
    let charged = micros(&answer["fees"]["relayer"]["amountUsd"]) + micros(&answer["fees"]["app"]["amountUsd"]);
    assert_eq!(micros(&details["swapImpact"]["usd"]), total + charged);
    for (bucket, member) in [("execution", "execution"), ("relay", "relay"), ("app", "app")] {
        assert_eq!(micros(&components[bucket]["total"]["amountUsd"]), -part(member), "{bucket}");
    }
    assert_eq!(micros(&answer["fees"]["subsidized"]["amountUsd"]), part("sponsored"));
}

#[test]
fn a_sponsor_is_shown_what_it_pays_of_each_fee() {
    let capped = rendered(Some(70_000), &Component::DEFAULT, None, i64::MAX);
    adds_up(&capped);
    assert_eq!(capped["feeSponsorship"]["quoted"]["capHit"], true);
    insta::assert_json_snapshot!("sponsored", capped);
    let whole = rendered(None, &Component::DEFAULT, None, i64::MAX);
    adds_up(&whole);
    assert_eq!(whole["feeSponsorship"]["quoted"]["maxSubsidizationAmount"], Value::Null);
    assert_eq!(whole["feeSponsorship"]["userPaysTotal"]["amount"], "0");
    // Who cannot pay, pays nothing.
    let poor = rendered(None, &[Component::Relay, Component::Rent], None, 0);
    adds_up(&poor);
    assert_eq!(poor["fees"]["subsidized"]["amount"], "0");
    assert_eq!(poor["feeSponsorship"]["notSponsoredReason"], "SPONSOR_BALANCE_TOO_LOW");
    assert_eq!(poor["feeSponsorship"]["quoted"]["selectedComponents"], serde_json::json!([]));
    assert_eq!(poor["feeSponsorship"]["quoted"]["components"]["relay"]["selected"], false);
    assert_eq!(whole["feeSponsorship"].get("notSponsoredReason"), None);
    let none = rendered(None, &[], None, i64::MAX);
    adds_up(&none);
    assert_eq!(none["feeSponsorship"]["notSponsoredReason"], "NO_COMPONENTS");
    assert_eq!(none["fees"]["subsidized"]["amount"], "0");
    assert_eq!(none["details"].get("userBalance"), None, "unknown is not zero");
    for cap in 0..200 {
        adds_up(&rendered(Some(cap * 997), &Component::ALL, None, i64::MAX));
    }
}

#[test]
fn a_fixed_rate_is_kept_and_what_it_costs_is_said() {
    let fixed = rendered(None, &Component::DEFAULT, Some("1:1"), i64::MAX);
    adds_up(&fixed);
    let details = &fixed["details"];
    assert_eq!((&details["isFixedRate"], &details["rate"]), (&Value::Bool(true), &Value::from("1.0")));
    assert_eq!(details["currencyOut"]["amount"], "250000000");
    assert_eq!(details["currencyOut"]["minimumAmount"], "250000000");
    assert_eq!(details["slippageTolerance"]["total"], "0");
    // The market would give less: the integrator stands for the difference.
    assert!(micros(&details["fixedRateFee"]["usd"]) < 0);
    insta::assert_json_snapshot!("fixed_rate", fixed);
    let dearer = rendered(None, &Component::DEFAULT, Some("1:0.99"), i64::MAX);
    adds_up(&dearer);
    assert_eq!(
        (&dearer["details"]["rate"], &dearer["details"]["currencyOut"]["amount"]),
        (&"0.99".into(), &"247500000".into())
    );
    assert!(micros(&dearer["details"]["fixedRateFee"]["usd"]) > 0);
}
