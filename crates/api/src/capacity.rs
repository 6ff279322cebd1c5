//! `GET /config/v2`: how much of a currency can be moved between two chains, and what that costs at least.

use alloy_primitives::{Address, address};
use axum::Json;
use axum::extract::State;
use domain::account::Account;
use domain::catalog::{Catalog, Chain, Currency};
use domain::money::{Amount, OutOfRange};
use domain::quote::{Ask, CurrencyKey, QuoteOptions, Trade};
use serde::{Deserialize, Serialize};
use solver::QuoteError;
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::chains::named;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiQuery;
use crate::liquidity::balance;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct CapacityQuery {
    origin_chain_id: u64,
    destination_chain_id: u64,
    /// Who would pay.
    user: Option<String>,
    /// The id of a currency, such as `usdc`; that of the origin's native currency unless said.
    currency: Option<String>,
}

/// Amounts are in smallest units: the fee in those of the origin's currency, the others in those of the destination's.
/// A figure that is not known is null, never zero.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CapacityResponse {
    /// A quote would be given.
    enabled: bool,
    user: UserCapacity,
    /// The cost of every transfer, whatever its size. Null where none would be quoted.
    #[schema(required = true)]
    fee: Option<String>,
    solver: SolverCapacity,
    supports_external_liquidity: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserCapacity {
    /// Always null: wallets are not read here.
    #[schema(required = true)]
    balance: Option<String>,
    #[schema(required = true)]
    max_bridge_amount: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SolverCapacity {
    /// The address orders name.
    address: String,
    /// Its balance on the destination.
    #[schema(required = true)]
    balance: Option<String>,
    /// The most that one transfer can pay out.
    #[schema(required = true)]
    capacity_per_request: Option<String>,
}

/// A recipient nobody objects to.
const NOBODY: Address = address!("000000000000000000000000000000000000dead");

/// The question, checked for form.
struct Pair<'a> {
    user: Account,
    origin: &'a Currency,
    destination: &'a Chain,
    /// None where the destination does not have the currency.
    received: Option<&'a Currency>,
}

fn with_id<'a>(chain: &'a Chain, id: &str) -> Option<&'a Currency> {
    chain.currencies().find(|currency| currency.id == id)
}

impl CapacityQuery {
    fn into_pair(self, catalog: &Catalog) -> Result<Pair<'_>, ApiError> {
        let origin = named(catalog, "originChainId", self.origin_chain_id)?;
        let destination = named(catalog, "destinationChainId", self.destination_chain_id)?;
        let user = self.user.map_or_else(|| Ok(NOBODY.into()), |user| Account::read(origin.vm, &user));
        let id = self.currency.as_deref().unwrap_or(&origin.native.id);
        let paid = with_id(origin, id).ok_or_else(|| ApiError::Parameter {
            field: "currency",
            problem: format!("not the id of a currency of chain {}", origin.id),
        })?;
        Ok(Pair {
            user: user.map_err(|error| ApiError::Address { field: "user", problem: error.to_string() })?,
            origin: paid,
            destination,
            received: with_id(destination, id),
        })
    }
}

impl Pair<'_> {
    /// A transfer of nothing is always refused, and the refusal says what the smallest one would cost: so no rule of
    /// pricing is repeated here. None where there is no route.
    fn fee(&self, app: &App) -> Option<Amount> {
        let received = self.received?;
        let key = |currency: &Currency| CurrencyKey { chain: currency.chain, address: currency.address.clone() };
        let nothing = Ask {
            user: self.user.clone(),
            recipient: NOBODY.into(),
            refund_to: None,
            origin: key(self.origin),
            destination: key(received),
            trade: Trade::ExactInput,
            amount: Amount::ZERO,
            slippage_bps: None,
            referrer: None,
            explicit_deposit: true,
            ttl_secs: None,
            key: None,
            options: QuoteOptions::default(),
        };
        match app.quoter.price(nothing) {
            Err(QuoteError::TooLow { fees }) => Some(fees.amount),
            Ok(_) | Err(_) => None,
        }
    }

    /// The solver's balance on the destination, and how much of it one transfer can have. None while that is not known.
    fn inventory(&self, app: &App) -> Result<Option<(Amount, Amount)>, OutOfRange> {
        let Some(currency) = self.received else { return Ok(Some((Amount::ZERO, Amount::ZERO))) };
        let Ok(market) = app.market.current(self.destination.id) else { return Ok(None) };
        let paid = currency.address.evm().unwrap_or(Address::ZERO);
        let handle = app.chains.get(&self.destination.id);
        let payable = handle.map_or(Amount::ZERO, |handle| handle.payable(paid, &market, false));
        Ok(Some((balance(currency, &market)?, payable)))
    }
}

/// Says how much can be moved between two chains.
#[utoipa::path(
    get,
    path = "/config/v2",
    params(CapacityQuery),
    responses(
        (status = 200, description = "How much", body = CapacityResponse),
        (status = 400, description = "No such chain or currency", body = ErrorBody),
    )
)]
pub(crate) async fn config(app: State<App>, ApiQuery(query): ApiQuery<CapacityQuery>) -> ApiResult<CapacityResponse> {
    let pair = query.into_pair(&app.catalog)?;
    let fee = pair.fee(&app);
    let inventory = pair.inventory(&app).map_err(|OutOfRange| ApiError::Internal)?;
    let (held, payable) = inventory.map(|(held, payable)| (held.to_string(), payable.to_string())).unzip();
    Ok(Json(CapacityResponse {
        enabled: fee.is_some(),
        user: UserCapacity { balance: None, max_bridge_amount: payable.clone() },
        fee: fee.map(|fee| fee.to_string()),
        solver: SolverCapacity {
            address: Account::from(app.solver_address).to_string(),
            balance: held,
            capacity_per_request: payable,
        },
        supports_external_liquidity: false,
    }))
}
