//! Reading the ledger back: the history of an account, and the check that everything adds up.

use alloy_primitives::Address;
use domain::ids::RequestId;
use domain::ledger::{Account, Context, UsdcMicros};
use domain::time::Timestamp;

use super::{account_at, limit};
use crate::columns::unknown;
use crate::{StoreError, Tx};

/// One entry as a wallet's owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub sequence: i64,
    pub id: String,
    pub context: Context,
    /// The change of the balance.
    pub delta: UsdcMicros,
    /// The changes of the money set aside: by fast fills here, by claims and sponsorship in `reserved`.
    pub held: UsdcMicros,
    pub reserved: UsdcMicros,
    pub balance_after: UsdcMicros,
    pub request: Option<RequestId>,
    pub at: Timestamp,
}

/// The entries of a wallet, newest first, before a sequence number where one is given.
pub fn entries(tx: &mut Tx<'_>, wallet: Address, before: Option<i64>, most: u16) -> Result<Vec<Line>, StoreError> {
    let before = before.unwrap_or(i64::MAX);
    tx.rows(
        "select sequence, entry_id, context, case when debit = $4 then -amount else amount end, held, reserved,
         balance_after, request_id, at
         from ledger_entry where wallet = $1 and sequence < $2 order by sequence desc limit $3",
        &[wallet.into(), before.into(), limit(most), format!("{wallet:#x}").into()],
    )?
    .iter()
    .map(|row| {
        Ok(Line {
            sequence: row.int(0)?,
            id: row.text(1)?.to_owned(),
            context: Context::parse(row.text(2)?).ok_or(unknown(2, "a context"))?,
            delta: UsdcMicros(row.int(3)?),
            held: UsdcMicros(row.int(4)?),
            reserved: UsdcMicros(row.int(5)?),
            balance_after: UsdcMicros(row.int(6)?),
            request: row.opt_b256(7)?.map(RequestId),
            at: Timestamp::from_millis(row.int(8)?),
        })
    })
    .collect()
}

/// An account that differs from its entries or from its open holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub wallet: Address,
    pub stands: Account,
    pub by_entries: Account,
    /// The money set aside by the open holds. The balance is of no account here.
    pub by_holds: Account,
}

/// Accounts that do not add up. There should be none.
pub fn mismatches(tx: &mut Tx<'_>, most: u16) -> Result<Vec<Mismatch>, StoreError> {
    // An account is named by its address, which is longer than any name of the house. An entry whose wallet has no
    // account would not be seen from the accounts alone.
    let rows = tx.rows(
        "with entry_sum as (
             select wallet,
                 cast(sum(case when amount = 0 then 0 when length(debit) = 42 then -amount else amount end) as bigint)
                     as balance,
                 cast(sum(held) as bigint) as held, cast(sum(reserved) as bigint) as reserved
             from ledger_entry group by wallet),
         hold_sum as (
             select wallet,
                 cast(sum(case when kind = 'fast-fill' then amount else 0 end) as bigint) as held,
                 cast(sum(case when kind = 'fast-fill' then 0 else amount end) as bigint) as reserved
             from ledger_hold where state = 'open' group by wallet),
         known as (
             select wallet from ledger_account union select wallet from entry_sum union select wallet from hold_sum),
         side as (
             select k.wallet as wallet,
                 coalesce(a.balance, 0) as balance, coalesce(a.held, 0) as held, coalesce(a.reserved, 0) as reserved,
                 coalesce(e.balance, 0) as entry_balance, coalesce(e.held, 0) as entry_held,
                 coalesce(e.reserved, 0) as entry_reserved,
                 coalesce(h.held, 0) as hold_held, coalesce(h.reserved, 0) as hold_reserved
             from known k left join ledger_account a on a.wallet = k.wallet
             left join entry_sum e on e.wallet = k.wallet left join hold_sum h on h.wallet = k.wallet)
         select wallet, balance, held, reserved, entry_balance, entry_held, entry_reserved,
             cast(0 as bigint), hold_held, hold_reserved
         from side where balance <> entry_balance or held <> entry_held or reserved <> entry_reserved
             or held <> hold_held or reserved <> hold_reserved
         order by wallet limit $1",
        &[limit(most)],
    )?;
    rows.iter()
        .map(|row| {
            Ok(Mismatch {
                wallet: row.address(0)?,
                stands: account_at(row, 1)?,
                by_entries: account_at(row, 4)?,
                by_holds: account_at(row, 7)?,
            })
        })
        .collect()
}

/// The two sides of the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The balances of all wallets together, by their accounts.
    pub wallets: UsdcMicros,
    /// The sum that went from the house to wallets, less the sum that came back, by the entries.
    pub to_wallets: UsdcMicros,
}

pub fn totals(tx: &mut Tx<'_>) -> Result<Totals, StoreError> {
    let wallets = tx.row("select cast(coalesce(sum(balance), 0) as bigint) from ledger_account", &[])?;
    let to_wallets = tx.row(
        "select cast(coalesce(sum(case when length(debit) = 42 then -amount else amount end), 0) as bigint)
         from ledger_entry where amount > 0",
        &[],
    )?;
    let sum = |row: Option<crate::Row>| row.map_or(Ok(0), |row| row.int(0)).map(UsdcMicros);
    Ok(Totals { wallets: sum(wallets)?, to_wallets: sum(to_wallets)? })
}

/// The number of wallets with an account.
pub fn accounts(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.row("select count(*) from ledger_account", &[])?.map_or(Ok(0), |row| row.uint(0))
}

/// The change of a wallet's balance by an entry.
pub fn delta_of(tx: &mut Tx<'_>, entry: &str, wallet: Address) -> Result<Option<UsdcMicros>, StoreError> {
    let row = tx.row(
        "select case when debit = $3 then -amount else amount end from ledger_entry where entry_id = $1 and wallet = $2",
        &[entry.into(), wallet.into(), format!("{wallet:#x}").into()],
    )?;
    row.map(|row| row.int(0).map(UsdcMicros)).transpose()
}
