//! Answers of the venue, each checked against its question.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use domain::venue::{AccountIndex, Asset, TxStatus};
use serde::Deserialize;

use super::error::VenueError;
use crate::field::Digest;
use crate::key::PublicKey;
use crate::limits::{Expiry, Fee, KeyIndex, Nonce};
use crate::network::Network;
use crate::signed::SignedTransfer;
use crate::transfer::TX_TYPE;

/// The most accounts of one wallet that are read.
const MAX_ACCOUNTS: usize = 512;

fn invalid<E>(what: &'static str) -> impl FnOnce(E) -> VenueError {
    move |_| VenueError::Invalid(what)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Milliseconds on the venue's clock, to the second.
    pub time_millis: u64,
}

impl Status {
    /// The end of a transaction's life on the venue's clock. The venue's own signer gives a second less than ten
    /// minutes.
    pub fn expiry(&self, lifetime_millis: u64) -> Expiry {
        Expiry::after(self.time_millis, lifetime_millis)
    }
}

#[derive(Deserialize)]
pub(super) struct StatusAnswer {
    network_id: u64,
    timestamp: u64,
}

impl StatusAnswer {
    pub(super) fn checked(self, network: Network) -> Result<Status, VenueError> {
        if self.network_id != u64::from(network.0) {
            return Err(VenueError::Invalid("network_id is another network's"));
        }
        Ok(Status { time_millis: millis(self.timestamp).ok_or(VenueError::Invalid("timestamp"))? })
    }
}

/// An account's balances, in the smallest units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountState {
    pub index: AccountIndex,
    pub wallet: Address,
    /// Collateral in USDC, positions' share included.
    pub collateral: u64,
    /// The part of it that can leave.
    pub available: u64,
    /// Balances on the spot route.
    pub spot: BTreeMap<Asset, u64>,
}

#[derive(Deserialize)]
pub(super) struct Accounts {
    accounts: Vec<AccountAnswer>,
}

#[derive(Deserialize)]
struct AccountAnswer {
    index: u64,
    l1_address: String,
    collateral: String,
    available_balance: String,
    #[serde(default)]
    assets: Vec<AssetAnswer>,
}

#[derive(Deserialize)]
struct AssetAnswer {
    asset_id: u64,
    balance: String,
    #[serde(default)]
    locked_balance: String,
}

impl Accounts {
    pub(super) fn one(self, asked: AccountIndex) -> Result<Option<AccountState>, VenueError> {
        let mut accounts = self.accounts.into_iter();
        let Some(account) = accounts.next() else { return Ok(None) };
        if account.index != asked.get() || accounts.next().is_some() {
            return Err(VenueError::Invalid("accounts are not the one that was asked for"));
        }
        account.state().map(Some)
    }

    pub(super) fn of_wallet(self, wallet: Address) -> Result<Vec<AccountIndex>, VenueError> {
        if self.accounts.len() > MAX_ACCOUNTS {
            return Err(VenueError::Invalid("accounts are too many"));
        }
        let index = |account: AccountAnswer| match account.l1_address.parse::<Address>() {
            Ok(owner) if wallet == owner => AccountIndex::new(account.index).map_err(invalid("index")),
            _ => Err(VenueError::Invalid("l1_address is another wallet")),
        };
        let mut accounts = self.accounts.into_iter().map(index).collect::<Result<Vec<_>, _>>()?;
        // Main accounts have the small indexes.
        accounts.sort_unstable();
        accounts.dedup();
        Ok(accounts)
    }
}

impl AccountAnswer {
    fn state(self) -> Result<AccountState, VenueError> {
        let mut spot = BTreeMap::new();
        for asset in self.assets {
            let id = Asset::new(asset.asset_id).map_err(invalid("asset_id"))?;
            let balance = units(&asset.balance, id.decimals()).ok_or(VenueError::Invalid("balance"))?;
            let locked = Some(asset.locked_balance.as_str()).filter(|text| !text.is_empty());
            let locked = locked.map_or(Some(0), |text| units(text, id.decimals()));
            let free = balance.saturating_sub(locked.ok_or(VenueError::Invalid("locked_balance"))?);
            if spot.insert(id, free).is_some() {
                return Err(VenueError::Invalid("assets list one twice"));
            }
        }
        let usdc = |text: &str| units(text, Asset::USDC.decimals());
        let collateral = usdc(&self.collateral).ok_or(VenueError::Invalid("collateral"))?;
        let available = usdc(&self.available_balance).ok_or(VenueError::Invalid("available_balance"))?;
        Ok(AccountState {
            index: AccountIndex::new(self.index).map_err(invalid("index"))?,
            wallet: self.l1_address.parse().map_err(invalid("l1_address"))?,
            collateral,
            // Unrealised profit is no collateral that could be sent.
            available: available.min(collateral),
            spot,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct ApiKeys {
    api_keys: Vec<ApiKeyAnswer>,
}

#[derive(Deserialize)]
struct ApiKeyAnswer {
    account_index: u64,
    api_key_index: u64,
    public_key: String,
}

impl ApiKeys {
    pub(super) fn one(self, account: AccountIndex, key: KeyIndex) -> Result<Option<PublicKey>, VenueError> {
        let asked = |answer: &&ApiKeyAnswer| answer.api_key_index == u64::from(key.get());
        let Some(answer) = self.api_keys.iter().find(asked) else { return Ok(None) };
        if answer.account_index != account.get() {
            return Err(VenueError::Invalid("account_index is another account"));
        }
        answer.public_key.parse().map(Some).map_err(invalid("public_key"))
    }
}

#[derive(Deserialize)]
pub(super) struct NextNonce {
    nonce: u64,
}

impl NextNonce {
    pub(super) fn checked(self) -> Result<Nonce, VenueError> {
        Nonce::new(self.nonce).map_err(invalid("nonce"))
    }
}

#[derive(Deserialize)]
pub(super) struct FeeAnswer {
    transfer_fee_usdc: u64,
}

impl FeeAnswer {
    pub(super) fn checked(self) -> Result<Fee, VenueError> {
        Fee::new(self.transfer_fee_usdc).map_err(invalid("transfer_fee_usdc"))
    }
}

/// A transaction as the venue shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VenueTx {
    pub hash: Digest,
    pub status: TxStatus,
    /// Milliseconds on the venue's clock; orders' deadlines are held against it.
    pub queued_at: u64,
    /// None for a transaction of another kind.
    pub transfer: Option<SignedTransfer>,
}

#[derive(Deserialize)]
pub(super) struct TxAnswer {
    hash: String,
    #[serde(rename = "type")]
    kind: u64,
    info: String,
    status: u64,
    queued_at: u64,
}

impl TxAnswer {
    /// The hash is computed again from the fields that are shown. The memo is outside of it: it is the venue's word, or
    /// the wallet's where there is a signature of it.
    pub(super) fn checked(self, asked: Digest, network: Network) -> Result<VenueTx, VenueError> {
        if self.hash.parse() != Ok(asked) {
            return Err(VenueError::Invalid("hash is not the one that was asked for"));
        }
        let transfer = (self.kind == u64::from(TX_TYPE)).then(|| SignedTransfer::from_json(&self.info));
        let transfer = transfer.transpose().map_err(invalid("info"))?;
        if transfer.is_some_and(|transfer| transfer.hash(network) != asked) {
            return Err(VenueError::Invalid("info has another hash"));
        }
        Ok(VenueTx {
            hash: asked,
            status: TxStatus::new(self.status).map_err(invalid("status"))?,
            queued_at: millis(self.queued_at).ok_or(VenueError::Invalid("queued_at"))?,
            transfer,
        })
    }
}

/// A time of the venue in milliseconds. It writes seconds, milliseconds or microseconds, by member; today's values of
/// the three are far apart.
pub(super) fn millis(time: u64) -> Option<u64> {
    const SECONDS_END: u64 = 100_000_000_000;
    const MILLIS_END: u64 = SECONDS_END * 1_000;
    const MICROS_END: u64 = MILLIS_END * 1_000;
    match time {
        0 => None,
        1..SECONDS_END => Some(time * 1_000),
        SECONDS_END..MILLIS_END => Some(time),
        MILLIS_END..MICROS_END => Some(time / 1_000),
        MICROS_END.. => None,
    }
}

/// Decimal text in smallest units, rounded down; what is below zero is nothing.
pub(super) fn units(text: &str, decimals: u8) -> Option<u64> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || text.len() > 64 || !digits(whole) || !digits(part) {
        return None;
    }
    let places = usize::from(decimals);
    let part: String = part.chars().chain(std::iter::repeat('0')).take(places).collect();
    let units = format!("{whole}{part}").parse().ok()?;
    Some(if negative { 0 } else { units })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_text_becomes_units_without_a_float() {
        for (text, decimals, expected) in [
            ("0", 6, Some(0)),
            ("1", 6, Some(1_000_000)),
            ("1.5", 6, Some(1_500_000)),
            ("9007199254.740993", 6, Some(9_007_199_254_740_993)),
            ("0.0000019", 6, Some(1)),
            ("-3.5", 6, Some(0)),
            ("18446744073709.551615", 6, Some(u64::MAX)),
            ("18446744073709.551616", 6, None),
            ("1.00000001", 8, Some(100_000_001)),
            ("", 6, None),
            (".5", 6, None),
            ("1e3", 6, None),
            ("1.2.3", 6, None),
            ("+1", 6, None),
            ("--1", 6, None),
            ("NaN", 6, None),
        ] {
            assert_eq!(units(text, decimals), expected, "{text}");
        }
    }

    #[test]
    fn times_are_told_apart_by_their_size() {
        let expected = Some(1_794_855_214_000);
        assert_eq!(millis(1_794_855_214), expected);
        assert_eq!(millis(1_794_855_214_000), expected);
        assert_eq!(millis(1_794_855_214_000_000), expected);
        assert_eq!((millis(0), millis(u64::MAX)), (None, None));
    }

    #[test]
    fn an_account_that_was_not_asked_for_is_refused() {
        let text = r#"{"accounts":[{"index":7,"l1_address":"0x00000000000000000000000000000000000000aa",
            "collateral":"10","available_balance":"12.5","assets":[{"asset_id":1,"balance":"2","locked_balance":"0.5"}]}]}"#;
        let read = || serde_json::from_str::<Accounts>(text).unwrap();
        let state = read().one(AccountIndex::new(7).unwrap()).unwrap().unwrap();
        assert_eq!((state.collateral, state.available), (10_000_000, 10_000_000));
        assert_eq!(state.spot, BTreeMap::from([(Asset::ETH, 150_000_000)]));
        assert!(read().one(AccountIndex::new(8).unwrap()).is_err());
        assert!(read().of_wallet(Address::repeat_byte(1)).is_err());
        assert_eq!(read().of_wallet(Address::with_last_byte(0xaa)).unwrap(), [AccountIndex::new(7).unwrap()]);
    }
}
