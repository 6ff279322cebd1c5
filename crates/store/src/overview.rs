//! Facts of the newest requests, for charts. Bounded: a chart of a busy week reads as much as one of a quiet day.

use alloy_primitives::Address;
use domain::api_key::ApiKeyId;
use domain::ids::{ChainId, RequestId};
use domain::request::State;
use domain::time::Timestamp;

use crate::{Row, StoreError, Tx};

/// The most requests that one chart is drawn from.
pub const MAX_FACTS: u32 = 2_000;

/// A request as charts see it. Dollars are millionths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub at: Timestamp,
    pub state: String,
    pub amount_usd: Option<i64>,
    pub app_fees_usd: Option<i64>,
    pub service_fees_usd: Option<i64>,
    pub fill_millis: Option<i64>,
    pub fail_reason: Option<String>,
}

fn from_row(row: &Row) -> Result<Fact, StoreError> {
    Ok(Fact {
        at: row.time(0)?,
        state: row.text(1)?.to_owned(),
        amount_usd: row.opt_int(2)?,
        app_fees_usd: row.opt_int(3)?,
        fill_millis: row.opt_int(4)?,
        fail_reason: row.opt_text(5)?.map(str::to_owned),
        service_fees_usd: row.opt_int(6)?,
    })
}

/// The newest requests of a key since a time, without those that wait for a deposit.
pub fn of_key(tx: &mut Tx<'_>, key: ApiKeyId, since: Timestamp) -> Result<Vec<Fact>, StoreError> {
    tx.rows(
        "select created_at, state, amount_usd, app_fees_usd, fill_millis, fail_reason, service_fees_usd
         from request
         where account is not null and key_id = $1 and created_at >= $2 and state <> 'waiting'
         order by created_at desc, request_id desc limit $3",
        &[key.to_string().into(), since.into(), MAX_FACTS.into()],
    )?
    .iter()
    .map(from_row)
    .collect()
}

/// The newest requests of everybody since a time, without those that wait for a deposit.
pub fn of_all(tx: &mut Tx<'_>, since: Timestamp) -> Result<Vec<Fact>, StoreError> {
    tx.rows(
        "select created_at, state, amount_usd, app_fees_usd, fill_millis, fail_reason, service_fees_usd
         from request
         where account is not null and created_at >= $1 and state <> 'waiting'
         order by created_at desc, request_id desc limit $2",
        &[since.into(), MAX_FACTS.into()],
    )?
    .iter()
    .map(from_row)
    .collect()
}

/// Fees that a wallet has paid for others since a time, the newest first, in millionths of a USDC.
pub fn sponsored(tx: &mut Tx<'_>, wallet: Address, since: Timestamp) -> Result<Vec<(Timestamp, i64)>, StoreError> {
    tx.rows(
        "select at, amount from ledger_entry where wallet = $1 and credit = 'fees' and at >= $2
         order by at desc limit $3",
        &[wallet.into(), since.into(), MAX_FACTS.into()],
    )?
    .iter()
    .map(|row| Ok((row.time(0)?, row.int(1)?)))
    .collect()
}

/// Fees that all sponsors have paid since a time, the newest first, in millionths of a USDC.
pub fn sponsored_by_all(tx: &mut Tx<'_>, since: Timestamp) -> Result<Vec<(Timestamp, i64)>, StoreError> {
    tx.rows(
        "select at, amount from ledger_entry where credit = 'fees' and at >= $1 order by at desc limit $2",
        &[since.into(), MAX_FACTS.into()],
    )?
    .iter()
    .map(|row| Ok((row.time(0)?, row.int(1)?)))
    .collect()
}

/// A request that has its deposit and no end yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    pub request: RequestId,
    pub state: State,
    pub amount_usd: Option<i64>,
    pub since: Timestamp,
}

/// The most requests of one state that are counted.
pub const MAX_COUNTED: u32 = 1_000;

/// States of requests between the deposit and the end.
const UNDER_WAY: [State; 4] = [State::Depositing, State::Pending, State::Submitted, State::Refunding];

/// Requests under way: how many, and the oldest of them. Each state is counted up to [`MAX_COUNTED`].
pub fn under_way(tx: &mut Tx<'_>, limit: u32) -> Result<(u64, Vec<UnderWay>), StoreError> {
    let (mut count, mut oldest) = (0u64, Vec::new());
    for state in UNDER_WAY {
        // Counted by the index alone: rows of old requests lie anywhere.
        let counted = tx.row(
            "select count(*) from (select 1 from request where account is not null and state = $1 limit $2) r",
            &[state.as_str().into(), MAX_COUNTED.into()],
        )?;
        count = count.saturating_add(counted.map_or(Ok(0), |row| row.uint(0))?);
        let rows = tx.rows(
            "select request_id, amount_usd, created_at from request where account is not null and state = $1
             order by created_at, request_id limit $2",
            &[state.as_str().into(), limit.into()],
        )?;
        for row in &rows {
            let (request, amount_usd, since) = (row.request_id(0)?, row.opt_int(1)?, row.time(2)?);
            oldest.push(UnderWay { request, state, amount_usd, since });
        }
    }
    oldest.sort_by_key(|it| it.since);
    oldest.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok((count, oldest))
}

/// A payment that has not gone out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub request: RequestId,
    pub purpose: String,
    pub chain: ChainId,
    pub reason: String,
    pub needs_person: bool,
    pub since: Timestamp,
}

/// Payments that wait, those for a person first, then the oldest.
pub fn stuck(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<Stuck>, StoreError> {
    tx.rows(
        "select request_id, purpose, chain_id, reason, parked, created_at from due
         order by parked desc, created_at, due_id limit $1",
        &[limit.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Stuck {
            request: row.request_id(0)?,
            purpose: row.text(1)?.to_owned(),
            chain: ChainId(row.uint(2)?),
            reason: row.text(3)?.to_owned(),
            needs_person: row.int(4)? != 0,
            since: row.time(5)?,
        })
    })
    .collect()
}
