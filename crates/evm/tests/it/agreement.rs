//! Blocks as several nodes agree on them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use evm::contracts::Depository;
use evm::topics::{NATIVE_DEPOSIT, TRANSFER};
use evm::{AgreedBlock, Nodes, Wait, Watch};
use serde_json::{Value, json};

use crate::scripted::{LONG_TIMEOUT, Reply, Scripted, accused, block, hash, host, nodes, receipt, result, transaction};

const DEPOSITORY: Address = Address::repeat_byte(0xdd);
const USER: Address = Address::repeat_byte(0xaa);
const LANE: Address = Address::repeat_byte(0xcc);
const BLOCK: u8 = 9;

fn deposit(id: u8, log_index: u64) -> Value {
    let data = [USER.into_word(), U256::from(1_000).into(), hash(id)].concat();
    json!({
        "address": DEPOSITORY, "topics": [NATIVE_DEPOSIT], "data": Bytes::from(data),
        "blockHash": hash(BLOCK), "blockNumber": "0x9", "transactionHash": hash(1), "transactionIndex": "0x0",
        "logIndex": U256::from(log_index), "removed": false,
    })
}

/// A node that shows these deposits, and whether our own transaction succeeded.
fn shows(ids: &'static [u8], success: bool) -> impl Fn(&str, &Value) -> Reply {
    move |method, params| match method {
        "eth_getBlockByHash" => {
            let mut deposits = transaction(hash(1), USER);
            deposits["to"] = json!(DEPOSITORY);
            deposits["input"] = json!(Bytes::from(Depository::depositNativeCall::SELECTOR));
            result(block(9, hash(BLOCK), json!([deposits, transaction(hash(2), LANE)])))
        }
        "eth_getLogs" if params[0]["topics"][0] == json!(TRANSFER) => result(json!([])),
        "eth_getLogs" => result((0..).zip(ids).map(|(index, id)| deposit(*id, index)).collect::<Vec<_>>()),
        "eth_getTransactionReceipt" => {
            let mut receipt = receipt(hash(2), hash(BLOCK));
            receipt["status"] = json!(if success { "0x1" } else { "0x0" });
            result(receipt)
        }
        _ => Reply::Error(-32601, "method not found"),
    }
}

async fn read(nodes: &Nodes) -> AgreedBlock {
    let watch = Watch::new(DEPOSITORY, [], [LANE]);
    nodes.agreed_block(9, hash(BLOCK), &watch, Wait::Briefly).await.unwrap().expect("the block is shown")
}

#[tokio::test]
async fn a_lie_of_one_of_two_nodes_is_held_back_and_both_are_named() {
    let honest = Scripted::start(shows(&[0x42], true)).await;
    for (ids, success) in [(&[0x42, 0x66][..], true), (&[][..], true), (&[0x42][..], false)] {
        let liar = Scripted::start(shows(ids, success)).await;
        let both = nodes(&[&honest, &liar], LONG_TIMEOUT);
        let agreed = read(&both).await;
        let deposits = agreed.block.deposits.len();
        assert!(agreed.stands && agreed.open && agreed.unseconded.is_empty(), "{agreed:?}");
        assert_eq!((deposits, agreed.block.sent.len()), (ids.len().min(1), usize::from(success)), "{agreed:?}");
        assert_eq!(accused(&both).await, [host(&honest), host(&liar)]);
    }
}

#[tokio::test]
async fn a_liar_among_three_is_outvoted_and_named() {
    let (first, second) = (Scripted::start(shows(&[0x42], true)).await, Scripted::start(shows(&[0x42], true)).await);
    let liar = Scripted::start(shows(&[0x42, 0x66], false)).await;
    let all = nodes(&[&liar, &first, &second], LONG_TIMEOUT);
    let agreed = read(&all).await;
    assert!(agreed.stands && !agreed.open, "{agreed:?}");
    assert_eq!((agreed.block.deposits.len(), agreed.block.sent[0].success), (1, true));
    // Whether its answer was waited for or not.
    assert_eq!(accused(&all).await, [host(&liar)]);
}

#[tokio::test]
async fn two_nodes_that_agree_do_not_wait_for_a_third() {
    let (first, second) = (Scripted::start(shows(&[0x42], true)).await, Scripted::start(shows(&[0x42], true)).await);
    let stalled = Scripted::start(|_, _| Reply::Silence).await;
    // A wait for the third would take the test a day.
    let all = nodes(&[&stalled, &first, &second], Duration::from_secs(86_400));
    let agreed = read(&all).await;
    assert!(agreed.stands && !agreed.open && agreed.block.deposits.len() == 1, "{agreed:?}");
}

#[tokio::test]
async fn a_deposit_waits_for_a_second_node_that_is_down() {
    let honest = Scripted::start(shows(&[0x42], true)).await;
    let dead = Scripted::start(|_, _| Reply::Status(500)).await;
    let both = nodes(&[&honest, &dead], LONG_TIMEOUT);
    let agreed = read(&both).await;
    assert!(!agreed.stands && agreed.open && agreed.block.deposits.is_empty() && agreed.block.sent.is_empty());
    assert_eq!(agreed.unseconded.len(), 1, "nobody denies it");
    assert!(both.contradictions().is_empty(), "a node that is down contradicts nobody");
}

#[tokio::test]
async fn a_node_that_is_a_moment_behind_is_asked_again() {
    let honest = Scripted::start(shows(&[0x42], true)).await;
    let times = AtomicUsize::new(0);
    let late = Scripted::start(move |method, params| match method {
        "eth_getBlockByHash" if times.fetch_add(1, Ordering::SeqCst) < 2 => result(Value::Null),
        _ => shows(&[0x42], true)(method, params),
    })
    .await;
    let both = nodes(&[&honest, &late], LONG_TIMEOUT);
    let agreed = read(&both).await;
    assert!(agreed.stands && !agreed.open && agreed.block.deposits.len() == 1, "{agreed:?}");
    assert!(both.contradictions().is_empty());
}

#[tokio::test]
async fn the_chain_of_most_nodes_is_followed() {
    let on = |byte: u8| Scripted::start(move |_, _| result(block(9, hash(byte), json!([]))));
    let (ours, other, more) = (on(1).await, on(2).await, on(2).await);
    let prefers = |head: &evm::Head| head.hash == hash(1);
    let voted = |nodes: Nodes| async move { nodes.voted_header(9, prefers).await.unwrap().unwrap().hash };
    assert_eq!(voted(nodes(&[&other, &ours], LONG_TIMEOUT)).await, hash(1), "one node takes nothing back");
    assert_eq!(voted(nodes(&[&ours, &other, &more], LONG_TIMEOUT)).await, hash(2));
}
