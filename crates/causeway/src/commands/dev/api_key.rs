//! The API key of the local network: created once, and kept as long as its database lives.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use alloy::primitives::{U256, eip191_hash_message};
use anyhow::Result;
use devnet::{Account, Devnet};
use domain::api_key::{ApiKeyId, KeyLimits, KeyText};
use evm::LocalSigner;
use evm::account_tag::tag;
use evm::calldata::erc20_fill;
use solver::integrators::wallet_links;
use store::keys::{self, KeyHash};
use store::{Store, key_owners, ledger};
use tracing::warn;

use crate::commands::keys::{New, create, open};
use crate::config::Config;
use crate::service::Service;
use crate::{assemble, env, local};

/// The wait for the balance: thirty seconds at the most, on a machine with other work.
const BALANCE_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_BALANCE_POLLS: usize = 600;

/// The initial app balance of the key's wallet, in millionths of a USDC.
const BALANCE: u64 = 1_000_000_000;

/// Returns the key of an earlier run, or a new one linked to the owner's wallet.
pub async fn ensure(config: &Config, folder: &Path, owner: &Account) -> Result<KeyText> {
    let store = open(config)?;
    let text = find_or_create(config, &store, folder, owner).await;
    store.close().await;
    text
}

async fn find_or_create(config: &Config, store: &Store, folder: &Path, owner: &Account) -> Result<KeyText> {
    let path = folder.join("keys").join("api-key");
    let left = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<KeyText>().ok());
    if let Some(text) = left {
        let (hash, now) = (KeyHash::of(&text), env::clock());
        if let Some(key) = store.read(move |tx| keys::by_hash(tx, hash, now)).await? {
            give(store, key.id, owner).await?;
            return Ok(text);
        }
    }
    let new = New { name: "local".to_owned(), limits: KeyLimits::new(true), may_force_refund: true };
    let (key, text) = create(config, store, new).await?;
    link(config, store, key.id, owner).await?;
    give(store, key.id, owner).await?;
    local::private(&path)?.write_all(format!("{}\n", text.expose()).as_bytes())?;
    Ok(text)
}

/// Makes the wallet the key's owner in the dashboard.
async fn give(store: &Store, key: ApiKeyId, owner: &Account) -> Result<()> {
    let (account, now) = (owner.address, env::clock());
    store.write(move |tx| key_owners::give(tx, key, account, now)).await?;
    Ok(())
}

/// Links the wallet as its owner would: requests the message, signs it and submits the signature.
async fn link(config: &Config, store: &Store, key: ApiKeyId, owner: &Account) -> Result<()> {
    let (env, service) = (env::system_env(), assemble::plain(&config.base_url));
    let now = (env.clock)();
    let link = wallet_links::ask(store, key, owner.address, env.random, now).await?;
    let signer = LocalSigner::from_hex(&owner.private_key.to_string())?;
    let digest = eip191_hash_message(wallet_links::message(&service, &link));
    let signature = signer.sign_digest(digest).as_bytes().into();
    Ok(wallet_links::accept(store, &service, key, owner.address, signature, None, now).await?)
}

/// Funds the wallet's app balance as an integrator would: by a transfer to the treasury that names the wallet. A
/// balance from an earlier run is left as it is.
pub async fn fund(service: &Service, devnet: &Devnet, owner: &Account) -> Result<()> {
    let (wallet, treasury) = (owner.address, devnet.keys.treasury.address);
    let lines = service.solver.store.read(move |tx| ledger::entries(tx, wallet, None, 1)).await?;
    if !lines.is_empty() {
        return Ok(());
    }
    let base = devnet.chain(domain::ledger::CHAIN);
    let data = erc20_fill(treasury, U256::from(BALANCE), tag(wallet));
    base.send(owner.private_key, base.token("USDC").address, U256::ZERO, data).await?;
    // Credited once it is final. The balance is there when the key is printed.
    let handle = service.solver.chains.get(&domain::ids::ChainId(base.id));
    base.mine(handle.map_or(0, |handle| handle.settings.finality) + 1).await?;
    for _ in 0..MAX_BALANCE_POLLS {
        tokio::time::sleep(BALANCE_POLL_INTERVAL).await;
        if !service.solver.store.read(move |tx| ledger::entries(tx, wallet, None, 1)).await?.is_empty() {
            return Ok(());
        }
    }
    warn!(wallet = %wallet, "the balance of the local key is not credited yet; it follows");
    Ok(())
}
