//! Cases of fills that failed on the chain: who is remembered for it.

use alloy::primitives::Bytes;
use domain::quote::{Call, QuoteOptions};
use evm::blame::Blame;
use store::refused_recipients::{self, Recipient};

use super::world::*;
use crate::chain::reverts::remember_blamed;
use crate::context::refused_recipients::refused_since;

#[tokio::test]
async fn a_recipient_is_not_remembered_where_calls_ran_before_it() {
    let call = || Call { to: STRANGER, value: units(0), data: Bytes::from_static(b"burn") };
    for (calls, blame, remembered) in [
        (vec![], Blame::Recipient, true),
        (vec![call()], Blame::Recipient, false),
        (vec![call()], Blame::Call(0), false),
        (vec![], Blame::Nobody, false),
    ] {
        let world = World::new().await;
        let name = format!("{} calls, {blame:?}", calls.len());
        let quote = quote(ETH, ETH, ONE_ETHER, QuoteOptions { calls, ..QuoteOptions::default() });
        let recipient = Recipient { chain: DESTINATION, currency: ETH, address: RECIPIENT };
        let unit = world.unit(move |tx, context| {
            remember_blamed(tx, &quote, blame, context.now)?;
            Ok(refused_recipients::has_refused(tx, recipient, refused_since(context.now))?)
        });
        assert_eq!(unit.await.unwrap(), remembered, "{name}");
    }
}
