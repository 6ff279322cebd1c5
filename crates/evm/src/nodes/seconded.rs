//! The state at a block, as two nodes show it.
//!
//! Prices, pools and balances decide what is paid as much as deposits do, so the word of one node is not enough for
//! them either. A call at a block's hash has one answer: two nodes have to give the same, and the same header with it.
//! Both are asked at once, so that it costs the slower of the two; a third is asked when one of them fails, lags, is
//! slow or differs.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::hearing::Count;
use super::{At, Nodes, results};
use crate::calldata;
use crate::contradictions::STATE;
use crate::errors::{ChainError, Refusal};
use crate::node::Node;
use crate::rpc::{Head, Header};

const CALL: &str = "eth_call";

/// The block's header, where two nodes have shown it, and the outcome of each call.
type Seconded = (Option<Head>, Vec<Result<Bytes, Refusal>>);

impl Nodes {
    /// Several reads at one block, as two nodes show them, and the block's header by the same two. With a single node
    /// they are its word, and no header is asked for.
    pub fn seconded_aggregate<'a>(
        &'a self,
        multicall3: Address,
        calls: &'a [(Address, Bytes)],
        at: B256,
    ) -> BoxFuture<'a, Result<Seconded, ChainError>> {
        async move {
            if self.len() < 2 {
                return Ok((None, self.aggregate(multicall3, calls, At::Hash(at)).await?));
            }
            if calls.is_empty() {
                return Ok((None, Vec::new()));
            }
            let shown = self.seconded(Question::new(multicall3, &calldata::aggregate(calls), at)).await?;
            let output = shown.output.ok_or(ChainError::Undecodable("aggregate3"))?;
            Ok((Some(shown.head), results(&output, calls.len())?))
        }
        .boxed()
    }

    /// The output of a call at a block, as two nodes show it, or the only one there is; none if it reverts.
    pub fn seconded_call(
        &self,
        to: Address,
        data: Bytes,
        at: B256,
    ) -> BoxFuture<'_, Result<Option<Bytes>, ChainError>> {
        async move {
            if self.len() < 2 {
                return unless_reverted(self.call(to, data, At::Hash(at)).await);
            }
            Ok(self.seconded(Question::new(to, &data, at)).await?.output)
        }
        .boxed()
    }

    async fn seconded(&self, question: Question) -> Result<Shown, ChainError> {
        let question = Arc::new(question);
        let mut reads = self.quorum_reads(|node| question.ask(node));
        let mut count = Count::default();
        while let Some((place, shown)) = reads.next().await {
            count.add(place, shown);
            if let Some(shown) = count.agreed(self.len()).cloned() {
                self.doubt_others(&count, &shown, &question);
                return Ok(shown);
            }
            if count.is_disputed() {
                reads.ask_another();
            }
        }
        if count.is_disputed() {
            self.ask_again(&question);
            return Err(ChainError::NotSeconded(self.chain()));
        }
        Err(reads.error(self))
    }

    /// Those that differ from what was agreed are asked last for a while.
    fn doubt_others(&self, count: &Count<Shown>, agreed: &Shown, question: &Arc<Question>) {
        if !count.is_disputed() {
            return;
        }
        for place in count.others_than(agreed) {
            let node = &self.inner.nodes[place];
            let (host, reason) = (node.host.clone(), "an answer that two other nodes contradict");
            node.failed(CALL, &ChainError::Inconsistent { host, method: CALL, block: question.at, reason });
        }
        self.ask_again(question);
    }

    fn ask_again(&self, question: &Arc<Question>) {
        let asked = question.clone();
        let ask = move |node: Arc<Node>| {
            let question = asked.clone();
            async move { question.ask(&node).await }
        };
        self.hear_again((STATE, question.at), ask, |shown: &Shown| shown.head.number);
    }
}

/// A call at a block.
struct Question {
    at: B256,
    /// The whole request, the same for every node: written once.
    request: Bytes,
}

/// A node's answer. There is no output if the call reverts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    head: Head,
    output: Option<Bytes>,
}

impl Question {
    /// The request is put together from hex, a quarter of a megabyte of it for some. As text in a value, `serde_json`
    /// would look at every digit for one to escape.
    fn new(to: Address, data: &Bytes, at: B256) -> Self {
        let call = format!(r#"{{"to":"{to}","input":"{data}"}}"#);
        let block = At::Hash(at).param();
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{CALL}","params":[{call},{block}]}}"#);
        Self { at, request: request.into_bytes().into() }
    }

    /// None if the node does not know the block.
    async fn ask(&self, node: &Node) -> Result<Option<Shown>, ChainError> {
        let (header, output) = tokio::join!(
            node.ask::<Option<Header>>("eth_getBlockByHash", (self.at, false)),
            node.ask_in::<Bytes>(CALL, self.request.clone()),
        );
        let Some(header) = header? else { return Ok(None) };
        if matches!(&output, Err(error) if error.refusal() == Some(&Refusal::UnknownBlock)) {
            return Ok(None);
        }
        let head = header.head();
        if head.hash != self.at {
            let (host, method, reason) = (node.host.clone(), "eth_getBlockByHash", "another block");
            return Err(ChainError::Inconsistent { host, method, block: self.at, reason });
        }
        Ok(Some(Shown { head, output: unless_reverted(output)? }))
    }
}

fn unless_reverted(output: Result<Bytes, ChainError>) -> Result<Option<Bytes>, ChainError> {
    match output {
        Ok(output) => Ok(Some(output)),
        Err(ChainError::Refused { refusal: Refusal::Reverted(_), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
