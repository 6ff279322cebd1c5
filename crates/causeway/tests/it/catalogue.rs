//! The catalogue that clients read before and beside a transfer: currencies, prices, health, holdings.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::harness::{Engine, Harness, INVENTORY, amount, ask, eventually, execute, new_account, request_id};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const ARBITRUM: u64 = 42161;
const NATIVE: &str = "0x0000000000000000000000000000000000000000";
const PRIVATE: &str = "5f0c7c1e-8a55-4c06-9d0e-3a4d6b1f2c77";

/// The symbols found, each with its chain.
async fn found(harness: &Harness, search: &Value) -> Result<Vec<(u64, String)>> {
    let (code, answer) = harness.post("/currencies/v2", search).await?;
    ensure!(code == 200, "{search}: {answer}");
    let tokens = answer.as_array().unwrap().iter();
    Ok(tokens.map(|token| (token["chainId"].as_u64().unwrap(), token["symbol"].as_str().unwrap().to_owned())).collect())
}

#[tokio::test]
async fn a_search_finds_the_currencies_it_describes() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let usdc = harness.chain("base").token("USDC").address;
    let place = format!("{BASE}:{usdc}");
    let everywhere = |symbol: &str| [BASE, OPTIMISM, ARBITRUM].map(|chain| (chain, symbol.to_owned())).to_vec();
    let here = vec![(BASE, "USDC".to_owned())];
    for (search, expected) in [
        (json!({"term": "usdc"}), everywhere("USDC")),
        (json!({"term": " UsDc "}), everywhere("USDC")),
        (json!({"term": "ether", "chainIds": [OPTIMISM], "limit": 1}), vec![(OPTIMISM, "ETH".to_owned())]),
        (json!({"currencyId": "USDC", "chainIds": [BASE]}), here.clone()),
        (json!({"address": usdc, "chainIds": [BASE]}), here.clone()),
        (json!({"address": usdc.to_string().to_lowercase(), "chainIds": [BASE]}), here.clone()),
        (json!({"term": usdc, "chainIds": [BASE, 1]}), here.clone()),
        (json!({"tokens": [place, "1:0x12", "792703809:So1ana"]}), here.clone()),
        (json!({"tokens": [place], "includeAllChains": true}), everywhere("USDC")),
        (json!({"currencyId": "usdc", "chainIds": [BASE], "verified": true, "defaultList": true}), here.clone()),
        (json!({"currencyId": "usdc", "chainIds": [BASE], "useExternalSearch": true, "referrer": "shop"}), here),
        (json!({"term": "💸"}), vec![]),
        (json!({"chainIds": [1]}), vec![]),
        (json!({"address": "nowhere"}), vec![]),
        (json!({"depositAddressOnly": true, "currencyId": "usdc"}), everywhere("USDC")),
    ] {
        let found = found(&harness, &search).await?;
        ensure!(found == expected, "{search}: {found:?}");
    }
    service.stop().await
}

#[tokio::test]
async fn the_first_calls_of_the_widget_are_answered() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let first = json!({
        "chainIds": [], "term": "", "address": null, "defaultList": true, "limit": 12, "useExternalSearch": false,
        "depositAddressOnly": false, "referrer": "shop",
    });
    let tokens = found(&harness, &first).await?;
    ensure!(tokens.len() == 12 && tokens[0] == (BASE, "ETH".to_owned()), "{tokens:?}");
    let (code, trending) = harness.get("/currencies/trending?referrer=shop").await?;
    ensure!(code == 200 && trending.as_array().is_some_and(|tokens| (1..=20).contains(&tokens.len())), "{trending}");
    insta::assert_json_snapshot!("currencies", [&trending[0], &trending[1]]);
    let usdc = harness.chain("base").token("USDC").address;
    for (address, number, text) in [(NATIVE, 3000.0, "3000.0"), (&usdc.to_string(), 1.0, "1.0")] {
        let query = format!("address={address}&chainId={BASE}&referrer=shop");
        ensure!(harness.get(&format!("/currencies/token/price?{query}")).await? == (200, json!({"price": number})));
        ensure!(harness.get(&format!("/currencies/token/price/v2?{query}")).await? == (200, json!({"price": text})));
    }
    service.stop().await
}

#[tokio::test]
async fn holdings_and_capacity_match_the_wallets() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (code, answer) = harness.get(&format!("/chains/liquidity?chainId={BASE}")).await?;
    ensure!(code == 200, "{answer}");
    let holding = |symbol: &str| answer["liquidity"].as_array().unwrap().iter().find(|held| held["symbol"] == symbol);
    // Two wallets of fifty ether each, which have paid nothing yet.
    let (ether, usdc) = (holding("ETH").unwrap(), holding("USDC").unwrap());
    ensure!(ether["balance"] == "100000000000000000000" && ether["amountUsd"] == "300000.000000", "{ether}");
    ensure!(amount(&usdc["balance"]) == U256::from(INVENTORY) && usdc["amountUsd"] == "1000000.000000", "{usdc}");
    insta::assert_json_snapshot!("liquidity", answer);

    let user = new_account().address;
    let path = format!("/config/v2?originChainId={BASE}&destinationChainId={OPTIMISM}&user={user}");
    let (code, config) = harness.get(&format!("{path}&currency=usdc")).await?;
    ensure!(code == 200, "{config}");
    let (from, to) = (harness.chain("base").token("USDC").address, harness.chain("optimism").token("USDC").address);
    let quote = harness.quote(&ask(user, user, (BASE, from), (OPTIMISM, to), U256::from(250_000_000u64))).await?;
    let fees = amount(&quote["fees"]["relayer"]["amount"]);
    ensure!(amount(&config["fee"]) == fees && !fees.is_zero(), "{config}, but a quote says {fees}");
    insta::assert_json_snapshot!("config", config, { ".fee" => "[gas and flat fee]", ".solver.address" => "[solver]" });

    // The native currency is the default; one wallet pays a fill, and keeps gas back.
    let (_, config) = harness.get(&path).await?;
    let (held, capacity) = (amount(&config["solver"]["balance"]), amount(&config["solver"]["capacityPerRequest"]));
    ensure!(config["enabled"] == true && capacity < held && capacity > U256::ZERO, "{config}");
    ensure!(config["user"]["maxBridgeAmount"] == config["solver"]["capacityPerRequest"]);
    let (code, sources) = harness.get("/swap-sources").await?;
    ensure!(code == 200 && sources["sources"].is_array(), "{sources}");
    service.stop().await
}

/// No input of a caller is an internal error, and every refusal has the one body.
#[tokio::test]
async fn bad_questions_get_an_answer_that_names_the_field() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let user = new_account().address;
    let pair = format!("originChainId={BASE}&destinationChainId={OPTIMISM}");
    let long = "x".repeat(5_000);
    let chain = |path: &str, value: &str| format!("{path}?chainId={value}");
    for (path, error, said) in [
        ("/currencies/token/price".into(), "INVALID_PARAMETERS", "address"),
        (format!("/currencies/token/price?address={NATIVE}"), "INVALID_PARAMETERS", "chainId"),
        (format!("/currencies/token/price?address={NATIVE}&chainId=1"), "UNSUPPORTED_CHAIN", "chainId"),
        (format!("/currencies/token/price?address={NATIVE}&chainId=-1"), "INVALID_PARAMETERS", "chainId"),
        (format!("/currencies/token/price?address={user}&chainId={BASE}"), "INVALID_PARAMETERS", "address"),
        (format!("/currencies/token/price?address=💸&chainId={BASE}"), "INVALID_ADDRESS", "address"),
        (format!("/currencies/token/price/v2?address={long}&chainId={BASE}"), "INVALID_ADDRESS", "address"),
        (format!("/currencies/token/price/v2?address={user}&chainId={BASE}"), "INVALID_PARAMETERS", "address"),
        (chain("/chains/health", "1"), "UNSUPPORTED_CHAIN", "chainId"),
        (chain("/chains/health", "١"), "INVALID_PARAMETERS", "chainId"),
        (chain("/chains/health", "18446744073709551616"), "INVALID_PARAMETERS", "chainId"),
        (chain("/chains/health", ""), "INVALID_PARAMETERS", "chainId"),
        ("/chains/liquidity".into(), "INVALID_PARAMETERS", "chainId"),
        (chain("/chains/liquidity", "1"), "UNSUPPORTED_CHAIN", "chainId"),
        (chain("/chains/liquidity", "8453.5"), "INVALID_PARAMETERS", "chainId"),
        (chain("/swap-sources", "18446744073709551615"), "UNSUPPORTED_CHAIN", "chainId"),
        (chain("/swap-sources", "base"), "INVALID_PARAMETERS", "chainId"),
        ("/config/v2".into(), "INVALID_PARAMETERS", "originChainId"),
        (format!("/config/v2?originChainId=1&destinationChainId={BASE}"), "UNSUPPORTED_CHAIN", "originChainId"),
        (format!("/config/v2?originChainId={BASE}&destinationChainId=1"), "UNSUPPORTED_CHAIN", "destinationChainId"),
        (format!("/config/v2?{pair}&user=0x12"), "INVALID_ADDRESS", "user"),
        (format!("/config/v2?{pair}&currency=💸"), "INVALID_PARAMETERS", "currency"),
        (format!("/config/v2?{pair}&currency={long}"), "INVALID_PARAMETERS", "currency"),
        ("/intents/status/v2".into(), "INVALID_PARAMETERS", "requestId"),
        ("/intents/status/v2?requestId=💸".into(), "INVALID_PARAMETERS", "requestId"),
    ] {
        let (status, answer) = harness.get(&path).await?;
        refused(&path, status, &answer, error, said)?;
        // This route has a second name for the code.
        ensure!(!path.starts_with("/chains/health") || answer["code"] == error, "{path}: {answer}");
    }
    for (search, said) in [
        (json!({"chainIds": "8453"}), "chainIds"),
        (json!({"chainIds": ["8453"]}), "chainIds"),
        (json!({"chainIds": [-1]}), "chainIds"),
        (json!({"chainIds": [1e30]}), "chainIds"),
        (json!({"chainIds": vec![1; 1001]}), "chainIds"),
        (json!({"term": 5}), "term"),
        (json!({"limit": 0}), "limit"),
        (json!({"limit": -1}), "limit"),
        (json!({"limit": 101}), "limit"),
        (json!({"limit": u64::MAX}), "limit"),
        (json!({"limit": "20"}), "limit"),
        (json!({"tokens": ["8453"]}), "tokens"),
        (json!({"tokens": [":"]}), "tokens"),
        (json!({"tokens": ["💸:0x"]}), "tokens"),
        (json!({"tokens": [{"chainId": 8453}]}), "tokens"),
        (json!({"verified": "yes"}), "verified"),
        (json!([[]]), ""),
        (json!("usdc"), ""),
        (Value::Null, ""),
    ] {
        let (status, answer) = harness.post("/currencies/v2", &search).await?;
        refused(&search.to_string(), status, &answer, "INVALID_PARAMETERS", said)?;
    }
    let unknown = format!("/intents/status/v2?requestId=0x{}", "ab".repeat(32));
    ensure!(harness.get(&unknown).await?.1["errorCode"] == "REQUEST_NOT_FOUND");
    for harmless in [
        format!("/chains?includeChains=💸,,{long}&referrer=shop"),
        "/currencies/trending?limit=-1".to_owned(),
        format!("/config/v2?originChainId={BASE}&destinationChainId={BASE}"),
        format!("/config/v2?{pair}&user={NATIVE}"),
    ] {
        let (status, answer) = harness.get(&harmless).await?;
        ensure!(status == 200, "{harmless}: {status} {answer}");
    }
    let (_, answer) = harness.get("/chains/health?chainId=1").await?;
    insta::assert_json_snapshot!("health_of_an_unknown_chain", answer);
    service.stop().await
}

fn refused(asked: &str, status: u16, answer: &Value, error: &str, said: &str) -> Result<()> {
    let asked: String = asked.chars().take(200).collect();
    let message = answer["message"].as_str().unwrap_or_default();
    ensure!(status == 400 && answer["errorCode"] == error, "{asked}: {status} {answer}");
    ensure!(answer["statusCode"] == json!(400) && message.contains(said), "{asked}: {answer}");
    ensure!(!message.is_empty(), "{asked}: {answer}");
    Ok(())
}

#[tokio::test]
async fn a_private_chain_is_shown_to_those_who_know_of_it() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        let chain = config.chains.iter_mut().find(|chain| chain.id == ARBITRUM).unwrap();
        chain.private_id = Some(PRIVATE.to_owned());
    })
    .await?;
    let service = harness.serve().await?;
    let ids = async |path: String| {
        let (_, answer) = harness.get(&path).await?;
        let chains = answer["chains"].as_array().unwrap().iter();
        anyhow::Ok(chains.map(|chain| chain["id"].as_u64().unwrap()).collect::<Vec<_>>())
    };
    ensure!(ids("/chains".to_owned()).await? == [BASE, OPTIMISM]);
    ensure!(ids(format!("/chains?includeChains={BASE},{ARBITRUM}")).await? == [BASE, OPTIMISM]);
    ensure!(ids(format!("/chains?includeChains=x,{PRIVATE}")).await? == [BASE, OPTIMISM, ARBITRUM]);
    let on_it = |tokens: &[(u64, String)]| tokens.iter().filter(|token| token.0 == ARBITRUM).count();
    ensure!(on_it(&found(&harness, &json!({"limit": 100})).await?) == 0);
    ensure!(on_it(&found(&harness, &json!({"limit": 100, "chainIds": [ARBITRUM]})).await?) > 0);
    let (_, trending) = harness.get("/currencies/trending").await?;
    ensure!(trending.as_array().unwrap().iter().all(|token| token["chainId"] != json!(ARBITRUM)));
    service.stop().await
}

/// A chain that stands still has no prices, and one feed that does has none of its own.
#[tokio::test]
async fn a_stale_price_is_not_served() -> Result<()> {
    let harness = Harness::isolated(|config| config.limits.market_max_age_secs = 8).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = format!("address={}&chainId={BASE}", base.token("USDC").address);
    let price = format!("/currencies/token/price?{usdc}");
    let liquidity = format!("/chains/liquidity?chainId={BASE}");
    let healthy = async |query: &str, expected: bool| {
        let path = format!("/chains/health{query}");
        eventually(&path, || async { Ok(harness.get(&path).await? == (200, json!({"healthy": expected}))) }).await
    };
    healthy("", true).await?;

    // Clients divide by a price rounded to six places.
    base.set_price("USDC", 99).await?;
    eventually("a tiny price is none", || async { Ok(harness.get(&price).await? == (200, json!({"price": 0.0}))) })
        .await?;
    let exact = format!("/currencies/token/price/v2?{usdc}");
    eventually("and exactly", || async { Ok(harness.get(&exact).await? == (200, json!({"price": "0.00000099"}))) })
        .await?;

    base.freeze_price("USDC", 1).await?;
    eventually("an old price is none", || async { Ok(harness.get(&price).await?.0 == 503) }).await?;
    ensure!(harness.get(&price).await?.1["errorCode"] == "PRICE_FETCH_FAILED");
    let (code, holdings) = harness.served(harness.client.get(harness.url(&liquidity))).await?;
    let held = |symbol| holdings["liquidity"].as_array().unwrap().iter().find(|held| held["symbol"] == symbol).unwrap();
    ensure!(code == 200 && held("USDC")["amountUsd"].is_null() && held("ETH")["amountUsd"].is_string(), "{holdings}");

    base.pause_mining().await;
    healthy("?chainId=8453", false).await?;
    healthy("", false).await?;
    healthy("?chainId=10", true).await?;
    for path in [format!("/currencies/token/price?address={NATIVE}&chainId={BASE}"), liquidity] {
        let (code, answer) = harness.get(&path).await?;
        ensure!(code == 503 && answer["errorCode"] == "PRICE_FETCH_FAILED", "{path}: {answer}");
    }
    let (_, config) = harness.get(&format!("/config/v2?originChainId={OPTIMISM}&destinationChainId={BASE}")).await?;
    let unknown = [&config["solver"]["capacityPerRequest"], &config["solver"]["balance"], &config["fee"]];
    ensure!(config["enabled"] == false && unknown.iter().all(|figure| figure.is_null()), "{config}");
    base.resume_mining().await;
    healthy("", true).await?;
    service.stop().await
}

#[tokio::test]
async fn the_older_status_calls_a_fill_under_way_pending() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(15_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    let quote = harness.quote(&body).await?;
    let id = request_id(&quote);
    let older = format!("/intents/status/v2?requestId={id}");
    ensure!(harness.get(&older).await? == (200, harness.status(id).await?));
    optimism.pause_mining().await;
    execute(base, &quote, &user).await?;
    let newer = harness.wait_for(id, "submitted").await?;
    let (_, answer) = harness.get(&older).await?;
    ensure!(answer["status"] == "pending" && answer["inTxHashes"] == newer["inTxHashes"], "{answer}");
    optimism.resume_mining().await;
    harness.wait_for(id, "success").await?;
    ensure!(harness.get(&older).await?.1["status"] == "success");
    service.stop().await
}
