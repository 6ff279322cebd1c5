//! App fees that a sponsor pays while its balance stands for fast fills.
//!
//! Sponsorship ignores holds, so the dollar that an app is credited may be the one that a fast fill counts on. The
//! credit is booked at once and held: until every fast fill that was open on the sponsor has ended, and the sponsor
//! owes nothing. Otherwise an integrator would pay its balance to itself as a fee, claim it, and leave the fast fill
//! unpaid.

use alloy_primitives::Address;
use domain::ledger::{Hold, UsdcMicros};
use domain::time::Timestamp;

use super::{account, holds, impose_hold, lock, void_hold};
use crate::{StoreError, Tx, Value};

/// Holds an app fee that was credited in this unit, if its sponsor's balance stands for fast fills or is below zero.
/// The sponsor has been charged by now. `false` means that the fee is free.
pub fn hold_app_fee(tx: &mut Tx<'_>, fee: &Hold, sponsor: Address, now: Timestamp) -> Result<bool, StoreError> {
    if fee.wallet == sponsor {
        return Ok(false);
    }
    // A fast fill that opens meanwhile waits for this lock, and finds the balance without the fee.
    lock(tx, sponsor)?;
    let owes = owes(tx, sponsor)?;
    let open = tx.rows(
        "select hold_id from ledger_hold where wallet = $1 and state = 'open' and kind = 'fast-fill'",
        &[sponsor.into()],
    )?;
    if open.is_empty() && !owes {
        return Ok(false);
    }
    impose_hold(tx, fee, now)?;
    let id = fee.id.to_string();
    tx.execute(
        "insert into app_fee_hold (hold_id, sponsor) values ($1, $2) on conflict do nothing",
        &[(&id).into(), sponsor.into()],
    )?;
    for hold in &open {
        tx.execute(
            "insert into app_fee_hold_wait (hold_id, fast_fill_hold) values ($1, $2) on conflict do nothing",
            &[(&id).into(), hold.text(0)?.into()],
        )?;
    }
    Ok(true)
}

/// Wallets whose fees are freed in one unit: each fee that is freed may pay the debt of another sponsor.
const MAX_FREED_SPONSORS: usize = 64;

/// Frees the app fees of a sponsor that wait for nothing any more, and of those whose debts are paid by them. There are
/// as many as were booked within one window of its fast fills.
pub fn free(tx: &mut Tx<'_>, sponsor: Address, now: Timestamp) -> Result<(), StoreError> {
    let mut sponsors = vec![sponsor];
    let mut seen = 0;
    while let Some(sponsor) = sponsors.get(seen).copied() {
        seen += 1;
        if owes(tx, sponsor)? {
            continue;
        }
        for fee in holds::free_app_fees(tx, sponsor)? {
            let id = fee.hold.id;
            void_hold(tx, id, now)?;
            let id = id.to_string();
            tx.execute("delete from app_fee_hold where hold_id = $1", &[(&id).into()])?;
            tx.execute("delete from app_fee_hold_wait where hold_id = $1", &[id.into()])?;
            if sponsors.len() < MAX_FREED_SPONSORS && !sponsors.contains(&fee.hold.wallet) {
                sponsors.push(fee.hold.wallet);
            }
        }
    }
    Ok(())
}

/// True if a wallet owes more than it has. A fee that is held is not its own yet, and pays no debt.
fn owes(tx: &mut Tx<'_>, wallet: Address) -> Result<bool, StoreError> {
    let held = tx.row(
        "select cast(coalesce(sum(amount), 0) as bigint) from ledger_hold
         where wallet = $1 and kind = 'app-fee' and state = 'open'",
        &[wallet.into()],
    )?;
    let held = held.map_or(Ok(0), |row| row.int(0)).map(UsdcMicros)?;
    Ok(account(tx, wallet)?.balance.minus(held) < UsdcMicros::ZERO)
}

/// Held app fees that contradict their sponsor: held for no reason, or by nobody.
pub fn misheld_app_fees(tx: &mut Tx<'_>, most: i64) -> Result<Vec<(String, &'static str)>, StoreError> {
    let mut found = Vec::new();
    for (sql, how) in [
        (
            "select h.hold_id from ledger_hold h where h.kind = 'app-fee' and h.state = 'open'
             and not exists (select 1 from app_fee_hold a where a.hold_id = h.hold_id) limit $1",
            "is held for no sponsor",
        ),
        (
            "select a.hold_id from app_fee_hold a where not exists (select 1 from ledger_hold h
             where h.hold_id = a.hold_id and h.kind = 'app-fee' and h.state = 'open') limit $1",
            "waits and is not held",
        ),
        (
            "select a.hold_id from app_fee_hold a left join ledger_account s on s.wallet = a.sponsor
             where coalesce(s.balance, 0) >= (select coalesce(sum(f.amount), 0) from ledger_hold f
                 where f.wallet = a.sponsor and f.kind = 'app-fee' and f.state = 'open') and not exists (select 1 from app_fee_hold_wait w
             join ledger_hold h on h.hold_id = w.fast_fill_hold and h.state = 'open'
             where w.hold_id = a.hold_id) limit $1",
            "is held, and its sponsor neither owes nor stands for a fast fill of that time",
        ),
    ] {
        for row in tx.rows(sql, &[Value::Int(most)])? {
            found.push((row.text(0)?.to_owned(), how));
        }
    }
    Ok(found)
}
