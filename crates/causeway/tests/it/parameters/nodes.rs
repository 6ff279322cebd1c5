//! Nodes that do not answer: a quote does not need them until the market snapshot is too old.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use devnet::Fault;
use serde_json::{Value, json};

use super::{Fixture, units, with};
use crate::harness::{Harness, eventually};

/// The time after which a call to a node that does not answer is given up.
const NODE_TIMEOUT: Duration = Duration::from_secs(4);
/// Less than that, and longer than a busy machine takes for a quote out of memory.
const PROMPT: Duration = Duration::from_secs(3);

fn all_nodes(fixture: &Fixture, fault: &Fault) {
    for chain in &fixture.harness.devnet.chains {
        chain.faults.set(fault.clone());
    }
}

/// Nodes that do not answer, each with the error of a quote that needs one.
fn silences() -> [(Fault, &'static str); 2] {
    let (stalled, reset) = (Fault { stall: true, ..Fault::default() }, Fault { reset: true, ..Fault::default() });
    [(stalled, "REQUEST_TIMED_OUT"), (reset, "RPC_HTTP_ERROR")]
}

fn asks(fixture: &Fixture) -> [Value; 4] {
    [
        fixture.plain(),
        fixture.ask("TAIL", "USDC", &units(1_000, 18)),
        fixture.ask("USDC", "TAIL", "25000000"),
        fixture.ask_here("ETH", "USDC", &units(1, 17)),
    ]
}

/// A quote whose fill makes a call, which a node has to try.
fn with_calls(fixture: &Fixture) -> Value {
    let ether = units(1, 16);
    let call = json!([{ "to": fixture.currency("WETH"), "value": ether, "data": "0xd0e30db0" }]);
    with(&fixture.ask("USDC", "ETH", &ether), json!({ "tradeType": "EXACT_OUTPUT", "txs": call }))
}

/// An answer and its duration: the best of three, because the machine may be busy. A quote that waits for a node does
/// so every time.
async fn soonest(fixture: &Fixture, body: &Value) -> Result<(u16, Value, Duration)> {
    let mut tries = 1;
    loop {
        let asked = Instant::now();
        let (code, answer) = fixture.answer(body).await?;
        let waited = asked.elapsed();
        if waited < PROMPT || tries == 3 {
            return Ok((code, answer, waited));
        }
        tries += 1;
    }
}

async fn recovers(fixture: &Fixture) -> Result<()> {
    all_nodes(fixture, &Fault::default());
    for body in asks(fixture) {
        eventually("it quotes again", || async { Ok(fixture.answer(&body).await?.0 == 200) }).await?;
    }
    Ok(())
}

/// A service whose snapshots may be so old, on chains of whose endpoints only the one that can be made to fail remains.
async fn fixture(market_max_age_secs: u64) -> Result<Fixture> {
    let harness = Harness::isolated(|config| {
        config.limits.market_max_age_secs = market_max_age_secs;
        config.limits.rpc_timeout_millis = NODE_TIMEOUT.as_secs() * 1_000;
        config.chains.iter_mut().for_each(|chain| drop(chain.endpoints.remove(0)));
    })
    .await?;
    Fixture::on(harness).await
}

#[tokio::test]
async fn quotes_go_on_without_nodes_for_a_while() -> Result<()> {
    // Longer than any machine takes for this.
    let fixture = fixture(3_600).await?;
    let calls = with_calls(&fixture);
    fixture.quote(&calls).await?;
    for (fault, error) in silences() {
        all_nodes(&fixture, &fault);
        for body in asks(&fixture) {
            let (code, answer, waited) = soonest(&fixture, &body).await?;
            // The last block may have come without its pools: then only transfers that need none are quoted.
            let pools = body != fixture.plain() && answer["message"].as_str().is_some_and(|it| it.contains("pools"));
            ensure!(code == 200 || (code == 503 && pools), "{code} {answer} for {body}");
            ensure!(waited < PROMPT, "it waited {waited:?} for {body}");
        }
        // The outcome of calls is the one thing that cannot be known without a node.
        fixture.refused(&calls, 503, error, "").await?;
        recovers(&fixture).await?;
        fixture.quote(&calls).await?;
    }
    fixture.close().await
}

#[tokio::test]
async fn without_nodes_for_too_long_there_are_no_quotes_until_they_are_back() -> Result<()> {
    let fixture = fixture(6).await?;
    let calls = with_calls(&fixture);
    for (fault, _) in silences() {
        all_nodes(&fixture, &fault);
        for body in asks(&fixture).iter().chain([&calls]) {
            eventually("what is known grows too old", || async {
                let (code, answer) = fixture.answer(body).await?;
                Ok(code == 503 && answer["errorCode"] == "PRICE_FETCH_FAILED" && answer["statusCode"] == json!(503))
            })
            .await?;
        }
        let (_, answer) = fixture.harness.post("/price", &fixture.plain()).await?;
        ensure!(answer["errorCode"] == "PRICE_FETCH_FAILED", "{answer}");
        recovers(&fixture).await?;
        fixture.quote(&calls).await?;
    }
    fixture.close().await
}
