//! Cases of reads that need more than one node, or one block for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy::primitives::{B256, U256};
use domain::time::Timestamp;
use evm::{BlockSummary, Endpoint};
use serde_json::{Value, json};
use store::blocks::Cursor;
use store::{Tx, blocks, chain_states, lanes};
use tokio_util::sync::CancellationToken;

use super::scripted;
use super::world::*;
use crate::chain::disputes::{Dispute, may_pay};
use crate::chain::follow;
use crate::chain::rescan::{Scan, look_at};
use crate::error::SolverError;
use crate::handle::{CHECK_TIMEOUT_MILLIS, ChainHandle};
use crate::operator::recover::raise_nonces;

const SHOWN: B256 = B256::repeat_byte(0x51);
const CANONICAL: B256 = B256::repeat_byte(0x52);

async fn handle_of(endpoints: Vec<Endpoint>) -> Arc<ChainHandle> {
    Arc::new(handle_at(ORIGIN, "base", endpoints))
}

/// A node that has this block at the height that is rescanned, and answers nothing else.
async fn node(hash: Option<B256>) -> Endpoint {
    scripted::start(move |method, params| {
        let asked = method == "eth_getBlockByNumber" && params[0] == json!(format!("{BLOCK:#x}"));
        let block = json!({
            "number": U256::from(BLOCK), "hash": hash?, "parentHash": B256::ZERO, "timestamp": "0x64",
            "baseFeePerGas": "0x7", "transactions": [],
        });
        asked.then_some(block)
    })
    .await
}

/// The rescan of a block that is not kept any more, in which a node shows a deposit.
async fn rescan(hashes: [Option<B256>; 3]) -> Result<Scan, SolverError> {
    let world = World::new().await;
    let mut endpoints = Vec::new();
    for hash in hashes {
        endpoints.push(node(hash).await);
    }
    let (solver, handle) = (world.solver(|| NOW), handle_of(endpoints).await);
    let tx = B256::repeat_byte(0xd1);
    let summary = BlockSummary { number: BLOCK, block: SHOWN, tx, deposits: 1, treasury_transfers: 0 };
    look_at(&solver, &handle, BLOCK, SHOWN, vec![summary]).await
}

#[tokio::test]
async fn the_rescan_believes_the_block_that_most_nodes_have() {
    // The first node to answer has the block with the deposit, and most have another.
    for hashes in [[Some(SHOWN), Some(CANONICAL), Some(CANONICAL)], [Some(CANONICAL), Some(SHOWN), Some(CANONICAL)]] {
        assert_eq!(rescan(hashes).await.unwrap(), Scan::Clear);
    }
    // One node alone says which block is on the chain.
    let alone = rescan([Some(SHOWN), None, None]).await;
    assert!(matches!(alone, Err(SolverError::NoQuorum(_))), "{alone:?}");
}

/// A process that begins knows of no dispute that stopped the last one. It sees that nodes show another block than the
/// last one walked, and pays nothing before a block that most of them have.
#[tokio::test]
async fn after_a_restart_nothing_is_paid_while_the_nodes_disagree_about_the_last_block() {
    let (ours, other) = (Some(SHOWN), Some(CANONICAL));
    for (hashes, disputed, pays) in [
        ([ours, ours, ours], false, true),
        // Nodes that are down deny nothing.
        ([ours, None, None], false, true),
        ([ours, ours, other], false, true),
        ([ours, other, other], false, false),
        ([ours, other, None], false, false),
        ([other, other, other], false, false),
        // Another try does not end the dispute that stopped the walk.
        ([ours, ours, ours], true, false),
    ] {
        let world = World::new().await;
        let mut endpoints = Vec::new();
        for hash in hashes {
            endpoints.push(node(hash).await);
        }
        let (solver, handle) = (world.solver(|| NOW), handle_of(endpoints).await);
        handle.health.begin(NOW);
        let at = Cursor { number: BLOCK, hash: SHOWN };
        assert_eq!(may_pay(&solver, &handle, at, disputed).await.unwrap(), pays, "{hashes:?}");
        assert_eq!(handle.refusing().is_none(), pays, "{hashes:?}");
        assert_eq!(told(&world).await.map(|refusing| refusing.is_none()), Some(pays), "{hashes:?}");
        // Payments of other chains wait no longer than for any checks that do not finish.
        let later = Timestamp::from_millis(NOW.millis() + CHECK_TIMEOUT_MILLIS + 1);
        assert_eq!(handle.health.refusing_elsewhere(later), None, "{hashes:?}");
    }
}

/// The word on the chain that other processes read: why it makes no payments, or that it does.
async fn told(world: &World) -> Option<Option<String>> {
    let states = world.store.read(|tx: &mut Tx<'_>| Ok::<_, SolverError>(chain_states::all(tx)?)).await.unwrap();
    states.into_iter().find(|state| state.chain == ORIGIN).map(|state| state.refusing)
}

/// A walk that is tried again in a process that pays finds a reorg like any other, and tells nobody of a stop.
#[tokio::test]
async fn payments_that_have_begun_are_not_stopped_by_another_last_block() {
    let world = World::new().await;
    let endpoints = vec![node(Some(SHOWN)).await, node(Some(CANONICAL)).await];
    let (solver, handle) = (world.solver(|| NOW), handle_of(endpoints).await);
    handle.health.refuse(None);
    assert!(may_pay(&solver, &handle, Cursor { number: BLOCK, hash: SHOWN }, false).await.unwrap());
    assert_eq!((told(&world).await, handle.refusing()), (None, None));
}

/// The processes that stand by go by the word of the worker before, until this one has told them.
#[tokio::test]
async fn a_dispute_that_stopped_the_walk_is_told_again_in_its_own_words() {
    let world = World::new().await;
    let (solver, handle) = (world.solver(|| NOW), handle_of(vec![node(Some(SHOWN)).await]).await);
    handle.health.refuse(Some("on different forks".to_owned()));
    assert!(!may_pay(&solver, &handle, Cursor { number: BLOCK, hash: SHOWN }, true).await.unwrap());
    assert_eq!(told(&world).await, Some(Some("on different forks".to_owned())));
}

/// Notes the last block that was walked.
async fn walked(world: &World, number: u64, hash: B256) -> Cursor {
    let at = Cursor { number, hash };
    let unit = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(blocks::advance(tx, ORIGIN, at, NOW, 100)?);
    world.store.write(unit).await.unwrap();
    at
}

/// Where one of two nodes is always a block behind, the last block walked is never one that most have.
#[tokio::test]
async fn a_dispute_ends_with_a_block_that_most_nodes_have_whatever_comes_after_it() {
    let world = World::new().await;
    let (solver, handle) = (world.solver(|| NOW), handle_of(vec![node(None).await, node(None).await]).await);
    let at = |number| Cursor { number, hash: SHOWN };
    // Counted before the dispute, by a walk that did not come to commit it.
    handle.health.walked(BLOCK + 1, true);
    let mut dispute = Dispute::new(&handle, at(BLOCK));
    handle.health.walked(BLOCK + 2, false);
    assert!(!dispute.is_over(&solver, &handle, at(BLOCK + 2)).await.unwrap());
    handle.health.walked(BLOCK + 3, true);
    handle.health.walked(BLOCK + 4, false);
    assert_eq!(handle.health.unagreed(), 1);
    assert!(dispute.is_over(&solver, &handle, at(BLOCK + 4)).await.unwrap());
}

#[tokio::test]
async fn a_dispute_is_settled_by_most_nodes_and_not_by_those_that_answer() {
    let (ours, other) = (Some(SHOWN), Some(CANONICAL));
    for (hashes, settled) in [
        ([ours, ours, ours], true),
        ([ours, ours, other], true),
        ([ours, ours, None], true),
        ([ours, None, None], false),
        ([ours, other, None], false),
        ([ours, other, other], false),
    ] {
        let world = World::new().await;
        let mut endpoints = Vec::new();
        for hash in hashes {
            endpoints.push(node(hash).await);
        }
        let (solver, handle) = (world.solver(|| NOW), handle_of(endpoints).await);
        let at = walked(&world, BLOCK, SHOWN).await;
        let mut dispute = Dispute::new(&handle, at);
        assert_eq!(dispute.is_settled(&solver, &handle, at).await.unwrap(), settled, "{hashes:?}");
        // A walk that has gone on is judged by the block where it was: a node that is behind has that one.
        let next = walked(&world, BLOCK + 1, CANONICAL).await;
        assert_eq!(dispute.is_settled(&solver, &handle, next).await.unwrap(), settled, "{hashes:?}");
        // One that has gone back and not yet up again is not judged by a block below the dispute.
        let mut above = Dispute::new(&handle, Cursor { number: BLOCK + 5, hash: CANONICAL });
        assert_eq!(above.is_settled(&solver, &handle, at).await.unwrap(), settled, "{hashes:?}");
        assert!(!above.is_settled(&solver, &handle, next).await.unwrap(), "{hashes:?}");
    }
}

/// A node at this block, which makes no other, and whose wallets have sent nothing. It shows another block until it has
/// come round.
async fn still_node(came_round: Arc<AtomicBool>) -> Endpoint {
    scripted::start(move |method, params| {
        let hash = if came_round.load(Ordering::SeqCst) { SHOWN } else { CANONICAL };
        let asked = params[0] == json!("latest") || params[0] == json!(format!("{BLOCK:#x}"));
        match method {
            "eth_getTransactionCount" => Some(json!("0x0")),
            "eth_getBlockByNumber" if asked => Some(json!({
                "number": U256::from(BLOCK), "hash": hash, "parentHash": B256::ZERO, "timestamp": "0x64",
                "baseFeePerGas": "0x7", "transactions": [],
            })),
            _ => None,
        }
    })
    .await
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
}

#[tokio::test]
async fn a_dispute_on_a_chain_that_makes_no_block_ends_when_the_nodes_agree() {
    let world = World::new().await;
    let came_round = Arc::new(AtomicBool::new(false));
    let endpoints = vec![still_node(Arc::new(AtomicBool::new(true))).await, still_node(came_round.clone()).await];
    let (solver, handle) = (world.solver(|| NOW), handle_of(endpoints).await);
    walked(&world, BLOCK, SHOWN).await;
    handle.health.begin(NOW);
    let stop = CancellationToken::new();
    let walk = tokio::spawn(follow::run(solver, handle.clone(), stop.clone()));
    until(async || *handle.health.taken.borrow() == BLOCK).await;
    assert!(handle.refusing().is_some() && told(&world).await.unwrap().is_some());
    came_round.store(true, Ordering::SeqCst);
    until(async || handle.refusing().is_none()).await;
    assert_eq!(told(&world).await, Some(None));
    stop.cancel();
    walk.await.unwrap();
}

/// The head moves on while blocks are read. A nonce that was used behind the last of them is not accounted for: with
/// it, the payment that used it would be made again.
#[tokio::test]
async fn recovery_raises_nonces_to_those_of_the_last_block_it_read() {
    const READ: u64 = 100;
    let world = World::new().await;
    let mut endpoints = Vec::new();
    for _ in 0..2 {
        let count = |method: &str, params: &Value| match method {
            "eth_getTransactionCount" if params[1] == json!(format!("{READ:#x}")) => Some(json!("0x5")),
            "eth_getTransactionCount" => Some(json!("0x7")),
            _ => None,
        };
        endpoints.push(scripted::start(count).await);
    }
    let handle = handle_of(endpoints).await;
    raise_nonces(&world.solver(|| NOW), &handle, READ).await.unwrap();
    let read = |tx: &mut Tx<'_>| Ok::<_, SolverError>(lanes::all(tx, ORIGIN)?);
    let lanes = world.store.read(read).await.unwrap();
    assert_eq!(lanes.iter().find(|lane| lane.wallet == FILLER).unwrap().next_nonce, 5);
}
