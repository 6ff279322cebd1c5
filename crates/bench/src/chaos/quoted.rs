//! The members of a quote that a client reads.

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Context, Result};
use serde_json::Value;

/// A quoted order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub request: String,
    pub id: B256,
    /// The recipient's minimum, and the quoted amount.
    pub minimum: U256,
    pub quoted: U256,
}

pub(crate) fn order(quote: &Value) -> Result<Order> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a quote without its members");
    let out = &quote["details"]["currencyOut"];
    Ok(Order {
        request: text(&quote["steps"][0]["requestId"])?,
        id: text(&quote["protocol"]["v2"]["orderId"])?.parse()?,
        minimum: text(&out["minimumAmount"])?.parse()?,
        quoted: text(&out["amount"])?.parse()?,
    })
}

/// A call as target, value and data.
pub(crate) type Call = (Address, U256, Bytes);

/// The transactions that the steps of a quote ask the user to send.
pub(crate) fn steps(quote: &Value) -> Result<Vec<Call>> {
    let steps = quote["steps"].as_array().context("a quote without steps")?;
    let items = steps.iter().flat_map(|step| step["items"].as_array().into_iter().flatten());
    items
        .map(|item| {
            let text = |name: &str| item["data"][name].as_str().with_context(|| name.to_owned());
            Ok((text("to")?.parse()?, text("value")?.parse()?, text("data")?.parse()?))
        })
        .collect()
}
