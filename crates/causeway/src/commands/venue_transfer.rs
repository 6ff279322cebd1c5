//! `causeway venue-transfer`: makes the transfer that a withdrawal's step asks for, with the keys of an account of the
//! simulator. On the venue itself its own clients do that.

use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use domain::venue::{AccountIndex, Asset, Memo, Route, Units};
use evm::LocalSigner;
use serde::Deserialize;
use url::Url;
use venue::{Client, Expiry, Fee, KeyIndex, Network, Options, Quota, Sent, SignedTransfer, Transfer};

use crate::cli::VenueTransferArgs;
use crate::env::system_env;

/// Time in which the venue may take the transfer.
const LIFETIME_MILLIS: u64 = 300_000;
/// The longest action that is read.
const MAX_ACTION: u64 = 65_536;

#[derive(Deserialize)]
struct Facts {
    venue: VenueFacts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VenueFacts {
    url: Url,
    network_id: u32,
    accounts: Vec<AccountFacts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountFacts {
    index: u64,
    api_key_index: u8,
    api_private_key: String,
    l1_private_key: String,
}

/// The step's `data.action`.
#[derive(Deserialize)]
struct Action {
    #[serde(rename = "type")]
    kind: String,
    parameters: Parameters,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    to_account_index: u64,
    asset_index: u64,
    from_route_type: u64,
    to_route_type: u64,
    amount: u64,
    usdc_fee: u64,
    memo: String,
}

pub(crate) async fn run(args: &VenueTransferArgs) -> Result<()> {
    let facts = std::fs::read_to_string(&args.facts)
        .with_context(|| format!("cannot read {}: is `causeway dev` running?", args.facts.display()))?;
    let Facts { venue } = serde_json::from_str(&facts).with_context(|| args.facts.display().to_string())?;
    let account = venue.accounts.iter().find(|account| account.index == args.account);
    let account = account.with_context(|| format!("account {} is none of the simulator's users", args.account))?;
    let mut text = String::new();
    std::io::stdin().take(MAX_ACTION).read_to_string(&mut text)?;
    let Action { kind, parameters } = serde_json::from_str(&text).context("the action on standard input")?;
    ensure!(kind == "transfer", "the action is a {kind}, not a transfer");

    let client = Client::new(Options {
        base_url: venue.url.clone(),
        network: Network(venue.network_id),
        timeout: Duration::from_secs(10),
        quota: Quota::STANDARD,
    })?;
    let (from, key_index) = (AccountIndex::new(account.index)?, KeyIndex::new(account.api_key_index.into())?);
    let transfer = Transfer {
        from,
        key_index,
        to: AccountIndex::new(parameters.to_account_index)?,
        asset: Asset::new(parameters.asset_index)?,
        from_route: Route::new(parameters.from_route_type)?,
        to_route: Route::new(parameters.to_route_type)?,
        amount: Units::new(parameters.amount)?,
        usdc_fee: Fee::new(parameters.usdc_fee)?,
        memo: parameters.memo.parse::<Memo>().context("memo")?,
        expires_at: Expiry::new(client.status().await?.time_millis.saturating_add(LIFETIME_MILLIS))?,
        nonce: client.next_nonce(from, key_index).await?,
        skips_nonces: false,
    };
    let network = client.network();
    let wallet = LocalSigner::from_hex(&account.l1_private_key).context("l1PrivateKey")?;
    let wallet = wallet.sign_digest(transfer.wallet_digest(network));
    let key = account.api_private_key.parse().context("apiPrivateKey")?;
    let mut randomness = [0; 32];
    (system_env().random)(&mut randomness);
    let signed = SignedTransfer::new(transfer, network, &key, &randomness, Some(wallet));
    match client.send(&signed).await {
        Sent::Taken => println!("{}", signed.hash(network)),
        other => bail!("the venue did not take the transfer: {other:?}"),
    }
    Ok(())
}
