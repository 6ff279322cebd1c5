//! Transactions under our nonces, as blocks show them.

use alloy::primitives::{Address, Bytes, U256};
use domain::ids::RequestId;
use domain::money::Amount;
use evm::{Head, SentTx};
use store::payments::{Mined, PaymentRow};
use store::records::{Direction, Record};

use crate::handle::ChainHandle;

/// The block in which a nonce of ours was used. The fee of a transaction that is not ours is not kept: it would come
/// off the refund of the user who was to be paid.
pub fn mined_in(head: Head, sent: &SentTx, ours: bool) -> Mined {
    let fee = ours.then(|| Amount::new(sent.fee));
    Mined { tx: sent.hash, block_number: head.number, block_hash: head.hash, fee }
}

/// A transaction of ours as listings show it. One that moved nothing failed, whatever its receipt says.
pub fn sent_record(handle: &ChainHandle, head: Head, sent: &SentTx, request: RequestId, succeeded: bool) -> Record {
    Record {
        request,
        direction: Direction::Out,
        chain: handle.id(),
        tx: sent.hash,
        sender: sent.from,
        target: sent.to,
        value: Amount::new(sent.value),
        data: sent.input.clone(),
        fee: Some(Amount::new(sent.fee)),
        block_number: head.number,
        block_hash: head.hash,
        block_time: head.timestamp(),
        succeeded,
        gone: false,
        failure: None,
    }
}

/// True for one of our attempts: same nonce and same contents, with any fees.
pub fn is_attempt(stored: &PaymentRow, sent: &SentTx) -> bool {
    let PaymentRow { payment, .. } = stored;
    let contents = (Some(payment.target), payment.value.units(), &payment.data);
    contents == (sent.to, sent.value, &sent.input) as (Option<Address>, U256, &Bytes) || is_cancel(stored, sent)
}

/// True for a cancellation: the transfer of zero to itself that uses up the nonce of a payment that was given up.
pub fn is_cancel(stored: &PaymentRow, sent: &SentTx) -> bool {
    stored.cancelled && uses_up_nonce(sent)
}

pub fn uses_up_nonce(sent: &SentTx) -> bool {
    sent.to == Some(sent.from) && sent.value.is_zero() && sent.input.is_empty()
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;

    use super::*;

    #[test]
    fn only_our_own_transaction_costs_the_payment_its_fee() {
        let head = Head { number: 7, hash: B256::repeat_byte(7), parent_hash: B256::ZERO, time: 0, base_fee: 0 };
        let sent = SentTx {
            from: Address::repeat_byte(0xcc),
            nonce: 3,
            hash: B256::repeat_byte(1),
            index: 0,
            to: None,
            value: U256::ZERO,
            input: Bytes::new(),
            success: true,
            gas_used: 21_000,
            effective_gas_price: 10,
            fee: U256::from(210_000),
            logs: Vec::new(),
        };
        assert_eq!(mined_in(head, &sent, true).fee, Some(Amount::new(sent.fee)));
        let foreign = mined_in(head, &sent, false);
        assert_eq!((foreign.tx, foreign.block_number, foreign.fee), (sent.hash, 7, None));
    }
}
