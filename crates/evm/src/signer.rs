//! A wallet key held in memory.
//!
//! Signing is deterministic (RFC 6979): a payment that was committed but perhaps not sent is signed again after a
//! crash and gives the same bytes and the same hash, so sending it once more cannot pay twice.

use std::fmt;

use alloy::consensus::{SignableTransaction, TxEip1559, TxEip7702};
use alloy::eips::eip2718::Encodable2718;
pub use alloy::eips::eip7702::SignedAuthorization;
use alloy::primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use domain::ids::{ChainId, OrderId};

use crate::calldata;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 64 hexadecimal digits, with or without 0x, and not zero")]
pub struct BadKey;

/// The fields that a payment commits to; equal fields give equal bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxFields {
    pub chain: ChainId,
    pub nonce: u64,
    pub to: Address,
    pub value: U256,
    pub data: Bytes,
    pub gas: u64,
    pub max_fee: u128,
    pub max_priority_fee: u128,
    /// EIP-7702 authorizations, which make it a transaction of another type. Nearly always none.
    pub authorizations: Vec<SignedAuthorization>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTx {
    pub hash: B256,
    pub bytes: Bytes,
}

#[derive(Clone)]
pub struct LocalSigner {
    key: PrivateKeySigner,
}

impl LocalSigner {
    pub fn from_hex(secret: &str) -> Result<Self, BadKey> {
        let digits = secret.strip_prefix("0x").unwrap_or(secret);
        let mut bytes = B256::ZERO;
        hex::decode_to_slice(digits, bytes.as_mut_slice()).map_err(|_| BadKey)?;
        PrivateKeySigner::from_bytes(&bytes).map(|key| Self { key }).map_err(|_| BadKey)
    }

    pub fn address(&self) -> Address {
        self.key.address()
    }

    pub fn sign(&self, fields: &TxFields) -> SignedTx {
        if !fields.authorizations.is_empty() {
            return self.sign_with_authorizations(fields);
        }
        let tx = TxEip1559 {
            chain_id: fields.chain.0,
            nonce: fields.nonce,
            gas_limit: fields.gas,
            max_fee_per_gas: fields.max_fee,
            max_priority_fee_per_gas: fields.max_priority_fee,
            to: TxKind::Call(fields.to),
            value: fields.value,
            access_list: Default::default(),
            input: fields.data.clone(),
        };
        let signature = self.sign_digest(tx.signature_hash());
        let signed = tx.into_signed(signature);
        SignedTx { hash: *signed.hash(), bytes: signed.encoded_2718().into() }
    }

    fn sign_with_authorizations(&self, fields: &TxFields) -> SignedTx {
        let tx = TxEip7702 {
            chain_id: fields.chain.0,
            nonce: fields.nonce,
            gas_limit: fields.gas,
            max_fee_per_gas: fields.max_fee,
            max_priority_fee_per_gas: fields.max_priority_fee,
            to: fields.to,
            value: fields.value,
            access_list: Default::default(),
            authorization_list: fields.authorizations.clone(),
            input: fields.data.clone(),
        };
        let signature = self.sign_digest(tx.signature_hash());
        let signed = tx.into_signed(signature);
        SignedTx { hash: *signed.hash(), bytes: signed.encoded_2718().into() }
    }

    /// Signs an order, to take it on: 65 bytes `r ‖ s ‖ v` over the personal message of its id.
    pub fn sign_order(&self, order_id: OrderId) -> [u8; 65] {
        self.sign_digest(calldata::order_digest(order_id)).as_bytes()
    }

    /// Signs typed data whose digest the caller computed.
    pub fn sign_digest(&self, digest: B256) -> Signature {
        self.key.sign_hash_sync(&digest).expect("a valid key signs any digest")
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalSigner").field(&self.address()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloy::consensus::{Transaction, TxEnvelope, transaction::SignerRecoverable};
    use alloy::eips::eip2718::Decodable2718;
    use alloy::primitives::{address, b256, keccak256};

    use super::*;

    const SOLVER_KEY: &str = "0xdef0fa5c9eb1eb6bb94b19758abb23cafeed8f767ec08975bde8656f7e2be0ef";
    const ALLOCATOR_KEY: &str = "0x2686c2aa926f11e17d6643bb1e393cab009769412f2e84144a567aea57e7b9ea";

    fn fields() -> TxFields {
        TxFields {
            chain: ChainId(8453),
            nonce: 7,
            to: address!("4a84e43a54cc2f8abb42afa12dd825212abd36d1"),
            value: U256::from(1_000u64),
            data: Bytes::from(vec![0xab; 32]),
            gas: 30_000,
            max_fee: 3_000_000_000,
            max_priority_fee: 1_000_000,
            authorizations: Vec::new(),
        }
    }

    #[test]
    fn the_same_fields_give_the_same_bytes() {
        let first = LocalSigner::from_hex(SOLVER_KEY).unwrap().sign(&fields());
        let again = LocalSigner::from_hex(&SOLVER_KEY[2..]).unwrap().sign(&fields());
        assert_eq!(first, again);
        assert_eq!(first.hash, keccak256(&first.bytes));
        assert_ne!(first.hash, LocalSigner::from_hex(ALLOCATOR_KEY).unwrap().sign(&fields()).hash);
        assert_ne!(
            first.hash,
            LocalSigner::from_hex(SOLVER_KEY).unwrap().sign(&TxFields { nonce: 8, ..fields() }).hash
        );
    }

    #[test]
    fn a_signed_transaction_has_the_fields_asked_for() {
        let signer = LocalSigner::from_hex(SOLVER_KEY).unwrap();
        let signed = signer.sign(&fields());
        let tx = TxEnvelope::decode_2718(&mut signed.bytes.as_ref()).unwrap();
        let asked = fields();
        assert_eq!(tx.recover_signer().unwrap(), signer.address());
        assert_eq!(tx.chain_id(), Some(asked.chain.0));
        assert_eq!((tx.nonce(), tx.to(), tx.value()), (asked.nonce, Some(asked.to), asked.value));
        assert_eq!((tx.input(), tx.gas_limit()), (&asked.data, asked.gas));
        assert_eq!(
            (tx.max_fee_per_gas(), tx.max_priority_fee_per_gas()),
            (asked.max_fee, Some(asked.max_priority_fee))
        );
        assert!(tx.is_eip1559());
    }

    #[test]
    fn an_order_signature_is_the_published_one() {
        let signer = LocalSigner::from_hex(SOLVER_KEY).unwrap();
        assert_eq!(signer.address(), address!("a9cb394e1e90f01311c7a911c013bebde63e1758"));
        let order = OrderId(b256!("7f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb"));
        assert_eq!(
            hex::encode(signer.sign_order(order)),
            "d2de539b8d12a19719410d556022843c144067ccbe4ada9613eca379de34d8e406692c0714ada5c385aac8b6364e9b57f555db02afca9312d6dc0341b5b701c61c"
        );
    }

    #[test]
    fn an_allocator_signature_is_the_published_one() {
        let signer = LocalSigner::from_hex(ALLOCATOR_KEY).unwrap();
        assert_eq!(signer.address(), address!("b0932b029556bee479c380ee51a7633a737524ea"));
        let digest = b256!("fa29463e947d31735e37fb2d797a0dd6ed2862ed8c37709814abbf30a241fe4d");
        assert_eq!(
            hex::encode(signer.sign_digest(digest).as_bytes()),
            "e4273fe10412a3198c243194086b855d2e5c1a8781fc11fb75e8ff39e949fdf578b191247f0c73e0f65efd6f7e358d094a95f52bfa26d1053006ff9f38ed3c2d1c"
        );
    }

    #[test]
    fn a_key_is_never_printed() {
        let signer = LocalSigner::from_hex(SOLVER_KEY).unwrap();
        let printed = format!("{signer:?}").to_lowercase();
        assert!(printed.contains("a9cb394e1e90f01311c7a911c013bebde63e1758"));
        assert!(!printed.contains("def0fa5c"));
    }

    #[test]
    fn bad_keys_are_refused() {
        let zero = "0".repeat(64);
        let over_order = "f".repeat(64);
        for bad in ["", "0x", "abc", &SOLVER_KEY[..65], &zero, &over_order, &format!("{SOLVER_KEY}00")] {
            assert!(LocalSigner::from_hex(bad).is_err(), "{bad}");
        }
    }
}
