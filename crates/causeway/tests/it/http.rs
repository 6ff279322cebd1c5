//! The interface as callers see it: shapes, errors, headers, documents.

use alloy::primitives::{Address, B256, Signature, U256, eip191_hash_message, keccak256};
use alloy::sol_types::SolValue;
use anyhow::{Result, ensure};
use causeway::env::system_env;
use causeway::service::Service;
use serde_json::{Value, json};

use crate::harness::{Engine, Harness, ask, new_account, request_id, without_balance};
use crate::process::causeway;
use crate::repayment::allocator;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

#[tokio::test]
async fn bad_quotes_name_the_field_and_the_code() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let user = new_account().address;
    let good = ask(user, user, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), U256::from(10u64.pow(17)));
    let cases: Vec<(&str, Value, u16, &str, &str)> = vec![
        ("user", json!("0x12"), 400, "INVALID_ADDRESS", "user"),
        ("user", Value::Null, 400, "INVALID_PARAMETERS", "user: must be text"),
        ("user", json!("0xAFDE0c87685f1e800457b929986cd944e9d4a98c"), 400, "INVALID_ADDRESS", "user: the checksum"),
        ("recipient", json!("900123"), 400, "INVALID_ADDRESS", "recipient"),
        ("recipient", json!(harness.chain("optimism").token("USDC").address), 400, "INVALID_RECIPIENT", "recipient"),
        ("refundTo", json!("somewhere"), 400, "INVALID_ADDRESS", "refundTo"),
        ("originChainId", json!(1), 400, "UNSUPPORTED_CHAIN", "originChainId"),
        ("originChainId", json!("8453"), 400, "INVALID_PARAMETERS", "originChainId: must be a whole number"),
        ("destinationChainId", json!(-1), 400, "INVALID_PARAMETERS", "destinationChainId"),
        ("destinationChainId", json!(BASE), 400, "UNSUPPORTED_ROUTE", ""),
        ("originCurrency", json!(user), 400, "INVALID_INPUT_CURRENCY", "originCurrency"),
        ("destinationCurrency", json!("eth"), 400, "INVALID_OUTPUT_CURRENCY", "destinationCurrency"),
        ("amount", json!("0"), 400, "INVALID_PARAMETERS", "amount"),
        ("amount", json!("-5"), 400, "INVALID_PARAMETERS", "amount"),
        ("amount", json!("1.5"), 400, "INVALID_PARAMETERS", "amount"),
        ("amount", json!(5), 400, "INVALID_PARAMETERS", "amount"),
        ("amount", json!("9".repeat(100)), 400, "INVALID_PARAMETERS", "amount"),
        ("amount", json!("1000"), 400, "AMOUNT_TOO_LOW", "ETH"),
        ("amount", json!("1".to_owned() + &"0".repeat(30)), 400, "INSUFFICIENT_LIQUIDITY", "ETH can be paid out"),
        ("tradeType", json!("EXACT"), 400, "INVALID_PARAMETERS", "tradeType"),
        ("slippageTolerance", json!(50), 400, "INVALID_SLIPPAGE_TOLERANCE", "slippageTolerance"),
        ("fixedRate", json!(""), 400, "INVALID_FIXED_RATE", "fixedRate"),
        ("slippageTolerance", json!("10001"), 400, "INVALID_SLIPPAGE_TOLERANCE", "slippageTolerance"),
        ("ttl", json!(0), 400, "INVALID_PARAMETERS", "ttl"),
        ("referrer", json!("x".repeat(2000)), 400, "INVALID_PARAMETERS", "referrer"),
        ("txs", json!([{"to": user, "value": "1".to_owned() + &"0".repeat(18)}]), 400, "INVALID_EXTRA_TXS", "txs"),
        ("strict", json!(true), 400, "INVALID_PARAMETERS", "strict"),
        ("recoveryAddress", json!(user), 400, "INVALID_PARAMETERS", "recoveryAddress"),
        ("usePermit", json!(true), 400, "UNSUPPORTED_EXECUTION_TYPE", "usePermit"),
        ("subsidizeFees", json!(true), 401, "UNAUTHORIZED", "subsidizeFees"),
    ];
    for (field, value, code, error, said) in cases {
        let mut body = good.clone();
        body[field] = value.clone();
        let (status, answer) = harness.post("/quote/v2", &body).await?;
        let message = answer["message"].as_str().unwrap_or_default();
        ensure!(status == code && answer["errorCode"] == error, "{field} = {value}: {status} {answer}");
        ensure!(message.contains(said) && answer["statusCode"] == json!(code), "{field} = {value}: {answer}");
    }
    // Unknown members are ignored, and a falsy value asks for nothing.
    let mut body = good.clone();
    for (field, value) in
        [("source", json!("x")), ("useDepositAddress", json!(false)), ("appFees", json!([])), ("txs", json!([]))]
    {
        body[field] = value;
    }
    ensure!(harness.post("/quote/v2", &body).await?.0 == 200);
    service.stop().await
}

#[tokio::test]
async fn every_failure_has_the_same_body() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let client = &harness.client;
    let id = "0x".to_owned() + &"ab".repeat(32);
    for (request, code, error) in [
        (client.get(harness.url("/nowhere")), 404, "NOT_FOUND"),
        (client.get(harness.url("/quote/v2")), 405, "METHOD_NOT_ALLOWED"),
        (client.get(harness.url("/intents/status/v3")), 400, "INVALID_PARAMETERS"),
        (client.get(harness.url("/intents/status/v3?requestId=0x12")), 400, "INVALID_PARAMETERS"),
        (client.get(harness.url(&format!("/intents/status/v3?requestId={id}"))), 404, "REQUEST_NOT_FOUND"),
        (
            client.post(harness.url("/quote/v2")).header("content-type", "application/json").body("{"),
            400,
            "INVALID_PARAMETERS",
        ),
        (client.post(harness.url("/quote/v2")).body("{}"), 400, "INVALID_PARAMETERS"),
        (client.post(harness.url("/quote/v2")).json(&json!({"user": "x".repeat(400_000)})), 413, "PAYLOAD_TOO_LARGE"),
        (client.post(harness.url("/quote/v2")).json(&json!([])), 400, "INVALID_PARAMETERS"),
        (client.get(harness.url("/app-fees/%ff/balances")), 400, "INVALID_PARAMETERS"),
        (client.get(harness.url("/requests/%ff/signature")), 400, "INVALID_PARAMETERS"),
        (client.get(harness.url(&format!("/chains?x={}", "x".repeat(9_000)))), 414, "URI_TOO_LONG"),
    ] {
        let response = request.header("origin", "https://shop.example").send().await?;
        ensure!(response.headers()["access-control-allow-origin"] == "*");
        let status = response.status().as_u16();
        let body: Value = response.json().await?;
        ensure!(status == code && body["errorCode"] == error && body["statusCode"] == json!(code), "{status} {body}");
        ensure!(body["message"].as_str().is_some_and(|message| !message.is_empty() && !message.contains("struct")));
    }
    service.stop().await
}

#[tokio::test]
async fn browsers_may_ask_first() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let preflight = harness
        .client
        .request(reqwest::Method::OPTIONS, harness.url("/quote/v2"))
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,relay-sdk-version,x-api-key")
        .send()
        .await?;
    ensure!(preflight.status().is_success());
    let allowed = preflight.headers()["access-control-allow-headers"].to_str()?.to_owned();
    ensure!(
        ["relay-sdk-version", "relay-kit-ui-version", "x-api-key", "authorization"]
            .iter()
            .all(|name| allowed.contains(name))
    );
    // A page that was cut off says where it goes on.
    let stream = harness.client.request(reqwest::Method::OPTIONS, harness.url("/requests/v3/stream")).send().await?;
    let allowed = stream.headers()["access-control-allow-headers"].to_str()?;
    ensure!(allowed.contains("last-event-id") && allowed.contains("x-api-key"), "{allowed}");
    service.stop().await
}

#[tokio::test]
async fn chains_and_documents_are_served() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (_, chains) = harness.get("/chains").await?;
    let base = chains["chains"].as_array().unwrap().iter().find(|chain| chain["id"] == json!(BASE)).unwrap();
    let packed = harness.client.get(harness.url("/chains")).header("accept-encoding", "gzip").send().await?;
    ensure!(packed.headers()["content-encoding"] == "gzip", "{:?}", packed.headers());
    ensure!(packed.headers()["cache-control"] == "public, max-age=60", "{:?}", packed.headers());
    ensure!(base["protocol"]["v2"]["depository"].as_str().unwrap().parse::<Address>()? == harness.depository);
    ensure!(base["currency"]["address"] == "0x0000000000000000000000000000000000000000");
    ensure!(base["solverCurrencies"].as_array().unwrap().iter().any(|currency| currency["symbol"] == "USDC"));
    let (_, document) = harness.get("/openapi.json").await?;
    ensure!(document["info"]["title"] == "cross-chain solver" && document["info"]["version"] == "1.0.0");
    ensure!(document["security"].is_null());
    ensure!(harness.get("/documentation/json").await?.1 == document);
    let page = harness.client.get(harness.url("/documentation")).send().await?;
    ensure!(page.status() == 200 && page.headers()["content-type"] == "text/html; charset=utf-8");
    ensure!(page.text().await?.contains("documentation/script.js"));
    let metrics = harness.client.get(harness.url("/metrics")).send().await?.text().await?;
    ensure!(metrics.contains("causeway_http_requests_total"), "{metrics}");
    service.stop().await
}

/// Callers learn whether the service lives; its metrics, and everything that is wrong, are at the operator's address.
#[tokio::test]
async fn the_operator_has_an_address_of_its_own() -> Result<()> {
    let harness =
        Harness::with(Engine::Sqlite, |config| config.listen_operator = Some(([127, 0, 0, 1], 0).into())).await?;
    let service = Service::start(&harness.config, system_env()).await?;
    let (code, lives) = harness.get("/lives").await?;
    ensure!(code == 200 && lives == json!({ "status": "ok" }), "{lives}");
    ensure!(harness.client.get(harness.url("/metrics")).send().await?.status() == 404);
    let own = format!("http://{}", service.operator_address.unwrap());
    let lives: Value = harness.client.get(format!("{own}/lives")).send().await?.json().await?;
    ensure!(lives["report"]["chains"].is_array(), "{lives}");
    let metrics = harness.client.get(format!("{own}/metrics")).send().await?.text().await?;
    ensure!(metrics.contains("causeway_http_requests_total"), "{metrics}");
    ensure!(harness.client.get(format!("{own}/chains")).send().await?.status() == 404);
    service.stop().await
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_turned_away() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        config.limits.rate_limits = true;
        config.limits.quotes_per_minute = 3.try_into().unwrap();
        config.limits.others_per_minute = 100_000.try_into().unwrap();
    })
    .await?;
    let service = harness.serve().await?;
    let client = &harness.client;
    let mut codes = Vec::new();
    for _ in 0..5 {
        let response = client.post(harness.url("/quote/v2")).json(&json!({})).send().await?;
        codes.push(response.status().as_u16());
        ensure!(response.headers()["ratelimit-limit"] == "3");
        if response.status() == 429 {
            ensure!(response.headers().contains_key("retry-after"));
            let body: Value = response.json().await?;
            ensure!(body["errorCode"] == "RATE_LIMITED" && body["statusCode"] == json!(429));
        }
    }
    ensure!(codes == [400, 400, 400, 429, 429], "{codes:?}");
    service.stop().await
}

#[tokio::test]
async fn anyone_can_check_the_order_id_of_a_quote() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let user = new_account().address;
    let mut body = ask(user, user, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), U256::from(10u64.pow(17)));
    body["includeProtocolData"] = json!(true);
    let quote = harness.quote(&body).await?;
    let protocol = &quote["protocol"]["v2"];
    let file = harness.folder.path().join("order.json");
    std::fs::write(&file, protocol["orderData"].to_string())?;
    let printed = causeway().arg("order-id").arg(&file).output()?;
    ensure!(printed.status.success());
    ensure!(String::from_utf8(printed.stdout)?.trim() == protocol["orderId"].as_str().unwrap());
    ensure!(protocol["orderSignature"].as_str().is_some_and(|signature| signature.len() == 132));
    ensure!(protocol["paymentDetails"]["amount"] == "100000000000000000");
    service.stop().await
}

/// The solver's signature over a request can be checked by anybody, on a chain too.
#[tokio::test]
async fn the_data_of_a_request_is_signed() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| config.allocator = Some(allocator(config))).await?;
    let service = harness.serve().await?;
    let (user, recipient) = (new_account().address, new_account().address);
    let usdc = |chain| harness.chain(chain).token("USDC").address;
    let (from, to, units) = (usdc("base"), usdc("optimism"), U256::from(25_000_000u64));
    let quote = harness.quote(&ask(user, recipient, (BASE, from), (OPTIMISM, to), units)).await?;
    let id: B256 = request_id(&quote).parse()?;
    let (_, chains) = harness.get("/chains").await?;
    let ours: Vec<Address> = serde_json::from_value(chains["chains"][0]["solverAddresses"].clone())?;
    let roles = chains["chains"][0]["solverAddressRoles"].as_array().cloned().unwrap_or_default();
    let treasury =
        roles.iter().find(|it| it["role"] == "treasury").map(|it| same(&it["address"], harness.treasury.address));
    ensure!(treasury == Some(true) && roles.len() == ours.len(), "{roles:?}");
    ensure!(
        ours.contains(&harness.treasury.address) && ours.contains(&harness.devnet.keys.allocator.address),
        "{ours:?}"
    );

    let (base, optimism) = (U256::from(BASE), U256::from(OPTIMISM));
    let first = (id, base, user.into_word(), from.into_word(), units, optimism, recipient.into_word()).abi_encode();
    let second =
        (id, base, user.into_word(), from.into_word(), optimism, recipient.into_word(), to.into_word()).abi_encode();
    for (version, encoded, member, value) in
        [("", first, "originAmount", json!("25000000")), ("/v2", second, "destinationCurrency", json!(to))]
    {
        let (code, word) = harness.get(&format!("/requests/{id}/signature{version}")).await?;
        ensure!(code == 200, "{word}");
        let data = &word["requestData"];
        ensure!(same(&data["originUser"], user) && same(&data["destinationUser"], recipient), "{data}");
        ensure!(data["originTransferDestination"].as_str().is_some_and(|it| it.parse() == Ok(harness.depository)));
        ensure!(data[member].to_string().eq_ignore_ascii_case(&value.to_string()), "{data}");
        let signature: Signature = word["signature"].as_str().unwrap().parse()?;
        let signer = signature.recover_address_from_prehash(&eip191_hash_message(keccak256(encoded)))?;
        ensure!(same(&word["signer"], signer) && ours.contains(&signer), "{word}");
        for (bad, status, error) in [
            ("0x12".to_owned(), 400, "INVALID_PARAMETERS"),
            (B256::repeat_byte(1).to_string(), 404, "REQUEST_NOT_FOUND"),
        ] {
            let (code, answer) = harness.get(&format!("/requests/{bad}/signature{version}")).await?;
            ensure!(
                (code, &answer["code"], &answer["errorCode"]) == (status, &json!(error), &json!(error)),
                "{answer}"
            );
        }
    }
    service.stop().await
}

fn same(text: &Value, address: Address) -> bool {
    text.as_str().is_some_and(|text| text.parse() == Ok(address))
}

/// Every member a client may read, except those that differ from run to run.
#[tokio::test]
async fn the_answers_have_their_documented_shape() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (user, recipient) = (Address::repeat_byte(0x11), Address::repeat_byte(0x22));
    let (here, there) = (harness.chain("base").token("USDC").address, harness.chain("optimism").token("USDC").address);
    let mut body = ask(user, recipient, (BASE, here), (OPTIMISM, there), U256::from(250_000_000u64));
    body["includeProtocolData"] = json!(true);
    body["referrer"] = json!("shop");
    let quote = harness.quote(&body).await?;
    insta::assert_json_snapshot!("quote", quote, {
        ".steps[].requestId" => "[request id]",
        ".steps[].items[].data.data" => "[calldata]",
        ".steps[].items[].check.endpoint" => "[status of the request]",
        ".protocol.v2.orderId" => "[order id]",
        ".protocol.v2.orderSignature" => "[signature]",
        ".protocol.v2.orderData.salt" => "[salt]",
        ".protocol.v2.orderData.solver" => "[solver]",
        ".protocol.v2.paymentDetails.depository" => "[depository]",
        ".steps[1].items[].data.to" => "[depository]",
        ".protocol.v2.orderData.inputs[].refunds[].deadline" => "[in seven days]",
        ".protocol.v2.orderData.output.deadline" => "[in seven days]",
    });
    let status = harness.status(quote["steps"][0]["requestId"].as_str().unwrap()).await?;
    insta::assert_json_snapshot!("status", status, { ".updatedAt" => "[ms]", ".quoteCreatedAt" => "[ms]" });
    let (_, chains) = harness.get("/chains").await?;
    insta::assert_json_snapshot!("chain", chains["chains"][0], {
        ".httpRpcUrl" => "[address]",
        ".wsRpcUrl" => "[address]",
        ".solverAddresses" => "[order key, treasury, wallets]",
        ".solverAddressRoles" => "[order key, treasury, wallets, each with its role]",
        ".protocol.v2.depository" => "[depository]",
    });
    service.stop().await
}

/// A price has the figures of a quote, and leaves nothing behind.
#[tokio::test]
async fn a_price_is_a_quote_without_the_promise() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let user = new_account().address;
    let body = ask(user, user, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), U256::from(10u64.pow(17)));
    let (code, price) = harness.post("/price", &body).await?;
    let quote = harness.quote(&body).await?;
    ensure!(code == 200 && price["steps"].is_null() && price["protocol"].is_null());
    let (price, quote) = (without_balance(&price), without_balance(&quote));
    ensure!(price["details"] == quote["details"] && price["fees"] == quote["fees"]);
    let (code, bad) = harness.post("/price", &json!({ "user": user })).await?;
    ensure!(code == 400 && bad["errorCode"] == "INVALID_PARAMETERS");
    service.stop().await
}

/// Clients announce their transactions; nothing depends on it.
#[tokio::test]
async fn announcements_are_taken_and_checked_for_form() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let hash = "0x".to_owned() + &"ab".repeat(32);
    let tx = json!({ "txHash": hash }).to_string();
    for (path, body, code) in [
        ("index", json!({ "txHash": hash, "chainId": "8453", "referrer": "shop" }), 200),
        ("index", json!({ "txHash": hash, "chainId": 8453, "requestId": hash }), 200),
        ("index", json!({ "txHash": "0x12", "chainId": "8453" }), 400),
        ("index", json!({ "txHash": hash, "chainId": "1" }), 400),
        ("index", json!({ "txHash": hash, "chainId": {} }), 400),
        ("single", json!({ "requestId": hash, "chainId": "10", "tx": tx }), 200),
        ("single", json!({ "requestId": hash, "chainId": "10", "tx": "{" }), 400),
        ("single", json!({ "requestId": "1", "chainId": "10", "tx": tx }), 400),
    ] {
        let (status, answer) = harness.post(&format!("/transactions/{path}"), &body).await?;
        ensure!(status == code && answer["message"].is_string(), "{path} {body}: {status} {answer}");
    }
    service.stop().await
}

/// A rollup that charges for data makes a fill dearer, and the quote says so.
#[tokio::test]
async fn the_data_fee_is_part_of_the_gas() -> Result<()> {
    const ARBITRUM: u64 = 42161;
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let user = new_account().address;
    let gas = async |to: u64| {
        let body = ask(user, user, (BASE, Address::ZERO), (to, Address::ZERO), U256::from(10u64.pow(17)));
        anyhow::Ok(crate::harness::amount(&harness.quote(&body).await?["fees"]["relayerGas"]["amount"]))
    };
    // The two have the same gas price and gas; only one has an oracle for data.
    let (with_data, without) = (gas(OPTIMISM).await?, gas(ARBITRUM).await?);
    ensure!(with_data > without, "{with_data} {without}");
    service.stop().await
}
