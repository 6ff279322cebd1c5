//! `causeway topup`: asks the running service to refill the fillers' native currency from the treasury.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::operator;
use crate::config::Config;

/// Interval and number of polls for the service to have sent everything.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const MAX_POLLS: usize = 60;

pub(crate) async fn run(config: &Config, yes: bool) -> Result<()> {
    let mut chains = post(config, yes).await?;
    let mut looks = 0;
    while yes && any(&chains, |wallet| wallet["asked"] == true) && looks < MAX_POLLS {
        tokio::time::sleep(POLL_INTERVAL).await;
        (chains, looks) = (post(config, false).await?, looks + 1);
    }
    show(&chains);
    ensure!(!yes || !any(&chains, |wallet| wallet["asked"] == true), "not every wallet could be filled up yet");
    let idle = |wallet: &Value| wallet["lacks"].is_string() && wallet["underWay"].is_null();
    if !yes && any(&chains, idle) {
        println!("nothing was sent; `causeway topup --yes` sends what is lacking");
    }
    Ok(())
}

async fn post(config: &Config, send: bool) -> Result<Vec<Value>> {
    let answer = operator::post(config, "/operator/topups", &json!({ "send": send })).await?;
    Ok(list(&answer["chains"]))
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn any(chains: &[Value], is_so: impl Fn(&Value) -> bool) -> bool {
    chains.iter().any(|chain| list(&chain["wallets"]).iter().any(&is_so))
}

fn show(chains: &[Value]) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if chains.is_empty() {
        println!("no chain says what its wallets should have: set `chains.gas_refill` in the configuration");
    }
    for chain in chains {
        let symbol = text(&chain["symbol"]);
        println!("{}: the treasury has {} {symbol}", text(&chain["name"]), text(&chain["treasury"]));
        for wallet in list(&chain["wallets"]) {
            let mut line = format!("  {} has {} {symbol}", text(&wallet["wallet"]), text(&wallet["has"]));
            if let Some(sent) = wallet["underWay"].as_object() {
                let (amount, tx) = (text(&sent["amount"]), text(&sent["txHash"]));
                line += &format!(", {amount} {symbol} were sent and are not final yet {tx}");
            } else if let Some(lacks) = wallet["lacks"].as_str() {
                line += &format!(" and lacks {lacks} {symbol}");
            }
            if wallet["asked"] == true {
                line +=
                    &format!("; asked for: {}", wallet["waitsFor"].as_str().unwrap_or("the worker has not looked yet"));
            }
            println!("{line}");
        }
    }
}
