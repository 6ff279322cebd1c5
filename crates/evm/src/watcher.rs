//! The parts of a block that we read: deposits into the depository, the outcomes of our own transactions, and transfers
//! to the treasury.
//!
//! Everything is asked for by block hash, in parallel, from one endpoint. A range of numbers would be answered from the
//! chain that the node thinks canonical by then. Following the chain, reorgs included, is the caller's part.

use std::collections::{BTreeSet, HashMap};

use alloy::primitives::{Address, B256, BloomInput, Bytes, U256};
use alloy::rpc::types::Log;
use domain::ids::RequestId;
use futures::StreamExt;
use futures::stream;
use serde_json::value::RawValue;

use crate::errors::{ChainError, Contradiction};
use crate::extract::{SeenDeposit, extract, is_deposit};
use crate::funding::SeenTreasuryTransfer;
use crate::logs::{Kind, Span, any_transfers, is_too_much};
use crate::node::{BLOCK_RECEIPTS, Node};
use crate::rpc::{FullBlock, Head, Receipt, ReceiptName, Tx};
use crate::topics::TRANSFER;
use crate::watch::Watch;

/// Receipts requested concurrently.
const RECEIPTS_AT_ONCE: usize = 16;
/// From this many transactions on, the receipts of a block are fetched in one call.
const RECEIPTS_OF_BLOCK: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub head: Head,
    /// In the order they happened.
    pub deposits: Vec<SeenDeposit>,
    /// In the order of the block.
    pub sent: Vec<SentTx>,
    /// In the order of the block.
    pub named: Vec<NamedTx>,
    /// Transfers to the treasury, in the order of the block.
    pub treasury_transfers: Vec<SeenTreasuryTransfer>,
}

/// A transaction that seems to name a request. The caller finds out whether there is such a request and whether this is
/// what it asked for; the receipt says whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTx {
    pub request: RequestId,
    pub hash: B256,
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub input: Bytes,
}

/// A mined transaction of one of our wallets, known to us or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTx {
    pub from: Address,
    pub nonce: u64,
    pub hash: B256,
    /// The index in the block.
    pub index: u64,
    pub to: Option<Address>,
    pub value: U256,
    pub input: Bytes,
    pub success: bool,
    pub gas_used: u64,
    pub effective_gas_price: u128,
    /// Everything paid for inclusion, a rollup's charge for data included.
    pub fee: U256,
    pub logs: Vec<Log>,
}

impl SentTx {
    pub(crate) fn new(tx: &Tx, mut receipt: Receipt) -> Self {
        // Some nodes put the time into every log and others do not, which is no reason to disagree.
        for log in &mut receipt.logs {
            log.block_timestamp = None;
        }
        Self {
            from: tx.from,
            nonce: tx.nonce,
            hash: tx.hash,
            index: receipt.transaction_index,
            to: tx.to,
            value: tx.value,
            input: tx.input.clone(),
            success: receipt.success(),
            gas_used: receipt.gas_used,
            effective_gas_price: receipt.effective_gas_price(),
            fee: receipt.fee(),
            logs: receipt.logs,
        }
    }
}

/// A block as one endpoint shows it.
#[derive(Debug)]
pub(crate) struct Read {
    pub block: Block,
    /// The header hints at logs that the endpoint did not show: another one should be asked before it is believed.
    pub doubtful: bool,
}

/// None when the endpoint does not know the block.
pub(crate) async fn read(node: &Node, hash: B256, watch: &Watch) -> Result<Option<Read>, ChainError> {
    // Receipts depend on the block alone and do not wait for the logs.
    let block_and_receipts = async {
        let block: Option<FullBlock> = node.ask("eth_getBlockByHash", (hash, true)).await?;
        let Some(block) = block else { return Ok(None) };
        if block.head().hash != hash {
            return Err(inconsistent(node, "eth_getBlockByHash", hash, "another block"));
        }
        node.saw_at_least(block.head());
        let (sent, funded) = tokio::try_join!(sent(node, &block, watch), native_funding(node, &block, watch))?;
        Ok(Some((block, sent, funded)))
    };
    let (block, events, transfers) = tokio::join!(
        block_and_receipts,
        logs(node, hash, Kind::Events, watch),
        logs(node, hash, Kind::Transfers, watch)
    );
    // The block comes first: nodes answer for the logs of an unknown one with an error or nothing.
    let Some((block, sent, funded)) = block? else { return Ok(None) };
    let (mut events, mut transfers) = (events?, transfers?);

    // A node may announce a block before it has indexed its logs. The bloom filter in the header has no false
    // negatives, so logs that it hints at and that are missing are asked for once more; false positives are common.
    let (owes_events, owes_transfers) = (may_hold_events(&block, watch), may_hold_transfers(&block, watch));
    if owes_events && events.is_empty() {
        events = logs(node, hash, Kind::Events, watch).await?;
    }
    if owes_transfers && transfers.is_empty() {
        transfers = logs(node, hash, Kind::Transfers, watch).await?;
    }
    let doubtful = (owes_events && events.is_empty()) || (owes_transfers && transfers.is_empty());

    events.append(&mut transfers);
    let events = with_unasked(node, &block, watch, events).await?;
    let contradiction = |Contradiction(reason)| inconsistent(node, "eth_getLogs", hash, reason);
    let mut deposits = extract(watch, &block.transactions, &events).map_err(contradiction)?;
    let treasury_transfers = match &watch.funding {
        Some(funding) => funding.treasury_transfers(&block.transactions, &funded, &events).map_err(contradiction)?,
        None => Vec::new(),
    };
    deposits.retain(|deposit| deposit.is_kept(watch));
    for deposit in &mut deposits {
        deposit.fee = sent.iter().find(|sent| sent.hash == deposit.tx).map(|sent| sent.fee);
    }
    let named = named(&block, watch);
    let block = Block { head: block.head(), deposits, sent, named, treasury_transfers };
    Ok(Some(Read { block, doubtful }))
}

async fn logs(node: &Node, hash: B256, kind: Kind, watch: &Watch) -> Result<Vec<Log>, ChainError> {
    of_block(node, hash, crate::logs::logs(node, Span::Block(hash), kind, watch).await?)
}

fn of_block(node: &Node, hash: B256, logs: Vec<Log>) -> Result<Vec<Log>, ChainError> {
    if logs.iter().any(|log| log.block_hash != Some(hash)) {
        return Err(inconsistent(node, "eth_getLogs", hash, "logs of another block"));
    }
    if logs.iter().any(|log| log.removed) {
        return Err(inconsistent(node, "eth_getLogs", hash, "removed logs"));
    }
    Ok(logs)
}

/// The logs, and beside them all others of the transactions that may have more transfers than were asked for. A deposit
/// is identified by its place among all transfers of its transaction, and that place must not depend on the list of
/// tokens, which changes.
async fn with_unasked(
    node: &Node,
    block: &FullBlock,
    watch: &Watch,
    mut logs: Vec<Log>,
) -> Result<Vec<Log>, ChainError> {
    let concerns = |log: &&Log| is_deposit(watch, log) || watch.funding.as_ref().is_some_and(|it| it.counts(log));
    let named: BTreeSet<B256> = logs.iter().filter(concerns).filter_map(|log| log.transaction_hash).collect();
    let is_mixed = |tx: &&Tx| named.contains(&tx.hash) && !watch.is_direct(tx);
    let mixed: Vec<&Tx> = block.transactions.iter().filter(is_mixed).collect();
    let receipts = receipts(node, block, mixed.clone()).await;
    if is_too_much(&receipts) {
        return with_any_transfers(node, block, watch, logs, &mixed).await;
    }
    let whole: HashMap<B256, HashMap<Option<u64>, Log>> = receipts?
        .into_iter()
        .map(|(tx, receipt)| (tx.hash, receipt.logs.into_iter().map(|log| (log.log_index, log)).collect()))
        .collect();
    for log in &logs {
        let of_tx = log.transaction_hash.and_then(|tx| whole.get(&tx));
        if of_tx.is_some_and(|of_tx| of_tx.get(&log.log_index).is_none_or(|other| other.inner != log.inner)) {
            return Err(inconsistent(node, "eth_getLogs", block.head().hash, "a log that its receipt does not have"));
        }
    }
    logs.retain(|log| log.transaction_hash.is_none_or(|tx| !whole.contains_key(&tx)));
    logs.extend(whole.into_values().flat_map(HashMap::into_values));
    Ok(logs)
}

/// The same where the node finds a receipt too large: anybody can make one, around a deposit of dust. The transfers of
/// these transactions to us are asked for by themselves; other logs of theirs concern nobody here.
async fn with_any_transfers(
    node: &Node,
    block: &FullBlock,
    watch: &Watch,
    mut logs: Vec<Log>,
    mixed: &[&Tx],
) -> Result<Vec<Log>, ChainError> {
    let hash = block.head().hash;
    let all = of_block(node, hash, any_transfers(node, hash, watch).await?)?;
    let is_mixed = |log: &Log| log.transaction_hash.is_some_and(|tx| mixed.iter().any(|it| it.hash == tx));
    let all: HashMap<Option<u64>, Log> = all.into_iter().filter(is_mixed).map(|log| (log.log_index, log)).collect();
    let is_transfer = |log: &&Log| is_mixed(log) && log.topic0() == Some(&TRANSFER);
    for log in logs.iter().filter(is_transfer) {
        if all.get(&log.log_index).is_none_or(|other| other.inner != log.inner) {
            return Err(inconsistent(node, "eth_getLogs", hash, "a log that it does not show to another question"));
        }
    }
    logs.retain(|log| !all.contains_key(&log.log_index));
    logs.extend(all.into_values());
    Ok(logs)
}

/// The outcomes of our own transactions.
async fn sent(node: &Node, block: &FullBlock, watch: &Watch) -> Result<Vec<SentTx>, ChainError> {
    let ours = block.transactions.iter().filter(|tx| watch.wallets.contains(&tx.from)).collect();
    let receipts = receipts(node, block, ours).await?;
    Ok(receipts.into_iter().map(|(tx, receipt)| SentTx::new(tx, receipt)).collect())
}

/// The transactions that brought native currency to the treasury. Tokens show in logs, native currency only in
/// receipts.
async fn native_funding(node: &Node, block: &FullBlock, watch: &Watch) -> Result<BTreeSet<B256>, ChainError> {
    let Some(funding) = &watch.funding else { return Ok(BTreeSet::new()) };
    let brings = block.transactions.iter().filter(|tx| funding.brings_native(tx)).collect();
    let receipts = receipts(node, block, brings).await?;
    Ok(receipts.into_iter().filter(|(_, receipt)| receipt.success()).map(|(tx, _)| tx.hash).collect())
}

async fn receipts<'a>(
    node: &Node,
    block: &FullBlock,
    transactions: Vec<&'a Tx>,
) -> Result<Vec<(&'a Tx, Receipt)>, ChainError> {
    if transactions.len() >= RECEIPTS_OF_BLOCK
        && let Some(all) = receipts_of_block(node, block, &transactions).await?
    {
        return Ok(all);
    }
    let asked = transactions.into_iter().map(|tx| async move {
        const METHOD: &str = "eth_getTransactionReceipt";
        let receipt = node.ask(METHOD, (tx.hash,)).await?;
        belongs(node, METHOD, block, tx, receipt)
    });
    // Collected first: a future that holds the lazy iterator is not `Send` for every lifetime.
    let asked: Vec<_> = asked.collect();
    let answers: Vec<_> = stream::iter(asked).buffered(RECEIPTS_AT_ONCE).collect().await;
    answers.into_iter().collect()
}

/// None where the node does not offer the method, or answers with something we cannot read: then each receipt is asked
/// for by itself.
async fn receipts_of_block<'a>(
    node: &Node,
    block: &FullBlock,
    transactions: &[&'a Tx],
) -> Result<Option<Vec<(&'a Tx, Receipt)>>, ChainError> {
    let answer: Result<Option<Vec<Box<RawValue>>>, _> = node.ask(BLOCK_RECEIPTS, (block.head().hash,)).await;
    let all = match answer {
        Ok(Some(all)) => all,
        Ok(None) | Err(ChainError::Refused { .. } | ChainError::Status { .. } | ChainError::Unreadable { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // Of other people's receipts only the transaction hash is read: some chains have receipt types of their own.
    let named = |text: Box<RawValue>| {
        let name: ReceiptName = serde_json::from_str(text.get()).ok()?;
        Some((name.transaction_hash, text))
    };
    let mut all: HashMap<B256, Box<RawValue>> = all.into_iter().filter_map(named).collect();
    let ours = transactions.iter().map(|&tx| {
        let receipt = all.remove(&tx.hash).and_then(|text| serde_json::from_str(text.get()).ok());
        belongs(node, BLOCK_RECEIPTS, block, tx, receipt)
    });
    ours.collect::<Result<_, _>>().map(Some)
}

fn belongs<'a>(
    node: &Node,
    method: &'static str,
    block: &FullBlock,
    tx: &'a Tx,
    receipt: Option<Receipt>,
) -> Result<(&'a Tx, Receipt), ChainError> {
    let hash = block.head().hash;
    let receipt = receipt.ok_or_else(|| inconsistent(node, method, hash, "no receipt for its transaction"))?;
    if receipt.block_hash != hash || receipt.transaction_hash != tx.hash {
        return Err(inconsistent(node, method, hash, "a receipt from another block"));
    }
    Ok((tx, receipt))
}

/// Transactions per block that may name a request: more of them are an attack, not a busy day. An attacker has to pay
/// for this many before the ones behind them are missed.
const MAX_NAMED_TXS: usize = 4_096;

fn named(block: &FullBlock, watch: &Watch) -> Vec<NamedTx> {
    let Some(entry) = watch.entry else { return Vec::new() };
    let others = block.transactions.iter().filter(|tx| !watch.wallets.contains(&tx.from));
    let named = others.filter_map(|tx| {
        let to = tx.to?;
        let request = entry.request_in(to, &tx.input)?;
        Some(NamedTx { request, hash: tx.hash, from: tx.from, to, value: tx.value, input: tx.input.clone() })
    });
    named.take(MAX_NAMED_TXS).collect()
}

fn inconsistent(node: &Node, method: &'static str, block: B256, reason: &'static str) -> ChainError {
    let error = ChainError::Inconsistent { host: node.host.clone(), method, block, reason };
    node.failed(method, &error);
    error
}

/// Chains that leave the bloom filter empty tell nothing by it.
fn hints(block: &FullBlock, at_all: &[&[u8]]) -> bool {
    let Some(bloom) = block.logs_bloom.filter(|bloom| !bloom.is_zero()) else {
        return false;
    };
    at_all.iter().all(|part| bloom.contains_input(BloomInput::Raw(part)))
}

fn may_hold_events(block: &FullBlock, watch: &Watch) -> bool {
    let address = watch.depository.as_slice();
    let topics = [watch.topics.native_deposit, watch.topics.erc20_deposit];
    topics.iter().any(|topic| hints(block, &[address, topic.as_slice()]))
}

fn may_hold_transfers(block: &FullBlock, watch: &Watch) -> bool {
    let to = watch.depository.into_word();
    watch.tokens.iter().any(|token| hints(block, &[token.as_slice(), TRANSFER.as_slice(), to.as_slice()]))
}
