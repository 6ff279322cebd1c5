//! Blocks that a node invents beyond the head of its chain. No I/O.
//!
//! They are empty and well linked: the first names the real head as its parent. The hash of an invented block holds its
//! number, so that it can be asked for.

use alloy_primitives::{B256, U64};
use serde_json::{Value, json};

use crate::fault_replies::number;

const MARK: [u8; 24] = [0xee; 24];

pub(crate) fn hash(number: u64) -> B256 {
    let mut hash = [0xee; 32];
    hash[24..].copy_from_slice(&number.to_be_bytes());
    hash.into()
}

/// The number of the invented block with this hash.
pub(crate) fn number_of(hash: &Value) -> Option<u64> {
    let hash: B256 = serde_json::from_value(hash.clone()).ok()?;
    let number = hash.strip_prefix(&MARK)?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

/// The number of the invented block that a question is about, given the real head.
pub(crate) fn asked_for(method: &str, params: &Value, head: u64, ahead: u64) -> Option<u64> {
    match (method, params[0].as_str()) {
        ("eth_getBlockByNumber", Some("latest" | "pending")) => Some(head.saturating_add(ahead)),
        ("eth_getBlockByNumber", _) => {
            number(&params[0]).filter(|number| *number > head && *number <= head.saturating_add(ahead))
        }
        ("eth_getBlockByHash" | "eth_getBlockReceipts", _) => number_of(&params[0]),
        ("eth_getLogs", _) => number_of(&params[0]["blockHash"]),
        _ => None,
    }
}

/// An invented block in the shape of the real head.
pub(crate) fn block(head: &Value, at: u64, parent: &Value) -> Value {
    let mut block = head.clone();
    let later = at.saturating_sub(number(&head["number"]).unwrap_or_default());
    let time = number(&head["timestamp"]).unwrap_or_default().saturating_add(later);
    block["number"] = json!(U64::from(at));
    block["hash"] = json!(hash(at));
    block["parentHash"] = parent.clone();
    block["timestamp"] = json!(U64::from(time));
    if block.get("transactions").is_some() {
        block["transactions"] = json!([]);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invented_block_can_be_asked_for_by_what_was_shown_of_it() {
        let head = json!({ "number": "0x10", "hash": B256::repeat_byte(1), "timestamp": "0x64", "transactions": [1] });
        let asked = |method: &str, params: Value| asked_for(method, &params, 0x10, 5);
        assert_eq!(asked("eth_getBlockByNumber", json!(["latest", false])), Some(0x15));
        assert_eq!(asked("eth_getBlockByNumber", json!(["0x11", false])), Some(0x11));
        assert_eq!(asked("eth_getBlockByNumber", json!(["0x10", false])), None, "real blocks stay as they are");
        let block = block(&head, 0x11, &head["hash"]);
        assert_eq!((&block["parentHash"], &block["transactions"]), (&head["hash"], &json!([])));
        assert_eq!(asked("eth_getBlockByHash", json!([block["hash"], true])), Some(0x11));
        assert_eq!(asked("eth_getLogs", json!([{ "blockHash": block["hash"] }])), Some(0x11));
        assert_eq!(asked("eth_getLogs", json!([{ "blockHash": head["hash"] }])), None);
    }
}
