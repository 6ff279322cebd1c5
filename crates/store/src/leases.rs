//! Leases: which process may write as the worker, and which as the allocator.
//!
//! Each time a lease is taken it gets a new epoch. A unit under a lease begins by locking the lease's row with its
//! epoch until the unit ends: a new holder waits for such units, and after it none of them finds its row any more.

use crate::{StoreError, Tx};

mod held;

pub use held::Lease;
pub(crate) use held::{Beat, Fence};

/// A role held by one process at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Follows the chains and pays.
    Worker,
    /// Signs payouts out of the depositories.
    Allocator,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Worker, Self::Allocator];

    pub fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Allocator => "allocator",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The public state of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub kind: Kind,
    pub epoch: i64,
    /// Name of the last process to take it.
    pub name: Option<String>,
    /// True if a process holds it and has not released it.
    pub held: bool,
    /// Milliseconds since the holder's last heartbeat expired. None while the holder is alive, and without a holder.
    pub expired_millis: Option<i64>,
}

/// Takes the lease, unless a live process holds it. Returns the new epoch.
pub fn take(tx: &mut Tx<'_>, kind: Kind, instance: &str, name: &str) -> Result<Option<i64>, StoreError> {
    // The first read takes no lock: a standby must not disturb the holder's units.
    let free = tx.row(
        "select 1 from lease l where l.kind = $1 and (l.holder is null or l.holder = $2
         or not exists (select 1 from instance i where i.instance_id = l.holder and i.expires_at > {now_ms}))",
        &[kind.name().into(), instance.into()],
    )?;
    if free.is_none() {
        return Ok(None);
    }
    let row = tx.row(
        "update lease set epoch = epoch + 1, holder = $2, name = $3, taken_at = {now_ms} where kind = $1
         returning epoch",
        &[kind.name().into(), instance.into(), name.into()],
    )?;
    row.ok_or(StoreError::ManyRows(0))?.int(0).map(Some)
}

/// Releases the lease and notifies the standby, which then need not wait for a heartbeat to expire.
pub fn release(tx: &mut Tx<'_>, kind: Kind, instance: &str) -> Result<(), StoreError> {
    tx.execute(
        "update lease set holder = null where kind = $1 and holder = $2",
        &[kind.name().into(), instance.into()],
    )?;
    wake(tx)
}

/// True if the lease still has this epoch. The row is locked until the unit ends.
pub(crate) fn holds(tx: &mut Tx<'_>, kind: Kind, epoch: i64) -> Result<bool, StoreError> {
    let row =
        tx.row("select 1 from lease where kind = $1 and epoch = $2 {for_share}", &[kind.name().into(), epoch.into()])?;
    Ok(row.is_some())
}

/// The state of every lease.
pub fn all(tx: &mut Tx<'_>) -> Result<Vec<State>, StoreError> {
    let rows = tx.rows(
        "select l.kind, l.epoch, l.name, l.holder, {now_ms} - i.expires_at
         from lease l left join instance i on i.instance_id = l.holder order by l.kind",
        &[],
    )?;
    let mut leases = Vec::new();
    for row in rows {
        let Some(kind) = Kind::named(row.text(0)?) else { continue };
        let held = row.opt_text(3)?.is_some();
        // A holder without an instance row has been dead for long.
        let age = row.opt_int(4)?.unwrap_or(i64::MAX);
        leases.push(State {
            kind,
            epoch: row.int(1)?,
            name: row.opt_text(2)?.map(str::to_owned),
            held,
            expired_millis: (held && age >= 0).then_some(age),
        });
    }
    Ok(leases)
}

/// Wakes the worker, in whichever process it runs, when this unit commits. On SQLite there is no other process to wake.
pub fn wake(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.rows("{wake}", &[]).map(drop)
}
