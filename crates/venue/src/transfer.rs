//! A transfer between two accounts of the venue: its fields, its hash, and the text that the sender's wallet signs.

use std::fmt::Write;

use alloy_primitives::{B256, eip191_hash_message, hex};
use domain::venue::{AccountIndex, Asset, Memo, Route, Units};
use poseidon_hash::Goldilocks;

use crate::field::{self, Digest};
use crate::limits::{Expiry, Fee, KeyIndex, Nonce};
use crate::network::Network;

/// The venue's number for this kind of transaction.
pub(crate) const TX_TYPE: u8 = 12;

/// The attribute by which a transaction may leave nonces out.
const SKIP_NONCE: u64 = 4;
/// Attributes are hashed in this many pairs of type and value, the empty ones as zeros.
const ATTRIBUTES: usize = 4;

/// Every field is within the venue's range by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub from: AccountIndex,
    pub key_index: KeyIndex,
    pub to: AccountIndex,
    pub asset: Asset,
    pub from_route: Route,
    pub to_route: Route,
    pub amount: Units,
    pub usdc_fee: Fee,
    /// Not part of the hash: whoever holds the API key alone can change it, and the wallet's signature shows that.
    pub memo: Memo,
    pub expires_at: Expiry,
    pub nonce: Nonce,
    /// The nonce need not follow its predecessor.
    pub skips_nonces: bool,
}

impl Transfer {
    /// The hash that the API key signs, and the name of the transaction.
    pub fn hash(&self, network: Network) -> Digest {
        let low_high = |value: u64| [value & 0xffff_ffff, value >> 32];
        let ([amount_low, amount_high], [fee_low, fee_high]) =
            (low_high(self.amount.get()), low_high(self.usdc_fee.get()));
        let hash = Digest::of(
            &[
                network.0.into(),
                TX_TYPE.into(),
                self.nonce.get(),
                self.expires_at.get(),
                self.from.get(),
                self.key_index.get().into(),
                self.to.get(),
                self.asset.get().into(),
                self.from_route.get().into(),
                self.to_route.get().into(),
                amount_low,
                amount_high,
                fee_low,
                fee_high,
            ]
            .map(within_field),
        );
        if !self.skips_nonces {
            return hash;
        }
        let mut attributes = [0; 2 * ATTRIBUTES];
        (attributes[0], attributes[1]) = (SKIP_NONCE, 1);
        let attributes = Digest::of(&attributes.map(within_field));
        let mut both = [Goldilocks(0); 10];
        both[..5].copy_from_slice(&hash.element().0);
        both[5..].copy_from_slice(&attributes.element().0);
        Digest::of(&both)
    }

    /// The text that the wallet of the sending account signs. It is the only thing that covers the memo.
    pub fn wallet_text(&self, network: Network) -> String {
        let mut text = String::from("Transfer\n\n");
        let (from_route, to_route) = (self.from_route.get(), self.to_route.get());
        let lines = [
            format!("nonce: {:#018x}", self.nonce.get()),
            format!("from: {:#018x} (route {from_route:#018x})", self.from.get()),
            format!("api key: {:#018x}", self.key_index.get()),
            format!("to: {:#018x} (route {to_route:#018x})", self.to.get()),
            format!("asset: {:#018x}", self.asset.get()),
            format!("amount: {:#018x}", self.amount.get()),
            format!("fee: {:#018x}", self.usdc_fee.get()),
            format!("chainId: {:#018x}", network.0),
            format!("memo: {}", hex::encode(self.memo.0)),
        ];
        for line in lines {
            writeln!(text, "{line}").expect("text takes text");
        }
        text.push_str("Only sign this message for a trusted client!");
        text
    }

    /// The hash that a wallet signs for the text.
    pub fn wallet_digest(&self, network: Network) -> B256 {
        eip191_hash_message(self.wallet_text(network))
    }
}

fn within_field(value: u64) -> Goldilocks {
    field::element(value).expect("every field of a transfer is below 2^63")
}
