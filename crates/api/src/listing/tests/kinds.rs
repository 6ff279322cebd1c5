//! Records of kinds that few requests are of: paid by signature or at an address, traded through a pool, on the venue.

use alloy_primitives::Address;
use domain::account::{Account, Vm};
use domain::quote::{Bound, CurrencyKey, Operation, Swap};
use domain::swap::Path;
use domain::venue::CHAIN;
use store::listing::Listed;
use store::records::Direction;

use super::seeds::{BASE, OPTIMISM, World, place, units};
use super::v2::{Asking, nobody_knows, render, stored};
use crate::listing::figures::View;
use crate::listing::v3::record::RecordV3;
use crate::wire::Rendered;

fn traded(from: u8, to: u8, input: u128, output: u128) -> Swap {
    let path = Path::new([from, to].map(Address::repeat_byte).to_vec(), vec![100]).unwrap();
    Swap { path, input: units(input), output: units(output), bound: Bound::LeastOutput(units(output - 1_000_000)) }
}

/// The user sells another currency for the one that is deposited.
fn pool_on_the_origin(mut listed: Listed) -> Listed {
    let quote = &mut listed.request.quote;
    (quote.ask.origin, quote.figures.operation) = (place(BASE, 2), Operation::Swap);
    quote.figures.input = units(250_300_000);
    quote.origin_swap = Some(traded(2, 1, 250_300_000, 250_000_000));
    listed
}

/// The solver sells what it pays for another currency.
fn pool_on_the_destination(mut listed: Listed) -> Listed {
    let quote = &mut listed.request.quote;
    (quote.ask.destination, quote.figures.operation) = (place(OPTIMISM, 2), Operation::Swap);
    (quote.figures.output, quote.figures.minimum) = (units(249_500_000), units(248_500_000));
    quote.destination_swap = Some(traded(1, 2, 249_800_000, 249_500_000));
    listed
}

/// Paid on the venue, whose accounts are numbers and whose hashes are longer.
fn to_the_venue(mut listed: Listed) -> Listed {
    let account = |text: &str| Account::parse(Vm::Venue, text).unwrap();
    let collateral = CurrencyKey { chain: CHAIN, address: account("0") };
    let packed = |text: &str| account(text).packed().unwrap();
    let quote = &mut listed.request.quote;
    (quote.ask.destination, quote.ask.recipient) = (collateral.clone(), account("900123"));
    quote.figures.prices.destination_native = quote.figures.prices.destination;
    if let Some(terms) = &mut quote.terms {
        (terms.payout, terms.destination_chain) = (collateral, "venue".to_owned());
    }
    for payment in &mut listed.payments {
        (payment.chain, payment.currency, payment.recipient) = (CHAIN, packed("0"), packed("900123"));
    }
    for (record, changes) in listed.txs.iter_mut().filter(|(record, _)| record.direction == Direction::Out) {
        (record.chain, record.sender, record.target) = (CHAIN, packed("281474"), Some(packed("900123")));
        changes.clear();
        listed.venue_names.insert(record.tx, "ab".repeat(40));
    }
    listed
}

#[tokio::test]
async fn records_of_rare_kinds_show_all_that_is_known_in_both_listings() {
    let world = World::sqlite().await.unwrap();
    let rendered = Rendered::new(&world.catalog).unwrap();
    let view = View { catalog: &world.catalog, rendered: &rendered };
    let filled = stored(&world, 'a').await;
    for (name, listed) in [
        ("gasless_swap", stored(&world, 's').await),
        ("deposit_address", stored(&world, 't').await),
        ("gasless_execution", stored(&world, 'u').await),
        ("pool_on_the_origin", pool_on_the_origin(filled.clone())),
        ("pool_on_the_destination", pool_on_the_destination(filled.clone())),
        ("to_the_venue", to_the_venue(filled)),
    ] {
        let record = serde_json::to_value(RecordV3::new(&listed, view, None).unwrap()).unwrap();
        insta::assert_json_snapshot!(name, record);
        insta::assert_json_snapshot!(format!("v2_{name}"), render(&world, &listed, Asking::default(), &nobody_knows));
    }
}
