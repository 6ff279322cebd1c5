//! Payouts: money the allocator decided to pay out of a depository, its signatures, and their progress.

use alloy_primitives::{Address, B256};
use domain::ids::{ChainId, OrderId, PayoutNonce};
use domain::money::Amount;
pub use domain::payout::{Kind, State};
use domain::subject::Subject;
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::depository_ledger::{amount, word};
use crate::{Row, StoreError, Tx, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayoutId(pub i64);

fn kind(row: &Row, index: usize) -> Result<Kind, StoreError> {
    match row.int(index)? {
        1 => Ok(Kind::Refund),
        2 => Ok(Kind::Excess),
        3 => Ok(Kind::Batch),
        _ => Err(unknown(index, "a kind of payout")),
    }
}

fn state(row: &Row, index: usize) -> Result<State, StoreError> {
    let text = row.text(index)?;
    State::ALL.into_iter().find(|state| state.as_str() == text).ok_or(unknown(index, "a state"))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payout {
    pub nonce: PayoutNonce,
    pub kind: Kind,
    pub subject: B256,
    pub chain: ChainId,
    pub currency: Address,
    pub recipient: Address,
    pub amount: Amount,
}

impl Payout {
    /// The subject of its payment, which is found by the nonce, whatever it settles.
    pub fn payment_subject(&self) -> Subject {
        Subject::Payout { nonce: self.nonce, settles: OrderId(self.subject) }
    }
}

#[derive(Clone, Debug)]
pub struct PayoutRow {
    pub id: PayoutId,
    pub state: State,
    pub payout: Payout,
    pub note: Option<String>,
}

macro_rules! columns {
    () => {
        "payout_id, state, nonce, kind, subject, chain_id, currency, recipient, amount, note from payout"
    };
}

fn from_row(row: &Row) -> Result<PayoutRow, StoreError> {
    Ok(PayoutRow {
        id: PayoutId(row.int(0)?),
        state: state(row, 1)?,
        payout: Payout {
            nonce: PayoutNonce(row.b256(2)?),
            kind: kind(row, 3)?,
            subject: row.b256(4)?,
            chain: ChainId(row.uint(5)?),
            currency: row.address(6)?,
            recipient: row.address(7)?,
            amount: amount(row, 8)?,
        },
        note: row.opt_text(9)?.map(str::to_owned),
    })
}

/// Reserves a payout and its part of each deposit. `None` means that the same payout exists already.
pub fn insert(
    tx: &mut Tx<'_>,
    payout: &Payout,
    parts: &[(B256, Amount)],
    state: State,
    now: Timestamp,
) -> Result<Option<PayoutId>, StoreError> {
    let row = tx.row(
        "insert into payout (nonce, kind, subject, chain_id, currency, recipient, amount, state, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) on conflict do nothing returning payout_id",
        &[
            payout.nonce.into(),
            Value::Int(payout.kind as i64),
            payout.subject.into(),
            payout.chain.0.try_into()?,
            payout.currency.into(),
            payout.recipient.into(),
            word(payout.amount),
            state.as_str().into(),
            now.into(),
        ],
    )?;
    let Some(row) = row else { return Ok(None) };
    let id = row.int(0)?;
    for (key, part) in parts {
        tx.execute(
            "insert into payout_deposit (payout_id, deposit_key, kind, amount) values ($1, $2, $3, $4)",
            &[id.into(), key.into(), Value::Int(payout.kind as i64), word(*part)],
        )?;
    }
    Ok(Some(PayoutId(id)))
}

/// True if this exact payout is in the depository ledger already.
pub fn is_reserved(
    tx: &mut Tx<'_>,
    chain: ChainId,
    nonce: PayoutNonce,
    currency: Address,
    recipient: Address,
    amount: Amount,
) -> Result<bool, StoreError> {
    let known = tx.row(
        "select payout_id from payout where chain_id = $1 and nonce = $2 and currency = $3 and recipient = $4
         and amount = $5",
        &[chain.0.try_into()?, nonce.into(), currency.into(), recipient.into(), word(amount)],
    )?;
    Ok(known.is_some())
}

/// Finds the payout and locks its row until the unit ends.
pub fn lock(tx: &mut Tx<'_>, id: PayoutId) -> Result<Option<PayoutRow>, StoreError> {
    let sql = concat!("select ", columns!(), " where payout_id = $1 {for_update}");
    tx.row(sql, &[id.0.into()])?.as_ref().map(from_row).transpose()
}

/// Payouts reserved or signed on a chain and not known to be executed, oldest first.
pub fn open(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<PayoutRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        // Batches and refunds of orders come first: anybody can cause any number of returns, which must not delay them.
        " where chain_id = $1 and state in ('intended', 'signed') order by case when kind = 3 or exists
          (select 1 from settlement s join request r on r.order_id = s.order_id and r.parent_id is null
          where s.payout_id = payout.payout_id) then 0 else 1 end, payout_id limit $2"
    );
    tx.rows(sql, &[chain.0.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// Payouts after an id, in order and in any state.
pub fn after(tx: &mut Tx<'_>, id: PayoutId, most: i64) -> Result<Vec<PayoutRow>, StoreError> {
    let sql = concat!("select ", columns!(), " where payout_id > $1 order by payout_id limit $2");
    tx.rows(sql, &[id.0.into(), Value::Int(most)])?.iter().map(from_row).collect()
}

/// The parts of a payout, by deposit key.
pub fn parts(tx: &mut Tx<'_>, id: PayoutId) -> Result<Vec<(B256, Amount)>, StoreError> {
    let sql = "select deposit_key, amount from payout_deposit where payout_id = $1 order by deposit_key";
    tx.rows(sql, &[id.0.into()])?.iter().map(|row| Ok((row.b256(0)?, amount(row, 1)?))).collect()
}

pub fn set_state(
    tx: &mut Tx<'_>,
    id: PayoutId,
    state: State,
    note: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "update payout set state = $2, note = $3, updated_at = $4 where payout_id = $1",
        &[id.0.into(), state.as_str().into(), note.into(), now.into()],
    )?;
    Ok(())
}

/// Records why a payout does not go on.
pub fn explain(tx: &mut Tx<'_>, id: PayoutId, why: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update payout set note = $2, updated_at = $3 where payout_id = $1",
        &[id.0.into(), why.into(), now.into()],
    )?;
    Ok(())
}

/// Leaves an executed payout for the worker, which tells the request that it ends.
pub fn mark_untold(tx: &mut Tx<'_>, id: PayoutId) -> Result<(), StoreError> {
    tx.execute("update payout set told = 0 where payout_id = $1", &[id.0.into()])?;
    Ok(())
}

/// Payouts executed on a chain whose requests have not been told, oldest first.
pub fn untold(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<PayoutRow>, StoreError> {
    let sql = concat!("select ", columns!(), " where chain_id = $1 and told = 0 order by payout_id limit $2");
    tx.rows(sql, &[chain.0.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// Marks a payout's request as told. `false` means that it was told already.
pub fn tell(tx: &mut Tx<'_>, id: PayoutId) -> Result<bool, StoreError> {
    let sql = "update payout set told = 1 where payout_id = $1 and told = 0 returning payout_id";
    Ok(tx.row(sql, &[id.0.into()])?.is_some())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub ordinal: u32,
    pub issued: u64,
    pub expiration: u64,
    pub struct_hash: B256,
    /// None between the decision to sign and the signature.
    pub bytes: Option<Vec<u8>>,
}

/// The one signature of a payout that may still be valid.
pub fn live(tx: &mut Tx<'_>, id: PayoutId) -> Result<Option<Signature>, StoreError> {
    let sql = "select ordinal, issued, expiration, struct_hash, signature from payout_signature
               where payout_id = $1 and live = 1";
    tx.row(sql, &[id.0.into()])?.as_ref().map(signature).transpose()
}

fn signature(row: &Row) -> Result<Signature, StoreError> {
    Ok(Signature {
        ordinal: row.u32(0)?,
        issued: row.uint(1)?,
        expiration: row.uint(2)?,
        struct_hash: row.b256(3)?,
        bytes: row.opt_bytes(4)?.map(<[u8]>::to_vec),
    })
}

/// The number of signatures decided for a payout.
pub fn signatures(tx: &mut Tx<'_>, id: PayoutId) -> Result<u32, StoreError> {
    let sql = "select cast(coalesce(max(ordinal), 0) as bigint) from payout_signature where payout_id = $1";
    tx.row(sql, &[id.0.into()])?.map_or(Ok(0), |row| row.u32(0))
}

/// Records the decision to sign. The index refuses a second one while the first is live.
pub fn decide(tx: &mut Tx<'_>, id: PayoutId, signature: &Signature, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into payout_signature (payout_id, ordinal, issued, expiration, struct_hash, created_at)
         values ($1, $2, $3, $4, $5, $6)",
        &[
            id.0.into(),
            signature.ordinal.into(),
            signature.issued.try_into()?,
            signature.expiration.try_into()?,
            signature.struct_hash.into(),
            now.into(),
        ],
    )?;
    Ok(())
}

pub fn signed(tx: &mut Tx<'_>, id: PayoutId, ordinal: u32, bytes: &[u8]) -> Result<(), StoreError> {
    tx.execute(
        "update payout_signature set signature = $3 where payout_id = $1 and ordinal = $2 and live = 1",
        &[id.0.into(), ordinal.into(), bytes.into()],
    )?;
    Ok(())
}

/// Ends the payout's signature, on a final block which shows that it can no longer be used.
pub fn expire(tx: &mut Tx<'_>, id: PayoutId) -> Result<(), StoreError> {
    tx.execute("update payout_signature set live = 0 where payout_id = $1", &[id.0.into()])?;
    Ok(())
}

/// The payout whose signed request has this hash.
pub fn of_request(tx: &mut Tx<'_>, struct_hash: B256) -> Result<Option<PayoutId>, StoreError> {
    let row = tx.row("select payout_id from payout_signature where struct_hash = $1", &[struct_hash.into()])?;
    row.map(|row| row.int(0).map(PayoutId)).transpose()
}

/// Records the transaction that executed a payout.
pub fn set_tx(tx: &mut Tx<'_>, id: PayoutId, hash: B256) -> Result<(), StoreError> {
    tx.execute("update payout set tx_hash = $2 where payout_id = $1", &[id.0.into(), hash.into()])?;
    Ok(())
}

pub fn tx_of(tx: &mut Tx<'_>, id: PayoutId) -> Result<Option<B256>, StoreError> {
    let row = tx.row("select tx_hash from payout where payout_id = $1", &[id.0.into()])?;
    Ok(row.map(|row| row.opt_b256(0)).transpose()?.flatten())
}

pub fn has_nonce(tx: &mut Tx<'_>, nonce: PayoutNonce) -> Result<bool, StoreError> {
    Ok(tx.row("select payout_id from payout where nonce = $1", &[nonce.into()])?.is_some())
}

/// Amounts first signed for in a currency since a moment. Signing a payout again takes nothing more out.
pub fn signed_since(
    tx: &mut Tx<'_>,
    chain: ChainId,
    currency: Address,
    since: Timestamp,
) -> Result<Vec<(Timestamp, Amount)>, StoreError> {
    tx.rows(
        "select s.created_at, p.amount from payout_signature s join payout p on p.payout_id = s.payout_id
         where s.created_at > $1 and s.ordinal = 1 and p.chain_id = $2 and p.currency = $3",
        &[since.into(), chain.0.try_into()?, currency.into()],
    )?
    .iter()
    .map(|row| Ok((row.time(0)?, amount(row, 1)?)))
    .collect()
}

/// Amounts that live signatures may still take out of a depository, except one payout's.
pub fn promised(tx: &mut Tx<'_>, chain: ChainId, currency: Address, but: PayoutId) -> Result<Vec<Amount>, StoreError> {
    tx.rows(
        "select p.amount from payout p join payout_signature s on s.payout_id = p.payout_id and s.live = 1
         where p.chain_id = $1 and p.currency = $2 and p.state in ('intended', 'signed', 'parked') and p.payout_id <> $3",
        &[chain.0.try_into()?, currency.into(), but.0.into()],
    )?
    .iter()
    .map(|row| amount(row, 0))
    .collect()
}

/// Records a payout from a depository that we have not signed for.
pub fn unrecognized(
    tx: &mut Tx<'_>,
    chain: ChainId,
    struct_hash: B256,
    hash: B256,
    block: u64,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into unrecognized_payout (chain_id, struct_hash, tx_hash, block_number) values ($1, $2, $3, $4)
         on conflict do nothing",
        &[chain.0.try_into()?, struct_hash.into(), hash.into(), block.try_into()?],
    )?;
    Ok(())
}

/// The number of payouts that `recover` found on chain and the depository ledger has not taken over yet.
pub fn imported(tx: &mut Tx<'_>, chain: ChainId) -> Result<u64, StoreError> {
    let sql = "select count(*) from payment p where p.chain_id = $1 and p.purpose = 'payout'
         and p.state in ('decided', 'sent', 'mined', 'final')
         and not exists (select 1 from payout o where o.nonce = p.subject)";
    tx.row(sql, &[chain.0.try_into()?])?.map_or(Ok(0), |row| row.uint(0))
}

pub fn count_unrecognized(tx: &mut Tx<'_>, chain: ChainId) -> Result<u64, StoreError> {
    let sql = "select count(*) from unrecognized_payout where chain_id = $1";
    tx.row(sql, &[chain.0.try_into()?])?.map_or(Ok(0), |row| row.uint(0))
}
