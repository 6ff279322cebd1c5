//! Sessions of the dashboard, owners of keys, usage and operators' actions.

use alloy_primitives::{Address, B256};
use domain::api_key::{ApiKey, ApiKeyId, Family, KeyLimits, KeyText};
use domain::time::Timestamp;
use store::key_usage::{self, Usage};
use store::keys::{self, StoredText};
use store::operator_actions::{self, Action};
use store::saved_views::{self, SavedView};
use store::sealing::MasterKey;
use store::sessions::{self, Session};
use store::{StoreError, key_owners, overview};

use crate::database::Database;

crate::on_both_engines! {
    a_nonce_opens_one_session_which_ends
    a_key_belongs_to_one_account
    a_view_belongs_to_its_account
    calls_add_up_by_day
    an_action_is_written_before_it_is_done
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn session(token: u8, nonce: &str) -> Session {
    Session {
        token_hash: B256::repeat_byte(token),
        account: Address::repeat_byte(9),
        nonce: nonce.to_owned(),
        created_at: at(1_000),
        expires_at: at(5_000),
    }
}

async fn a_nonce_opens_one_session_which_ends(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let open = |session: Session| store.write(move |tx| sessions::open(tx, &session));
    assert!(open(session(1, "a")).await?);
    assert!(!open(session(2, "a")).await?, "a nonce was used twice");
    assert!(!open(session(1, "b")).await?, "a token was used twice");
    let find = |now: i64| store.read(move |tx| sessions::find(tx, B256::repeat_byte(1), at(now)));
    assert_eq!(find(4_999).await?, Some(session(1, "a")));
    assert_eq!(find(5_000).await?, None);
    store.write(|tx| sessions::end(tx, B256::repeat_byte(1), at(2_000))).await?;
    assert_eq!(find(2_000).await?, None);
    // The row stays for a while, and its nonce with it.
    assert!(!open(session(3, "a")).await?);
    assert_eq!(store.write(|tx| sessions::prune(tx, at(2_000))).await?, 0);
    assert_eq!(store.write(|tx| sessions::prune(tx, at(2_001))).await?, 1);
    store.close().await;
    Ok(())
}

fn key(n: u8) -> ApiKey {
    ApiKey {
        id: ApiKeyId::new([n; 10]),
        name: format!("app {n}"),
        wallet: None,
        limits: KeyLimits::default(),
        may_force_refund: false,
        created_at: at(1_000),
        rotated_at: None,
        revoked_at: None,
    }
}

async fn a_key_belongs_to_one_account(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let (one, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
    let master = MasterKey::new(&[3; 32])?;
    for n in [1, 2] {
        let text = StoredText::new(key(n).id, &KeyText::new([n; 32]), &master, [n; 12])?;
        store.write(move |tx| keys::create(tx, &key(n), &text)).await?;
    }
    let give = |n: u8, to: Address| store.write(move |tx| key_owners::give(tx, key(n).id, to, at(10 + i64::from(n))));
    assert!(give(2, one).await? && give(1, one).await?);
    assert!(!give(7, one).await?, "there is no such key");
    let of = |who: Address| store.read(move |tx| key_owners::keys_of(tx, who));
    assert_eq!(of(one).await?, [key(1), key(2)]);
    assert!(give(2, other).await?);
    assert_eq!((of(one).await?, of(other).await?), (vec![key(1)], vec![key(2)]));
    let unit = move |tx: &mut store::Tx<'_>| {
        Ok::<_, StoreError>((key_owners::owns(tx, one, key(2).id)?, key_owners::count(tx, other)?))
    };
    assert_eq!(store.read(unit).await?, (false, 1));
    // A revoked key makes room for another, and stands behind the live ones.
    assert!(give(2, one).await?);
    store.write(move |tx| keys::revoke(tx, key(1).id, at(50))).await?;
    let ids: Vec<_> = of(one).await?.iter().map(|key| (key.id, key.revoked_at)).collect();
    assert_eq!(ids, [(key(2).id, None), (key(1).id, Some(at(50)))]);
    assert_eq!(store.read(move |tx| key_owners::count(tx, one)).await?, 1);
    store.close().await;
    Ok(())
}

async fn a_view_belongs_to_its_account(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let (one, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
    let view = |name: &str, query: &str| SavedView { name: name.to_owned(), query: query.to_owned() };
    let save =
        |who: Address, view: SavedView, now: i64| store.write(move |tx| saved_views::save(tx, who, &view, at(now)));
    assert!(save(one, view("b", "status=success"), 1).await? && save(one, view("a", "status=refund"), 2).await?);
    assert!(save(one, view("b", "status=pending"), 3).await? && save(other, view("b", "x=y"), 4).await?);
    let of = |who: Address| store.read(move |tx| saved_views::of(tx, who));
    assert_eq!(of(one).await?, [view("b", "status=pending"), view("a", "status=refund")]);
    store.write(move |tx| saved_views::delete(tx, other, "a")).await?;
    assert_eq!(of(one).await?.len(), 2);
    store.write(move |tx| saved_views::delete(tx, one, "a")).await?;
    assert_eq!(of(one).await?, [view("b", "status=pending")]);
    for n in 1..saved_views::MAX_VIEWS {
        assert!(save(one, view(&format!("view {n}"), "a=b"), 5).await?);
    }
    assert!(!save(one, view("one more", "a=b"), 6).await?);
    assert!(save(one, view("b", "a=c"), 6).await?, "a view that is there can be changed");
    store.close().await;
    Ok(())
}

async fn calls_add_up_by_day(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let usage = |calls, refused| Usage { key: key(1).id, family: Family::Quotes, calls, refused };
    for (day, counted) in [(100, usage(3, 1)), (100, usage(4, 0)), (101, usage(1, 1))] {
        store.write(move |tx| key_usage::add(tx, day, &[counted])).await?;
    }
    let since = |from: i64| store.read(move |tx| key_usage::since(tx, key(1).id, from));
    assert_eq!(since(100).await?, [(100, usage(7, 1)), (101, usage(1, 1))]);
    assert_eq!(since(101).await?.len(), 1);
    assert_eq!(store.write(|tx| key_usage::prune(tx, 101)).await?, 1);
    assert_eq!(key_usage::day(at(86_400_000 * 3 - 1)), 2);
    store.close().await;
    Ok(())
}

async fn an_action_is_written_before_it_is_done(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let action = Action {
        at: at(5),
        account: Address::repeat_byte(1),
        action: "refund".to_owned(),
        subject: "0x01".to_owned(),
        reason: "why".to_owned(),
        outcome: None,
    };
    let begun = action.clone();
    let id = store.write(move |tx| operator_actions::begin(tx, &begun)).await?;
    assert_eq!(store.read(|tx| operator_actions::newest(tx, 10)).await?, std::slice::from_ref(&action));
    store.write(move |tx| operator_actions::complete(tx, id, "done")).await?;
    let done = Action { outcome: Some("done".to_owned()), ..action };
    assert_eq!(store.read(|tx| operator_actions::newest(tx, 10)).await?, [done]);
    // Charts of an empty database are empty.
    let unit = |tx: &mut store::Tx<'_>| {
        let facts = (overview::of_key(tx, key(1).id, at(0))?, overview::of_all(tx, at(0))?);
        let none = overview::sponsored_by_all(tx, at(0))?.len() + overview::stuck(tx, 5)?.len();
        Ok::<_, StoreError>((facts.0.len() + facts.1.len(), none, overview::under_way(tx, 5)?))
    };
    assert_eq!(store.list(unit).await?, (0, 0, (0, Vec::new())));
    store.close().await;
    Ok(())
}
