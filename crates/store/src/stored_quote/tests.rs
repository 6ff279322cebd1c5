//! Rows without a version, whose members have names, are from older builds: they must be read for as long as there are
//! any.

use alloy_primitives::{Address, B256, U256};
use domain::account::{Account, Vm};
use domain::ids::ChainId;
use domain::money::{Amount, Price, Signed, UsdMicros};
use domain::quote::{Bound, CurrencyKey, Operation, OrderTerms, Prices, Quote, Swap, Trade};
use domain::sponsorship::{Bucket, Component, SponsorAsk};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use super::text::{AccountText, PriceText, SignedText, to_json};
use super::v1::{self, read_quote};
use super::{version, write};

const BRIDGE: &str = include_str!("rows/bridge.json");
const TWO_SIDED_SWAP: &str = include_str!("rows/two_sided_swap.json");
const EXACT_OUTPUT: &str = include_str!("rows/exact_output.json");
const SPONSORED_FIXED_RATE: &str = include_str!("rows/sponsored_fixed_rate.json");
const SELECTED_COMPONENTS: &str = include_str!("rows/selected_components.json");
const CALLS_AND_APP_FEES: &str = include_str!("rows/calls_and_app_fees.json");
const SAME_CHAIN: &str = include_str!("rows/same_chain.json");

/// The rows above, and as they are written today.
const ROWS: [(&str, &str); 7] = [
    (BRIDGE, include_str!("rows/lists/bridge.json")),
    (TWO_SIDED_SWAP, include_str!("rows/lists/two_sided_swap.json")),
    (EXACT_OUTPUT, include_str!("rows/lists/exact_output.json")),
    (SPONSORED_FIXED_RATE, include_str!("rows/lists/sponsored_fixed_rate.json")),
    (SELECTED_COMPONENTS, include_str!("rows/lists/selected_components.json")),
    (CALLS_AND_APP_FEES, include_str!("rows/lists/calls_and_app_fees.json")),
    (SAME_CHAIN, include_str!("rows/lists/same_chain.json")),
];

fn read(row: &str) -> Quote {
    assert_eq!(version(row), Some(1));
    read_quote(row).unwrap()
}

#[test]
fn a_row_that_names_its_members_is_read_like_one_that_lists_them() {
    for (named, listed) in ROWS {
        let quote = read(named);
        assert_eq!(read(listed), quote);
        assert_eq!(write(&quote), listed.trim_end());
    }
}

#[test]
fn two_rows_fit_a_page_and_of_a_bridge_three() {
    let length = |row| write(&read(row)).len();
    for (row, _) in ROWS {
        assert!(length(row) <= 1_900, "{row}");
    }
    assert!(length(BRIDGE) <= 1_200);
}

/// A member in the place of another would be read without an error: no two may be equal here.
#[test]
fn each_member_of_a_list_comes_back_as_itself() {
    let amount = |units: u64| Amount::new(U256::from(units));
    let mut quote = read(SPONSORED_FIXED_RATE);
    let figures = &mut quote.figures;
    (figures.input, figures.deposit, figures.exchanged) = (amount(1), amount(2), amount(3));
    (figures.paid, figures.output, figures.minimum) = (amount(4), amount(5), amount(6));
    (figures.top_up, figures.origin_gas, figures.slippage_bps) = (Some(amount(7)), amount(8), 9);
    figures.time_estimate_secs = 10;
    let [origin, deposit, origin_native, payout, destination, destination_native] =
        [1, 2, 3, 4, 5, 6].map(|answer| Price::new(answer, 8).unwrap());
    figures.prices = Prices { origin, deposit, origin_native, payout, destination, destination_native };
    let terms = quote.terms.as_mut().unwrap();
    (terms.deadline, terms.salt, terms.exchange) = (11, B256::repeat_byte(12), true);
    let addresses = [13, 14, 15].map(Address::repeat_byte);
    [terms.solver, terms.origin_router, terms.destination_router] = addresses;
    let names = ["one", "another", "a third"].map(str::to_owned);
    [terms.solver_chain, terms.origin_chain, terms.destination_chain] = names.map(Into::into);
    let place = |chain| CurrencyKey { chain: ChainId(chain), address: Address::repeat_byte(chain as u8).into() };
    (terms.deposit, terms.payout) = (place(16), place(17));
    let swap = read(TWO_SIDED_SWAP).origin_swap;
    quote.origin_swap = swap.clone().map(|swap| Swap { input: amount(18), output: amount(19), ..swap });
    quote.destination_swap = swap.map(|swap| Swap { input: amount(20), output: amount(21), ..swap });
    assert_eq!(read(&write(&quote)), quote);
}

#[test]
fn terms_stand_where_they_did() {
    let listed = r#"[1,"0x0202020202020202020202020202020202020202020202020202020202020202","0x0303030303030303030303030303030303030303","four","five","six","0x0707070707070707070707070707070707070707","0x0808080808080808080808080808080808080808",[9,"0x0909090909090909090909090909090909090909"],[10,"0x0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"],true]"#;
    let place = |chain| CurrencyKey { chain: ChainId(chain), address: Address::repeat_byte(chain as u8).into() };
    let terms = OrderTerms {
        deadline: 1,
        salt: B256::repeat_byte(2),
        solver: Address::repeat_byte(3),
        solver_chain: "four".into(),
        origin_chain: "five".into(),
        destination_chain: "six".into(),
        origin_router: Address::repeat_byte(7),
        destination_router: Address::repeat_byte(8),
        deposit: place(9),
        payout: place(10),
        exchange: true,
    };
    assert_eq!(to_json(&v1::Terms::from(&terms)), listed);
    assert_eq!(OrderTerms::from(serde_json::from_str::<v1::Terms<'_>>(listed).unwrap()), terms);
}

#[test]
fn a_text_with_something_to_escape_is_escaped() {
    #[derive(Serialize)]
    struct Said<'a>(#[serde(serialize_with = "plain")] &'a str);
    fn plain<S: Serializer>(text: &&str, serializer: S) -> Result<S::Ok, S::Error> {
        super::text::plain(text, serializer)
    }
    for text in ["", "0x5f", "1.0:0.9996", " ~", "\"", "\\", "a\nb", "\u{7f}", "ü", r#"","user":"0x"#] {
        assert_eq!(to_json(&Said(text)), serde_json::to_string(text).unwrap(), "{text}");
    }
}

#[test]
fn a_bridge_means_what_it_did() {
    let quote = read(BRIDGE);
    assert_eq!(quote.ask.origin, CurrencyKey { chain: ChainId(8453), address: Address::repeat_byte(1).into() });
    assert_eq!(quote.ask.trade, Trade::ExactInput);
    assert_eq!(quote.figures.operation, Operation::Bridge);
    assert_eq!(quote.figures.output.to_string(), "249800000");
    assert_eq!(quote.figures.fees.fill_gas.to_string(), "180000");
    assert_eq!(quote.created_at.secs(), 1_790_000_000);
    // The order is hashed from the row after a restart.
    let id = quote.order().unwrap().id().to_string();
    assert_eq!(id, "0x8491b34cf327deb4f7f8b684bcc71b9e9ce1debfb31a3c9bd46b03bad8bf524d");
}

#[test]
fn pools_on_both_sides_mean_what_they_did() {
    let quote = read(TWO_SIDED_SWAP);
    let (origin, destination) = (quote.origin_swap.unwrap(), quote.destination_swap.unwrap());
    assert_eq!(origin.path.fees(), [3_000]);
    assert!(matches!(origin.bound, Bound::LeastOutput(_)));
    assert!(matches!(destination.bound, Bound::LeastOutput(_)));
    assert_eq!(quote.ask.refund_to, Some(Address::repeat_byte(0x33).into()));
    assert_eq!(quote.ask.ttl_secs, Some(600));
    assert!(matches!(read(EXACT_OUTPUT).destination_swap.unwrap().bound, Bound::MostInput(_)));
}

#[test]
fn a_sponsor_means_what_it_did() {
    let quote = read(SPONSORED_FIXED_RATE);
    let sponsor = quote.ask.options.sponsor.unwrap();
    assert_eq!(sponsor.selected(), [Component::Execution, Component::Swap, Component::Relay, Component::App]);
    assert_eq!(sponsor.cap, Some(UsdMicros(150_000)));
    assert_eq!(quote.ask.options.fixed_rate.unwrap().to_string(), "1.0:0.9996");
    assert_eq!(quote.figures.fixed.unwrap().market_output.to_string(), "249950000");
    let paid = quote.figures.sponsorship.unwrap();
    assert_eq!(paid.sponsored_total().unwrap().to_string(), "150000");
    assert!(paid.cap_hit);
    let picky = read(SELECTED_COMPONENTS).ask.options.sponsor.unwrap();
    assert_eq!(picky.selected(), [Component::Execution, Component::Rent]);
}

#[test]
fn options_mean_what_they_did() {
    let ask = read(CALLS_AND_APP_FEES).ask;
    assert_eq!(ask.referrer.as_deref(), Some("shop \"7\""));
    assert_eq!(ask.key.unwrap().to_string(), "key_07070707070707070707");
    assert_eq!(ask.slippage_bps, Some(70));
    let options = ask.options;
    assert_eq!(options.app_fees.iter().map(|fee| fee.bps).collect::<Vec<_>>(), [10, 5]);
    assert_eq!((options.top_up, options.tried_gas), (Some(UsdMicros(2_000_000)), Some(90_000)));
    assert_eq!(options.calls[0].data.as_ref(), [0xde, 0xad]);
    assert!(options.true_exact_output && options.no_origin_swap && options.any_impact && options.force_refund);
}

#[test]
fn a_same_chain_swap_has_no_terms() {
    let quote = read(SAME_CHAIN);
    assert_eq!(quote.terms, None);
    assert_eq!(quote.ask.recipient, Account::parse(Vm::Venue, "4711").unwrap());
}

#[test]
fn a_row_of_a_later_version_is_not_taken_for_a_broken_one() {
    assert_eq!(version(r#"{"v":2,"everything":"else"}"#), Some(2));
    assert_eq!(version("{}"), Some(1));
    assert_eq!(version("[7"), None);
    assert!(read_quote("{}").is_none());
}

fn round<T: Serialize + DeserializeOwned>(value: &T) -> (String, T) {
    let text = to_json(value);
    let back = serde_json::from_str(&text).unwrap();
    (text, back)
}

#[test]
fn places_and_prices_are_lists_and_named_members_still_load() {
    let key = CurrencyKey { chain: ChainId(10), address: Address::repeat_byte(7).into() };
    let text = to_json(&v1::Place::from(&key));
    assert_eq!(text, r#"[10,"0x0707070707070707070707070707070707070707"]"#);
    let named = r#"{"chain":10,"address":"0x0707070707070707070707070707070707070707"}"#;
    for text in [text.as_str(), named] {
        assert_eq!(CurrencyKey::from(serde_json::from_str::<v1::Place<'_>>(text).unwrap()), key);
    }
    let [origin, deposit, origin_native, payout, destination, destination_native] =
        [1, 2, 3, 4, 5, 6].map(|answer| Price::new(answer, 8).unwrap());
    let prices = Prices { origin, deposit, origin_native, payout, destination, destination_native };
    let text = to_json(&v1::Prices::from(prices));
    assert_eq!(text, r#"["1:8","2:8","3:8","4:8","5:8","6:8"]"#);
    let named = r#"{"payout":"4:8","origin":"1:8","deposit":"2:8","origin_native":"3:8","destination":"5:8",
        "destination_native":"6:8"}"#;
    for text in [text.as_str(), named] {
        assert_eq!(Prices::from(serde_json::from_str::<v1::Prices>(text).unwrap()), prices);
    }
}

#[test]
fn a_quote_of_a_time_before_balances_still_loads() {
    let ask: v1::SponsorAsk = serde_json::from_str(r#"{"selected":["Swap","Relay"],"cap":null}"#).unwrap();
    let nobody = SponsorAsk::new(Address::ZERO, vec![Component::Swap, Component::Relay], None);
    assert_eq!(SponsorAsk::from(ask), nobody);
}

#[test]
fn the_usual_selection_is_left_out() {
    let selected = vec![Component::Execution, Component::Swap, Component::Relay, Component::App];
    let usual = SponsorAsk::new(Address::ZERO, selected, None);
    let (text, back) = round(&v1::SponsorAsk::from(&usual));
    assert_eq!(text, r#"{"wallet":"0x0000000000000000000000000000000000000000"}"#);
    assert_eq!(SponsorAsk::from(back), usual);
}

#[test]
fn a_bucket_of_nothing_is_left_out_and_one_that_says_nothing_still_loads() {
    let amount = |text: &str| text.parse::<Amount>().unwrap();
    let (text, _) = round(&v1::Bucket::default());
    assert_eq!(text, "{}");
    let some = Bucket { total: Signed::cost(amount("7")), sponsored: amount("5") };
    for bucket in [Bucket::default(), some, Bucket { sponsored: Amount::ZERO, ..some }] {
        assert_eq!(Bucket::from(round(&v1::Bucket::from(bucket)).1), bucket);
    }
    let old: v1::Bucket = serde_json::from_str(r#"{"total":"0","sponsored":"0"}"#).unwrap();
    assert_eq!(Bucket::from(old), Bucket::default());
}

#[test]
fn texts_survive_storage() {
    for (vm, text) in [
        (Vm::Evm, "0xAfDe0C87685F1E800457b929986Cd944E9D4A98c"),
        (Vm::Venue, "900123"),
        // The longest that 32 bytes can be.
        (Vm::Svm, "JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG"),
    ] {
        let account = Account::parse(vm, text).unwrap();
        let stored = to_json(&AccountText::from(&account));
        let back = Account::from(serde_json::from_str::<AccountText<'_>>(&stored).unwrap());
        assert_eq!((back.text(), back.bytes()), (account.text(), account.bytes()));
    }
    let five: Amount = "5".parse().unwrap();
    for signed in [Signed::cost(five), Signed::reward(five), Signed::ZERO] {
        assert_eq!(round(&SignedText(signed)).1.0, signed);
    }
    for bad in [r#""0:8""#, r#""1""#, r#""1:99""#, r#"":""#] {
        assert!(serde_json::from_str::<PriceText>(bad).is_err(), "{bad}");
    }
}
