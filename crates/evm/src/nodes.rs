//! One chain, reached through several nodes.
//!
//! A question goes to the freshest healthy endpoint and moves on to the next when that one fails or is slow. Requests
//! use HTTP; a websocket only carries subscriptions, because requests and subscriptions on one socket cost 40 ms a
//! time.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::ChainId;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::watch;
use url::Url;

use crate::calldata;
use crate::contracts::Multicall3;
use crate::errors::{ChainError, Host, Refusal};
use crate::heads::{Feed, Following};
use crate::node::{EndpointHealth, Node};
use crate::rpc::{Head, Header, HeardTx, Receipt};
use crate::watch::Watch;
use crate::watcher::{self, Block, Read};

/// The URLs of a node. Printed by host only: paths and queries hold keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub http: Url,
    pub ws: Option<Url>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &Host::of(&self.http)).field("ws", &self.ws.is_some()).finish()
    }
}

/// The block whose state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Latest,
    Pending,
    /// The block that the chain itself calls final.
    Finalized,
    Number(u64),
    Hash(B256),
}

impl At {
    pub(crate) fn param(self) -> Value {
        match self {
            Self::Latest => json!("latest"),
            Self::Pending => json!("pending"),
            Self::Finalized => json!("finalized"),
            Self::Number(number) => json!(format!("{number:#x}")),
            Self::Hash(hash) => json!({ "blockHash": hash }),
        }
    }
}

/// A transaction whose gas is estimated without sending it.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub data: Bytes,
    /// The maximum fee per gas that it would offer; none makes gas free.
    pub max_fee: Option<u128>,
    /// The gas limit; none leaves it to the node.
    pub gas: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceTag {
    Latest,
    Pending,
}

/// The nodes of one chain. Cheap to clone; the head tasks end when the last clone is dropped.
#[derive(Clone)]
pub struct Nodes {
    inner: Arc<Inner>,
    poll: Duration,
}

struct Inner {
    chain: ChainId,
    nodes: Vec<Arc<Node>>,
    feed: Arc<Feed>,
    following: OnceLock<Following>,
}

impl Nodes {
    /// Sends no request yet, so a node that is down does not keep the service from starting.
    pub fn new(chain: ChainId, endpoints: Vec<Endpoint>, timeout: Duration) -> Result<Self, ChainError> {
        if endpoints.is_empty() {
            return Err(ChainError::NoEndpoint(chain));
        }
        // No redirects and no proxy from the environment: signed transactions go where the configuration says.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(timeout)
            .pool_idle_timeout(Duration::from_secs(60))
            .build()
            .map_err(|error| ChainError::Client(error.without_url().to_string()))?;
        let nodes: Vec<_> = endpoints
            .into_iter()
            .map(|Endpoint { http, ws }| Arc::new(Node::new(chain, http, ws, client.clone(), timeout)))
            .collect();
        let feed = Arc::new(Feed::new(chain));
        let inner = Inner { chain, nodes, feed, following: OnceLock::new() };
        Ok(Self { inner: Arc::new(inner), poll: Duration::from_secs(1) })
    }

    /// Sets how often heads are polled where no websocket pushes them; one second by default.
    /// Applies to the clone on which [`Nodes::heads`] is called first.
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    pub fn chain(&self) -> ChainId {
        self.inner.chain
    }

    pub fn len(&self) -> usize {
        self.inner.nodes.len()
    }

    /// Always false: a chain without endpoints cannot be constructed.
    pub fn is_empty(&self) -> bool {
        self.inner.nodes.is_empty()
    }

    pub fn health(&self) -> Vec<EndpointHealth> {
        self.inner.nodes.iter().map(|node| node.health()).collect()
    }

    /// The chain id that each endpoint reports, in the order of the configuration.
    pub async fn chain_ids(&self) -> Vec<Result<u64, ChainError>> {
        let asked = self.inner.nodes.iter().map(|node| async { node.ask::<U256>("eth_chainId", ()).await });
        let answers = futures::future::join_all(asked).await;
        answers.into_iter().map(|answer| answer.map(|id| id.saturating_to())).collect()
    }

    /// The newest head any endpoint knows. Endpoints that fail are left out; slow ones are not waited for long.
    pub async fn head(&self) -> Result<Head, ChainError> {
        let heads = self.ask_all(|node| async move { node.latest().await }).await?;
        Ok(heads.into_iter().max_by_key(|head| head.number).expect("ask_all gives at least one answer"))
    }

    /// The newest head, as it changes. The first call starts a task that follows every endpoint until the last clone of
    /// these nodes is dropped. Heads may be skipped, and one may be replaced by another of the same or a lower number:
    /// readers walk the parent hashes.
    pub fn heads(&self) -> watch::Receiver<Option<Head>> {
        let inner = &self.inner;
        inner.following.get_or_init(|| Following::start(&inner.nodes, &inner.feed, self.poll));
        inner.feed.subscribe()
    }

    /// Polls for heads now instead of at the next interval: subscribers hear of a new one at once.
    pub async fn look(&self) {
        let asked = self.inner.nodes.iter().enumerate().map(|(index, node)| async move {
            if let Ok(head) = node.latest().await {
                self.inner.feed.asked(index, head);
            }
        });
        futures::future::join_all(asked).await;
    }

    /// A transaction as an endpoint knows it, mined or pending; none when no endpoint that answered has heard of it.
    pub async fn heard(&self, hash: B256) -> Result<Option<HeardTx>, ChainError> {
        self.first_known(move |node| async move { node.ask("eth_getTransactionByHash", (hash,)).await }).await
    }

    /// The header at a position; none when no endpoint that answered knows it.
    pub async fn header(&self, at: At) -> Result<Option<Head>, ChainError> {
        self.first_known(move |node| async move {
            let header: Option<Header> = match at {
                At::Hash(hash) => node.ask("eth_getBlockByHash", (hash, false)).await?,
                at => node.ask("eth_getBlockByNumber", (at.param(), false)).await?,
            };
            Ok(header.map(|header| header.head()))
        })
        .await
    }

    /// The parts of a block that concern us; none when no endpoint that answered knows the block.
    /// Block and logs come from one endpoint, so that they cannot contradict each other.
    pub async fn block_by_hash(&self, hash: B256, watch: &Watch) -> Result<Option<Block>, ChainError> {
        self.first_believed(|node| async move { watcher::read(&node, hash, watch).await }).await
    }

    /// The canonical block of that number at this moment, read by its hash.
    pub async fn block_by_number(&self, number: u64, watch: &Watch) -> Result<Option<Block>, ChainError> {
        self.first_believed(|node| async move {
            let header: Option<Header> = node.ask("eth_getBlockByNumber", (At::Number(number).param(), false)).await?;
            match header {
                Some(header) => watcher::read(&node, header.head().hash, watch).await,
                None => Ok(None),
            }
        })
        .await
    }

    /// The block of that number whose parent is the given one; none when no endpoint that answered has both.
    pub async fn block_on(&self, parent: B256, number: u64, watch: &Watch) -> Result<Option<Block>, ChainError> {
        self.first_believed(|node| async move {
            let header: Option<Header> = node.ask("eth_getBlockByNumber", (At::Number(number).param(), false)).await?;
            match header.map(|header| header.head()) {
                Some(head) if head.parent_hash == parent => watcher::read(&node, head.hash, watch).await,
                Some(_) | None => Ok(None),
            }
        })
        .await
    }

    /// The header of that number as every endpoint has it, in the order of the configuration.
    pub async fn header_from_each(&self, number: u64) -> Vec<Result<Option<Head>, ChainError>> {
        let asked = self.inner.nodes.iter().map(|node| async move {
            let header =
                node.ask::<Option<Header>>("eth_getBlockByNumber", (At::Number(number).param(), false)).await?;
            Ok(header.map(|header| header.head()))
        });
        futures::future::join_all(asked).await
    }

    /// The same block from every endpoint, in the order of the configuration: for reads that need several to agree.
    pub async fn block_from_each(&self, hash: B256, watch: &Watch) -> Vec<Result<Option<Block>, ChainError>> {
        let asked = self.inner.nodes.iter().map(|node| async move {
            let read = watcher::read(node, hash, watch).await?;
            Ok(read.map(|read| read.block))
        });
        futures::future::join_all(asked).await
    }

    /// The highest nonce any endpoint knows: one that lags must not make a used nonce look free.
    pub async fn nonce(&self, who: Address, tag: NonceTag) -> Result<u64, ChainError> {
        let tag = match tag {
            NonceTag::Latest => "latest",
            NonceTag::Pending => "pending",
        };
        let answers =
            self.ask_all(|node| async move { node.ask::<U256>("eth_getTransactionCount", (who, tag)).await }).await?;
        Ok(answers.into_iter().max().unwrap_or_default().saturating_to())
    }

    pub async fn balance(&self, who: Address, at: At) -> Result<U256, ChainError> {
        self.first(|node| async move { node.ask("eth_getBalance", (who, at.param())).await }).await
    }

    pub async fn code(&self, who: Address, at: At) -> Result<Bytes, ChainError> {
        self.first(|node| async move { node.ask("eth_getCode", (who, at.param())).await }).await
    }

    pub async fn call(&self, to: Address, data: Bytes, at: At) -> Result<Bytes, ChainError> {
        let call = &json!({ "to": to, "input": data });
        self.first(|node| async move { node.ask("eth_call", (call, at.param())).await }).await
    }

    /// Simulates a transaction and returns its output; a revert is an error.
    pub async fn simulate(
        &self,
        from: Address,
        to: Address,
        value: U256,
        data: Bytes,
        at: At,
    ) -> Result<Bytes, ChainError> {
        let call = &json!({ "from": from, "to": to, "value": value, "input": data });
        self.first(|node| async move { node.ask("eth_call", (call, at.param())).await }).await
    }

    pub async fn estimate_gas(&self, attempt: Attempt) -> Result<u64, ChainError> {
        let Attempt { from, to, value, data, max_fee, gas } = attempt;
        let mut call = json!({ "from": from, "to": to, "value": value, "input": data });
        if let Some(max_fee) = max_fee {
            call["maxFeePerGas"] = json!(U256::from(max_fee));
        }
        if let Some(gas) = gas {
            call["gas"] = json!(U256::from(gas));
        }
        let call = &call;
        let gas: U256 = self.first(|node| async move { node.ask("eth_estimateGas", (call,)).await }).await?;
        Ok(gas.saturating_to())
    }

    /// The priority fee that a node suggests.
    pub async fn priority_fee(&self) -> Result<u128, ChainError> {
        let fee: U256 = self.first(|node| async move { node.ask("eth_maxPriorityFeePerGas", ()).await }).await?;
        Ok(fee.saturating_to())
    }

    /// None when no endpoint that answered knows the receipt, which does not prove that the transaction was never
    /// mined.
    pub async fn receipt(&self, hash: B256) -> Result<Option<Receipt>, ChainError> {
        self.first_known(move |node| async move { node.ask("eth_getTransactionReceipt", (hash,)).await }).await
    }

    /// Several reads at one block in one request. The outer error is the request's; the inner ones are single calls
    /// that reverted, with their data.
    pub async fn aggregate(
        &self,
        multicall3: Address,
        calls: &[(Address, Bytes)],
        at: At,
    ) -> Result<Vec<Result<Bytes, Refusal>>, ChainError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.call(multicall3, calldata::aggregate(calls), at).await?;
        let results = Multicall3::aggregate3Call::abi_decode_returns(&answer)
            .map_err(|_| ChainError::Undecodable("aggregate3"))?;
        if results.len() != calls.len() {
            return Err(ChainError::Undecodable("aggregate3"));
        }
        let read = |result: Multicall3::Result| match result.success {
            true => Ok(result.returnData),
            false => Err(Refusal::Reverted(result.returnData)),
        };
        Ok(results.into_iter().map(read).collect())
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.inner.nodes
    }

    /// Endpoints in the order to ask them: healthy before failing, fresh before lagging, the one whose chain we follow
    /// before others, then as configured.
    fn ranked(&self) -> Vec<Arc<Node>> {
        let newest = self.inner.nodes.iter().filter_map(|node| node.last_head()).map(|head| head.number).max();
        let behind = |node: &Node| match (newest, node.last_head()) {
            (Some(newest), Some(head)) => newest - head.number.min(newest),
            // An endpoint that has not told us its head may be anywhere.
            (Some(_), None) => 1,
            (None, _) => 0,
        };
        let leader = self.inner.feed.leader();
        let mut ranked: Vec<_> = self.inner.nodes.iter().enumerate().collect();
        ranked.sort_by_cached_key(|(index, node)| (node.is_failing(), behind(node), leader != Some(*index)));
        ranked.into_iter().map(|(_, node)| node.clone()).collect()
    }

    async fn first<T, F, Fut>(&self, ask: F) -> Result<T, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<T, ChainError>>,
    {
        let answer = self.first_known(|node| {
            let asked = ask(node);
            async move { asked.await.map(Some) }
        });
        answer.await.map(|known| known.expect("this question has no empty answer"))
    }

    /// A block that seems to lack logs is used only when no other endpoint shows a better one.
    async fn first_believed<F, Fut>(&self, read: F) -> Result<Option<Block>, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<Option<Read>, ChainError>>,
    {
        let doubted = &Mutex::new(None);
        let answer = self.first_known(|node| {
            let reading = read(node);
            async move {
                Ok(reading.await?.and_then(|Read { block, doubtful }| match doubtful {
                    true => {
                        *doubted.lock().expect("nothing panics here") = Some(block);
                        None
                    }
                    false => Some(block),
                }))
            }
        });
        let answer = answer.await;
        match doubted.lock().expect("nothing panics here").take() {
            Some(doubted) if !matches!(answer, Ok(Some(_))) => Ok(Some(doubted)),
            _ => answer,
        }
    }

    /// Asks one endpoint after the other until one knows the answer. The next is asked when one fails, does not know,
    /// or takes too long; the slow one may still win.
    pub(crate) async fn first_known<T, F, Fut>(&self, ask: F) -> Result<Option<T>, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<Option<T>, ChainError>>,
    {
        let patience = self.inner.nodes[0].patience();
        let mut left = self.ranked().into_iter();
        let mut asked = FuturesUnordered::new();
        let mut unknown = false;
        let mut worst = ChainError::NoEndpoint(self.inner.chain);
        loop {
            if let Some(node) = left.next() {
                asked.push(ask(node));
            } else if asked.is_empty() {
                return if unknown { Ok(None) } else { Err(worst) };
            }
            let more = left.len() > 0;
            tokio::select! {
                Some(answer) = asked.next() => match answer {
                    Ok(Some(known)) => return Ok(Some(known)),
                    Ok(None) => unknown = true,
                    Err(error) if error.is_conclusive() => return Err(error),
                    // A node's refusal says more than another node's outage.
                    Err(error) if worst.refusal().is_none() => worst = error,
                    Err(_) => {}
                },
                () = tokio::time::sleep(patience), if more => {}
            }
        }
    }

    /// Asks every endpoint at once. After the first answer, the others get only a little longer.
    pub(crate) async fn ask_all<T, F, Fut>(&self, ask: F) -> Result<Vec<T>, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<T, ChainError>>,
    {
        let mut asked: FuturesUnordered<_> = self.inner.nodes.iter().cloned().map(ask).collect();
        let patience = self.inner.nodes[0].patience();
        let mut answers = Vec::with_capacity(self.len());
        let mut worst = ChainError::NoEndpoint(self.inner.chain);
        loop {
            let waiting = !answers.is_empty();
            tokio::select! {
                answer = asked.next() => match answer {
                    Some(Ok(answer)) => answers.push(answer),
                    Some(Err(error)) => worst = error,
                    None => break,
                },
                () = tokio::time::sleep(patience), if waiting => break,
            }
        }
        if answers.is_empty() { Err(worst) } else { Ok(answers) }
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("chain", &self.inner.chain).field("nodes", &self.inner.nodes).finish()
    }
}
