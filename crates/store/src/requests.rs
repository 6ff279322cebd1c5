//! Requests, and the quotes they begin as.

use std::str::FromStr;

use domain::fail::{FailReason, RefundFailReason};
use domain::ids::{OrderId, RequestId};
use domain::quote::Quote;
use domain::request::{Next, State};
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::records::Direction;
use crate::{Row, StoreError, Tx, Value, records, stored_quote};

/// A transfer and its state. A quote nobody has acted on reads as a waiting request.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: RequestId,
    pub order_id: OrderId,
    pub state: State,
    pub fail_reason: Option<FailReason>,
    pub refund_fail_reason: Option<RefundFailReason>,
    pub details: Option<String>,
    pub quote: Quote,
    pub updated_at: Timestamp,
    /// The parent request: this one's deposit named its order without paying for it.
    pub parent: Option<RequestId>,
}

macro_rules! columns {
    () => {
        "request_id, order_id, state, fail_reason, refund_fail_reason, details, quote, updated_at, parent_id"
    };
}

fn from_row(row: &Row) -> Result<Request, StoreError> {
    Ok(Request {
        id: RequestId(row.b256(0)?),
        order_id: OrderId(row.b256(1)?),
        state: State::parse(row.text(2)?).ok_or(unknown(2, "a state"))?,
        fail_reason: reason(row, 3)?,
        refund_fail_reason: reason(row, 4)?,
        details: row.opt_text(5)?.map(str::to_owned),
        quote: stored_quote::of(row, 6)?,
        updated_at: Timestamp::from_millis(row.int(7)?),
        parent: row.opt_b256(8)?.map(RequestId),
    })
}

fn reason<R: FromStr>(row: &Row, index: usize) -> Result<Option<R>, StoreError> {
    row.opt_text(index)?.map(R::from_str).transpose().map_err(|_| unknown(index, "a reason"))
}

/// The request, else the quote it would begin as. For reading only.
pub fn find(tx: &mut Tx<'_>, id: RequestId) -> Result<Option<Request>, StoreError> {
    let sql = concat!("select ", columns!(), " from request where request_id = $1");
    if let Some(row) = tx.row(sql, &[id.0.into()])? {
        return from_row(&row).map(Some);
    }
    let unpaid = tx.row("select order_id, created_at, body from quote where request_id = $1", &[id.0.into()])?;
    unpaid
        .map(|row| {
            Ok(Request {
                id,
                order_id: OrderId(row.b256(0)?),
                state: State::Waiting,
                fail_reason: None,
                refund_fail_reason: None,
                details: None,
                quote: stored_quote::of(&row, 2)?,
                updated_at: Timestamp::from_millis(row.int(1)?),
                parent: None,
            })
        })
        .transpose()
}

/// Finds the request and locks its row until the unit ends.
pub fn lock(tx: &mut Tx<'_>, id: RequestId) -> Result<Option<Request>, StoreError> {
    let sql = concat!("select ", columns!(), " from request where request_id = $1 {for_update}");
    tx.row(sql, &[id.0.into()])?.as_ref().map(from_row).transpose()
}

/// Locks the request that a payment is about, if it is about one.
pub fn lock_about(tx: &mut Tx<'_>, id: Option<RequestId>) -> Result<Option<Request>, StoreError> {
    id.map_or(Ok(None), |id| lock(tx, id))
}

/// Finds an order's request and locks its row until the unit ends. The first call turns the quote into a request.
pub fn lock_order(tx: &mut Tx<'_>, id: OrderId) -> Result<Option<Request>, StoreError> {
    // A child takes no deposit: the id in place of its order is its deposit's key.
    let sql = concat!("select ", columns!(), " from request where order_id = $1 and parent_id is null {for_update}");
    if let Some(row) = tx.row(sql, &[id.0.into()])? {
        return from_row(&row).map(Some);
    }
    let moved = tx.execute(
        "insert into request (request_id, order_id, state, quote, created_at, updated_at)
         select request_id, order_id, 'waiting', body, created_at, created_at from quote where order_id = $1
         on conflict do nothing",
        &[id.0.into()],
    )?;
    if moved > 0 {
        tx.execute("delete from quote where order_id = $1", &[id.0.into()])?;
    }
    tx.row(sql, &[id.0.into()])?.as_ref().map(from_row).transpose()
}

/// Makes a quote a request at once, because it was given an address to be paid at.
pub(crate) fn insert_at_address(
    tx: &mut Tx<'_>,
    quote: &crate::QuoteRow,
    address: alloy_primitives::Address,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into request (request_id, order_id, state, quote, created_at, updated_at, deposit_address)
         values ($1, $2, 'waiting', $3, $4, $4, $5)",
        &[
            quote.request_id.into(),
            quote.order_id.into(),
            (&quote.body).into(),
            Value::Int(quote.created_at),
            address.into(),
        ],
    )?;
    Ok(())
}

/// Makes a request that begins with its own execution: nobody was quoted anything.
pub fn open(tx: &mut Tx<'_>, quote: &crate::QuoteRow) -> Result<Option<Request>, StoreError> {
    tx.execute(
        "insert into request (request_id, order_id, state, quote, created_at, updated_at)
         values ($1, $2, 'waiting', $3, $4, $4)",
        &[quote.request_id.into(), quote.order_id.into(), (&quote.body).into(), Value::Int(quote.created_at)],
    )?;
    lock(tx, RequestId(quote.request_id))
}

/// Makes a request of money that has arrived at an address.
pub fn open_at_address(
    tx: &mut Tx<'_>,
    quote: &crate::QuoteRow,
    address: alloy_primitives::Address,
) -> Result<Option<Request>, StoreError> {
    insert_at_address(tx, quote, address)?;
    lock(tx, RequestId(quote.request_id))
}

/// A request for a deposit that names an order without paying for it.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    pub id: RequestId,
    /// The deposit's own key, in place of an order id.
    pub order: OrderId,
    pub parent: RequestId,
    pub reason: FailReason,
}

/// Opens a child, or reopens it after a reorg.
pub fn open_child(tx: &mut Tx<'_>, child: &Child, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into request (request_id, order_id, state, fail_reason, quote, created_at, updated_at, parent_id,
         deposit_address) select $1, $2, 'refunding', $3, quote, $4, $4, request_id, deposit_address from request where request_id = $5
         on conflict (request_id) do update set state = 'refunding', fail_reason = excluded.fail_reason,
         updated_at = excluded.updated_at, unlisted = request.unlisted + 1",
        &[
            child.id.0.into(),
            child.order.0.into(),
            child.reason.as_str().into(),
            now.millis().into(),
            child.parent.0.into(),
        ],
    )?;
    Ok(())
}

/// The children of a request, oldest first.
pub fn children(tx: &mut Tx<'_>, parent: RequestId) -> Result<Vec<RequestId>, StoreError> {
    tx.rows(
        "select request_id from request where parent_id = $1 order by created_at, request_id limit 200",
        &[parent.0.into()],
    )?
    .iter()
    .map(|row| row.b256(0).map(RequestId))
    .collect()
}

/// Fails a child whose deposit is gone. True if it was open.
pub fn close_child(tx: &mut Tx<'_>, id: RequestId, reason: FailReason, now: Timestamp) -> Result<bool, StoreError> {
    let closed = tx.execute(
        "update request set state = 'failed', fail_reason = $2, updated_at = $3, unlisted = unlisted + 1
         where request_id = $1 and parent_id is not null and state = 'refunding'",
        &[id.0.into(), reason.as_str().into(), now.millis().into()],
    )?;
    Ok(closed > 0)
}

/// Writes the result of a step. A reason once given stays, unless the step names another or is a success.
pub fn set_state(tx: &mut Tx<'_>, id: RequestId, next: &Next, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update request set state = $2,
         fail_reason = case when $2 = 'success' then null else coalesce($3, fail_reason) end,
         details = case when $2 = 'success' then null else details end,
         refund_fail_reason = coalesce($4, refund_fail_reason), updated_at = $5,
         unlisted = unlisted + 1 where request_id = $1",
        &[
            id.0.into(),
            next.state.as_str().into(),
            next.reason.map(FailReason::as_str).into(),
            next.refund_reason.map(RefundFailReason::as_str).into(),
            now.millis().into(),
        ],
    )?;
    Ok(())
}

/// Sets the details of a request's state.
pub fn set_details(tx: &mut Tx<'_>, id: RequestId, details: &str) -> Result<(), StoreError> {
    tx.execute("update request set details = $2 where request_id = $1", &[id.0.into(), details.into()])?;
    Ok(())
}

/// Replaces the reason of a failed request by a better one.
pub fn set_reason(tx: &mut Tx<'_>, id: RequestId, reason: FailReason, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update request set fail_reason = $2, updated_at = $3 where request_id = $1",
        &[id.0.into(), reason.as_str().into(), now.millis().into()],
    )?;
    Ok(())
}

/// The transactions of a request shown to callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    pub deposits: Vec<alloy_primitives::B256>,
    /// Fills, or refunds if the request was refunded.
    pub payments: Vec<alloy_primitives::B256>,
}

pub fn hashes(tx: &mut Tx<'_>, request: &Request) -> Result<Hashes, StoreError> {
    if request.quote.terms.is_none() {
        return same_chain_hashes(tx, request);
    }
    if request.parent.is_some() {
        return of_child(tx, request);
    }
    let deposits = deposit_hashes(tx, request)?;
    let purposes = match request.state {
        State::Refunding | State::Refunded | State::Failed => ["refund", "payout"],
        State::Waiting | State::Depositing | State::Pending | State::Submitted | State::Success => ["fill", "fill"],
    };
    let payments = tx.rows(
        "select tx_hash from payment where request_id = $1 and purpose in ($2, $3) and tx_hash is not null
         and state <> 'void' order by payment_id",
        &[request.id.0.into(), purposes[0].into(), purposes[1].into()],
    )?;
    let mut payments = payments.iter().map(|row| row.b256(0)).collect::<Result<Vec<_>, StoreError>>()?;
    if request.state == State::Refunded {
        // Somebody else may have sent the payout from the depository. Ours failed then, and is void only once that is
        // final.
        let recorded = records::of_request(tx, request.id)?;
        let has_failed = |hash| recorded.iter().any(|record| record.tx == hash && !record.succeeded);
        payments.retain(|hash| !has_failed(*hash));
        if payments.is_empty() {
            payments = of_child(tx, request)?.payments;
        }
    }
    Ok(Hashes { deposits, payments })
}

/// The transactions that paid for a request.
pub fn deposit_hashes(tx: &mut Tx<'_>, request: &Request) -> Result<Vec<alloy_primitives::B256>, StoreError> {
    if request.quote.terms.is_none() {
        return same_chain_hashes(tx, request).map(|hashes| hashes.deposits);
    }
    if request.parent.is_some() {
        return of_child(tx, request).map(|hashes| hashes.deposits);
    }
    let deposits = tx.rows(
        "select d.tx_hash from deposit_use u join deposit d on d.deposit_id = u.deposit_id
         where u.order_id = $1 and d.state <> 'gone' order by d.deposit_id",
        &[request.order_id.0.into()],
    )?;
    let found: Vec<_> = deposits.iter().map(|row| row.b256(0)).collect::<Result<_, _>>()?;
    if found.is_empty() && request.state == State::Depositing {
        return relay_hash(tx, request.id).map(|hash| hash.into_iter().collect());
    }
    Ok(found)
}

/// The transaction that a relayer of ours has sent for the request.
fn relay_hash(tx: &mut Tx<'_>, id: RequestId) -> Result<Option<alloy_primitives::B256>, StoreError> {
    let row = tx.row(
        "select tx_hash from payment where purpose = 'relay' and subject = $1 and tx_hash is not null
         and state <> 'void'",
        &[id.0.into()],
    )?;
    row.map(|row| row.b256(0)).transpose()
}

/// The recorded transactions of a child: the deposit that paid for nothing, and its return.
fn of_child(tx: &mut Tx<'_>, request: &Request) -> Result<Hashes, StoreError> {
    let records = records::of_request(tx, request.id)?;
    let of = |direction| {
        let counts = move |record: &&records::Record| record.direction == direction && record.succeeded && !record.gone;
        let records = records.iter().filter(counts);
        records.map(|record| record.tx).collect()
    };
    Ok(Hashes { deposits: of(Direction::In), payments: of(Direction::Out) })
}

/// A same-chain transaction is both the deposit and the payment.
fn same_chain_hashes(tx: &mut Tx<'_>, request: &Request) -> Result<Hashes, StoreError> {
    let records = records::of_request(tx, request.id)?;
    let hashes: Vec<_> = records.iter().filter(|record| !record.gone).map(|record| record.tx).collect();
    Ok(Hashes { deposits: hashes.clone(), payments: hashes })
}

/// Deletes expired quotes in one small batch. Returns whether there may be more. Quotes expire in the order of their
/// creation, so only the oldest are examined: the table has no index for more.
pub fn prune_quotes(tx: &mut Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
    const ROWS_PER_PRUNE: i64 = 500;
    let gone = tx.execute(
        "delete from quote where id in (select id from quote order by id limit $2) and expires_at < $1",
        &[now.millis().into(), Value::Int(ROWS_PER_PRUNE)],
    )?;
    Ok(i64::try_from(gone).is_ok_and(|gone| gone == ROWS_PER_PRUNE))
}
