//! Money that goes back beside a request's own outcome: deposits that named its order without paying for it, and the
//! excess of the one that did.

use alloy_primitives::{Address, B256};
use domain::ids::{ChainId, RequestId};
use domain::money::Amount;

use crate::requests::{self, Hashes, Request};
use crate::{Row, StoreError, Tx};

/// Returns that are listed: more than a request has, short of an attack.
const MAX_RETURNS: usize = 20;

/// A deposit that paid for nothing, as a request of its own.
#[derive(Clone, Debug)]
pub struct Returned {
    pub request: Request,
    pub hashes: Hashes,
}

/// The excess of a request's deposit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    pub chain: ChainId,
    pub currency: Address,
    pub amount: Amount,
    /// Its transaction, once there is one.
    pub tx: Option<B256>,
    /// It was seen in a block.
    pub mined: bool,
}

/// The deposits that named a request's order without paying for it, oldest first.
pub fn deposits(tx: &mut Tx<'_>, parent: RequestId) -> Result<Vec<Returned>, StoreError> {
    let children = requests::children(tx, parent)?;
    let mut returned = Vec::with_capacity(children.len().min(MAX_RETURNS));
    for child in children.into_iter().take(MAX_RETURNS) {
        let Some(request) = requests::find(tx, child)? else { continue };
        let hashes = requests::hashes(tx, &request)?;
        returned.push(Returned { request, hashes });
    }
    Ok(returned)
}

/// The excess of a request's deposit: paid back, on its way, or still due.
pub fn excess(tx: &mut Tx<'_>, request: RequestId) -> Result<Option<Excess>, StoreError> {
    let paid = tx.row(
        "select chain_id, currency, amount, tx_hash, state from payment
         where request_id = $1 and purpose = 'excess' and state <> 'void' order by payment_id desc limit 1",
        &[request.0.into()],
    )?;
    let read = |row: &Row| {
        Ok(Excess {
            chain: ChainId(row.uint(0)?),
            currency: row.address(1)?,
            amount: row.amount(2)?,
            tx: row.opt_b256(3)?,
            mined: matches!(row.text(4)?, "mined" | "final"),
        })
    };
    if let Some(row) = paid {
        return read(&row).map(Some);
    }
    let due = tx.row(
        "select chain_id, currency, amount from due where request_id = $1 and purpose = 'excess' limit 1",
        &[request.0.into()],
    )?;
    let read = |row: &Row| {
        let (chain, currency, amount) = (ChainId(row.uint(0)?), row.address(1)?, row.amount(2)?);
        Ok(Excess { chain, currency, amount, tx: None, mined: false })
    };
    due.as_ref().map(read).transpose()
}
