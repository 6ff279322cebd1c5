//! Logs that concern us, of one block or of a range, as one endpoint shows them.
//!
//! Anybody can fill a block with logs. Only listed tokens are asked for, and an endpoint that finds the question about
//! one block too large is asked in other ways: by the receipts of the block, by smaller questions, or by each receipt.

use alloy::primitives::{Address, B256};
use alloy::rpc::types::Log;
use futures::StreamExt;
use futures::stream;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::errors::{ChainError, Refusal};
use crate::node::{BLOCK_RECEIPTS, Node};
use crate::rpc::RawBlock;
use crate::topics::TRANSFER;
use crate::watch::Watch;

/// Requests under way at once for one block.
const REQUESTS_AT_ONCE: usize = 16;

/// The blocks that are asked for. A range is answered from the chain that the node thinks canonical.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Block(B256),
    Range(u64, u64),
}

impl Span {
    fn filter(self) -> Value {
        match self {
            Self::Block(hash) => json!({ "blockHash": hash }),
            Self::Range(first, last) => {
                json!({ "fromBlock": format!("{first:#x}"), "toBlock": format!("{last:#x}") })
            }
        }
    }

    /// The method and parameter by which its only block is asked for. None if there are several.
    fn only_block(self) -> Option<(&'static str, Value)> {
        match self {
            Self::Block(hash) => Some(("eth_getBlockByHash", json!(hash))),
            Self::Range(first, last) if first == last => Some(("eth_getBlockByNumber", json!(format!("{first:#x}")))),
            Self::Range(..) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The depository's own events.
    Events,
    /// Transfers of listed tokens to the depository, or to the treasury.
    Transfers,
    /// Transfers of listed tokens to anybody.
    AllTransfers,
}

impl Kind {
    fn filter(self, span: Span, watch: &Watch) -> Value {
        match self {
            Self::Events => events(span, watch.depository, &[watch.topics.native_deposit, watch.topics.erc20_deposit]),
            Self::Transfers => {
                transfers(span, &watch.tokens.iter().copied().collect::<Vec<_>>(), watch.recipients().collect())
            }
            Self::AllTransfers => events_of(span, &watch.tokens.iter().copied().collect::<Vec<_>>(), &[TRANSFER]),
        }
    }

    /// The same question in the smallest pieces.
    fn pieces(self, span: Span, watch: &Watch) -> Vec<Value> {
        match self {
            Self::Events => {
                let topics = [watch.topics.native_deposit, watch.topics.erc20_deposit];
                topics.iter().map(|&topic| events(span, watch.depository, &[topic])).collect()
            }
            Self::Transfers => {
                let pairs = watch.tokens.iter().flat_map(|token| watch.recipients().map(move |to| (*token, to)));
                pairs.map(|(token, to)| transfers(span, &[token], vec![to])).collect()
            }
            Self::AllTransfers => watch.tokens.iter().map(|&token| events_of(span, &[token], &[TRANSFER])).collect(),
        }
    }

    fn matches(self, log: &Log, watch: &Watch) -> bool {
        match (self, log.topics()) {
            (Self::Events, [topic, ..]) => {
                let topics = [watch.topics.native_deposit, watch.topics.erc20_deposit];
                log.address() == watch.depository && topics.contains(topic)
            }
            (Self::Transfers, [TRANSFER, _, to, ..]) => {
                watch.tokens.contains(&log.address()) && watch.recipients().any(|who| who.into_word() == *to)
            }
            (Self::AllTransfers, [TRANSFER, ..]) => watch.tokens.contains(&log.address()),
            _ => false,
        }
    }
}

fn events(span: Span, depository: Address, topics: &[B256]) -> Value {
    let mut filter = events_of(span, &[], topics);
    filter["address"] = json!(depository);
    filter
}

fn events_of(span: Span, contracts: &[Address], topics: &[B256]) -> Value {
    let mut filter = span.filter();
    filter["address"] = json!(contracts);
    filter["topics"] = json!([topics]);
    filter
}

fn transfers(span: Span, tokens: &[Address], to: Vec<Address>) -> Value {
    let mut filter = transfers_of_any_token(span, to);
    filter["address"] = json!(tokens);
    filter
}

fn transfers_of_any_token(span: Span, to: Vec<Address>) -> Value {
    let mut filter = span.filter();
    filter["topics"] = json!([TRANSFER, null, to.into_iter().map(|to| to.into_word()).collect::<Vec<_>>()]);
    filter
}

/// The logs of a span. An answer that is too large is an error only for more than one block.
pub(crate) async fn logs(node: &Node, span: Span, kind: Kind, watch: &Watch) -> Result<Vec<Log>, ChainError> {
    if matches!(kind, Kind::Transfers | Kind::AllTransfers) && watch.tokens.is_empty() {
        // Nodes take an empty list of addresses for every address.
        return Ok(Vec::new());
    }
    let answer = node.ask("eth_getLogs", [kind.filter(span, watch)]).await;
    let Some(block) = span.only_block().filter(|_| is_too_much(&answer)) else { return answer };
    let all = match of_block(node, &block.1).await? {
        Some(all) => all,
        None => {
            let pieces = in_pieces(node, kind.pieces(span, watch)).await;
            if !is_too_much(&pieces) {
                return pieces;
            }
            one_by_one(node, block).await?
        }
    };
    Ok(all.into_iter().filter(|log| kind.matches(log, watch)).collect())
}

/// The transfers of any token to us in a block: what a receipt would tell of them, for a node that finds the receipt
/// too large.
pub(crate) async fn any_transfers(node: &Node, block: B256, watch: &Watch) -> Result<Vec<Log>, ChainError> {
    let span = Span::Block(block);
    let answer = node.ask("eth_getLogs", [transfers_of_any_token(span, watch.recipients().collect())]).await;
    if !is_too_much(&answer) {
        return answer;
    }
    in_pieces(node, watch.recipients().map(|to| transfers_of_any_token(span, vec![to])).collect()).await
}

pub(crate) fn is_too_much<T>(answer: &Result<T, ChainError>) -> bool {
    matches!(answer, Err(ChainError::Refused { refusal: Refusal::TooMuch, .. }))
}

#[derive(Deserialize)]
struct ReceiptLogs {
    logs: Vec<Log>,
}

/// All logs of a block, by its receipts in one request. None where the node cannot say, or not in a form we can read.
async fn of_block(node: &Node, block: &Value) -> Result<Option<Vec<Log>>, ChainError> {
    let answer: Result<Option<Vec<Box<RawValue>>>, _> = node.ask(BLOCK_RECEIPTS, [block]).await;
    let receipts = match answer {
        Ok(Some(receipts)) => receipts,
        Ok(None) | Err(ChainError::Refused { .. } | ChainError::Status { .. } | ChainError::Unreadable { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let read = |text: Box<RawValue>| serde_json::from_str(text.get()).ok().map(|ReceiptLogs { logs }| logs);
    let logs: Option<Vec<_>> = receipts.into_iter().map(read).collect();
    Ok(logs.map(|logs| logs.into_iter().flatten().collect()))
}

async fn in_pieces(node: &Node, pieces: Vec<Value>) -> Result<Vec<Log>, ChainError> {
    let asked: Vec<_> =
        pieces.into_iter().map(|filter| async move { node.ask::<Vec<Log>>("eth_getLogs", [filter]).await }).collect();
    let answers: Vec<_> = stream::iter(asked).buffered(REQUESTS_AT_ONCE).collect().await;
    let logs: Vec<Vec<Log>> = answers.into_iter().collect::<Result<_, _>>()?;
    Ok(logs.into_iter().flatten().collect())
}

/// All logs of a block, by the receipt of each of its transactions.
async fn one_by_one(node: &Node, (method, block): (&'static str, Value)) -> Result<Vec<Log>, ChainError> {
    let block: Option<RawBlock<B256>> = node.ask(method, (block, false)).await?;
    let transactions = block.map(|block| block.transactions).unwrap_or_default();
    let asked: Vec<_> = transactions
        .into_iter()
        .map(|hash| async move { node.ask::<ReceiptLogs>("eth_getTransactionReceipt", (hash,)).await })
        .collect();
    let answers: Vec<_> = stream::iter(asked).buffered(REQUESTS_AT_ONCE).collect().await;
    let receipts: Vec<ReceiptLogs> = answers.into_iter().collect::<Result<_, _>>()?;
    Ok(receipts.into_iter().flat_map(|receipt| receipt.logs).collect())
}
