//! `POST /quote/v2`, its older name, and `POST /price`.

use axum::extract::State;
use domain::quote::Ask;
use solver::Quoted;
use store::Saving;

mod body;
mod response;
pub(crate) mod sponsor;
#[cfg(test)]
pub(crate) mod tests;

use crate::App;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::json::{Answer, ApiJson};
use body::QuoteBody;
pub(crate) use response::rate;
use response::{Currencies, PriceResponse, QuoteResponse};

/// Prices a transfer and says what to send for it.
#[utoipa::path(
    post,
    path = "/quote/v2",
    request_body = QuoteBody,
    responses(
        (status = 200, description = "The quote", body = QuoteResponse),
        (status = 400, description = "It cannot be quoted", body = ErrorBody),
        (status = 401, description = "The API key is not valid, or one is required", body = ErrorBody),
        (status = 403, description = "The key may not do this", body = ErrorBody),
        (status = 429, description = "Too many requests", body = ErrorBody),
        (status = 503, description = "Prices are not known at the moment", body = ErrorBody),
    )
)]
pub(crate) async fn quote(
    app: State<App>,
    caller: Caller,
    ApiJson(body): ApiJson<QuoteBody>,
) -> Result<Answer, ApiError> {
    answer(&app, &caller, body).await
}

/// The same under its older name.
#[utoipa::path(
    post,
    path = "/quote",
    request_body = QuoteBody,
    responses(
        (status = 200, description = "The quote", body = QuoteResponse),
        (status = 400, description = "It cannot be quoted", body = ErrorBody),
        (status = 401, description = "The API key is not valid, or one is required", body = ErrorBody),
        (status = 403, description = "The key may not do this", body = ErrorBody),
        (status = 503, description = "Prices are not known at the moment", body = ErrorBody),
    )
)]
pub(crate) async fn quote_unversioned(
    app: State<App>,
    caller: Caller,
    ApiJson(body): ApiJson<QuoteBody>,
) -> Result<Answer, ApiError> {
    answer(&app, &caller, body).await
}

async fn answer(app: &App, caller: &Caller, body: QuoteBody) -> Result<Answer, ApiError> {
    let signed = body.wants_signature();
    let mut ask = body.into_ask(&app.catalog, caller)?;
    app.quoter.prepare(&mut ask).await?;
    if ask.options.deposit_address.is_some() {
        return written(app, &app.quoter.give_out(ask).await?, signed);
    }
    let (answer, saving) = promise(app, ask, signed)?;
    saving.durable().await?;
    Ok(answer)
}

/// The answer is written while the quote is on its way to the disk.
fn promise(app: &App, ask: Ask, signed: bool) -> Result<(Answer, Saving), ApiError> {
    let (quoted, saving) = app.quoter.promise(ask)?;
    Ok((written(app, &quoted, signed)?, saving))
}

fn written(app: &App, quoted: &Quoted, signed: bool) -> Result<Answer, ApiError> {
    let signature = quoted.order_id.filter(|_| signed).and_then(|order| app.quoter.order_signature(order));
    let currencies = currencies(app, quoted)?;
    // Read where it is made: it is large, and moving it out of the result would copy it.
    let response = QuoteResponse::new(quoted, &currencies, signature);
    Answer::of(response.as_ref().map_err(|_| ApiError::Internal)?)
}

fn currencies<'a>(app: &'a App, quoted: &Quoted) -> Result<Currencies<'a>, ApiError> {
    Currencies::of(&quoted.quote, &app.catalog, &app.rendered).ok_or(ApiError::Internal)
}

/// Prices a transfer without promising it: no steps, nothing kept.
#[utoipa::path(
    post,
    path = "/price",
    request_body = QuoteBody,
    responses(
        (status = 200, description = "The price", body = PriceResponse),
        (status = 400, description = "It cannot be priced", body = ErrorBody),
        (status = 401, description = "The API key is not valid, or one is required", body = ErrorBody),
        (status = 403, description = "The key may not do this", body = ErrorBody),
        (status = 503, description = "Prices are not known at the moment", body = ErrorBody),
    )
)]
pub(crate) async fn price(
    app: State<App>,
    caller: Caller,
    ApiJson(body): ApiJson<QuoteBody>,
) -> Result<Answer, ApiError> {
    let mut ask = body.into_ask(&app.catalog, &caller)?;
    app.quoter.prepare(&mut ask).await?;
    let priced = app.quoter.price(ask)?;
    let currencies = currencies(&app, &priced)?;
    let quote = QuoteResponse::new(&priced, &currencies, None).map_err(|_| ApiError::Internal)?;
    Answer::of(&quote.into_price())
}
