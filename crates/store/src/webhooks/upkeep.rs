//! Upkeep of deliveries, in small batches: those nobody will take, those that are too old, and the old log.

use domain::time::Timestamp;

use crate::{StoreError, Tx, Value};

/// Rows that one batch changes: a batch must not hold up payments.
const ROWS_PER_BATCH: i64 = 200;

fn is_full(changed: u64) -> bool {
    i64::try_from(changed).is_ok_and(|changed| changed == ROWS_PER_BATCH)
}

/// Gives up deliveries whose endpoint is deleted or whose key is revoked. Returns whether there may be more.
pub fn drop_ended(tx: &mut Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let ended = tx.row(
        "with recursive e(id) as (
           select min(endpoint_id) from webhook_delivery where state = 'due'
           union all
           select (select min(d.endpoint_id) from webhook_delivery d where d.state = 'due' and d.endpoint_id > e.id)
           from e where e.id is not null
         )
         select e.id from e where e.id is not null
         and not exists (select 1 from webhook_endpoint w join api_key k on k.key_id = w.key_id
                         where w.endpoint_id = e.id and k.revoked_at is null)
         limit 1",
        &[],
    )?;
    let Some(ended) = ended else { return Ok(false) };
    tx.execute(
        "update webhook_delivery set state = 'failed', ended_at = $2, ended_because = 'its endpoint has ended',
         claimed_by = null where delivery_id in
         (select delivery_id from webhook_delivery where state = 'due' and endpoint_id = $1 order by due_at limit $3)",
        &[ended.int(0)?.into(), now.into(), Value::Int(ROWS_PER_BATCH)],
    )?;
    Ok(true)
}

/// Gives up deliveries that have been due since before a time. Returns whether there may be more.
pub fn drop_old(tx: &mut Tx<'_>, before: Timestamp, now: Timestamp) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "update webhook_delivery set state = 'failed', ended_at = $2, ended_because = 'too old', claimed_by = null
         where delivery_id in (select delivery_id from webhook_delivery where state = 'due' and queued_at < $1
         and (claimed_by is null or claimed_until <= {now_ms}) order by queued_at limit $3)",
        &[before.into(), now.into(), Value::Int(ROWS_PER_BATCH)],
    )?;
    Ok(is_full(changed))
}

/// Deletes deliveries that ended before a time, and their attempts. Returns whether there may be more.
pub fn prune(tx: &mut Tx<'_>, before: Timestamp) -> Result<bool, StoreError> {
    let args = [before.into(), Value::Int(ROWS_PER_BATCH)];
    tx.execute(
        "delete from webhook_attempt where delivery_id in
         (select delivery_id from webhook_delivery where ended_at is not null and ended_at < $1
          order by ended_at, delivery_id limit $2)",
        &args,
    )?;
    let gone = tx.execute(
        "delete from webhook_delivery where delivery_id in
         (select delivery_id from webhook_delivery where ended_at is not null and ended_at < $1
          order by ended_at, delivery_id limit $2)",
        &args,
    )?;
    Ok(is_full(gone))
}

/// Deliveries that are due, up to a bound, and when the oldest of them became so.
pub fn backlog(tx: &mut Tx<'_>) -> Result<(u64, Option<Timestamp>), StoreError> {
    let row = tx.row(
        "select count(*), min(queued_at) from
         (select queued_at from webhook_delivery where state = 'due' order by queued_at limit 10000) d",
        &[],
    )?;
    let row = row.ok_or(StoreError::ManyRows(0))?;
    Ok((row.uint(0)?, row.opt_time(1)?))
}
