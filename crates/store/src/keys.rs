//! API keys. A key's text is looked up by its hash; the text itself is stored only sealed.

use std::fmt;

use alloy_primitives::Address;
use domain::api_key::{ApiKey, ApiKeyId, Family, KeyLimits, KeyText};
use domain::time::Timestamp;
use ring::digest;

use crate::columns::unknown;
use crate::sealing::{MasterKey, SealError};
use crate::{Row, StoreError, Tx, Value};

/// The lookup hash of a key's text. The text is 256 random bits, so a plain hash reveals nothing about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    pub fn of(text: &KeyText) -> Self {
        let mut hash = [0u8; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, text.expose().as_bytes()).as_ref());
        Self(hash)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash")
    }
}

/// A key's text as stored: hashed and sealed.
#[derive(Clone)]
pub struct StoredText {
    hash: KeyHash,
    sealed: Vec<u8>,
}

impl fmt::Debug for StoredText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredText")
    }
}

impl StoredText {
    /// `nonce` must be fresh randomness.
    pub fn new(id: ApiKeyId, text: &KeyText, master: &MasterKey, nonce: [u8; 12]) -> Result<Self, SealError> {
        let sealed = master.seal(&id.to_string(), text.expose(), nonce)?;
        Ok(Self { hash: KeyHash::of(text), sealed })
    }
}

macro_rules! columns {
    () => {
        "k.key_id, k.name, k.wallet, k.elevated, k.may_force_refund, k.quotes_rate, k.requests_rate,
         k.requests_v3_rate, k.transaction_status_rate, k.others_rate, k.created_at, k.rotated_at, k.revoked_at"
    };
}

fn from_row(row: &Row) -> Result<ApiKey, StoreError> {
    let mut limits = KeyLimits::new(row.bool(3)?);
    for (family, column) in Family::ALL.into_iter().zip(5..) {
        let rate = row.opt_text(column)?.map(|text| text.parse().map_err(|_| unknown(column, "a rate")));
        limits = limits.with(family, rate.transpose()?);
    }
    Ok(ApiKey {
        id: row.text(0)?.parse().map_err(|_| unknown(0, "a key id"))?,
        name: row.text(1)?.to_owned(),
        wallet: row.opt_address(2)?,
        limits,
        may_force_refund: row.bool(4)?,
        created_at: row.time(10)?,
        rotated_at: row.opt_time(11)?,
        revoked_at: row.opt_time(12)?,
    })
}

fn id_value(id: ApiKeyId) -> Value {
    id.to_string().into()
}

/// Inserts a new key with its first text.
pub fn create(tx: &mut Tx<'_>, key: &ApiKey, text: &StoredText) -> Result<(), StoreError> {
    tx.execute(
        "insert into api_key (key_id, name, wallet, elevated, may_force_refund, created_at)
         values ($1, $2, $3, $4, $5, $6)",
        &[
            id_value(key.id),
            (&key.name).into(),
            key.wallet.into(),
            key.limits.elevated.into(),
            key.may_force_refund.into(),
            key.created_at.into(),
        ],
    )?;
    set_limits(tx, key.id, key.limits)?;
    insert_text(tx, key.id, text, key.created_at)
}

fn insert_text(tx: &mut Tx<'_>, id: ApiKeyId, text: &StoredText, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into api_key_text (hash, key_id, sealed, created_at) values ($1, $2, $3, $4)",
        &[text.hash.0.into(), id_value(id), (&text.sealed).into(), now.into()],
    )?;
    Ok(())
}

/// The key a text opens now. None if the text is unknown, replaced or revoked: the caller learns no more.
pub fn by_hash(tx: &mut Tx<'_>, hash: KeyHash, now: Timestamp) -> Result<Option<ApiKey>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from api_key_text t join api_key k on k.key_id = t.key_id
         where t.hash = $1 and (t.ends_at is null or t.ends_at > $2) and k.revoked_at is null"
    );
    tx.row(sql, &[hash.0.into(), now.into()])?.as_ref().map(from_row).transpose()
}

pub fn find(tx: &mut Tx<'_>, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    let sql = concat!("select ", columns!(), " from api_key k where k.key_id = $1");
    tx.row(sql, &[id_value(id)])?.as_ref().map(from_row).transpose()
}

/// Keys in the order of their creation, after a given one.
pub fn list(tx: &mut Tx<'_>, after: Option<&ApiKey>, limit: u32) -> Result<Vec<ApiKey>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from api_key k where k.created_at > $1 or (k.created_at = $1 and k.key_id > $2)
         order by k.created_at, k.key_id limit $3"
    );
    let (at, id) = after.map_or((-1, String::new()), |key| (key.created_at.millis(), key.id.to_string()));
    tx.rows(sql, &[at.into(), id.into(), limit.into()])?.iter().map(from_row).collect()
}

/// The sealed text of a key, with which its webhooks are signed. None if the key is revoked or unknown.
pub fn sealed_text(tx: &mut Tx<'_>, id: ApiKeyId) -> Result<Option<Vec<u8>>, StoreError> {
    let row = tx.row(
        "select t.sealed from api_key_text t join api_key k on k.key_id = t.key_id
         where t.key_id = $1 and t.ends_at is null and k.revoked_at is null",
        &[id_value(id)],
    )?;
    row.map(|row| row.bytes(0).map(<[u8]>::to_vec)).transpose()
}

/// True if the key exists; returned by every change below.
type Found = Result<bool, StoreError>;

pub fn rename(tx: &mut Tx<'_>, id: ApiKeyId, name: &str) -> Found {
    Ok(tx.execute("update api_key set name = $2 where key_id = $1", &[id_value(id), name.into()])? > 0)
}

/// Gives a key a new text. The old text is valid until `old_ends`. A revoked key stays as it is.
pub fn rotate(tx: &mut Tx<'_>, id: ApiKeyId, text: &StoredText, old_ends: Timestamp, now: Timestamp) -> Found {
    let rotated = tx.execute(
        "update api_key set rotated_at = $2 where key_id = $1 and revoked_at is null",
        &[id_value(id), now.into()],
    )?;
    if rotated == 0 {
        return Ok(false);
    }
    // A text that was to end sooner still does.
    tx.execute(
        "update api_key_text set ends_at = $2 where key_id = $1 and (ends_at is null or ends_at > $2)",
        &[id_value(id), old_ends.into()],
    )?;
    insert_text(tx, id, text, now)?;
    Ok(true)
}

/// Revokes a key for good.
pub fn revoke(tx: &mut Tx<'_>, id: ApiKeyId, now: Timestamp) -> Found {
    let changed = tx.execute(
        "update api_key set revoked_at = coalesce(revoked_at, $2) where key_id = $1",
        &[id_value(id), now.into()],
    )?;
    Ok(changed > 0)
}

pub fn set_limits(tx: &mut Tx<'_>, id: ApiKeyId, limits: KeyLimits) -> Found {
    let rate = |family| Value::from(limits.own(family).map(|rate| rate.to_string()));
    let changed = tx.execute(
        "update api_key set elevated = $2, quotes_rate = $3, requests_rate = $4, requests_v3_rate = $5,
         transaction_status_rate = $6, others_rate = $7 where key_id = $1",
        &[
            id_value(id),
            limits.elevated.into(),
            rate(Family::Quotes),
            rate(Family::Requests),
            rate(Family::RequestsV3),
            rate(Family::TransactionStatus),
            rate(Family::Others),
        ],
    )?;
    Ok(changed > 0)
}

pub fn set_may_force_refund(tx: &mut Tx<'_>, id: ApiKeyId, may: bool) -> Found {
    let changed =
        tx.execute("update api_key set may_force_refund = $2 where key_id = $1", &[id_value(id), may.into()])?;
    Ok(changed > 0)
}

/// Links a wallet to a key, replacing any other. A revoked key stays as it is.
pub fn set_wallet(tx: &mut Tx<'_>, id: ApiKeyId, wallet: Address) -> Found {
    let changed = tx.execute(
        "update api_key set wallet = $2 where key_id = $1 and revoked_at is null",
        &[id_value(id), wallet.into()],
    )?;
    Ok(changed > 0)
}
