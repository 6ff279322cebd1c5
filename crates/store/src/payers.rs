//! The payers of a chain: its lanes, locked until the unit ends, and all outstanding payments from them.
//!
//! A unit that pays many times reads this once. It is kept in the transaction between two payments, and any other
//! change to a payment in between discards it.

use domain::ids::ChainId;

use crate::lanes::{self, Lane};
use crate::payments::{self, Outstanding, PaymentRow};
use crate::{StoreError, Tx};

#[derive(Debug)]
pub struct Payers {
    chain: ChainId,
    block: u64,
    pub lanes: Vec<Lane>,
    /// Payments not yet in the balances at the block.
    pub outstanding: Vec<Outstanding>,
}

/// The lanes are locked first: from then on no other unit adds a payment to them.
pub fn lock(tx: &mut Tx<'_>, chain: ChainId, block: u64) -> Result<Payers, StoreError> {
    let kept = tx.take_kept::<Payers>().filter(|kept| (kept.chain, kept.block) == (chain, block));
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let lanes = lanes::lock(tx, chain)?;
    let outstanding = payments::outstanding(tx, chain, block)?;
    Ok(Payers { chain, block, lanes, outstanding })
}

impl Payers {
    /// Keeps it for the next payment of the unit.
    pub fn keep(self, tx: &mut Tx<'_>) {
        tx.keep(self);
    }

    /// The same, plus a payment that was just made.
    pub fn keep_with(mut self, tx: &mut Tx<'_>, made: &PaymentRow) {
        let payment = &made.payment;
        for lane in self.lanes.iter_mut().filter(|lane| lane.wallet == payment.wallet) {
            lane.unmined += 1;
            lane.next_nonce = payment.nonce + 1;
        }
        self.outstanding.push(Outstanding {
            wallet: payment.wallet,
            target: payment.target,
            value: payment.value,
            currency: payment.currency,
            amount: payment.amount,
            gas: payment.gas,
            max_fee: made.fees.max_fee,
        });
        self.keep(tx);
    }
}
