//! The promise of a quote that is paid at an address.

use std::time::Duration;

use alloy::primitives::Address;
use domain::quote::{Ask, End};
use domain::time::Timestamp;
use serde_json::json;
use store::deposit_addresses::{self, DepositAddress, Ends};
use store::{Tx, webhooks};

use crate::quoting::quote::{QuoteError, Quoted, Quoter, row};

/// Time for which an address that nobody paid at is kept beyond its order's deadline, like every other quote.
const KEPT_AFTER_DEADLINE: Duration = Duration::from_secs(86_400);

impl Quoter {
    /// Prices an ask and gives its address out. The answer is durable: from here on somebody may pay.
    pub async fn give_out(&self, ask: Ask) -> Result<Quoted, QuoteError> {
        let quoted = self.price(ask)?;
        let (quote, chain) = (&quoted.quote, quoted.quote.ask.origin.chain);
        let refused = || QuoteError::NoDepositAddresses { chain };
        let (order, address) = quoted.order_id.zip(quoted.deposit_address).ok_or_else(refused)?;
        let ask = quote.ask.options.deposit_address.ok_or_else(refused)?;
        let given = DepositAddress {
            address,
            request: quote.id,
            order,
            kind: ask.kind,
            derivation: quote.derivation(order).ok_or_else(refused)?,
            chain,
            currency: quote.ask.origin.address.evm().ok_or_else(refused)?,
            created_at: quote.created_at,
        };
        let deadline =
            quote.terms.as_ref().map_or(quote.created_at, |terms| Timestamp::from_secs(terms.deadline.into()));
        let ends = Ends {
            watched_until: quote.created_at.plus(self.solver.terms.deposit_addresses.watch),
            forgotten_at: deadline.plus(KEPT_AFTER_DEADLINE),
        };
        let stored = row(quote, Some(order));
        let unit = move |tx: &mut Tx<'_>| {
            let Some(request) = deposit_addresses::give_out(tx, &stored, &given, ends)? else { return Ok(false) };
            let figures = figures(given.address);
            webhooks::publish(tx, &request, "address-given-out", &figures, given.created_at)?;
            Ok::<_, QuoteError>(true)
        };
        match self.solver.store.write(unit).await? {
            true => Ok(quoted),
            // Transfers could not be found before the chain is followed.
            false => Err(QuoteError::ChainDisabled { end: End::Origin, chain }),
        }
    }
}

fn figures(address: Address) -> serde_json::Value {
    json!({ "address": address })
}
