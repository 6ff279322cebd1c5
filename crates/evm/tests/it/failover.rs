//! Several endpoints, of which some do not work.

use std::time::Duration;

use alloy::primitives::{Address, Bytes, U256};
use evm::{At, ChainError, NonceTag, Refusal};
use serde_json::json;

use crate::scripted::{LONG_TIMEOUT, Reply, Scripted, block, hash, nodes, result};

const WHO: Address = Address::repeat_byte(1);

async fn rich() -> Scripted {
    Scripted::start(|_, _| result("0x64")).await
}

#[tokio::test]
async fn the_next_endpoint_answers_when_one_fails() {
    let failures: [fn() -> Reply; 5] = [
        || Reply::Status(500),
        || Reply::Status(429),
        || Reply::Garbage,
        || Reply::Error(-32005, "rate limit exceeded"),
        || Reply::Error(-32000, "header not found"),
    ];
    for failure in failures {
        let (bad, good) = (Scripted::start(move |_, _| failure()).await, rich().await);
        let nodes = nodes(&[&bad, &good], LONG_TIMEOUT);
        assert_eq!(nodes.balance(WHO, At::Latest).await.unwrap(), U256::from(100));
        assert_eq!((bad.asked("eth_getBalance"), good.asked("eth_getBalance")), (1, 1));
    }
}

#[tokio::test]
async fn an_endpoint_that_failed_is_asked_last() {
    let (bad, good) = (Scripted::start(|_, _| Reply::Status(503)).await, rich().await);
    let nodes = nodes(&[&bad, &good], LONG_TIMEOUT);
    for _ in 0..3 {
        nodes.balance(WHO, At::Latest).await.unwrap();
    }
    assert_eq!((bad.asked("eth_getBalance"), good.asked("eth_getBalance")), (1, 3));
    let health = nodes.health();
    assert_eq!((health[0].failures_in_a_row, health[1].failures_in_a_row), (1, 0));
    assert!(health[0].last_error.as_ref().unwrap().contains("503"));
    assert!(health[1].latency.is_some());
}

#[tokio::test]
async fn a_silent_endpoint_is_overtaken_by_the_next() {
    let (silent, good) = (Scripted::start(|_, _| Reply::Silence).await, rich().await);
    let nodes = nodes(&[&silent, &good], Duration::from_secs(2));
    // The second answers while the first still has three quarters of its time, which counts against the first.
    assert_eq!(nodes.balance(WHO, At::Latest).await.unwrap(), U256::from(100));
    assert_eq!(nodes.health()[0].failures_in_a_row, 1);
    nodes.balance(WHO, At::Latest).await.unwrap();
    assert_eq!((silent.asked("eth_getBalance"), good.asked("eth_getBalance")), (1, 2));
}

#[tokio::test]
async fn doing_well_at_one_thing_does_not_excuse_another() {
    let half = Scripted::start(|method, _| match method {
        "eth_getBalance" => Reply::Status(500),
        _ => result("0x1"),
    })
    .await;
    let good = rich().await;
    let nodes = nodes(&[&half, &good], LONG_TIMEOUT);
    nodes.balance(WHO, At::Latest).await.unwrap();
    assert!(nodes.chain_ids().await[0].is_ok());
    nodes.balance(WHO, At::Latest).await.unwrap();
    assert_eq!(half.asked("eth_getBalance"), 1);
}

#[tokio::test]
async fn alone_a_silent_endpoint_is_a_timeout_and_a_closed_port_unreachable() {
    let silent = Scripted::start(|_, _| Reply::Silence).await;
    let alone = nodes(&[&silent], Duration::from_millis(100));
    let error = alone.balance(WHO, At::Latest).await.unwrap_err();
    assert!(matches!(error, ChainError::Timeout { .. }), "{error}");

    let mut closed = silent.clone();
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    closed.url.set_port(Some(port)).unwrap();
    let error = nodes(&[&closed], LONG_TIMEOUT).balance(WHO, At::Latest).await.unwrap_err();
    assert!(matches!(error, ChainError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn neither_errors_nor_health_show_the_whole_address() {
    let bad = Scripted::start(|_, _| Reply::Status(401)).await;
    let nodes = nodes(&[&bad], LONG_TIMEOUT);
    let error = nodes.balance(WHO, At::Latest).await.unwrap_err();
    for text in [format!("{error} {error:?}"), format!("{:?}", nodes.health()), format!("{nodes:?}")] {
        assert!(text.contains("127.0.0.1") && !text.contains("secret-key"), "{text}");
    }
}

#[tokio::test]
async fn a_revert_is_final_and_asked_once() {
    let reverts = Scripted::start(|_, _| Reply::Error(3, "execution reverted: no")).await;
    let other = rich().await;
    let nodes = nodes(&[&reverts, &other], LONG_TIMEOUT);
    let error = nodes.call(WHO, Bytes::new(), At::Latest).await.unwrap_err();
    assert!(matches!(error.refusal(), Some(Refusal::Reverted(_))));
    assert_eq!(other.asked("eth_call"), 0);
}

#[tokio::test]
async fn the_head_is_the_highest_and_decides_who_is_asked_first() {
    let at = |number: u64| {
        move |method: &str, _: &serde_json::Value| match method {
            "eth_getBlockByNumber" => result(block(number, hash(number as u8), json!([]))),
            _ => result("0x64"),
        }
    };
    let (lagging, fresh) = (Scripted::start(at(5)).await, Scripted::start(at(9)).await);
    let dead = Scripted::start(|_, _| Reply::Status(500)).await;
    let nodes = nodes(&[&lagging, &dead, &fresh], LONG_TIMEOUT);
    let head = nodes.head().await.unwrap();
    assert_eq!((head.number, head.hash, head.time, head.base_fee), (9, hash(9), 100, 7));
    nodes.balance(WHO, At::Latest).await.unwrap();
    assert_eq!((lagging.asked("eth_getBalance"), fresh.asked("eth_getBalance")), (0, 1));
    assert_eq!(nodes.health()[0].head.unwrap().number, 5);
}

#[tokio::test]
async fn a_silent_endpoint_does_not_hide_the_head_of_the_others() {
    let silent = Scripted::start(|_, _| Reply::Silence).await;
    let good = Scripted::start(|_, _| result(block(9, hash(9), json!([])))).await;
    let nodes = nodes(&[&silent, &good], Duration::from_secs(1));
    assert_eq!(nodes.head().await.unwrap().number, 9);
}

#[tokio::test]
async fn a_nonce_is_the_highest_anyone_knows() {
    let (behind, ahead) = (Scripted::start(|_, _| result("0x3")).await, Scripted::start(|_, _| result("0x7")).await);
    let nodes = nodes(&[&behind, &ahead], LONG_TIMEOUT);
    assert_eq!(nodes.nonce(WHO, NonceTag::Latest).await.unwrap(), 7);
}

#[tokio::test]
async fn every_endpoint_is_asked_for_its_chain() {
    let (ours, other) = (Scripted::start(|_, _| result("0x7cff")).await, Scripted::start(|_, _| result("0x1")).await);
    let dead = Scripted::start(|_, _| Reply::Status(500)).await;
    let ids = nodes(&[&ours, &other, &dead], LONG_TIMEOUT).chain_ids().await;
    assert_eq!((ids[0].as_ref().unwrap(), ids[1].as_ref().unwrap()), (&31_999, &1));
    assert!(ids[2].is_err());
}

#[tokio::test]
async fn heads_are_asked_for_where_nothing_pushes_them() {
    let number = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(5));
    let current = number.clone();
    let node = Scripted::start(move |_, _| {
        let number = current.load(std::sync::atomic::Ordering::SeqCst);
        result(block(number, hash(number as u8), json!([])))
    })
    .await;
    let nodes = nodes(&[&node], LONG_TIMEOUT).poll_every(Duration::from_millis(5));
    let mut heads = nodes.heads();
    for expected in [5, 6, 9, 8] {
        number.store(expected, std::sync::atomic::Ordering::SeqCst);
        let reached = heads.wait_for(|head| head.is_some_and(|head| head.number == expected));
        tokio::time::timeout(LONG_TIMEOUT, reached).await.expect("the head arrives").unwrap();
    }
    drop(nodes);
    assert!(heads.changed().await.is_err(), "following ends with the last clone");
}

#[tokio::test]
async fn every_question_may_be_asked_from_a_task() {
    fn spawnable<T: Send>(_: T) {}
    let node = rich().await;
    let nodes = nodes(&[&node], LONG_TIMEOUT);
    let watch = evm::Watch::new(WHO, [], []);
    spawnable(nodes.head());
    spawnable(nodes.block_by_hash(hash(1), &watch));
    spawnable(nodes.block_by_number(1, &watch));
    spawnable(nodes.block_from_each(hash(1), &watch));
    spawnable(nodes.blocks_with_deposits(1, 2, &watch));
    spawnable(nodes.send_raw(&[], |_| ()));
    spawnable(nodes.aggregate(WHO, &[], At::Latest));
    spawnable(nodes.receipt(hash(1)));
}
