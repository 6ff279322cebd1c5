//! Transactions of a deployment. An account's transactions are known before they are mined; a stage is sent at once and
//! mined as one block.

use std::collections::HashMap;

use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::eips::eip2718::Encodable2718;
use alloy::rpc::types::TransactionReceipt;
use alloy::signers::SignerSync;
use alloy::sol_types::SolCall;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::artifacts::DETERMINISTIC_DEPLOYER;
use crate::keys::Account;
use crate::rpc::Rpc;

/// A deployment by the deterministic deployer: the call to make, and the address that it gives.
#[derive(Clone, Debug)]
pub struct Deterministic {
    pub deployer: Address,
    pub input: Bytes,
    pub address: Address,
}

impl Deterministic {
    pub(crate) fn new(code: &Bytes, args: &[u8]) -> Self {
        Self::salted(B256::ZERO, code, args)
    }

    /// The same with a salt, for contracts that are known by the address which theirs gives.
    pub(crate) fn salted(salt: B256, code: &Bytes, args: &[u8]) -> Self {
        let (deployer, code) = (DETERMINISTIC_DEPLOYER, [code.as_ref(), args].concat());
        let input = [salt.as_slice(), &code].concat().into();
        Self { deployer, input, address: deployer.create2_from_code(salt, code) }
    }
}

/// Transactions that go into one block together.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub rpc: &'a Rpc,
    chain_id: u64,
    nonces: HashMap<Address, u64>,
    raw: Vec<(String, Bytes)>,
}

impl<'a> Stage<'a> {
    /// A stage for a chain on which the senders have not sent anything yet.
    pub(crate) fn new(rpc: &'a Rpc, chain_id: u64) -> Self {
        Self { rpc, chain_id, nonces: HashMap::new(), raw: vec![] }
    }

    /// Returns the address the contract will have.
    pub(crate) fn create(&mut self, from: &Account, code: Bytes, args: Vec<u8>) -> Result<Address> {
        let nonce = self.nonces.get(&from.address).copied().unwrap_or_default();
        self.send(from, TxKind::Create, U256::ZERO, [code.as_ref(), &args].concat().into())?;
        Ok(from.address.create(nonce))
    }

    pub(crate) fn call(&mut self, from: &Account, to: Address, call: &impl SolCall) -> Result<()> {
        self.send(from, TxKind::Call(to), U256::ZERO, call.abi_encode().into())
    }

    pub(crate) fn send(&mut self, from: &Account, to: TxKind, value: U256, data: Bytes) -> Result<()> {
        let nonce = self.nonces.entry(from.address).or_default();
        let what = format!("transaction {nonce} of {} to {to:?}", from.address);
        let tx = TxEip1559 {
            chain_id: self.chain_id,
            nonce: *nonce,
            // Below the maximum gas of a transaction since Osaka (2^24), and above the need of any of ours.
            gas_limit: 12_000_000,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1_000_000,
            to,
            value,
            access_list: Default::default(),
            input: data,
        };
        *nonce += 1;
        self.raw.push((what, sign(tx, from)?));
        Ok(())
    }

    /// Mines all staged transactions; fails unless all of them succeeded.
    pub(crate) async fn mine(&mut self) -> Result<()> {
        let sent = std::mem::take(&mut self.raw);
        let sends = sent.iter().map(|(_, raw)| ("eth_sendRawTransaction", json!([raw])));
        let hashes = self.rpc.batch(sends).await?;
        self.rpc.call::<Value>("evm_mine", json!([])).await?;
        let receipts = self.rpc.batch(hashes.iter().map(|hash| ("eth_getTransactionReceipt", json!([hash])))).await?;
        for ((what, _), receipt) in sent.iter().zip(receipts) {
            let receipt: Option<TransactionReceipt> = serde_json::from_value(receipt)?;
            let receipt = receipt.with_context(|| format!("{what} was not mined"))?;
            ensure!(receipt.status(), "{what} reverted");
        }
        Ok(())
    }

    pub(crate) async fn read<C: SolCall>(&self, to: Address, call: &C) -> Result<C::Return> {
        read(self.rpc, to, call).await
    }
}

pub(crate) fn sign(tx: TxEip1559, from: &Account) -> Result<Bytes> {
    let signature = from.signer().sign_hash_sync(&tx.signature_hash())?;
    Ok(tx.into_signed(signature).encoded_2718().into())
}

pub(crate) async fn read<C: SolCall>(rpc: &Rpc, to: Address, call: &C) -> Result<C::Return> {
    let data = Bytes::from(call.abi_encode());
    let answer: Bytes = rpc.call("eth_call", json!([{"to": to, "data": data}, "latest"])).await?;
    C::abi_decode_returns(&answer).with_context(|| format!("{} on {to} answered {answer}", C::SIGNATURE))
}
