//! Faults of the proxy. Each test has a proxy of its own in front of a chain that all share.

use std::time::Duration;

use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::eips::eip2718::Encodable2718;
use alloy::pubsub::RawSubscription;
use alloy::rpc::client::RpcClient;
use alloy::signers::SignerSync;
use alloy::transports::ws::WsConnect;
use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use devnet::{Chain, Devnet, FaultProxy};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::timeout;

/// The wait for something that must not happen; long enough that it would have.
const A_WHILE: Duration = Duration::from_millis(700);

async fn websocket(proxy: &FaultProxy) -> RpcClient {
    RpcClient::connect_pubsub(WsConnect::new(proxy.ws_url.as_str())).await.unwrap()
}

async fn ask_number(client: &RpcClient, method: &'static str) -> u64 {
    client.request_noparams::<U64>(method).await.unwrap().to()
}

async fn heads(client: &RpcClient) -> RawSubscription {
    let mut call = client.request::<_, B256>("eth_subscribe", ("newHeads",));
    call.set_is_subscription();
    let id = call.await.unwrap();
    client.expect_pubsub_frontend().get_subscription(id).await.unwrap()
}

async fn next(heads: &mut RawSubscription) -> Value {
    serde_json::from_str(heads.recv().await.unwrap().get()).unwrap()
}

async fn proxy() -> (&'static Chain, FaultProxy) {
    let chain = Devnet::shared().await.chain("arbitrum");
    (chain, FaultProxy::start(chain.rpc_url.clone(), chain.ws_url.clone()).await.unwrap())
}

async fn post(proxy: &FaultProxy, body: &Value) -> reqwest::Result<Value> {
    devnet::http::client().build()?.post(proxy.rpc_url.clone()).json(body).send().await?.json().await
}

async fn ask(proxy: &FaultProxy, method: &str, params: Value) -> Value {
    post(proxy, &json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params})).await.unwrap()
}

fn number(value: &Value) -> u64 {
    serde_json::from_value::<U64>(value.clone()).unwrap().to()
}

async fn signed_transfer(chain: &Chain) -> (Address, Bytes) {
    let user = chain.fresh_user().await.unwrap();
    let tx = TxEip1559 {
        chain_id: chain.id,
        gas_limit: 21_000,
        max_fee_per_gas: 1_000_000_000,
        max_priority_fee_per_gas: 1,
        to: Address::repeat_byte(0x77).into(),
        value: U256::ONE,
        ..TxEip1559::default()
    };
    let signature = user.signer().sign_hash_sync(&tx.signature_hash()).unwrap();
    (user.address, tx.into_signed(signature).encoded_2718().into())
}

#[tokio::test]
async fn without_faults_it_is_the_node() {
    let (chain, proxy) = proxy().await;
    assert_eq!(number(&ask(&proxy, "eth_chainId", json!([])).await["result"]), chain.id);
    let call = |id, method| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": []});
    let answers = post(&proxy, &json!([call(1, "eth_chainId"), call(2, "eth_blockNumber")])).await.unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 2);
    let provider = websocket(&proxy).await;
    assert_eq!(ask_number(&provider, "eth_chainId").await, chain.id);
    let mut heads = heads(&provider).await;
    let first = next(&mut heads).await;
    assert_eq!(next(&mut heads).await["parentHash"], first["hash"]);
}

#[tokio::test]
async fn batches_are_understood_under_a_fault() {
    let (chain, proxy) = proxy().await;
    proxy.faults.update(|f| f.hide_logs = true);
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []},
        {"jsonrpc": "2.0", "id": 2, "method": "eth_getLogs", "params": [{"fromBlock": "0x0"}]},
    ]);
    let answers = post(&proxy, &batch).await.unwrap();
    assert_eq!(number(&answers[0]["result"]), chain.id);
    assert_eq!(answers[1], json!({"jsonrpc": "2.0", "id": 2, "result": []}));
}

#[tokio::test]
async fn a_delay_is_added() {
    let (_, proxy) = proxy().await;
    proxy.faults.update(|f| f.delay = Duration::from_secs(600));
    let call = ask(&proxy, "eth_chainId", json!([]));
    assert!(timeout(A_WHILE, call).await.is_err());
    proxy.faults.update(|f| f.delay = Duration::from_millis(30));
    let began = std::time::Instant::now();
    ask(&proxy, "eth_chainId", json!([])).await;
    assert!(began.elapsed() >= Duration::from_millis(30));
}

#[tokio::test]
async fn a_stalled_node_never_answers() {
    let (_, proxy) = proxy().await;
    let provider = websocket(&proxy).await;
    proxy.faults.update(|f| f.stall = true);
    assert!(timeout(A_WHILE, ask(&proxy, "eth_chainId", json!([]))).await.is_err());
    assert!(timeout(A_WHILE, ask_number(&provider, "eth_blockNumber")).await.is_err());
    proxy.faults.clear();
    ask(&proxy, "eth_chainId", json!([])).await;
    ask_number(&provider, "eth_blockNumber").await;
}

#[tokio::test]
async fn a_reset_cuts_open_connections_and_new_ones() {
    let (_, proxy) = proxy().await;
    let (mut socket, _) = tokio_tungstenite::connect_async(proxy.ws_url.as_str()).await.unwrap();
    proxy.faults.update(|f| f.reset = true);
    let end = timeout(Duration::from_secs(20), socket.next()).await.unwrap();
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    assert!(post(&proxy, &body).await.is_err());
    proxy.faults.clear();
    post(&proxy, &body).await.unwrap();
}

#[tokio::test]
async fn a_stale_head_lags() {
    let (chain, proxy) = proxy().await;
    chain.mine(10).await.unwrap();
    proxy.faults.update(|f| f.stale_head = 5);
    let head = chain.block_number().await.unwrap();
    let seen = number(&ask(&proxy, "eth_blockNumber", json!([])).await["result"]);
    assert!(seen >= head - 5 && seen <= chain.block_number().await.unwrap() - 5);
    let block = ask(&proxy, "eth_getBlockByNumber", json!(["latest", false])).await;
    assert!(number(&block["result"]["number"]) <= chain.block_number().await.unwrap() - 5);
    let real = chain.rpc::<Value>("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
    assert_eq!(ask(&proxy, "eth_getBlockByHash", json!([real["hash"], false])).await["result"], Value::Null);

    let provider = websocket(&proxy).await;
    let mut heads = heads(&provider).await;
    let first = next(&mut heads).await;
    let told: U64 = serde_json::from_value(first["number"].clone()).unwrap();
    assert!(told.to::<u64>() <= chain.block_number().await.unwrap() - 5);
    assert_eq!(next(&mut heads).await["parentHash"], first["hash"]);
}

#[tokio::test]
async fn wrong_block_hashes_are_wrong_everywhere_alike() {
    let (chain, proxy) = proxy().await;
    proxy.faults.update(|f| f.wrong_block_hash = true);
    let block = U64::from(chain.start_block);
    let real: Value = chain.rpc("eth_getBlockByNumber", json!([block, false])).await.unwrap();
    let told = ask(&proxy, "eth_getBlockByNumber", json!([block, false])).await["result"].take();
    assert_ne!(told["hash"], real["hash"]);
    assert_eq!(told["number"], real["number"]);
    assert_eq!(told["transactions"], real["transactions"]);
    let next = ask(&proxy, "eth_getBlockByNumber", json!([block + U64::ONE, false])).await;
    assert_eq!(next["result"]["parentHash"], told["hash"]);
    let logs = ask(&proxy, "eth_getLogs", json!([{"blockHash": told["hash"]}])).await;
    assert_eq!(logs["result"][0]["blockHash"], told["hash"]);
}

#[tokio::test]
async fn sends_are_refused() {
    let (chain, proxy) = proxy().await;
    proxy.faults.update(|f| f.reject_sends = true);
    let (_, raw) = signed_transfer(chain).await;
    let answer = ask(&proxy, "eth_sendRawTransaction", json!([raw])).await;
    assert!(answer["error"]["message"].is_string(), "{answer}");
}

#[tokio::test]
async fn sends_are_accepted_and_dropped() {
    let (chain, proxy) = proxy().await;
    proxy.faults.update(|f| f.drop_sends = true);
    let (from, raw) = signed_transfer(chain).await;
    let hash = keccak256(&raw);
    assert_eq!(ask(&proxy, "eth_sendRawTransaction", json!([raw])).await["result"], json!(hash));
    chain.mine(2).await.unwrap();
    let nonce: U256 = chain.rpc("eth_getTransactionCount", (from, "pending")).await.unwrap();
    assert_eq!(nonce, U256::ZERO);
    proxy.faults.clear();
    assert_eq!(ask(&proxy, "eth_sendRawTransaction", json!([raw])).await["result"], json!(hash));
    chain.receipt(hash).await.unwrap();
}

#[tokio::test]
async fn logs_are_hidden() {
    let (_, proxy) = proxy().await;
    let filter = json!([{"fromBlock": "0x0"}]);
    assert_ne!(ask(&proxy, "eth_getLogs", filter.clone()).await["result"], json!([]));
    proxy.faults.update(|f| f.hide_logs = true);
    assert_eq!(ask(&proxy, "eth_getLogs", filter).await["result"], json!([]));
}

#[tokio::test]
async fn every_chain_has_a_second_endpoint() {
    let devnet = Devnet::shared().await;
    for chain in &devnet.chains {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
        let client = devnet::http::client().build().unwrap();
        let answer = client.post(chain.second_rpc_url.clone()).json(&body).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(serde_json::from_value::<U64>(answer["result"].clone()).unwrap().to::<u64>(), chain.id);
    }
}
