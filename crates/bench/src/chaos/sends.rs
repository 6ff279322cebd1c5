//! Signed transactions: sent, and sent again when a chain drops them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use alloy::primitives::{Address, B256, Bytes, keccak256};
use anyhow::Result;
use devnet::{Account, Devnet, Rng};
use serde_json::Value;

use super::quoted::Call;

/// Ten times what the service offers, in wei: mined first in a block of both.
const TIP_AHEAD: u128 = 100_000_000;

/// A signed transaction.
#[derive(Clone, Debug)]
struct Signed {
    chain: usize,
    from: Address,
    nonce: u64,
    raw: Bytes,
    /// Its sender may let it be when a reorg drops it.
    optional: bool,
}

#[derive(Debug, Default)]
struct Done {
    signed: BTreeMap<B256, Signed>,
    /// Transactions that a reorg dropped and their senders did not resend.
    abandoned: BTreeSet<B256>,
    /// Ids of relays that had succeeded in a block that a reorg replaced.
    relays_reorged: BTreeSet<B256>,
}

/// Transactions of everybody but the service. Each sender is new, so that its nonces begin at zero.
#[derive(Debug)]
pub(crate) struct Sends<'a> {
    devnet: &'a Devnet,
    done: Mutex<Done>,
}

impl<'a> Sends<'a> {
    pub(crate) fn new(devnet: &'a Devnet) -> Self {
        Self { devnet, done: Mutex::default() }
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().expect("nothing panics while holding it")
    }

    /// Signs with the sender's next nonce.
    pub(crate) fn sign(&self, chain: usize, from: &Account, call: Call, gas: u64, optional: bool) -> Result<B256> {
        let on = &self.devnet.chains[chain];
        self.keep(chain, from, optional, |nonce| on.sign(from, nonce, call, gas))
    }

    /// The same with a tip that is higher than the service's. It is sent again whenever a reorg drops it.
    pub(crate) fn sign_ahead(&self, chain: usize, from: &Account, call: Call, gas: u64) -> Result<B256> {
        let on = &self.devnet.chains[chain];
        self.keep(chain, from, false, |nonce| on.sign_tipping(from, nonce, call, gas, TIP_AHEAD))
    }

    fn keep(
        &self,
        chain: usize,
        from: &Account,
        optional: bool,
        sign: impl FnOnce(u64) -> Result<Bytes>,
    ) -> Result<B256> {
        let mut done = self.done();
        let nonce = done.signed.values().filter(|it| it.chain == chain && it.from == from.address).count() as u64;
        let raw = sign(nonce)?;
        let hash = keccak256(&raw);
        done.signed.insert(hash, Signed { chain, from: from.address, nonce, raw, optional });
        Ok(hash)
    }

    /// Notes relays that a reorg took out of their blocks.
    pub(crate) fn note_reorged(&self, relays: Vec<B256>) {
        self.done().relays_reorged.extend(relays);
    }

    pub(crate) fn relays_reorged(&self) -> BTreeSet<B256> {
        self.done().relays_reorged.clone()
    }

    pub(crate) fn is_abandoned(&self, tx: B256) -> bool {
        self.done().abandoned.contains(&tx)
    }

    /// A refusal is not final: everything unmined is sent again later.
    pub(crate) async fn send(&self, tx: B256) {
        let signed = self.done().signed.get(&tx).cloned();
        if let Some(signed) = signed {
            drop(self.devnet.chains[signed.chain].send_raw(&signed.raw).await);
        }
    }

    /// All of them, each sender's in the order of their nonces.
    fn in_order(&self) -> Vec<(B256, Signed)> {
        let mut all: Vec<_> = self.done().signed.iter().map(|(hash, signed)| (*hash, signed.clone())).collect();
        all.sort_by_key(|(_, signed)| (signed.chain, signed.from, signed.nonce));
        all
    }

    /// Handles transactions dropped by a reorg: their senders resend them after a while, or abandon them.
    pub(crate) async fn dropped(&self, hashes: &[B256], rng: &mut Rng) {
        tokio::time::sleep(rng.millis(0, 2_500)).await;
        for (hash, signed) in self.in_order().into_iter().filter(|(hash, _)| hashes.contains(hash)) {
            let later = |it: &Signed| it.chain == signed.chain && it.from == signed.from && it.nonce > signed.nonce;
            let is_last = !self.done().signed.values().any(later);
            if is_last && signed.optional && rng.once_in(6) {
                self.done().abandoned.insert(hash);
            } else {
                self.send(hash).await;
            }
        }
    }

    /// Sends every transaction that is not on its chain, and returns their number.
    pub(crate) async fn send_again(&self) -> Result<usize> {
        let mut missing = 0;
        for (hash, signed) in self.in_order() {
            if self.is_abandoned(hash) {
                continue;
            }
            let receipt: Value = self.devnet.chains[signed.chain].rpc("eth_getTransactionReceipt", [hash]).await?;
            if receipt.is_null() {
                missing += 1;
                self.send(hash).await;
            }
        }
        Ok(missing)
    }
}
