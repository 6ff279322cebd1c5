//! `GET /app-fees/{wallet}/balances`: what an integrator has with us.

use alloy_primitives::{Address, hex};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::account::{Account as Text, NotAnAccount, Vm};
use domain::catalog::Currency;
use domain::ledger::{self, Account, HoldKind, UsdcMicros};
use domain::money::{Amount, Price, Signed, UsdMicros};
use serde::Serialize;
use store::ledger as book;
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiError, ErrorBody};
use crate::json::ApiPath;
use crate::wire::{AmountBody, Members, Shown};

/// The balance as one amount, and beside it the same as a list with what is left for new fast fills and claims.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppBalances)]
pub(crate) struct BalancesResponse<'a> {
    #[serde(flatten)]
    #[schema(value_type = AmountBody<'a>)]
    balance: Members<'a>,
    /// One per currency. There is one currency.
    balances: Vec<AmountBody<'a>>,
    total_balance_usd: f64,
    /// In fast fills whose deposits are not in yet.
    outstanding_fast_fill_balance_usd: f64,
    /// For new fast fills and claims: the balance, less fast fills, claims and sponsored transfers under way.
    available_balance_usd: f64,
    /// How to fund it. Absent where this process does not know the treasury.
    #[serde(skip_serializing_if = "Option::is_none")]
    funding: Option<Funding>,
}

/// A transfer that funds the balance: of the currency, or of the chain's native one, to this address on this chain, with
/// these bytes behind the call's own data. It is credited when it is final.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppBalanceFunding)]
pub(crate) struct Funding {
    chain_id: u64,
    chain_name: String,
    /// The treasury: where to send it.
    address: String,
    currency: String,
    symbol: String,
    /// A tag around the wallet to credit, which is the one in the path.
    calldata_suffix: String,
}

impl Funding {
    fn new(app: &App, currency: &Currency, wallet: Address) -> Option<Self> {
        let (chain, handle) = (app.catalog.chain(currency.chain)?, app.chains.get(&currency.chain)?);
        Some(Self {
            chain_id: chain.id.0,
            chain_name: chain.name.clone(),
            address: format!("{:#x}", handle.treasury),
            currency: currency.address.to_string(),
            symbol: currency.symbol.clone(),
            calldata_suffix: format!("0x{TAG}{}{TAG}", hex::encode(wallet)),
        })
    }
}

/// The tag before and behind the account in a transfer's trailing data.
const TAG: &str = "012345abcdef";

impl<'a> BalancesResponse<'a> {
    fn new(currency: Shown<'a>, account: &Account, price: Price, funding: Option<Funding>) -> Option<Self> {
        let dollars = |micros: UsdcMicros| price.usd_signed(signed(micros), 6).ok();
        let number = |usd: UsdMicros| usd.to_string().parse().ok();
        let balance = AmountBody::signed(currency, in_units(account.balance, &currency)?, dollars(account.balance)?);
        Some(Self {
            balances: vec![balance],
            balance: Members(balance),
            total_balance_usd: number(dollars(account.balance)?)?,
            outstanding_fast_fill_balance_usd: number(dollars(account.held)?)?,
            available_balance_usd: number(dollars(account.available(HoldKind::Claim))?)?,
            funding,
        })
    }
}

fn signed(micros: UsdcMicros) -> Signed {
    let size = Amount::new(alloy_primitives::U256::from(micros.0.unsigned_abs()));
    if micros.0 < 0 { Signed::reward(size) } else { Signed::cost(size) }
}

/// The ledger counts in millionths, whatever the token's own unit is.
fn in_units(micros: UsdcMicros, currency: &Currency) -> Option<Signed> {
    let (from, to) = (domain::money::pow10(6), domain::money::pow10(currency.decimals));
    let size = signed(micros).size().mul_floor(domain::money::Ratio::new(to, from).ok()?).ok()?;
    Some(if micros.0 < 0 { Signed::reward(size) } else { Signed::cost(size) })
}

/// The wallet in a path.
pub(crate) fn wallet(text: &str) -> Result<Address, ApiError> {
    let parsed = Text::read(Vm::Evm, text).and_then(|account| account.evm().ok_or(NotAnAccount::Evm));
    parsed.map_err(|error| ApiError::Address { field: "wallet", problem: error.to_string() })
}

/// Says what a wallet's app balance is. One that nothing ever happened to has nothing.
#[utoipa::path(
    get,
    path = "/app-fees/{wallet}/balances",
    params(("wallet" = String, Path, description = "The wallet")),
    responses(
        (status = 200, description = "The balance", body = BalancesResponse),
        (status = 400, description = "Not a wallet, or no balances are kept here", body = ErrorBody),
    )
)]
pub(crate) async fn balances(app: State<App>, ApiPath(wallet_text): ApiPath) -> Result<Response, ApiError> {
    let wallet = wallet(&wallet_text)?;
    let currency = ledger::currency_of(&app.catalog).ok_or(ApiError::NotOffered { field: "wallet" })?;
    let account = app.store.read(move |tx| book::account(tx, wallet)).await?;
    let price = app.quoter.usdc_price();
    let funding = Funding::new(&app, currency, wallet);
    let shown = app.rendered.of(currency);
    let body = shown.and_then(|currency| BalancesResponse::new(currency, &account, price, funding));
    let body = body.ok_or(ApiError::Internal)?;
    Ok(Json(body).into_response())
}
