//! The configuration of a service on the local network: complete, and in a file, as an operator would write it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use alloy::primitives::{Address, B256, hex, keccak256};
use anyhow::{Context, Result};
use devnet::{Account, Chain, Devnet, Token, VenueAccount, VenueSimulator};
use url::Url;

use crate::config::{
    AllocatorConfig, CapConfig, ChainConfig, ClassConfig, Config, ContractsConfig, DashboardConfig,
    DepositAddressesConfig, DexConfig, EndpointConfig, Environment, FastFillConfig, FeedConfig, FeesConfig, GasConfig,
    InstancesConfig, KeysConfig, LimitsConfig, NativeConfig, OperatorConfig, PublicConfig, RequestsV2Config,
    RiskConfig, ScreeningConfig, SolverConfig, Source, Text, TokenConfig, TokenDomainConfig, VenueConfig,
    WebhooksConfig,
};
use crate::service::Service;

/// Feeds follow the chain's own clock here, so a feed this old is frozen.
const FEED_AGE_SECS: u64 = 3_600;

/// Not a secret: every log of `dev` shows it.
pub const OPERATOR_TOKEN: &str = "local-operator-token";

/// Input for a service's configuration. Several services may run on one network if each has its own wallets.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    pub devnet: &'a Devnet,
    /// Folder for the keys and the configuration.
    pub folder: &'a Path,
    pub port: u16,
    pub rate_limits: bool,
    pub database: &'a str,
    pub orders: &'a Account,
    pub treasury: Address,
    pub fillers: &'a [Account],
}

/// Writes keys and configuration, and returns the file and the configuration read back from it: the service gets
/// exactly what `serve --config` would read. `change` may alter it before it is written.
pub fn prepare(local: Local<'_>, change: impl FnOnce(&mut Config)) -> Result<(PathBuf, Config)> {
    let mut config = config(local)?;
    change(&mut config);
    let path = write(&config, local.folder)?;
    let config = Config::load(&path)?;
    Ok((path, config))
}

/// Whether every chain has been read and takes payments.
pub fn serves_every_chain(service: &Service) -> bool {
    let solver = &service.solver;
    solver.chains.values().all(|handle| {
        handle.health.refusing().is_none()
            && *handle.health.taken.borrow() > 0
            && solver.market.current(handle.id()).is_ok_and(|market| market.check_pools().is_ok())
    })
}

/// Writes the key files and returns the configuration.
fn config(local: Local<'_>) -> Result<Config> {
    let folder = local.folder;
    let order_key = key_file(folder, "order", local.orders.private_key)?;
    // The attestation key is a separate key, and the same at every start.
    let attestation_key = keccak256([b"attestation".as_slice(), local.orders.private_key.as_slice()].concat());
    let master_key = keccak256([b"master".as_slice(), local.orders.private_key.as_slice()].concat());
    let fillers = local.fillers.iter().enumerate();
    let filler_keys = fillers.map(|(n, filler)| key_file(folder, &format!("filler-{n}"), filler.private_key));
    let relayer = local.orders.relayer();
    let base_url = Url::parse(&format!("http://127.0.0.1:{}", local.port))?;
    Ok(Config {
        environment: Environment::Testnet,
        listen: ([127, 0, 0, 1], local.port).into(),
        listen_operator: None,
        testnet_base_url: Some(base_url.clone()),
        base_url,
        database: Text::Plain(local.database.to_owned()),
        trusted_proxies: Vec::new(),
        solver: SolverConfig {
            chain: "base".to_owned(),
            order_key: Some(order_key),
            order_address: Some(local.orders.address),
            attestation_key: Some(key_file(folder, "attestation", attestation_key)?),
            treasury: local.treasury,
            treasury_key: None,
            treasury_sources: Vec::new(),
            filler_keys: filler_keys.collect::<Result<_>>()?,
            filler_addresses: local.fillers.iter().map(|filler| filler.address).collect(),
            relayer_keys: vec![key_file(folder, "relayer", relayer.private_key)?],
            relayer_addresses: vec![relayer.address],
            lane_window: 48,
        },
        fees: FeesConfig::default(),
        deposit_addresses: DepositAddressesConfig::default(),
        fast_fill: FastFillConfig::default(),
        limits: LimitsConfig { rate_limits: local.rate_limits, ..LimitsConfig::default() },
        requests_v2: RequestsV2Config::default(),
        screening: ScreeningConfig::default(),
        operator: OperatorConfig { token: Some(token_file(folder)?) },
        keys: KeysConfig { master_key: Some(key_file(folder, "master", master_key)?) },
        // Receivers of a developer run beside the service.
        webhooks: WebhooksConfig { allow_local: true, ..WebhooksConfig::default() },
        dashboard: dashboard(local.devnet, folder)?,
        instances: InstancesConfig::default(),
        allocator: Some(allocator(local.devnet, folder)?),
        venue: None,
        chains: local.devnet.chains.iter().map(chain).collect(),
        folder: folder.to_owned(),
    })
}

/// Writes the configuration beside its keys, as `dev.toml`.
pub fn write(config: &Config, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("dev.toml");
    let text = toml::to_string_pretty(config).context("the configuration of the local network")?;
    private(&path)?.write_all(text.as_bytes())?;
    Ok(path)
}

fn key_file(folder: &Path, name: &str, key: B256) -> Result<Source> {
    let keys = folder.join("keys");
    std::fs::create_dir_all(&keys)?;
    let path = keys.join(name);
    private(&path)?.write_all(format!("0x{}\n", hex::encode(key)).as_bytes())?;
    Ok(Source { env: None, file: Some(path) })
}

/// The operator's token on the local network, where everyone is the operator.
fn token_file(folder: &Path) -> Result<Source> {
    let keys = folder.join("keys");
    std::fs::create_dir_all(&keys)?;
    let path = keys.join("operator-token");
    private(&path)?.write_all(format!("{OPERATOR_TOKEN}\n").as_bytes())?;
    Ok(Source { env: None, file: Some(path) })
}

/// The dashboard with a test wallet: the second account with funds, which is the operator as everybody is here.
fn dashboard(devnet: &Devnet, folder: &Path) -> Result<DashboardConfig> {
    let Some(account) = devnet.keys.users.get(1) else { return Ok(DashboardConfig::default()) };
    Ok(DashboardConfig {
        operators: vec![account.address],
        test_wallet_key: Some(key_file(folder, "test-wallet", account.private_key)?),
        ..DashboardConfig::default()
    })
}

/// The allocator's configuration, with caps that nobody reaches by hand.
fn allocator(devnet: &Devnet, folder: &Path) -> Result<AllocatorConfig> {
    let tokens = devnet.chains.iter().flat_map(|chain| chain.tokens.iter().map(|token| token.symbol.to_lowercase()));
    let currencies: BTreeSet<String> = tokens.chain(["eth".to_owned()]).collect();
    let cap = |currency| CapConfig { currency, hour: "1000000".to_owned(), day: "10000000".to_owned() };
    Ok(AllocatorConfig {
        address: None,
        key: Some(key_file(folder, "allocator", devnet.keys.allocator.private_key)?),
        quorum: 2,
        batch_usd: "100".to_owned(),
        batch_age_secs: 60,
        validity_secs: 900,
        caps: currencies.into_iter().map(cap).collect(),
    })
}

/// The configuration of the venue's simulator, for a service that pays from this account. Services that share the
/// simulator do not share accounts.
pub fn venue(simulator: &VenueSimulator, account: &VenueAccount, folder: &Path) -> Result<VenueConfig> {
    let keys = folder.join("keys");
    std::fs::create_dir_all(&keys)?;
    let api_key = keys.join(format!("venue-api-{}", account.index));
    private(&api_key)?.write_all(format!("{}\n", account.api_private_key).as_bytes())?;
    Ok(VenueConfig {
        name: "venue".to_owned(),
        display_name: "Venue".to_owned(),
        local: true,
        url: simulator.url.clone(),
        network_id: simulator.network_id,
        account: account.index,
        api_key_index: account.api_key_index,
        api_key: Some(Source { env: None, file: Some(api_key) }),
        wallet_key: Some(key_file(folder, &format!("venue-wallet-{}", account.index), account.l1_private_key)?),
        sources: Vec::new(),
        poll_millis: 200,
        overlap_secs: 600,
        rescan_secs: 600,
        rescan_reach_secs: 21_600,
        unlisted_secs: 660,
        calls_per_minute: 1_000_000,
        weight_per_minute: 100_000_000,
        user_fee: "3".to_owned(),
        max_fee: "0".to_owned(),
        finality_secs: 2,
        lane_window: 8,
        target: None,
        explorer_url: String::new(),
        explorer_name: String::new(),
        logo_uri: String::new(),
        risk: RiskConfig::default(),
    })
}

/// Creates a file only its owner can read.
pub fn private(path: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

fn chain(chain: &Chain) -> ChainConfig {
    let (id, symbol, name) = ("eth".to_owned(), "ETH".to_owned(), "Ether".to_owned());
    ChainConfig {
        id: chain.id,
        name: chain.name.clone(),
        display_name: display_name(&chain.name),
        local: true,
        private_id: None,
        block_time_millis: u64::try_from(chain.block_time.as_millis()).unwrap_or(u64::MAX),
        confirmations: 1,
        finality_blocks: 12,
        start_block: Some(chain.start_block),
        bump_after_millis: None,
        tip_gwei: "0.01".to_owned(),
        max_fee_gwei: "500".to_owned(),
        tiers: Vec::new(),
        risk: RiskConfig::default(),
        gas: GasConfig::default(),
        gas_refill: None,
        public: PublicConfig {
            http_rpc_url: chain.rpc_url.clone(),
            ws_rpc_url: Some(chain.ws_url.clone()),
            explorer_url: String::new(),
            explorer_name: String::new(),
            icon_url: None,
        },
        contracts: ContractsConfig {
            depository: chain.contracts.depository,
            router: chain.contracts.router,
            approval_proxy: chain.contracts.approval_proxy,
            multicall3: chain.contracts.multicall3,
            spend_limiter: Some(chain.contracts.spend_limiter),
            deposit_address_factory: Some(chain.contracts.deposit_address_factory),
            gas_oracle: chain.contracts.gas_oracle,
        },
        dex: Some(DexConfig {
            factory: chain.contracts.uniswap_factory,
            swap_router: chain.contracts.swap_router,
            quoter: chain.contracts.quoter,
            wrapped: chain.contracts.weth,
            fee_tiers: vec![100, 500, 3_000, 10_000],
        }),
        native: NativeConfig {
            id,
            symbol,
            name,
            decimals: 18,
            class: ClassConfig::Major,
            logo_uri: String::new(),
            target: None,
            feed: feed(chain.native_feed),
        },
        allocator_endpoints: Vec::new(),
        endpoints: vec![endpoint(&chain.rpc_url, &chain.ws_url), endpoint(&chain.second_rpc_url, &chain.second_ws_url)],
        tokens: chain.tokens.iter().map(token).collect(),
    }
}

fn display_name(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn endpoint(http: &Url, ws: &Url) -> EndpointConfig {
    EndpointConfig { http: Text::Plain(http.to_string()), ws: Some(Text::Plain(ws.to_string())) }
}

fn feed(address: Address) -> FeedConfig {
    FeedConfig { address, max_age_secs: FEED_AGE_SECS }
}

/// The solver holds tokens with a price feed; the others are traded on the DEX.
fn token(token: &Token) -> TokenConfig {
    let class = match token.symbol.as_str() {
        "USDC" | "USDT" | "DAI" => ClassConfig::Stable,
        "WETH" => ClassConfig::Major,
        _ => ClassConfig::Minor,
    };
    TokenConfig {
        address: token.address,
        id: token.symbol.to_lowercase(),
        symbol: token.symbol.clone(),
        name: token.name.clone(),
        decimals: token.decimals,
        class,
        logo_uri: String::new(),
        resets_allowance: token.symbol == "USDT",
        authorizations: (token.symbol == "USDC")
            .then(|| TokenDomainConfig { name: token.name.clone(), version: "2".to_owned() }),
        held: token.feed.is_some(),
        target: None,
        feed: token.feed.map(feed),
    }
}
