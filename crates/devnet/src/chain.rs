//! One chain of the devnet, as tests and the service see it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::consensus::TxEip1559;
use alloy::rpc::types::TransactionReceipt;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::SolCall;
use alloy_primitives::{Address, B256, Bytes, I256, TxKind, U256};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use url::Url;

use crate::deploy::{Contracts, Feed};
use crate::faults::Faults;
use crate::keys::Account;
use crate::mining::Miner;
use crate::rpc::Rpc;
use crate::stage;
use crate::tokens::{Erc20, Token, ether, units};

/// Longer than any pause of a test; a transaction not mined by then never will be.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(60);
/// In wei.
const TIP: u128 = 1_000_000;
/// The difference between writing two slots that hold nothing yet and two that do.
const GAS_OF_TWO_NEW_SLOTS: u64 = 2 * 17_100;

#[derive(Clone, Debug, Serialize)]
pub struct Chain {
    pub id: u64,
    pub name: String,
    pub rpc_url: Url,
    pub ws_url: Url,
    /// The same chain through a proxy that can be told to misbehave.
    pub second_rpc_url: Url,
    pub second_ws_url: Url,
    #[serde(skip)]
    pub faults: Faults,
    pub contracts: Contracts,
    pub tokens: Vec<Token>,
    /// The price of the native currency in USD with 8 decimals.
    pub native_feed: Address,
    /// The last block of the deployment: watching from here misses nothing.
    pub start_block: u64,
    pub block_time: Duration,
    #[serde(skip)]
    pub(crate) rpc: Rpc,
    #[serde(skip)]
    pub(crate) miner: Miner,
    #[serde(skip)]
    pub(crate) deployer: Account,
    /// Held from reading a nonce to sending with it.
    #[serde(skip)]
    pub(crate) sending: Arc<Mutex<()>>,
}

impl Chain {
    /// Panics for a token that does not exist: the list is fixed.
    pub fn token(&self, symbol: &str) -> &Token {
        let token = self.tokens.iter().find(|t| t.symbol == symbol);
        token.unwrap_or_else(|| panic!("there is no token {symbol} on the devnet"))
    }

    /// Calls the node directly, its own methods included.
    pub async fn rpc<T: serde::de::DeserializeOwned>(&self, method: &str, params: impl Serialize) -> Result<T> {
        self.rpc.call(method, params).await
    }

    pub async fn block_number(&self) -> Result<u64> {
        Ok(self.rpc::<U256>("eth_blockNumber", json!([])).await?.to())
    }

    pub async fn read<C: SolCall>(&self, to: Address, call: &C) -> Result<C::Return> {
        stage::read(&self.rpc, to, call).await
    }

    /// The balance of a token, or of the native currency for the zero address, by the newest state there is.
    pub async fn balance(&self, currency: Address, who: Address) -> Result<U256> {
        let _still = self.miner.between_blocks().await;
        match currency {
            Address::ZERO => self.rpc("eth_getBalance", (who, "latest")).await,
            token => self.read(token, &Erc20::balanceOfCall { account: who }).await,
        }
    }

    // Mining.

    pub async fn mine(&self, blocks: u64) -> Result<()> {
        self.miner.mine(blocks).await
    }

    /// The chain stands still once this returns, until `resume_mining`; `mine` still works.
    pub async fn pause_mining(&self) {
        self.miner.pause(true).await;
    }

    pub async fn resume_mining(&self) {
        self.miner.pause(false).await;
    }

    /// Sets the base fee of every block from the next one on.
    pub fn set_base_fee(&self, wei: u64) {
        self.miner.set_base_fee(wei);
    }

    /// Replaces the last `depth` blocks by as many others, which hold only the given transactions: pairs of signed
    /// bytes and a block, counted from 0. A reorg cannot reach back beyond the start of this process, and undoes state
    /// set without a transaction (`fresh_user`, `set_balance`) in the blocks it replaces.
    pub async fn reorg(&self, depth: u64, transactions: &[(Bytes, u64)]) -> Result<()> {
        self.miner.reorg(depth, json!(transactions)).await
    }

    /// Moves the chain's clock forward, from the next block on, which is mined at once.
    pub async fn advance_time(&self, by: Duration) -> Result<()> {
        self.rpc::<Value>("evm_increaseTime", [by.as_secs()]).await?;
        self.mine(1).await
    }

    // Accounts and transactions.

    /// Makes an address a contract, for recipients that behave oddly.
    pub async fn set_code(&self, at: Address, code: Bytes) -> Result<()> {
        self.rpc::<Value>("anvil_setCode", (at, code)).await?;
        Ok(())
    }

    pub async fn set_balance(&self, who: Address, wei: U256) -> Result<()> {
        self.rpc::<Value>("anvil_setBalance", (who, wei)).await?;
        Ok(())
    }

    /// Sets a token balance without a transaction or an event, and waits a moment until it shows: a busy node may
    /// answer from the state before. Where the owner spends at the same time it may never show.
    pub async fn set_token_balance(&self, token: Address, who: Address, amount: U256) -> Result<()> {
        self.rpc::<Value>("anvil_dealERC20", (who, token, amount)).await?;
        for _ in 0..20 {
            if self.balance(token, who).await? == amount {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Ok(())
    }

    /// A new account with 100 native, 10,000 of each stablecoin and of the long-tail token; at once, also while mining
    /// is paused.
    pub async fn fresh_user(&self) -> Result<Account> {
        let user = Account::new(PrivateKeySigner::random().to_bytes());
        self.fund(user.address).await?;
        Ok(user)
    }

    /// Gives an existing account the funds of a `fresh_user`: the same user on a second chain.
    pub async fn fund(&self, who: Address) -> Result<()> {
        self.set_balance(who, ether(100)).await?;
        for token in self.tokens.iter().filter(|t| t.symbol != "WETH") {
            self.set_token_balance(token.address, who, units(10_000, token.decimals)).await?;
        }
        Ok(())
    }

    /// Signs and sends with the next nonce and waits until the transaction is mined; fails if it would revert. Callers
    /// in one process may use one key at the same time.
    pub async fn send(&self, key: B256, to: Address, value: U256, data: Bytes) -> Result<TransactionReceipt> {
        let hash = self.submit(key, to, value, data).await?;
        self.receipt(hash).await
    }

    pub async fn call(&self, key: B256, to: Address, call: &impl SolCall) -> Result<TransactionReceipt> {
        self.send(key, to, U256::ZERO, call.abi_encode().into()).await
    }

    /// Sends calls of one key in this order and waits for all of them: they share a block or two.
    pub async fn send_all(
        &self,
        key: B256,
        calls: impl IntoIterator<Item = (Address, Bytes)>,
    ) -> Result<Vec<TransactionReceipt>> {
        let mut hashes = vec![];
        for (to, data) in calls {
            hashes.push(self.submit(key, to, U256::ZERO, data).await?);
        }
        let mut receipts = vec![];
        for hash in hashes {
            receipts.push(self.receipt(hash).await?);
        }
        Ok(receipts)
    }

    /// Like `send`, without waiting.
    pub async fn submit(&self, key: B256, to: Address, value: U256, data: Bytes) -> Result<B256> {
        let from = Account::new(key);
        let request = json!({"from": from.address, "to": to, "value": value, "data": data});
        let gas: U256 = self.rpc("eth_estimateGas", json!([request, "pending"])).await?;
        // State may move before the transaction is mined: a balance that was there is gone, and writing it costs more.
        self.submit_with(key, to, value, data, gas.to::<u64>() * 13 / 10 + GAS_OF_TWO_NEW_SLOTS).await
    }

    /// Like `submit`, also for transactions that will revert.
    pub async fn submit_with(&self, key: B256, to: Address, value: U256, data: Bytes, gas_limit: u64) -> Result<B256> {
        let from = Account::new(key);
        let _turn = self.sending.lock().await;
        let nonce: U256 = self.rpc("eth_getTransactionCount", (from.address, "pending")).await?;
        let price: U256 = self.rpc("eth_gasPrice", json!([])).await?;
        let tx = TxEip1559 {
            chain_id: self.id,
            nonce: nonce.to(),
            gas_limit,
            max_fee_per_gas: price.to::<u128>() * 3,
            max_priority_fee_per_gas: TIP,
            to: TxKind::Call(to),
            value,
            access_list: Default::default(),
            input: data,
        };
        self.rpc("eth_sendRawTransaction", [stage::sign(tx, &from)?]).await
    }

    /// Signs with a nonce of the caller's choice and sends nothing. The transaction offers enough for any block.
    pub fn sign(&self, from: &Account, nonce: u64, call: (Address, U256, Bytes), gas_limit: u64) -> Result<Bytes> {
        self.sign_tipping(from, nonce, call, gas_limit, TIP)
    }

    /// The same with a tip of the caller's choice, at most a gwei: blocks have the highest first. The node drops a
    /// transaction whose tip is higher than that of the sender's one before it in the same block.
    pub fn sign_tipping(
        &self,
        from: &Account,
        nonce: u64,
        call: (Address, U256, Bytes),
        gas_limit: u64,
        tip: u128,
    ) -> Result<Bytes> {
        let (to, value, input) = call;
        let tx = TxEip1559 {
            chain_id: self.id,
            nonce,
            gas_limit,
            max_fee_per_gas: u128::from(crate::mining::BASE_FEE) * 100,
            max_priority_fee_per_gas: tip,
            to: TxKind::Call(to),
            value,
            access_list: Default::default(),
            input,
        };
        stage::sign(tx, from)
    }

    /// Hands signed bytes to the node. A node that has them already is no error.
    pub async fn send_raw(&self, raw: &Bytes) -> Result<B256> {
        let sent = self.rpc("eth_sendRawTransaction", [raw]).await;
        let known = |error: &anyhow::Error| format!("{error:#}").contains("already");
        match sent {
            Err(error) if known(&error) => Ok(alloy_primitives::keccak256(raw)),
            sent => sent,
        }
    }

    /// Several calls in one request, in this order; all are made, the first error is returned.
    pub async fn batch(&self, calls: impl IntoIterator<Item = (&str, Value)>) -> Result<Vec<Value>> {
        self.rpc.batch(calls).await
    }

    /// Waits for a transaction to be mined, with success.
    pub async fn receipt(&self, hash: B256) -> Result<TransactionReceipt> {
        let began = Instant::now();
        loop {
            if let Some(receipt) = self.rpc::<Option<TransactionReceipt>>("eth_getTransactionReceipt", [hash]).await? {
                ensure!(receipt.status(), "transaction {hash} reverted and used {} gas", receipt.gas_used);
                return Ok(receipt);
            }
            if began.elapsed() > RECEIPT_TIMEOUT {
                bail!(
                    "transaction {hash} was not mined within {RECEIPT_TIMEOUT:?}; is mining paused on {}?",
                    self.name
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    // Prices.

    /// Sets a feed, in USD with 8 decimals. `ETH` and `WETH` share one.
    pub async fn set_price(&self, symbol: &str, answer: i64) -> Result<()> {
        let call = Feed::setAnswerCall { answer: I256::try_from(answer)? };
        self.call(self.deployer.private_key, self.feed(symbol)?, &call).await?;
        Ok(())
    }

    /// Like `set_price`, without waiting.
    pub async fn submit_price(&self, symbol: &str, answer: i64) -> Result<B256> {
        let call = Feed::setAnswerCall { answer: I256::try_from(answer)? };
        self.submit(self.deployer.private_key, self.feed(symbol)?, U256::ZERO, call.abi_encode().into()).await
    }

    /// Makes a feed claim this time for its answer; 0 makes it fresh again.
    pub async fn freeze_price(&self, symbol: &str, unix_seconds: u64) -> Result<()> {
        let call = Feed::setFrozenAtCall { timestamp: U256::from(unix_seconds) };
        self.call(self.deployer.private_key, self.feed(symbol)?, &call).await?;
        Ok(())
    }

    fn feed(&self, symbol: &str) -> Result<Address> {
        match symbol {
            "ETH" => Ok(self.native_feed),
            _ => self.token(symbol).feed.with_context(|| format!("{symbol} has no feed")),
        }
    }
}
