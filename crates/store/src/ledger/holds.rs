//! Money set aside. A hold takes from a limit by one conditional update, and ends once: spent or given back.

use alloy_primitives::{Address, B256};
use domain::hold::{Event, State, step};
use domain::ids::RequestId;
use domain::ledger::{Account, Context, Counted, DEBT_LIMIT, Entry, Hold, HoldId, HoldKind, House, UsdcMicros, fits};
use domain::time::Timestamp;

use super::{Written, app_fees, lock, post, write};
use crate::columns::unknown;
use crate::{Row, StoreError, Tx};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredHold {
    pub hold: Hold,
    pub state: State,
    changes: i64,
}

/// The outcome of opening a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    Now,
    /// The hold was opened before, and is in this state.
    Already(State),
    /// The account does not cover the hold.
    TooLow(Account),
}

macro_rules! columns {
    () => {
        "kind, subject, attempt, wallet, amount, changes, state, request_id from ledger_hold "
    };
}

fn from_row(row: &Row) -> Result<StoredHold, StoreError> {
    let (kind, state) = (row.text(0)?, row.text(6)?);
    let kind = HoldKind::ALL.into_iter().find(|known| known.as_str() == kind).ok_or(unknown(0, "a kind of hold"))?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state).ok_or(unknown(6, "a state"))?;
    let id = HoldId { kind, subject: row.b256(1)?, attempt: row.u32(2)? };
    let hold =
        Hold { id, wallet: row.address(3)?, amount: UsdcMicros(row.int(4)?), request: row.opt_b256(7)?.map(RequestId) };
    Ok(StoredHold { hold, state, changes: row.int(5)? })
}

pub fn find_hold(tx: &mut Tx<'_>, id: HoldId) -> Result<Option<StoredHold>, StoreError> {
    let sql = concat!("select ", columns!(), "where hold_id = $1");
    tx.row(sql, &[id.to_string().into()])?.as_ref().map(from_row).transpose()
}

/// The hold for a subject that has not ended.
pub fn open_hold_of(tx: &mut Tx<'_>, kind: HoldKind, subject: B256) -> Result<Option<StoredHold>, StoreError> {
    let sql = concat!("select ", columns!(), "where kind = $1 and subject = $2 and state = 'open'");
    tx.row(sql, &[kind.as_str().into(), subject.into()])?.as_ref().map(from_row).transpose()
}

/// Held app fees whose sponsor's fast fills of that time have all ended, in the order of their wallets.
pub(super) fn free_app_fees(tx: &mut Tx<'_>, sponsor: Address) -> Result<Vec<StoredHold>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        "where state = 'open' and hold_id in (select a.hold_id from app_fee_hold a where a.sponsor = $1)
         and not exists (select 1 from app_fee_hold_wait w join ledger_hold h on h.hold_id = w.fast_fill_hold
         and h.state = 'open' where w.hold_id = ledger_hold.hold_id) order by wallet"
    );
    tx.rows(sql, &[sponsor.into()])?.iter().map(from_row).collect()
}

/// The attempt that a next hold for this subject would be.
pub fn next_attempt(tx: &mut Tx<'_>, kind: HoldKind, subject: B256) -> Result<u32, StoreError> {
    let row = tx.row(
        "select coalesce(max(attempt) + 1, 0) from ledger_hold where kind = $1 and subject = $2",
        &[kind.as_str().into(), subject.into()],
    )?;
    row.map_or(Ok(0), |row| row.u32(0))
}

/// Sets money aside, if the account covers it for this use.
pub fn open_hold(tx: &mut Tx<'_>, hold: &Hold, now: Timestamp) -> Result<Opened, StoreError> {
    let account = lock(tx, hold.wallet)?;
    if let Some(known) = find_hold(tx, hold.id)? {
        // The amount may have been changed since; the entry that opened the hold has the first one.
        write(tx, &line(hold, "hold", hold.id.kind.opened(), hold.amount), account.balance, now)?;
        return Ok(Opened::Already(known.state));
    }
    if !take(tx, hold.id.kind, hold.wallet, hold.amount)? {
        return Ok(Opened::TooLow(account));
    }
    insert(tx, hold, account, now)?;
    Ok(Opened::Now)
}

/// Sets aside money that the chain shows to be spent, even if the account does not cover it.
pub fn impose_hold(tx: &mut Tx<'_>, hold: &Hold, now: Timestamp) -> Result<(), StoreError> {
    let account = lock(tx, hold.wallet)?;
    if find_hold(tx, hold.id)?.is_none() {
        // No limit is checked.
        give_back(tx, hold.id.kind, hold.wallet, hold.amount.negated())?;
        insert(tx, hold, account, now)?;
    }
    Ok(())
}

fn insert(tx: &mut Tx<'_>, hold: &Hold, account: Account, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into ledger_hold (hold_id, kind, subject, attempt, wallet, amount, state, request_id, opened_at)
         values ($1, $2, $3, $4, $5, $6, 'open', $7, $8)",
        &[
            hold.id.to_string().into(),
            hold.id.kind.as_str().into(),
            hold.id.subject.into(),
            hold.id.attempt.into(),
            hold.wallet.into(),
            hold.amount.0.into(),
            hold.request.map(|id| id.0).into(),
            now.millis().into(),
        ],
    )?;
    write(tx, &line(hold, "hold", hold.id.kind.opened(), hold.amount), account.balance, now)?;
    Ok(())
}

/// Sets aside another amount than before. `false` means that the account does not cover the difference, and the hold is
/// unchanged.
pub fn change_hold(tx: &mut Tx<'_>, id: HoldId, amount: UsdcMicros, now: Timestamp) -> Result<bool, StoreError> {
    let (stored, account) = locked(tx, id)?;
    if stored.hold.amount == amount {
        return Ok(true);
    }
    step(stored.state, Event::Change)?;
    let more = amount.minus(stored.hold.amount);
    if more > UsdcMicros::ZERO {
        if !take(tx, id.kind, stored.hold.wallet, more)? {
            return Ok(false);
        }
    } else {
        give_back(tx, id.kind, stored.hold.wallet, more.negated())?;
    }
    tx.execute(
        "update ledger_hold set amount = $2, changes = changes + 1 where hold_id = $1 and state = 'open'",
        &[id.to_string().into(), amount.0.into()],
    )?;
    let mut line = line(&stored.hold, "change", Context::ResetPendingAmount, more);
    line.id = format!("{}/{}", line.id, stored.changes);
    write(tx, &line, account.balance, now)?;
    Ok(true)
}

/// Ends a hold by spending it: the entries are posted, no more leaves than was set aside, and the rest is free again.
/// `false` means that it had been spent before, on the same entries.
pub fn post_hold(tx: &mut Tx<'_>, id: HoldId, entries: &[Entry], now: Timestamp) -> Result<bool, StoreError> {
    let (stored, account) = locked(tx, id)?;
    if !fits(stored.hold.amount, stored.hold.wallet, entries) {
        return Err(StoreError::HoldExceeded(id.to_string()));
    }
    let news = end(tx, &stored, account, Event::Post, now)?;
    for entry in entries {
        if post(tx, entry, now)? != news {
            return Err(StoreError::EntryDiffers(entry.cause().id()));
        }
    }
    freed(tx, &stored, news, now)?;
    Ok(news)
}

/// Ends a hold by giving it back. `false` means that it had been given back before.
pub fn void_hold(tx: &mut Tx<'_>, id: HoldId, now: Timestamp) -> Result<bool, StoreError> {
    let (stored, account) = locked(tx, id)?;
    let news = end(tx, &stored, account, Event::Void, now)?;
    freed(tx, &stored, news, now)?;
    Ok(news)
}

/// Frees the app fees that waited for a fast fill's hold to end. Entries of its end are posted by then: a sponsor that
/// owes by them frees nothing.
fn freed(tx: &mut Tx<'_>, ended: &StoredHold, news: bool, now: Timestamp) -> Result<(), StoreError> {
    match ended.hold.id.kind {
        HoldKind::FastFill if news => app_fees::free(tx, ended.hold.wallet, now),
        HoldKind::FastFill | HoldKind::Claim | HoldKind::Sponsorship | HoldKind::AppFee | HoldKind::Relay => Ok(()),
    }
}

fn end(
    tx: &mut Tx<'_>,
    stored: &StoredHold,
    account: Account,
    event: Event,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let next = step(stored.state, event)?;
    if next == stored.state {
        return Ok(false);
    }
    let hold = &stored.hold;
    tx.execute(
        "update ledger_hold set state = $2, ended_at = $3 where hold_id = $1 and state = 'open'",
        &[hold.id.to_string().into(), next.as_str().into(), now.millis().into()],
    )?;
    give_back(tx, hold.id.kind, hold.wallet, hold.amount)?;
    write(tx, &line(hold, "end", hold.id.kind.ended(), hold.amount.negated()), account.balance, now)?;
    Ok(true)
}

/// A hold and its account, both locked until the unit of work ends.
fn locked(tx: &mut Tx<'_>, id: HoldId) -> Result<(StoredHold, Account), StoreError> {
    let missing = || StoreError::NoHold(id.to_string());
    let wallet = find_hold(tx, id)?.ok_or_else(missing)?.hold.wallet;
    let account = lock(tx, wallet)?;
    Ok((find_hold(tx, id)?.ok_or_else(missing)?, account))
}

fn line(hold: &Hold, what: &str, context: Context, change: UsdcMicros) -> Written {
    let house = match hold.id.kind {
        HoldKind::FastFill => House::FastFills,
        HoldKind::Claim => House::Treasury,
        HoldKind::Sponsorship | HoldKind::AppFee | HoldKind::Relay => House::Fees,
    };
    Written {
        id: format!("{what}:{}", hold.id),
        context,
        wallet: hold.wallet,
        house,
        delta: UsdcMicros::ZERO,
        aside: Some((hold.id.kind.counted(), change)),
        request: hold.request,
    }
}

/// Takes from the limit of a use, which is `domain::ledger::Account::available`. A wallet that owes too much gets no
/// new hold, even one of zero.
fn take(tx: &mut Tx<'_>, kind: HoldKind, wallet: Address, amount: UsdcMicros) -> Result<bool, StoreError> {
    let sql = match kind {
        HoldKind::FastFill => {
            "update ledger_account set held = held + $2
             where wallet = $1 and balance >= $3 and ($2 = 0 or balance - held - reserved >= $2) returning wallet"
        }
        HoldKind::Claim | HoldKind::AppFee | HoldKind::Relay => {
            "update ledger_account set reserved = reserved + $2
             where wallet = $1 and balance >= $3 and ($2 = 0 or balance - held - reserved >= $2) returning wallet"
        }
        HoldKind::Sponsorship => {
            "update ledger_account set reserved = reserved + $2
             where wallet = $1 and balance >= $3 and ($2 = 0 or balance - reserved >= $2) returning wallet"
        }
    };
    Ok(tx.row(sql, &[wallet.into(), amount.0.into(), DEBT_LIMIT.0.into()])?.is_some())
}

fn give_back(tx: &mut Tx<'_>, kind: HoldKind, wallet: Address, amount: UsdcMicros) -> Result<(), StoreError> {
    let sql = match kind.counted() {
        Counted::Held => "update ledger_account set held = held - $2 where wallet = $1",
        Counted::Reserved => "update ledger_account set reserved = reserved - $2 where wallet = $1",
    };
    tx.execute(sql, &[wallet.into(), amount.0.into()])?;
    Ok(())
}
