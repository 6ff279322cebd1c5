//! Claims: signed once however many try, never beyond the balance, and listed page by page.

use alloy_primitives::{Address, B256, U256};
use domain::claim::{Event, State, step};
use domain::ids::{ChainId, ClaimId};
use domain::ledger::{Account, Cause, Entry, Hold, HoldId, HoldKind, UsdcMicros};
use domain::time::Timestamp;
use futures::future::join_all;
use store::claims::{self, Claim};
use store::ledger::{self, Opened};
use store::{Store, StoreError, Tx};

use crate::database::Database;

crate::on_both_engines! {
    two_hundred_at_once_never_exceed_the_balance
    one_is_signed_for_once
    an_unsigned_claim_is_forgotten_and_not_listed
    pages_follow_on_one_another
    a_claim_on_chain_is_held_even_beyond_the_balance
}

const NOW: Timestamp = Timestamp::from_millis(1_000);
const WALLET: Address = Address::repeat_byte(2);

fn claim(number: u64, amount: i64) -> Claim {
    Claim {
        id: ClaimId(U256::from(number).into()),
        wallet: WALLET,
        recipient: Address::repeat_byte(3),
        chain: ChainId(8453),
        currency: Address::repeat_byte(4),
        amount: UsdcMicros(amount),
        expires_at: Timestamp::from_millis(2_000),
    }
}

fn hold(claim: &Claim) -> Hold {
    let id = HoldId::first(HoldKind::Claim, claim.id.0);
    Hold { id, wallet: claim.wallet, amount: claim.amount, request: None }
}

async fn fund(store: &Store, delta: i64) -> Result<bool, StoreError> {
    let entry = Entry::new(Cause::Funding { transfer: 1 }, WALLET, UsdcMicros(delta), None).unwrap();
    store.write(move |tx| ledger::post(tx, &entry, NOW)).await
}

async fn ask(store: &Store, claim: Claim) -> Result<bool, StoreError> {
    store.write(move |tx| claims::put(tx, &claim, State::Asked, NOW)).await
}

/// Signs for a claim: `false` where it was signed already or the balance is too low, and then nothing is changed.
fn sign(tx: &mut Tx<'_>, id: ClaimId) -> Result<bool, StoreError> {
    let stored = claims::lock(tx, id)?.unwrap();
    let Ok(next) = step(stored.state, Event::Signed) else { return Ok(false) };
    if ledger::open_hold(tx, &hold(&stored.claim), NOW)? != Opened::Now {
        return Ok(false);
    }
    claims::set_state(tx, id, next, NOW)?;
    Ok(true)
}

async fn signed(store: &Store, ids: Vec<ClaimId>) -> Result<usize, StoreError> {
    let units = ids.into_iter().map(|id| store.write(move |tx| sign(tx, id)));
    let signed = join_all(units).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(signed.into_iter().filter(|signed| *signed).count())
}

async fn stands(store: &Store) -> Result<Account, StoreError> {
    store.read(|tx| ledger::account(tx, WALLET)).await
}

async fn two_hundred_at_once_never_exceed_the_balance(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1_005).await?;
    // A fast fill under way narrows the amount that can be claimed.
    let fast =
        Hold { id: HoldId::first(HoldKind::FastFill, B256::ZERO), amount: UsdcMicros(300), ..hold(&claim(0, 1)) };
    store.write(move |tx| ledger::open_hold(tx, &fast, NOW)).await?;
    for number in 0..200 {
        assert!(ask(&store, claim(number, 10)).await?);
    }
    let count = signed(&store, (0..200).map(|number| claim(number, 10).id).collect()).await?;
    assert_eq!(count, 70);
    let account = stands(&store).await?;
    assert_eq!((account.balance.0, account.held.0, account.reserved.0), (1_005, 300, 700));
    let listed = store.read(|tx| claims::of_wallet(tx, WALLET, None, 250)).await?;
    assert!(listed.len() == 70 && listed.iter().all(|it| it.stored.state == State::Pending && it.tx.is_none()));
    assert_eq!(store.read(|tx| ledger::mismatches(tx, 10)).await?, []);
    Ok(())
}

async fn one_is_signed_for_once(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1_000).await?;
    assert!(ask(&store, claim(1, 10)).await? && !ask(&store, claim(1, 11)).await?);
    assert_eq!(signed(&store, vec![claim(1, 10).id; 200]).await?, 1);
    assert_eq!(stands(&store).await?.reserved, UsdcMicros(10));
    Ok(())
}

async fn an_unsigned_claim_is_forgotten_and_not_listed(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 1_000).await?;
    let (old, kept, new) =
        (claim(1, 10), claim(2, 10), Claim { expires_at: Timestamp::from_millis(9_000), ..claim(3, 10) });
    ask(&store, old).await?;
    ask(&store, kept).await?;
    assert_eq!(signed(&store, vec![kept.id]).await?, 1);
    store.write(move |tx| claims::put(tx, &new, State::Asked, Timestamp::from_millis(3_000))).await?;
    let found = |id| store.read(move |tx| Ok::<_, StoreError>(claims::find(tx, id)?.map(|it| it.claim)));
    assert_eq!(found(old.id).await?, None);
    assert_eq!(found(kept.id).await?, Some(kept));
    assert_eq!(found(new.id).await?, Some(new));
    let listed = store.read(|tx| claims::of_wallet(tx, WALLET, None, 10)).await?;
    assert_eq!(listed.iter().map(|it| it.stored.claim).collect::<Vec<_>>(), [kept]);
    Ok(())
}

async fn pages_follow_on_one_another(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    for number in 0..25 {
        let claim = claim(number, 10);
        store.write(move |tx| claims::put(tx, &claim, State::Pending, NOW)).await?;
    }
    let mut seen = Vec::new();
    loop {
        let before = seen.last().map(|stored: &claims::ClaimRow| stored.sequence);
        let page = store.read(move |tx| claims::of_wallet(tx, WALLET, before, 10)).await?;
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|it| it.stored));
    }
    let expected: Vec<ClaimId> = (0..25).rev().map(|number| claim(number, 10).id).collect();
    assert_eq!(seen.iter().map(|stored| stored.claim.id).collect::<Vec<_>>(), expected);
    let others = store.read(|tx| claims::of_wallet(tx, Address::ZERO, None, 10)).await?;
    assert!(others.is_empty());
    Ok(())
}

async fn a_claim_on_chain_is_held_even_beyond_the_balance(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    fund(&store, 100).await?;
    let shown = hold(&claim(1, 150));
    for _ in 0..2 {
        store.write(move |tx| ledger::impose_hold(tx, &shown, NOW)).await?;
    }
    let account = stands(&store).await?;
    assert_eq!((account.balance.0, account.reserved.0), (100, 150));
    assert_eq!(account.available(HoldKind::Claim), UsdcMicros::ZERO);
    let entry = Entry::new(Cause::Claim { hold: shown.id }, WALLET, UsdcMicros(-150), None)?;
    store.write(move |tx| ledger::post_hold(tx, shown.id, &[entry], NOW)).await?;
    let account = stands(&store).await?;
    assert_eq!((account.balance.0, account.reserved.0), (-50, 0));
    assert_eq!(store.read(|tx| ledger::mismatches(tx, 10)).await?, []);
    Ok(())
}
