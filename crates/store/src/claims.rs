//! Withdrawals of app balances, from the challenge to the end of their payment.

use alloy_primitives::{Address, B256};
use domain::claim::State;
use domain::ids::{ChainId, ClaimId};
use domain::ledger::UsdcMicros;
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value};

/// Expired unsigned claims removed with every new one.
const PRUNED: i64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: ClaimId,
    pub wallet: Address,
    pub recipient: Address,
    pub chain: ChainId,
    pub currency: Address,
    pub amount: UsdcMicros,
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRow {
    pub sequence: i64,
    pub claim: Claim,
    pub state: State,
    pub created_at: Timestamp,
}

macro_rules! columns {
    () => {
        "c.sequence, c.claim_id, c.wallet, c.recipient, c.chain_id, c.currency, c.amount, c.state, c.expires_at, \
         c.created_at"
    };
}

fn from_row(row: &Row) -> Result<ClaimRow, StoreError> {
    let state = row.text(7)?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state).ok_or(unknown(7, "a state"))?;
    let claim = Claim {
        id: ClaimId(row.b256(1)?),
        wallet: row.address(2)?,
        recipient: row.address(3)?,
        chain: ChainId(row.uint(4)?),
        currency: row.address(5)?,
        amount: UsdcMicros(row.int(6)?),
        expires_at: row.time(8)?,
    };
    Ok(ClaimRow { sequence: row.int(0)?, claim, state, created_at: row.time(9)? })
}

/// Inserts a claim and prunes some that expired unsigned. `false` means that the claim exists already.
pub fn put(tx: &mut Tx<'_>, claim: &Claim, state: State, now: Timestamp) -> Result<bool, StoreError> {
    tx.execute(
        "delete from claim where sequence in
         (select sequence from claim where state = 'asked' and expires_at <= $1 order by expires_at limit $2)",
        &[now.into(), Value::Int(PRUNED)],
    )?;
    let new = tx.row(
        "insert into claim (claim_id, wallet, recipient, chain_id, currency, amount, state, expires_at, created_at,
         updated_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) on conflict do nothing returning sequence",
        &[
            claim.id.into(),
            claim.wallet.into(),
            claim.recipient.into(),
            claim.chain.0.try_into()?,
            claim.currency.into(),
            claim.amount.0.into(),
            state.as_str().into(),
            claim.expires_at.into(),
            now.into(),
        ],
    )?;
    Ok(new.is_some())
}

pub fn find(tx: &mut Tx<'_>, id: ClaimId) -> Result<Option<ClaimRow>, StoreError> {
    let sql = concat!("select ", columns!(), " from claim c where c.claim_id = $1");
    tx.row(sql, &[id.into()])?.as_ref().map(from_row).transpose()
}

/// Finds the claim and locks its row until the unit ends.
pub fn lock(tx: &mut Tx<'_>, id: ClaimId) -> Result<Option<ClaimRow>, StoreError> {
    let sql = concat!("select ", columns!(), " from claim c where c.claim_id = $1 {for_update}");
    tx.row(sql, &[id.into()])?.as_ref().map(from_row).transpose()
}

pub fn set_state(tx: &mut Tx<'_>, id: ClaimId, state: State, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update claim set state = $2, updated_at = $3 where claim_id = $1",
        &[id.into(), state.as_str().into(), now.into()],
    )?;
    Ok(())
}

/// A claim as its wallet's owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub stored: ClaimRow,
    /// Transaction hash of the newest payment, once nodes received it.
    pub tx: Option<B256>,
}

/// The signed claims of a wallet, newest first, before a sequence number if one is given.
pub fn of_wallet(tx: &mut Tx<'_>, wallet: Address, before: Option<i64>, most: u16) -> Result<Vec<Listed>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        ", (select p.tx_hash from payment p where p.purpose = 'claim' and p.subject = c.claim_id
          order by p.payment_id desc limit 1)
         from claim c where c.wallet = $1 and c.sequence < $2 and c.state <> 'asked' order by c.sequence desc limit $3"
    );
    tx.rows(sql, &[wallet.into(), before.unwrap_or(i64::MAX).into(), Value::Int(most.into())])?
        .iter()
        .map(|row| Ok(Listed { stored: from_row(row)?, tx: row.opt_b256(10)? }))
        .collect()
}

/// Signed claims after a sequence number, in order.
pub fn after(tx: &mut Tx<'_>, sequence: i64, most: i64) -> Result<Vec<ClaimRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from claim c where c.sequence > $1 and c.state <> 'asked' order by c.sequence limit $2"
    );
    tx.rows(sql, &[sequence.into(), Value::Int(most)])?.iter().map(from_row).collect()
}
