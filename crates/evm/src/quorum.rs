//! Quorum reads: answers that several nodes give alike, for anything that is signed on the strength of them.
//!
//! Every endpoint is asked, and an answer counts when as many as required gave the very same one. An endpoint that is
//! down or lies therefore only matters when too few are left.

use std::future::Future;
use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::rpc::types::Log;
use alloy::sol_types::SolValue;
use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use crate::agreement;
use crate::contracts::Call;
use crate::errors::{ChainError, Refusal};
use crate::node::Node;
use crate::nodes::{At, Nodes};
use crate::rescan;
use crate::rpc::{Head, Header, Receipt, Tx};
use crate::watch::Watch;
use crate::watcher::{self, Block, SentTx};

/// Blocks per request for logs; fewer where a node finds that too much.
const MAX_RANGE_BLOCKS: u64 = 1_000;

#[derive(Clone, Debug, thiserror::Error)]
#[error("{agree} of {asked} nodes agree on {what}, {need} have to{}", failed.as_ref().map_or(String::new(), |error| format!(" ({error})")))]
pub struct NoQuorum {
    pub what: &'static str,
    pub agree: usize,
    pub asked: usize,
    pub need: usize,
    /// The error of one of the endpoints that did not answer.
    pub failed: Option<Box<ChainError>>,
}

/// A mined transaction and its block of the canonical chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedTx {
    pub head: Head,
    pub sent: SentTx,
}

/// A call that a depository made for its allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    pub block: u64,
    pub tx: B256,
    /// The hash of the request it was part of.
    pub request: B256,
    pub call: Call,
}

impl Nodes {
    /// The header `back` blocks below the newest height that enough nodes have reached.
    pub fn quorum_header(&self, need: usize, back: u64) -> BoxFuture<'_, Result<Head, NoQuorum>> {
        async move {
            let asked = self.nodes().iter().map(|node| async { node.latest().await.map(|head| head.number) });
            let answers = futures::future::join_all(asked).await;
            let mut heights: Vec<u64> = answers.iter().filter_map(|answer| answer.as_ref().ok().copied()).collect();
            heights.sort_unstable_by(|a, b| b.cmp(a));
            let Some(height) = need.checked_sub(1).and_then(|index| heights.get(index)) else {
                let failed = answers.into_iter().find_map(Result::err).map(Box::new);
                return Err(NoQuorum { what: "the head", agree: heights.len(), asked: self.len(), need, failed });
            };
            self.quorum_number(need, height.saturating_sub(back)).await
        }
        .boxed()
    }

    /// The canonical header of that number.
    pub fn quorum_number(&self, need: usize, number: u64) -> BoxFuture<'_, Result<Head, NoQuorum>> {
        async move {
            let number = &format!("{number:#x}");
            let header = self.agree(need, "a header", |node| async move {
                let header: Option<Header> = node.ask("eth_getBlockByNumber", (number, false)).await?;
                Ok(header.map(|header| header.head()))
            });
            self.known(header.await?, need, "a header")
        }
        .boxed()
    }

    /// A block's deposits, by its hash.
    pub fn quorum_block<'a>(
        &'a self,
        need: usize,
        hash: B256,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Block, NoQuorum>> {
        async move {
            let block = self.agree(need, "a block", |node| async move {
                Ok(watcher::read(&node, hash, watch).await?.map(|read| read.block))
            });
            self.known(block.await?, need, "a block")
        }
        .boxed()
    }

    /// The blocks from `first` to `last` that hold deposits. Meant for final blocks.
    pub fn quorum_deposits<'a>(
        &'a self,
        need: usize,
        (first, last): (u64, u64),
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Vec<(u64, B256)>, NoQuorum>> {
        async move {
            let found = self.agree(need, "which blocks hold deposits", |node| async move {
                rescan::search(&node, first, last, watch).await
            });
            Ok(found.await?.into_iter().collect())
        }
        .boxed()
    }

    /// The depository's payouts in blocks from `first` to `last`, in order. Meant for final blocks.
    pub fn quorum_executions<'a>(
        &'a self,
        need: usize,
        (first, last): (u64, u64),
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Vec<Execution>, NoQuorum>> {
        async move {
            let filter = &json!({ "address": watch.depository, "topics": [watch.topics.call_executed] });
            let what = "what the depository paid out";
            self.agree(need, what, |node| async move {
                let logs = logs_in(&node, first, last, filter).await?;
                logs.iter().map(execution).collect::<Option<_>>().ok_or(ChainError::Undecodable("an executed call"))
            })
            .await
        }
        .boxed()
    }

    /// A transaction of the canonical chain with its receipt; none when the nodes agree that there is none.
    pub fn quorum_tx(&self, need: usize, hash: B256) -> BoxFuture<'_, Result<Option<AgreedTx>, NoQuorum>> {
        async move { self.agree(need, "a transaction", |node| async move { transaction(&node, hash).await }).await }
            .boxed()
    }

    /// The same, as more than half of the nodes show it.
    pub fn majority_tx(&self, hash: B256) -> BoxFuture<'_, Result<Option<AgreedTx>, NoQuorum>> {
        self.quorum_tx(agreement::majority(self.len()), hash)
    }

    pub fn quorum_call(&self, need: usize, to: Address, data: Bytes, at: At) -> BoxFuture<'_, Result<Bytes, NoQuorum>> {
        async move {
            let call = &json!({ "to": to, "input": data });
            self.agree(need, "a call", |node| async move { node.ask("eth_call", (call, at.param())).await }).await
        }
        .boxed()
    }

    pub fn quorum_balance(&self, need: usize, who: Address, at: At) -> BoxFuture<'_, Result<U256, NoQuorum>> {
        async move {
            self.agree(need, "a balance", |node| async move { node.ask("eth_getBalance", (who, at.param())).await })
                .await
        }
        .boxed()
    }

    /// The number of transactions a wallet had made as of a block, as enough nodes count them.
    pub fn quorum_nonce(&self, need: usize, who: Address, at: At) -> BoxFuture<'_, Result<u64, NoQuorum>> {
        async move {
            let count = self.agree(need, "a nonce", |node| async move {
                node.ask::<U256>("eth_getTransactionCount", (who, at.param())).await
            });
            Ok(count.await?.saturating_to())
        }
        .boxed()
    }

    /// A mined transaction as the first endpoint that knows it shows it.
    pub fn transaction(&self, hash: B256) -> BoxFuture<'_, Result<Option<AgreedTx>, ChainError>> {
        async move { self.first_known(move |node| async move { transaction(&node, hash).await }).await }.boxed()
    }

    /// The number of transactions a wallet had made as of a block.
    pub fn nonce_at(&self, who: Address, at: At) -> BoxFuture<'_, Result<u64, ChainError>> {
        async move {
            let nonce: Option<U256> = self
                .first_known(move |node| async move {
                    node.ask("eth_getTransactionCount", (who, at.param())).await.map(Some)
                })
                .await?;
            Ok(nonce.unwrap_or_default().saturating_to())
        }
        .boxed()
    }

    fn known<T>(&self, answer: Option<T>, need: usize, what: &'static str) -> Result<T, NoQuorum> {
        answer.ok_or(NoQuorum { what, agree: 0, asked: self.len(), need, failed: None })
    }

    /// The answer that at least `need` endpoints gave.
    pub(crate) async fn agree<T, F, Fut>(&self, need: usize, what: &'static str, ask: F) -> Result<T, NoQuorum>
    where
        T: PartialEq,
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<T, ChainError>>,
    {
        let mut asked: FuturesUnordered<_> = self.nodes().iter().cloned().map(ask).collect();
        let mut failed = None;
        let mut said: Vec<(T, usize)> = Vec::new();
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(answer) => {
                    let at = said.iter().position(|(other, _)| *other == answer).unwrap_or(said.len());
                    if at == said.len() {
                        said.push((answer, 0));
                    }
                    said[at].1 += 1;
                    // No other answer can become more common than one that most nodes gave.
                    if said[at].1 >= need.max(agreement::majority(self.len())) {
                        return Ok(said.swap_remove(at).0);
                    }
                }
                Err(error) => failed = Some(Box::new(error)),
            }
        }
        let best = said.into_iter().max_by_key(|(_, count)| *count);
        match best {
            Some((answer, count)) if count >= need.max(1) => Ok(answer),
            best => {
                let agree = best.map_or(0, |(_, count)| count);
                Err(NoQuorum { what, agree, asked: self.len(), need, failed })
            }
        }
    }
}

async fn transaction(node: &Node, hash: B256) -> Result<Option<AgreedTx>, ChainError> {
    let (tx, receipt): (Option<Tx>, Option<Receipt>) = tokio::try_join!(
        node.ask("eth_getTransactionByHash", (hash,)),
        node.ask("eth_getTransactionReceipt", (hash,)),
    )?;
    let (Some(tx), Some(receipt)) = (tx, receipt) else { return Ok(None) };
    let number = format!("{:#x}", receipt.block_number);
    let header: Option<Header> = node.ask("eth_getBlockByNumber", (number, false)).await?;
    let head = header.map(|header| header.head()).filter(|head| head.hash == receipt.block_hash);
    let head = head.filter(|_| tx.hash == hash && receipt.transaction_hash == hash);
    let head = head.ok_or_else(|| ChainError::Inconsistent {
        host: node.host.clone(),
        method: "eth_getTransactionReceipt",
        block: receipt.block_hash,
        reason: "a receipt that is not of the canonical chain",
    })?;
    Ok(Some(AgreedTx { head, sent: SentTx::new(&tx, receipt) }))
}

fn execution(log: &Log) -> Option<Execution> {
    let (request, call) = <(B256, Call)>::abi_decode_params(&log.data().data).ok()?;
    Some(Execution { block: log.block_number?, tx: log.transaction_hash?, request, call })
}

async fn logs_in(node: &Node, first: u64, last: u64, filter: &Value) -> Result<Vec<Log>, ChainError> {
    let (mut found, mut at, mut longest) = (Vec::new(), first, MAX_RANGE_BLOCKS);
    // Every turn moves on or halves the range, which ends at one block.
    while at <= last {
        let end = last.min(at.saturating_add(longest - 1));
        let mut filter = filter.clone();
        filter["fromBlock"] = json!(format!("{at:#x}"));
        filter["toBlock"] = json!(format!("{end:#x}"));
        match node.ask::<Vec<Log>>("eth_getLogs", [filter]).await {
            Ok(mut logs) => {
                found.append(&mut logs);
                at = end.saturating_add(1);
            }
            Err(ChainError::Refused { refusal: Refusal::TooMuch, .. }) if longest > 1 => longest /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
