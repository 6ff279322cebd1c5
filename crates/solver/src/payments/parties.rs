//! The parties of a payment: everyone the operator's list is asked about in the commit that pays.
//!
//! A list may have grown since the quote. A blocked payment is neither made nor returned: a person decides.

use alloy::primitives::Address;
use domain::account::Account;
use domain::quote::Quote;
use store::deposits::{Deposit, DepositId};
use store::dues::Due;
use store::payments::Subject;
use store::{StoreError, Tx, claims, deposits};

use crate::context::PayContext;

/// True if the list blocks somebody who pays, is paid, or is named by the quote or the deposit.
pub fn is_blocked(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<bool, StoreError> {
    // Most operators have no list: then nothing is read for it.
    if context.screening.blocked.is_empty() {
        return Ok(false);
    }
    let others = match due.subject {
        Subject::Fill(order) | Subject::Refund(order) => {
            of_deposit(deposits::of_order(tx, order)?.map(|it| it.deposit))
        }
        Subject::Return { row, .. } => of_deposit(deposits::get(tx, DepositId(row))?.map(|it| it.deposit)),
        Subject::Excess(_) => match quote.and_then(Quote::order) {
            Some(order) => of_deposit(deposits::of_order(tx, order.id())?.map(|it| it.deposit)),
            None => Vec::new(),
        },
        Subject::Claim(id) => claims::find(tx, id)?.map(|stored| stored.claim.wallet).into_iter().collect(),
        // Those whom the quote names, below.
        Subject::Relay(_) => Vec::new(),
        // Our own wallets; the allocator screens its payouts when it decides and when it signs them, and senders to a
        // deposit address are screened before it is swept.
        Subject::Refill(_) | Subject::Payout { .. } | Subject::Sweep(_) => return Ok(false),
    };
    let named = quote.into_iter().flat_map(|quote| quote.ask.parties()).filter_map(|(_, who)| Account::packed(who));
    let parties: Vec<Address> = named.chain(others).chain([due.recipient]).collect();
    // The list has wallets: those of venue accounts are looked at as well.
    let wallets = parties.iter().filter_map(|who| context.venue_accounts.wallet_of(*who));
    Ok(context.screening.blocks(parties.iter().copied().chain(wallets)))
}

fn of_deposit(deposit: Option<Deposit>) -> Vec<Address> {
    deposit.map_or_else(Vec::new, |deposit| deposit.parties().to_vec())
}
