//! The machine-readable description, generated from the routes.
//!
//! A route says what is special about it. Everything that holds for all of them (keys, limits, sizes, the body of
//! errors, examples) is added here by rule, so that a new route has it too.

mod choices;
mod common;
mod examples;
mod page;

use axum::Router;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::{Server, ServerBuilder};

use crate::App;
use crate::routes::routes;

pub(crate) use page::pages;

/// Where the service is reached, and where its test deployment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub base_url: String,
    pub testnet_base_url: Option<String>,
}

#[derive(OpenApi)]
#[openapi(info(
    title = "cross-chain solver",
    version = "1.0.0",
    description = "Moves value between chains: quote, deposit, and the recipient is paid.\n\n\
        Amounts, basis points, fees and caps are text, because they may be larger than a JSON number holds exactly; \
        chain ids, seconds and gas are numbers. Published clients send some members in another form, and these alone are \
        read in both: `originGasOverhead` (a number, or its text), `chainId` of `/transactions/index` and \
        `/transactions/single` (text, or a number), `chainId` of `/app-fees/{wallet}/claim` (a number, or its text), \
        `solverInputCurrencyAmount` (text, or a whole number), `maxFillAmountUsd` (a number, or its text) and `value` in \
        `txs` (decimal text, or hexadecimal). Members that are not documented are ignored, unless a body says otherwise.",
    license(name = "MIT OR Apache-2.0")
))]
struct Document;

fn document(addresses: &Addresses) -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    let server = |url: &str, what: &str| ServerBuilder::new().url(url).description(Some(what)).build();
    let mut servers: Vec<Server> = vec![server(&addresses.base_url, "mainnet")];
    servers.extend(addresses.testnet_base_url.as_deref().map(|url| server(url, "testnet")));
    document.servers = Some(servers);
    document
}

/// The routes, and what they say about themselves.
pub(crate) fn described(addresses: &Addresses) -> (Router<App>, Value) {
    let (router, document) = routes(document(addresses)).split_for_parts();
    (router, serde_json::to_value(document).expect("the document is plain data"))
}

/// The document with all that is added by rule. It takes some fifty milliseconds.
fn completed(addresses: &Addresses) -> Value {
    let (_, mut document) = described(addresses);
    common::complete(&mut document);
    choices::add(&mut document);
    examples::add(&mut document);
    document
}

/// The document as the checked-in file holds it: the same for every deployment but for its addresses.
pub fn generate(addresses: &Addresses) -> String {
    let mut text = serde_json::to_string_pretty(&completed(addresses)).expect("the document is plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
