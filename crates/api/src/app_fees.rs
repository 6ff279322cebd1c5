//! `GET /app-fees/{wallet}/balances`: what an integrator has with us.

use alloy_primitives::Address;
use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use domain::account::{Account as Text, Vm};
use domain::catalog::Currency;
use domain::ledger::{self, Account, HoldKind, UsdcMicros};
use domain::money::{Amount, Price, Signed, UsdMicros};
use serde::Serialize;
use store::ledger as book;
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiError, ErrorBody};
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
}

impl<'a> BalancesResponse<'a> {
    fn new(currency: Shown<'a>, account: &Account, price: Price) -> Option<Self> {
        let dollars = |micros: UsdcMicros| price.usd_signed(signed(micros), 6).ok();
        let number = |usd: UsdMicros| usd.to_string().parse().ok();
        let balance = AmountBody::signed(currency, in_units(account.balance, &currency)?, dollars(account.balance)?);
        Some(Self {
            balances: vec![balance],
            balance: Members(balance),
            total_balance_usd: number(dollars(account.balance)?)?,
            outstanding_fast_fill_balance_usd: number(dollars(account.held)?)?,
            available_balance_usd: number(dollars(account.available(HoldKind::Claim))?)?,
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
    let parsed = Text::parse(Vm::Evm, text).ok().and_then(|account| account.evm());
    let problem = || "must be 0x followed by 40 hexadecimal digits".to_owned();
    parsed.ok_or_else(|| ApiError::Address { field: "wallet", problem: problem() })
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
pub(crate) async fn balances(app: State<App>, Path(wallet_text): Path<String>) -> Result<Response, ApiError> {
    let wallet = wallet(&wallet_text)?;
    let currency = ledger::currency_of(&app.catalog).ok_or(ApiError::NotOffered { field: "wallet" })?;
    let account = app.store.read(move |tx| book::account(tx, wallet)).await?;
    let price = app.quoter.usdc_price();
    let body = app.rendered.of(currency).and_then(|currency| BalancesResponse::new(currency, &account, price));
    let body = body.ok_or(ApiError::Internal)?;
    Ok(Json(body).into_response())
}
