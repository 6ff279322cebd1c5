//! Cases of the gas of a fill beside the gas that every node asks for its bytes.

use domain::money::Amount;
use domain::quote::{Call, QuoteOptions};

use super::decide::fill;
use super::world::*;
use crate::payments::call::PaymentCall;
use crate::payments::gas;

/// A node may say anything about the gas of a fill to a contract, or of one with calls. With less than its bytes take,
/// no node would have it, and its lane would be blocked.
#[tokio::test]
async fn no_fill_is_sent_with_less_gas_than_its_bytes_take() {
    let world = World::new().await;
    let handle = world.handle(DESTINATION);
    let call = Call { to: STRANGER, value: Amount::ZERO, data: vec![7; 600].into() };
    for (calls, to_contract) in [(vec![], true), (vec![call], false)] {
        let sent = |tried| {
            let options = QuoteOptions { tried_gas: Some(tried), calls: calls.clone(), ..QuoteOptions::default() };
            let quote = quote(ETH, ETH, ONE_ETHER, options);
            let due = fill(&quote);
            PaymentCall::of(&due, due.amount, &handle, to_contract, Some((&quote, None))).unwrap()
        };
        for tried in [0, 1, 21_000] {
            let sent = sent(tried);
            assert_eq!(sent.gas, gas::least(&sent.data, 0), "{tried}");
        }
        let sent = sent(200_000);
        assert_eq!(sent.gas, 220_000, "the estimate and a tenth");
        assert!(sent.gas > gas::least(&sent.data, 0));
    }
}
