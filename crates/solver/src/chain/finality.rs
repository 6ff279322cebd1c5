//! Finality: a row becomes final with the block that we walked. A row of another block at the same height was left
//! behind by a reorg, however deep that block is by now: it is undone like every other row of a reorg, and a person is
//! told.

use domain::alarm::Alarm;
use domain::ids::ChainId;
use domain::{payment, sweep};
use metrics::counter;
use store::blocks::Cursor;
use store::deposits::DepositRow;
use store::payments::{PaymentRow, Subject};
use store::treasury_transfers::TreasuryTransferRow;
use store::{Tx, blocks, payments, records, sweeps, treasury_transfers};
use tracing::error;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::orders;

/// True if our chain has another block at this height. A block that is not kept any more contradicts nothing.
fn is_elsewhere(tx: &mut Tx<'_>, chain: ChainId, block: Cursor) -> Result<bool, SolverError> {
    Ok(blocks::hash_of(tx, chain, block.number)?.is_some_and(|ours| ours != block.hash))
}

/// Undoes a payment that is in no block of ours: it is neither final nor void, and the same bytes go out again. True if
/// it was undone.
pub(crate) fn undo_payment(tx: &mut Tx<'_>, stored: &PaymentRow, context: &PayContext) -> Result<bool, SolverError> {
    let chain = stored.payment.chain;
    let Some(block) = payments::block_of(tx, stored.id)? else { return Ok(false) };
    if !is_elsewhere(tx, chain, block)? {
        return Ok(false);
    }
    payments::set_state(tx, stored.id, payment::step(stored.state, payment::Event::Unmined)?, context.now)?;
    payments::set_mined(tx, stored.id, None)?;
    if let Subject::Sweep(id) = stored.payment.subject {
        sweeps::apply(tx, id, sweep::Event::Unmined)?;
    }
    told(tx, chain, block, "a payment", context)?;
    Ok(true)
}

/// Undoes a deposit that is in no block of ours. None if it stands.
pub(crate) fn undo_deposit(
    tx: &mut Tx<'_>,
    stored: &DepositRow,
    context: &PayContext,
) -> Result<Option<Vec<PaymentRow>>, SolverError> {
    let deposit = &stored.deposit;
    let block = Cursor { number: deposit.block_number, hash: deposit.block_hash };
    if !is_elsewhere(tx, deposit.chain, block)? {
        return Ok(None);
    }
    told(tx, deposit.chain, block, "a deposit", context)?;
    orders::deposits::vanish(tx, stored, context).map(Some)
}

/// Undoes a treasury transfer that is in no block of ours. True if it was undone.
pub(crate) fn undo_transfer(
    tx: &mut Tx<'_>,
    stored: &TreasuryTransferRow,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let transfer = &stored.transfer;
    let block = Cursor { number: transfer.block_number, hash: transfer.block_hash };
    if !is_elsewhere(tx, transfer.chain, block)? {
        return Ok(false);
    }
    treasury_transfers::gone(tx, stored.id, context.now)?;
    told(tx, transfer.chain, block, "a treasury transfer", context)?;
    Ok(true)
}

/// Marks the block's transactions as gone, and tells of it.
fn told(tx: &mut Tx<'_>, chain: ChainId, block: Cursor, what: &str, context: &PayContext) -> Result<(), SolverError> {
    records::gone_in(tx, chain, block)?;
    error!(chain.id = %chain, block = block.number, hash = %block.hash, "{what} was to become final in a block that is not ours: it is undone");
    counter!("causeway_final_blocks_differ_total", "chain" => chain.to_string()).increment(1);
    if let Some((handle, _)) = context.on(chain) {
        let text = format!(
            "{what} was to become final in block {}, and another block of that height was walked",
            block.number
        );
        handle.health.alarms.raise(Alarm::FinalBlockDiffers, text);
    }
    Ok(())
}
