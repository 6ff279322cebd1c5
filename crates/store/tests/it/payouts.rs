//! The allocator's rules that the database itself enforces, whatever the code above it does.

use alloy_primitives::{Address, B256, U256};
use domain::ids::{ChainId, OrderId, PayoutNonce};
use domain::money::Amount;
use domain::time::Timestamp;
use store::depository_ledger::{self, Deposit, Ending, Settlement};
use store::payments::{PaymentId, Purpose};
use store::payouts::{self, Kind, Payout, PayoutId, Signature, State};
use store::{Store, StoreError, Tx, deposits, settlements};

use crate::database::Database;

crate::on_both_engines! {
    no_more_is_promised_than_came_in
    a_deposit_is_in_one_batch_and_goes_back_once
    a_payout_has_one_live_signature_of_half_an_hour_at_most
    an_order_a_deposit_and_a_transaction_settle_once
    totals_count_a_deposit_once
    a_return_that_is_undecided_lets_others_have_their_turn
    an_order_ends_by_a_payment_or_by_a_payout
    an_executed_payout_is_told_once
}

const CHAIN: ChainId = ChainId(1);
const NOW: Timestamp = Timestamp::from_millis(1_000);

fn amount(units: u64) -> Amount {
    Amount::new(U256::from(units))
}

fn deposit(n: u8, units: u64) -> Deposit {
    Deposit {
        key: B256::repeat_byte(n),
        chain: CHAIN,
        tx: B256::repeat_byte(n),
        ordinal: 0,
        block_number: n.into(),
        block_hash: B256::ZERO,
        block_time: NOW,
        order: None,
        return_key: B256::repeat_byte(n ^ 0xff),
        depositor: Address::ZERO,
        payer: Address::ZERO,
        sender: Address::ZERO,
        currency: Address::ZERO,
        amount: amount(units),
    }
}

async fn write<T: Send + 'static>(
    store: &Store,
    unit: impl Fn(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    store.write(unit).await
}

async fn booked(database: &Database) -> anyhow::Result<Store> {
    let store = database.open().await?;
    // Amounts of different lengths as numbers: bytes compare correctly only at full width.
    write(&store, |tx| {
        depository_ledger::insert(tx, &deposit(1, 1_000))?;
        depository_ledger::insert(tx, &deposit(2, 70))
    })
    .await?;
    Ok(store)
}

async fn no_more_is_promised_than_came_in(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    let promise = |n: u8, reimburse: u64, refund: u64| {
        write(&store, move |tx| {
            let held = depository_ledger::lock(tx, B256::repeat_byte(n))?.unwrap();
            depository_ledger::promise(tx, &held, amount(reimburse), amount(refund))
        })
    };
    assert!(promise(1, 900, 101).await.is_err());
    assert!(promise(2, 71, 0).await.is_err());
    promise(1, 900, 0).await?;
    assert!(promise(1, 0, 101).await.is_err());
    promise(1, 0, 100).await?;
    assert!(promise(1, 1, 0).await.is_err());
    let held = write(&store, |tx| depository_ledger::find(tx, B256::repeat_byte(1))).await?.unwrap();
    assert_eq!((held.reimbursed, held.refunded, held.left()), (amount(900), amount(100), Amount::ZERO));
    Ok(())
}

fn payout(kind: Kind, n: u8) -> Payout {
    let (nonce, subject) = (PayoutNonce(B256::repeat_byte(n)), B256::repeat_byte(n));
    let (currency, recipient) = (Address::ZERO, Address::ZERO);
    Payout { nonce, kind, subject, chain: CHAIN, currency, recipient, amount: amount(70) }
}

async fn insert(store: &Store, payout: Payout, key: u8) -> Result<Option<PayoutId>, StoreError> {
    let parts = [(B256::repeat_byte(key), payout.amount)];
    write(store, move |tx| payouts::insert(tx, &payout, &parts, State::Intended, NOW)).await
}

async fn a_deposit_is_in_one_batch_and_goes_back_once(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    assert!(insert(&store, payout(Kind::Batch, 10), 2).await?.is_some());
    assert!(insert(&store, payout(Kind::Batch, 10), 1).await?.is_none(), "the nonce is taken");
    assert!(insert(&store, payout(Kind::Batch, 11), 2).await.is_err(), "it is in a batch");
    assert!(insert(&store, payout(Kind::Refund, 12), 2).await?.is_some());
    assert!(insert(&store, payout(Kind::Refund, 13), 2).await.is_err(), "it goes back already");
    Ok(())
}

async fn an_executed_payout_is_told_once(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    let id = insert(&store, payout(Kind::Refund, 10), 2).await?.unwrap();
    let ids = |tx: &mut Tx<'_>| {
        let rows = payouts::untold(tx, CHAIN, 10)?;
        Ok(rows.into_iter().map(|row| row.id).collect::<Vec<_>>())
    };
    let untold = || write(&store, ids);
    let none: Vec<PayoutId> = Vec::new();
    assert_eq!(untold().await?, none, "it is not executed");
    write(&store, move |tx| {
        payouts::set_state(tx, id, State::Executed, None, NOW)?;
        payouts::mark_untold(tx, id)
    })
    .await?;
    assert_eq!(untold().await?, [id]);
    assert!(write(&store, move |tx| payouts::tell(tx, id)).await?);
    assert!(!write(&store, move |tx| payouts::tell(tx, id)).await?, "it was told already");
    assert_eq!(untold().await?, none);
    Ok(())
}

fn signature(ordinal: u32, expiration: u64) -> Signature {
    let struct_hash = B256::from(U256::from(expiration) + U256::from(ordinal));
    Signature { ordinal, issued: 10_000, expiration, struct_hash, bytes: None }
}

async fn a_payout_has_one_live_signature_of_half_an_hour_at_most(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    let id = insert(&store, payout(Kind::Batch, 10), 2).await?.unwrap();
    let decide = |signature: Signature| write(&store, move |tx| payouts::decide(tx, id, &signature, NOW));
    assert!(decide(signature(1, 11_801)).await.is_err(), "too long");
    assert!(decide(signature(1, 10_000)).await.is_err(), "over before it begins");
    decide(signature(1, 11_800)).await?;
    assert!(decide(signature(2, 11_000)).await.is_err(), "the first is live");
    write(&store, move |tx| payouts::expire(tx, id)).await?;
    decide(signature(2, 11_000)).await?;
    assert_eq!(write(&store, move |tx| payouts::live(tx, id)).await?.map(|live| live.ordinal), Some(2));
    let signed = move |tx: &mut Tx<'_>| payouts::signed_since(tx, CHAIN, Address::ZERO, Timestamp::from_millis(0));
    assert_eq!(write(&store, signed).await?, [(NOW, amount(70))], "signing again takes nothing more out");
    Ok(())
}

async fn an_order_a_deposit_and_a_transaction_settle_once(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    let settle = |n: u8, order: u8, deposit: u8, tx_hash: u8| {
        let settlement = Settlement {
            key: B256::repeat_byte(n),
            order: OrderId(B256::repeat_byte(order)),
            deposit: B256::repeat_byte(deposit),
            ending: Ending::Fill,
            chain: CHAIN,
            tx: B256::repeat_byte(tx_hash),
        };
        write(&store, move |tx| depository_ledger::settle(tx, &settlement, NOW))
    };
    assert!(settle(1, 1, 1, 1).await?);
    for (what, n, order, deposit, tx) in
        [("settlement", 1, 2, 2, 2), ("order", 2, 1, 2, 2), ("deposit", 2, 2, 1, 2), ("transaction", 2, 2, 2, 1)]
    {
        assert!(!settle(n, order, deposit, tx).await?, "{what}");
    }
    assert!(settle(2, 2, 2, 2).await?);
    Ok(())
}

async fn totals_count_a_deposit_once(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    assert!(!write(&store, |tx| depository_ledger::insert(tx, &deposit(1, 1_000))).await?);
    let total = write(&store, |tx| depository_ledger::total(tx, CHAIN, Address::ZERO)).await?;
    assert_eq!((total.deposited, total.executed), (amount(1_070), Amount::ZERO));
    Ok(())
}

/// A deposit in the solver's table, which the solver cannot return by itself.
fn unreturned(n: u8) -> deposits::Deposit {
    deposits::Deposit {
        chain: CHAIN,
        tx: B256::repeat_byte(n),
        ordinal: 0,
        log_index: 0,
        block_number: n.into(),
        block_hash: B256::ZERO,
        block_time: NOW,
        order_id: None,
        claim: None,
        depositor: Address::ZERO,
        payer: Address::ZERO,
        sender: Address::ZERO,
        currency: Address::ZERO,
        amount: amount(70),
        ripe_at: 0,
    }
}

async fn a_return_that_is_undecided_lets_others_have_their_turn(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    write(&store, |tx| {
        for n in [1, 2] {
            let id = deposits::insert(tx, &unreturned(n), NOW)?.unwrap();
            deposits::set_return_due(tx, id, deposits::ReturnDue::Parked)?;
        }
        Ok(())
    })
    .await?;
    let first =
        || write(&store, |tx| Ok(depository_ledger::unreturned(tx, CHAIN, 1)?.first().map(|held| held.deposit.key)));
    assert_eq!(first().await?, Some(B256::repeat_byte(1)));
    write(&store, |tx| depository_ledger::postpone(tx, B256::repeat_byte(1), "undecided", NOW)).await?;
    assert_eq!(first().await?, Some(B256::repeat_byte(2)));
    write(&store, |tx| {
        depository_ledger::postpone(tx, B256::repeat_byte(2), "undecided", Timestamp::from_millis(2_000))
    })
    .await?;
    assert_eq!(first().await?, Some(B256::repeat_byte(1)), "the one not looked at for longest");
    Ok(())
}

async fn an_order_ends_by_a_payment_or_by_a_payout(database: Database) -> anyhow::Result<()> {
    let store = booked(&database).await?;
    let order = OrderId(B256::repeat_byte(9));
    let by_payout = |n: i64| write(&store, move |tx| settlements::take_by_payout(tx, order, PayoutId(n)));
    assert!(by_payout(1).await?);
    assert!(!by_payout(2).await?);
    let by_payment = move |tx: &mut Tx<'_>| settlements::take(tx, order, Purpose::Fill, PaymentId(1));
    assert!(!write(&store, by_payment).await?, "an order that goes back out of the depository is not filled");
    // A payment that turns out void does not affect it.
    write(&store, move |tx| settlements::free(tx, order, PaymentId(1))).await?;
    let read = move |tx: &mut Tx<'_>| Ok((settlements::outcome(tx, order)?, settlements::payout(tx, order)?));
    assert_eq!(write(&store, read).await?, (Some(Purpose::Payout), Some(PayoutId(1))));
    Ok(())
}
