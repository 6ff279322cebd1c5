//! The means of the adversary: those of any user and any integrator.

use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, U256, eip191_hash_message};
use anyhow::{Context, Result};
use devnet::{Account, Chain, Devnet, FaultProxy};
use domain::ids::OrderId;
use evm::{LocalSigner, calldata};
use serde_json::{Value, json};

use super::{Attempt, Brought, Debt};
use crate::chaos::api::Api;
use crate::chaos::market::Market;
use crate::chaos::quoted::{Order, order, steps};
use crate::chaos::sends::Sends;
use crate::chaos::traffic::currency;

const GAS_LIMIT: u64 = 300_000;
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// An attempt under way.
pub(super) struct Hands<'a> {
    pub devnet: &'a Devnet,
    pub api: &'a Api,
    pub sends: &'a Sends<'a>,
    pub market: &'a Market<'a>,
    /// Nodes that the adversary owns, one of each chain.
    pub liars: &'a [FaultProxy],
    pub attempt: &'a Attempt,
}

impl<'a> Hands<'a> {
    pub(super) fn origin(&self) -> &'a Chain {
        &self.devnet.chains[self.attempt.origin]
    }

    /// The body of a quote from the first payer to the recipient.
    pub(super) fn ask(&self, from: &str, to: &str, amount: U256) -> Value {
        let (origin, destination) = (self.origin(), &self.devnet.chains[self.attempt.destination]);
        json!({
            "user": self.attempt.main.address, "recipient": self.attempt.recipient.address,
            "originChainId": origin.id, "originCurrency": currency(origin, from),
            "destinationChainId": destination.id, "destinationCurrency": currency(destination, to),
            "amount": amount.to_string(), "tradeType": "EXACT_INPUT",
        })
    }

    /// A quote, with the attempt's key if it has one. None if the service refuses.
    pub(super) async fn quote(&self, body: &Value) -> Result<Option<(Value, Order)>> {
        let key = self.attempt.integrator.as_ref().map(|integrator| &integrator.key);
        let until = Instant::now() + Duration::from_secs(6);
        while Instant::now() < until {
            match self.api.persist("/quote/v2", key, body).await {
                Some((200, quote)) => {
                    let order = order(&quote)?;
                    self.attempt.deeds().orders.push(order.id);
                    return Ok(Some((quote, order)));
                }
                // A market that is not known yet is a refusal as well: it passes.
                Some(_) | None => tokio::time::sleep(POLL_INTERVAL * 4).await,
            }
        }
        self.attempt.deeds().refused = true;
        Ok(None)
    }

    /// Asks for a fast fill; true if it is under way.
    pub(super) async fn fast_fill(&self, request: &str) -> bool {
        let Some(integrator) = &self.attempt.integrator else { return false };
        let body = json!({ "requestId": request });
        let answer = self.api.persist("/fast-fill", Some(&integrator.key), &body).await;
        // A first call may have been taken by a process that died before it answered.
        let taken = answer.is_some_and(|(code, _)| [200, 409].contains(&code));
        self.attempt.deeds().refused |= !taken;
        taken
    }

    /// Follows the steps of a quote; the last one is the deposit.
    pub(super) async fn follow(
        &self,
        quote: &Value,
        id: B256,
        from: &Account,
        symbol: &str,
        amount: U256,
    ) -> Result<()> {
        let calls = steps(quote)?;
        let last = calls.len() - 1;
        for (place, (to, value, data)) in calls.into_iter().enumerate() {
            let tx = self.call(from, (to, value, data), GAS_LIMIT)?;
            if place == last {
                self.bring(tx, id, symbol, amount);
            }
            self.sends.send(tx).await;
        }
        Ok(())
    }

    /// A plain token deposit under an order's id.
    pub(super) async fn pay(&self, from: &Account, symbol: &str, amount: U256, id: B256) -> Result<()> {
        let chain = self.origin();
        let data = calldata::implicit_deposit(chain.contracts.depository, amount, OrderId(id));
        let tx = self.call(from, (chain.token(symbol).address, U256::ZERO, data), GAS_LIMIT)?;
        self.bring(tx, id, symbol, amount);
        self.sends.send(tx).await;
        Ok(())
    }

    /// Signs a call on the origin.
    pub(super) fn call(&self, from: &Account, call: (Address, U256, Bytes), gas: u64) -> Result<B256> {
        self.sends.sign(self.attempt.origin, from, call, gas, false)
    }

    /// Notes a deposit that a transaction makes.
    pub(super) fn bring(&self, tx: B256, id: B256, symbol: &str, amount: U256) {
        let (chain, currency) = (self.attempt.origin, currency(self.origin(), symbol));
        self.attempt.deeds().deposits.push(Brought { chain, tx, id, currency, amount });
    }

    pub(super) fn owe(&self, debt: Debt) {
        self.attempt.deeds().debts.push(debt);
    }

    /// Notes that the time of every debt is over between these blocks.
    pub(super) fn due(&self, blocks: (u64, u64)) {
        self.attempt.deeds().debts.iter_mut().for_each(|debt| debt.due = Some(blocks));
    }

    /// Claims all that a wallet has, again and again for a while.
    pub(super) async fn claim(&self, wallet: &Account, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if self.api.available(wallet.address).await.is_ok_and(|micros| micros > 10_000) {
                self.claim_once(wallet).await?;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn claim_once(&self, wallet: &Account) -> Result<()> {
        let base = self.devnet.chain(domain::ledger::CHAIN);
        let body = json!({ "chainId": base.id, "currency": base.token("USDC").address });
        let path = format!("/app-fees/{:#x}/claim", wallet.address);
        let Some((200, step)) = self.api.persist(&path, None, &body).await else { return Ok(()) };
        let data = &step["steps"][0]["items"][0]["data"];
        let id: B256 = data["sign"]["message"].as_str().context("a claim without its message")?.parse()?;
        let signer = LocalSigner::from_hex(&wallet.private_key.to_string())?;
        let signature = alloy::hex::encode(signer.sign_digest(eip191_hash_message(id)).as_bytes());
        // Noted first: the process that takes it may die before it answers.
        self.attempt.deeds().claims.push(id);
        let path = format!("/execute/permits?signature=0x{signature}");
        self.api.persist(&path, None, &data["post"]["body"]).await;
        Ok(())
    }
}
