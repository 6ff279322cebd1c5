//! Nodes that do not answer: a quote does not need them until the market snapshot is too old.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use devnet::Fault;
use serde_json::{Value, json};

use super::{Desk, units, with};
use crate::harness::{Harness, eventually};

const MAX_AGE: Duration = Duration::from_secs(10);
/// Less than the timeout of a node that does not answer.
const PROMPT: Duration = Duration::from_millis(900);

fn all_nodes(desk: &Desk, fault: &Fault) {
    for chain in &desk.harness.devnet.chains {
        chain.faults.set(fault.clone());
    }
}

fn asks(desk: &Desk) -> [Value; 4] {
    [
        desk.plain(),
        desk.ask("TAIL", "USDC", &units(1_000, 18)),
        desk.ask("USDC", "TAIL", "25000000"),
        desk.ask_here("ETH", "USDC", &units(1, 17)),
    ]
}

/// An answer and its duration: the best of three, because the machine may be busy. A quote that waits for a node does
/// so every time.
async fn soonest(desk: &Desk, body: &Value) -> Result<(u16, Value, Duration)> {
    let mut tries = 1;
    loop {
        let asked = Instant::now();
        let (code, answer) = desk.answer(body).await?;
        let waited = asked.elapsed();
        if waited < PROMPT || tries == 3 {
            return Ok((code, answer, waited));
        }
        tries += 1;
    }
}

async fn recovers(desk: &Desk) -> Result<()> {
    all_nodes(desk, &Fault::default());
    for body in asks(desk) {
        eventually("it quotes again", || async { Ok(desk.answer(&body).await?.0 == 200) }).await?;
    }
    Ok(())
}

#[tokio::test]
async fn quotes_go_on_without_nodes_for_a_while_and_come_back() -> Result<()> {
    let harness = Harness::isolated(|config| {
        config.limits.market_max_age_secs = MAX_AGE.as_secs();
        config.limits.rpc_timeout_millis = 1_000;
        // Only the endpoint that can be made to fail remains.
        config.chains.iter_mut().for_each(|chain| drop(chain.endpoints.remove(0)));
    })
    .await?;
    let desk = Desk::on(harness).await?;
    let ether = units(1, 16);
    let call = json!([{ "to": desk.currency("WETH"), "value": ether, "data": "0xd0e30db0" }]);
    let calls = with(&desk.ask("USDC", "ETH", &ether), json!({ "tradeType": "EXACT_OUTPUT", "txs": call }));
    desk.quote(&calls).await?;
    for (fault, error) in [
        (Fault { stall: true, ..Fault::default() }, "REQUEST_TIMED_OUT"),
        (Fault { reset: true, ..Fault::default() }, "RPC_HTTP_ERROR"),
    ] {
        all_nodes(&desk, &fault);
        let began = Instant::now();
        for body in asks(&desk) {
            let (code, answer, waited) = soonest(&desk, &body).await?;
            // The last block may have come without its pools: then only transfers that need none are quoted.
            let pools = body != desk.plain() && answer["message"].as_str().is_some_and(|it| it.contains("pools"));
            ensure!(code == 200 || (code == 503 && pools), "{code} {answer} for {body}");
            ensure!(waited < PROMPT, "it waited {waited:?} for {body}");
        }
        // The outcome of calls is the one thing that cannot be known without a node.
        desk.refused(&calls, 503, error, "").await?;
        ensure!(began.elapsed() < MAX_AGE, "too slow to tell");
        for body in asks(&desk).iter().chain([&calls]) {
            eventually("what is known grows too old", || async {
                let (code, answer) = desk.answer(body).await?;
                Ok(code == 503 && answer["errorCode"] == "PRICE_FETCH_FAILED" && answer["statusCode"] == json!(503))
            })
            .await?;
        }
        let (_, answer) = desk.harness.post("/price", &desk.plain()).await?;
        ensure!(answer["errorCode"] == "PRICE_FETCH_FAILED", "{answer}");
        recovers(&desk).await?;
        desk.quote(&calls).await?;
    }
    desk.close().await
}
