//! Every route of the interface under another integrator's key: nothing of the owner's is told or changed. The routes
//! come from the document that the service serves; one that is not known here fails the test.

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Harness, WAIT_TIMEOUT};

/// Texts that the owner alone is told: the referrer of its quote, the name of its key, and the path of its webhook.
pub const REFERRER: &str = "owners-shop";
pub const KEY_NAME: &str = "owners-key";
pub const HOOK: &str = "owners-hook";

/// Things of the owner, for others to ask for.
#[derive(Clone, Debug)]
pub struct Owned {
    /// Id and text of a key.
    pub key: String,
    pub text: String,
    pub wallet: String,
    pub request: String,
    /// A webhook delivery, by its id.
    pub delivery: String,
}

/// A call with the owner's things in it.
struct Attempt {
    path: String,
    body: Option<Value>,
    /// It must be refused. Else it is public, or about the caller alone.
    refused: bool,
}

fn open(path: String) -> Attempt {
    Attempt { path, body: None, refused: false }
}

fn refused(path: String) -> Attempt {
    Attempt { path, body: None, refused: true }
}

impl Attempt {
    fn with(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

/// A route that is added is not known here, and the test fails until somebody has decided how others could misuse it.
fn attempt(method: &str, path: &str, owned: &Owned) -> Result<Attempt> {
    let place = "address=0x0000000000000000000000000000000000000000&chainId=8453";
    let at = path.replace("{wallet}", &owned.wallet).replace("{requestId}", &owned.request);
    let at = at.replace("{deliveryId}", &owned.delivery).replace("{name}", "default");
    let (key, id) = (&owned.key, &owned.request);
    Ok(match (method, path) {
        // Balances and claims of a wallet are public; a claim is asked for by anybody and signed by the wallet.
        ("get", "/app-fees/{wallet}/balances" | "/app-fees/{wallet}/claims") => open(at),
        ("post", "/app-fees/{wallet}/claim") => refused(at).with(json!({ "chainId": 8453, "currency": "usdc" })),
        ("get", "/chains" | "/chains/health" | "/currencies/trending" | "/swap-sources" | "/lives") => open(at),
        ("get", "/chains/liquidity") => open(format!("{at}?chainId=8453")),
        ("get", "/config/v2") => open(format!("{at}?originChainId=8453&destinationChainId=10")),
        ("get", "/currencies/token/price" | "/currencies/token/price/v2") => open(format!("{at}?{place}")),
        ("post", "/currencies/v2" | "/price" | "/quote" | "/quote/v2") => open(at).with(json!({})),
        // Records, states and attestations of requests are public, without the members that are their integrator's.
        ("get", "/intents/status/v2" | "/intents/status/v3") => open(format!("{at}?requestId={id}")),
        ("get", "/requests/v2") => open(format!("{at}?id={id}")),
        ("get", "/requests/v3" | "/requests/v3.csv") => {
            open(format!("{at}?id={id}&apiKey={key}&includeAuthenticatedData=true"))
        }
        ("get", "/requests/v3/stream") => open(format!("{at}?id={id}&includeAuthenticatedData=true")),
        ("get", "/requests/{requestId}/signature" | "/requests/{requestId}/signature/v2") => open(at),
        ("get", "/requests/{requestId}/trace") => refused(at),
        ("get", "/deposit-addresses/v1") => open(format!("{at}?requestId={id}")),
        ("post", "/transactions/deposit-address/reindex" | "/transactions/index" | "/transactions/single") => {
            open(at).with(json!({ "requestId": id }))
        }
        ("post", "/execute") => refused(at).with(json!({ "executionKind": "rawCalls", "requestId": id })),
        ("post", "/execute/permits") => {
            refused(format!("{at}?signature=0x{}", "11".repeat(65))).with(json!({ "kind": "claim", "requestId": id }))
        }
        ("post", "/fast-fill") => refused(at).with(json!({ "requestId": id })),
        ("post", "/keys/wallet") => {
            let signature = format!("0x{}", "11".repeat(65));
            refused(at).with(json!({ "wallet": owned.wallet, "signature": signature }))
        }
        ("get", "/webhooks/deliveries") => open(format!("{at}?requestId={id}")),
        ("post", "/webhooks/deliveries/replay") => open(at).with(json!({ "since": 0 })),
        ("post", "/webhooks/deliveries/{deliveryId}/replay") => refused(at),
        // An endpoint is found by the key of the caller and its name.
        ("get", "/webhooks/endpoint" | "/webhooks/endpoints" | "/webhooks/endpoints/{name}") => open(at),
        ("put", "/webhooks/endpoint" | "/webhooks/endpoints/{name}") => {
            open(at).with(json!({ "url": "http://127.0.0.1:9/theirs", "enabled": false }))
        }
        ("delete", "/webhooks/endpoint" | "/webhooks/endpoints/{name}") => open(at),
        ("post", "/webhooks/endpoints/{name}/test") => open(at),
        (_, path) if path.starts_with("/operator/") => refused(at).with(json!({ "requestId": id })),
        other => bail!("nobody has said how others could misuse {other:?}"),
    })
}

/// The owner's things as the owner reads them.
async fn state(harness: &Harness, owned: &Owned) -> Result<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    let record = format!("/requests/v3?id={}&includeAuthenticatedData=true", owned.request);
    for path in ["/webhooks/endpoint", "/webhooks/endpoints", &record] {
        let response = harness.client.get(harness.url(path)).header("x-api-key", &owned.text).send().await?;
        ensure!(response.status() == 200, "{path}: {}", response.status());
        all.push(response.json().await?);
    }
    ensure!(all[0]["url"].as_str().is_some_and(|url| url.contains(HOOK)), "{}", all[0]);
    // The record is final by and by; the endpoints stay as they are.
    let record = all.pop().context("a record")?;
    ensure!(record.to_string().contains(REFERRER) && record.to_string().contains(KEY_NAME), "{record}");
    Ok(all)
}

/// Calls every route under another's key, and finds the owner's things as they were.
pub async fn by_another_key(harness: &Harness, owned: &Owned, key: &str) -> Result<()> {
    let before = state(harness, owned).await?;
    let (_, document) = harness.get("/openapi.json").await?;
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().context("paths")? {
        for method in methods.as_object().context("methods")?.keys() {
            let attempt = attempt(method, path, owned)?;
            let text = answer(harness, method, &attempt, key).await?;
            // The older listing tells everybody the referrer, as its published form has it.
            let mut secrets = [REFERRER, KEY_NAME, HOOK].into_iter();
            let told = secrets.find(|&secret| text.contains(secret) && (path != "/requests/v2" || secret != REFERRER));
            ensure!(told.is_none(), "{method} {path} tells {told:?}: {text}");
            tried += 1;
        }
    }
    ensure!(tried > 45, "{tried} routes");
    ensure!(state(harness, owned).await? == before, "the owner's things have changed");
    Ok(())
}

async fn answer(harness: &Harness, method: &str, attempt: &Attempt, key: &str) -> Result<String> {
    let method: Method = method.to_uppercase().parse()?;
    let stream = attempt.path.starts_with("/requests/v3/stream");
    let call = harness.client.request(method.clone(), harness.url(&attempt.path)).header("x-api-key", key);
    // A stream from the beginning of all: the owner's transfer is in it.
    let call = if stream { call.header("last-event-id", "0") } else { call };
    let call =
        if let Some(body) = attempt.body.as_ref().filter(|_| method != Method::GET) { call.json(body) } else { call };
    let response = call.send().await?;
    let (status, path) = (response.status(), &attempt.path);
    ensure!(status != StatusCode::UNAUTHORIZED || attempt.refused, "{method} {path}: the key is good");
    ensure!(status != StatusCode::INTERNAL_SERVER_ERROR, "{method} {path}: {status}");
    ensure!(!attempt.refused || !status.is_success(), "{method} {path} is served");
    if stream { read_until(response, "\"status\":\"success\"").await } else { Ok(response.text().await?) }
}

/// The text of a stream, as far as another text.
pub async fn read_until(mut response: reqwest::Response, end: &str) -> Result<String> {
    let mut text = String::new();
    while !text.contains(end) {
        let bytes = tokio::time::timeout(WAIT_TIMEOUT, response.chunk()).await.context("nothing comes")??;
        text.push_str(std::str::from_utf8(&bytes.context("the stream ended")?)?);
    }
    Ok(text)
}
