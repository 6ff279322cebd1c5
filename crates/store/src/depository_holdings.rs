//! Holdings of the depositories beside what their ledger owes, as the allocator last read them.

use alloy_primitives::Address;
use domain::ids::ChainId;
use domain::money::Amount;
use domain::time::Timestamp;

use crate::depository_ledger::{Total, amount, word};
use crate::{StoreError, Tx};

/// Currencies of a chain whose totals are read at once.
const MAX_TOTALS: u32 = 200;
/// Holdings that are listed: chains times currencies.
const MAX_ROWS: u32 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub chain: ChainId,
    pub currency: Address,
    /// The depository's balance at the block.
    pub held: Amount,
    /// Deposits less payouts, by the ledger, up to the same block.
    pub owed: Amount,
    pub block: u64,
    pub noted_at: Timestamp,
}

impl Holding {
    /// True if the depository can pay everything it owes.
    pub fn is_solvent(&self) -> bool {
        self.held >= self.owed
    }
}

/// The ledger's totals of a chain, by currency.
pub fn totals(tx: &mut Tx<'_>, chain: ChainId) -> Result<Vec<(Address, Total)>, StoreError> {
    tx.rows(
        "select currency, deposited, executed from depository_total where chain_id = $1 order by currency limit $2",
        &[chain.0.try_into()?, MAX_TOTALS.into()],
    )?
    .iter()
    .map(|row| Ok((row.address(0)?, Total { deposited: amount(row, 1)?, executed: amount(row, 2)? })))
    .collect()
}

pub fn put(tx: &mut Tx<'_>, holding: &Holding) -> Result<(), StoreError> {
    tx.execute(
        "insert into depository_holding (chain_id, currency, held, owed, block_number, noted_at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (chain_id, currency) do update set held = excluded.held, owed = excluded.owed,
         block_number = excluded.block_number, noted_at = excluded.noted_at",
        &[
            holding.chain.0.try_into()?,
            holding.currency.into(),
            word(holding.held),
            word(holding.owed),
            holding.block.try_into()?,
            holding.noted_at.into(),
        ],
    )?;
    Ok(())
}

/// The time at which the holdings of a chain were last read.
pub fn last_noted(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<Timestamp>, StoreError> {
    let row = tx.row("select max(noted_at) from depository_holding where chain_id = $1", &[chain.0.try_into()?])?;
    row.map_or(Ok(None), |row| row.opt_time(0))
}

/// All holdings, by chain.
pub fn all(tx: &mut Tx<'_>) -> Result<Vec<Holding>, StoreError> {
    tx.rows(
        "select chain_id, currency, held, owed, block_number, noted_at from depository_holding
         order by chain_id, currency limit $1",
        &[MAX_ROWS.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Holding {
            chain: ChainId(row.uint(0)?),
            currency: row.address(1)?,
            held: amount(row, 2)?,
            owed: amount(row, 3)?,
            block: row.uint(4)?,
            noted_at: row.time(5)?,
        })
    })
    .collect()
}
