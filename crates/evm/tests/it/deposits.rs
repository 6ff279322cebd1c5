//! Every form of deposit, made on a real chain and found in its block.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::rpc::types::TransactionReceipt;
use alloy::sol_types::SolCall;
use devnet::{Account, Chain};
use domain::ids::OrderId;
use evm::calldata;
use evm::contracts::{ApprovalProxy, Call3Value, Router};
use evm::{Id, SeenDeposit};

use crate::real::{chain, endpoint, fresh_id, nodes, watch};

struct Story {
    chain: &'static Chain,
    user: Account,
    token: Address,
    order: OrderId,
}

impl Story {
    async fn new() -> Self {
        let chain = chain("base").await;
        let user = chain.fresh_user().await.unwrap();
        Self { chain, user, token: chain.token("USDC").address, order: OrderId(fresh_id()) }
    }

    async fn send(&self, to: Address, value: u64, data: Bytes) -> TransactionReceipt {
        self.chain.send(self.user.private_key, to, U256::from(value), data).await.unwrap()
    }

    async fn approve(&self, spender: Address, amount: u64) {
        self.send(self.token, 0, calldata::approve(spender, U256::from(amount))).await;
    }

    /// The deposits of the transaction, as found in its block.
    async fn found(&self, receipt: &TransactionReceipt) -> Vec<SeenDeposit> {
        let nodes = nodes(self.chain, vec![endpoint(self.chain)]);
        let hash = receipt.block_hash.unwrap();
        let block = nodes.block_by_hash(hash, &watch(self.chain, [])).await.unwrap().expect("the block is there");
        assert_eq!(block.head.hash, hash);
        block.deposits.into_iter().filter(|deposit| deposit.tx == receipt.transaction_hash).collect()
    }

    async fn only(&self, receipt: &TransactionReceipt) -> SeenDeposit {
        let [deposit] = self.found(receipt).await.try_into().expect("one deposit");
        assert_eq!(deposit.sender, self.user.address);
        deposit
    }

    fn call(&self, target: Address, data: Bytes) -> Call3Value {
        Call3Value { target, allowFailure: false, value: U256::ZERO, callData: data }
    }

    async fn bundle(&self, calls: Vec<Call3Value>, value: u64) -> TransactionReceipt {
        let user = self.user.address;
        let call = Router::multicallCall { calls, refundTo: user, nftRecipient: user, metadata: Bytes::new() };
        self.send(self.chain.contracts.router, value, call.abi_encode().into()).await
    }

    /// A transfer out of the user's account that names an order, as a smart wallet would make it.
    fn pull(&self, amount: u64, id: B256) -> Call3Value {
        let (from, to) = (self.user.address, self.chain.contracts.depository);
        self.call(self.token, calldata::erc20_fill_from_treasury(from, to, U256::from(amount), id))
    }
}

#[tokio::test]
async fn native() {
    let story = Story::new().await;
    let named = Address::repeat_byte(0x42);
    let receipt =
        story.send(story.chain.contracts.depository, 1_234, calldata::deposit_native(named, story.order)).await;
    let deposit = story.only(&receipt).await;
    assert_eq!((deposit.id, deposit.depositor), (Id::Event(story.order.0), named));
    assert_eq!(
        (deposit.currency, deposit.amount, deposit.payer),
        (Address::ZERO, U256::from(1_234), story.user.address)
    );
    assert_eq!((deposit.to, deposit.value), (Some(story.chain.contracts.depository), U256::from(1_234)));
}

#[tokio::test]
async fn token_after_approval() {
    let story = Story::new().await;
    let depository = story.chain.contracts.depository;
    story.approve(depository, 5_000).await;
    let data = calldata::deposit_erc20(story.user.address, story.token, U256::from(5_000), story.order);
    let deposit = story.only(&story.send(depository, 0, data).await).await;
    assert_eq!((deposit.id, deposit.depositor), (Id::Event(story.order.0), story.user.address));
    assert_eq!((deposit.currency, deposit.amount, deposit.payer), (story.token, U256::from(5_000), story.user.address));
}

#[tokio::test]
async fn token_by_plain_transfer() {
    let story = Story::new().await;
    let data = calldata::implicit_deposit(story.chain.contracts.depository, U256::from(77), story.order);
    let deposit = story.only(&story.send(story.token, 0, data).await).await;
    assert_eq!((deposit.id, deposit.payer), (Id::Calldata(story.order.0), story.user.address));
    assert_eq!((deposit.currency, deposit.amount), (story.token, U256::from(77)));
}

#[tokio::test]
async fn token_through_proxy_and_router() {
    let story = Story::new().await;
    let contracts = &story.chain.contracts;
    story.approve(contracts.approval_proxy, 900).await;
    let deposit = calldata::deposit_erc20_allowance(story.user.address, story.token, story.order);
    let cleanup = Router::cleanupErc20sViaCallCall {
        tokens: vec![story.token],
        tos: vec![contracts.depository],
        datas: vec![deposit],
        amounts: vec![U256::ZERO],
    };
    let call = ApprovalProxy::transferAndMulticallCall {
        tokens: vec![story.token],
        amounts: vec![U256::from(900)],
        calls: vec![story.call(contracts.router, cleanup.abi_encode().into())],
        refundTo: story.user.address,
        nftRecipient: story.user.address,
        metadata: Bytes::new(),
    };
    let deposit = story.only(&story.send(contracts.approval_proxy, 0, call.abi_encode().into()).await).await;
    assert_eq!((deposit.id, deposit.depositor), (Id::Event(story.order.0), story.user.address));
    assert_eq!((deposit.payer, deposit.amount), (contracts.router, U256::from(900)));
}

#[tokio::test]
async fn native_through_the_router() {
    let story = Story::new().await;
    let contracts = &story.chain.contracts;
    let cleanup = Router::cleanupNativeViaCallCall {
        amount: U256::ZERO,
        to: contracts.depository,
        data: calldata::deposit_native(story.user.address, story.order),
    };
    let receipt = story.bundle(vec![story.call(contracts.router, cleanup.abi_encode().into())], 600).await;
    let deposit = story.only(&receipt).await;
    assert_eq!(
        (deposit.id, deposit.amount, deposit.currency),
        (Id::Event(story.order.0), U256::from(600), Address::ZERO)
    );
}

#[tokio::test]
async fn token_inside_a_bundle() {
    let story = Story::new().await;
    story.approve(story.chain.contracts.router, 100).await;
    let deposit = story.only(&story.bundle(vec![story.pull(31, story.order.0)], 0).await).await;
    assert_eq!((deposit.id, deposit.payer), (Id::Calldata(story.order.0), story.user.address));
    assert_eq!(deposit.to, Some(story.chain.contracts.router));
}

#[tokio::test]
async fn two_transfers_in_one_transaction_name_nothing() {
    let story = Story::new().await;
    story.approve(story.chain.contracts.router, 100).await;
    let calls = vec![story.pull(31, story.order.0), story.pull(31, fresh_id())];
    let found = story.found(&story.bundle(calls, 0).await).await;
    assert_eq!(found.iter().map(|it| (it.ordinal, it.id)).collect::<Vec<_>>(), [(0, Id::None), (1, Id::None)]);
}

#[tokio::test]
async fn a_transfer_without_id_is_unattributed() {
    let story = Story::new().await;
    let transfer = calldata::implicit_deposit(story.chain.contracts.depository, U256::from(5), story.order);
    let deposit = story.only(&story.send(story.token, 0, transfer.slice(..68)).await).await;
    assert_eq!((deposit.id, deposit.amount, deposit.depositor), (Id::None, U256::from(5), story.user.address));
}

#[tokio::test]
async fn a_block_by_number_is_the_same_block() {
    let story = Story::new().await;
    let receipt = story
        .send(story.chain.contracts.depository, 9, calldata::deposit_native(story.user.address, story.order))
        .await;
    let nodes = nodes(story.chain, vec![endpoint(story.chain)]);
    let watch = watch(story.chain, []);
    let by_hash = nodes.block_by_hash(receipt.block_hash.unwrap(), &watch).await.unwrap();
    let by_number = nodes.block_by_number(receipt.block_number.unwrap(), &watch).await.unwrap();
    assert!(by_hash.is_some());
    assert_eq!(by_hash, by_number);
    assert_eq!(nodes.block_by_hash(B256::repeat_byte(1), &watch).await.unwrap(), None);
    assert_eq!(nodes.block_by_number(u64::MAX >> 1, &watch).await.unwrap(), None);
    let number = receipt.block_number.unwrap();
    let again = nodes.blocks_with_deposits(number - 1, number, &watch).await.unwrap();
    assert!(again.contains(&(number, receipt.block_hash.unwrap())), "{again:?}");
}
