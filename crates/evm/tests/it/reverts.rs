//! The reasons why mined transactions failed, from nodes that offer traces and from nodes that do not.

use alloy::primitives::{Address, Bytes, U256, hex};
use alloy::sol_types::{Panic, Revert as Sentence, SolError};
use devnet::{Chain, Fault};
use domain::revert::Revert;
use evm::{Nodes, Replayed};

use crate::real::{disturbed, endpoint, fresh_id, nodes, second_endpoint};

/// A contract that answers every call by reverting with these bytes.
fn reverting(data: &[u8]) -> Bytes {
    let [high, low] = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0x61, high, low, 0x60, 0x0c, 0x5f, 0x39, 0x61, high, low, 0x5f, 0xfd], data].concat().into()
}

const GAS: u64 = 100_000;

/// Sends a call to a new contract with this code, and waits until it is mined.
async fn fail(chain: &Chain, nodes: &Nodes, code: Bytes) -> Replayed {
    let (to, user) = (Address::from_slice(&fresh_id()[12..]), chain.fresh_user().await.unwrap());
    chain.set_code(to, code).await.unwrap();
    let data = Bytes::from_static(&[1]);
    let hash = chain.submit_with(user.private_key, to, U256::ZERO, data.clone(), GAS).await.unwrap();
    while nodes.receipt(hash).await.unwrap().is_none() {
        chain.mine(1).await.unwrap();
    }
    Replayed { hash, from: user.address, to: Some(to), value: U256::ZERO, data, gas: Some(GAS) }
}

#[tokio::test]
async fn a_failure_is_explained_with_and_without_traces() {
    let (_turn, chain) = disturbed().await;
    let tracing = nodes(chain, vec![endpoint(chain)]);
    let plain = nodes(chain, vec![second_endpoint(chain)]);
    chain.faults.set(Fault { no_extras: true, ..Fault::default() });
    let said = |words: &str| Revert::Said(words.to_owned());
    let table = [
        (reverting(&Sentence::from("Too little received").abi_encode()), said("Too little received")),
        (reverting(&Panic::from(0x12).abi_encode()), Revert::Panic(0x12)),
        (reverting(&hex!("c0ffee01")), Revert::Unnamed(hex!("c0ffee01"))),
        (reverting(&[]), Revert::Silent),
        // Jumps to itself for ever.
        (hex!("5b5f56").into(), Revert::OutOfGas),
        // Answers with a word of zeros.
        (hex!("60205ff3").into(), Revert::AnsweredFalse),
    ];
    for (code, revert) in table {
        let failed = fail(chain, &tracing, code).await;
        for nodes in [&tracing, &plain] {
            assert_eq!(nodes.why_failed(&failed).await.unwrap().as_ref(), Some(&revert), "{nodes:?}");
        }
    }
    assert!(plain.health().iter().all(|node| node.failures_in_a_row == 0), "nothing is held against it");
    let nowhere = Replayed { hash: fresh_id(), ..fail(chain, &tracing, reverting(&[])).await };
    assert_eq!(plain.why_failed(&nowhere).await.unwrap(), None);
}

#[tokio::test]
async fn a_failure_caused_by_its_own_block_is_explained_by_the_state_after_it() {
    let (_turn, chain) = disturbed().await;
    let plain = nodes(chain, vec![second_endpoint(chain)]);
    chain.faults.set(Fault { no_extras: true, ..Fault::default() });
    // Reverts if its first slot is set, and sets it otherwise: of two calls in one block the second fails, and would
    // not have failed on the state before.
    let to = Address::from_slice(&fresh_id()[12..]);
    chain.set_code(to, hex!("5f54156012576355aa55aa5f526004601cfd5b60015f5500").into()).await.unwrap();
    let user = chain.fresh_user().await.unwrap();
    chain.pause_mining().await;
    let call = async || chain.submit_with(user.private_key, to, U256::ZERO, Bytes::new(), GAS).await.unwrap();
    let (first, second) = (call().await, call().await);
    chain.mine(1).await.unwrap();
    let receipt = async |hash| plain.receipt(hash).await.unwrap().unwrap();
    let (first, second) = (receipt(first).await, receipt(second).await);
    assert!(first.success() && !second.success() && first.block_hash == second.block_hash);
    let failed = Replayed {
        hash: second.transaction_hash,
        from: user.address,
        to: Some(to),
        value: U256::ZERO,
        data: Bytes::new(),
        gas: Some(GAS),
    };
    assert_eq!(plain.why_failed(&failed).await.unwrap(), Some(Revert::Unnamed(hex!("55aa55aa"))));
    chain.resume_mining().await;
}
