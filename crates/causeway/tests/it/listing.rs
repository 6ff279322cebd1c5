//! Listings of what really happened: records of every kind of request, the export, and the stream of their steps.

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use causeway::service::Service;
use devnet::Rng;
use serde_json::{Map, Value, json};

use crate::fast_fill::{Integrator, USDC, integrator};
use crate::harness::{Engine, Harness, WAIT_TIMEOUT, ask, execute, found, new_account, request_id};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

#[tokio::test]
async fn every_kind_of_request_is_listed_on_sqlite() -> Result<()> {
    story(Engine::Sqlite).await
}

#[tokio::test]
async fn every_kind_of_request_is_listed_on_postgres() -> Result<()> {
    story(Engine::Postgres).await
}

/// The ids of requests of several kinds, made in one run of the service.
struct Made {
    transfer: String,
    refund: String,
    same_chain: String,
    fast: String,
}

async fn story(engine: Engine) -> Result<()> {
    // Whatever today is, the older listing is alive.
    let harness = Harness::with(engine, |config| config.requests_v2.sunset_at = "9999-12-31".parse().unwrap()).await?;
    let service = harness.serve().await?;
    for path in ["/requests/v3", "/requests/v3.csv", "/requests/v3/stream"] {
        let (code, body) = harness.get(path).await?;
        ensure!(code == 401 && body["errorCode"] == "UNAUTHORIZED", "{path}: {body}");
    }
    let by = integrator(&harness, 1_000).await?;
    let made = make(&harness, &by).await?;
    let records = settled(&harness, &by, &made).await?;
    let wrapped = ["base", "optimism"].map(|chain| json!(harness.chain(chain).token("WETH").address));
    let find = |id: &str| records.iter().find(|record| record["id"] == id).context("listed");
    for (name, id) in
        [("transfer", &made.transfer), ("refund", &made.refund), ("same_chain", &made.same_chain), ("fast", &made.fast)]
    {
        let record = find(id)?;
        check_transactions(record, &wrapped)?;
        insta::assert_json_snapshot!(format!("listed_{name}"), shape(record));
    }
    let (_, family) = list(&harness, &by, &format!("id={}&includeChildRequests=true", made.transfer)).await?;
    let child = family["requests"].as_array().and_then(|all| all.iter().find(|it| it["id"] != *made.transfer));
    insta::assert_json_snapshot!("listed_child", shape(child.context("the second deposit")?));
    let (_, own) = list(&harness, &by, &format!("id={}&includeAuthenticatedData=true", made.transfer)).await?;
    let data = &own["requests"][0]["data"];
    ensure!(data["referrer"] == "shop" && data["apiKeyName"] == "an app", "{data}");
    older(&harness, &by, &made).await?;
    paged(&harness, &by, records.len()).await?;
    exported(&harness, &by, &records).await?;
    packed(&harness, &by).await?;
    streamed(&harness, &service, &by).await?;
    service.stop().await
}

async fn list(harness: &Harness, by: &Integrator, query: &str) -> Result<(u16, Value)> {
    let call = harness.client.get(harness.url(&format!("/requests/v3?{query}"))).header("x-api-key", &by.key);
    let response = call.send().await?;
    Ok((response.status().as_u16(), response.json().await?))
}

async fn make(harness: &Harness, by: &Integrator) -> Result<Made> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let (user, to) = (base.fresh_user().await?, new_account().address);
    let body = || ask(user.address, to, (BASE, here), (OPTIMISM, there), U256::from(100 * USDC));

    let mut asked = body();
    asked["referrer"] = json!("shop");
    asked["appFees"] = json!([{ "recipient": by.wallet.address, "fee": "10" }]);
    let (code, transfer) = by.post(harness, "/quote/v2", &asked).await?;
    ensure!(code == 200, "{transfer}");
    execute(base, &transfer, &user).await?;
    harness.wait_for(request_id(&transfer), "success").await?;
    // Deposited a second time: a request of its own, which goes back.
    execute(base, &transfer, &user).await?;

    let mut asked = body();
    asked["referrer"] = json!("debug-force-refund");
    let refund = harness.quote(&asked).await?;
    execute(base, &refund, &user).await?;
    harness.wait_for(request_id(&refund), "refund").await?;

    let swap = ask(user.address, to, (BASE, here), (BASE, Address::ZERO), U256::from(20 * USDC));
    let same_chain = harness.quote(&swap).await?;
    execute(base, &same_chain, &user).await?;
    harness.wait_for(request_id(&same_chain), "success").await?;

    let (code, fast) = by.post(harness, "/quote/v2", &body()).await?;
    ensure!(code == 200, "{fast}");
    let (code, answer) = by.fast_fill(harness, request_id(&fast)).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request_id(&fast), "success").await?;
    execute(base, &fast, &user).await?;

    let id = |quote: &Value| request_id(quote).to_owned();
    Ok(Made { transfer: id(&transfer), refund: id(&refund), same_chain: id(&same_chain), fast: id(&fast) })
}

/// All records, once everything has ended and every receipt has been read.
async fn settled(harness: &Harness, by: &Integrator, made: &Made) -> Result<Vec<Value>> {
    let all = found("all is listed", || async {
        let (code, answer) = list(harness, by, "limit=50&sortDirection=asc&includeTotal=true").await?;
        ensure!(code == 200, "{answer}");
        let records = answer["requests"].as_array().context("requests")?;
        let ended = |record: &Value| matches!(record["status"].as_str(), Some("success" | "refund"));
        let txs = |record: &Value| {
            let both = ["inTxs", "outTxs"].map(|side| record["data"][side].as_array().cloned().unwrap_or_default());
            both.concat()
        };
        let read = |record: &Value| {
            txs(record).iter().all(|tx| tx["stateChanges"].as_array().is_some_and(|all| !all.is_empty()))
        };
        let deposited = |record: &Value| !record["data"]["inTxs"].as_array().is_some_and(Vec::is_empty);
        let whole = records.len() == 5 && records.iter().all(|it| ended(it) && deposited(it) && read(it));
        // The total is counted a moment apart from the page.
        Ok((whole && answer["total"] == json!(records.len())).then(|| records.clone()))
    })
    .await?;
    ensure!(all.iter().any(|record| record["id"] == *made.fast));
    Ok(all)
}

/// The older listing tells the same stories, to anybody, and that its days are numbered.
async fn older(harness: &Harness, by: &Integrator, made: &Made) -> Result<()> {
    let get = async |query: &str| {
        let response = harness.client.get(harness.url(&format!("/requests/v2?{query}"))).send().await?;
        let headers = response.headers().clone();
        ensure!(headers["deprecation"] == "@1784678400" && headers["sunset"] == "Fri, 31 Dec 9999 00:00:00 GMT");
        ensure!(headers["link"].to_str()?.matches("rel=").count() == 3, "{headers:?}");
        ensure!(headers["access-control-expose-headers"] == "deprecation,sunset,link");
        ensure!(!headers.contains_key("ratelimit-limit"));
        Ok((response.status().as_u16(), response.json::<Value>().await?))
    };
    let last = std::cell::RefCell::new(String::new());
    let alike = found("both listings tell the same", || async {
        let (code, answer) = get("sortDirection=asc&limit=50").await?;
        ensure!(code == 200 && answer["deprecation"]["sunsetAt"] == "9999-12-31T00:00:00Z", "{answer}");
        let (_, newer) = list(harness, by, "sortDirection=asc&limit=50").await?;
        // A request that became final between the two was updated.
        Ok(match tell_the_same(&answer["requests"], &newer["requests"]) {
            Ok(()) => Some(answer["requests"].as_array().cloned().unwrap_or_default()),
            Err(difference) => {
                *last.borrow_mut() = difference.to_string();
                None
            }
        })
    });
    let older = alike.await.with_context(|| last.borrow().clone())?;
    for (name, id) in
        [("transfer", &made.transfer), ("refund", &made.refund), ("same_chain", &made.same_chain), ("fast", &made.fast)]
    {
        let record = older.iter().find(|record| record["id"] == **id).context("listed")?;
        insta::assert_json_snapshot!(format!("listed_v2_{name}"), shape(record));
        let hash = record["data"]["outTxs"][0]["hash"].as_str().context("a hash")?;
        let user = record["user"].as_str().context("a user")?;
        let (_, found) = get(&format!("user={user}&hash={hash}")).await?;
        ensure!(found["requests"].as_array().is_some_and(|all| all.iter().any(|it| it["id"] == **id)), "{found}");
    }
    let (_, first) = get("limit=2").await?;
    let next = first["continuation"].as_str().context("a second page")?;
    let (_, second) = get(&format!("limit=2&continuation={next}")).await?;
    ensure!(second["requests"][0]["id"] != first["requests"][1]["id"], "{second}");
    for (query, code) in [("limit=0", 400), ("status=submitted", 400), ("continuation=00", 400)] {
        ensure!(get(query).await?.0 == code, "{query}");
    }
    let wrong = harness.client.get(harness.url("/requests/v2")).header("x-api-key", "x").send().await?;
    ensure!(wrong.status() == 401 && wrong.headers().contains_key("sunset"));
    let method = harness.client.post(harness.url("/requests/v2")).header("x-api-key", &by.key).send().await?;
    ensure!(method.status() == 405 && method.headers().contains_key("sunset"));
    Ok(())
}

fn tell_the_same(older: &Value, newer: &Value) -> Result<()> {
    let all = |of: &Value| of.as_array().cloned().context("requests");
    let (older, newer) = (all(older)?, all(newer)?);
    ensure!(older.len() == newer.len() && !older.is_empty(), "{} and {}", older.len(), newer.len());
    for (older, record) in older.iter().zip(&newer) {
        for member in ["id", "status", "user", "recipient", "createdAt", "updatedAt", "protocol"] {
            ensure!(older[member] == record[member], "{member}: {older} {record}");
        }
        for side in ["inTxs", "outTxs"] {
            let hashes = |record: &Value, name: &str| -> Vec<Value> {
                record["data"][side].as_array().into_iter().flatten().map(|tx| tx[name].clone()).collect()
            };
            ensure!(hashes(older, "hash") == hashes(record, "txHash"), "{older}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_older_listing_turns_away_and_then_is_gone() -> Result<()> {
    let mut harness = Harness::with(Engine::Sqlite, |config| {
        config.limits.rate_limits = true;
        config.requests_v2.sunset_at = "9999-12-31".parse().unwrap();
        config.requests_v2.per_minute = 4.try_into().unwrap();
        config.requests_v2.cuts.clear();
    })
    .await?;
    let service = harness.serve().await?;
    let get = async |harness: &Harness| {
        let response = harness.client.get(harness.url("/requests/v2")).send().await?;
        let headers = response.headers().clone();
        ensure!(["deprecation", "sunset", "link"].into_iter().all(|name| headers.contains_key(name)), "{headers:?}");
        ensure!(!headers.contains_key("retry-after") && !headers.contains_key("ratelimit-limit"), "{headers:?}");
        Ok((response.status().as_u16(), response.json::<Value>().await?))
    };
    // Half of a key's.
    for code in [200, 200, 429] {
        let (answered, body) = get(&harness).await?;
        ensure!(answered == code, "{body}");
        let points_on = ["successor", "migrationGuide"].into_iter().all(|member| body[member].is_string());
        ensure!(points_on == (code == 429), "{body}");
    }
    service.stop().await?;
    harness.config.requests_v2.sunset_at = harness.config.requests_v2.deprecated_at;
    let service = harness.serve().await?;
    for _ in 0..4 {
        let (code, body) = get(&harness).await?;
        ensure!(code == 410 && body["errorCode"] == "GONE" && body["statusCode"] == 410, "{body}");
        let successor = body["successor"].as_str().context("a successor")?;
        ensure!(successor == harness.url("/requests/v3") && body["migrationGuide"].is_string(), "{body}");
    }
    service.stop().await
}

/// From the database, not from a node: fee, block, call and balances.
fn check_transactions(record: &Value, wrapped: &[Value]) -> Result<()> {
    let data = &record["data"];
    for tx in ["inTxs", "outTxs"].into_iter().flat_map(|side| data[side].as_array().into_iter().flatten()) {
        ensure!(tx["fee"] != "0" && tx["feeUsd"] != "0.000000" && tx["block"].as_u64() > Some(0), "{tx}");
        ensure!(tx["data"]["from"].as_str().is_some_and(|from| from.len() == 42), "{tx}");
        let changes = tx["stateChanges"].as_array().context("stateChanges")?;
        let sum_of = |token: &Value| -> i128 {
            let of = changes.iter().filter(|change| change["change"]["data"]["tokenAddress"] == *token);
            of.filter_map(|change| change["change"]["balanceDiff"].as_str()?.parse::<i128>().ok()).sum()
        };
        for change in changes {
            let token = &change["change"]["data"]["tokenAddress"];
            // Native currency also moves where no log tells, and is wrapped.
            let native = token == &json!(format!("{:#x}", Address::ZERO)) || wrapped.contains(token);
            ensure!(native || sum_of(token) == 0, "tokens are neither made nor lost: {tx}");
        }
    }
    Ok(())
}

async fn paged(harness: &Harness, by: &Integrator, count: usize) -> Result<()> {
    let (mut ids, mut continuation) = (Vec::new(), String::new());
    loop {
        let (code, page) = list(harness, by, &format!("limit=2&continuation={continuation}")).await?;
        ensure!(code == 200, "{page}");
        ids.extend(page["requests"].as_array().context("requests")?.iter().map(|it| it["id"].to_string()));
        match page["continuation"].as_str() {
            Some(next) => continuation = next.to_owned(),
            None => break,
        }
    }
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == count, "{ids:?}");
    let (code, answer) = list(harness, by, "continuation=b2Zmc2V0OjE").await?;
    ensure!(code == 400 && answer["message"].as_str().is_some_and(|it| it.starts_with("continuation")), "{answer}");
    Ok(())
}

async fn exported(harness: &Harness, by: &Integrator, records: &[Value]) -> Result<()> {
    let get = |path: &str| harness.client.get(harness.url(path)).header("x-api-key", &by.key).send();
    let response = get("/requests/v3.csv?sortDirection=asc").await?;
    ensure!(response.headers()["content-type"].to_str()?.starts_with("text/csv"));
    let text = response.text().await?;
    let lines: Vec<&str> = text.lines().collect();
    ensure!(lines.len() == records.len() + 1, "{text}");
    for (line, record) in lines[1..].iter().zip(records) {
        ensure!(line.starts_with(record["id"].as_str().context("id")?), "{line}");
    }
    ensure!(get("/requests/v3.csv?status=refund").await?.text().await?.lines().count() == 3);
    ensure!(get("/requests/v3.csv?limit=5").await?.status().as_u16() == 400);
    Ok(())
}

/// Pages and exports are compressed for those who take that; events are not.
async fn packed(harness: &Harness, by: &Integrator) -> Result<()> {
    let get = |path: &str, encoding: &'static str| {
        let call = harness.client.get(harness.url(path)).header("x-api-key", &by.key);
        call.header("accept-encoding", encoding).send()
    };
    for path in ["/requests/v3", "/requests/v3.csv", "/requests/v2"] {
        let response = get(path, "gzip").await?;
        ensure!(response.status() == 200 && response.headers()["content-encoding"] == "gzip", "{path}");
        ensure!(response.bytes().await?.starts_with(&[0x1f, 0x8b]), "{path}");
        ensure!(get(path, "identity").await?.headers().get("content-encoding").is_none(), "{path}");
    }
    let stream = get("/requests/v3/stream", "gzip").await?;
    ensure!(stream.status() == 200 && stream.headers().get("content-encoding").is_none());
    Ok(())
}

/// Reads the stream from its beginning, cut after a few events again and again.
async fn streamed(harness: &Harness, service: &Service, by: &Integrator) -> Result<()> {
    let sql = "select sequence from request_event where state <> 'waiting' order by sequence";
    let rows = service.solver.store.read(move |tx| tx.rows(sql, &[])).await?;
    let all = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
    let (mut random, mut given, mut last) = (Rng::new(11), Vec::new(), 0);
    while given.len() < all.len() {
        let most = usize::try_from(random.between(1, 4))?.min(all.len() - given.len());
        for (id, event) in read_events(harness, by, last, most).await? {
            ensure!(event["request"]["id"] == event["requestId"] && event["timestamp"].as_i64() > Some(0), "{event}");
            given.push(id);
            last = id;
        }
    }
    ensure!(given == all, "{given:?} {all:?}");
    Ok(())
}

/// A few events after a position.
async fn read_events(harness: &Harness, by: &Integrator, last: i64, most: usize) -> Result<Vec<(i64, Value)>> {
    let call = harness.client.get(harness.url("/requests/v3/stream")).header("x-api-key", &by.key);
    let mut response = call.header("last-event-id", last.to_string()).send().await?;
    ensure!(response.headers()["content-type"] == "text/event-stream");
    let (mut text, mut events) = (String::new(), Vec::new());
    loop {
        while let Some((frame, rest)) = text.split_once("\n\n") {
            let (frame, rest) = (frame.to_owned(), rest.to_owned());
            text = rest;
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(id), Some(data)) = (field("id:"), field("data:")) {
                ensure!(field("event:") == Some("request.status.updated"), "{frame}");
                events.push((id.parse()?, serde_json::from_str(data)?));
            }
            if events.len() == most {
                return Ok(events);
            }
        }
        let bytes = tokio::time::timeout(WAIT_TIMEOUT, response.chunk()).await??;
        text.push_str(std::str::from_utf8(&bytes.context("the stream ended")?)?);
    }
}

/// The record without values that differ from run to run.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let shown = |(name, value): (&String, &Value)| match (name.as_str(), value) {
                ("block" | "timestamp" | "failedTxBlockNumber" | "timeEstimate", Value::Number(_)) => {
                    (name.clone(), json!("[number]"))
                }
                (_, value) => (name.clone(), shape(value)),
            };
            Value::Object(members.iter().map(shown).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(shape).collect()),
        Value::String(text) if text.starts_with("0x") => json!("[hex]"),
        Value::String(text) if text.ends_with('Z') && text.contains('T') => json!("[time]"),
        Value::String(text) if text.trim_start_matches('-').bytes().all(|it| it.is_ascii_digit() || it == b'.') => {
            json!("[figure]")
        }
        other => other.clone(),
    }
}
