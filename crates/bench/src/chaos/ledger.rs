//! The chains' own record: every transaction of our wallets, read block by block, and nothing from any database.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, U64, U256, b256};
use anyhow::{Context, Result};
use devnet::Chain;
use futures::StreamExt;
use futures::stream;
use serde::Deserialize;
use serde_json::json;

use super::addresses::{Sweep, sweeps};

const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
/// Blocks read at once.
const MAX_CONCURRENT_READS: usize = 8;

/// A transaction of one of our wallets.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    pub hash: B256,
    pub block: u64,
    pub from: Address,
    pub nonce: u64,
    pub to: Address,
    pub value: U256,
    pub input: Bytes,
    pub success: bool,
    pub fee: U256,
    pub transfers: Vec<Transfer>,
}

/// A token transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub token: Address,
    pub from: Address,
    pub to: Address,
    pub amount: U256,
}

impl Payment {
    /// The id of the order or deposit it pays for: its last 32 bytes.
    pub(crate) fn id(&self) -> Option<B256> {
        self.input.last_chunk::<32>().map(B256::from)
    }

    /// The amount an account received in a currency. A native payment is a plain transfer here.
    pub(crate) fn paid(&self, currency: Address, who: Address) -> U256 {
        if !self.success {
            return U256::ZERO;
        }
        if currency.is_zero() {
            return if self.to == who { self.value } else { U256::ZERO };
        }
        let to = self.transfers.iter().filter(|it| it.token == currency && it.to == who);
        to.fold(U256::ZERO, |sum, it| sum + it.amount)
    }
}

/// The transactions of some wallets on one chain, up to a block.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub up_to: u64,
    pub payments: Vec<Payment>,
    /// Of deposit addresses, whoever made them.
    pub sweeps: Vec<Sweep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tx {
    hash: B256,
    from: Address,
    nonce: U64,
    to: Option<Address>,
    value: U256,
    input: Bytes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    status: U64,
    gas_used: U256,
    effective_gas_price: U256,
    logs: Vec<Log>,
}

#[derive(Deserialize)]
struct Log {
    address: Address,
    topics: Vec<B256>,
    data: Bytes,
}

impl Ledger {
    pub(crate) fn new(from: u64) -> Self {
        Self { up_to: from, payments: Vec::new(), sweeps: Vec::new() }
    }

    /// Reads on to the head. The chain must not reorganise any more.
    pub(crate) async fn read_on(&mut self, chain: &Chain, wallets: &[Address]) -> Result<()> {
        let head = chain.block_number().await?;
        let blocks = (self.up_to + 1..=head).map(|number| block(chain, number, wallets));
        let blocks: Vec<_> = stream::iter(blocks).buffered(MAX_CONCURRENT_READS).collect().await;
        for block in blocks {
            self.payments.extend(block?);
        }
        if head > self.up_to {
            self.sweeps.extend(sweeps(chain, self.up_to + 1, head).await?);
        }
        self.up_to = head.max(self.up_to);
        Ok(())
    }

    /// Successful payments by id.
    pub(crate) fn by_id(&self) -> BTreeMap<B256, Vec<&Payment>> {
        let mut all: BTreeMap<B256, Vec<&Payment>> = BTreeMap::new();
        for payment in self.payments.iter().filter(|payment| payment.success) {
            if let Some(id) = payment.id() {
                all.entry(id).or_default().push(payment);
            }
        }
        all
    }
}

async fn block(chain: &Chain, number: u64, wallets: &[Address]) -> Result<Vec<Payment>> {
    #[derive(Deserialize)]
    struct Block {
        transactions: Vec<Tx>,
    }
    let block: Option<Block> = chain.rpc("eth_getBlockByNumber", json!([U64::from(number), true])).await?;
    let block = block.with_context(|| format!("block {number} of {} is gone", chain.name))?;
    let mut payments = Vec::new();
    for tx in block.transactions.into_iter().filter(|tx| wallets.contains(&tx.from)) {
        let receipt: Option<Receipt> = chain.rpc("eth_getTransactionReceipt", [tx.hash]).await?;
        let receipt = receipt.with_context(|| format!("no receipt for {}", tx.hash))?;
        payments.push(Payment {
            hash: tx.hash,
            block: number,
            from: tx.from,
            nonce: tx.nonce.to(),
            to: tx.to.unwrap_or_default(),
            value: tx.value,
            input: tx.input,
            success: receipt.status == U64::ONE,
            fee: receipt.gas_used * receipt.effective_gas_price,
            transfers: receipt.logs.iter().filter_map(transfer).collect(),
        });
    }
    Ok(payments)
}

fn transfer(log: &Log) -> Option<Transfer> {
    let [TRANSFER, from, to] = log.topics[..] else { return None };
    let amount = U256::try_from_be_slice(&log.data)?;
    let (from, to) = (Address::from_word(from), Address::from_word(to));
    Some(Transfer { token: log.address, from, to, amount })
}
