//! A real node beside one that misbehaves.

use std::time::Duration;

use alloy::primitives::{Address, U256};
use devnet::{Chain, Fault};
use domain::ids::{ChainId, OrderId};
use evm::{At, Id, Nodes, SendOutcome, calldata};

use crate::real::{disturbed, endpoint, fields, fresh_id, second_endpoint, signer, watch};

/// The misbehaving endpoint comes first, so that it is the one asked.
fn nodes(chain: &Chain) -> Nodes {
    let endpoints = vec![second_endpoint(chain), endpoint(chain)];
    // Slow answers are given up after a quarter of this.
    Nodes::new(ChainId(chain.id), endpoints, Duration::from_secs(4)).unwrap().poll_every(Duration::from_millis(20))
}

#[tokio::test]
async fn an_endpoint_that_lags_is_not_the_head() {
    let (_turn, chain) = disturbed().await;
    chain.mine(10).await.unwrap();
    chain.faults.set(Fault { stale_head: 5, ..Fault::default() });
    let nodes = nodes(chain);
    let number = chain.block_number().await.unwrap();
    assert!(nodes.head().await.unwrap().number >= number);
    let health = nodes.health();
    let known = |index: usize| health[index].head.expect("asked").number;
    assert!(known(0) < known(1), "{health:?}");
}

#[tokio::test]
async fn a_stalled_or_resetting_endpoint_is_worked_around() {
    let (_turn, chain) = disturbed().await;
    for fault in [Fault { stall: true, ..Fault::default() }, Fault { reset: true, ..Fault::default() }] {
        chain.faults.set(fault);
        let nodes = nodes(chain);
        let mut heads = nodes.heads();
        let before = chain.block_number().await.unwrap();
        chain.mine(1).await.unwrap();
        heads.wait_for(|head| head.is_some_and(|head| head.number > before)).await.unwrap();
        nodes.head().await.unwrap();
        nodes.balance(Address::ZERO, At::Latest).await.unwrap();
        chain.faults.clear();
    }
}

#[tokio::test]
async fn a_deposit_one_endpoint_hides_is_found_on_the_other() {
    let (_turn, chain) = disturbed().await;
    let user = chain.fresh_user().await.unwrap();
    let order = OrderId(fresh_id());
    let data = calldata::deposit_native(user.address, order);
    let receipt = chain.send(user.private_key, chain.contracts.depository, U256::from(5), data).await.unwrap();
    chain.faults.set(Fault { hide_logs: true, ..Fault::default() });
    let nodes = nodes(chain);
    let block = nodes.block_by_hash(receipt.block_hash.unwrap(), &watch(chain, [])).await.unwrap().unwrap();
    assert!(block.deposits.iter().any(|deposit| deposit.id == Id::Event(order.0)), "{block:?}");
    let number = receipt.block_number.unwrap();
    assert_eq!(nodes.blocks_with_deposits(number, number, &watch(chain, [])).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_block_is_read_though_one_endpoint_is_on_a_fork() {
    let (_turn, chain) = disturbed().await;
    chain.mine(2).await.unwrap();
    chain.faults.set(Fault { wrong_block_hash: true, ..Fault::default() });
    let honest = crate::real::nodes(chain, vec![endpoint(chain)]).head().await.unwrap();
    let block = nodes(chain).block_by_hash(honest.hash, &watch(chain, [])).await.unwrap();
    assert_eq!(block.map(|block| block.head), Some(honest));
}

#[tokio::test]
async fn a_transaction_arrives_though_one_endpoint_refuses_or_swallows_it() {
    let (_turn, chain) = disturbed().await;
    for fault in [Fault { reject_sends: true, ..Fault::default() }, Fault { drop_sends: true, ..Fault::default() }] {
        let wallet = chain.fresh_user().await.unwrap();
        chain.faults.set(fault.clone());
        let nodes = nodes(chain);
        let tx = signer(&wallet).sign(&fields(chain, 0, user_of(fresh_id()), 3, calldata::native_fill(fresh_id())));
        let sent = nodes.send_raw(&tx.bytes, |_| ()).await;
        // The second is not waited for where the first accepts; that the transaction arrives shows below.
        let taken = matches!(sent.outcomes[1], SendOutcome::Accepted);
        assert!(taken || (fault.drop_sends && matches!(sent.outcomes[1], SendOutcome::Unanswered)), "{sent:?}");
        assert_eq!(sent.outcomes[0].is_held(), fault.drop_sends, "{sent:?}");
        chain.receipt(tx.hash).await.unwrap();
        chain.faults.clear();
    }
}

fn user_of(seed: alloy::primitives::B256) -> Address {
    Address::from_word(seed)
}
