//! Transfers to deposit addresses.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, U256};
use domain::arrival::is_sender;
use domain::ids::{ChainId, OrderId, RequestId, SweepId};
use domain::money::Amount;
use domain::time::Timestamp;

use crate::{Row, StoreError, Tx, Value};

/// The place of native currency among a transaction's logs: it leaves none.
pub const NATIVE: i64 = -1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub chain: ChainId,
    pub address: Address,
    pub currency: Address,
    pub amount: Amount,
    /// None where only the balance tells.
    pub tx: Option<B256>,
    pub log_index: i64,
    pub sender: Option<Address>,
    /// The sender's own transaction. What a contract moves may be anybody's, and does not go back to the contract.
    pub direct: bool,
    pub block_number: u64,
    pub block_hash: B256,
    pub ripe_at: u64,
    pub created_at: Timestamp,
}

fn from_row(row: &Row) -> Result<Arrival, StoreError> {
    Ok(Arrival {
        chain: ChainId(row.uint(0)?),
        address: row.address(1)?,
        currency: row.address(2)?,
        amount: row.amount(3)?,
        tx: row.opt_b256(4)?,
        log_index: row.int(5)?,
        sender: row.opt_address(6)?,
        block_number: row.uint(7)?,
        block_hash: row.b256(8)?,
        ripe_at: row.uint(9)?,
        created_at: row.time(10)?,
        direct: row.int(11)? == 1,
    })
}

macro_rules! columns {
    () => {
        "chain_id, address, currency, amount, tx_hash, log_index, sender, block_number, block_hash, ripe_at, \
         created_at, direct from deposit_arrival"
    };
}

/// Keeps a transfer. One that is known stands in its newest block; false for one that was swept already.
pub fn put(tx: &mut Tx<'_>, arrival: &Arrival) -> Result<bool, StoreError> {
    untie(tx, arrival)?;
    let kept = tx.execute(
        "insert into deposit_arrival (chain_id, address, currency, amount, tx_hash, log_index, sender, block_number,
         block_hash, ripe_at, created_at, direct) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         on conflict (chain_id, tx_hash, log_index, address) where tx_hash is not null do update set
         block_number = excluded.block_number, block_hash = excluded.block_hash, ripe_at = excluded.ripe_at, gone = 0
         where deposit_arrival.sweep_id is null
         and (deposit_arrival.gone = 0 or deposit_arrival.block_hash <> excluded.block_hash)",
        &[
            arrival.chain.0.try_into()?,
            arrival.address.into(),
            arrival.currency.into(),
            arrival.amount.to_string().into(),
            arrival.tx.into(),
            arrival.log_index.into(),
            arrival.sender.into(),
            arrival.block_number.try_into()?,
            arrival.block_hash.into(),
            arrival.ripe_at.try_into()?,
            arrival.created_at.into(),
            i64::from(arrival.direct).into(),
        ],
    )?;
    Ok(kept > 0)
}

/// Unties a transfer that a reorg has put behind the sweep it was tied to: it is still at the address. Within one block
/// the logs of tokens tell; native currency has none, and its balance tells.
fn untie(tx: &mut Tx<'_>, arrival: &Arrival) -> Result<(), StoreError> {
    let Some(hash) = arrival.tx else { return Ok(()) };
    tx.execute(
        "update deposit_arrival set sweep_id = null where chain_id = $1 and tx_hash = $2 and log_index = $3
         and address = $4 and sweep_id is not null and block_hash <> $6 and exists (
         select 1 from payment p where p.purpose = 'sweep' and p.subject = deposit_arrival.sweep_id
         and p.state in ('mined', 'final') and (p.block_number < $5 or (p.block_number = $5 and exists (
         select 1 from deposit d where d.chain_id = p.chain_id and d.tx_hash = p.tx_hash and d.state <> 'gone'
         and d.log_index < $3))))",
        &[
            arrival.chain.0.try_into()?,
            hash.into(),
            arrival.log_index.into(),
            arrival.address.into(),
            arrival.block_number.try_into()?,
            arrival.block_hash.into(),
        ],
    )?;
    Ok(())
}

/// The money at an address, as far as it is known by transfers, the largest first: many small ones must not hide it.
pub fn waiting_at(
    tx: &mut Tx<'_>,
    chain: ChainId,
    address: Address,
    currency: Address,
) -> Result<Vec<Arrival>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where address = $1 and chain_id = $2 and currency = $3 and sweep_id is null and gone = 0
         order by length(amount) desc, amount desc, arrival_id limit 200"
    );
    let rows = tx.rows(sql, &[address.into(), chain.0.try_into()?, currency.into()])?;
    rows.iter().map(from_row).collect()
}

/// A balance of one currency that may be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: Address,
    pub currency: Address,
}

/// Balances with a transfer that has its confirmations at this block, those first that have waited for the longest. One
/// whose sweep is under way waits for that, and takes nobody's turn.
pub fn ripe(tx: &mut Tx<'_>, chain: ChainId, block: u64, now: Timestamp, most: u16) -> Result<Vec<Place>, StoreError> {
    tx.rows(
        "select a.address, a.currency, min(a.retry_at) from deposit_arrival a where a.chain_id = $1
         and a.sweep_id is null and a.gone = 0 and a.retry_at <= $2 and a.ripe_at <= $3
         and not exists (select 1 from deposit_sweep s where s.chain_id = a.chain_id and s.address = a.address
         and s.currency = a.currency and s.state = 'live') group by a.address, a.currency order by 3 limit $4",
        &[chain.0.try_into()?, now.into(), block.try_into()?, most.into()],
    )?
    .iter()
    .map(|row| Ok(Place { address: row.address(0)?, currency: row.address(1)? }))
    .collect()
}

/// Looks at a balance again only then.
pub fn postpone(tx: &mut Tx<'_>, chain: ChainId, place: Place, until: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update deposit_arrival set retry_at = $4 where address = $1 and chain_id = $2 and currency = $3
         and sweep_id is null and gone = 0",
        &[place.address.into(), chain.0.try_into()?, place.currency.into(), until.into()],
    )?;
    Ok(())
}

/// Ties what is at an address to the sweep that takes it.
pub fn swept(tx: &mut Tx<'_>, chain: ChainId, place: Place, sweep: SweepId) -> Result<(), StoreError> {
    tx.execute(
        "update deposit_arrival set sweep_id = $4 where address = $1 and chain_id = $2 and currency = $3
         and sweep_id is null and gone = 0",
        &[place.address.into(), chain.0.try_into()?, place.currency.into(), sweep.into()],
    )?;
    Ok(())
}

/// A sweep did not happen: what it was to take is at the address again.
pub fn unswept(tx: &mut Tx<'_>, sweep: SweepId) -> Result<(), StoreError> {
    tx.execute("update deposit_arrival set sweep_id = null where sweep_id = $1", &[sweep.into()])?;
    Ok(())
}

/// Keeps what a sweep for a part of an open address has left there as one transfer: the tied ones are swept. Its sender
/// is known where one has sent nearly all of it, whoever's money it was that was swept. Nothing is kept where that is
/// known already: by the balance, or by a later sweep.
pub fn keep_rest(tx: &mut Tx<'_>, sweep: SweepId, rest: Amount, now: Timestamp) -> Result<(), StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where sweep_id = $1 order by length(amount) desc, amount desc, arrival_id limit $2"
    );
    let rows = tx.rows(sql, &[sweep.into(), Value::Int(MAX_BEHIND)])?;
    let tied: Vec<Arrival> = rows.iter().map(from_row).collect::<Result<_, _>>()?;
    let Some(largest) = tied.first() else { return Ok(()) };
    let since = tx.row(
        "select 1 from deposit_sweep s join deposit_sweep o on o.chain_id = s.chain_id and o.address = s.address
         and o.currency = s.currency and o.created_at > s.created_at where s.sweep_id = $1 limit 1",
        &[sweep.into()],
    )?;
    let waiting = waiting_at(tx, largest.chain, largest.address, largest.currency)?;
    if since.is_some() || added(waiting.iter()) >= rest {
        return Ok(());
    }
    let others = added(tied.iter().filter(|arrival| arrival.sender != largest.sender));
    let theirs = is_sender(rest.saturating_sub(others), rest).map_err(|_| StoreError::OutOfRange("a share"))?;
    let sender = largest.sender.filter(|_| theirs);
    let direct = tied.iter().all(|arrival| arrival.direct || arrival.sender != sender);
    let left = Arrival {
        amount: rest,
        tx: None,
        log_index: NATIVE,
        sender,
        direct: sender.is_some() && direct,
        // In no block: a reorg takes away the sweep and not this.
        block_number: 0,
        created_at: now,
        ..largest.clone()
    };
    put(tx, &left).map(drop)
}

fn added<'a>(arrivals: impl Iterator<Item = &'a Arrival>) -> Amount {
    let most = Amount::new(U256::MAX);
    arrivals.fold(Amount::ZERO, |sum, arrival| sum.checked_add(arrival.amount).unwrap_or(most))
}

/// Notes that an address is empty: what had arrived has left it without a sweep of ours, or was never there.
pub fn left(tx: &mut Tx<'_>, chain: ChainId, place: Place) -> Result<(), StoreError> {
    tx.execute(
        "update deposit_arrival set gone = 1 where address = $1 and chain_id = $2 and currency = $3
         and sweep_id is null and gone = 0",
        &[place.address.into(), chain.0.try_into()?, place.currency.into()],
    )?;
    Ok(())
}

/// Forgets transfers of blocks above this one that were not swept: a reorg took the blocks away.
pub fn forget_above(tx: &mut Tx<'_>, chain: ChainId, block: u64) -> Result<(), StoreError> {
    tx.execute(
        "delete from deposit_arrival where chain_id = $1 and block_number > $2 and sweep_id is null and gone = 0",
        &[chain.0.try_into()?, block.try_into()?],
    )?;
    Ok(())
}

/// The amount that an account sent of the money that was swept under an order.
pub fn sent_under(tx: &mut Tx<'_>, order: OrderId, who: Address) -> Result<Amount, StoreError> {
    let rows = tx.rows(
        "select a.amount from deposit_sweep s join deposit_arrival a on a.sweep_id = s.sweep_id
         where s.order_id = $1 and s.state <> 'void' and a.sender = $2 and a.direct = 1
         order by length(a.amount) desc, a.amount desc limit 200",
        &[order.into(), who.into()],
    )?;
    let sum = |sum: Amount, row: &Row| sum.checked_add(row.amount(0)?).map_err(|_| StoreError::OutOfRange("a sum"));
    rows.iter().try_fold(Amount::ZERO, sum)
}

/// Transfers looked at behind one deposit, the largest first: dust of strangers hides nobody's money.
const MAX_BEHIND: i64 = 512;

/// The senders behind a deposit that came through a deposit address, and whether all of its money is explained by
/// transfers that are known. None for a deposit that did not come through one.
///
/// A sweep of a strict address takes whatever is there, a stranger's too: such transfers are tied to no sweep.
pub fn behind(tx: &mut Tx<'_>, deposit: &BehindDeposit) -> Result<Option<Behind>, StoreError> {
    let order: Value = deposit.order.into();
    let through = tx.row(
        "select address from deposit_address where order_id = $1 union all
         select address from deposit_sweep where order_id = $1 limit 1",
        std::slice::from_ref(&order),
    )?;
    let Some(address) = through.map(|row| row.address(0)).transpose()? else { return Ok(None) };
    let rows = tx.rows(
        "select a.amount, a.sender from deposit_arrival a where a.address = $1 and a.chain_id = $2 and a.currency = $3
         and a.block_number <= $4
         and (a.sweep_id in (select sweep_id from deposit_sweep where order_id = $5) or (a.sweep_id is null
              and (a.gone = 0 or exists (select 1 from deposit_address d where d.address = $1 and d.kind = 'strict'))))
         order by length(a.amount) desc, a.amount desc, a.arrival_id limit $6",
        &[
            address.into(),
            deposit.chain.0.try_into()?,
            deposit.currency.into(),
            deposit.block.try_into()?,
            order,
            Value::Int(MAX_BEHIND),
        ],
    )?;
    let mut behind = Behind::default();
    let mut known = Amount::ZERO;
    for row in &rows {
        known = known.checked_add(row.amount(0)?).map_err(|_| StoreError::OutOfRange("a sum"))?;
        behind.senders.extend(row.opt_address(1)?);
    }
    behind.is_explained = known >= deposit.amount;
    Ok(Some(behind))
}

/// A deposit, as far as its senders are asked for.
#[derive(Clone, Copy, Debug)]
pub struct BehindDeposit {
    pub chain: ChainId,
    pub order: OrderId,
    pub currency: Address,
    pub amount: Amount,
    pub block: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    pub senders: BTreeSet<Address>,
    pub is_explained: bool,
}

/// The user's side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub tx: Option<B256>,
    pub sender: Option<Address>,
}

/// The largest transfer that paid for a request, of those that are known: dust may have come first. `own` is the
/// address that the request was given.
pub(crate) fn of_request(
    tx: &mut Tx<'_>,
    request: RequestId,
    own: Option<Address>,
) -> Result<Option<Transfer>, StoreError> {
    let swept = tx.rows(
        "select a.amount, a.tx_hash, a.sender from deposit_sweep s join deposit_arrival a on a.sweep_id = s.sweep_id
         where s.request_id = $1 and s.reason is null and s.state <> 'void' limit 200",
        &[request.into()],
    )?;
    if let Some(largest) = largest(&swept)? {
        return Ok(Some(largest));
    }
    // A child has no sweep of its own; the transaction that brought its deposit is one.
    let back = tx.rows(
        "select a.amount, a.tx_hash, a.sender from transaction_record t
         join payment p on p.tx_hash = t.tx_hash and p.chain_id = t.chain_id and p.purpose = 'sweep'
         join deposit_arrival a on a.sweep_id = p.subject
         where t.request_id = $1 and t.direction = 'in' limit 200",
        &[request.into()],
    )?;
    if let Some(largest) = largest(&back)? {
        return Ok(Some(largest));
    }
    let Some(address) = own else { return Ok(None) };
    let waiting = tx.rows(
        "select amount, tx_hash, sender from deposit_arrival where address = $1 and sweep_id is null limit 200",
        &[Value::from(address)],
    )?;
    largest(&waiting)
}

fn largest(rows: &[Row]) -> Result<Option<Transfer>, StoreError> {
    let mut best: Option<(Amount, Transfer)> = None;
    for row in rows {
        let (amount, transfer) = (row.amount(0)?, Transfer { tx: row.opt_b256(1)?, sender: row.opt_address(2)? });
        if best.is_none_or(|(most, _)| amount > most) {
            best = Some((amount, transfer));
        }
    }
    Ok(best.map(|(_, transfer)| transfer))
}
