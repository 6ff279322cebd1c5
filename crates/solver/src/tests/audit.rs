//! The audit and blocks whose nodes do not agree yet: an event in one of them is on its way, and no difference.

use std::sync::Arc;

use alloy::primitives::{B256, Bytes, U256};
use evm::Endpoint;
use serde_json::{Value, json};
use store::blocks::Cursor;
use store::payments::{self, PaymentRow};
use store::{Tx, blocks, doubtful_blocks};

use super::scripted;
use super::world::*;
use crate::audit::{self, Check};
use crate::error::SolverError;

/// The fill is in this block, and the walk two blocks further.
const MINED: u64 = BLOCK + 1;
const WALKED: u64 = BLOCK + 3;
const TX: B256 = B256::repeat_byte(0xf1);

fn header(number: u64) -> Value {
    let head = head(number);
    json!({
        "number": U256::from(number), "hash": head.hash, "parentHash": B256::ZERO, "timestamp": U256::from(head.time),
        "baseFeePerGas": "0x7", "transactions": [],
    })
}

/// A node of the destination, where the fill is mined and has used the first nonce of its wallet.
async fn node(fill: &PaymentRow) -> Endpoint {
    let fill = fill.clone();
    scripted::start(move |method, params| {
        let payment = &fill.payment;
        Some(match method {
            "eth_getBlockByNumber" => {
                header(u64::from_str_radix(params[0].as_str()?.trim_start_matches("0x"), 16).ok()?)
            }
            "eth_getLogs" => json!([]),
            "eth_getBalance" => json!("0x0"),
            "eth_call" => json!(Bytes::from(vec![0; 32])),
            "eth_getTransactionCount" if params[0] == json!(payment.wallet) => json!("0x1"),
            "eth_getTransactionCount" => json!("0x0"),
            "eth_getTransactionByHash" => json!({
                "hash": TX, "from": payment.wallet, "to": payment.target, "nonce": U256::from(payment.nonce),
                "value": payment.value.units(), "input": payment.data,
            }),
            "eth_getTransactionReceipt" => json!({
                "transactionHash": TX, "blockHash": head(MINED).hash, "blockNumber": U256::from(MINED),
                "transactionIndex": "0x0", "status": "0x1", "gasUsed": "0x5208", "effectiveGasPrice": "0x7", "logs": [],
            }),
            _ => return None,
        })
    })
    .await
}

/// The checks of the destination, where a fill was sent, is mined, and was not applied by the walk.
async fn audited(is_doubtful: bool) -> Vec<Check> {
    let world = World::new().await;
    let (_, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let fill = world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap().remove(0);
    let id = fill.id;
    let walk = move |tx: &mut Tx<'_>| {
        payments::set_hash(tx, id, TX)?;
        blocks::advance(tx, DESTINATION, Cursor { number: WALKED, hash: head(WALKED).hash }, NOW, 512)?;
        if is_doubtful {
            doubtful_blocks::put(tx, DESTINATION, Cursor { number: MINED, hash: head(MINED).hash }, NOW, 10)?;
        }
        Ok::<_, SolverError>(())
    };
    world.store.write(walk).await.unwrap();
    let chains = [Arc::new(handle_at(DESTINATION, "optimism", vec![node(&fill).await]))];
    let (options, nodes) = (world.options.clone(), tokio::runtime::Handle::current());
    let run = move || audit::run(&options, &chains, nodes, &|_, _, _, _| ());
    let checks = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    checks.into_iter().filter(|check| check.chain == "optimism").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_in_a_doubtful_block_is_noted_and_is_no_difference() {
    let checks = audited(true).await;
    let differences: Vec<_> = checks.iter().flat_map(|check| &check.differences).collect();
    assert!(differences.is_empty(), "{differences:?}");
    assert!(checks.iter().flat_map(|check| &check.notes).any(|note| note.contains("waits until enough nodes")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_the_walk_passed_by_is_a_difference() {
    let checks = audited(false).await;
    let differences: Vec<_> = checks.iter().flat_map(|check| check.differences.clone()).collect();
    let told = |what: &str| differences.iter().any(|difference| difference.contains(what));
    assert!(told("was mined in block") && told("the chain has used 1 nonces"), "{differences:?}");
}
