//! Nodes whose answers do not fit together.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::primitives::{Address, B256, Bloom, BloomInput, U256};
use domain::ids::OrderId;
use evm::calldata;
use evm::topics::{NATIVE_DEPOSIT, TRANSFER};
use evm::{ChainError, Id, RescannedBlock, Watch};
use serde_json::{Value, json};

use crate::scripted::{LONG_TIMEOUT, Reply, Scripted, block, hash, nodes, receipt, result, transaction};

const DEPOSITORY: Address = Address::repeat_byte(0xdd);
const USER: Address = Address::repeat_byte(0xaa);
const LANE: Address = Address::repeat_byte(0xcc);
const TOKEN: Address = Address::repeat_byte(0x11);
const BLOCK: u8 = 9;
const ID: u8 = 0x42;

fn watch() -> Watch {
    Watch::new(DEPOSITORY, [TOKEN], [LANE])
}

/// A transaction that deposits native currency itself.
fn deposit_tx(tx: B256) -> Value {
    let mut transaction = transaction(tx, USER);
    transaction["to"] = json!(DEPOSITORY);
    transaction["input"] = json!(calldata::deposit_native(USER, OrderId(hash(ID))));
    transaction
}

fn deposit_log(block: B256, tx: B256, removed: bool) -> Value {
    let data = [USER.into_word(), U256::from(1_000).into(), hash(ID)].concat();
    json!({
        "address": DEPOSITORY, "topics": [NATIVE_DEPOSIT], "data": alloy::primitives::Bytes::from(data),
        "blockHash": block, "blockNumber": "0x9", "transactionHash": tx, "transactionIndex": "0x0",
        "logIndex": "0x2", "removed": removed,
    })
}

fn is_transfer_query(params: &Value) -> bool {
    params[0]["topics"][0] == json!(TRANSFER)
}

/// A node that tells the truth about one block with one deposit and one transaction of ours.
fn honest(method: &str, params: &Value) -> Reply {
    match method {
        "eth_getBlockByHash" | "eth_getBlockByNumber" => {
            result(block(9, hash(BLOCK), json!([deposit_tx(hash(1)), transaction(hash(2), LANE)])))
        }
        "eth_getLogs" if is_transfer_query(params) => result(json!([])),
        "eth_getLogs" => result(json!([deposit_log(hash(BLOCK), hash(1), false)])),
        "eth_getTransactionReceipt" => result(receipt(hash(2), hash(BLOCK))),
        _ => Reply::Error(-32601, "method not found"),
    }
}

#[tokio::test]
async fn a_block_holds_deposits_and_our_own_transactions() {
    let node = Scripted::start(honest).await;
    let nodes = nodes(&[&node], LONG_TIMEOUT);
    let block = nodes.block_by_hash(hash(BLOCK), &watch()).await.unwrap().unwrap();
    assert_eq!((block.head.number, block.head.hash), (9, hash(BLOCK)));
    let [deposit] = &block.deposits[..] else { panic!("{block:?}") };
    assert_eq!((deposit.id, deposit.sender, deposit.amount), (Id::Event(hash(ID)), USER, U256::from(1_000)));
    let [sent] = &block.sent[..] else { panic!("{block:?}") };
    assert_eq!((sent.from, sent.nonce, sent.hash, sent.success), (LANE, 3, hash(2), true));
    assert_eq!(sent.fee, U256::from(21_000 * 10 + 5));
    assert_eq!(node.asked("eth_getTransactionReceipt"), 1);

    let by_number = nodes.block_by_number(9, &watch()).await.unwrap().unwrap();
    assert_eq!(by_number, block);
}

#[tokio::test]
async fn an_answer_that_contradicts_itself_is_an_error() {
    type Forgery = fn(&str, &Value) -> Option<Reply>;
    let lying_nodes: [(&str, Forgery); 8] = [
        ("another block", |method, _| (method == "eth_getBlockByHash").then(|| result(block(9, hash(7), json!([]))))),
        ("logs of another block", |method, _| {
            (method == "eth_getLogs").then(|| result(json!([deposit_log(hash(7), hash(1), false)])))
        }),
        ("removed logs", |method, _| {
            (method == "eth_getLogs").then(|| result(json!([deposit_log(hash(BLOCK), hash(1), true)])))
        }),
        ("a transaction that is not there", |method, _| {
            (method == "eth_getLogs").then(|| result(json!([deposit_log(hash(BLOCK), hash(5), false)])))
        }),
        ("logs that cannot be had", |method, _| {
            (method == "eth_getLogs").then_some(Reply::Error(-32000, "unknown block"))
        }),
        ("logs that are null", |method, _| (method == "eth_getLogs").then(|| result(Value::Null))),
        ("no receipt", |method, _| (method == "eth_getTransactionReceipt").then(|| result(Value::Null))),
        ("a receipt of another block", |method, _| {
            (method == "eth_getTransactionReceipt").then(|| result(receipt(hash(2), hash(7))))
        }),
    ];
    for (what, lie) in lying_nodes {
        let liar =
            Scripted::start(move |method, params| lie(method, params).unwrap_or_else(|| honest(method, params))).await;
        let alone = nodes(&[&liar], LONG_TIMEOUT);
        let error = alone.block_by_hash(hash(BLOCK), &watch()).await.expect_err(what);
        let expected = matches!(
            error,
            ChainError::Inconsistent { .. } | ChainError::Refused { .. } | ChainError::Unreadable { .. }
        );
        assert!(expected, "{what}: {error}");

        // With an honest node beside it, the lie changes nothing.
        let second = Scripted::start(honest).await;
        let both = nodes(&[&liar, &second], LONG_TIMEOUT);
        let block = both.block_by_hash(hash(BLOCK), &watch()).await.unwrap().unwrap();
        assert_eq!((block.deposits.len(), block.sent.len()), (1, 1), "{what}");
        let each = both.block_from_each(hash(BLOCK), &watch()).await;
        assert!(each[0].is_err() && each[1].as_ref().is_ok_and(Option::is_some), "{what}");
    }
}

#[tokio::test]
async fn an_unknown_block_is_none_and_not_an_error() {
    let behind = || {
        Scripted::start(|method, _| match method {
            "eth_getBlockByHash" => result(Value::Null),
            _ => Reply::Error(-32000, "unknown block"),
        })
    };
    let (first, second) = (behind().await, behind().await);
    assert_eq!(nodes(&[&first, &second], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch()).await.unwrap(), None);
    let knows = Scripted::start(honest).await;
    assert!(nodes(&[&first, &knows], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch()).await.unwrap().is_some());
}

#[tokio::test]
async fn logs_the_header_hints_at_are_asked_for_again() {
    let mut bloom = Bloom::ZERO;
    bloom.accrue(BloomInput::Raw(DEPOSITORY.as_slice()));
    bloom.accrue(BloomInput::Raw(NATIVE_DEPOSIT.as_slice()));
    let times = AtomicUsize::new(0);
    let late = Scripted::start(move |method, params| match method {
        "eth_getBlockByHash" => {
            let mut block = block(9, hash(BLOCK), json!([deposit_tx(hash(1))]));
            block["logsBloom"] = json!(bloom);
            result(block)
        }
        "eth_getLogs" if !is_transfer_query(params) && times.fetch_add(1, Ordering::SeqCst) == 0 => result(json!([])),
        _ => honest(method, params),
    })
    .await;
    let block = nodes(&[&late], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch()).await.unwrap().unwrap();
    assert_eq!(block.deposits.len(), 1);
    // Two requests at once, and one more for the answer that was in doubt.
    assert_eq!(late.asked("eth_getLogs"), 3);
}

#[tokio::test]
async fn a_block_that_seems_to_lack_logs_is_compared_with_another_endpoint() {
    let hinting = |method: &str| {
        let mut bloom = Bloom::ZERO;
        bloom.accrue(BloomInput::Raw(DEPOSITORY.as_slice()));
        bloom.accrue(BloomInput::Raw(NATIVE_DEPOSIT.as_slice()));
        let mut block = block(9, hash(BLOCK), json!([deposit_tx(hash(1))]));
        block["logsBloom"] = json!(bloom);
        match method {
            "eth_getBlockByHash" => result(block),
            _ => result(json!([])),
        }
    };
    let hides = Scripted::start(move |method, _| hinting(method)).await;
    let knows = Scripted::start(honest).await;
    let found = nodes(&[&hides, &knows], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch()).await.unwrap().unwrap();
    assert_eq!(found.deposits.len(), 1);

    // The hint is often a false positive: when nobody has such logs, or nobody else answers, there are none.
    let agrees = Scripted::start(move |method, _| hinting(method)).await;
    let dead = Scripted::start(|_, _| Reply::Status(500)).await;
    let found =
        nodes(&[&hides, &agrees, &dead], LONG_TIMEOUT).block_by_hash(hash(BLOCK), &watch()).await.unwrap().unwrap();
    assert_eq!((found.head.number, found.deposits.len()), (9, 0));
}

#[tokio::test]
async fn a_rescan_finds_what_one_node_hides_and_asks_for_less_when_told() {
    let hides = Scripted::start(|_, _| result(json!([]))).await;
    let number = |params: &Value, end: &str| {
        u64::from_str_radix(params[0][end].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    let knows = Scripted::start(move |_, params| {
        let (from, to) = (number(params, "fromBlock"), number(params, "toBlock"));
        match to - from {
            300.. => Reply::Error(-32005, "query returned more than 10000 results"),
            _ if !is_transfer_query(params) && (from..=to).contains(&9) => {
                result(json!([deposit_log(hash(BLOCK), hash(1), false)]))
            }
            _ => result(json!([])),
        }
    })
    .await;
    let dead = Scripted::start(|_, _| Reply::Status(500)).await;
    let nodes = nodes(&[&hides, &knows, &dead], LONG_TIMEOUT);
    assert_eq!(nodes.blocks_with_deposits(1, 2_000, &watch()).await.unwrap(), [(9, hash(BLOCK))]);
    // Two refusals on the way from 1,000 blocks to 250, then eight pieces, each with two requests.
    assert!((18..=20).contains(&knows.asked("eth_getLogs")), "{}", knows.asked("eth_getLogs"));
    assert_eq!(nodes.blocks_with_deposits(10, 20, &watch()).await.unwrap(), []);
}

async fn late(among: &[&Scripted]) -> Result<Option<RescannedBlock>, ChainError> {
    nodes(among, LONG_TIMEOUT).rescan_block(hash(BLOCK), &watch()).await
}

#[tokio::test]
async fn a_rescan_needs_another_node_where_there_is_one() {
    let hides = Scripted::start(|_, _| result(json!([]))).await;
    let dead = Scripted::start(|_, _| Reply::Status(500)).await;
    let knows = Scripted::start(honest).await;
    // A single node that answers and shows nothing proves nothing.
    assert!(nodes(&[&hides, &dead], LONG_TIMEOUT).rescan_range(1, 20, &watch()).await.is_err());
    assert_eq!(nodes(&[&hides], LONG_TIMEOUT).rescan_range(1, 20, &watch()).await.unwrap(), []);
    let both = nodes(&[&hides, &knows], LONG_TIMEOUT);
    let found = both.rescan_range(1, 20, &watch()).await.unwrap();
    assert_eq!(
        found,
        [evm::BlockSummary { number: 9, block: hash(BLOCK), tx: hash(1), deposits: 1, treasury_transfers: 0 }]
    );
    let empty = Scripted::start(|method, params| match method {
        "eth_getLogs" => result(json!([])),
        _ => honest(method, params),
    })
    .await;
    let block = late(&[&knows]).await.unwrap().unwrap();
    assert_eq!((block.deposits.agreed.len(), block.deposits.doubtful.len()), (1, 0), "the only one is believed");
    // One of two may as well have invented it.
    let block = late(&[&empty, &knows]).await.unwrap().unwrap();
    assert_eq!((block.deposits.agreed.len(), block.deposits.doubtful.len()), (0, 1));
    let knows_too = Scripted::start(honest).await;
    let block = late(&[&empty, &knows, &knows_too]).await.unwrap().unwrap();
    assert_eq!((block.deposits.agreed.len(), block.deposits.doubtful.len()), (1, 0));
    // The same deposit with another amount is another deposit.
    let exaggerates = Scripted::start(|method, params| match method {
        "eth_getLogs" if !is_transfer_query(params) => {
            let mut log = deposit_log(hash(BLOCK), hash(1), false);
            let data = [USER.into_word(), U256::from(9_000).into(), hash(ID)].concat();
            log["data"] = json!(alloy::primitives::Bytes::from(data));
            result(json!([log]))
        }
        _ => honest(method, params),
    })
    .await;
    let block = late(&[&exaggerates, &knows]).await.unwrap().unwrap();
    assert_eq!((block.deposits.agreed.len(), block.deposits.doubtful.len()), (0, 2));
    let block = late(&[&exaggerates, &knows, &knows_too]).await.unwrap().unwrap();
    assert_eq!(block.deposits.agreed.iter().map(|it| it.amount).collect::<Vec<_>>(), [U256::from(1_000)]);
    // A node that nobody can contradict, because the others are down, is asked again later.
    assert!(late(&[&dead, &knows]).await.is_err());
}
