//! The parts of JSON-RPC answers that we read.
//!
//! The types are written out instead of taken from a library: chains add transaction types and header fields of their
//! own, and a block must not become unreadable because one transaction in it is of a kind we do not know.

use alloy::primitives::{Address, B256, Bloom, Bytes, U256};
use alloy::rpc::types::Log;
use domain::time::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A block's position in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub number: u64,
    pub hash: B256,
    pub parent_hash: B256,
    /// Seconds since 1970, by the chain's own clock.
    pub time: u64,
    /// Zero where the chain has no base fee.
    pub base_fee: u128,
}

impl Head {
    /// The block's time, by the chain's own clock.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_secs(i64::try_from(self.time).unwrap_or(i64::MAX))
    }
}

/// A block as nodes send it. A header is the same thing with its transactions ignored.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawBlock<T> {
    #[serde(with = "alloy::serde::quantity")]
    number: u64,
    hash: B256,
    parent_hash: B256,
    #[serde(with = "alloy::serde::quantity")]
    timestamp: u64,
    #[serde(default, with = "alloy::serde::quantity::opt")]
    base_fee_per_gas: Option<u128>,
    #[serde(default)]
    pub logs_bloom: Option<Bloom>,
    #[serde(default = "Vec::new")]
    pub transactions: Vec<T>,
}

pub(crate) type Header = RawBlock<IgnoredAny>;
pub(crate) type FullBlock = RawBlock<Tx>;

impl<T> RawBlock<T> {
    pub(crate) fn head(&self) -> Head {
        Head {
            number: self.number,
            hash: self.hash,
            parent_hash: self.parent_hash,
            time: self.timestamp,
            base_fee: self.base_fee_per_gas.unwrap_or_default(),
        }
    }
}

/// A mined transaction, reduced to what deposits and our own payments need.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tx {
    pub hash: B256,
    pub from: Address,
    #[serde(default)]
    pub to: Option<Address>,
    /// A chain's own system transactions may have none.
    #[serde(default, with = "alloy::serde::quantity")]
    pub nonce: u64,
    pub value: U256,
    pub input: Bytes,
}

/// A transaction that may still be pending.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeardTx {
    #[serde(default)]
    pub to: Option<Address>,
    pub input: Bytes,
    /// The block it was mined in, if any.
    #[serde(default)]
    pub block_hash: Option<B256>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub transaction_hash: B256,
    pub block_hash: B256,
    #[serde(with = "alloy::serde::quantity")]
    pub block_number: u64,
    #[serde(with = "alloy::serde::quantity")]
    pub transaction_index: u64,
    #[serde(with = "alloy::serde::quantity")]
    status: u8,
    #[serde(with = "alloy::serde::quantity")]
    pub gas_used: u64,
    #[serde(default, with = "alloy::serde::quantity::opt")]
    effective_gas_price: Option<u128>,
    /// The fee that some rollups charge beside gas for publishing the data.
    #[serde(default)]
    l1_fee: Option<U256>,
    pub logs: Vec<Log>,
}

/// The transaction of a receipt; nothing else of the receipt is read.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptName {
    pub transaction_hash: B256,
}

impl Receipt {
    pub fn success(&self) -> bool {
        self.status == 1
    }

    pub fn effective_gas_price(&self) -> u128 {
        self.effective_gas_price.unwrap_or_default()
    }

    /// The total fee that the sender paid for inclusion.
    pub fn fee(&self) -> U256 {
        let gas = U256::from(self.gas_used).saturating_mul(U256::from(self.effective_gas_price()));
        gas.saturating_add(self.l1_fee.unwrap_or_default())
    }
}

/// The envelope of every answer. A result of `null` is a result; a missing one is not.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    #[serde(default, deserialize_with = "present")]
    pub result: Option<Box<RawValue>>,
    #[serde(default)]
    pub error: Option<Fault>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Fault {
    #[serde(default)]
    pub code: i64,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    data: Option<serde_json::Value>,
}

impl Fault {
    /// Revert data comes as a hex string, or one level down in an object.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        let data = self.data.as_ref()?;
        let text = data.as_str().or_else(|| data.get("data")?.as_str())?;
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_result_differs_from_a_missing_one() {
        let null: Answer = serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"result":null}"#).unwrap();
        assert_eq!(null.result.unwrap().get(), "null");
        let missing: Answer = serde_json::from_str(r#"{"jsonrpc":"2.0","id":1}"#).unwrap();
        assert!(missing.result.is_none() && missing.error.is_none());
    }

    #[test]
    fn a_block_with_an_unknown_kind_of_transaction_is_readable() {
        let block: FullBlock = serde_json::from_str(&format!(
            r#"{{"number":"0x10","hash":"{h}","parentHash":"{h}","timestamp":"0x5","extra":true,
                 "transactions":[{{"type":"0x7e","hash":"{h}","from":"{a}","to":null,"value":"0x2",
                 "input":"0x","sourceHash":"{h}","mint":"0x1"}}]}}"#,
            h = B256::repeat_byte(1),
            a = Address::repeat_byte(2),
        ))
        .unwrap();
        assert_eq!(block.head().number, 16);
        assert_eq!(block.head().base_fee, 0);
        assert_eq!(block.transactions[0].to, None);
    }

    #[test]
    fn revert_data_is_found_where_nodes_put_it() {
        for text in
            [r#"{"code":3,"message":"x","data":"0x0102"}"#, r#"{"code":3,"message":"x","data":{"data":"0x0102"}}"#]
        {
            let fault: Fault = serde_json::from_str(text).unwrap();
            assert_eq!(fault.bytes().unwrap().as_ref(), [1, 2]);
        }
        let none: Fault = serde_json::from_str(r#"{"code":-32000,"message":"x"}"#).unwrap();
        assert_eq!(none.bytes(), None);
    }
}
