//! Payments that are known, beside those that the chain shows.

use alloy::primitives::Bytes;
use domain::time::Timestamp;
use store::payments::PaymentId;

use super::*;

const WALLET: Address = Address::repeat_byte(1);
const TARGET: Address = Address::repeat_byte(2);

fn known(data: Bytes) -> PaymentRow {
    let payment = Payment {
        subject: Subject::Fill(OrderId(B256::ZERO)),
        request: None,
        chain: ChainId(1),
        wallet: WALLET,
        nonce: 7,
        target: TARGET,
        value: Amount::ZERO,
        data,
        gas: 0,
        recipient: TARGET,
        currency: Address::ZERO,
        amount: Amount::ZERO,
    };
    PaymentRow {
        id: PaymentId(1),
        state: State::Decided,
        payment,
        fees: Fees { max_fee: 1, max_tip: 1 },
        attempts: 1,
        attempted_at: Timestamp::from_millis(0),
        cancelled: false,
        created_at: Timestamp::from_millis(0),
        block_number: None,
        authorizations: None,
    }
}

fn sent(input: Bytes, success: bool) -> SentTx {
    SentTx {
        from: WALLET,
        nonce: 7,
        hash: B256::repeat_byte(9),
        index: 0,
        to: Some(TARGET),
        value: U256::ZERO,
        input,
        success,
        gas_used: 0,
        effective_gas_price: 0,
        fee: U256::ZERO,
        logs: Vec::new(),
    }
}

#[test]
fn a_payment_under_the_nonce_of_another_one_is_not_taken_for_it() {
    let (ours, other) = (Bytes::from(vec![1; 36]), Bytes::from(vec![2; 36]));
    let row = known(ours.clone());
    assert_eq!(beside(&row, &sent(ours, true)).unwrap(), Import::Known);
    let paid = beside(&row, &sent(other.clone(), true));
    assert!(matches!(paid, Err(SolverError::TwoDatabases { chain: ChainId(1), .. })), "{paid:?}");
    // A failed transaction has paid nobody, and one that names no order has paid for none of ours.
    assert_eq!(beside(&row, &sent(other, false)).unwrap(), Import::Unknown);
    assert_eq!(beside(&row, &sent(Bytes::new(), true)).unwrap(), Import::Unknown);
}
