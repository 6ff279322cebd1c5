//! Webhook endpoints of API keys, and below: posted events, their deliveries and the log of attempts.
//!
//! An event and the need to deliver it are one commit. A delivery row is the position of one event at one endpoint: a
//! cursor over the event table would pass rows of a unit that commits late, because Postgres numbers rows before they
//! are committed.

mod claims;
mod log;
mod posted;
mod publish;
mod signing;
mod upkeep;

use domain::api_key::ApiKeyId;
use domain::time::Timestamp;
use domain::webhook::{EndpointName, StatusFilter};

use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value};

pub use claims::{Candidate, Claim, Claimed, Done, Due, SwitchOff, claim, due, end_gone, record};
pub use log::{Attempt, Filter, Logged, Replay, list, replay, replay_failed, test};
pub use posted::{Posted, PostedAddress};
pub use publish::publish;
pub use signing::{SigningText, signing_texts};
pub use upkeep::{backlog, drop_ended, drop_old, prune};

/// The most endpoints of one key: each event of the key is a row for each of them.
pub const MAX_ENDPOINTS: i64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub i64);

/// An endpoint as stored. `sealed` holds its URL and headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub id: EndpointId,
    pub key: ApiKeyId,
    pub name: EndpointName,
    pub enabled: bool,
    pub statuses: StatusFilter,
    pub sealed: Vec<u8>,
    /// The reason why the service switched it off.
    pub disabled_because: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Changes of an endpoint by its owner.
#[derive(Clone, Debug)]
pub struct Settings {
    pub enabled: bool,
    pub statuses: StatusFilter,
    pub sealed: Vec<u8>,
}

macro_rules! columns {
    () => {
        "endpoint_id, key_id, name, enabled, statuses, sealed, disabled_because, created_at, updated_at"
    };
}

fn from_row(row: &Row) -> Result<Endpoint, StoreError> {
    Ok(Endpoint {
        id: EndpointId(row.int(0)?),
        key: row.text(1)?.parse().map_err(|_| unknown(1, "a key id"))?,
        name: row.text(2)?.parse().map_err(|_| unknown(2, "an endpoint's name"))?,
        enabled: row.bool(3)?,
        statuses: statuses(row, 4)?,
        sealed: row.bytes(5)?.to_vec(),
        disabled_because: row.opt_text(6)?.map(str::to_owned),
        created_at: row.time(7)?,
        updated_at: row.time(8)?,
    })
}

fn statuses(row: &Row, index: usize) -> Result<StatusFilter, StoreError> {
    let statuses = row.text(index)?.split_whitespace().map(|text| text.parse().map_err(|_| unknown(index, "a status")));
    Ok(StatusFilter::new(statuses.collect::<Result<_, _>>()?))
}

fn statuses_text(statuses: &StatusFilter) -> Value {
    let texts: Vec<_> = statuses.statuses().iter().map(|status| status.as_str()).collect();
    texts.join(" ").into()
}

/// The endpoint of a key by its name.
pub fn find(tx: &mut Tx<'_>, key: ApiKeyId, name: &EndpointName) -> Result<Option<Endpoint>, StoreError> {
    let sql = concat!("select ", columns!(), " from webhook_endpoint where key_id = $1 and name = $2");
    tx.row(sql, &[key.to_string().into(), name.as_str().into()])?.as_ref().map(from_row).transpose()
}

/// All endpoints of a key, by name.
pub fn endpoints(tx: &mut Tx<'_>, key: ApiKeyId) -> Result<Vec<Endpoint>, StoreError> {
    let sql = concat!("select ", columns!(), " from webhook_endpoint where key_id = $1 order by name limit $2");
    tx.rows(sql, &[key.to_string().into(), MAX_ENDPOINTS.into()])?.iter().map(from_row).collect()
}

/// The answer to a change of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    Stored(Endpoint),
    /// The key has as many endpoints as it may have.
    TooMany,
    /// The key is revoked.
    KeyEnded,
}

/// Creates or changes an endpoint. The owner's word replaces the reason for which it was switched off.
pub fn put(
    tx: &mut Tx<'_>,
    key: ApiKeyId,
    name: &EndpointName,
    settings: &Settings,
    now: Timestamp,
) -> Result<Put, StoreError> {
    let good = tx.row("select 1 from api_key where key_id = $1 and revoked_at is null", &[key.to_string().into()])?;
    if good.is_none() {
        return Ok(Put::KeyEnded);
    }
    let others = tx.row(
        "select count(*) from webhook_endpoint where key_id = $1 and name <> $2",
        &[key.to_string().into(), name.as_str().into()],
    )?;
    if others.ok_or(StoreError::ManyRows(0))?.int(0)? >= MAX_ENDPOINTS {
        return Ok(Put::TooMany);
    }
    let sql = concat!(
        "insert into webhook_endpoint (key_id, name, enabled, statuses, sealed, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $6)
         on conflict (key_id, name) do update set enabled = excluded.enabled, statuses = excluded.statuses,
         sealed = excluded.sealed, disabled_because = null, updated_at = excluded.updated_at
         returning ",
        columns!()
    );
    let row = tx.row(
        sql,
        &[
            key.to_string().into(),
            name.as_str().into(),
            settings.enabled.into(),
            statuses_text(&settings.statuses),
            (&settings.sealed).into(),
            now.into(),
        ],
    )?;
    Ok(Put::Stored(from_row(&row.ok_or(StoreError::ManyRows(0))?)?))
}

/// Deletes an endpoint. Its deliveries that are due are given up by [`drop_ended`], in small batches. True if there was
/// one.
pub fn delete(tx: &mut Tx<'_>, key: ApiKeyId, name: &EndpointName) -> Result<bool, StoreError> {
    let deleted = tx.execute(
        "delete from webhook_endpoint where key_id = $1 and name = $2",
        &[key.to_string().into(), name.as_str().into()],
    )?;
    Ok(deleted > 0)
}
