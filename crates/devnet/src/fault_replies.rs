//! The replies of a faulty node: JSON-RPC calls and answers rewritten according to a `Fault`. No I/O.

use alloy_primitives::{Bytes, U64, keccak256};
use serde_json::{Value, json};

use crate::faults::Fault;

/// The treatment of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// Asks the node, perhaps something else than the caller asked.
    Forward(Value),
    /// Answers without asking.
    Result(Value),
    Error(i64, &'static str),
}

/// Decides on one call. `head` is the highest block the caller may see, when the fault hides some.
pub(crate) fn plan(mut call: Value, fault: &Fault, head: Option<u64>) -> Plan {
    let method = method(&call).to_owned();
    match method.as_str() {
        "eth_sendRawTransaction" | "eth_sendRawTransactionSync" | "eth_sendTransaction" if fault.reject_sends => {
            return Plan::Error(-32000, "transaction rejected");
        }
        "eth_sendRawTransaction" if fault.reject_set_code && is_set_code(&call["params"][0]) => {
            return Plan::Error(-32000, "authority already reserved");
        }
        "eth_sendRawTransaction" if fault.drop_sends => {
            let raw = serde_json::from_value::<Bytes>(call["params"][0].clone());
            return raw.map_or(Plan::Error(-32602, "invalid params"), |raw| Plan::Result(json!(keccak256(raw))));
        }
        "eth_sendRawTransactionSync" if fault.drop_sends => {
            return Plan::Error(4, "the transaction was not mined within the timeout");
        }
        "eth_getLogs" if fault.hide_logs => return Plan::Result(json!([])),
        "debug_traceTransaction" | "eth_getBlockReceipts" if fault.no_extras => {
            return Plan::Error(-32601, "the method is not available");
        }
        _ => (),
    }
    if fault.wrong_block_hash {
        if BY_BLOCK_HASH.contains(&method.as_str())
            && let Some(hash @ Value::String(_)) = call["params"].get_mut(0)
        {
            twist(hash);
        }
        twist_all(&mut call["params"]);
    }
    match head {
        Some(head) => hide_head(call, &method, head),
        None => Plan::Forward(call),
    }
}

/// True for a signed transaction of type 4.
fn is_set_code(raw: &Value) -> bool {
    raw.as_str().is_some_and(|raw| raw.starts_with("0x04"))
}

/// Rewrites the node's answer to a call of `method`.
pub(crate) fn bend(method: &str, result: &mut Value, fault: &Fault, head: Option<u64>) {
    if let Some(head) = head {
        let beyond = |value: &Value, key: &str| number(&value[key]).is_some_and(|n| n > head);
        match method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" if beyond(result, "number") => *result = Value::Null,
            "eth_getTransactionReceipt" if beyond(result, "blockNumber") => *result = Value::Null,
            "eth_getBlockReceipts" if beyond(&result[0], "blockNumber") => *result = Value::Null,
            "eth_getTransactionByHash" if beyond(result, "blockNumber") => {
                for key in ["blockHash", "blockNumber", "transactionIndex"] {
                    result[key] = Value::Null;
                }
            }
            "eth_getLogs" => {
                if let Value::Array(logs) = result {
                    logs.retain(|log| !beyond(log, "blockNumber"));
                }
            }
            _ => (),
        }
    }
    if fault.wrong_block_hash {
        twist_all(result);
    }
}

/// The error in place of an answer that the node finds too large.
pub(crate) fn refusal(method: &str, result: &Value, fault: &Fault) -> Option<Value> {
    let most = fault.max_logs.filter(|_| method == "eth_getLogs")?;
    let found = result.as_array()?.len();
    (found > most).then(|| json!({"code": -32005, "message": format!("query returned more than {most} results")}))
}

pub(crate) fn method(call: &Value) -> &str {
    call["method"].as_str().unwrap_or_default()
}

pub(crate) fn number(value: &Value) -> Option<u64> {
    serde_json::from_value::<U64>(value.clone()).ok().map(|n| n.to())
}

/// Calls whose first parameter may be a block hash.
const BY_BLOCK_HASH: [&str; 4] = [
    "eth_getBlockByHash",
    "eth_getBlockReceipts",
    "eth_getBlockTransactionCountByHash",
    "eth_getTransactionByBlockHashAndIndex",
];

/// The index of the block parameter of a method.
fn block_parameter(method: &str) -> Option<usize> {
    Some(match method {
        "eth_getBlockByNumber"
        | "eth_getBlockReceipts"
        | "eth_getBlockTransactionCountByNumber"
        | "eth_getTransactionByBlockNumberAndIndex" => 0,
        "eth_getBalance"
        | "eth_getCode"
        | "eth_getTransactionCount"
        | "eth_call"
        | "eth_estimateGas"
        | "eth_createAccessList"
        | "eth_feeHistory" => 1,
        "eth_getStorageAt" | "eth_getProof" => 2,
        _ => return None,
    })
}

fn is_head(tag: &Value) -> bool {
    tag.is_null() || tag == "latest" || tag == "pending"
}

/// The distance of `safe` and `finalized` behind the head on our chains.
fn trail(tag: &Value) -> Option<u64> {
    match tag.as_str() {
        Some("safe") => Some(32),
        Some("finalized") => Some(64),
        _ => None,
    }
}

fn hide_head(mut call: Value, method: &str, head: u64) -> Plan {
    let place = |tag: &Value| match trail(tag) {
        Some(behind) => Some(head.saturating_sub(behind)),
        None if is_head(tag) => Some(head),
        None => number(tag),
    };
    match method {
        "eth_blockNumber" => return Plan::Result(json!(U64::from(head))),
        "eth_getLogs" if call["params"][0].get("blockHash").is_none() => {
            let filter = &mut call["params"][0];
            let (from, to) = (place(&filter["fromBlock"]), place(&filter["toBlock"]));
            let (Some(from), Some(to)) = (from, to) else { return Plan::Error(-32602, "invalid params") };
            if from > head {
                return Plan::Result(json!([]));
            }
            filter["fromBlock"] = json!(U64::from(from));
            filter["toBlock"] = json!(U64::from(to.min(head)));
        }
        _ => {
            let Some(index) = block_parameter(method) else { return Plan::Forward(call) };
            let Some(params) = call["params"].as_array_mut() else { return Plan::Forward(call) };
            if params.len() == index {
                params.push(Value::Null);
            }
            match params.get_mut(index) {
                Some(tag) => match place(tag) {
                    Some(block) if block <= head => *tag = json!(U64::from(block)),
                    Some(_) if index == 0 => return Plan::Result(Value::Null),
                    Some(_) => return Plan::Error(-32000, "header not found"),
                    // A hash, or nonsense: the node judges.
                    None => (),
                },
                None => return Plan::Forward(call),
            }
        }
    }
    Plan::Forward(call)
}

/// Turns a hash into another one; twice gives the first again, so the caller may ask for a hash it was told.
fn twist(hash: &mut Value) {
    let Some(text) = hash.as_str().filter(|text| text.len() == 66) else { return };
    let first = text[2..3].chars().next().and_then(|c| c.to_digit(16)).unwrap_or_default();
    *hash = json!(format!("0x{:x}{}", 15 - first, &text[3..]));
}

/// Twists every block hash in an answer, at any depth; hashes of transactions stay as they are.
fn twist_all(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(twist_all),
        Value::Object(fields) => {
            let is_block = fields.contains_key("parentHash");
            for (key, field) in fields {
                match key.as_str() {
                    "blockHash" | "parentHash" => twist(field),
                    "hash" if is_block => twist(field),
                    _ => twist_all(field),
                }
            }
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, params: Value) -> Value {
        json!({"id": 1, "method": method, "params": params})
    }

    fn stale(method: &str, params: Value) -> Plan {
        plan(call(method, params), &Fault::default(), Some(0x10))
    }

    #[test]
    fn a_stale_head_is_stale_wherever_it_is_asked_for() {
        let forward = |method: &str, params: Value| Plan::Forward(call(method, params));
        let cases = [
            ("eth_blockNumber", json!([]), Plan::Result(json!("0x10"))),
            ("eth_getBlockByNumber", json!(["latest", false]), forward("eth_getBlockByNumber", json!(["0x10", false]))),
            ("eth_getBlockByNumber", json!(["0x11", false]), Plan::Result(Value::Null)),
            ("eth_getBlockByNumber", json!(["0xf", false]), forward("eth_getBlockByNumber", json!(["0xf", false]))),
            ("eth_getBalance", json!(["0x1"]), forward("eth_getBalance", json!(["0x1", "0x10"]))),
            ("eth_getBalance", json!(["0x1", "0x20"]), Plan::Error(-32000, "header not found")),
            ("eth_getLogs", json!([{}]), forward("eth_getLogs", json!([{"fromBlock": "0x10", "toBlock": "0x10"}]))),
            ("eth_getLogs", json!([{"fromBlock": "0x11"}]), Plan::Result(json!([]))),
            ("eth_chainId", json!([]), forward("eth_chainId", json!([]))),
        ];
        for (method, params, expected) in cases {
            assert_eq!(stale(method, params.clone()), expected, "{method} {params}");
        }
    }

    #[test]
    fn more_logs_than_the_node_allows_are_refused() {
        let fault = Fault { max_logs: Some(1), ..Fault::default() };
        assert_eq!(refusal("eth_getLogs", &json!([1]), &fault), None);
        assert!(refusal("eth_getLogs", &json!([1, 2]), &fault).is_some());
        assert_eq!(refusal("eth_getBlockReceipts", &json!([1, 2]), &fault), None);
        assert_eq!(refusal("eth_getLogs", &json!([1, 2]), &Fault::default()), None);
    }

    #[test]
    fn a_twisted_hash_can_be_asked_for() {
        let hash = format!("0x{}", "ab".repeat(32));
        let fault = Fault { wrong_block_hash: true, ..Fault::default() };
        let mut block = json!({"hash": hash, "parentHash": hash, "transactions": [{"hash": hash, "blockHash": hash}]});
        bend("eth_getBlockByNumber", &mut block, &fault, None);
        assert_ne!(block["hash"], hash);
        assert_eq!(block["transactions"][0]["hash"], hash);
        assert_eq!(block["transactions"][0]["blockHash"], block["hash"]);
        let asked = plan(call("eth_getBlockByHash", json!([block["hash"], false])), &fault, None);
        assert_eq!(asked, Plan::Forward(call("eth_getBlockByHash", json!([hash, false]))));
    }
}
