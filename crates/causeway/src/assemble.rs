//! From configuration to parts: the catalogue of chains, the chain handles, the solver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use allocator::Allocator;
use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use domain::account::Vm;
use domain::catalog::{Catalog, Chain, Class, Currency, Dex, FillGas, Presentation, Tier, TokenDomain};
use domain::ids::ChainId;
use domain::money::{Amount, UsdMicros, pow10};
use domain::pair::ByClass;
use domain::pricing::Terms;
use domain::terms::{DepositAddressTerms, FastFillTerms};
use evm::{Endpoint, Nodes};
use market::{Feed, Market, Watchlist};
use solver::quoting::quote::Quoter;
use solver::{ChainHandle, Env, LocalSigner, PayingWallets, Settings, Solver};
use store::risk::Limits;
use store::{DatabaseUrl, Store};

mod payouts;
mod signers;
mod venue;
pub mod webhooks;

use crate::config::{ChainConfig, ClassConfig, Config, EndpointConfig, Environment, FeedConfig, TierConfig, wei};
use crate::role::Role;
use crate::screening;

/// All parts of the service, not yet running.
#[derive(Debug)]
pub struct Parts {
    pub solver: Arc<Solver>,
    pub quoter: Quoter,
    /// Signs attestations of requests for third parties; none where that is not offered.
    pub attestation_key: Option<LocalSigner>,
    /// The key that opens the depositories, where that is known here.
    pub allocator_address: Option<Address>,
    pub watchlists: Vec<(Nodes, Watchlist)>,
    pub allocator: Option<Allocator>,
}

pub fn database(config: &Config) -> Result<store::Options> {
    let text = config.database.read(&config.folder).context("database")?;
    let url: DatabaseUrl = text.expose().parse().context("database")?;
    // A relative path starts at the configuration file, like every other path in it.
    let url = match url {
        DatabaseUrl::Sqlite(path) => DatabaseUrl::Sqlite(config.folder.join(path)),
        postgres @ DatabaseUrl::Postgres(_) => postgres,
    };
    Ok(store::Options::new(url))
}

pub fn catalog(config: &Config) -> Result<Catalog> {
    let chains = config.chains.iter().map(|config| chain(config).with_context(|| format!("chain {}", config.name)));
    let venue = config.venue.iter().map(|config| venue::chain(config).context("venue"));
    Ok(Catalog::new(chains.chain(venue).collect::<Result<_>>()?)?)
}

/// Builds the parts of a process of this role. Keys the role does not use are not read.
pub fn parts(config: &Config, role: Role, store: Store, env: Env) -> Result<Parts> {
    let catalog = Arc::new(catalog(config)?);
    let orders = signers::orders(config, role)?;
    let (fillers, relayers) = (signers::fillers(config, role)?, signers::relayers(config, role)?);
    let treasury_lane = signers::treasury_lane(config, role)?;
    let market = Arc::new(Market::new(catalog.chains().iter().map(|chain| chain.id)));
    let (mut chains, mut watchlists) = (BTreeMap::new(), Vec::new());
    for (settings, chain) in config.chains.iter().zip(catalog.chains()) {
        let in_chain = || format!("chain {}", chain.name);
        let nodes = nodes(config, settings).with_context(in_chain)?;
        let handle_settings = handle_settings(config, settings).with_context(in_chain)?;
        let (treasury, sources) = (config.solver.treasury, &config.solver.treasury_sources);
        let handle = ChainHandle::new(
            chain.clone(),
            nodes.clone(),
            handle_settings,
            treasury,
            sources,
            PayingWallets { fillers: &fillers, relayers: &relayers, treasury_lane: treasury_lane.as_ref() },
        );
        watchlists.push((nodes, watchlist(config, settings, &handle).with_context(in_chain)?));
        chains.insert(chain.id, Arc::new(handle));
    }
    if let (Some(settings), Some(chain)) = (&config.venue, catalog.chain(domain::venue::CHAIN)) {
        let handle = venue::handle(config, settings, role, chain.clone()).context("venue")?;
        chains.insert(chain.id, Arc::new(handle));
    }
    let terms = Arc::new(terms(config, orders.address)?);
    let screening = Arc::new(Arc::new(screening::load(config)?).into());
    let attestation_key = config.solver.attestation_key.as_ref().filter(|_| role.answers());
    let attestation_key = attestation_key.map(|source| signers::key(config, source));
    let attestation_key = attestation_key.transpose().context("solver.attestation_key")?;
    let debug_refunds = config.environment == Environment::Testnet;
    let solver = Arc::new(Solver {
        store,
        market,
        terms,
        chains,
        screening,
        recipient_code: Default::default(),
        venue_accounts: Default::default(),
        refused_recipients: Default::default(),
        past_prices: Default::default(),
        leased: Default::default(),
        debug_refunds,
        env,
    });
    let allocator = if role.allocates() { payouts::allocator(config, role, &solver)? } else { None };
    let mut allocator_address = config.allocator.as_ref().and_then(|settings| settings.address);
    if let Some(key) = allocator.as_ref().map(Allocator::address) {
        let named = allocator_address.replace(key);
        ensure!(named.is_none_or(|named| named == key), "allocator.address: the key is that of {key}");
    }
    let quoter = Quoter {
        solver: solver.clone(),
        catalog,
        order_key: orders.key,
        user_balances: Default::default(),
        sponsor_accounts: Default::default(),
        tried_recipients: Default::default(),
    };
    Ok(Parts { solver, quoter, attestation_key, allocator_address, watchlists, allocator })
}

pub fn nodes(config: &Config, chain: &ChainConfig) -> Result<Nodes> {
    nodes_at(config, chain, &chain.endpoints)
}

fn nodes_at(config: &Config, chain: &ChainConfig, endpoints: &[EndpointConfig]) -> Result<Nodes> {
    let url = |text: &crate::config::Text| -> Result<url::Url> {
        let text = text.read(&config.folder)?;
        // The URL may contain a secret, so the error does not repeat it.
        url::Url::parse(text.expose()).ok().context("endpoints: not a URL")
    };
    let endpoints = endpoints
        .iter()
        .map(|endpoint| Ok(Endpoint { http: url(&endpoint.http)?, ws: endpoint.ws.as_ref().map(url).transpose()? }));
    let timeout = Duration::from_millis(config.limits.rpc_timeout_millis);
    let nodes = Nodes::new(ChainId(chain.id), endpoints.collect::<Result<_>>()?, timeout)?;
    Ok(nodes.poll_every(Duration::from_millis(chain.block_time_millis.clamp(100, 2_000) / 2)))
}

fn handle_settings(config: &Config, chain: &ChainConfig) -> Result<Settings> {
    Ok(Settings {
        start_block: chain.start_block,
        finality: chain.finality_blocks,
        window: config.solver.lane_window,
        max_fee_cap: wei("max_fee_gwei", &chain.max_fee_gwei)?,
        risk: Limits {
            open: dollars("risk.open_usd", &chain.risk.open_usd)?,
            per_minute: dollars("risk.per_minute_usd", &chain.risk.per_minute_usd)?,
        },
        one_node_below: dollars("risk.one_node_usd", &chain.risk.one_node_usd)?,
        most_refund: dollars("risk.refund_usd", &chain.risk.refund_usd)?,
        depository_caps: payouts::caps(config, chain)?
            .into_iter()
            .map(|(currency, cap)| (currency, cap.hour))
            .collect(),
        gas_levels: chain.gas_refill.as_ref().map(|levels| levels.amounts(chain.native.decimals)).transpose()?,
        lost_after_millis: i64::from(chain.risk.lost_after_secs).saturating_mul(1_000),
        bump_after: match chain.bump_after_millis {
            Some(millis) => Duration::from_millis(millis),
            None => solver::payments::send::default_bump_after(Duration::from_millis(chain.block_time_millis)),
        },
    })
}

fn watchlist(config: &Config, chain: &ChainConfig, handle: &ChainHandle) -> Result<Watchlist> {
    let feed = |currency, feed: &FeedConfig| Feed { currency, address: feed.address, max_age_secs: feed.max_age_secs };
    let native = feed(Address::ZERO, &chain.native.feed);
    let tokens = chain.tokens.iter().filter_map(|token| Some(feed(token.address, token.feed.as_ref()?)));
    Ok(Watchlist {
        multicall3: chain.contracts.multicall3,
        feeds: std::iter::once(native).chain(tokens).collect(),
        treasury: config.solver.treasury,
        wallets: handle.addresses(),
        relayers: handle.lanes.relayers(),
        tokens: chain.tokens.iter().filter(|token| token.held).map(|token| token.address).collect(),
        spend_limiter: chain.contracts.spend_limiter,
        gas_oracle: chain.contracts.gas_oracle,
        tip: wei("tip_gwei", &chain.tip_gwei)?,
        max_age: Duration::from_secs(config.limits.market_max_age_secs),
        dex: chain.dex.as_ref().map(|dex| market::Dex {
            factory: dex.factory,
            quoter: dex.quoter,
            wrapped: dex.wrapped,
            tokens: chain.tokens.iter().map(|token| (token.address, token.decimals)).collect(),
            fee_tiers: dex.fee_tiers.clone(),
            most_ticks: market::MAX_TICKS,
        }),
    })
}

fn terms(config: &Config, solver: Address) -> Result<Terms> {
    let fees = &config.fees;
    Ok(Terms {
        solver,
        solver_chain: config.solver.chain.clone(),
        flat_fee: dollars("fees.flat_usd", &fees.flat_usd)?,
        relay_bps: ByClass { stable: fees.stable_bps, major: fees.major_bps, minor: fees.minor_bps },
        spread_bps: ByClass {
            stable: fees.stable_spread_bps,
            major: fees.major_spread_bps,
            minor: fees.minor_spread_bps,
        },
        rebalance_bps: fees.rebalance_bps,
        most_impact_bps: fees.most_impact_bps,
        slippage_bps: fees.slippage_bps,
        stable_slippage_bps: fees.stable_slippage_bps,
        order_lifetime: Duration::from_secs(fees.order_lifetime_secs),
        deposit_addresses: DepositAddressTerms {
            lifetime: Duration::from_secs(config.deposit_addresses.lifetime_secs),
            grace: Duration::from_secs(config.deposit_addresses.grace_secs),
            watch: Duration::from_secs(config.deposit_addresses.watch_secs),
        },
        fast_fill: FastFillTerms {
            margin_bps: config.fast_fill.margin_bps,
            window: Duration::from_secs(config.fast_fill.window_secs),
        },
    })
}

fn dollars(key: &str, text: &str) -> Result<UsdMicros> {
    text.parse().with_context(|| format!("{key}: dollars in decimal text"))
}

fn class(class: ClassConfig) -> Class {
    match class {
        ClassConfig::Stable => Class::Stable,
        ClassConfig::Major => Class::Major,
        ClassConfig::Minor => Class::Minor,
    }
}

/// Converts a target in whole units.
fn target(whole: Option<u64>, decimals: u8) -> Option<Amount> {
    whole.map(|whole| Amount::new(U256::from(whole).saturating_mul(pow10(decimals))))
}

fn tier(config: &TierConfig) -> Result<Tier> {
    Ok(Tier { from: dollars("tiers.from_usd", &config.from_usd)?, confirmations: config.confirmations })
}

fn chain(config: &ChainConfig) -> Result<Chain> {
    let id = ChainId(config.id);
    let native = Currency {
        chain: id,
        address: Address::ZERO.into(),
        id: config.native.id.clone(),
        symbol: config.native.symbol.clone(),
        name: config.native.name.clone(),
        decimals: config.native.decimals,
        class: class(config.native.class),
        native: true,
        logo_uri: config.native.logo_uri.clone(),
        resets_allowance: false,
        authorizations: None,
        held: true,
        target: target(config.native.target, config.native.decimals),
    };
    let token = |token: &crate::config::TokenConfig| Currency {
        chain: id,
        address: token.address.into(),
        id: token.id.clone(),
        symbol: token.symbol.clone(),
        name: token.name.clone(),
        decimals: token.decimals,
        class: class(token.class),
        native: false,
        logo_uri: token.logo_uri.clone(),
        resets_allowance: token.resets_allowance,
        authorizations: token
            .authorizations
            .as_ref()
            .map(|domain| TokenDomain { name: domain.name.clone(), version: domain.version.clone() }),
        held: token.held,
        target: target(token.target, token.decimals),
    };
    Ok(Chain {
        id,
        name: config.name.clone(),
        vm: Vm::Evm,
        presentation: Presentation {
            display_name: config.display_name.clone(),
            http_rpc_url: plain(&config.public.http_rpc_url),
            ws_rpc_url: config.public.ws_rpc_url.as_ref().map(plain).unwrap_or_default(),
            explorer_url: config.public.explorer_url.clone(),
            explorer_name: config.public.explorer_name.clone(),
            icon_url: config.public.icon_url.as_ref().map(plain),
        },
        native,
        tokens: config.tokens.iter().map(token).collect(),
        depository: config.contracts.depository,
        router: config.contracts.router,
        approval_proxy: config.contracts.approval_proxy,
        multicall3: config.contracts.multicall3,
        spend_limiter: config.contracts.spend_limiter,
        deposit_address_factory: config.contracts.deposit_address_factory,
        dex: config.dex.as_ref().map(|dex| Dex { swap_router: dex.swap_router, wrapped: dex.wrapped }),
        block_time_millis: config.block_time_millis,
        confirmations: config.confirmations,
        tiers: config.tiers.iter().map(tier).collect::<Result<_>>()?,
        fill_gas: FillGas {
            native_limit: config.gas.native_limit,
            erc20_limit: config.gas.erc20_limit,
            native_typical: config.gas.native_typical,
            erc20_typical: config.gas.erc20_typical,
            contract_typical: config.gas.contract_typical,
            routed_typical: config.gas.routed_typical,
        },
        private_id: config.private_id.clone(),
    })
}

/// The URL without the slash that parsing puts behind a bare host: clients append paths by plain concatenation.
pub fn plain(url: &url::Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}
