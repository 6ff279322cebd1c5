//! The log of deliveries that the owner of a key reads, and its replays and tests.

use domain::api_key::ApiKeyId;
use domain::ids::RequestId;
use domain::time::Timestamp;
use domain::webhook::{DeliveryState, EndpointName, Status};

use super::EndpointId;
use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value};

/// Attempts that are shown of one delivery, the newest: a delivery has eleven, and more only after replays.
const MAX_ATTEMPTS: i64 = 20;
/// Deliveries that one call replays.
const MAX_REPLAYS: i64 = 500;

/// A delivery and its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub id: i64,
    pub endpoint: String,
    /// None for a test.
    pub request: Option<RequestId>,
    pub ordinal: u64,
    pub status: String,
    pub state: DeliveryState,
    pub due_at: Timestamp,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub ended_because: Option<String>,
    /// In order of time.
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub at: Timestamp,
    /// None while it is under way, and where the process died meanwhile.
    pub duration_millis: Option<i64>,
    pub code: Option<i64>,
    pub error: Option<String>,
    pub body: Option<String>,
}

/// The deliveries that are asked for.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub id: Option<i64>,
    pub endpoint: Option<EndpointName>,
    pub request: Option<RequestId>,
    pub status: Option<Status>,
    pub state: Option<DeliveryState>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Only those before this one.
    pub before: Option<i64>,
}

impl Filter {
    /// The conditions and their arguments; `$1` is the key.
    fn conditions(&self, key: ApiKeyId) -> (String, Vec<Value>) {
        let mut sql = "key_id = $1".to_owned();
        let mut args: Vec<Value> = vec![key.to_string().into()];
        let parts: [(&str, Option<Value>); 8] = [
            ("delivery_id =", self.id.map(Value::from)),
            ("endpoint =", self.endpoint.as_ref().map(|name| name.as_str().into())),
            ("request_id =", self.request.map(Value::from)),
            ("status =", self.status.map(|status| status.as_str().into())),
            ("state =", self.state.map(|state| state.as_str().into())),
            ("created_at >=", self.since.map(Value::from)),
            ("created_at <=", self.until.map(Value::from)),
            ("delivery_id <", self.before.map(Value::from)),
        ];
        for (condition, value) in parts {
            if let Some(value) = value {
                args.push(value);
                sql.push_str(&format!(" and {condition} ${}", args.len()));
            }
        }
        (sql, args)
    }
}

/// Deliveries of a key, the newest first.
pub fn list(tx: &mut Tx<'_>, key: ApiKeyId, filter: &Filter, most: u32) -> Result<Vec<Logged>, StoreError> {
    let (conditions, mut args) = filter.conditions(key);
    args.push(most.into());
    let sql = format!(
        "select delivery_id, endpoint, request_id, ordinal, status, state, due_at, created_at, ended_at, ended_because
         from webhook_delivery where {conditions} order by delivery_id desc limit ${}",
        args.len()
    );
    let rows = tx.rows_dynamic(&sql, &args)?;
    rows.iter().map(|row| logged(tx, row)).collect()
}

fn logged(tx: &mut Tx<'_>, row: &Row) -> Result<Logged, StoreError> {
    let id = row.int(0)?;
    Ok(Logged {
        id,
        endpoint: row.text(1)?.to_owned(),
        request: row.opt_request_id(2)?,
        ordinal: row.uint(3)?,
        status: row.text(4)?.to_owned(),
        state: DeliveryState::parse(row.text(5)?).ok_or(unknown(5, "a state"))?,
        due_at: row.time(6)?,
        created_at: row.time(7)?,
        ended_at: row.opt_time(8)?,
        ended_because: row.opt_text(9)?.map(str::to_owned),
        attempts: attempts(tx, id)?,
    })
}

fn attempts(tx: &mut Tx<'_>, delivery: i64) -> Result<Vec<Attempt>, StoreError> {
    let rows = tx.rows(
        "select started_at, duration_millis, code, error, body from webhook_attempt where delivery_id = $1
         order by attempt_id desc limit $2",
        &[delivery.into(), MAX_ATTEMPTS.into()],
    )?;
    let attempt = |row: &Row| {
        Ok(Attempt {
            at: row.time(0)?,
            duration_millis: row.opt_int(1)?,
            code: row.opt_int(2)?,
            error: row.opt_text(3)?.map(str::to_owned),
            body: row.opt_text(4)?.map(str::to_owned),
        })
    };
    rows.iter().rev().map(attempt).collect()
}

/// The answer to a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    Due,
    /// It is being posted, and is left to the process that does so.
    UnderWay,
    /// No such delivery of the key.
    Unknown,
    /// Its endpoint is deleted or switched off.
    NoEndpoint,
    /// Its event was deleted with its request: there is nothing to post.
    NoEvent,
}

/// Makes a delivery due again, as if it had never been tried. Its id stays.
pub fn replay(tx: &mut Tx<'_>, key: ApiKeyId, id: i64, now: Timestamp) -> Result<Replay, StoreError> {
    let row = tx.row(
        "select w.endpoint_id, d.request_id, e.posted from webhook_delivery d
         left join webhook_endpoint w on w.endpoint_id = d.endpoint_id and w.enabled
         left join request_event e on e.sequence = d.event
         where d.key_id = $1 and d.delivery_id = $2",
        &[key.to_string().into(), id.into()],
    )?;
    let Some(row) = row else { return Ok(Replay::Unknown) };
    if row.opt_int(0)?.is_none() {
        return Ok(Replay::NoEndpoint);
    }
    if row.opt_request_id(1)?.is_some() && row.opt_text(2)?.is_none() {
        return Ok(Replay::NoEvent);
    }
    let changed = tx.execute(
        "update webhook_delivery set state = 'due', failed = 0, due_at = $2, queued_at = $2, first_tried_at = null,
         ended_at = null, ended_because = null where delivery_id = $1 and claimed_by is null",
        &[id.into(), now.into()],
    )?;
    Ok(if changed > 0 { Replay::Due } else { Replay::UnderWay })
}

/// Makes failed deliveries since a time due again, the oldest first, at most 500 in one call, but for those whose event
/// is gone. Returns their number and whether there may be more.
pub fn replay_failed(
    tx: &mut Tx<'_>,
    key: ApiKeyId,
    endpoint: Option<&EndpointName>,
    since: Timestamp,
    now: Timestamp,
) -> Result<(u64, bool), StoreError> {
    let changed = tx.execute(
        "update webhook_delivery set state = 'due', failed = 0, due_at = $4, queued_at = $4, first_tried_at = null,
         ended_at = null, ended_because = null where delivery_id in
         (select d.delivery_id from webhook_delivery d
          join webhook_endpoint w on w.endpoint_id = d.endpoint_id and w.enabled
          join request_event e on e.sequence = d.event and e.posted is not null
          where d.key_id = $1 and d.state = 'failed' and d.created_at >= $2 and d.request_id is not null
          and ($3 = '' or d.endpoint = $3) order by d.created_at, d.delivery_id limit $5)",
        &[
            key.to_string().into(),
            since.into(),
            endpoint.map_or("", EndpointName::as_str).into(),
            now.into(),
            MAX_REPLAYS.into(),
        ],
    )?;
    Ok((changed, i64::try_from(changed).is_ok_and(|changed| changed == MAX_REPLAYS)))
}

/// Queues a test for an endpoint of a key that is good, and returns its delivery. It belongs to no request and is tried
/// once.
pub fn test(tx: &mut Tx<'_>, endpoint: EndpointId, now: Timestamp) -> Result<Option<i64>, StoreError> {
    let row = tx.row(
        "insert into webhook_delivery (endpoint_id, key_id, endpoint, ordinal, status, text_hash, state, due_at,
         created_at, queued_at) select w.endpoint_id, w.key_id, w.name, 0, 'success', t.hash, 'due', $2, $2, $2
         from webhook_endpoint w join api_key k on k.key_id = w.key_id join api_key_text t on t.key_id = w.key_id
         where w.endpoint_id = $1 and w.enabled and k.revoked_at is null and t.ends_at is null returning delivery_id",
        &[endpoint.0.into(), now.into()],
    )?;
    row.map(|row| row.int(0)).transpose()
}
