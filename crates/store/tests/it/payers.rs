//! The lanes as a unit keeps them between two payments are the lanes as any reader finds them after it.

use alloy_primitives::{Address, B256, Bytes, U256};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::payment::State;
use domain::time::Timestamp;
use store::payers::{self, Payers};
use store::payments::{self, Fees, Mined, Payment, PaymentRow, Subject};
use store::{Store, StoreError, Tx, lanes};

use crate::database::Database;

crate::on_both_engines! {
    lanes_kept_between_payments_are_those_stored
    a_change_to_a_payment_is_seen_by_the_next
}

const CHAIN: ChainId = ChainId(1);
const NOW: Timestamp = Timestamp::from_millis(1_000);
const BLOCK: u64 = 10;
const FEES: Fees = Fees { max_fee: 7, max_tip: 1 };

fn wallet(n: u8) -> Address {
    Address::repeat_byte(n)
}

/// Pays from a wallet, as far as the lanes are concerned.
fn pay(tx: &mut Tx<'_>, from: Address, n: u8) -> Result<PaymentRow, StoreError> {
    let payers = payers::lock(tx, CHAIN, BLOCK)?;
    let payment = Payment {
        subject: Subject::Fill(OrderId(B256::repeat_byte(n))),
        request: Some(RequestId(B256::repeat_byte(n))),
        chain: CHAIN,
        wallet: from,
        nonce: 0,
        target: Address::repeat_byte(0xee),
        value: Amount::new(U256::from(n)),
        data: Bytes::new(),
        gas: 21_000,
        recipient: Address::repeat_byte(0xee),
        currency: Address::ZERO,
        amount: Amount::new(U256::from(n)),
    };
    let stored = payments::assign(tx, payment, FEES, NOW)?.unwrap();
    payers.keep_with(tx, &stored);
    Ok(stored)
}

/// The whole state that paying depends on, sorted.
fn shown(payers: &Payers) -> (Vec<String>, Vec<String>) {
    let mut lanes: Vec<_> = payers.lanes.iter().map(|lane| format!("{lane:?}")).collect();
    let mut outstanding: Vec<_> = payers.outstanding.iter().map(|payment| format!("{payment:?}")).collect();
    lanes.sort();
    outstanding.sort();
    (lanes, outstanding)
}

async fn lanes_of_two(database: &Database) -> anyhow::Result<Store> {
    let store = database.open().await?;
    store.write(|tx| [1, 2].into_iter().try_for_each(|n| lanes::register(tx, CHAIN, wallet(n)))).await?;
    Ok(store)
}

async fn read(store: &Store) -> Result<(Vec<String>, Vec<String>), StoreError> {
    store.write(|tx| Ok::<_, StoreError>(shown(&payers::lock(tx, CHAIN, BLOCK)?))).await
}

async fn lanes_kept_between_payments_are_those_stored(database: Database) -> anyhow::Result<()> {
    let store = lanes_of_two(&database).await?;
    let kept = store
        .write(|tx| {
            for (n, from) in [(1, 1), (2, 2), (3, 1)] {
                pay(tx, wallet(from), n)?;
            }
            Ok::<_, StoreError>(shown(&payers::lock(tx, CHAIN, BLOCK)?))
        })
        .await?;
    assert_eq!(kept.1.len(), 3);
    assert_eq!(kept, read(&store).await?);
    Ok(())
}

async fn a_change_to_a_payment_is_seen_by_the_next(database: Database) -> anyhow::Result<()> {
    let store = lanes_of_two(&database).await?;
    let unit = |tx: &mut Tx<'_>| {
        let first = pay(tx, wallet(1), 1)?;
        let second = pay(tx, wallet(1), 2)?;
        let mined = |block_number| Mined { tx: B256::ZERO, block_number, block_hash: B256::ZERO, fee: None };
        // One is in a block that the balances include, one in a block after it.
        for (payment, block) in [(first, BLOCK), (second, BLOCK + 1)] {
            payments::set_state(tx, payment.id, State::Mined, NOW)?;
            payments::set_mined(tx, payment.id, Some(mined(block)))?;
        }
        pay(tx, wallet(2), 3)?;
        lanes::quarantine(tx, CHAIN, wallet(2), Some("not ours"))?;
        Ok::<_, StoreError>(shown(&payers::lock(tx, CHAIN, BLOCK)?))
    };
    let (lanes, outstanding) = store.write(unit).await?;
    assert_eq!(outstanding.len(), 2, "{outstanding:?}");
    assert!(lanes.iter().any(|lane| lane.contains("not ours")), "{lanes:?}");
    assert_eq!((lanes, outstanding), read(&store).await?);
    Ok(())
}
