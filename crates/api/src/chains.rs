//! `GET /chains`.

use alloy_primitives::{Address, hex};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use domain::account::Vm;
use domain::catalog::{Catalog, Chain, Currency};
use domain::ids::ChainId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::error::{ApiError, ErrorBody};
use crate::json::ApiQuery;
use crate::wire::vm_type;

/// The catalogue changes with the configuration; how its chains are is told for a minute.
pub(crate) const CACHING: HeaderValue = HeaderValue::from_static("public, max-age=60");

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChainsResponse {
    chains: Vec<ChainBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainBody {
    id: u64,
    name: String,
    display_name: String,
    http_rpc_url: String,
    ws_rpc_url: String,
    explorer_url: String,
    explorer_name: String,
    #[schema(required = true)]
    explorer_paths: Option<ExplorerPaths>,
    #[schema(required = true, value_type = Option<Object>)]
    explorer_query_params: Option<()>,
    deposit_enabled: bool,
    token_support: &'static str,
    disabled: bool,
    partial_disable_limit: u64,
    block_production_lagging: bool,
    currency: NativeCurrency,
    withdrawal_fee: u16,
    deposit_fee: u16,
    surge_enabled: bool,
    featured_tokens: Vec<FeaturedToken>,
    erc20_currencies: Vec<Erc20Currency>,
    solver_currencies: Vec<SolverCurrency>,
    #[schema(required = true)]
    icon_url: Option<String>,
    #[schema(required = true)]
    logo_url: Option<String>,
    #[schema(required = true)]
    brand_color: Option<String>,
    contracts: Contracts,
    vm_type: &'static str,
    #[schema(required = true)]
    base_chain_id: Option<u64>,
    #[schema(required = true)]
    status_message: Option<String>,
    solver_addresses: Vec<String>,
    /// Those addresses again, each with what it is for.
    solver_address_roles: Vec<SolverAddress>,
    tags: Vec<String>,
    protocol: ChainProtocol,
}

/// An address of ours, and what it is for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SolverAddress {
    address: String,
    /// `order` signs orders; `attestation` signs `/requests/{requestId}/signature`; `allocator` signs what leaves the
    /// depository; `treasury` holds the tokens, and funds sent to it credit app balances where those live; `filler` sends
    /// fills and refunds.
    role: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExplorerPaths {
    transaction: &'static str,
    address: &'static str,
    token: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NativeCurrency {
    #[serde(flatten)]
    listed: SolverCurrency,
    supports_bridging: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeaturedToken {
    #[serde(flatten)]
    listed: SolverCurrency,
    supports_bridging: bool,
    metadata: TokenMetadata,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenMetadata {
    #[serde(rename = "logoURI")]
    logo_uri: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Erc20Currency {
    #[serde(flatten)]
    listed: SolverCurrency,
    supports_bridging: bool,
    supports_permit: bool,
    withdrawal_fee: u16,
    deposit_fee: u16,
    surge_enabled: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SolverCurrency {
    id: String,
    symbol: String,
    name: String,
    address: String,
    decimals: u8,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contracts {
    multicall3: String,
    multicaller: String,
    only_owner_multicaller: String,
    relay_receiver: String,
    erc20_router: String,
    approval_proxy: String,
    v3: ContractsV3,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContractsV3 {
    erc20_router: String,
    approval_proxy: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChainProtocol {
    v2: ChainProtocolV2,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainProtocolV2 {
    #[schema(required = true)]
    chain_id: Option<String>,
    #[schema(required = true)]
    depository: Option<String>,
    #[schema(required = true)]
    depository_vault: Option<String>,
}

fn text(address: Address) -> String {
    format!("0x{}", hex::encode(address))
}

impl ChainBody {
    fn new(chain: &Chain, app: &App) -> Self {
        let handle = app.chains.get(&chain.id);
        let lags = handle.is_some_and(|handle| app.quoter.lags(handle));
        let refusing = lags || handle.is_some_and(|handle| handle.refusing().is_some());
        let named = |role, address| SolverAddress { address: chain.account_text(address), role };
        // These sign, whatever the chain is.
        let evm = |role, address| SolverAddress { address: text(address), role };
        let contract = |address: Address| match chain.vm {
            Vm::Evm => text(address),
            // The venue has none.
            Vm::Venue | Vm::Svm => String::new(),
        };
        let mut solver_address_roles = vec![evm("order", app.solver_address)];
        solver_address_roles.extend(app.attestation_key.as_ref().map(|key| evm("attestation", key.address())));
        solver_address_roles.extend(app.allocator.map(|address| evm("allocator", address)));
        if let Some(handle) = handle {
            solver_address_roles.push(named("treasury", handle.treasury));
            solver_address_roles.extend(handle.addresses().into_iter().map(|address| named("filler", address)));
        }
        let solver_addresses = solver_address_roles.iter().map(|it| it.address.clone()).collect();
        let shown = &chain.presentation;
        Self {
            id: chain.id.0,
            name: chain.name.clone(),
            display_name: shown.display_name.clone(),
            http_rpc_url: shown.http_rpc_url.clone(),
            ws_rpc_url: shown.ws_rpc_url.clone(),
            explorer_url: shown.explorer_url.clone(),
            explorer_name: shown.explorer_name.clone(),
            explorer_paths: Some(ExplorerPaths {
                transaction: "/tx/{TX_HASH}",
                address: "/address/{ADDRESS}",
                token: "/token/{TOKEN}",
            }),
            explorer_query_params: None,
            deposit_enabled: !refusing,
            token_support: "Limited",
            disabled: refusing,
            partial_disable_limit: 0,
            block_production_lagging: lags || app.market.current(chain.id).is_err(),
            currency: NativeCurrency { listed: (&chain.native).into(), supports_bridging: true },
            withdrawal_fee: 0,
            deposit_fee: 0,
            surge_enabled: false,
            featured_tokens: chain.tokens.iter().map(FeaturedToken::from).collect(),
            erc20_currencies: chain.tokens.iter().map(Erc20Currency::from).collect(),
            solver_currencies: chain.held().map(SolverCurrency::from).collect(),
            icon_url: shown.icon_url.clone(),
            logo_url: shown.icon_url.clone(),
            brand_color: None,
            contracts: Contracts {
                multicall3: contract(chain.multicall3),
                multicaller: String::new(),
                only_owner_multicaller: String::new(),
                relay_receiver: String::new(),
                erc20_router: contract(chain.router),
                approval_proxy: contract(chain.approval_proxy),
                v3: ContractsV3 {
                    erc20_router: contract(chain.router),
                    approval_proxy: contract(chain.approval_proxy),
                },
            },
            vm_type: vm_type(chain.vm),
            base_chain_id: None,
            status_message: None,
            solver_addresses,
            solver_address_roles,
            tags: Vec::new(),
            protocol: ChainProtocol {
                v2: ChainProtocolV2 {
                    chain_id: Some(chain.name.clone()),
                    depository: Some(chain.account_text(chain.depository)),
                    depository_vault: None,
                },
            },
        }
    }
}

impl From<&Currency> for FeaturedToken {
    fn from(currency: &Currency) -> Self {
        Self {
            listed: currency.into(),
            supports_bridging: true,
            metadata: TokenMetadata { logo_uri: currency.logo_uri.clone() },
        }
    }
}

impl From<&Currency> for Erc20Currency {
    fn from(currency: &Currency) -> Self {
        Self {
            listed: currency.into(),
            supports_bridging: true,
            supports_permit: currency.authorizations.is_some(),
            withdrawal_fee: 0,
            deposit_fee: 0,
            surge_enabled: false,
        }
    }
}

impl From<&Currency> for SolverCurrency {
    fn from(currency: &Currency) -> Self {
        Self {
            id: currency.id.clone(),
            symbol: currency.symbol.clone(),
            name: currency.name.clone(),
            address: currency.address.to_string(),
            decimals: currency.decimals,
        }
    }
}

/// True if everybody is told of this chain. A private one is for those who know its id.
pub(crate) fn is_listed(chain: &Chain) -> bool {
    chain.private_id.is_none()
}

/// The chain a caller names by its number, which works for private ones too: whoever moves money there has to.
pub(crate) fn named<'a>(catalog: &'a Catalog, field: &'static str, id: u64) -> Result<&'a Chain, ApiError> {
    let chain = ChainId(id);
    catalog.chain(chain).ok_or(ApiError::UnsupportedChain { field, chain })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ChainsQuery {
    /// Ids of private chains to list as well, separated by commas. Others are ignored.
    include_chains: Option<String>,
}

impl ChainsQuery {
    fn includes(&self, chain: &Chain) -> bool {
        let asked = self.include_chains.as_deref().unwrap_or_default();
        let is = |id: &str| asked.split(',').any(|asked| asked.trim().eq_ignore_ascii_case(id));
        chain.private_id.as_deref().is_none_or(is)
    }
}

/// Lists the chains and what can be moved on them.
#[utoipa::path(
    get,
    path = "/chains",
    params(ChainsQuery),
    responses(
        (status = 200, description = "The chains", body = ChainsResponse),
        (status = 400, description = "Not a query", body = ErrorBody),
    )
)]
pub(crate) async fn chains(app: State<App>, ApiQuery(query): ApiQuery<ChainsQuery>) -> impl IntoResponse {
    let shown = app.catalog.chains().iter().filter(|chain| query.includes(chain));
    let chains = shown.map(|chain| ChainBody::new(chain, &app)).collect();
    ([(CACHE_CONTROL, CACHING)], Json(ChainsResponse { chains }))
}
