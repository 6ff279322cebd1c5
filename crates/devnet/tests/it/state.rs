use std::time::Duration;

use alloy_primitives::{Address, U256};
use devnet::{Devnet, Options};
use serde_json::{Value, json};

fn options() -> Options {
    Options { block_time: Duration::from_millis(200), ..Options::default() }
}

#[tokio::test]
async fn a_second_start_loads_the_template() {
    // The first one to start deploys.
    Devnet::shared().await;
    let second = Devnet::start(options()).await.unwrap();
    assert!(second.from_template);
    assert!(!second.resumed);
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_data_folder_continues_after_an_orderly_stop_only() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { data_dir: Some(dir.path().join("chains")), ..options() };
    let to = Address::repeat_byte(0x42);
    let first = Devnet::start(options()).await.unwrap();
    assert!(!first.resumed);
    let second = Devnet::start(options()).await;
    assert!(format!("{:#}", second.unwrap_err()).contains("in use"));
    let user = first.keys.users[0];
    let receipt = first.chain("base").send(user.private_key, to, U256::from(5), Default::default()).await.unwrap();
    let head = first.chain("base").block_number().await.unwrap();
    first.shutdown().await.unwrap();

    let resumed = Devnet::start(options()).await.unwrap();
    assert!(resumed.resumed);
    let base = resumed.chain("base");
    assert!(base.block_number().await.unwrap() >= head);
    assert_eq!(base.balance(Address::ZERO, to).await.unwrap(), U256::from(5));
    assert_eq!(base.receipt(receipt.transaction_hash).await.unwrap().block_hash, receipt.block_hash);
    drop(resumed);

    let after_crash = Devnet::start(options()).await.unwrap();
    assert!(!after_crash.resumed);
    assert_eq!(after_crash.chain("base").balance(Address::ZERO, to).await.unwrap(), U256::ZERO);
    after_crash.shutdown().await.unwrap();

    let fresh = Devnet::start(Options { fresh: true, ..options() }).await.unwrap();
    assert!(!fresh.resumed);
}

#[tokio::test]
async fn a_chain_can_be_stopped_and_reorganised() {
    let devnet = Devnet::start(options()).await.unwrap();
    let chain = devnet.chain("optimism");
    chain.pause_mining().await;
    let head = chain.block_number().await.unwrap();
    let user = chain.fresh_user().await.unwrap();
    chain.mine(3).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), head + 3);
    let to = Address::repeat_byte(0x43);
    let hash = chain.submit(user.private_key, to, U256::from(5), Default::default()).await.unwrap();
    chain.mine(2).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), head + 5);
    let mined = chain.receipt(hash).await.unwrap();
    let raw = chain.rpc("eth_getRawTransactionByHash", json!([hash])).await.unwrap();

    // The transaction is reorganised away, then back in another block.
    chain.reorg(3, &[]).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), head + 5);
    assert_eq!(chain.balance(Address::ZERO, to).await.unwrap(), U256::ZERO);
    chain.reorg(2, &[(raw, 1)]).await.unwrap();
    let again = chain.receipt(hash).await.unwrap();
    assert_eq!(again.block_number, Some(head + 5));
    assert_ne!(again.block_hash, mined.block_hash);

    chain.set_base_fee(50_000_000);
    chain.resume_mining().await;
    loop {
        let block: Value = chain.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
        if block["baseFeePerGas"] == "0x2faf080" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
