//! Funding of app balances: a treasury transfer is noted when it is seen, and credited once it is final.
//!
//! Nothing is credited before, so a reorg has nothing to take back. A transfer that is credited to nobody stays as a
//! row that the operator is shown.

use domain::ledger::{self, Cause, Entry, MAX_AMOUNT, UsdcMicros};
use domain::money::{Amount, OutOfRange};
use domain::treasury_transfer::{Event, State, step};
use evm::{Head, SeenTreasuryTransfer};
use metrics::counter;
use store::treasury_transfers::{self, TreasuryTransfer, TreasuryTransferId};
use store::{Tx, ledger as app_ledger};
use tracing::{info, warn};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;

/// Notes a treasury transfer of a block. Reading the same block again changes nothing.
pub fn apply(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    seen: &SeenTreasuryTransfer,
    context: &PayContext,
) -> Result<(), SolverError> {
    let transfer = TreasuryTransfer {
        chain: handle.id(),
        tx: seen.tx,
        ordinal: seen.ordinal,
        log_index: seen.log_index,
        block_number: head.number,
        block_hash: head.hash,
        sender: seen.sender,
        currency: seen.currency,
        amount: Amount::new(seen.amount),
        account: seen.account.map_err(|reason| reason.to_string()),
    };
    Ok(treasury_transfers::put(tx, &transfer, context.now)?)
}

/// Credits a transfer whose block is final, or sets it aside for a person. Without a price it waits.
pub fn credit(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    id: TreasuryTransferId,
    context: &PayContext,
) -> Result<(), SolverError> {
    let Some(stored) = treasury_transfers::get(tx, id)?.filter(|stored| stored.state == State::Seen) else {
        return Ok(());
    };
    let transfer = &stored.transfer;
    let set_aside = |tx: &mut Tx<'_>, reason: &str| {
        warn!(chain.id = %transfer.chain, tx = %transfer.tx, reason, "a treasury transfer is credited to nobody");
        counter!("causeway_unattributed_receipts_total", "chain" => transfer.chain.to_string()).increment(1);
        treasury_transfers::set_aside(tx, id, reason, context.now)
    };
    let account = match &transfer.account {
        Ok(account) => *account,
        Err(reason) => return Ok(set_aside(tx, reason)?),
    };
    if context.screening.blocks([account, transfer.sender]) {
        return Ok(set_aside(tx, "blocked-wallet")?);
    }
    let (credit, priced_at) = match worth(handle, transfer, context) {
        Worth::Micros(credit, priced_at) => (credit, priced_at),
        Worth::Unknown => return Ok(()),
        Worth::OutOfRange => return Ok(set_aside(tx, "amount")?),
    };
    step(stored.state, Event::Credited)?;
    let entry = Entry::new(Cause::Funding { transfer: id.0 }, account, credit, None)?;
    app_ledger::post(tx, &entry, context.now)?;
    treasury_transfers::credited(tx, id, credit, priced_at, context.now)?;
    info!(wallet = %account, tx = %transfer.tx, credited = credit.0, "funded an app balance");
    Ok(())
}

enum Worth {
    /// The worth, and the block of its price.
    Micros(UsdcMicros, u64),
    /// Prices are not known at the moment.
    Unknown,
    /// Zero, or more than an account can take.
    OutOfRange,
}

/// The worth of a transfer. USDC counts as itself; native currency is credited like an exchange.
fn worth(handle: &ChainHandle, transfer: &TreasuryTransfer, context: &PayContext) -> Worth {
    let rate = match context.credit_rate(handle.id(), transfer.currency, transfer.amount) {
        Ok(Some(rate)) if ledger::currency(&handle.chain).is_some() => rate,
        Ok(None) => return Worth::Unknown,
        Ok(Some(_)) | Err(OutOfRange) => return Worth::OutOfRange,
    };
    let snapshot = context.on(handle.id()).and_then(|(_, snapshot)| snapshot).filter(|_| transfer.currency.is_zero());
    let priced_at = snapshot.map_or(transfer.block_number, |snapshot| snapshot.block);
    let credit = rate.micros(transfer.amount).ok().filter(|credit| (1..=MAX_AMOUNT.0).contains(&credit.0));
    credit.map_or(Worth::OutOfRange, |credit| Worth::Micros(credit, priced_at))
}
