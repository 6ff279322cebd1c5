//! Posted events: the event row, the public view in it, and a delivery for every endpoint, in the commit of the step.

use alloy_primitives::B256;
use domain::time::Timestamp;
use domain::webhook::{Status, StatusFilter};

use super::{EndpointId, Posted, statuses};
use crate::requests::Request;
use crate::{StoreError, Tx, events};

/// An endpoint that is to hear of an event.
struct Listener {
    endpoint: EndpointId,
    name: String,
    statuses: StatusFilter,
    text_hash: B256,
}

/// Appends an event of a request that the unit has locked, in its present state, and posts it to the endpoints of its
/// key. Without an endpoint it is a plain event.
pub fn publish(
    tx: &mut Tx<'_>,
    request: &Request,
    rule: &str,
    figures: &serde_json::Value,
    now: Timestamp,
) -> Result<(), StoreError> {
    let listeners = listeners(tx, request)?;
    if listeners.is_empty() {
        return events::append(tx, request.id, request.state, rule, figures, now);
    }
    // The number comes from the request's own row, which this unit holds: counting event rows would make units of
    // neighbouring requests conflict on Postgres. The details too: the unit may have set them since it read the
    // request.
    let row = tx.row(
        "update request set posted_events = posted_events + 1 where request_id = $1 returning posted_events, details",
        &[request.id.into()],
    )?;
    let row = row.ok_or(StoreError::ManyRows(0))?;
    let ordinal = row.int(0)?;
    let posted = Posted::of(tx, request, row.opt_text(1)?)?;
    let event = tx.row(
        "insert into request_event (request_id, state, rule, figures, at, posted, ordinal)
         values ($1, $2, $3, $4, $5, $6, $7) returning sequence",
        &[
            request.id.into(),
            request.state.as_str().into(),
            rule.into(),
            figures.to_string().into(),
            now.into(),
            posted.text().into(),
            ordinal.into(),
        ],
    )?;
    let event = event.ok_or(StoreError::ManyRows(0))?.int(0)?;
    for listener in listeners {
        if listener.statuses.admits(posted.status) {
            deliver(tx, request, &listener, event, ordinal, posted.status, now)?;
        }
    }
    Ok(())
}

/// The endpoints of the request's key that are on, if the key is good.
fn listeners(tx: &mut Tx<'_>, request: &Request) -> Result<Vec<Listener>, StoreError> {
    let Some(key) = request.quote.ask.key else { return Ok(Vec::new()) };
    tx.rows(
        "select w.endpoint_id, w.name, w.statuses, t.hash from webhook_endpoint w
         join api_key k on k.key_id = w.key_id join api_key_text t on t.key_id = w.key_id
         where w.key_id = $1 and w.enabled and k.revoked_at is null and t.ends_at is null",
        &[key.to_string().into()],
    )?
    .iter()
    .map(|row| {
        Ok(Listener {
            endpoint: EndpointId(row.int(0)?),
            name: row.text(1)?.to_owned(),
            statuses: statuses(row, 2)?,
            text_hash: row.b256(3)?,
        })
    })
    .collect()
}

fn deliver(
    tx: &mut Tx<'_>,
    request: &Request,
    listener: &Listener,
    event: i64,
    ordinal: i64,
    status: Status,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into webhook_delivery (endpoint_id, key_id, endpoint, event, request_id, ordinal, status, text_hash,
         state, due_at, created_at, queued_at) values ($1, $2, $3, $4, $5, $6, $7, $8, 'due', $9, $9, $9)",
        &[
            listener.endpoint.0.into(),
            request.quote.ask.key.map(|key| key.to_string()).into(),
            (&listener.name).into(),
            event.into(),
            request.id.into(),
            ordinal.into(),
            status.as_str().into(),
            listener.text_hash.into(),
            now.into(),
        ],
    )?;
    Ok(())
}
