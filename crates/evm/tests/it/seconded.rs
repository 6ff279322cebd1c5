//! The state of a block, as two nodes show it, and the blame for a failed payment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alloy::primitives::{Address, B256, Bloom, BloomInput, Bytes};
use alloy::sol_types::SolEvent;
use evm::blame::{Blame, Suspects};
use evm::pools::UniswapPool;
use evm::{ChainError, Nodes};
use serde_json::{Value, json};

use crate::scripted::{LONG_TIMEOUT, Reply, Scripted, accused, block, hash, host, nodes, result};

const BLOCK: u8 = 9;
const FEED: Address = Address::repeat_byte(0xfe);

/// A node with this price and this base fee.
fn shows(price: u8, base_fee: &'static str) -> impl Fn(&str, &Value) -> Reply {
    move |method, _| match method {
        "eth_getBlockByHash" => {
            let mut block = block(9, hash(BLOCK), json!([]));
            block["baseFeePerGas"] = json!(base_fee);
            result(block)
        }
        "eth_call" => result(Bytes::from(vec![price; 32])),
        _ => Reply::Error(-32601, "method not found"),
    }
}

async fn honest() -> Scripted {
    Scripted::start(shows(1, "0x7")).await
}

async fn price(nodes: &Nodes) -> Result<Option<u8>, ChainError> {
    Ok(nodes.seconded_call(FEED, Bytes::new(), hash(BLOCK)).await?.map(|output| output[0]))
}

#[tokio::test]
async fn two_nodes_that_differ_about_a_price_or_a_header_are_not_believed_and_both_are_named() {
    let honest = honest().await;
    for (said, base_fee) in [(2, "0x7"), (1, "0x0")] {
        let liar = Scripted::start(shows(said, base_fee)).await;
        let both = nodes(&[&liar, &honest], LONG_TIMEOUT);
        assert!(matches!(price(&both).await, Err(ChainError::NotSeconded(_))));
        assert_eq!(accused(&both).await, [host(&liar), host(&honest)]);
    }
}

#[tokio::test]
async fn a_liar_about_a_price_is_outvoted_by_two_and_named() {
    let (first, second) = (honest().await, honest().await);
    let liar = Scripted::start(shows(2, "0x7")).await;
    let all = nodes(&[&liar, &first, &second], LONG_TIMEOUT);
    assert_eq!(price(&all).await.unwrap(), Some(1));
    assert_eq!(accused(&all).await, [host(&liar)]);
    // It is asked last now, and nobody waits for it.
    assert_eq!(price(&all).await.unwrap(), Some(1));
}

#[tokio::test]
async fn a_third_node_seconds_where_one_is_down_silent_or_behind() {
    for broken in [Reply::Status(500), Reply::Silence, result(Value::Null)] {
        let (first, second) = (honest().await, honest().await);
        let is_behind = matches!(broken, Reply::Result(_));
        let reply = std::sync::Mutex::new(broken);
        let broken = Scripted::start(move |_, _| match &*reply.lock().unwrap() {
            Reply::Result(value) => Reply::Result(value.clone()),
            Reply::Status(status) => Reply::Status(*status),
            _ => Reply::Silence,
        })
        .await;
        let all = nodes(&[&broken, &first, &second], Duration::from_secs(2));
        assert_eq!(price(&all).await.unwrap(), Some(1));
        assert!(all.contradictions().is_empty(), "whoever does not answer contradicts nobody");
        // With one other there is no second. One that is behind would be waited for.
        assert!(is_behind || price(&nodes(&[&broken, &first], Duration::from_millis(300))).await.is_err());
    }
}

#[tokio::test]
async fn a_second_node_that_is_a_moment_behind_is_asked_again() {
    let first = honest().await;
    let times = AtomicUsize::new(0);
    let late = Scripted::start(move |method, params| match method {
        "eth_getBlockByHash" if times.fetch_add(1, Ordering::SeqCst) < 4 => result(Value::Null),
        _ => shows(1, "0x7")(method, params),
    })
    .await;
    assert_eq!(price(&nodes(&[&first, &late], LONG_TIMEOUT)).await.unwrap(), Some(1));
}

#[tokio::test]
async fn the_only_node_is_believed_and_asked_for_nothing_else() {
    let only = Scripted::start(shows(2, "0x7")).await;
    assert_eq!(price(&nodes(&[&only], LONG_TIMEOUT)).await.unwrap(), Some(2));
    assert_eq!((only.asked("eth_call"), only.asked("eth_getBlockByHash")), (1, 0));
}

#[tokio::test]
async fn a_call_that_reverts_on_both_nodes_has_no_output() {
    let refuses = || {
        Scripted::start(|method, params| match method {
            "eth_call" => Reply::Error(3, "execution reverted"),
            _ => shows(1, "0x7")(method, params),
        })
    };
    let (first, second) = (refuses().await, refuses().await);
    assert_eq!(price(&nodes(&[&first, &second], LONG_TIMEOUT)).await.unwrap(), None);
}

const POOL: Address = Address::repeat_byte(0x9a);

/// A node that shows these ticks of a pool as changed in the block, under a header with this parent.
async fn shows_ticks(ticks: &'static [u8], parent: u8) -> Scripted {
    shows_bloom(ticks, parent, Bloom::ZERO).await
}

/// The same, with this filter over the logs in the header.
async fn shows_bloom(ticks: &'static [u8], parent: u8, bloom: Bloom) -> Scripted {
    Scripted::start(move |method, _| match method {
        "eth_getBlockByHash" => {
            let mut block = block(9, hash(BLOCK), json!([]));
            block["parentHash"] = json!(hash(parent));
            block["logsBloom"] = json!(bloom);
            result(block)
        }
        "eth_getLogs" => {
            let word = |tick: u8| B256::left_padding_from(&[tick]);
            let log = |&tick: &u8| {
                json!({
                    "address": POOL, "topics": [UniswapPool::Burn::SIGNATURE_HASH, B256::ZERO, word(tick), word(tick)],
                    "data": "0x", "blockHash": hash(BLOCK), "blockNumber": "0x9", "transactionHash": hash(7),
                    "transactionIndex": "0x0", "logIndex": "0x0", "removed": false,
                })
            };
            result(ticks.iter().map(log).collect::<Vec<_>>())
        }
        _ => Reply::Error(-32601, "method not found"),
    })
    .await
}

async fn changed_ticks(nodes: &Nodes) -> Result<Option<Vec<i32>>, ChainError> {
    let changes = nodes.tick_changes(hash(BLOCK), &[POOL]).await?;
    Ok(changes.map(|changes| changes.changed.into_values().flatten().collect()))
}

#[tokio::test]
async fn a_tick_has_changed_if_one_of_two_nodes_says_so() {
    let cases: [[&'static [u8]; 2]; 3] = [[&[10], &[]], [&[], &[10]], [&[10], &[10]]];
    for said in cases {
        let (first, second) = (shows_ticks(said[0], 8).await, shows_ticks(said[1], 8).await);
        assert_eq!(changed_ticks(&nodes(&[&first, &second], LONG_TIMEOUT)).await.unwrap(), Some(vec![10]), "{said:?}");
    }
    let (first, second) = (shows_ticks(&[10], 8).await, shows_ticks(&[20], 8).await);
    assert_eq!(changed_ticks(&nodes(&[&first, &second], LONG_TIMEOUT)).await.unwrap(), Some(vec![10, 20]));
    assert_eq!(
        changed_ticks(&nodes(&[&first], LONG_TIMEOUT)).await.unwrap(),
        Some(vec![10]),
        "the only one is believed"
    );
}

#[tokio::test]
async fn the_changes_of_a_block_need_two_nodes_with_the_same_header() {
    let (first, second, liar) = (shows_ticks(&[10], 8).await, shows_ticks(&[], 8).await, shows_ticks(&[], 5).await);
    let down = Scripted::start(|_, _| Reply::Status(500)).await;
    for alone in [nodes(&[&first, &liar], LONG_TIMEOUT), nodes(&[&first, &down], LONG_TIMEOUT)] {
        assert!(changed_ticks(&alone).await.is_err());
    }
    for two in [nodes(&[&liar, &first, &second], LONG_TIMEOUT), nodes(&[&down, &second, &first], LONG_TIMEOUT)] {
        assert_eq!(changed_ticks(&two).await.unwrap(), Some(vec![10]));
    }
    // One that is a moment behind is asked again.
    let times = AtomicUsize::new(0);
    let late = Scripted::start(move |method, _| match method {
        "eth_getBlockByHash" if times.fetch_add(1, Ordering::SeqCst) < 4 => result(Value::Null),
        "eth_getBlockByHash" => {
            let mut block = block(9, hash(BLOCK), json!([]));
            block["parentHash"] = json!(hash(8));
            result(block)
        }
        _ => result(json!([])),
    })
    .await;
    assert_eq!(changed_ticks(&nodes(&[&first, &late], LONG_TIMEOUT)).await.unwrap(), Some(vec![10]));
    let gone = Scripted::start(|_, _| result(Value::Null)).await;
    assert_eq!(changed_ticks(&nodes(&[&gone], LONG_TIMEOUT)).await.unwrap(), None);
}

/// The ticks that have changed, and whether the pool has to be read again.
async fn doubted(nodes: &Nodes) -> Result<(Vec<i32>, bool), ChainError> {
    let changes = nodes.tick_changes(hash(BLOCK), &[POOL]).await?.unwrap();
    Ok((changes.changed.into_values().flatten().collect(), changes.doubtful.contains(&POOL)))
}

#[tokio::test]
async fn a_bloom_filter_that_one_node_invents_makes_no_pool_doubtful() {
    let (first, second) = (shows_ticks(&[], 8).await, shows_ticks(&[], 8).await);
    let liar = shows_bloom(&[], 8, Bloom::repeat_byte(0xff)).await;
    let all = nodes(&[&liar, &first, &second], LONG_TIMEOUT);
    assert_eq!(doubted(&all).await.unwrap(), (vec![], false));
    assert_eq!(accused(&all).await, [host(&liar)]);
    let both = nodes(&[&liar, &first], LONG_TIMEOUT);
    assert!(matches!(doubted(&both).await, Err(ChainError::NotSeconded(_))));
    assert_eq!(accused(&both).await, [host(&liar), host(&first)]);
}

#[tokio::test]
async fn a_node_without_the_logs_that_its_header_hints_at_does_not_count_where_two_others_show_them() {
    let mut bloom = Bloom::ZERO;
    bloom.accrue(BloomInput::Raw(POOL.as_slice()));
    bloom.accrue(BloomInput::Raw(UniswapPool::Burn::SIGNATURE_HASH.as_slice()));
    let shows = |ticks: &'static [u8]| shows_bloom(ticks, 8, bloom);
    let (first, second, silent) = (shows(&[10]).await, shows(&[10]).await, shows(&[]).await);
    let all = nodes(&[&silent, &first, &second], LONG_TIMEOUT);
    assert_eq!(doubted(&all).await.unwrap(), (vec![10], false));
    assert_eq!(accused(&all).await, [host(&silent)]);
    // Without a third that answers, it may be either of them that is right.
    let dead = Scripted::start(|_, _| Reply::Silence).await;
    for few in [nodes(&[&silent, &first], LONG_TIMEOUT), nodes(&[&first, &silent, &dead], LONG_TIMEOUT)] {
        assert_eq!(doubted(&few).await.unwrap(), (vec![10], true));
    }
    // The hint is often a false positive, and two that both show no logs are enough to say so.
    let too = shows(&[]).await;
    let third = Scripted::start(|_, _| Reply::Silence).await;
    assert_eq!(doubted(&nodes(&[&silent, &too, &third], LONG_TIMEOUT)).await.unwrap(), (vec![], true));
    assert_eq!(third.asked("eth_getBlockByHash"), 0, "nobody else is asked");
}

/// It is asked again for as long as for prices: pools must not be lost behind a node that prices wait for.
#[tokio::test]
async fn the_changes_of_a_block_wait_for_a_second_node_as_long_as_prices_do() {
    let first = shows_ticks(&[10], 8).await;
    let times = AtomicUsize::new(0);
    let late = Scripted::start(move |method, _| match method {
        // With growing pauses, so many questions take over one and a half seconds.
        "eth_getBlockByHash" if times.fetch_add(1, Ordering::SeqCst) < 15 => result(Value::Null),
        "eth_getBlockByHash" => {
            let mut block = block(9, hash(BLOCK), json!([]));
            block["parentHash"] = json!(hash(8));
            result(block)
        }
        _ => result(json!([])),
    })
    .await;
    assert_eq!(changed_ticks(&nodes(&[&first, &late], LONG_TIMEOUT)).await.unwrap(), Some(vec![10]));
}

/// A node by whose trace the recipient refused a plain payment, or did not; or one that offers no traces.
async fn traces(refused: Option<bool>) -> Scripted {
    let (filler, recipient) = (Address::repeat_byte(1), Address::repeat_byte(2));
    Scripted::start(move |_, _| match refused {
        None => Reply::Error(-32601, "method not found"),
        Some(refused) => result(json!({
            "type": "CALL", "from": filler, "to": recipient, "gas": "0xf4240", "gasUsed": "0x2710", "input": "0x",
            "error": refused.then_some("execution reverted"),
        })),
    })
    .await
}

#[tokio::test]
async fn a_recipient_is_blamed_by_all_traces_or_not_at_all() {
    let suspects = Suspects { router: FEED, recipient: Address::repeat_byte(2), calls: Vec::new() };
    for (first, second, expected) in [
        (Some(true), Some(true), Some(Blame::Recipient)),
        (Some(true), Some(false), Some(Blame::Nobody)),
        (Some(false), Some(true), Some(Blame::Nobody)),
        (Some(true), None, Some(Blame::Recipient)),
        (None, None, None),
    ] {
        let (one, other) = (traces(first).await, traces(second).await);
        assert_eq!(nodes(&[&one, &other], LONG_TIMEOUT).blame(hash(1), &suspects).await.unwrap(), expected);
    }
    let (one, dead) = (traces(Some(true)).await, Scripted::start(|_, _| Reply::Silence).await);
    let both = nodes(&[&one, &dead], Duration::from_millis(300));
    assert!(both.blame(hash(1), &suspects).await.is_err(), "it might say otherwise");
}
