//! The parties of a payment: everyone the operator's list is asked about in the commit that pays.
//!
//! A list may have grown since the quote. A blocked payment is neither made nor returned: a person decides.

use alloy::primitives::Address;
use domain::account::Account;
use domain::quote::Quote;
use store::arrivals::{self, Behind, BehindDeposit};
use store::deposits::{Deposit, DepositId, DepositRow};
use store::dues::Due;
use store::payments::Subject;
use store::{StoreError, Tx, claims, deposit_addresses, deposits};

use crate::context::PayContext;

/// True if the list blocks somebody who pays, is paid, or is named by the quote or the deposit.
pub fn is_blocked(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<bool, StoreError> {
    // Most operators have no list: then nothing is read for it.
    if context.screening.blocked.is_empty() {
        return Ok(false);
    }
    let (stored, claimant) = match due.subject {
        Subject::Fill(order) | Subject::Refund(order) => (deposits::of_order(tx, order)?, None),
        Subject::Return { row, .. } => (deposits::get(tx, DepositId(row))?, None),
        Subject::Excess(_) => match quote.and_then(Quote::order) {
            Some(order) => (deposits::of_order(tx, order.id())?, None),
            None => (None, None),
        },
        Subject::Claim(id) => (None, claims::find(tx, id)?.map(|stored| stored.claim.wallet)),
        // Those whom the quote names, below.
        Subject::Relay(_) => (None, None),
        // Our own wallets; the allocator screens its payouts when it decides and when it signs them. Senders to a
        // deposit address are screened before it is swept, and again behind the deposit.
        Subject::Refill(_) | Subject::Payout { .. } | Subject::Sweep(_) => return Ok(false),
    };
    let others = of_deposit(tx, stored)?.into_iter().chain(claimant);
    let named = quote.into_iter().flat_map(|quote| quote.ask.parties()).filter_map(|(_, who)| Account::packed(who));
    let parties: Vec<Address> = named.chain(others).chain([due.recipient]).collect();
    // The list has wallets: those of venue accounts are looked at as well.
    let wallets = parties.iter().filter_map(|who| context.venue_accounts.wallet_of(*who));
    Ok(context.screening.blocks(parties.iter().copied().chain(wallets)))
}

/// Payer, sender and depositor, and whoever sent the money to the address it was swept from: anybody may sweep a strict
/// one, and is then the sender.
fn of_deposit(tx: &mut Tx<'_>, stored: Option<DepositRow>) -> Result<Vec<Address>, StoreError> {
    let Some(deposit) = stored.map(|stored| stored.deposit) else { return Ok(Vec::new()) };
    let behind = behind(tx, &deposit)?.unwrap_or_default();
    Ok(deposit.parties().into_iter().chain(behind.senders).collect())
}

/// The senders behind a deposit that came through a deposit address.
fn behind(tx: &mut Tx<'_>, deposit: &Deposit) -> Result<Option<Behind>, StoreError> {
    let Some(order) = deposit.order_id else { return Ok(None) };
    let Deposit { chain, currency, amount, block_number: block, .. } = *deposit;
    arrivals::behind(tx, &BehindDeposit { chain, order, currency, amount, block })
}

/// True while transfers that a deposit may have come from are still being searched for. Without a list nobody asks who
/// sent them.
pub fn are_sought(tx: &mut Tx<'_>, deposit: &Deposit, context: &PayContext) -> Result<bool, StoreError> {
    if context.screening.blocked.is_empty() || behind(tx, deposit)?.is_none_or(|behind| behind.is_explained) {
        return Ok(false);
    }
    let searched = deposit_addresses::cursor(tx, deposit.chain)?;
    Ok(searched.is_some_and(|at| at.number < deposit.block_number))
}
