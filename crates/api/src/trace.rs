//! `GET /requests/{id}/trace`: what was decided for a request, by which rule, with which numbers, and what is awaited.

use alloy_primitives::{Address, B256};
use axum::Json;
use axum::extract::State;
use domain::api_key::ApiKeyId;
use domain::catalog::Catalog;
use domain::ids::{ChainId, RequestId};
use domain::ledger;
use domain::money::OutOfRange;
use domain::request::State as RequestState;
use serde::Serialize;
use serde_json::Value;
use solver::operator::manual_refund;
use store::trace::{self, Trace};
use utoipa::ToSchema;

use crate::App;
use crate::caller::Caller;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiPath;
use crate::losses::LossBody;
use crate::operator::Operator;
use crate::quote::sponsor::SponsorshipBody;
use crate::wire::Amounts;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TraceResponse {
    request_id: String,
    order_id: String,
    /// The request whose order this one's deposit named, where it is a deposit that paid for none.
    #[schema(required = true)]
    parent_id: Option<String>,
    /// Requests of deposits that named this one's order without paying for it.
    children: Vec<String>,
    state: &'static str,
    /// The next step, and the condition it waits for.
    awaits: String,
    events: Vec<EventBody>,
    deposits: Vec<DepositBody>,
    payments: Vec<PaymentBody>,
    due: Vec<DueBody>,
    /// The loss, if a reorg took its deposit away after it was paid out.
    #[schema(required = true)]
    loss: Option<LossBody>,
    /// Who pays which of its fees, as quoted and, once it is filled, as it turned out.
    #[schema(required = true, value_type = Option<SponsorshipBody<'static>>)]
    fee_sponsorship: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TraceEvent)]
pub(crate) struct EventBody {
    /// Unix milliseconds.
    at: i64,
    state: String,
    rule: String,
    #[schema(value_type = Object)]
    figures: Value,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TraceDeposit)]
pub(crate) struct DepositBody {
    chain_id: u64,
    tx_hash: String,
    block: u64,
    /// The block with which enough stand on it.
    confirmed_at: u64,
    currency: String,
    amount: String,
    state: String,
    /// It is the one that pays for the order.
    pays: bool,
    #[schema(required = true)]
    refused: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TracePayment)]
pub(crate) struct PaymentBody {
    purpose: String,
    chain_id: u64,
    wallet: String,
    nonce: u64,
    currency: String,
    amount: String,
    state: String,
    attempts: u64,
    #[schema(required = true)]
    tx_hash: Option<String>,
    #[schema(required = true)]
    block: Option<u64>,
    /// Why it failed, where it did.
    #[schema(required = true)]
    fail_reason: Option<String>,
    /// The chain's answer to that.
    #[schema(required = true)]
    details: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TraceDue)]
pub(crate) struct DueBody {
    purpose: String,
    chain_id: u64,
    currency: String,
    amount: String,
    /// Why it has not gone out.
    reason: String,
    needs_person: bool,
    /// Unix milliseconds.
    since: i64,
}

/// Who pays the fees, where a sponsor was asked to.
fn sponsorship(trace: &Trace, app: &App) -> Result<Option<Value>, OutOfRange> {
    let (quote, catalog) = (&trace.request.quote, &app.catalog);
    let (Some(asked), Some(terms)) = (&quote.figures.sponsorship, &quote.terms) else { return Ok(None) };
    let currency = catalog.chain(terms.deposit.chain).and_then(|chain| chain.currency(&terms.deposit.address));
    let Some(currency) = currency.and_then(|currency| app.rendered.of(currency)) else { return Ok(None) };
    let mut body = SponsorshipBody::new(asked, currency, quote.figures.prices.deposit, &mut Amounts::default())?;
    let outcome = trace.outcome.as_ref().filter(|_| trace.request.state == RequestState::Success);
    if let (Some(outcome), Some(usdc)) = (outcome, ledger::currency_of(catalog)) {
        body = body.turned_out(outcome, currency, usdc)?;
    }
    Ok(serde_json::to_value(body).ok())
}

impl TraceResponse {
    fn new(trace: Trace, catalog: &Catalog, fee_sponsorship: Option<Value>) -> Self {
        let (awaits, names) = (awaits(&trace, catalog), &trace.names);
        let hash = |tx: B256| names.get(&tx).cloned().unwrap_or_else(|| tx.to_string());
        let account = |chain: ChainId, packed: Address| {
            catalog.chain(chain).map_or_else(|| format!("{packed:#x}"), |chain| chain.account_text(packed))
        };
        let event =
            |it: trace::Event| EventBody { at: it.at.millis(), state: it.state, rule: it.rule, figures: it.figures };
        let deposit = |it: trace::Deposit| DepositBody {
            chain_id: it.chain.0,
            tx_hash: hash(it.tx),
            block: it.block,
            confirmed_at: it.ripe_at,
            currency: account(it.chain, it.currency),
            amount: it.amount.to_string(),
            state: it.state,
            pays: it.pays,
            refused: it.refused,
        };
        let payment = |it: trace::Payment| PaymentBody {
            purpose: it.purpose,
            chain_id: it.chain.0,
            wallet: account(it.chain, it.wallet),
            nonce: it.nonce,
            currency: account(it.chain, it.currency),
            amount: it.amount.to_string(),
            state: it.state,
            attempts: it.attempts,
            tx_hash: it.tx.map(hash),
            block: it.block,
            fail_reason: it.fail_reason,
            details: it.details,
        };
        let due = |it: trace::Due| DueBody {
            purpose: it.purpose,
            chain_id: it.chain.0,
            currency: account(it.chain, it.currency),
            amount: it.amount.to_string(),
            reason: it.reason,
            needs_person: it.parked,
            since: it.since.millis(),
        };
        Self {
            request_id: trace.request.id.to_string(),
            order_id: trace.request.order_id.to_string(),
            parent_id: trace.request.parent.map(|id| id.to_string()),
            children: trace.children.iter().map(ToString::to_string).collect(),
            state: trace.request.state.as_str(),
            awaits,
            events: trace.events.into_iter().map(event).collect(),
            deposits: trace.deposits.into_iter().map(deposit).collect(),
            payments: trace.payments.into_iter().map(payment).collect(),
            due: trace.dues.into_iter().map(due).collect(),
            loss: trace.loss.map(LossBody::from),
            fee_sponsorship,
        }
    }
}

/// One sentence for "why is it not done".
fn awaits(trace: &Trace, catalog: &Catalog) -> String {
    if let Some(due) = trace.dues.first() {
        return format!("a {} on {}: {}", due.purpose, name(catalog, due.chain), due.reason);
    }
    let quote = &trace.request.quote;
    match trace.request.state {
        RequestState::Waiting => match (&quote.terms, trace.deposits.iter().find(|deposit| deposit.state == "seen")) {
            (None, _) => format!("the user's own transaction on {}", name(catalog, quote.ask.origin.chain)),
            (Some(_), Some(seen)) => {
                format!("block {} on {}: a deposit is in block {}", seen.ripe_at, name(catalog, seen.chain), seen.block)
            }
            (Some(terms), None) => {
                let (amount, key) = (quote.figures.deposit, &terms.deposit);
                let known = catalog.chain(key.chain).and_then(|chain| chain.currency(&key.address));
                let shown = known.map_or_else(
                    || format!("{amount} of {}", key.address.text()),
                    |currency| format!("{} {}", amount.formatted(currency.decimals), currency.symbol),
                );
                format!("a deposit of {shown} on {}", name(catalog, key.chain))
            }
        },
        RequestState::Depositing => {
            format!("the user's transaction, which a relayer sends on {}", name(catalog, quote.ask.origin.chain))
        }
        RequestState::Pending => "the fill to be sent".to_owned(),
        RequestState::Submitted => format!("the fill to be mined on {}", name(catalog, quote.ask.destination.chain)),
        RequestState::Refunding => format!("the refund to be mined on {}", name(catalog, quote.ask.origin.chain)),
        RequestState::Success | RequestState::Refunded | RequestState::Failed => "nothing: it is over".to_owned(),
    }
}

fn name(catalog: &Catalog, chain: ChainId) -> String {
    catalog.chain(chain).map_or_else(|| format!("chain {chain}"), |chain| chain.name.clone())
}

/// Who wants to know.
enum Reader {
    Operator,
    Owner(ApiKeyId),
}

impl Reader {
    /// The part of it that they may see. Of another key's request nothing is said, not even that there is one; and which
    /// of our people decided something, and why, stays among us.
    fn sees(&self, mut trace: Trace) -> Option<Trace> {
        match self {
            Self::Operator => {}
            Self::Owner(key) => {
                if trace.request.quote.ask.key != Some(*key) {
                    return None;
                }
                let by_us = trace.events.iter_mut().filter(|event| event.rule == manual_refund::RULE);
                by_us.for_each(|event| event.figures = Value::Null);
            }
        }
        Some(trace)
    }
}

/// Says what was decided for a request and why, and what it waits for.
#[utoipa::path(
    get,
    path = "/requests/{requestId}/trace",
    security(("apiKey" = []), ("bearer" = []), ("operator" = [])),
    params(("requestId" = String, Path, description = "The request")),
    responses(
        (status = 200, description = "Its story", body = TraceResponse),
        (status = 400, description = "Not a request id", body = ErrorBody),
        (status = 401, description = "The key it was quoted with is needed, or the operator's token", body = ErrorBody),
        (status = 404, description = "No such request, or that of another key", body = ErrorBody),
    )
)]
pub(crate) async fn trace(
    operator: Result<Operator, ApiError>,
    caller: Caller,
    app: State<App>,
    ApiPath(id): ApiPath,
) -> ApiResult<TraceResponse> {
    let reader = match (operator, caller.key()) {
        (Ok(Operator), _) => Reader::Operator,
        (Err(_), Some(key)) => Reader::Owner(key.id),
        (Err(refused), None) => return Err(refused),
    };
    let id: RequestId = id.parse().map_err(|error: domain::ids::NotAnId| ApiError::Parameter {
        field: "requestId",
        problem: error.to_string(),
    })?;
    let trace = app.store.read(move |tx| trace::of(tx, id)).await?;
    let trace = trace.and_then(|trace| reader.sees(trace)).ok_or(ApiError::RequestNotFound)?;
    let fee_sponsorship = sponsorship(&trace, &app).map_err(|OutOfRange| ApiError::Internal)?;
    Ok(Json(TraceResponse::new(trace, &app.catalog, fee_sponsorship)))
}
