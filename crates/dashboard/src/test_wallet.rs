//! The test wallet of a local network: a key that everybody may use, behind the few calls that a wallet answers.
//!
//! The browser shows it beside injected wallets, so that pages know one kind of wallet only.

use alloy_primitives::{Address, B256, Bytes, U256, eip191_hash_message, hex};
use axum::Json;
use axum::extract::State;
use domain::ids::ChainId;
use evm::{Attempt, ChainError, LocalSigner, Nodes, NonceTag, TxFields};
use serde_json::{Value, json};

use crate::Dashboard;
use crate::failure::Failure;
use crate::guard::Fields;

/// Offered to the miners of test chains, in wei.
const TIP: u128 = 1_000_000_000;
/// The longest data of a transaction.
const MAX_DATA: usize = 32 * 1024;

fn refused(error: &ChainError) -> Failure {
    Failure::bad(format!("the test chain refused: {error}"))
}

fn parsed<T: std::str::FromStr>(fields: &Fields, name: &str) -> Result<T, Failure> {
    fields.get(name).parse().map_err(|_| Failure::bad(format!("{name}: does not fit")))
}

impl Dashboard {
    fn test_nodes(&self, fields: &Fields) -> Result<(ChainId, &Nodes), Failure> {
        let chain = ChainId(parsed(fields, "chainId")?);
        let handle = self.app.chains.get(&chain).ok_or_else(|| Failure::bad("chainId: no such chain"))?;
        Ok((chain, &handle.nodes))
    }

    async fn send_test_tx(&self, wallet: &LocalSigner, fields: &Fields) -> Result<Value, Failure> {
        let (chain, nodes) = self.test_nodes(fields)?;
        let to: Address = parsed(fields, "to")?;
        let value: U256 = parsed(fields, "value")?;
        let data: Bytes = parsed(fields, "data")?;
        if data.len() > MAX_DATA {
            return Err(Failure::bad("data: too long"));
        }
        let from = wallet.address();
        // One at a time: two transactions at once would take one nonce.
        let _turn = self.test_wallet_turn.lock().await;
        let attempt = Attempt { from, to, value, data: data.clone(), max_fee: None, gas: None };
        let gas = nodes.estimate_gas(attempt).await.map_err(|error| refused(&error))?;
        let head = nodes.head().await.map_err(|error| refused(&error))?;
        let nonce = nodes.nonce(from, NonceTag::Pending).await.map_err(|error| refused(&error))?;
        let fields = TxFields {
            chain,
            nonce,
            to,
            value,
            data,
            gas: gas.saturating_add(gas / 4),
            max_fee: head.base_fee.saturating_mul(3).saturating_add(TIP),
            max_priority_fee: TIP,
            authorizations: Vec::new(),
        };
        let signed = wallet.sign(&fields);
        let sent = nodes.send_raw(&signed.bytes, |_| ()).await;
        if !sent.is_held() {
            return Err(Failure::bad("the test chain did not take the transaction"));
        }
        Ok(json!(signed.hash))
    }

    async fn test_receipt(&self, fields: &Fields) -> Result<Value, Failure> {
        let (_, nodes) = self.test_nodes(fields)?;
        let hash: B256 = parsed(fields, "hash")?;
        let receipt = nodes.receipt(hash).await.map_err(|error| refused(&error))?;
        Ok(receipt.map_or(Value::Null, |receipt| json!({ "status": if receipt.success() { "0x1" } else { "0x0" } })))
    }
}

/// Answers one call of the browser's provider.
pub(crate) async fn call(State(dashboard): State<Dashboard>, fields: Fields) -> Result<Json<Value>, Failure> {
    let wallet = dashboard.settings.test_wallet.as_ref().ok_or(Failure::NotFound)?;
    let result = match fields.get("method") {
        "eth_requestAccounts" => json!([wallet.address().to_string()]),
        "personal_sign" => {
            let message: Bytes = parsed(&fields, "message")?;
            let signature = wallet.sign_digest(eip191_hash_message(&message)).as_bytes();
            json!(format!("0x{}", hex::encode(signature)))
        }
        "eth_sendTransaction" => dashboard.send_test_tx(wallet, &fields).await?,
        "eth_getTransactionReceipt" => dashboard.test_receipt(&fields).await?,
        _ => return Err(Failure::bad("method: not one of the test wallet's")),
    };
    Ok(Json(json!({ "result": result })))
}
