//! `causeway keys`: creates, changes and revokes API keys. A key's text is shown once, when it is created.
//!
//! The command works beside a running service: it makes one short write, and the service reads the key again within
//! seconds. The worker's lock is not needed, because nothing here pays.

use std::time::Duration;

use alloy::primitives::{Address, Bytes};
use anyhow::{Context, Result, bail, ensure};
use domain::api_key::{ApiKey, ApiKeyId, Family, KeyLimits, KeyText, check_name};
use solver::integrators::wallet_links;
use store::keys::{self, StoredText};
use store::sealing::MasterKey;
use store::{Store, StoreError, Tx, key_owners};

use crate::assemble;
use crate::cli::{KeysCommand, LimitsArgs};
use crate::commands::endpoints;
use crate::config::Config;
use crate::env::system_env;

/// Rows per page of a listing.
const PAGE: u32 = 200;
/// The longest a replaced text may stay valid.
const MAX_OVERLAP: Duration = Duration::from_secs(7 * 24 * 3600);

pub(crate) async fn run(config: &Config, command: KeysCommand) -> Result<()> {
    let store = open(config)?;
    let done = answer(config, &store, command).await;
    store.close().await;
    done
}

/// Opens the database without the worker's lock.
pub(crate) fn open(config: &Config) -> Result<Store> {
    let mut options = assemble::database(config)?;
    (options.reader_threads, options.list_threads, options.postgres_threads) = (1, 1, 1);
    Store::open(&options).with_context(|| format!("database {}", options.url))
}

async fn answer(config: &Config, store: &Store, command: KeysCommand) -> Result<()> {
    match command {
        KeysCommand::Create { name, elevated, may_force_refund } => {
            let limits = KeyLimits::new(elevated);
            let (key, text) = create(config, store, New { name, limits, may_force_refund }).await?;
            println!("{}", key.id);
            show_once(&text);
            Ok(())
        }
        KeysCommand::List => list(store).await,
        KeysCommand::Show { id } => {
            let key = store.read(move |tx| keys::find(tx, id)).await?.with_context(|| format!("no key {id}"))?;
            describe(&key);
            Ok(())
        }
        KeysCommand::Rename { id, name } => {
            check_name(&name)?;
            change(store, id, move |tx| keys::rename(tx, id, &name)).await
        }
        KeysCommand::Rotate { id, overlap_secs } => rotate(config, store, id, overlap_secs).await,
        KeysCommand::Revoke { id } => {
            let now = (system_env().clock)();
            change(store, id, move |tx| keys::revoke(tx, id, now)).await
        }
        KeysCommand::Give { id, account } => {
            let now = (system_env().clock)();
            change(store, id, move |tx| key_owners::give(tx, id, account, now)).await
        }
        KeysCommand::Link { id, wallet, signature } => link(config, store, id, wallet, signature).await,
        KeysCommand::Limits(args) => limits(store, args).await,
        KeysCommand::Webhook(args) => endpoints::run(config, store, args).await,
    }
}

/// The input for a new key.
#[derive(Debug)]
pub(crate) struct New {
    pub name: String,
    pub limits: KeyLimits,
    pub may_force_refund: bool,
}

/// Creates a key. Its text exists in clear only in the returned value.
pub(crate) async fn create(config: &Config, store: &Store, new: New) -> Result<(ApiKey, KeyText)> {
    check_name(&new.name)?;
    let master = master(config)?;
    let env = system_env();
    let mut id = [0u8; 10];
    (env.random)(&mut id);
    let key = ApiKey {
        id: ApiKeyId::new(id),
        name: new.name,
        wallet: None,
        limits: new.limits,
        may_force_refund: new.may_force_refund,
        created_at: (env.clock)(),
        rotated_at: None,
        revoked_at: None,
    };
    let (text, stored) = fresh_text(key.id, &master)?;
    let made = key.clone();
    store.write(move |tx| keys::create(tx, &made, &stored)).await?;
    Ok((key, text))
}

fn master(config: &Config) -> Result<MasterKey> {
    config.master_key()?.context(
        "keys.master_key is not configured: name an environment variable there and set it to what `openssl rand -hex 32` prints",
    )
}

fn fresh_text(id: ApiKeyId, master: &MasterKey) -> Result<(KeyText, StoredText)> {
    let (mut random, mut nonce) = ([0u8; 32], [0u8; 12]);
    (system_env().random)(&mut random);
    (system_env().random)(&mut nonce);
    let text = KeyText::new(random);
    let stored = StoredText::new(id, &text, master, nonce)?;
    Ok((text, stored))
}

fn show_once(text: &KeyText) {
    println!("{}", text.expose());
    eprintln!("The second line is the key. It is not shown again.");
}

async fn change(
    store: &Store,
    id: ApiKeyId,
    unit: impl Fn(&mut Tx<'_>) -> Result<bool, StoreError> + Send + 'static,
) -> Result<()> {
    let unit = move |tx: &mut Tx<'_>| Ok::<_, StoreError>(unit(tx)?.then(|| keys::find(tx, id)).transpose()?.flatten());
    match store.write(unit).await? {
        Some(key) => describe(&key),
        None => bail!("no key {id}, or it is revoked"),
    }
    Ok(())
}

async fn rotate(config: &Config, store: &Store, id: ApiKeyId, overlap_secs: u32) -> Result<()> {
    let overlap = Duration::from_secs(overlap_secs.into());
    ensure!(overlap <= MAX_OVERLAP, "--overlap-secs: at most {}", MAX_OVERLAP.as_secs());
    let (text, stored) = fresh_text(id, &master(config)?)?;
    let now = (system_env().clock)();
    let rotated = store.write(move |tx| keys::rotate(tx, id, &stored, now.plus(overlap), now)).await?;
    ensure!(rotated, "no key {id}, or it is revoked");
    println!("{id}");
    show_once(&text);
    Ok(())
}

async fn limits(store: &Store, args: LimitsArgs) -> Result<()> {
    let id = args.id;
    let unit = move |tx: &mut Tx<'_>| {
        let Some(key) = keys::find(tx, id)? else { return Ok(false) };
        let mut limits = key.limits;
        limits.elevated = args.elevated.unwrap_or(limits.elevated);
        for (family, rate) in &args.rates {
            limits = limits.with(*family, *rate);
        }
        keys::set_may_force_refund(tx, id, args.may_force_refund.unwrap_or(key.may_force_refund))?;
        keys::set_limits(tx, id, limits)
    };
    change(store, id, unit).await
}

async fn link(config: &Config, store: &Store, id: ApiKeyId, wallet: Address, signature: Option<Bytes>) -> Result<()> {
    store.read(move |tx| keys::find(tx, id)).await?.with_context(|| format!("no key {id}"))?;
    let (env, service) = (system_env(), assemble::plain(&config.base_url));
    let Some(signature) = signature else {
        let link = wallet_links::ask(store, id, wallet, env.random, (env.clock)()).await?;
        println!("{}", wallet_links::message(&service, &link));
        return Ok(());
    };
    let chain = config.chains.iter().find(|chain| chain.name == domain::ledger::CHAIN);
    let nodes = chain.map(|chain| assemble::nodes(config, chain)).transpose()?;
    wallet_links::accept(store, &service, id, wallet, signature, nodes.as_ref(), (env.clock)()).await?;
    println!("{id} is linked to {wallet}");
    Ok(())
}

async fn list(store: &Store) -> Result<()> {
    println!("{:<24}  {:<8}  {:<42}  name", "id", "state", "wallet");
    let mut last = None;
    loop {
        let after = last.take();
        let page = store.read(move |tx| keys::list(tx, after.as_ref(), PAGE)).await?;
        for key in &page {
            println!("{:<24}  {:<8}  {:<42}  {}", key.id.to_string(), state(key), wallet(key), key.name);
        }
        if page.len() < PAGE as usize {
            return Ok(());
        }
        last = page.into_iter().last();
    }
}

fn state(key: &ApiKey) -> &'static str {
    if key.revoked_at.is_some() { "revoked" } else { "good" }
}

fn wallet(key: &ApiKey) -> String {
    key.wallet.map_or_else(|| "-".to_owned(), |wallet| wallet.to_string())
}

fn describe(key: &ApiKey) {
    println!("id                {}", key.id);
    println!("name              {}", key.name);
    println!("state             {}", state(key));
    println!("wallet            {}", wallet(key));
    println!("may force refund  {}", key.may_force_refund);
    println!("elevated limits   {}", key.limits.elevated);
    for family in Family::ALL {
        let own = if key.limits.own(family).is_some() { "  (its own)" } else { "" };
        println!("  {:<20}  {}{own}", family.as_str(), key.limits.rate(family));
    }
}
