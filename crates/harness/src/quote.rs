//! The body of `POST /quote/v2`.

use alloy::primitives::{Address, U256};
use serde_json::{Value, json};

/// The simplest body of a quote.
pub fn ask(user: Address, recipient: Address, from: (u64, Address), to: (u64, Address), amount: U256) -> Value {
    json!({
        "user": user, "recipient": recipient,
        "originChainId": from.0, "originCurrency": from.1,
        "destinationChainId": to.0, "destinationCurrency": to.1,
        "amount": amount.to_string(), "tradeType": "EXACT_INPUT",
    })
}
