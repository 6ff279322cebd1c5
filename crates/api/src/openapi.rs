//! The machine-readable description, generated from the routes.

use utoipa::OpenApi;
use utoipa::openapi::{Server, ServerBuilder};

use crate::routes::routes;

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
    description = "Moves value between chains: quote, deposit, and the recipient is paid.",
    license(name = "MIT OR Apache-2.0")
))]
struct Document;

pub(crate) fn document(addresses: &Addresses) -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    let server = |url: &str, what: &str| ServerBuilder::new().url(url).description(Some(what)).build();
    let mut servers: Vec<Server> = vec![server(&addresses.base_url, "mainnet")];
    servers.extend(addresses.testnet_base_url.as_deref().map(|url| server(url, "testnet")));
    document.servers = Some(servers);
    document
}

/// The document as the checked-in file holds it: the same for every deployment but for its addresses.
pub fn generate(addresses: &Addresses) -> String {
    let (_, document) = routes(document(addresses)).split_for_parts();
    let mut text = document.to_pretty_json().expect("the document is plain data");
    text.push('\n');
    text
}
