//! The JSON of a transfer, as it is sent (`tx_info`) and as the venue gives it back (`info`).

use std::collections::BTreeMap;

use domain::venue::{AccountIndex, Asset, Memo, OutOfVenueRange, Route, Units};
use serde::{Deserialize, Serialize};

use crate::limits::{Expiry, Fee, KeyIndex, Nonce, OutOfTransferRange};
use crate::transfer::Transfer;

/// The attribute's name in JSON, where keys are text.
const SKIP_NONCE: &str = "4";

/// Members in the order of the venue's own signer. Members that it may add are not read: what they would change is in
/// the hash, which is compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TxInfo {
    from_account_index: u64,
    api_key_index: u64,
    to_account_index: u64,
    asset_index: u64,
    from_route_type: u64,
    to_route_type: u64,
    amount: u64,
    #[serde(rename = "USDCFee")]
    usdc_fee: u64,
    /// 32 numbers.
    memo: Vec<u8>,
    expired_at: u64,
    nonce: u64,
    /// Base64.
    pub(crate) sig: String,
    /// `0x` and 130 digits; empty between accounts of one wallet.
    #[serde(rename = "L1Sig", default)]
    pub(crate) l1_sig: String,
    #[serde(rename = "L2TxAttributes", default)]
    attributes: Option<BTreeMap<String, u64>>,
}

/// The first member that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadField {
    #[error("{0} {1}")]
    Venue(&'static str, OutOfVenueRange),
    #[error("{0} {1}")]
    Transfer(&'static str, OutOfTransferRange),
    #[error("Memo must be 32 bytes")]
    Memo,
    #[error("L2TxAttributes must be null or skip the nonce")]
    Attributes,
}

impl TxInfo {
    pub(crate) fn of(transfer: &Transfer, sig: String, l1_sig: String) -> Self {
        Self {
            from_account_index: transfer.from.get(),
            api_key_index: transfer.key_index.get().into(),
            to_account_index: transfer.to.get(),
            asset_index: transfer.asset.get().into(),
            from_route_type: transfer.from_route.get().into(),
            to_route_type: transfer.to_route.get().into(),
            amount: transfer.amount.get(),
            usdc_fee: transfer.usdc_fee.get(),
            memo: transfer.memo.0.to_vec(),
            expired_at: transfer.expires_at.get(),
            nonce: transfer.nonce.get(),
            sig,
            l1_sig,
            attributes: transfer.skips_nonces.then(|| BTreeMap::from([(SKIP_NONCE.to_owned(), 1)])),
        }
    }

    pub(crate) fn transfer(&self) -> Result<Transfer, BadField> {
        let venue = |name| move |error| BadField::Venue(name, error);
        let ours = |name| move |error| BadField::Transfer(name, error);
        let memo = <[u8; 32]>::try_from(self.memo.as_slice()).map_err(|_| BadField::Memo)?;
        Ok(Transfer {
            from: AccountIndex::new(self.from_account_index).map_err(venue("FromAccountIndex"))?,
            key_index: KeyIndex::new(self.api_key_index).map_err(ours("ApiKeyIndex"))?,
            to: AccountIndex::new(self.to_account_index).map_err(venue("ToAccountIndex"))?,
            asset: Asset::new(self.asset_index).map_err(venue("AssetIndex"))?,
            from_route: Route::new(self.from_route_type).map_err(venue("FromRouteType"))?,
            to_route: Route::new(self.to_route_type).map_err(venue("ToRouteType"))?,
            amount: Units::new(self.amount).map_err(venue("Amount"))?,
            usdc_fee: Fee::new(self.usdc_fee).map_err(ours("USDCFee"))?,
            memo: Memo(memo.into()),
            expires_at: Expiry::new(self.expired_at).map_err(ours("ExpiredAt"))?,
            nonce: Nonce::new(self.nonce).map_err(ours("Nonce"))?,
            skips_nonces: self.skips_nonces()?,
        })
    }

    fn skips_nonces(&self) -> Result<bool, BadField> {
        let Some(attributes) = &self.attributes else { return Ok(false) };
        // An attribute of zero is none, to the venue's hash too.
        let mut set = attributes.iter().filter(|(_, value)| **value != 0);
        match (set.next(), set.next()) {
            (None, _) => Ok(false),
            (Some((name, 1)), None) if name == SKIP_NONCE => Ok(true),
            _ => Err(BadField::Attributes),
        }
    }
}
