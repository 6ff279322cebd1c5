//! A payment at a deposit address: the address as text and as a code, the amount, and where a refund goes. Exchanges,
//! and wallets that can only send, pay so.

use alloy_primitives::Address;
use domain::catalog::Catalog;
use maud::{Markup, html};
use serde_json::Value;

use super::request_table::chain_name;
use crate::json::{exact_amount, text};
use crate::markup::whole;
use crate::qr;

/// A payment that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PayAt {
    address: Address,
    /// With its symbol, to the last decimal.
    amount: String,
    chain: String,
    refund_to: String,
    /// The order takes the exact amount and nothing else.
    strict: bool,
}

impl PayAt {
    /// Of a quote's answer, if it is paid at an address.
    pub(super) fn of_quote(catalog: &Catalog, quote: &Value, refund_to: String) -> Option<Self> {
        let address = text(quote, "/steps/0/depositAddress").parse().ok()?;
        Some(Self {
            address,
            amount: exact_amount(quote, "/details/currencyIn"),
            chain: chain_name(catalog, quote, "/details/currencyIn/currency/chainId"),
            refund_to,
            strict: false,
        })
    }

    /// Of a request's record, while it waits to be paid at an address.
    pub(super) fn of_record(catalog: &Catalog, record: &Value) -> Option<Self> {
        let waits = text(record, "/status") == "waiting" && record["supersededByRequestId"].is_null();
        let address = text(record, "/depositAddress/address").parse().ok().filter(|_| waits)?;
        let paid = "/data/route/quoted/origin/inputCurrency";
        Some(Self {
            address,
            amount: exact_amount(record, paid),
            chain: chain_name(catalog, record, &format!("{paid}/currency/chainId")),
            refund_to: text(record, "/refundTo").to_owned(),
            strict: text(record, "/depositAddress/type") == "strict",
        })
    }

    pub(super) fn card(&self) -> Markup {
        // With the checksum in its letters: the code holds the address and nothing else, which every app reads.
        let address = self.address.to_string();
        html! {
            section.card.pay {
                @if let Some(code) = qr::code(&format!("QR code of {address}"), &address) { (code) }
                div {
                    h2 { "Pay at this address" }
                    dl.facts {
                        div { dt { "Send exactly" } dd { strong #pay-amount { (self.amount) } } }
                        div { dt { "On" } dd { strong { (self.chain) } } }
                        div { dt { "To" } dd #pay-address { (whole(&address)) } }
                        @if !self.refund_to.is_empty() {
                            div { dt { "A refund goes to" } dd { code { (self.refund_to) } } }
                        }
                    }
                    p.notice.warn {
                        "Send on " (self.chain) " only, and let the exchange's fee come on top of the amount. "
                        @if self.strict {
                            "Less or more than the amount is not taken."
                        } @else {
                            "Another amount is priced anew when it arrives."
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(status: &str) -> Value {
        let paid = json!({ "amountFormatted": "12.5", "currency": { "symbol": "USDC", "chainId": 8453 } });
        json!({
            "status": status,
            "refundTo": "0x00000000000000000000000000000000000000aa",
            "supersededByRequestId": null,
            "depositAddress": { "address": "0x5fbdb2315678afecb367f032d93f642f64180aa3", "type": "open" },
            "data": { "route": { "quoted": { "origin": { "inputCurrency": paid } } } },
        })
    }

    #[test]
    fn a_request_is_paid_at_its_address_while_it_waits() {
        let catalog = Catalog::default();
        let pay = PayAt::of_record(&catalog, &record("waiting")).unwrap();
        assert_eq!((pay.amount.as_str(), pay.strict), ("12.5 USDC", false));
        let shown = pay.card().into_string();
        assert!(shown.contains("data-text=\"0x5FbDB2315678afecb367f032d93F642f64180aa3\""), "{shown}");
        for status in ["depositing", "pending", "success", "refund"] {
            assert_eq!(PayAt::of_record(&catalog, &record(status)), None, "{status}");
        }
    }

    #[test]
    fn an_address_that_another_request_has_taken_over_asks_for_nothing() {
        let mut superseded = record("waiting");
        superseded["supersededByRequestId"] = json!("0x01");
        assert_eq!(PayAt::of_record(&Catalog::default(), &superseded), None);
    }
}
