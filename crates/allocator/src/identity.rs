//! How deposits and payouts are named (protocol 3.2, 5.1, 5.3). A payout's nonce follows from what it is for, so the
//! contract itself refuses to pay the same thing twice.

use alloy::primitives::{B256, hex, keccak256};
use domain::ids::OrderId;
pub use domain::payout::{Kind, nonce};
use sha2::{Digest, Sha256};
use store::depository_ledger::{Deposit, Ending, Settlement};

pub fn deposit_key(chain: &str, tx: B256, log_index: u64) -> B256 {
    sha256(&format!("{chain}:{tx}:{log_index}").to_lowercase())
}

/// Sorted first, so that a batch has one name.
pub fn batch_key(keys: &[B256]) -> B256 {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keccak256(keys.concat())
}

/// The allocator's name for the settlement of an order by one deposit.
pub fn settlement_key(deposit: B256, order: OrderId) -> B256 {
    let deposits = sha256(&hex(deposit));
    sha256(&format!("{}:{}", hex(deposits), hex(order.0)))
}

/// How a deposit that goes back out of the depository is settled: the nonce of its payout stands for the transaction.
pub fn returned(deposit: &Deposit) -> Settlement {
    refunded(deposit, OrderId(deposit.return_key))
}

/// The same for the deposit of an order that is refunded out of the depository.
pub fn refunded(deposit: &Deposit, order: OrderId) -> Settlement {
    let (key, tx) = (settlement_key(deposit.key, order), nonce(Kind::Refund, deposit.key).0);
    Settlement { key, order, deposit: deposit.key, ending: Ending::Depository, chain: deposit.chain, tx }
}

fn hex(word: B256) -> String {
    hex::encode_prefixed(word)
}

fn sha256(text: &str) -> B256 {
    B256::from_slice(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::b256;

    use super::*;

    #[test]
    fn a_deposit_is_named_as_published() {
        let base = b256!("4c81336f2e139b52d0b9c90f33ebf1d4942b9bad8ab8ea01e7f7650d0a3e641f");
        let key = b256!("2753bc57cae2cfe225cd5a10ebf91031c592ec02743960c80e8db412371c34e3");
        assert_eq!(deposit_key("base", base, 0), key);
        let arbitrum = b256!("29fff52a8b0ec9a06c4578b603a80cb2a29d31a94adfbba4406bb83583c440e4");
        let key = b256!("65218cdad7efba9ca2187dbb0b00c034d3296e0e423f854f4665b92ef5d0564e");
        assert_eq!(deposit_key("Arbitrum", arbitrum, 17), key);
    }

    #[test]
    fn a_batch_has_one_name_whatever_its_order() {
        let keys = [B256::repeat_byte(2), B256::repeat_byte(1)];
        assert_eq!(batch_key(&keys), batch_key(&[keys[1], keys[0]]));
        assert_ne!(batch_key(&keys), batch_key(&keys[..1]));
    }
}
