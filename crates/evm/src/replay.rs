//! A failed transaction is replayed to learn why: receipts do not say.
//!
//! The replay is exact where a node offers traces; elsewhere it is a call on the state before the transaction's block,
//! then on the state after it, because the cause may have happened in the same block.

use alloy::primitives::{Address, B256, Bytes, U256};
use domain::revert::Revert;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::errors::{ChainError, Refusal};
use crate::node::TRACE;
use crate::nodes::{At, Nodes};
use crate::revert::decode;

/// A transaction as it was mined.
#[derive(Clone, Debug)]
pub struct Replayed {
    pub hash: B256,
    pub from: Address,
    /// None for the creation of a contract.
    pub to: Option<Address>,
    pub value: U256,
    pub data: Bytes,
    /// The gas limit; none leaves it to the node.
    pub gas: Option<u64>,
}

/// The outermost call of a transaction.
#[derive(Debug, Deserialize)]
struct Frame {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    output: Option<Bytes>,
}

impl Nodes {
    /// The reason for the failure; none when the nodes do not know the transaction (any more), or when it does not fail
    /// again.
    pub fn why_failed<'a>(&'a self, tx: &'a Replayed) -> BoxFuture<'a, Result<Option<Revert>, ChainError>> {
        async move {
            let Some(receipt) = self.receipt(tx.hash).await? else { return Ok(None) };
            // Every call keeps a 64th of the gas back from the next; the rest was burnt a few calls deep.
            let starved = tx.gas.is_some_and(|gas| receipt.gas_used >= gas - gas / 16);
            let said = |revert| if revert == Revert::Silent && starved { Revert::OutOfGas } else { revert };
            if let Some(revert) = self.traced(tx.hash).await {
                return Ok(Some(said(revert)));
            }
            let mut call = json!({
                "from": tx.from, "to": tx.to, "value": tx.value, "input": tx.data,
                "gasPrice": U256::from(receipt.effective_gas_price()),
            });
            if let Some(gas) = tx.gas {
                call["gas"] = json!(U256::from(gas));
            }
            let call = &call;
            let mut answered_false = false;
            for at in [At::Number(receipt.block_number.saturating_sub(1)), At::Hash(receipt.block_hash)] {
                let answer: Result<Option<Bytes>, _> = self
                    .first_known(|node| async move { node.ask("eth_call", (call, at.param())).await.map(Some) })
                    .await;
                match answer {
                    Ok(output) => answered_false |= output.is_some_and(|output| is_false(&output)),
                    Err(ChainError::Refused { refusal: Refusal::Reverted(data), .. }) => {
                        return Ok(Some(said(decode(&data))));
                    }
                    Err(ChainError::Refused { refusal: Refusal::OutOfGas, .. }) => return Ok(Some(Revert::OutOfGas)),
                    Err(error) => return Err(error),
                }
            }
            Ok(match (receipt.success(), starved) {
                (true, _) => answered_false.then_some(Revert::AnsweredFalse),
                (false, true) => Some(Revert::OutOfGas),
                (false, false) => None,
            })
        }
        .boxed()
    }

    /// None where no node offers traces, or not of this transaction.
    async fn traced(&self, hash: B256) -> Option<Revert> {
        let wish = &json!({ "tracer": "callTracer", "tracerConfig": { "onlyTopCall": true } });
        let frame: Frame =
            self.first_known(|node| async move { node.ask(TRACE, (hash, wish)).await.map(Some) }).await.ok()??;
        let output = frame.output.unwrap_or_default();
        match frame.error {
            None => is_false(&output).then_some(Revert::AnsweredFalse),
            Some(error) if output.is_empty() && error.to_ascii_lowercase().replace(' ', "").contains("outofgas") => {
                Some(Revert::OutOfGas)
            }
            Some(_) => Some(decode(&output)),
        }
    }
}

fn is_false(output: &Bytes) -> bool {
    output.len() == 32 && output.iter().all(|&byte| byte == 0)
}
