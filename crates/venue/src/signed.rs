//! A transfer with its signatures: that of the API key, and that of the sending account's wallet.

use alloy_primitives::{Address, Signature as WalletSignature, hex};

use crate::field::Digest;
use crate::key::{ApiKey, PublicKey};
use crate::network::Network;
use crate::schnorr::{NotASignature, Signature};
use crate::transfer::Transfer;
use crate::wire::{BadField, TxInfo};

/// The longest `tx_info` that is read. A transfer has about 700 bytes.
const MAX_JSON: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum BadTransfer {
    #[error("must be at most {MAX_JSON} bytes")]
    TooLong,
    #[error("is not the JSON of a transfer")]
    Json(#[source] serde_json::Error),
    #[error(transparent)]
    Field(BadField),
    #[error("Sig {0}")]
    Signature(NotASignature),
    #[error("L1Sig must be empty, or 0x and 130 hexadecimal digits with a low s")]
    WalletSignature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedTransfer {
    pub transfer: Transfer,
    signature: Signature,
    /// None between accounts of one wallet.
    wallet: Option<WalletSignature>,
}

impl SignedTransfer {
    /// Signs with the API key. The wallet's signature of `wallet_digest` is needed wherever the recipient has another
    /// wallet.
    pub fn new(
        transfer: Transfer,
        network: Network,
        key: &ApiKey,
        randomness: &[u8; 32],
        wallet: Option<WalletSignature>,
    ) -> Self {
        let wallet = wallet.map(|signature| signature.normalize_s().unwrap_or(signature));
        Self { transfer, signature: key.sign(&transfer.hash(network), randomness), wallet }
    }

    pub fn from_json(text: &str) -> Result<Self, BadTransfer> {
        if text.len() > MAX_JSON {
            return Err(BadTransfer::TooLong);
        }
        let info: TxInfo = serde_json::from_str(text).map_err(BadTransfer::Json)?;
        Ok(Self {
            transfer: info.transfer().map_err(BadTransfer::Field)?,
            signature: Signature::from_base64(&info.sig).map_err(BadTransfer::Signature)?,
            wallet: wallet_signature(&info.l1_sig)?,
        })
    }

    pub fn to_json(&self) -> String {
        let wallet = self.wallet.map(|signature| hex::encode_prefixed(signature.as_bytes())).unwrap_or_default();
        let info = TxInfo::of(&self.transfer, self.signature.to_base64(), wallet);
        serde_json::to_string(&info).expect("numbers and text are JSON")
    }

    pub fn hash(&self, network: Network) -> Digest {
        self.transfer.hash(network)
    }

    /// Whether the holder of the API key signed it. The memo is not covered.
    pub fn is_signed_by(&self, network: Network, key: &PublicKey) -> bool {
        key.verify(&self.hash(network), &self.signature)
    }

    /// The wallet that signed the text of this transfer, memo included. None without a signature.
    pub fn wallet(&self, network: Network) -> Option<Address> {
        self.wallet?.recover_address_from_prehash(&self.transfer.wallet_digest(network)).ok()
    }

    pub fn has_wallet_signature(&self) -> bool {
        self.wallet.is_some()
    }
}

fn wallet_signature(text: &str) -> Result<Option<WalletSignature>, BadTransfer> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut bytes = [0; 65];
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 130).ok_or(BadTransfer::WalletSignature)?;
    hex::decode_to_slice(digits, &mut bytes).map_err(|_| BadTransfer::WalletSignature)?;
    let signature = WalletSignature::from_raw_array(&bytes).map_err(|_| BadTransfer::WalletSignature)?;
    // A high s is the same signature in a second form.
    if signature.normalize_s().is_some() {
        return Err(BadTransfer::WalletSignature);
    }
    Ok(Some(signature))
}
