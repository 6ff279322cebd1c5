//! App fees that a sponsor pays while its balance stands for fast fills, or is below zero.

use alloy_primitives::{Address, B256};
use domain::ledger::{Cause, Entry, Hold, HoldId, HoldKind, UsdcMicros};
use domain::time::Timestamp;
use store::ledger::{self, Opened};
use store::{Store, StoreError, Tx};

use crate::database::Database;

crate::on_both_engines! {
    an_app_fee_waits_for_the_fast_fills_and_debts_of_its_sponsor
    a_fee_that_is_held_pays_no_debt
}

const NOW: Timestamp = Timestamp::from_millis(1_000);
const WALLET: Address = Address::repeat_byte(2);

async fn write<T: Send + 'static>(
    store: &Store,
    unit: impl Fn(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    store.write(unit).await
}

fn entry(cause: Cause, wallet: Address, delta: i64) -> Entry {
    Entry::new(cause, wallet, UsdcMicros(delta), None).unwrap()
}

fn hold(kind: HoldKind, subject: u8, amount: i64) -> Hold {
    let id = HoldId::first(kind, B256::repeat_byte(subject));
    Hold { id, wallet: WALLET, amount: UsdcMicros(amount), request: None }
}

async fn fund(store: &Store, transfer: i64, delta: i64) -> Result<bool, StoreError> {
    write(store, move |tx| ledger::post(tx, &entry(Cause::Funding { transfer }, WALLET, delta), NOW)).await
}

async fn balance(store: &Store) -> Result<UsdcMicros, StoreError> {
    Ok(write(store, |tx| ledger::account(tx, WALLET)).await?.balance)
}

async fn open(store: &Store, hold: Hold) -> Result<(), StoreError> {
    let opened = write(store, move |tx| ledger::open_hold(tx, &hold, NOW)).await?;
    assert_eq!(opened, Opened::Now);
    Ok(())
}

/// A dollar that stands for a fast fill is not claimed as an app fee that its owner sponsored meanwhile.
async fn an_app_fee_waits_for_the_fast_fills_and_debts_of_its_sponsor(database: Database) -> anyhow::Result<()> {
    const APP: Address = Address::repeat_byte(1);
    let store = database.open().await?;
    fund(&store, 1, 100).await?;
    let charge = |payment: i64, fee: i64| {
        write(&store, move |tx| {
            ledger::post(tx, &entry(Cause::Sponsorship { payment }, WALLET, -fee), NOW)?;
            ledger::post(tx, &entry(Cause::AppFee { payment, place: 0 }, APP, fee), NOW)?;
            let id = HoldId::of_app_fee(payment, 0);
            ledger::hold_app_fee(tx, &Hold { id, wallet: APP, amount: UsdcMicros(fee), request: None }, WALLET, NOW)
        })
    };
    let claimable = || async {
        assert_eq!(write(&store, |tx| ledger::mismatches(tx, 10)).await?, []);
        assert_eq!(write(&store, |tx| ledger::misheld_app_fees(tx, 10)).await?, []);
        anyhow::Ok(write(&store, |tx| ledger::account(tx, APP)).await?.available(HoldKind::Claim).0)
    };
    let void = |hold: Hold| write(&store, move |tx| ledger::void_hold(tx, hold.id, NOW));
    assert!(!charge(1, 10).await?, "nothing else stands on the sponsor's balance");
    assert_eq!(claimable().await?, 10);

    // Two fast fills are open when the fee is paid, a third comes after it.
    let [first, second, third] = [1, 2, 3].map(|n| hold(HoldKind::FastFill, n, 20));
    open(&store, first).await?;
    open(&store, second).await?;
    assert!(charge(2, 10).await?);
    open(&store, third).await?;
    assert_eq!(claimable().await?, 10);
    void(first).await?;
    assert_eq!(claimable().await?, 10);
    void(second).await?;
    assert_eq!(claimable().await?, 20, "the third is none of its concern");

    // The fast fill is never paid for: the fee was its dollar, and waits until the sponsor has made it good.
    assert!(charge(3, 70).await?);
    let loss = entry(Cause::FastFillLoss { hold: third.id }, WALLET, -20);
    write(&store, move |tx| ledger::post_hold(tx, third.id, &[loss], NOW)).await?;
    assert_eq!(balance(&store).await?, UsdcMicros(-10));
    assert_eq!(claimable().await?, 20);
    assert!(charge(4, 1).await?, "a sponsor that owes pays nobody");
    assert_eq!(claimable().await?, 20);
    fund(&store, 2, 10).await?;
    assert_eq!(claimable().await?, 20);
    fund(&store, 3, 1).await?;
    assert_eq!(claimable().await?, 91);
    // A fee to oneself moves nothing out of reach of one's own holds.
    let own = Hold { id: HoldId::of_app_fee(5, 0), wallet: WALLET, amount: UsdcMicros(1), request: None };
    assert!(!write(&store, move |tx| ledger::hold_app_fee(tx, &own, WALLET, NOW)).await?);
    Ok(())
}

/// Otherwise one indebted sponsor frees the fees of another.
async fn a_fee_that_is_held_pays_no_debt(database: Database) -> anyhow::Result<()> {
    const APP: Address = Address::repeat_byte(1);
    const OTHER: Address = Address::repeat_byte(3);
    let store = database.open().await?;
    let of = |subject: u8, wallet| Hold { wallet, ..hold(HoldKind::FastFill, subject, 100) };
    let sponsored = |payment: i64, from: Address, to: Address| {
        write(&store, move |tx| {
            ledger::post(tx, &entry(Cause::Sponsorship { payment }, from, -100), NOW)?;
            ledger::post(tx, &entry(Cause::AppFee { payment, place: 0 }, to, 100), NOW)?;
            let id = HoldId::of_app_fee(payment, 0);
            ledger::hold_app_fee(tx, &Hold { id, wallet: to, amount: UsdcMicros(100), request: None }, from, NOW)
        })
    };
    let funded = |transfer: i64, wallet: Address| {
        write(&store, move |tx| ledger::post(tx, &entry(Cause::Funding { transfer }, wallet, 100), NOW))
    };
    let lost = |hold: Hold| {
        let loss = entry(Cause::FastFillLoss { hold: hold.id }, hold.wallet, -100);
        write(&store, move |tx| ledger::post_hold(tx, hold.id, &[loss], NOW))
    };
    let claimable = || async {
        assert_eq!(write(&store, |tx| ledger::mismatches(tx, 10)).await?, []);
        assert_eq!(write(&store, |tx| ledger::misheld_app_fees(tx, 10)).await?, []);
        anyhow::Ok(write(&store, |tx| ledger::account(tx, APP)).await?.available(HoldKind::Claim).0)
    };
    for (transfer, subject, wallet, to) in [(1, 1, WALLET, APP), (2, 2, OTHER, WALLET)] {
        funded(transfer, wallet).await?;
        open(&store, of(subject, wallet)).await?;
        assert!(sponsored(transfer, wallet, to).await?);
        assert_eq!(claimable().await?, 0, "the fee to a sponsor that owes is no money yet");
        lost(of(subject, wallet)).await?;
        assert_eq!(claimable().await?, 0);
    }
    // The last of them pays its debt, and with it those of all.
    funded(3, OTHER).await?;
    assert_eq!(claimable().await?, 100);
    Ok(())
}
