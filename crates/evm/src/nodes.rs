//! One chain, reached through several nodes.
//!
//! A question goes to the freshest healthy endpoint and moves on to the next when that one fails or is slow. Requests
//! use HTTP; a websocket only carries subscriptions, because requests and subscriptions on one socket cost 40 ms a
//! time.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::ChainId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use url::Url;

mod agreed;
mod asking;
mod hearing;
mod quorum_reads;
mod seconded;

pub use agreed::Wait;

use crate::calldata;
use crate::contracts::Multicall3;
use crate::contradictions::{Contradiction, Contradictions};
use crate::errors::{ChainError, Host, Refusal};
use crate::feed::Feed;
use crate::heads::Following;
use crate::node::{EndpointHealth, Node};
use crate::rpc::{Head, Header, HeardTx, Receipt};
use crate::watch::Watch;
use crate::watcher::{self, Block};

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

/// The nodes of one chain. Cheap to clone; the head tasks end when the last clone is dropped. Questions are boxed: the
/// body of an `async fn` is built again wherever it is awaited.
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
    contradictions: Arc<Contradictions>,
    /// The second hearing of nodes that differ about the state: one at a time.
    hearing: Arc<Semaphore>,
    /// The same for the logs of pools.
    pool_hearing: Arc<Semaphore>,
}

impl Nodes {
    /// Sends no request yet, so a node that is down does not keep the service from starting.
    pub fn new(chain: ChainId, endpoints: Vec<Endpoint>, timeout: Duration) -> Result<Self, ChainError> {
        if endpoints.is_empty() {
            return Err(ChainError::NoEndpoint(chain));
        }
        Self::with(chain, endpoints, timeout)
    }

    /// The nodes of a chain that has none: the venue's API stands in their place, and whatever asks them is refused.
    pub fn none(chain: ChainId) -> Result<Self, ChainError> {
        Self::with(chain, Vec::new(), Duration::from_secs(1))
    }

    fn with(chain: ChainId, endpoints: Vec<Endpoint>, timeout: Duration) -> Result<Self, ChainError> {
        let mut nodes = Vec::new();
        if !endpoints.is_empty() {
            let client = crate::http::node_client(timeout)?;
            let node = |Endpoint { http, ws }| Arc::new(Node::new(chain, http, ws, client.clone(), timeout));
            nodes.extend(endpoints.into_iter().map(node));
        }
        let feed = Arc::new(Feed::new(chain));
        let contradictions = Arc::new(Contradictions::new(chain, &nodes));
        let (hearing, pool_hearing) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
        let following = OnceLock::new();
        let inner = Inner { chain, nodes, feed, following, contradictions, hearing, pool_hearing };
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

    /// True for a chain without nodes, which only the venue is.
    pub fn is_empty(&self) -> bool {
        self.inner.nodes.is_empty()
    }

    pub fn health(&self) -> Vec<EndpointHealth> {
        self.inner.nodes.iter().map(|node| node.health()).collect()
    }

    /// The blocks about which nodes contradicted each other lately, newest first.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        self.inner.contradictions.recent()
    }

    /// The chain id that each endpoint reports, in the order of the configuration.
    pub fn chain_ids(&self) -> BoxFuture<'_, Vec<Result<u64, ChainError>>> {
        async move {
            let asked = self.inner.nodes.iter().map(|node| async { node.ask::<U256>("eth_chainId", ()).await });
            let answers = futures::future::join_all(asked).await;
            answers.into_iter().map(|answer| answer.map(|id| id.saturating_to())).collect()
        }
        .boxed()
    }

    /// The newest head any endpoint knows. Endpoints that fail are left out; slow ones are not waited for long.
    pub fn head(&self) -> BoxFuture<'_, Result<Head, ChainError>> {
        async move {
            let heads = self.ask_all(|node| async move { node.latest().await }).await?;
            Ok(heads.into_iter().max_by_key(|head| head.number).expect("ask_all gives at least one answer"))
        }
        .boxed()
    }

    /// The newest head, as it changes. The first call starts a task that follows every endpoint until the last clone of
    /// these nodes is dropped. Heads may be skipped, and one may be replaced by another of the same or a lower number:
    /// readers walk the parent hashes.
    pub fn heads(&self) -> watch::Receiver<Option<Head>> {
        let inner = &self.inner;
        inner.following.get_or_init(|| Following::start(&inner.nodes, &inner.feed, self.poll));
        inner.feed.subscribe()
    }

    /// The endpoint whose chain we follow showed blocks that most others replaced: for a while its heads are followed
    /// only where no other endpoint has any.
    pub fn distrust_leader(&self) {
        self.inner.feed.distrust_leader();
    }

    /// True if the newest head is of an endpoint that is distrusted: only blocks that most have lead on from here.
    pub fn is_head_distrusted(&self) -> bool {
        self.inner.feed.is_void()
    }

    /// Polls for heads now instead of at the next interval: subscribers hear of a new one at once.
    pub fn look(&self) -> BoxFuture<'_, ()> {
        async move {
            let asked = self.inner.nodes.iter().enumerate().map(|(index, node)| async move {
                if let Ok(head) = node.latest().await {
                    self.inner.feed.asked(index, head);
                }
            });
            futures::future::join_all(asked).await;
        }
        .boxed()
    }

    /// A transaction as an endpoint knows it, mined or pending; none when no endpoint that answered has heard of it.
    pub fn heard(&self, hash: B256) -> BoxFuture<'_, Result<Option<HeardTx>, ChainError>> {
        async move {
            self.first_known(move |node| async move { node.ask("eth_getTransactionByHash", (hash,)).await }).await
        }
        .boxed()
    }

    /// The header at a position; none when no endpoint that answered knows it.
    pub fn header(&self, at: At) -> BoxFuture<'_, Result<Option<Head>, ChainError>> {
        async move {
            self.first_known(move |node| async move {
                let header: Option<Header> = match at {
                    At::Hash(hash) => node.ask("eth_getBlockByHash", (hash, false)).await?,
                    at => node.ask("eth_getBlockByNumber", (at.param(), false)).await?,
                };
                Ok(header.map(|header| header.head()))
            })
            .await
        }
        .boxed()
    }

    /// The parts of a block that concern us; none when no endpoint that answered knows the block.
    /// Block and logs come from one endpoint, so that they cannot contradict each other.
    pub fn block_by_hash<'a>(
        &'a self,
        hash: B256,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Option<Block>, ChainError>> {
        async move { self.first_believed(|node| async move { watcher::read(&node, hash, watch).await }).await }.boxed()
    }

    /// The canonical block of that number at this moment, read by its hash.
    pub fn block_by_number<'a>(
        &'a self,
        number: u64,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Option<Block>, ChainError>> {
        async move {
            self.first_believed(|node| async move {
                let header: Option<Header> =
                    node.ask("eth_getBlockByNumber", (At::Number(number).param(), false)).await?;
                match header {
                    Some(header) => watcher::read(&node, header.head().hash, watch).await,
                    None => Ok(None),
                }
            })
            .await
        }
        .boxed()
    }

    /// The header of that number as every endpoint has it, in the order of the configuration.
    pub fn header_from_each(&self, number: u64) -> BoxFuture<'_, Vec<Result<Option<Head>, ChainError>>> {
        async move {
            let asked = self.inner.nodes.iter().map(|node| async move {
                let header =
                    node.ask::<Option<Header>>("eth_getBlockByNumber", (At::Number(number).param(), false)).await?;
                Ok(header.map(|header| header.head()))
            });
            futures::future::join_all(asked).await
        }
        .boxed()
    }

    /// The same block from every endpoint, in the order of the configuration: for reads that need several to agree.
    pub fn block_from_each<'a>(
        &'a self,
        hash: B256,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Vec<Result<Option<Block>, ChainError>>> {
        async move {
            let asked = self.inner.nodes.iter().map(|node| async move {
                let read = watcher::read(node, hash, watch).await?;
                Ok(read.map(|read| read.block))
            });
            futures::future::join_all(asked).await
        }
        .boxed()
    }

    /// The highest nonce any endpoint knows: one that lags must not make a used nonce look free.
    pub fn nonce(&self, who: Address, tag: NonceTag) -> BoxFuture<'_, Result<u64, ChainError>> {
        async move {
            let tag = match tag {
                NonceTag::Latest => "latest",
                NonceTag::Pending => "pending",
            };
            let answers = self
                .ask_all(|node| async move { node.ask::<U256>("eth_getTransactionCount", (who, tag)).await })
                .await?;
            Ok(answers.into_iter().max().unwrap_or_default().saturating_to())
        }
        .boxed()
    }

    /// The nonces of a wallet that each endpoint which answers knows to be used, those of its mempool included.
    pub fn used_nonces(&self, who: Address) -> BoxFuture<'_, Result<Vec<u64>, ChainError>> {
        async move {
            let answers = self.ask_all(|node| async move {
                let (mined, pending): (U256, U256) = tokio::try_join!(
                    node.ask("eth_getTransactionCount", (who, "latest")),
                    node.ask("eth_getTransactionCount", (who, "pending")),
                )?;
                Ok(mined.max(pending).saturating_to())
            });
            answers.await
        }
        .boxed()
    }

    pub fn balance(&self, who: Address, at: At) -> BoxFuture<'_, Result<U256, ChainError>> {
        async move { self.first(|node| async move { node.ask("eth_getBalance", (who, at.param())).await }).await }
            .boxed()
    }

    pub fn code(&self, who: Address, at: At) -> BoxFuture<'_, Result<Bytes, ChainError>> {
        async move { self.first(|node| async move { node.ask("eth_getCode", (who, at.param())).await }).await }.boxed()
    }

    pub fn call(&self, to: Address, data: Bytes, at: At) -> BoxFuture<'_, Result<Bytes, ChainError>> {
        async move {
            let call = &json!({ "to": to, "input": data });
            self.first(|node| async move { node.ask("eth_call", (call, at.param())).await }).await
        }
        .boxed()
    }

    /// Simulates a transaction and returns its output; a revert is an error.
    pub fn simulate(
        &self,
        from: Address,
        to: Address,
        value: U256,
        data: Bytes,
        at: At,
    ) -> BoxFuture<'_, Result<Bytes, ChainError>> {
        async move {
            let call = &json!({ "from": from, "to": to, "value": value, "input": data });
            self.first(|node| async move { node.ask("eth_call", (call, at.param())).await }).await
        }
        .boxed()
    }

    pub fn estimate_gas(&self, attempt: Attempt) -> BoxFuture<'_, Result<u64, ChainError>> {
        async move {
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
        .boxed()
    }

    /// The priority fee that a node suggests.
    pub fn priority_fee(&self) -> BoxFuture<'_, Result<u128, ChainError>> {
        async move {
            let fee: U256 = self.first(|node| async move { node.ask("eth_maxPriorityFeePerGas", ()).await }).await?;
            Ok(fee.saturating_to())
        }
        .boxed()
    }

    /// None when no endpoint that answered knows the receipt, which does not prove that the transaction was never
    /// mined.
    pub fn receipt(&self, hash: B256) -> BoxFuture<'_, Result<Option<Receipt>, ChainError>> {
        async move {
            self.first_known(move |node| async move { node.ask("eth_getTransactionReceipt", (hash,)).await }).await
        }
        .boxed()
    }

    /// Several reads at one block in one request. The outer error is the request's; the inner ones are single calls
    /// that reverted, with their data.
    pub fn aggregate<'a>(
        &'a self,
        multicall3: Address,
        calls: &'a [(Address, Bytes)],
        at: At,
    ) -> BoxFuture<'a, Result<Vec<Result<Bytes, Refusal>>, ChainError>> {
        async move {
            if calls.is_empty() {
                return Ok(Vec::new());
            }
            results(&self.call(multicall3, calldata::aggregate(calls), at).await?, calls.len())
        }
        .boxed()
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.inner.nodes
    }
}

/// The results of so many calls in one request.
fn results(answer: &[u8], calls: usize) -> Result<Vec<Result<Bytes, Refusal>>, ChainError> {
    let results =
        Multicall3::aggregate3Call::abi_decode_returns(answer).map_err(|_| ChainError::Undecodable("aggregate3"))?;
    if results.len() != calls {
        return Err(ChainError::Undecodable("aggregate3"));
    }
    let read = |result: Multicall3::Result| match result.success {
        true => Ok(result.returnData),
        false => Err(Refusal::Reverted(result.returnData)),
    };
    Ok(results.into_iter().map(read).collect())
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("chain", &self.inner.chain).field("nodes", &self.inner.nodes).finish()
    }
}
