//! The app ledger: random histories against a plain model, limits among many writers, and idempotent causes.

use std::collections::{BTreeMap, HashMap};

use alloy_primitives::{Address, B256};
use domain::hold::State;
use domain::ledger::{Account, Cause, Context, DEBT_LIMIT, Entry, Hold, HoldId, HoldKind, UsdcMicros};
use domain::time::Timestamp;
use futures::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use store::ledger::{self, Opened};
use store::{Store, StoreError, Tx};

use crate::database::Database;

crate::on_both_engines! {
    a_cause_moves_money_once
    other_content_under_the_same_cause_is_an_error
    a_hold_ends_once
    a_hold_pays_for_no_more_than_it_holds
    holds_narrow_their_own_limits
    many_writers_never_cross_a_limit
    random_histories_add_up
    an_account_that_was_tampered_with_is_found
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

fn account(balance: i64, held: i64, reserved: i64) -> Account {
    Account { balance: UsdcMicros(balance), held: UsdcMicros(held), reserved: UsdcMicros(reserved) }
}

async fn fund(store: &Store, transfer: i64, delta: i64) -> Result<bool, StoreError> {
    write(store, move |tx| ledger::post(tx, &entry(Cause::Funding { transfer }, WALLET, delta), NOW)).await
}

async fn stands(store: &Store) -> Result<Account, StoreError> {
    write(store, |tx| ledger::account(tx, WALLET)).await
}

async fn open(store: &Store, hold: Hold) -> Result<Opened, StoreError> {
    write(store, move |tx| ledger::open_hold(tx, &hold, NOW)).await
}

async fn a_cause_moves_money_once(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    assert_eq!(stands(&store).await?, Account::default());
    let units = (0..20).map(|_| fund(&store, 1, 100));
    let moved = join_all(units).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(moved.into_iter().filter(|new| *new).count(), 1);
    assert!(fund(&store, 2, 50).await?);
    assert_eq!(stands(&store).await?, account(150, 0, 0));
    let lines = write(&store, |tx| ledger::entries(tx, WALLET, None, 10)).await?;
    let shown: Vec<_> = lines.iter().map(|line| (line.id.as_str(), line.delta.0, line.balance_after.0)).collect();
    assert_eq!(shown, [("topup:2", 50, 150), ("topup:1", 100, 100)]);
    assert_eq!(lines[0].context, Context::BalanceTopup);
    Ok(())
}

async fn other_content_under_the_same_cause_is_an_error(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1, 100).await?;
    assert!(matches!(fund(&store, 1, 101).await, Err(StoreError::EntryDiffers(id)) if id == "topup:1"));
    let elsewhere = entry(Cause::Funding { transfer: 1 }, Address::ZERO, 100);
    let elsewhere = write(&store, move |tx| ledger::post(tx, &elsewhere, NOW)).await;
    assert!(matches!(elsewhere, Err(StoreError::EntryDiffers(_))));
    assert_eq!(open(&store, hold(HoldKind::Claim, 1, 10)).await?, Opened::Now);
    assert!(matches!(open(&store, hold(HoldKind::Claim, 1, 11)).await, Err(StoreError::EntryDiffers(_))));
    assert_eq!(stands(&store).await?, account(100, 0, 10));
    Ok(())
}

async fn a_hold_ends_once(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1, 100).await?;
    let spent = hold(HoldKind::FastFill, 1, 60);
    let freed = hold(HoldKind::FastFill, 2, 40);
    assert_eq!(open(&store, spent).await?, Opened::Now);
    assert_eq!(open(&store, spent).await?, Opened::Already(State::Open));
    assert_eq!(open(&store, freed).await?, Opened::Now);
    assert_eq!(stands(&store).await?, account(100, 100, 0));
    let loss = entry(Cause::FastFillLoss { hold: spent.id }, WALLET, -60);
    let post = |id| write(&store, move |tx| ledger::post_hold(tx, id, &[loss], NOW));
    let void = |id| write(&store, move |tx| ledger::void_hold(tx, id, NOW));
    assert!(post(spent.id).await? && !post(spent.id).await?);
    assert!(void(freed.id).await? && !void(freed.id).await?);
    assert!(matches!(void(spent.id).await, Err(StoreError::Hold(_))));
    assert!(post(freed.id).await.is_err());
    assert!(matches!(void(hold(HoldKind::Claim, 1, 1).id).await, Err(StoreError::NoHold(_))));
    assert_eq!(open(&store, spent).await?, Opened::Already(State::Posted));
    assert_eq!(stands(&store).await?, account(40, 0, 0));
    // Another attempt for the same subject is another hold.
    let next = write(&store, |tx| ledger::next_attempt(tx, HoldKind::FastFill, B256::repeat_byte(1))).await?;
    assert_eq!(next, 1);
    let again = Hold { id: HoldId { attempt: next, ..spent.id }, amount: UsdcMicros(10), ..spent };
    assert_eq!(open(&store, again).await?, Opened::Now);
    let found = write(&store, |tx| ledger::open_hold_of(tx, HoldKind::FastFill, B256::repeat_byte(1))).await?;
    assert_eq!(found.map(|found| found.hold), Some(again));
    Ok(())
}

async fn a_hold_pays_for_no_more_than_it_holds(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1, 100).await?;
    let reservation = hold(HoldKind::Sponsorship, 1, 70);
    open(&store, reservation).await?;
    let fees = entry(Cause::Sponsorship { payment: 1 }, WALLET, -50);
    let drift = entry(Cause::FixedRate { payment: 1 }, WALLET, -21);
    let settle = |entries: Vec<Entry>| write(&store, move |tx| ledger::post_hold(tx, reservation.id, &entries, NOW));
    assert!(matches!(settle(vec![fees, drift]).await, Err(StoreError::HoldExceeded(_))));
    let change = |to| write(&store, move |tx| ledger::change_hold(tx, reservation.id, UsdcMicros(to), NOW));
    assert!(!change(101).await?, "there are only a hundred");
    assert!(change(100).await? && change(100).await? && change(71).await?);
    assert_eq!(stands(&store).await?, account(100, 0, 71));
    assert!(settle(vec![fees, drift]).await?);
    assert_eq!(stands(&store).await?, account(29, 0, 0));
    assert!(!settle(vec![fees, drift]).await?);
    let other = entry(Cause::FixedRate { payment: 2 }, WALLET, -1);
    assert!(
        matches!(settle(vec![fees, other]).await, Err(StoreError::EntryDiffers(_))),
        "it was spent on other things"
    );
    assert!(change(1).await.is_err());
    assert_eq!(stands(&store).await?, account(29, 0, 0));
    Ok(())
}

async fn holds_narrow_their_own_limits(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1, 100).await?;
    let (fast, claim, sponsor) = (HoldKind::FastFill, HoldKind::Claim, HoldKind::Sponsorship);
    assert_eq!(open(&store, hold(fast, 1, 80)).await?, Opened::Now);
    let low = Opened::TooLow(account(100, 80, 0));
    assert_eq!(open(&store, hold(fast, 2, 21)).await?, low);
    assert_eq!(open(&store, hold(claim, 1, 21)).await?, low);
    assert_eq!(open(&store, hold(sponsor, 1, 60)).await?, Opened::Now, "sponsorship does not see fast fills");
    assert_eq!(open(&store, hold(sponsor, 2, 41)).await?, Opened::TooLow(account(100, 80, 60)));
    assert_eq!(open(&store, hold(fast, 2, 1)).await?, Opened::TooLow(account(100, 80, 60)));
    write(&store, |tx| ledger::void_hold(tx, hold(HoldKind::FastFill, 1, 0).id, NOW)).await?;
    assert_eq!(open(&store, hold(claim, 2, 40)).await?, Opened::Now);
    assert_eq!(open(&store, hold(sponsor, 3, 1)).await?, Opened::TooLow(account(100, 0, 100)), "what leaves is spent");
    // A wallet that owes too much gets nothing, not even a hold of zero.
    let short = entry(Cause::FastFillShortage { deposit: 1 }, WALLET, -150_000_000);
    assert_eq!(open(&store, hold(sponsor, 4, 0)).await?, Opened::Now);
    write(&store, move |tx| ledger::post(tx, &short, NOW)).await?;
    for kind in HoldKind::ALL {
        assert!(matches!(open(&store, hold(kind, 5, 0)).await?, Opened::TooLow(_)));
    }
    Ok(())
}

async fn many_writers_never_cross_a_limit(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1, 100).await?;
    let units = (0..60u8).map(|n| {
        let kind = HoldKind::ALL[usize::from(n % 3)];
        open(&store, hold(kind, n, 7))
    });
    let opened = join_all(units).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let stands = stands(&store).await?;
    let open = opened.iter().filter(|opened| **opened == Opened::Now).count();
    assert_eq!(stands.held.plus(stands.reserved).0, 7 * i64::try_from(open)?);
    assert!(stands.reserved <= stands.balance);
    assert!(stands.available(HoldKind::Sponsorship) < UsdcMicros(7), "as many as fit were taken: {stands:?}");
    assert_eq!(write(&store, |tx| ledger::mismatches(tx, 10)).await?, []);
    Ok(())
}

async fn an_account_that_was_tampered_with_is_found(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1, 100).await?;
    open(&store, hold(HoldKind::Claim, 1, 10)).await?;
    assert_eq!(write(&store, |tx| ledger::mismatches(tx, 10)).await?, []);
    for sql in [
        "update ledger_account set balance = balance + 1",
        "update ledger_account set balance = balance - 1, held = 1",
        "update ledger_hold set state = 'voided'",
    ] {
        write(&store, move |tx| tx.execute(sql, &[])).await?;
        let found = write(&store, |tx| ledger::mismatches(tx, 10)).await?;
        assert_eq!(found.iter().map(|found| found.wallet).collect::<Vec<_>>(), [WALLET], "{sql}");
    }
    Ok(())
}

/// One change to the ledger. Numbers are reduced to the range of the history.
#[derive(Clone, Copy, Debug)]
enum Act {
    Fund { wallet: u8, amount: i64 },
    AppFee { wallet: u8, amount: i64 },
    Shortage { wallet: u8, amount: i64 },
    Open { kind: usize, wallet: u8, amount: i64 },
    Change { hold: usize, amount: i64 },
    Post { hold: usize, percent: i64, drift: i64 },
    Void { hold: usize },
    Again { act: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let amount = 1i64..100_000_000;
    prop_oneof![
        (0u8..3, amount.clone()).prop_map(|(wallet, amount)| Act::Fund { wallet, amount }),
        (0u8..3, amount.clone()).prop_map(|(wallet, amount)| Act::AppFee { wallet, amount }),
        (0u8..3, amount.clone()).prop_map(|(wallet, amount)| Act::Shortage { wallet, amount }),
        (0usize..3, 0u8..3, 0i64..100_000_000).prop_map(|(kind, wallet, amount)| Act::Open { kind, wallet, amount }),
        (any::<usize>(), 0i64..100_000_000).prop_map(|(hold, amount)| Act::Change { hold, amount }),
        (any::<usize>(), 0i64..=100, -1_000_000i64..1_000_000).prop_map(|(hold, percent, drift)| Act::Post {
            hold,
            percent,
            drift
        }),
        any::<usize>().prop_map(|hold| Act::Void { hold }),
        any::<usize>().prop_map(|act| Act::Again { act }),
    ]
}

/// The expected ledger, as a plain model.
#[derive(Default)]
struct Model {
    accounts: BTreeMap<Address, Account>,
    holds: Vec<(Hold, State)>,
    house: i64,
    entries: HashMap<String, Entry>,
}

impl Model {
    fn post(&mut self, entry: Entry) {
        if self.entries.insert(entry.cause().id(), entry).is_none() {
            let account = self.accounts.entry(entry.wallet()).or_default();
            account.balance = account.balance.plus(entry.delta());
            self.house -= entry.delta().0;
        }
    }

    fn aside(&mut self, hold: &Hold, change: i64) {
        let account = self.accounts.entry(hold.wallet).or_default();
        let column = if hold.id.kind == HoldKind::FastFill { &mut account.held } else { &mut account.reserved };
        *column = column.plus(UsdcMicros(change));
    }

    /// The index of the hold that a number stands for, once there is one.
    fn place(&self, number: usize) -> Option<usize> {
        number.checked_rem(self.holds.len())
    }
}

/// Performs one act on both and asserts that they agree on the outcome.
async fn perform(store: &Store, model: &mut Model, number: usize, act: Act) -> anyhow::Result<()> {
    let cause = i64::try_from(number)?;
    match act {
        Act::Fund { wallet, amount } => book(store, model, Cause::Funding { transfer: cause }, wallet, amount).await,
        Act::AppFee { wallet, amount } => {
            book(store, model, Cause::AppFee { payment: cause, place: 0 }, wallet, amount).await
        }
        Act::Shortage { wallet, amount } => {
            book(store, model, Cause::FastFillShortage { deposit: cause }, wallet, -amount).await
        }
        Act::Open { kind, wallet, amount } => {
            let id = HoldId::first(HoldKind::ALL[kind], B256::from(alloy_primitives::U256::from(number)));
            let wallet = Address::repeat_byte(wallet);
            open_in_both(store, model, Hold { id, wallet, amount: UsdcMicros(amount), request: None }).await
        }
        Act::Change { hold, amount } => match model.place(hold) {
            Some(at) => change_in_both(store, model, at, amount).await,
            None => Ok(()),
        },
        Act::Post { hold, percent, drift } => match model.place(hold) {
            Some(at) => end_in_both(store, model, at, Some((percent, drift))).await,
            None => Ok(()),
        },
        Act::Void { hold } => match model.place(hold) {
            Some(at) => end_in_both(store, model, at, None).await,
            None => Ok(()),
        },
        Act::Again { .. } => Ok(()),
    }
}

async fn book(store: &Store, model: &mut Model, cause: Cause, wallet: u8, delta: i64) -> anyhow::Result<()> {
    let entry = entry(cause, Address::repeat_byte(wallet), delta);
    let new = write(store, move |tx| ledger::post(tx, &entry, NOW)).await?;
    assert_eq!(new, !model.entries.contains_key(&cause.id()));
    model.post(entry);
    Ok(())
}

async fn open_in_both(store: &Store, model: &mut Model, hold: Hold) -> anyhow::Result<()> {
    let before = model.accounts.get(&hold.wallet).copied().unwrap_or_default();
    let known = model.holds.iter().find(|(known, _)| known.id == hold.id).map(|(_, state)| *state);
    let fits = before.covers(hold.id.kind, hold.amount) && before.balance >= DEBT_LIMIT;
    let expected = known.map_or(if fits { Opened::Now } else { Opened::TooLow(before) }, Opened::Already);
    assert_eq!(open(store, hold).await?, expected);
    if expected == Opened::Now {
        model.aside(&hold, hold.amount.0);
        model.holds.push((hold, State::Open));
    }
    Ok(())
}

async fn change_in_both(store: &Store, model: &mut Model, at: usize, amount: i64) -> anyhow::Result<()> {
    let (hold, state) = model.holds[at];
    let before = model.accounts[&hold.wallet];
    let changed = write(store, move |tx| ledger::change_hold(tx, hold.id, UsdcMicros(amount), NOW)).await;
    let more = amount - hold.amount.0;
    if more == 0 {
        assert!(changed?);
    } else if state != State::Open {
        assert!(changed.is_err());
    } else {
        let fits = more < 0 || (before.covers(hold.id.kind, UsdcMicros(more)) && before.balance >= DEBT_LIMIT);
        assert_eq!(changed?, fits);
        if fits {
            model.aside(&hold, more);
            model.holds[at].0.amount = UsdcMicros(amount);
        }
    }
    Ok(())
}

/// The entries that a hold is spent on: a percentage of it for fees, and the drift of a fixed rate where it fits.
fn spent_on(hold: &Hold, payment: i64, percent: i64, drift: i64) -> Vec<Entry> {
    let mut entries = Vec::new();
    let fees = hold.amount.0 * percent / 100;
    if fees > 0 {
        entries.push(entry(Cause::Sponsorship { payment }, hold.wallet, -fees));
    }
    // A loss is part of the amount set aside; a gain needs nothing.
    if drift > 0 || (drift < 0 && fees - drift <= hold.amount.0) {
        entries.push(entry(Cause::FixedRate { payment }, hold.wallet, drift));
    }
    entries
}

/// Ends a hold by spending it, with the percentage and the drift, or by giving it back.
async fn end_in_both(store: &Store, model: &mut Model, at: usize, spending: Option<(i64, i64)>) -> anyhow::Result<()> {
    let (hold, state) = model.holds[at];
    let payment = i64::try_from(at)?;
    let entries = spending.map(|(percent, drift)| spent_on(&hold, payment, percent, drift));
    let given = entries.clone();
    let ended = write(store, move |tx| match &given {
        Some(entries) => ledger::post_hold(tx, hold.id, entries, NOW),
        None => ledger::void_hold(tx, hold.id, NOW),
    })
    .await;
    let to = if spending.is_some() { State::Posted } else { State::Voided };
    let entries = entries.unwrap_or_default();
    if state == State::Open {
        assert!(ended?);
        model.aside(&hold, -hold.amount.0);
        model.holds[at].1 = to;
        entries.into_iter().for_each(|entry| model.post(entry));
    } else {
        // Ending a hold again is harmless where the ending is the same, and an error where it is not.
        let same = state == to && entries.iter().all(|entry| model.entries.get(&entry.cause().id()) == Some(entry));
        assert!(if same { !ended? } else { ended.is_err() });
    }
    Ok(())
}

async fn agree(store: &Store, model: &Model) -> anyhow::Result<()> {
    for (&wallet, expected) in &model.accounts {
        let stands = write(store, move |tx| ledger::account(tx, wallet)).await?;
        assert_eq!(stands, *expected, "{wallet}");
    }
    assert_eq!(write(store, |tx| ledger::mismatches(tx, 10)).await?, [], "re-derived from entries and holds");
    let totals = write(store, ledger::totals).await?;
    assert_eq!(totals.wallets, totals.to_wallets, "debits are credits");
    assert_eq!(totals.wallets.0, -model.house);
    Ok(())
}

async fn history(database: &Store, acts: &[Act]) -> anyhow::Result<()> {
    let mut model = Model::default();
    for (number, &act) in acts.iter().enumerate() {
        let (number, act) = match act {
            Act::Again { act } if number > 0 => (act % number, acts[act % number]),
            other => (number, other),
        };
        perform(database, &mut model, number, act).await?;
        for (wallet, account) in &model.accounts {
            assert!(account.held.0 >= 0 && account.reserved.0 >= 0, "{wallet} {account:?}");
        }
    }
    agree(database, &model).await
}

async fn random_histories_add_up(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    // Postgres commits are slower; the model is the same.
    let histories = if store.is_sqlite() { 40 } else { 6 };
    let mut runner = TestRunner::deterministic();
    for _ in 0..histories {
        let tree = proptest::collection::vec(act(), 1..60).new_tree(&mut runner).map_err(anyhow::Error::msg)?;
        write(&store, |tx| {
            for sql in ["delete from ledger_account", "delete from ledger_entry", "delete from ledger_hold"] {
                tx.execute(sql, &[])?;
            }
            Ok(())
        })
        .await?;
        let acts = proptest::strategy::ValueTree::current(&tree);
        history(&store, &acts).await.map_err(|error| error.context(format!("{acts:?}")))?;
    }
    Ok(())
}
