//! Every member of a quote's body: its default, its effect, and the refusal of a bad value; and every answer in full.

mod answers;
mod disabled;
mod figures;
mod members;
mod nodes;
mod options;
mod refusals;

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use causeway::service::Service;
use serde_json::{Value, json};

use crate::harness::{Engine, Harness, new_account, without_balance};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const NATIVE: &str = "0x0000000000000000000000000000000000000000";

/// A service and somebody who asks it for quotes.
struct Fixture {
    harness: Harness,
    service: Service,
    user: Address,
}

impl Fixture {
    async fn open() -> Result<Self> {
        Self::on(Harness::new(Engine::Sqlite).await?).await
    }

    async fn on(harness: Harness) -> Result<Self> {
        let service = harness.serve().await?;
        let fixture = Self { harness, service, user: new_account().address };
        // The pools are learnt after the first block.
        crate::harness::eventually("there is a market for TAIL", || async {
            Ok(fixture.answer(&fixture.ask("TAIL", "USDC", &units(1_000, 18))).await?.0 == 200)
        })
        .await?;
        Ok(fixture)
    }

    async fn close(self) -> Result<()> {
        self.service.stop().await
    }

    /// Tokens have the same address on every chain.
    fn currency(&self, symbol: &str) -> String {
        match symbol {
            "ETH" => NATIVE.to_owned(),
            token => self.harness.chain("base").token(token).address.to_string().to_lowercase(),
        }
    }

    /// A body from base to optimism, with the required members and nothing else.
    fn ask(&self, from: &str, to: &str, amount: &str) -> Value {
        json!({
            "user": self.user, "originChainId": BASE, "destinationChainId": OPTIMISM,
            "originCurrency": self.currency(from), "destinationCurrency": self.currency(to),
            "amount": amount, "tradeType": "EXACT_INPUT",
        })
    }

    /// The same on one chain.
    fn ask_here(&self, from: &str, to: &str, amount: &str) -> Value {
        with(&self.ask(from, to, amount), json!({ "destinationChainId": BASE }))
    }

    /// A plain stablecoin bridge.
    fn plain(&self) -> Value {
        self.ask("USDC", "USDC", "250000000")
    }

    async fn answer(&self, body: &Value) -> Result<(u16, Value)> {
        self.harness.post("/quote/v2", body).await
    }

    /// The answer of a service that knows its markets.
    async fn served(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        self.harness.served(self.harness.client.post(self.harness.url(path)).json(body)).await
    }

    async fn quote(&self, body: &Value) -> Result<Value> {
        self.harness.quote(body).await
    }

    /// A quote to compare with another: without the user's balance, which is learnt in between.
    async fn figures(&self, body: &Value) -> Result<Value> {
        Ok(without_balance(&self.quote(body).await?))
    }

    /// Asserts a refusal. `said` must be in the message: the member that is wrong, where one is.
    async fn refused(&self, body: &Value, status: u16, error: &str, said: &str) -> Result<Value> {
        // A market that was not read in time refuses everything, unless that is what is asserted.
        let (code, answer) =
            if status == 503 { self.answer(body).await? } else { self.served("/quote/v2", body).await? };
        let message = answer["message"].as_str().unwrap_or_default();
        ensure!(code == status && answer["errorCode"] == error, "not {error}: {code} {answer} for {body}");
        ensure!(message.contains(said) && answer["statusCode"] == json!(status), "not of {said}: {answer} for {body}");
        Ok(answer)
    }
}

/// The body with some members changed; null takes one out.
fn with(body: &Value, changes: Value) -> Value {
    let mut body = body.clone();
    for (member, value) in changes.as_object().unwrap() {
        body[member] = value.clone();
    }
    body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    body
}

/// `n` whole tokens.
fn units(n: u64, decimals: u8) -> String {
    (U256::from(n) * U256::from(10u8).pow(U256::from(decimals))).to_string()
}

/// Millionths of a dollar behind a figure with six decimals, as every one must have.
fn micros(usd: &Value) -> Result<i64> {
    let text = usd.as_str().unwrap_or_default();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    ensure!(fraction.len() == 6 && text != "-0.000000", "not dollars with six decimals: {usd}");
    Ok(format!("{whole}{fraction}").parse()?)
}

fn step_ids(quote: &Value) -> Vec<&str> {
    quote["steps"].as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap()).collect()
}
