//! Cases of reads that need more than one node, or one block for all of them.

use std::sync::Arc;

use alloy::primitives::{B256, U256};
use evm::{BlockSummary, Endpoint};
use serde_json::{Value, json};
use store::blocks::Cursor;
use store::{Tx, lanes};

use super::scripted;
use super::world::*;
use crate::chain::follow::may_pay;
use crate::chain::rescan::{Scan, look_at};
use crate::error::SolverError;
use crate::handle::ChainHandle;
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

/// A process that begins knows of no dispute that stopped the last one. It sees that nodes show another block than the last
/// one walked, and pays nothing before a block that most of them have.
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
    }
}

/// The head moves on while blocks are read. A nonce that was used behind the last of them is not accounted for: with it,
/// the payment that used it would be made again.
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
