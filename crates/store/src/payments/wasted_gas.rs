//! Gas of payments that failed on the chain: known to be wasted by the recipient or the caller, or not known yet.
//!
//! The gas of a fast fill that failed ahead of its deposit is the business of the integrator's hold alone
//! (`fast_fill.failed_payment`): what is asked here for a subject leaves it out, so that no refund pays for it again.

use domain::ids::ChainId;
use domain::money::Amount;

use super::{PaymentId, Subject, by};
use crate::{Row, StoreError, Tx};

/// Void payments whose gas the recipient, or a call of the caller's own, made us burn. A plain payment of native
/// currency can fail for no other reason. Payments we cancelled ourselves do not count.
macro_rules! wasted {
    () => {
        "select p.chain_id, p.fee from payment p where p.state = 'void' and p.fee is not null
         and (p.target = p.recipient and length(p.data) = 32 or exists (select 1 from transaction_record r where r.request_id = p.request_id
         and r.chain_id = p.chain_id and r.tx_hash = p.tx_hash and r.direction = 'out' and r.refused = 1))
         and not exists (select 1 from attempt a where a.payment_id = p.payment_id and a.cancels = 1) and "
    };
}

/// Void payments whose cause is still being looked for.
macro_rules! unexplained {
    () => {
        "select 1 from payment p join transaction_record r on r.request_id = p.request_id and r.chain_id = p.chain_id
         and r.tx_hash = p.tx_hash where p.state = 'void' and not (p.target = p.recipient and length(p.data) = 32)
         and r.direction = 'out' and r.succeeded = 0 and r.gone = 0 and r.explain_left > 0 and "
    };
}

/// The payments of a subject, without those that a fast fill's hold answers for.
macro_rules! of_subject {
    () => {
        "p.purpose = $1 and p.subject = $2
         and not exists (select 1 from fast_fill f where f.failed_payment = p.payment_id)"
    };
}

fn cost(row: &Row) -> Result<(ChainId, Amount), StoreError> {
    Ok((ChainId(row.uint(0)?), row.amount(1)?))
}

/// The gas cost of a subject's payments that failed because the recipient, or a call of the caller's own, refused.
pub fn wasted(tx: &mut Tx<'_>, subject: &Subject) -> Result<Vec<(ChainId, Amount)>, StoreError> {
    tx.rows(concat!(wasted!(), of_subject!()), &by(subject))?.iter().map(cost).collect()
}

/// The same of one payment.
pub fn wasted_by(tx: &mut Tx<'_>, id: PaymentId) -> Result<Option<(ChainId, Amount)>, StoreError> {
    tx.row(concat!(wasted!(), "p.payment_id = $1"), &[id.0.into()])?.as_ref().map(cost).transpose()
}

/// True if a payment of a subject failed and the cause is still being looked for.
pub fn is_unexplained(tx: &mut Tx<'_>, subject: &Subject) -> Result<bool, StoreError> {
    Ok(tx.row(concat!(unexplained!(), of_subject!(), " limit 1"), &by(subject))?.is_some())
}

/// True if this payment failed and the cause is still being looked for.
pub fn is_cause_unknown(tx: &mut Tx<'_>, id: PaymentId) -> Result<bool, StoreError> {
    Ok(tx.row(concat!(unexplained!(), "p.payment_id = $1 limit 1"), &[id.0.into()])?.is_some())
}
