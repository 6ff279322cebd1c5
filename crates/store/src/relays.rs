//! Relays: transactions that users have signed for and one of our relayers sends.

use alloy_primitives::{Address, B256, Bytes};
use domain::api_key::ApiKeyId;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::relay::{Event, State, step};
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    pub request: RequestId,
    pub chain: ChainId,
    /// Who signed, or the smart account that is called.
    pub account: Address,
    /// The relayer that the signature names: nobody else can send it.
    pub relayer: Address,
    pub target: Address,
    pub data: Bytes,
    /// EIP-7702 authorizations, as a transaction carries them; empty where there are none.
    pub authorizations: Bytes,
    pub gas: u64,
    /// The key that it was asked with, if one was needed.
    pub key: Option<ApiKeyId>,
    /// A raw call whose gas is charged to the caller's own app balance.
    pub charged: bool,
    /// The time from which the signature is of no use.
    pub deadline: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayRow {
    pub relay: Relay,
    pub state: State,
}

fn state(row: &Row, column: usize) -> Result<State, StoreError> {
    let text = row.text(column)?;
    State::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| unknown(column, "a state"))
}

fn from_row(row: &Row) -> Result<RelayRow, StoreError> {
    let state = state(row, 9)?;
    let key = row.opt_text(10)?.map(str::parse).transpose().map_err(|_| unknown(10, "a key"))?;
    let relay = Relay {
        request: RequestId(row.b256(0)?),
        chain: ChainId(row.uint(1)?),
        account: row.address(2)?,
        relayer: row.address(3)?,
        target: row.address(4)?,
        data: row.bytes(5)?.to_vec().into(),
        authorizations: row.bytes(6)?.to_vec().into(),
        gas: row.uint(7)?,
        key,
        deadline: row.time(8)?,
        charged: row.int(11)? != 0,
    };
    Ok(RelayRow { relay, state })
}

/// Begins a relay. False if the request has one already, or the account has another one at our cost that no block has.
pub fn begin(tx: &mut Tx<'_>, relay: &Relay, now: Timestamp) -> Result<bool, StoreError> {
    let begun = tx.execute(
        "insert into relay (request_id, chain_id, account, relayer, target, data, authorizations, gas, key_id, deadline,
         state, created_at, updated_at, charged) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'live', $11, $11, $12)
         on conflict do nothing",
        &[
            relay.request.0.into(),
            relay.chain.0.try_into()?,
            relay.account.into(),
            relay.relayer.into(),
            relay.target.into(),
            relay.data.as_ref().into(),
            relay.authorizations.as_ref().into(),
            relay.gas.try_into()?,
            relay.key.map(|key| key.to_string()).into(),
            relay.deadline.into(),
            now.into(),
            Value::Int(relay.charged.into()),
        ],
    )?;
    Ok(begun > 0)
}

pub fn find(tx: &mut Tx<'_>, request: RequestId) -> Result<Option<RelayRow>, StoreError> {
    let row = tx.row(
        "select request_id, chain_id, account, relayer, target, data, authorizations, gas, deadline, state, key_id,
         charged
         from relay where request_id = $1",
        &[request.0.into()],
    )?;
    row.as_ref().map(from_row).transpose()
}

/// Applies an event to the relay of a request, if it has one.
pub fn apply(tx: &mut Tx<'_>, request: RequestId, event: Event, now: Timestamp) -> Result<(), StoreError> {
    let Some(row) = tx.row("select state from relay where request_id = $1 {for_update}", &[request.0.into()])? else {
        return Ok(());
    };
    let before = state(&row, 0)?;
    let after = step(before, event);
    // A relay that was refused counts from then, not from when it was given up for that.
    if event == Event::GivenUp && before == after {
        return Ok(());
    }
    tx.execute(
        "update relay set state = $2, updated_at = $3 where request_id = $1",
        &[request.0.into(), after.as_str().into(), now.into()],
    )?;
    Ok(())
}

/// True if a transaction is the permit of a request, byte for byte and by its relayer. Permits go to the approval
/// proxy. Of a raw call nobody knows that the user wants it: any key may bring one for a quote that was made without a
/// key.
pub fn brought(
    tx: &mut Tx<'_>,
    request: RequestId,
    (chain, hash): (ChainId, B256),
    proxy: Address,
) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from relay r join transaction_record t on t.request_id = r.request_id and t.chain_id = r.chain_id
         and t.direction = 'in' and t.sender = r.relayer and t.target = r.target and t.data = r.data
         where r.request_id = $1 and r.chain_id = $2 and t.tx_hash = $3 and r.target = $4 limit 1",
        &[request.0.into(), chain.0.try_into()?, hash.into(), proxy.into()],
    )?;
    Ok(row.is_some())
}

/// The gas of a relay that a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burnt {
    /// The fee in its receipt, once that is read.
    pub fee: Option<Amount>,
    /// The gas limit.
    pub gas: u64,
}

/// The gas of an order's own relay, if a transaction is that, unless it is charged to an app balance or the order was
/// filled: then the quote has paid for it.
pub fn at_our_cost(tx: &mut Tx<'_>, order: OrderId, chain: ChainId, hash: B256) -> Result<Option<Burnt>, StoreError> {
    let row = tx.row(
        "select t.fee, r.gas from request q join relay r on r.request_id = q.request_id
         join transaction_record t on t.request_id = r.request_id and t.chain_id = r.chain_id
         and t.sender = r.relayer and t.target = r.target and t.data = r.data
         where q.order_id = $1 and t.tx_hash = $2 and t.chain_id = $3 and t.direction = 'in' and r.charged = 0
         and not exists (select 1 from settlement s where s.order_id = $1 and s.outcome = 'fill') limit 1",
        &[order.0.into(), hash.into(), chain.0.try_into()?],
    )?;
    let burnt = |row: Row| {
        let fee = row.opt_text(0)?.map(|text| text.parse().map_err(|_| unknown(0, "an amount"))).transpose()?;
        Ok(Burnt { fee, gas: row.uint(1)? })
    };
    row.map(burnt).transpose()
}

/// The last time at which a node held the unmined transaction of a relay, or a block: its payment's beginning, if none
/// did. None where no payment of it is on its way.
pub fn held_until(tx: &mut Tx<'_>, request: RequestId) -> Result<Option<Timestamp>, StoreError> {
    let row = tx.row(
        "select updated_at from payment where purpose = 'relay' and subject = $1 and state in ('decided', 'sent')",
        &[request.0.into()],
    )?;
    row.map(|row| row.time(0)).transpose()
}

/// The number of an account's relays that turned out void since a time: each has cost us gas.
pub fn voids_since(tx: &mut Tx<'_>, account: Address, since: Timestamp) -> Result<u64, StoreError> {
    let row = tx.row(
        "select count(*) from relay where account = $1 and state = 'void' and charged = 0 and updated_at > $2",
        &[account.into(), since.into()],
    )?;
    row.map_or(Ok(0), |row| row.uint(0))
}

/// The number of a chain's permits, and that of its raw calls, which turned out void at our cost since a time. Permits
/// go to the approval proxy, and nothing else does: the calls of one caller must not keep others from their deposits.
pub fn voids_on_since(
    tx: &mut Tx<'_>,
    chain: ChainId,
    proxy: Address,
    since: Timestamp,
) -> Result<(u64, u64), StoreError> {
    let row = tx.row(
        "select cast(coalesce(sum(case when target = $3 then 1 else 0 end), 0) as bigint),
         cast(coalesce(sum(case when target = $3 then 0 else 1 end), 0) as bigint)
         from relay where chain_id = $1 and state = 'void' and charged = 0 and updated_at > $2",
        &[chain.0.try_into()?, since.into(), proxy.into()],
    )?;
    row.map_or(Ok((0, 0)), |row| Ok((row.uint(0)?, row.uint(1)?)))
}

/// The raw calls of one key at our cost: those that turned out void since a time, and those that no block has.
pub fn calls_of_key(
    tx: &mut Tx<'_>,
    chain: ChainId,
    proxy: Address,
    key: ApiKeyId,
    since: Timestamp,
) -> Result<(u64, u64), StoreError> {
    let row = tx.row(
        "select cast(coalesce(sum(case when state = 'void' then 1 else 0 end), 0) as bigint),
         cast(coalesce(sum(case when state = 'live' then 1 else 0 end), 0) as bigint)
         from relay where chain_id = $1 and charged = 0 and target <> $3 and key_id = $4
         and (state = 'live' or (state = 'void' and updated_at > $2))",
        &[chain.0.try_into()?, since.into(), proxy.into(), key.to_string().into()],
    )?;
    row.map_or(Ok((0, 0)), |row| Ok((row.uint(0)?, row.uint(1)?)))
}
