//! Blocks that somebody filled with logs: they are read all the same.

use alloy::primitives::{Address, B256, U256};
use domain::ids::OrderId;
use evm::topics::TRANSFER;
use evm::{BlockSummary, Id, Watch, calldata};
use serde_json::{Value, json};

use crate::scripted::{LONG_TIMEOUT, Reply, Scripted, block, hash, nodes, receipt, result, transaction};

const DEPOSITORY: Address = Address::repeat_byte(0xdd);
const TOKEN: Address = Address::repeat_byte(0x11);
const OTHER: Address = Address::repeat_byte(0x12);
const JUNK: Address = Address::repeat_byte(0x99);
const USER: Address = Address::repeat_byte(0xaa);
const BLOCK: u8 = 9;
const ID: u8 = 0x42;

/// More than a node shows in one answer.
const MAX_LOGS: usize = 100;

fn transfer(token: Address, tx: u8, index: u64, amount: u64) -> Value {
    json!({
        "address": token, "topics": [TRANSFER, USER.into_word(), DEPOSITORY.into_word()],
        "data": B256::from(U256::from(amount)), "blockHash": hash(BLOCK), "blockNumber": "0x9",
        "transactionHash": hash(tx), "transactionIndex": "0x0", "logIndex": U256::from(index), "removed": false,
    })
}

/// A deposit of a token between the junk of a contract, and a transaction that brings a deposit beside junk.
fn logs() -> Vec<Value> {
    let junk = (0..2 * MAX_LOGS as u64).map(|index| transfer(JUNK, 2, index, 7));
    // Anyone may move nothing of any token.
    let nothing = (0..2 * MAX_LOGS as u64).map(|index| transfer(OTHER, 2, 1_000 + index, 0));
    let mixed = [transfer(JUNK, 3, 2_001, 7), transfer(TOKEN, 3, 2_002, 50)];
    [transfer(TOKEN, 1, 2_000, 1_000)].into_iter().chain(mixed).chain(junk).chain(nothing).collect()
}

fn receipt_of(tx: u8) -> Value {
    let mut receipt = receipt(hash(tx), hash(BLOCK));
    receipt["logs"] = logs().into_iter().filter(|log| log["transactionHash"] == json!(hash(tx))).collect();
    receipt
}

/// A node that shows at most so many logs in one answer, like most that are for rent.
fn node(method: &str, params: &Value, max_logs: usize, block_receipts: bool) -> Reply {
    let mut direct = transaction(hash(1), USER);
    direct["to"] = json!(TOKEN);
    direct["input"] = json!(calldata::implicit_deposit(DEPOSITORY, U256::from(1_000), OrderId(hash(ID))));
    let transactions = json!([direct, transaction(hash(2), USER), transaction(hash(3), USER)]);
    match method {
        "eth_getBlockByHash" | "eth_getBlockByNumber" if params[1] == json!(false) => {
            result(block(9, hash(BLOCK), json!([hash(1), hash(2), hash(3)])))
        }
        "eth_getBlockByHash" | "eth_getBlockByNumber" => result(block(9, hash(BLOCK), transactions)),
        "eth_getLogs" if params[0]["topics"][0] != json!(TRANSFER) => result(json!([])),
        "eth_getLogs" => {
            let tokens = &params[0]["address"];
            let to = params[0]["topics"][2].as_array().unwrap();
            assert!(to.contains(&json!(DEPOSITORY.into_word())), "only transfers to us are asked for");
            let asked = |log: &Value| tokens.is_null() || tokens.as_array().unwrap().contains(&log["address"]);
            let found: Vec<Value> = logs().into_iter().filter(asked).collect();
            if found.len() > max_logs {
                return Reply::Error(-32005, "query returned more than 10000 results");
            }
            result(found)
        }
        "eth_getBlockReceipts" if block_receipts => result(json!([receipt_of(1), receipt_of(2), receipt_of(3)])),
        "eth_getTransactionReceipt" => {
            let tx = (1..=3).find(|&tx| params[0] == json!(hash(tx))).unwrap();
            result(receipt_of(tx))
        }
        _ => Reply::Error(-32601, "method not found"),
    }
}

#[tokio::test]
async fn a_block_full_of_junk_transfers_does_not_stop_its_chain() {
    // Unlisted junk is not asked for; junk of a listed token is asked for in another way, whichever the node knows.
    let (one, both) = (vec![TOKEN], vec![TOKEN, OTHER]);
    let cases = [
        ("unlisted junk", &one, MAX_LOGS, false),
        ("receipts of the block", &both, MAX_LOGS, true),
        ("each receipt", &both, MAX_LOGS, false),
        ("one query per token", &both, 2 * MAX_LOGS, false),
        ("nothing but receipts", &one, 1, false),
    ];
    for (what, tokens, max_logs, block_receipts) in cases {
        let answer = move |method: &str, params: &Value| node(method, params, max_logs, block_receipts);
        let (first, second) = (Scripted::start(answer).await, Scripted::start(answer).await);
        let watch = Watch::new(DEPOSITORY, tokens.clone(), []);
        let nodes = nodes(&[&first, &second], LONG_TIMEOUT);
        let block = nodes.block_by_hash(hash(BLOCK), &watch).await.expect(what).expect(what);
        let seen: Vec<_> = block.deposits.iter().map(|it| (it.tx, it.ordinal, it.id, it.amount)).collect();
        let expected =
            [(hash(1), 0, Id::Calldata(hash(ID)), U256::from(1_000)), (hash(3), 1, Id::None, U256::from(50))];
        assert_eq!(seen, expected, "{what}");

        // The rescan and the allocator's ledger pass it too, and count what the database keeps.
        let summary =
            |tx: u8| BlockSummary { number: 9, block: hash(BLOCK), tx: hash(tx), deposits: 1, treasury_transfers: 0 };
        assert_eq!(nodes.rescan_range(9, 9, &watch).await.expect(what), [summary(1), summary(3)], "{what}");
        let agreed = nodes.quorum_deposits(2, (9, 9), &watch).await.expect(what);
        assert_eq!(agreed, [(9, hash(BLOCK))], "{what}");
        assert_eq!(nodes.quorum_block(2, hash(BLOCK), &watch).await.expect(what).deposits.len(), 2, "{what}");
    }
}

/// Anybody may deposit dust in a transaction with a receipt that no node shows whole.
#[tokio::test]
async fn a_receipt_that_a_node_finds_too_large_does_not_stop_its_chain() {
    let refuses = |method: &str, params: &Value| match method {
        "eth_getTransactionReceipt" | "eth_getBlockReceipts" => Reply::Error(-32005, "response size exceeded"),
        _ => node(method, params, 10_000, false),
    };
    let (small, large) = (Scripted::start(refuses).await, Scripted::start(|m, p| node(m, p, 10_000, true)).await);
    for tokens in [vec![TOKEN], vec![TOKEN, OTHER]] {
        let watch = Watch::new(DEPOSITORY, tokens, []);
        let whole = nodes(&[&large], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch).await.unwrap().unwrap();
        let block = nodes(&[&small], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch).await.unwrap().unwrap();
        assert_eq!(block, whole, "the deposits and their places are those of the receipts");
        assert_eq!((block.deposits[1].tx, block.deposits[1].ordinal), (hash(3), 1));
    }
    // A node that shows a transfer to one question has to show it to the other.
    let invents = Scripted::start(move |method, params| match method {
        "eth_getLogs" if params[0]["address"].is_null() => result(json!([])),
        _ => refuses(method, params),
    })
    .await;
    let watch = Watch::new(DEPOSITORY, [TOKEN], []);
    let error = nodes(&[&invents], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch).await.unwrap_err();
    assert!(error.to_string().contains("a log that it does not show to another question"), "{error}");
}

#[tokio::test]
async fn a_deposit_keeps_its_place_when_another_token_is_listed() {
    let node = Scripted::start(|method, params| node(method, params, 10_000, true)).await;
    let nodes = nodes(&[&node], LONG_TIMEOUT);
    for tokens in [vec![TOKEN], vec![TOKEN, JUNK], vec![TOKEN, JUNK, OTHER]] {
        let watch = Watch::new(DEPOSITORY, tokens, []);
        let block = nodes.block_by_hash(hash(BLOCK), &watch).await.unwrap().unwrap();
        let deposit = block.deposits.iter().find(|it| it.tx == hash(3) && it.currency == TOKEN).unwrap();
        assert_eq!((deposit.ordinal, deposit.log_index), (1, 2_002));
    }
}

#[tokio::test]
async fn a_log_that_its_receipt_does_not_have_is_not_believed() {
    let invents = Scripted::start(|method, params| match method {
        "eth_getTransactionReceipt" => {
            let mut receipt = receipt_of(3);
            receipt["logs"] = json!([]);
            result(receipt)
        }
        _ => node(method, params, 10_000, false),
    })
    .await;
    let watch = Watch::new(DEPOSITORY, [TOKEN], []);
    let error = nodes(&[&invents], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch).await.unwrap_err();
    assert!(error.to_string().contains("a log that its receipt does not have"), "{error}");
}

#[tokio::test]
async fn without_tokens_no_transfer_is_asked_for() {
    let node = Scripted::start(|method, params| {
        assert_ne!((method, &params[0]["address"]), ("eth_getLogs", &json!([])), "an empty list means every address");
        node(method, params, 0, false)
    })
    .await;
    let watch = Watch::new(DEPOSITORY, [], []);
    let block = nodes(&[&node], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch).await.unwrap().unwrap();
    assert_eq!(block.deposits, []);
}
