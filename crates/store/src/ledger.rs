//! The app ledger: accounts, the entries that move money, and holds.
//!
//! Every function here is called inside the unit that is its cause, and is idempotent for the same arguments. The row
//! of the account is locked first, so all changes to one wallet are serialized; a unit that touches several wallets
//! locks them in the order of their addresses.

mod app_fees;
mod holds;
mod listing;

use alloy_primitives::Address;
use domain::ids::RequestId;
use domain::ledger::{Account, Cause, Context, Counted, Entry, House, UsdcMicros};
use domain::time::Timestamp;

pub use app_fees::{free as free_app_fees_of, hold_app_fee, misheld_app_fees};
pub use holds::{
    Opened, StoredHold, change_hold, find_hold, impose_hold, next_attempt, open_hold, open_hold_of, post_hold,
    void_hold,
};
pub use listing::{Line, Mismatch, Totals, accounts, delta_of, entries, mismatches, totals};

use crate::{Row, StoreError, Tx, Value};

/// The account of a wallet. A wallet without entries has zero.
pub fn account(tx: &mut Tx<'_>, wallet: Address) -> Result<Account, StoreError> {
    let row = tx.row("select balance, held, reserved from ledger_account where wallet = $1", &[wallet.into()])?;
    row.as_ref().map_or(Ok(Account::default()), |row| account_at(row, 0))
}

/// Posts an entry for a cause. `false` means that it was posted before. No limit is checked: an amount spent against a
/// limit is held first.
pub fn post(tx: &mut Tx<'_>, entry: &Entry, now: Timestamp) -> Result<bool, StoreError> {
    let account = lock(tx, entry.wallet())?;
    let line = Written {
        id: entry.cause().id(),
        context: entry.cause().context(),
        wallet: entry.wallet(),
        house: entry.cause().house(),
        delta: entry.delta(),
        aside: None,
        request: entry.request(),
    };
    if !write(tx, &line, account.balance.plus(entry.delta()), now)? {
        return Ok(false);
    }
    tx.execute(
        "update ledger_account set balance = balance + $2 where wallet = $1",
        &[entry.wallet().into(), entry.delta().0.into()],
    )?;
    // A fee of a sponsored transfer may be held next: whoever posts it frees what it pays for.
    let may_be_held = matches!(entry.cause(), Cause::AppFee { .. });
    if entry.delta() > UsdcMicros::ZERO && !may_be_held {
        app_fees::free(tx, entry.wallet(), now)?;
    }
    Ok(true)
}

fn account_at(row: &Row, index: usize) -> Result<Account, StoreError> {
    let micros = |at: usize| row.int(at).map(UsdcMicros);
    Ok(Account { balance: micros(index)?, held: micros(index + 1)?, reserved: micros(index + 2)? })
}

/// Finds the account and locks its row until the unit ends. The first caller opens it.
fn lock(tx: &mut Tx<'_>, wallet: Address) -> Result<Account, StoreError> {
    const SQL: &str = "select balance, held, reserved from ledger_account where wallet = $1 {for_update}";
    if let Some(row) = tx.row(SQL, &[wallet.into()])? {
        return account_at(&row, 0);
    }
    tx.execute(
        "insert into ledger_account (wallet, balance, held, reserved) values ($1, 0, 0, 0) on conflict do nothing",
        &[wallet.into()],
    )?;
    tx.row(SQL, &[wallet.into()])?.as_ref().map_or(Ok(Account::default()), |row| account_at(row, 0))
}

/// A ledger entry as written: an amount that moves, an amount held or reserved, or neither.
struct Written {
    id: String,
    context: Context,
    wallet: Address,
    house: House,
    delta: UsdcMicros,
    aside: Option<(Counted, UsdcMicros)>,
    request: Option<RequestId>,
}

impl Written {
    /// Debit, credit and amount.
    fn sides(&self) -> (String, String, i64) {
        let (wallet, house) = (format!("{:#x}", self.wallet), self.house.as_str().to_owned());
        let amount = self.delta.0.saturating_abs();
        if self.delta > UsdcMicros::ZERO { (house, wallet, amount) } else { (wallet, house, amount) }
    }

    fn held(&self) -> i64 {
        self.aside.filter(|(counted, _)| *counted == Counted::Held).map_or(0, |(_, change)| change.0)
    }

    fn reserved(&self) -> i64 {
        self.aside.filter(|(counted, _)| *counted == Counted::Reserved).map_or(0, |(_, change)| change.0)
    }
}

/// Writes an entry. `false` means that an identical entry exists already.
fn write(tx: &mut Tx<'_>, line: &Written, after: UsdcMicros, now: Timestamp) -> Result<bool, StoreError> {
    let (debit, credit, amount) = line.sides();
    let request = line.request.map(|id| id.0);
    let new = tx.row(
        "insert into ledger_entry (entry_id, context, debit, credit, amount, wallet, held, reserved, balance_after,
         request_id, at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         on conflict (entry_id) do nothing returning sequence",
        &[
            (&line.id).into(),
            line.context.as_str().into(),
            (&debit).into(),
            (&credit).into(),
            amount.into(),
            line.wallet.into(),
            line.held().into(),
            line.reserved().into(),
            after.0.into(),
            request.into(),
            now.millis().into(),
        ],
    )?;
    if new.is_some() {
        return Ok(true);
    }
    let same = tx.row(
        "select sequence from ledger_entry where entry_id = $1 and context = $2 and debit = $3 and credit = $4
         and amount = $5 and held = $6 and reserved = $7",
        &[
            (&line.id).into(),
            line.context.as_str().into(),
            debit.into(),
            credit.into(),
            amount.into(),
            line.held().into(),
            line.reserved().into(),
        ],
    )?;
    if same.is_some() { Ok(false) } else { Err(StoreError::EntryDiffers(line.id.clone())) }
}

fn limit(most: u16) -> Value {
    Value::Int(most.into())
}
