//! API keys: access by key text, its rotation and its end.

use alloy_primitives::Address;
use domain::api_key::{ApiKey, ApiKeyId, Family, KeyLimits, KeyText};
use domain::time::Timestamp;
use store::keys::{self, KeyHash, StoredText};
use store::sealing::MasterKey;
use store::{Store, StoreError, Tx};

use crate::database::Database;

crate::on_both_engines! {
    a_key_is_found_by_its_text_and_keeps_what_it_was_given
    a_rotated_key_has_two_texts_for_as_long_as_was_said
    a_revoked_key_lets_nobody_in_and_is_not_revived
    keys_are_listed_in_order_page_by_page
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn master() -> MasterKey {
    MasterKey::new(&[3; 32]).unwrap()
}

fn text(n: u8) -> KeyText {
    KeyText::new([n; 32])
}

fn stored(id: ApiKeyId, n: u8) -> StoredText {
    StoredText::new(id, &text(n), &master(), [n; 12]).unwrap()
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

async fn write<T: Send + 'static>(
    store: &Store,
    unit: impl Fn(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    store.write(unit).await
}

async fn create(store: &Store, key: ApiKey, n: u8) -> Result<(), StoreError> {
    write(store, move |tx| keys::create(tx, &key, &stored(key.id, n))).await
}

/// The key that a text belongs to, at a time.
async fn who(store: &Store, n: u8, now: i64) -> Result<Option<ApiKey>, StoreError> {
    let hash = KeyHash::of(&text(n));
    store.read(move |tx| keys::by_hash(tx, hash, at(now))).await
}

async fn a_key_is_found_by_its_text_and_keeps_what_it_was_given(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let limits = KeyLimits::new(true);
    let limits = limits.with(Family::RequestsV3, Some("7/s".parse()?)).with(Family::Others, Some("9/min".parse()?));
    let key = ApiKey { limits, may_force_refund: true, ..key(1) };
    create(&store, key.clone(), 1).await?;
    assert_eq!(who(&store, 1, 2_000).await?, Some(key.clone()));
    assert_eq!(who(&store, 2, 2_000).await?, None);

    let (id, wallet) = (key.id, Address::repeat_byte(5));
    let changed = write(&store, move |tx| {
        Ok(keys::rename(tx, id, "renamed")?
            && keys::set_wallet(tx, id, wallet)?
            && keys::set_may_force_refund(tx, id, false)?
            && keys::set_limits(tx, id, KeyLimits::default())?)
    });
    assert!(changed.await?);
    let expected = ApiKey {
        name: "renamed".to_owned(),
        wallet: Some(wallet),
        limits: KeyLimits::default(),
        may_force_refund: false,
        ..key
    };
    assert_eq!(who(&store, 1, 2_000).await?, Some(expected));
    assert!(!write(&store, |tx| keys::rename(tx, ApiKeyId::new([9; 10]), "x")).await?);

    // The text can be recovered with the master key, and only with it.
    let sealed = store.read(move |tx| keys::sealed_text(tx, id)).await?.unwrap();
    assert_eq!(master().open(&id.to_string(), &sealed)?, text(1).expose());
    assert!(MasterKey::new(&[4; 32])?.open(&id.to_string(), &sealed).is_err());
    Ok(())
}

async fn a_rotated_key_has_two_texts_for_as_long_as_was_said(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let id = key(1).id;
    create(&store, key(1), 1).await?;
    assert!(write(&store, move |tx| keys::rotate(tx, id, &stored(id, 2), at(5_000), at(2_000))).await?);
    for (n, now, known) in [(1, 4_999, true), (1, 5_000, false), (2, 4_999, true), (2, 9_000, true)] {
        assert_eq!(who(&store, n, now).await?.is_some(), known, "text {n} at {now}");
    }
    assert_eq!(who(&store, 2, 9_000).await?.unwrap().rotated_at, Some(at(2_000)));
    // A second rotation does not lengthen the life of the first text.
    assert!(write(&store, move |tx| keys::rotate(tx, id, &stored(id, 3), at(8_000), at(3_000))).await?);
    for (n, now, known) in [(1, 5_000, false), (2, 7_999, true), (2, 8_000, false), (3, 9_000, true)] {
        assert_eq!(who(&store, n, now).await?.is_some(), known, "text {n} at {now}");
    }
    let sealed = store.read(move |tx| keys::sealed_text(tx, id)).await?.unwrap();
    assert_eq!(master().open(&id.to_string(), &sealed)?, text(3).expose());
    Ok(())
}

async fn a_revoked_key_lets_nobody_in_and_is_not_revived(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let id = key(1).id;
    create(&store, key(1), 1).await?;
    assert!(write(&store, move |tx| keys::revoke(tx, id, at(2_000))).await?);
    assert!(write(&store, move |tx| keys::revoke(tx, id, at(3_000))).await?);
    assert_eq!(who(&store, 1, 2_000).await?, None);
    assert_eq!(store.read(move |tx| keys::find(tx, id)).await?.unwrap().revoked_at, Some(at(2_000)));
    assert_eq!(store.read(move |tx| keys::sealed_text(tx, id)).await?, None);
    let rotated = write(&store, move |tx| keys::rotate(tx, id, &stored(id, 2), at(5_000), at(4_000)));
    assert!(!rotated.await?);
    assert!(!write(&store, move |tx| keys::set_wallet(tx, id, Address::ZERO)).await?);
    assert_eq!(who(&store, 2, 4_000).await?, None);
    Ok(())
}

async fn keys_are_listed_in_order_page_by_page(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    // Two keys are created at the same moment.
    for (n, created) in [(3, 30), (1, 10), (4, 30), (2, 20)] {
        create(&store, ApiKey { created_at: at(created), ..key(n) }, n).await?;
    }
    let first = store.read(|tx| keys::list(tx, None, 3)).await?;
    let last = first.last().unwrap().clone();
    let second = store.read(move |tx| keys::list(tx, Some(&last), 3)).await?;
    let ids: Vec<_> = first.iter().chain(&second).map(|key| key.id).collect();
    assert_eq!(ids, [1, 2, 3, 4].map(|n| key(n).id));
    Ok(())
}
