//! The venue's part of the catalogue, and the handle on it.

use std::time::Duration;

use alloy::primitives::Address;
use anyhow::{Context, Result, ensure};
use domain::account::{Account, Vm};
use domain::catalog::{Chain, Class, Currency, FillGas, Presentation};
use domain::venue::CHAIN;
use evm::Nodes;
use solver::handle::venue::{VenueChain, VenueFees, VenueKeys};
use solver::handle::venue_rescan::VenueRescan;
use solver::{ChainHandle, Settings};
use store::risk::Limits;
use venue::{Client, Network, Options};

use super::{dollars, plain, signers, target};
use crate::config::{Config, VenueConfig, fee};
use crate::role::Role;

/// The venue as a chain: one currency, its collateral, and the account in the place of every contract.
pub(super) fn chain(config: &VenueConfig) -> Result<Chain> {
    let collateral = Currency {
        chain: CHAIN,
        address: Account::parse(Vm::Venue, "0")?,
        id: "usdc".to_owned(),
        symbol: "USDC (Perp)".to_owned(),
        name: "USDC (Perp)".to_owned(),
        decimals: 6,
        class: Class::Stable,
        native: true,
        logo_uri: config.logo_uri.clone(),
        resets_allowance: false,
        authorizations: None,
        held: true,
        target: target(config.target, 6),
    };
    Ok(Chain {
        id: CHAIN,
        name: config.name.clone(),
        vm: Vm::Venue,
        presentation: Presentation {
            display_name: config.display_name.clone(),
            http_rpc_url: plain(&config.url),
            ws_rpc_url: String::new(),
            explorer_url: config.explorer_url.clone(),
            explorer_name: config.explorer_name.clone(),
            icon_url: None,
        },
        native: collateral,
        tokens: Vec::new(),
        depository: config.account()?.packed(),
        router: Address::ZERO,
        approval_proxy: Address::ZERO,
        multicall3: Address::ZERO,
        spend_limiter: None,
        deposit_address_factory: None,
        dex: None,
        // A second stands for a block.
        block_time_millis: 1_000,
        confirmations: 1,
        tiers: Vec::new(),
        // One unit, at the price of the venue's fee for our transfers.
        fill_gas: FillGas {
            native_limit: 0,
            erc20_limit: 0,
            native_typical: 1,
            erc20_typical: 0,
            contract_typical: 0,
            routed_typical: 0,
        },
        private_id: None,
    })
}

pub(super) fn handle(config: &Config, venue: &VenueConfig, role: Role, chain: Chain) -> Result<ChainHandle> {
    let client = Client::new(Options {
        base_url: venue.url.clone(),
        network: Network(venue.network_id),
        timeout: Duration::from_millis(config.limits.rpc_timeout_millis),
        quota: venue.quota(),
    })?;
    let client = client.with_overlap(Duration::from_secs(venue.overlap_secs));
    let keys = if role.pays() { Some(keys(config, venue, role)?) } else { None };
    let behind = VenueChain::new(
        client,
        venue.account()?,
        venue.key_index()?,
        keys,
        venue.sources()?.into_iter().collect(),
        Duration::from_millis(venue.poll_millis),
        VenueFees { user: fee("user_fee", &venue.user_fee)?, most: fee("max_fee", &venue.max_fee)? },
    )
    .with_unlisted_timeout(Duration::from_secs(venue.unlisted_secs))
    .with_rescan(VenueRescan::new(
        Duration::from_secs(venue.rescan_secs),
        Duration::from_secs(venue.rescan_reach_secs),
    ));
    Ok(ChainHandle::of_venue(chain, Nodes::none(CHAIN)?, settings(venue)?, behind))
}

fn keys(config: &Config, venue: &VenueConfig, role: Role) -> Result<VenueKeys> {
    let needed = |name: &str| format!("{name}: needed by --role {role}");
    let api = venue.api_key.as_ref().with_context(|| needed("api_key"))?;
    let wallet = venue.wallet_key.as_ref().with_context(|| needed("wallet_key"))?;
    let api = api.read(&config.folder).context("api_key")?.expose().parse().context("api_key")?;
    Ok(VenueKeys { api, wallet: signers::key(config, wallet).context("wallet_key")? })
}

fn settings(venue: &VenueConfig) -> Result<Settings> {
    let risk = &venue.risk;
    ensure!(risk.one_node_usd == "0", "risk.one_node_usd: the venue has one operator, whose word is all there is");
    Ok(Settings {
        start_block: None,
        finality: venue.finality_secs,
        window: venue.lane_window,
        max_fee_cap: fee("max_fee", &venue.max_fee)?.into(),
        risk: Limits {
            open: dollars("risk.open_usd", &risk.open_usd)?,
            per_minute: dollars("risk.per_minute_usd", &risk.per_minute_usd)?,
        },
        one_node_below: Default::default(),
        most_refund: dollars("risk.refund_usd", &risk.refund_usd)?,
        depository_caps: Default::default(),
        gas_levels: None,
        lost_after_millis: i64::from(risk.lost_after_secs).saturating_mul(1_000),
        bump_after: Duration::from_secs(60),
    })
}
