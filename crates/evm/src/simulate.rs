//! Simulation of a transaction with its logs: what it would do, before anybody pays for it.

use alloy::primitives::{Address, B256, Bytes, U256, b256};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::errors::ChainError;
use crate::node::SIMULATE;
use crate::nodes::Nodes;
use crate::revert::decode;
use crate::signer::SignedAuthorization;
use crate::topics::Topics;
use domain::revert::Revert;

/// A transaction to simulate.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub from: Address,
    pub to: Address,
    pub data: Bytes,
    pub gas: u64,
    /// Wei per unit of gas: a price is set, because code that behaves only when gas is free must not pass.
    pub base_fee: u128,
    pub max_fee: u128,
    pub authorizations: Vec<SignedAuthorization>,
}

/// Its result.
#[derive(Clone, Debug)]
pub enum Simulated {
    Succeeds { gas_used: u64, logs: Vec<SimulatedLog> },
    Reverts { revert: Revert, data: Bytes },
}

#[derive(Clone, Debug, Deserialize)]
pub struct SimulatedLog {
    pub address: Address,
    #[serde(default)]
    pub topics: Vec<B256>,
    #[serde(default)]
    pub data: Bytes,
}

#[derive(Debug, Deserialize)]
struct Block {
    calls: Vec<Call>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    status: U256,
    #[serde(default)]
    return_data: Bytes,
    gas_used: U256,
    #[serde(default)]
    logs: Vec<SimulatedLog>,
    #[serde(default)]
    error: Option<CallError>,
}

#[derive(Debug, Deserialize)]
struct CallError {
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Option<Bytes>,
}

/// The event in which the entry point of ERC-4337 says whether an operation succeeded: a bundle of failed ones does.
const USER_OPERATION: B256 = b256!("49628fd1471006c1482da88028e9ce4dbb080b815c9b0344d39e5a8e6ec1419f");

impl Nodes {
    /// Simulates a transaction on the newest block, at a gas price of its own.
    pub fn simulated<'a>(&'a self, simulation: &'a Simulation) -> BoxFuture<'a, Result<Simulated, ChainError>> {
        async move {
            let Simulation { from, to, data, gas, base_fee, max_fee, authorizations } = simulation;
            let mut call = json!({
                "from": from, "to": to, "input": data, "gas": U256::from(*gas), "maxFeePerGas": U256::from(*max_fee),
            });
            if !authorizations.is_empty() {
                call["authorizationList"] = json!(authorizations);
            }
            // Whether the sender can pay for it is not the question here.
            let rich = json!({ from.to_string(): { "balance": U256::from(u128::MAX) } });
            let block = json!({ "baseFeePerGas": U256::from(*base_fee) });
            let state = json!({ "blockOverrides": block, "stateOverrides": rich, "calls": [call] });
            let wish = &json!({ "blockStateCalls": [state], "validation": false, "traceTransfers": false });
            let blocks: Vec<Block> =
                self.first(|node| async move { node.ask(SIMULATE, (wish, "latest")).await }).await?;
            let call = blocks.into_iter().next().and_then(|block| block.calls.into_iter().next());
            let call = call.ok_or(ChainError::Undecodable("eth_simulateV1"))?;
            if call.status.is_zero() {
                let error = call.error.unwrap_or(CallError { message: String::new(), data: None });
                let data = error.data.filter(|data| !data.is_empty()).unwrap_or(call.return_data);
                let starved = data.is_empty() && error.message.to_ascii_lowercase().contains("gas");
                let revert = if starved { Revert::OutOfGas } else { decode(&data) };
                return Ok(Simulated::Reverts { revert, data });
            }
            Ok(Simulated::Succeeds { gas_used: call.gas_used.saturating_to(), logs: call.logs })
        }
        .boxed()
    }
}

/// True if an operation of a smart account failed inside a transaction that succeeds.
pub fn has_failed_operation(logs: &[SimulatedLog]) -> bool {
    // Nonce, success, cost and gas, a word each.
    let failed = |log: &SimulatedLog| log.data.get(32..64).is_some_and(|word| word.iter().all(|byte| *byte == 0));
    logs.iter().any(|log| log.topics.first() == Some(&USER_OPERATION) && failed(log))
}

/// True if the logs hold a deposit for an order: this much of a currency at least, zero for the native one.
pub fn has_deposit(logs: &[SimulatedLog], depository: Address, currency: Address, least: U256, order: B256) -> bool {
    let topics = Topics::default();
    logs.iter().filter(|log| log.address == depository).any(|log| {
        let word = |at: usize| log.data.get(at * 32..at * 32 + 32).map(B256::from_slice);
        let (token, amount, id) = match log.topics.first() {
            Some(topic) if *topic == topics.native_deposit => (Some(Address::ZERO), word(1), word(2)),
            Some(topic) if *topic == topics.erc20_deposit => (word(1).map(Address::from_word), word(2), word(3)),
            _ => return false,
        };
        let enough = amount.is_some_and(|amount| U256::from_be_bytes(amount.0) >= least);
        token == Some(currency) && enough && id == Some(order)
    })
}
