//! Heads of a real chain: pushed, polled, and replaced.

use std::time::Duration;

use devnet::{Chain, Fault};
use evm::{Endpoint, Head, Nodes};
use tokio::sync::watch;

use crate::real::{TIMEOUT, disturbed, endpoint, nodes};

async fn reach(heads: &mut watch::Receiver<Option<Head>>, good: impl Fn(&Head) -> bool) -> Head {
    let reached = heads.wait_for(|head| head.as_ref().is_some_and(&good));
    tokio::time::timeout(TIMEOUT, reached).await.expect("the head arrives in time").unwrap().unwrap()
}

async fn until(what: &str, nodes: &Nodes, good: impl Fn(&Nodes) -> bool) {
    let waiting = async {
        while !good(nodes) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("{what}: {:?}", nodes.health()));
}

async fn advance(chain: &Chain, heads: &mut watch::Receiver<Option<Head>>) -> Head {
    let before = chain.block_number().await.unwrap();
    chain.mine(1).await.unwrap();
    reach(heads, |head| head.number > before).await
}

#[tokio::test]
async fn heads_are_pushed() {
    let (_turn, chain) = disturbed().await;
    // Polling is so rare here that only the websocket can bring the news.
    let nodes = nodes(chain, vec![endpoint(chain)]).poll_every(Duration::from_secs(3_600));
    let mut heads = nodes.heads();
    until("subscribed", &nodes, |nodes| nodes.health()[0].subscribed).await;
    for _ in 0..3 {
        let head = advance(chain, &mut heads).await;
        let block = nodes.header(evm::At::Hash(head.hash)).await.unwrap().unwrap();
        assert_eq!(block, head);
    }
}

#[tokio::test]
async fn heads_are_asked_for_where_the_websocket_does_not_work() {
    let (_turn, chain) = disturbed().await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let ws = Some(format!("ws://{closed}").parse().unwrap());
    let nodes = nodes(chain, vec![Endpoint { http: chain.rpc_url.clone(), ws }]);
    let mut heads = nodes.heads();
    for _ in 0..3 {
        advance(chain, &mut heads).await;
    }
    assert!(!nodes.health()[0].subscribed);
}

#[tokio::test]
async fn a_lost_websocket_is_bridged_by_asking_and_comes_back() {
    let (_turn, chain) = disturbed().await;
    // Requests go to the faithful endpoint, heads come through the one that can fail.
    let broken = Endpoint { http: chain.rpc_url.clone(), ws: Some(chain.second_ws_url.clone()) };
    let nodes = nodes(chain, vec![broken]);
    let mut heads = nodes.heads();
    until("subscribed", &nodes, |nodes| nodes.health()[0].subscribed).await;
    chain.faults.set(Fault { reset: true, ..Fault::default() });
    until("lost", &nodes, |nodes| !nodes.health()[0].subscribed).await;
    advance(chain, &mut heads).await;
    chain.faults.clear();
    until("back", &nodes, |nodes| nodes.health()[0].subscribed).await;
    advance(chain, &mut heads).await;
}

#[tokio::test]
async fn a_websocket_that_goes_silent_is_given_up() {
    let (_turn, chain) = disturbed().await;
    let silent = Endpoint { http: chain.rpc_url.clone(), ws: Some(chain.second_ws_url.clone()) };
    let nodes = nodes(chain, vec![silent]);
    let mut heads = nodes.heads();
    until("subscribed", &nodes, |nodes| nodes.health()[0].subscribed).await;
    // The socket stays open and sends nothing, while blocks go on.
    chain.faults.set(Fault { stall: true, ..Fault::default() });
    advance(chain, &mut heads).await;
    until("given up", &nodes, |nodes| !nodes.health()[0].subscribed).await;
    chain.faults.clear();
    until("back", &nodes, |nodes| nodes.health()[0].subscribed).await;
}

#[tokio::test]
async fn a_reorg_is_reported() {
    let (_turn, chain) = disturbed().await;
    let nodes = nodes(chain, vec![endpoint(chain)]);
    let mut heads = nodes.heads();
    until("subscribed", &nodes, |nodes| nodes.health()[0].subscribed).await;
    chain.pause_mining().await;
    chain.mine(3).await.unwrap();
    let newest = nodes.head().await.unwrap();
    reach(&mut heads, |head| head.hash == newest.hash).await;
    chain.reorg(2, &[]).await.unwrap();
    let replaced = nodes.head().await.unwrap();
    assert_ne!(replaced.hash, newest.hash);
    assert!(replaced.number <= newest.number);
    reach(&mut heads, |head| head.hash == replaced.hash).await;
    chain.resume_mining().await;
    reach(&mut heads, |head| head.number > newest.number).await;
}
