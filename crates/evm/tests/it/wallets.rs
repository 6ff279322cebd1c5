//! Our own wallets on a real chain: signing, sending, and the outcome.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use devnet::{Account, Chain, Devnet, Fault};
use evm::contracts::{Erc20, PriceFeed};
use evm::{At, Attempt, Nodes, NonceTag, Refusal, SendOutcome, SignedTx, calldata};

use crate::real::{chain, disturbed, endpoint, fields, fresh_id, nodes, second_endpoint, signer, watch};

const RECIPIENT: Address = Address::repeat_byte(0x5e);

async fn story() -> (&'static Chain, Account, Nodes) {
    let chain = chain("optimism").await;
    let wallet = chain.fresh_user().await.unwrap();
    (chain, wallet, nodes(chain, vec![endpoint(chain), second_endpoint(chain)]))
}

fn payment(chain: &Chain, wallet: &Account, nonce: u64, value: u64, id: B256) -> SignedTx {
    signer(wallet).sign(&fields(chain, nonce, RECIPIENT, value, calldata::native_fill(id)))
}

async fn mined(chain: &Chain, nodes: &Nodes, tx: &SignedTx, wallet: Address) -> evm::SentTx {
    let receipt = loop {
        if let Some(receipt) = nodes.receipt(tx.hash).await.unwrap() {
            break receipt;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    let block = nodes.block_by_hash(receipt.block_hash, &watch(chain, [wallet])).await.unwrap().unwrap();
    block.sent.into_iter().find(|sent| sent.hash == tx.hash).expect("our transaction is among ours")
}

#[tokio::test]
async fn a_native_payment_is_found_with_its_receipt() {
    let (chain, wallet, nodes) = story().await;
    let id = fresh_id();
    let tx = payment(chain, &wallet, 0, 777, id);
    let sent = nodes.send_raw(&tx.bytes, |_| ()).await;
    assert!(sent.is_held(), "{sent:?}");
    assert_eq!(sent.hash, tx.hash);
    let found = mined(chain, &nodes, &tx, wallet.address).await;
    assert_eq!((found.from, found.nonce, found.to, found.success), (wallet.address, 0, Some(RECIPIENT), true));
    assert_eq!((found.id(), found.paid(Address::ZERO, RECIPIENT, chain.contracts.router)), (Some(id), U256::from(777)));
    // The id is the whole calldata, and a zero byte is the cheaper one.
    let data: u64 = id.iter().map(|byte| if *byte == 0 { 10 } else { 40 }).sum();
    assert!(found.gas_used == 21_000 + data && found.effective_gas_price > 0, "{found:?}");
    assert_eq!(found.fee, U256::from(found.gas_used) * U256::from(found.effective_gas_price));
    assert_eq!(nodes.nonce(wallet.address, NonceTag::Latest).await.unwrap(), 1);
}

#[tokio::test]
async fn a_payment_through_the_router_pays_a_contract() {
    let (chain, wallet, nodes) = story().await;
    let (router, id) = (chain.contracts.router, fresh_id());
    let recipient = wallet.address.create(u64::MAX);
    let data = calldata::native_fill_through_router(recipient, U256::from(55), id);
    let tx = signer(&wallet).sign(&fields(chain, 0, router, 55, data));
    assert!(nodes.send_raw(&tx.bytes, |_| ()).await.is_held());
    let found = mined(chain, &nodes, &tx, wallet.address).await;
    assert_eq!((found.success, found.id()), (true, Some(id)));
    assert_eq!(found.paid(Address::ZERO, recipient, router), U256::from(55));
    assert_eq!(nodes.balance(recipient, At::Latest).await.unwrap(), U256::from(55));
    // A first payment to an empty account; one that holds something costs 25,000 less.
    assert!(found.gas_used < 64_000, "{found:?}");
}

#[tokio::test]
async fn a_token_payment_comes_from_the_treasury_and_one_too_large_reverts() {
    let (chain, _, nodes) = story().await;
    let keys = &Devnet::shared().await.keys;
    let (filler, token) = (&keys.fillers[0], chain.token("USDC").address);
    let recipient = signer(filler).address().create(u64::MAX);
    let first = nodes.nonce(filler.address, NonceTag::Pending).await.unwrap();
    let pay = |nonce: u64, amount: U256| {
        let data = calldata::erc20_fill_from_treasury(keys.treasury.address, recipient, amount, fresh_id());
        signer(filler).sign(&fields(chain, nonce, token, 0, data))
    };
    let (small, large) = (pay(first, U256::from(1_000)), pay(first + 1, U256::MAX >> 1));
    for tx in [&small, &large] {
        assert!(nodes.send_raw(&tx.bytes, |_| ()).await.is_held());
    }
    let found = mined(chain, &nodes, &small, filler.address).await;
    assert_eq!((found.success, found.paid(token, recipient, chain.contracts.router)), (true, U256::from(1_000)));
    let found = mined(chain, &nodes, &large, filler.address).await;
    assert_eq!((found.success, found.paid(token, recipient, chain.contracts.router)), (false, U256::ZERO));
}

#[tokio::test]
async fn sending_again_is_harmless_and_says_why() {
    let (chain, wallet, nodes) = story().await;
    let tx = payment(chain, &wallet, 1, 1, fresh_id());
    // The nonce before it is missing, so it waits; the two endpoints are one node, and one of them is first.
    let sent = nodes.send_raw(&tx.bytes, |_| ()).await;
    let accepted = sent.outcomes.iter().filter(|it| matches!(it, SendOutcome::Accepted)).count();
    assert!(sent.is_held() && accepted == 1, "{sent:?}");
    // A slow endpoint is not waited for; it is asked again.
    let mut again = nodes.send_raw(&tx.bytes, |_| ()).await;
    for _ in 0..20 {
        if !again.outcomes.iter().any(|it| matches!(it, SendOutcome::Unanswered)) {
            break;
        }
        again = nodes.send_raw(&tx.bytes, |_| ()).await;
    }
    assert!(again.outcomes.iter().all(|it| matches!(it, SendOutcome::AlreadyKnown)), "{again:?}");

    let first = payment(chain, &wallet, 0, 1, fresh_id());
    assert!(nodes.send_raw(&first.bytes, |_| ()).await.is_held());
    mined(chain, &nodes, &tx, wallet.address).await;
    let late = nodes.send_raw(&payment(chain, &wallet, 0, 2, fresh_id()).bytes, |_| ()).await;
    assert_eq!(late.refusal(), Some(&Refusal::NonceTooLow), "{late:?}");
    assert!(late.nonce_is_used());
}

#[tokio::test]
async fn a_node_says_why_it_refuses() {
    let (chain, wallet, nodes) = story().await;
    let send = async |fields: evm::TxFields| nodes.send_raw(&signer(&wallet).sign(&fields).bytes, |_| ()).await;
    let plain = |value| fields(chain, 1, RECIPIENT, value, calldata::native_fill(fresh_id()));

    assert!(send(plain(1)).await.is_held());
    let replaced = send(plain(2)).await;
    assert_eq!(replaced.refusal(), Some(&Refusal::ReplacementUnderpriced), "{replaced:?}");

    let mut starved = fields(chain, 0, RECIPIENT, 1, Bytes::new());
    starved.gas = 20_000;
    let starved = send(starved).await;
    assert_eq!(starved.refusal(), Some(&Refusal::GasTooLow), "{starved:?}");

    let mut rich = plain(0);
    rich.value = U256::MAX >> 8;
    let rich = send(rich).await;
    assert_eq!(rich.refusal(), Some(&Refusal::InsufficientFunds), "{rich:?}");

    let mut elsewhere = plain(1);
    elsewhere.chain = domain::ids::ChainId(1);
    let elsewhere = send(elsewhere).await;
    assert_eq!(elsewhere.refusal(), Some(&Refusal::BadSignature), "{elsewhere:?}");
}

#[tokio::test]
async fn several_reads_are_one_request_at_one_block() {
    let (chain, wallet, nodes) = story().await;
    chain.mine(1).await.unwrap();
    let token = chain.token("USDC");
    let balance_of: Bytes = Erc20::balanceOfCall { owner: wallet.address }.abi_encode().into();
    let feed: Bytes = PriceFeed::latestRoundDataCall {}.abi_encode().into();
    let calls = [
        (token.address, balance_of.clone()),
        (token.feed.unwrap(), feed),
        (chain.contracts.depository, Bytes::from_static(&[1, 2, 3, 4])),
    ];
    let head = nodes.head().await.unwrap();
    let answers = nodes.aggregate(chain.contracts.multicall3, &calls, At::Hash(head.hash)).await.unwrap();
    let balance = Erc20::balanceOfCall::abi_decode_returns(answers[0].as_ref().unwrap()).unwrap();
    assert_eq!(balance, chain.balance(token.address, wallet.address).await.unwrap());
    let round = PriceFeed::latestRoundDataCall::abi_decode_returns(answers[1].as_ref().unwrap()).unwrap();
    assert!(round.answer.is_positive());
    assert!(matches!(answers[2], Err(Refusal::Reverted(_))));
    assert_eq!(nodes.aggregate(chain.contracts.multicall3, &[], At::Latest).await.unwrap().len(), 0);

    let direct = nodes.call(token.address, balance_of, At::Number(head.number)).await.unwrap();
    assert_eq!(&direct, answers[0].as_ref().unwrap());
    let unknown = nodes.call(token.address, Bytes::new(), At::Hash(B256::repeat_byte(7))).await.unwrap_err();
    assert_eq!(unknown.refusal(), Some(&Refusal::UnknownBlock));
    assert!(!nodes.code(token.address, At::Latest).await.unwrap().is_empty());
    assert!(nodes.code(wallet.address, At::Latest).await.unwrap().is_empty());
    assert!(nodes.header(At::Finalized).await.unwrap().is_some_and(|it| it.number < head.number));
    let (value, data) = (U256::from(1), calldata::native_fill(fresh_id()));
    let attempt =
        Attempt { from: wallet.address, to: RECIPIENT, value, data, max_fee: Some(10_000_000_000), gas: Some(100_000) };
    let gas = nodes.estimate_gas(attempt).await.unwrap();
    assert!((21_000..30_000).contains(&gas), "{gas}");
    let ids = nodes.chain_ids().await;
    assert!(ids.iter().all(|id| id.as_ref().is_ok_and(|id| *id == chain.id)));
}

#[tokio::test]
async fn a_block_full_of_payments_is_the_same_with_all_receipts_at_once_and_one_by_one() {
    let (_turn, chain) = disturbed().await;
    let wallet = chain.fresh_user().await.unwrap();
    let (at_once, one_by_one) = (nodes(chain, vec![endpoint(chain)]), nodes(chain, vec![second_endpoint(chain)]));
    chain.faults.set(Fault { no_extras: true, ..Fault::default() });
    chain.pause_mining().await;
    let payments: Vec<SignedTx> = (0..20).map(|nonce| payment(chain, &wallet, nonce, 7, fresh_id())).collect();
    for payment in &payments {
        assert!(at_once.send_raw(&payment.bytes, |_| ()).await.is_held());
    }
    chain.mine(1).await.unwrap();
    let hash = at_once.receipt(payments[0].hash).await.unwrap().unwrap().block_hash;
    let watch = watch(chain, [wallet.address]);
    let full = at_once.block_by_hash(hash, &watch).await.unwrap().unwrap();
    assert_eq!(
        full.sent.iter().map(|sent| sent.hash).collect::<Vec<_>>(),
        payments.iter().map(|tx| tx.hash).collect::<Vec<_>>()
    );
    assert!(full.sent.iter().all(|sent| sent.success && sent.gas_used > 21_000));
    assert_eq!(one_by_one.block_by_hash(hash, &watch).await.unwrap().unwrap(), full);
    assert!(one_by_one.health().iter().all(|node| node.failures_in_a_row == 0), "nothing is held against it");
}
