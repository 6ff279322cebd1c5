//! Forgeries of the transactions of one sender, and of prices: the answers of a node that wants to be paid for them. No
//! I/O.
//!
//! A forgery is shown alike wherever the transaction is shown: in its block, its receipt and every log query.

use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A forgery of the transactions of one sender. All others are shown as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgery {
    pub sender: Address,
    /// The transactions are shown as this call.
    pub call: Option<InventedCall>,
    /// The transactions are shown with these logs besides their own.
    pub logs: Vec<InventedLog>,
    /// Logs of theirs are not shown.
    pub hides_logs: bool,
    /// Their receipts say that they failed, and show no logs.
    pub fails: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventedCall {
    pub to: Address,
    pub value: U256,
    pub input: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventedLog {
    pub address: Address,
    pub topics: Vec<B256>,
    pub data: Bytes,
}

/// A word in the output of calls that is shown as another, such as the answer of a price feed or a balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FalseWord {
    pub real: U256,
    pub told: U256,
}

impl Forgery {
    /// A native deposit. `topic` is that of the depository's event.
    pub fn native_deposit(sender: Address, depository: Address, topic: B256, amount: U256, id: B256) -> Self {
        let data = [sender.into_word(), amount.into(), id].concat().into();
        let log = InventedLog { address: depository, topics: vec![topic], data };
        Self { sender, logs: vec![log], ..Self::default() }
    }

    /// A transfer of a token to the treasury, with a tag behind its arguments.
    pub fn token_funding(sender: Address, token: Address, treasury: Address, amount: U256, tag: B256) -> Self {
        let amount = B256::from(amount);
        let selector = &keccak256("transfer(address,uint256)")[..4];
        let input = [selector, treasury.into_word().as_slice(), amount.as_slice(), tag.as_slice()].concat().into();
        let topic = keccak256("Transfer(address,address,uint256)");
        let topics = vec![topic, sender.into_word(), treasury.into_word()];
        let log = InventedLog { address: token, topics, data: amount.into() };
        let call = InventedCall { to: token, value: U256::ZERO, input };
        Self { sender, call: Some(call), logs: vec![log], ..Self::default() }
    }

    /// A transfer of native currency to the treasury, with a tag as its input.
    pub fn native_funding(sender: Address, treasury: Address, value: U256, tag: B256) -> Self {
        Self { sender, call: Some(InventedCall { to: treasury, value, input: tag.into() }), ..Self::default() }
    }

    /// Transactions that failed, whatever became of them.
    pub fn failed(sender: Address) -> Self {
        Self { sender, fails: true, ..Self::default() }
    }

    /// Transactions whose logs nobody is shown.
    pub fn hidden(sender: Address) -> Self {
        Self { sender, hides_logs: true, ..Self::default() }
    }

    fn is_about(&self, transaction: &Value) -> bool {
        serde_json::from_value(transaction["from"].clone()).is_ok_and(|from: Address| from == self.sender)
    }
}

/// Lies about a transaction, as a block or a query by its hash shows it.
pub(crate) fn about_transaction(transaction: &mut Value, forgeries: &[Forgery]) {
    for forgery in forgeries.iter().filter(|forgery| forgery.is_about(transaction)).collect::<Vec<_>>() {
        if let Some(InventedCall { to, value, input }) = &forgery.call {
            transaction["to"] = json!(to);
            transaction["value"] = json!(value);
            transaction["input"] = json!(input);
        }
    }
}

pub(crate) fn about_receipt(receipt: &mut Value, forgeries: &[Forgery]) {
    for forgery in forgeries.iter().filter(|forgery| forgery.is_about(receipt)).collect::<Vec<_>>() {
        if let Some(call) = &forgery.call {
            receipt["to"] = json!(call.to);
        }
        if forgery.fails {
            receipt["status"] = json!("0x0");
        }
        let invented = invented(forgery, receipt, &receipt["transactionHash"]);
        if let Some(logs) = receipt["logs"].as_array_mut() {
            if forgery.hides_logs || forgery.fails {
                logs.clear();
            }
            logs.extend(invented);
        }
    }
}

/// Lies about the answer to a log query, given the transactions of the blocks that were asked for.
pub(crate) fn about_logs(logs: &mut Vec<Value>, filter: &Value, transactions: &[Value], forgeries: &[Forgery]) {
    for (forgery, transaction) in forgeries.iter().flat_map(|forgery| transactions.iter().map(move |it| (forgery, it)))
    {
        if !forgery.is_about(transaction) {
            continue;
        }
        if forgery.hides_logs || forgery.fails {
            logs.retain(|log| log["transactionHash"] != transaction["hash"]);
        }
        logs.extend(
            invented(forgery, transaction, &transaction["hash"]).into_iter().filter(|log| is_asked(filter, log)),
        );
    }
}

/// Lies about the output of a call, which is in words wherever several calls share one answer.
pub(crate) fn about_output(output: &mut Value, words: &[FalseWord]) {
    if words.is_empty() {
        return;
    }
    let Ok(bytes) = serde_json::from_value::<Bytes>(output.clone()) else { return };
    let mut bytes = bytes.to_vec();
    for word in bytes.chunks_exact_mut(32) {
        if let Some(forgery) = words.iter().find(|forgery| forgery.real.to_be_bytes::<32>() == *word) {
            word.copy_from_slice(&forgery.told.to_be_bytes::<32>());
        }
    }
    *output = json!(Bytes::from(bytes));
}

fn invented(forgery: &Forgery, place: &Value, hash: &Value) -> Vec<Value> {
    let position = serde_json::from_value::<U64>(place["transactionIndex"].clone()).unwrap_or_default().to::<u64>();
    let log = |(index, log): (u64, &InventedLog)| {
        json!({
            "address": log.address, "topics": log.topics, "data": log.data,
            "blockHash": place["blockHash"], "blockNumber": place["blockNumber"],
            "transactionHash": hash, "transactionIndex": place["transactionIndex"],
            // Behind all real logs, which stay far below.
            "logIndex": U64::from(0x1_0000 + 0x100 * position + index), "removed": false,
        })
    };
    (0..).zip(&forgery.logs).map(log).collect()
}

/// True if a filter asks for a log of this address with these topics.
fn is_asked(filter: &Value, log: &Value) -> bool {
    let is_one_of = |wanted: &Value, it: &Value| match wanted {
        Value::Null => true,
        Value::Array(several) => several.iter().any(|one| is_same(one, it)),
        one => is_same(one, it),
    };
    let topics = filter["topics"].as_array().map_or(&[][..], Vec::as_slice);
    let fits = topics.iter().enumerate().all(|(index, wanted)| is_one_of(wanted, &log["topics"][index]));
    is_one_of(&filter["address"], &log["address"]) && fits
}

/// Addresses are written with and without a checksum.
fn is_same(a: &Value, b: &Value) -> bool {
    a.as_str().zip(b.as_str()).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: Address = Address::repeat_byte(1);
    const TREASURY: Address = Address::repeat_byte(2);
    const TOKEN: Address = Address::repeat_byte(3);

    fn transaction(from: Address) -> Value {
        json!({
            "hash": B256::repeat_byte(from[0]), "from": from, "to": from, "value": "0x0", "input": "0x",
            "blockHash": B256::repeat_byte(9), "blockNumber": "0x9", "transactionIndex": "0x1",
        })
    }

    fn receipt(from: Address) -> Value {
        let mut receipt = transaction(from);
        receipt["transactionHash"] = receipt["hash"].take();
        receipt["status"] = json!("0x1");
        receipt["logs"] = json!([{ "transactionHash": receipt["transactionHash"] }]);
        receipt
    }

    #[test]
    fn a_forgery_is_about_one_sender() {
        let forgeries =
            [Forgery::failed(SENDER), Forgery::native_funding(SENDER, TREASURY, U256::from(5), B256::repeat_byte(7))];
        let (mut about, mut other) = (transaction(SENDER), transaction(TOKEN));
        about_transaction(&mut about, &forgeries);
        about_transaction(&mut other, &forgeries);
        assert_eq!((&about["to"], &about["value"]), (&json!(TREASURY), &json!("0x5")));
        assert_eq!(other, transaction(TOKEN));
        let (mut about, mut other) = (receipt(SENDER), receipt(TOKEN));
        about_receipt(&mut about, &forgeries);
        about_receipt(&mut other, &forgeries);
        assert_eq!((&about["status"], &about["logs"]), (&json!("0x0"), &json!([])));
        assert_eq!(other, receipt(TOKEN));
    }

    #[test]
    fn an_invented_log_answers_the_queries_that_ask_for_it() {
        let forgeries = [Forgery::token_funding(SENDER, TOKEN, TREASURY, U256::from(5), B256::repeat_byte(7))];
        let seen = |filter: Value| {
            let mut logs = Vec::new();
            about_logs(&mut logs, &filter, &[transaction(SENDER), transaction(TOKEN)], &forgeries);
            logs.len()
        };
        let transfer = keccak256("Transfer(address,address,uint256)");
        assert_eq!(seen(json!({ "topics": [transfer, null, [TREASURY.into_word()]] })), 1);
        assert_eq!(seen(json!({ "topics": [transfer, null, [SENDER.into_word()]] })), 0);
        assert_eq!(seen(json!({ "address": TOKEN, "topics": [] })), 1);
        assert_eq!(seen(json!({ "address": [TREASURY] })), 0);
    }

    #[test]
    fn a_false_word_is_shown_in_the_place_of_the_real_one_and_of_no_other() {
        let words = [FalseWord { real: U256::from(7), told: U256::from(9) }];
        let output =
            |numbers: [u64; 3]| json!(Bytes::from(numbers.map(|it| U256::from(it).to_be_bytes::<32>()).concat()));
        let mut told = output([7, 70, 7]);
        about_output(&mut told, &words);
        assert_eq!(told, output([9, 70, 9]));
    }

    #[test]
    fn a_hidden_transaction_shows_no_logs() {
        let mut logs = vec![json!({ "transactionHash": transaction(SENDER)["hash"] }), json!({ "transactionHash": 1 })];
        about_logs(&mut logs, &json!({}), &[transaction(SENDER)], &[Forgery::hidden(SENDER)]);
        assert_eq!(logs, [json!({ "transactionHash": 1 })]);
    }
}
