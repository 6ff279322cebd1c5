//! The kinds of quotes that are measured, as requests on the wire.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use devnet::Chain;
use domain::api_key::KeyText;
use serde_json::{Value, json};

use crate::client::{post, post_as};

const NATIVE: &str = "0x0000000000000000000000000000000000000000";
/// The kind that the sponsored quote is compared with.
const EXCHANGE: &str = "USDC to USDT";

/// The chains that the quotes name.
pub(crate) const FROM: &str = "base";
pub(crate) const TO: &str = "optimism";

/// A chain as a quote names it: its id, and the addresses of its tokens by symbol.
#[derive(Debug)]
pub(crate) struct QuotedChain {
    pub id: u64,
    pub tokens: BTreeMap<String, String>,
}

impl QuotedChain {
    pub(crate) fn of(chain: &Chain) -> Self {
        let tokens = chain.tokens.iter().map(|token| (token.symbol.clone(), token.address.to_string()));
        Self { id: chain.id, tokens: tokens.collect() }
    }

    fn token(&self, symbol: &str) -> Result<&str> {
        Ok(self.tokens.get(symbol).with_context(|| format!("no {symbol} on chain {}", self.id))?)
    }
}

/// One kind of quote.
#[derive(Debug)]
pub(crate) struct Kind {
    pub name: &'static str,
    pub request: Vec<u8>,
    /// The kind that it is compared with, which differs in one thing.
    pub compared_with: Option<&'static str>,
}

/// All kinds, from one chain to the other. The sponsored one is asked for with this key.
pub(crate) fn kinds(from: &QuotedChain, to: &QuotedChain, sponsor: &KeyText) -> Result<[Kind; 6]> {
    let body = |origin: &str, destination: &str, amount: &str| {
        json!({
            "user": "0x1111111111111111111111111111111111111111",
            "recipient": "0x2222222222222222222222222222222222222222",
            "originChainId": from.id, "originCurrency": origin,
            "destinationChainId": to.id, "destinationCurrency": destination,
            "amount": amount, "tradeType": "EXACT_INPUT",
        })
    };
    let plain = |name, body: Value| Kind { name, request: post("/quote/v2", &body.to_string()), compared_with: None };
    let (usdc, usdt) = (from.token("USDC")?, to.token("USDT")?);
    let mut sponsored = body(usdc, usdt, "250000000");
    sponsored["subsidizeFees"] = json!(true);
    sponsored["fixedRate"] = json!("1:1");
    Ok([
        plain("native bridge", body(NATIVE, NATIVE, "100000000000000000")),
        plain("USDC bridge", body(usdc, to.token("USDC")?, "250000000")),
        plain(EXCHANGE, body(usdc, usdt, "250000000")),
        // The same with all fees paid by a key's wallet, and at a fixed rate.
        Kind {
            name: "sponsored, 1:1",
            request: post_as(sponsor, "/quote/v2", &sponsored.to_string()),
            compared_with: Some(EXCHANGE),
        },
        plain("ETH to USDC", body(NATIVE, to.token("USDC")?, "100000000000000000")),
        // Pools on both sides: the destination's token is bought with the proceeds of the origin's.
        plain("TAIL to TAIL", body(from.token("TAIL")?, to.token("TAIL")?, "5000000000000000000000")),
    ])
}
