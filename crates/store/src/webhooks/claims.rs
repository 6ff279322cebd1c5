//! Deliveries that are due, shared by the processes that post them: each is claimed before it is posted.
//!
//! A claim is a lease of one row. It ends with its result, with the life of its process, or by the database's clock.
//! Its number changes with every claim, and a result under an earlier number changes nothing.

use std::time::Duration;

use alloy_primitives::B256;
use domain::api_key::ApiKeyId;
use domain::ids::RequestId;
use domain::time::Timestamp;
use domain::webhook::{AfterAttempt, EndpointName};

use super::{EndpointId, Posted};
use crate::columns::unknown;
use crate::{Row, StoreError, Tx};

/// Rows of one endpoint that are passed over in one read because they cannot be posted.
const MAX_PASSED_OVER: i64 = 64;

/// A delivery that may be claimed.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: i64,
    pub claim: i64,
    pub endpoint: EndpointId,
    pub endpoint_name: EndpointName,
    pub key: ApiKeyId,
    /// URL and headers of the endpoint.
    pub sealed: Vec<u8>,
    /// The key text that signs it.
    pub text_hash: B256,
    /// Failed attempts so far.
    pub failed: u32,
    /// None for a test.
    pub event: Option<(RequestId, Posted)>,
    pub ordinal: u64,
    /// The time of the event.
    pub at: Timestamp,
}

/// Endpoints that are on and have something due, after an id, in order. Each costs one look at an index, however long
/// its backlog is.
fn endpoints(tx: &mut Tx<'_>, after: EndpointId, now: Timestamp, most: i64) -> Result<Vec<EndpointId>, StoreError> {
    tx.rows(
        "with recursive e(id) as (
           select min(endpoint_id) from webhook_delivery where state = 'due' and endpoint_id > $1
           union all
           select (select min(d.endpoint_id) from webhook_delivery d where d.state = 'due' and d.endpoint_id > e.id)
           from e where e.id is not null
         )
         select e.id from e where e.id is not null
         and (select min(d.due_at) from webhook_delivery d where d.state = 'due' and d.endpoint_id = e.id) <= $2
         and exists (select 1 from webhook_endpoint w join api_key k on k.key_id = w.key_id
                     where w.endpoint_id = e.id and w.enabled and k.revoked_at is null)
         limit $3",
        &[after.0.into(), now.into(), most.into()],
    )?
    .iter()
    .map(|row| row.int(0).map(EndpointId))
    .collect()
}

/// Deliveries of some endpoints that are due.
#[derive(Clone, Debug, Default)]
pub struct Due {
    pub candidates: Vec<Candidate>,
    /// Deliveries whose event is gone, to be ended by [`end_gone`].
    pub gone: Vec<Claim>,
    /// Rows that this build cannot read. They are left to the newer process that wrote them.
    pub unreadable: usize,
    /// The endpoint to go on after, None after the last.
    pub next: Option<EndpointId>,
}

/// Deliveries to claim: of each endpoint after an id as many as `room` says, oldest first. An event waits for the
/// earlier events of its request until `hold` after their first attempt. A row that cannot be posted holds up no other.
pub fn due(
    tx: &mut Tx<'_>,
    after: EndpointId,
    most_endpoints: i64,
    hold: Duration,
    now: Timestamp,
    room: impl Fn(EndpointId) -> i64,
) -> Result<Due, StoreError> {
    let endpoints = endpoints(tx, after, now, most_endpoints)?;
    let more = i64::try_from(endpoints.len()).is_ok_and(|count| count == most_endpoints);
    let mut due = Due { next: endpoints.last().copied().filter(|_| more), ..Due::default() };
    let held_since = now.millis().saturating_sub(i64::try_from(hold.as_millis()).unwrap_or(i64::MAX));
    for endpoint in endpoints {
        let room = room(endpoint);
        if room <= 0 {
            continue;
        }
        let mut found = of_endpoint(tx, endpoint, now, held_since, room)?;
        if !found.gone.is_empty() || found.unreadable > 0 {
            // They may have taken the places of others.
            found = of_endpoint(tx, endpoint, now, held_since, room.saturating_add(MAX_PASSED_OVER))?;
        }
        due.candidates.extend(found.candidates.into_iter().take(usize::try_from(room).unwrap_or_default()));
        due.gone.extend(found.gone);
        due.unreadable += found.unreadable;
    }
    Ok(due)
}

fn of_endpoint(
    tx: &mut Tx<'_>,
    endpoint: EndpointId,
    now: Timestamp,
    held_since: i64,
    most: i64,
) -> Result<Due, StoreError> {
    let rows = tx.rows(
        "select d.delivery_id, d.claim, d.endpoint_id, w.name, w.key_id, w.sealed, d.text_hash, d.failed,
         d.request_id, e.posted, d.ordinal, coalesce(e.at, d.created_at)
         from webhook_delivery d join webhook_endpoint w on w.endpoint_id = d.endpoint_id
         left join request_event e on e.sequence = d.event
         where d.endpoint_id = $1 and d.state = 'due' and d.due_at <= $2 and w.enabled
         and (d.claimed_by is null or d.claimed_until <= {now_ms}
              or not exists (select 1 from instance i
                             where i.instance_id = d.claimed_by and i.expires_at > {now_ms}))
         and not exists (select 1 from webhook_delivery b where b.state = 'due' and b.request_id = d.request_id
                         and b.endpoint_id = d.endpoint_id and b.ordinal < d.ordinal
                         and (b.first_tried_at is null or b.first_tried_at > $3))
         order by d.due_at, d.delivery_id limit $4",
        &[endpoint.0.into(), now.into(), held_since.into(), most.into()],
    )?;
    let mut due = Due::default();
    for row in &rows {
        match candidate(row) {
            Ok(Some(candidate)) => due.candidates.push(candidate),
            Ok(None) => due.gone.push(Claim { id: row.int(0)?, seen: row.int(1)? }),
            // No statement has failed: the row has a format or a text that this build does not know.
            Err(_) => due.unreadable += 1,
        }
    }
    Ok(due)
}

/// None if its event is gone.
fn candidate(row: &Row) -> Result<Option<Candidate>, StoreError> {
    let event = match (row.opt_request_id(8)?, Posted::from_column(row, 9)?) {
        (Some(request), Some(posted)) => Some((request, posted)),
        (None, None) => None,
        (Some(_), None) => return Ok(None),
        (None, Some(_)) => return Err(unknown(9, "the posted view of an event")),
    };
    Ok(Some(Candidate {
        id: row.int(0)?,
        claim: row.int(1)?,
        endpoint: EndpointId(row.int(2)?),
        endpoint_name: row.text(3)?.parse().map_err(|_| unknown(3, "an endpoint's name"))?,
        key: row.text(4)?.parse().map_err(|_| unknown(4, "a key id"))?,
        sealed: row.bytes(5)?.to_vec(),
        text_hash: row.b256(6)?,
        failed: row.u32(7)?,
        event,
        ordinal: row.uint(10)?,
        at: row.time(11)?,
    }))
}

/// Ends deliveries whose event is gone. Those that changed since they were seen are left out.
pub fn end_gone(tx: &mut Tx<'_>, gone: &[Claim], now: Timestamp) -> Result<(), StoreError> {
    for seen in gone {
        tx.execute(
            "update webhook_delivery set state = 'failed', ended_at = $3, ended_because = 'its event is gone',
             claimed_by = null where delivery_id = $1 and claim = $2 and state = 'due'",
            &[seen.id.into(), seen.seen.into(), now.into()],
        )?;
    }
    Ok(())
}

/// The claim to make: a delivery as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub id: i64,
    pub seen: i64,
}

/// A claimed delivery, with its attempt on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub id: i64,
    pub claim: i64,
    pub attempt: i64,
}

/// Claims deliveries and records their attempts, before anything is posted. Those that changed since they were seen are
/// left out.
pub fn claim(
    tx: &mut Tx<'_>,
    claims: &[Claim],
    instance: &str,
    ttl: Duration,
    now: Timestamp,
) -> Result<Vec<Claimed>, StoreError> {
    let ttl_millis = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 2);
    let mut claimed = Vec::with_capacity(claims.len());
    for wanted in claims {
        let row = tx.row(
            "update webhook_delivery set claim = claim + 1, claimed_by = $3, claimed_until = {now_ms} + $4,
             first_tried_at = coalesce(first_tried_at, $5) where delivery_id = $1 and claim = $2 and state = 'due'
             returning claim",
            &[wanted.id.into(), wanted.seen.into(), instance.into(), ttl_millis.into(), now.into()],
        )?;
        let Some(row) = row else { continue };
        let attempt = tx.row(
            "insert into webhook_attempt (delivery_id, started_at) values ($1, $2) returning attempt_id",
            &[wanted.id.into(), now.into()],
        )?;
        let attempt = attempt.ok_or(StoreError::ManyRows(0))?.int(0)?;
        claimed.push(Claimed { id: wanted.id, claim: row.int(0)?, attempt });
    }
    Ok(claimed)
}

/// The result of an attempt.
#[derive(Clone, Debug)]
pub struct Done {
    pub claimed: Claimed,
    pub endpoint: EndpointId,
    pub duration: Duration,
    pub code: Option<u16>,
    pub error: Option<String>,
    /// The start of the answer's body.
    pub body: Option<String>,
    pub after: AfterAttempt,
    pub switch_off: Option<SwitchOff>,
}

/// The receiver's word that its endpoint is to be switched off.
#[derive(Clone, Debug)]
pub struct SwitchOff {
    pub because: &'static str,
    /// The sealed target that was posted to: another one has not said so.
    pub seen: Vec<u8>,
}

/// True if the owner has changed an endpoint, which is on, since its target was seen.
fn is_changed(tx: &mut Tx<'_>, endpoint: EndpointId, seen: &[u8]) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from webhook_endpoint where endpoint_id = $1 and enabled and sealed <> $2",
        &[endpoint.0.into(), seen.into()],
    )?;
    Ok(row.is_some())
}

/// Completes an attempt and moves its delivery, unless another process has claimed it meanwhile. Recording it again
/// changes nothing. Where the endpoint was to be switched off and its owner has changed it meanwhile, it stays on and
/// the delivery goes to its new target.
pub fn record(tx: &mut Tx<'_>, done: &Done, now: Timestamp) -> Result<(), StoreError> {
    let duration = i64::try_from(done.duration.as_millis()).unwrap_or(i64::MAX);
    tx.execute(
        "update webhook_attempt set duration_millis = $2, code = $3, error = $4, body = $5 where attempt_id = $1",
        &[
            done.claimed.attempt.into(),
            duration.into(),
            done.code.into(),
            done.error.clone().into(),
            done.body.clone().into(),
        ],
    )?;
    let changed = match &done.switch_off {
        Some(off) => is_changed(tx, done.endpoint, &off.seen)?,
        None => false,
    };
    let switch_off = done.switch_off.as_ref().filter(|_| !changed).map(|off| off.because);
    let (id, claim) = (done.claimed.id.into(), done.claimed.claim.into());
    let after = if changed { AfterAttempt::Again { at: now } } else { done.after };
    let moved = match after {
        AfterAttempt::Delivered => tx.execute(
            "update webhook_delivery set state = 'delivered', ended_at = $3, claimed_by = null
             where delivery_id = $1 and claim = $2 and claimed_by is not null and state = 'due'",
            &[id, claim, now.into()],
        )?,
        AfterAttempt::Again { at } => tx.execute(
            "update webhook_delivery set failed = failed + 1, due_at = $3, claimed_by = null
             where delivery_id = $1 and claim = $2 and claimed_by is not null and state = 'due'",
            &[id, claim, at.into()],
        )?,
        AfterAttempt::GivenUp => tx.execute(
            "update webhook_delivery set failed = failed + 1, state = 'failed', ended_at = $3, ended_because = $4,
             claimed_by = null
             where delivery_id = $1 and claim = $2 and claimed_by is not null and state = 'due'",
            &[id, claim, now.into(), switch_off.unwrap_or("every attempt failed").into()],
        )?,
    };
    if let Some(why) = switch_off.filter(|_| moved > 0) {
        tx.execute(
            "update webhook_endpoint set enabled = $2, disabled_because = $3, updated_at = $4
             where endpoint_id = $1 and enabled",
            &[done.endpoint.0.into(), false.into(), why.into(), now.into()],
        )?;
    }
    Ok(())
}
