//! One body for every failing response: `{message, errorCode, statusCode}`.

use alloy_primitives::hex;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::ids::ChainId;
use domain::pricing::{Refusal, SolverOption};
use domain::quote::End;
use market::MarketError;
use serde::Serialize;
use solver::integrators::claims::ClaimError;
use solver::integrators::fast_fill::FastFillError;
use solver::integrators::wallet_links::LinkError;
use solver::{Attempt, QuoteError, SolverError};
use store::StoreError;
use tracing::error;
use utoipa::ToSchema;

mod messages;

pub(crate) type ApiResult<T> = Result<Json<T>, ApiError>;

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{}", messages::of_quote(.0))]
    Quote(#[from] QuoteError),
    #[error("{}", messages::of_fast_fill(.0))]
    FastFill(#[from] FastFillError),
    #[error("{}", messages::of_claim(.0))]
    Claim(#[from] ClaimError),
    #[error("signature: {0}")]
    Link(#[from] LinkError),
    #[error("Idempotency-Key: it was used for another call")]
    NameUsed,
    #[error("Idempotency-Key: a call under it is still being answered")]
    NameInUse,
    #[error("{field}: {problem}")]
    Parameter { field: &'static str, problem: String },
    #[error("{field}: {problem}")]
    Address { field: &'static str, problem: String },
    #[error("{field}: chain {chain} is not supported")]
    UnsupportedChain { field: &'static str, chain: ChainId },
    #[error("{field} must be an integer between 0 and 10000")]
    Slippage { field: &'static str },
    /// Asked for something that changes where money goes and is not offered: never passed over in silence.
    #[error("{field} is not offered")]
    NotOffered { field: &'static str },
    #[error("txs: {problem}")]
    ExtraTxs { problem: &'static str },
    #[error("fixedRate: {problem}")]
    FixedRate { problem: String },
    #[error("{0}")]
    Body(String),
    #[error("the body is larger than {most} bytes")]
    BodyTooLarge { most: usize },
    #[error("an API key is required for {field}")]
    KeyRequired { field: &'static str },
    #[error("an API key is required: send it as x-api-key")]
    NoKey,
    /// Not known, replaced or revoked: the caller learns no more.
    #[error("this is not a valid API key")]
    WrongKey,
    #[error("too many calls with keys that are not valid, try again in {} seconds", retry_after_secs)]
    TooManyWrongKeys { retry_after_secs: u64 },
    #[error("{0}")]
    Forbidden(&'static str),
    #[error("only the operator may see this: send its token as Authorization: Bearer")]
    OperatorOnly,
    #[error("Request not found")]
    RequestNotFound,
    #[error("{why}")]
    NotRefundable { why: &'static str },
    #[error("{0}")]
    NotFound(&'static str),
    #[error("{0}")]
    Conflict(&'static str),
    #[error("there is nothing at this path")]
    NoSuchPath,
    #[error("this path does not take that method")]
    MethodNotAllowed,
    #[error("too many requests, try again in {} seconds", retry_after_secs)]
    TooMany { retry_after_secs: u64 },
    #[error("too many requests: this listing is deprecated and its limits shrink, use its successor")]
    TooManyOfV2,
    #[error("the request took too long")]
    TimedOut,
    #[error("the listing took too long: narrow it down, by time, chain, user or key")]
    SlowListing,
    /// The cause goes to the log, never to the caller.
    #[error("internal error")]
    Store(#[from] StoreError),
    #[error("internal error")]
    Internal,
}

impl ApiError {
    fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Quote(error) => quote_parts(error),
            Self::FastFill(error) => fast_fill_parts(error),
            Self::Claim(error) => claim_parts(error),
            Self::Link(LinkError::Store(error)) => store_parts(error),
            Self::Link(LinkError::Chain(_)) => (StatusCode::SERVICE_UNAVAILABLE, "RPC_HTTP_ERROR"),
            Self::Link(LinkError::NothingAsked | LinkError::NotSigned) => {
                (StatusCode::BAD_REQUEST, "INVALID_SIGNATURE")
            }
            Self::NameUsed | Self::NameInUse => (StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"),
            Self::Parameter { .. } | Self::Body(_) => (StatusCode::BAD_REQUEST, "INVALID_PARAMETERS"),
            Self::UnsupportedChain { .. } => (StatusCode::BAD_REQUEST, "UNSUPPORTED_CHAIN"),
            Self::Address { .. } => (StatusCode::BAD_REQUEST, "INVALID_ADDRESS"),
            Self::Slippage { .. } => (StatusCode::BAD_REQUEST, "INVALID_SLIPPAGE_TOLERANCE"),
            Self::NotOffered { .. } => (StatusCode::BAD_REQUEST, "UNSUPPORTED_EXECUTION_TYPE"),
            Self::ExtraTxs { .. } => (StatusCode::BAD_REQUEST, "EXTRA_TXS_NOT_SUPPORTED"),
            Self::FixedRate { .. } => (StatusCode::BAD_REQUEST, "INVALID_FIXED_RATE"),
            Self::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "INVALID_PARAMETERS"),
            Self::OperatorOnly | Self::KeyRequired { .. } | Self::NoKey | Self::WrongKey => {
                (StatusCode::UNAUTHORIZED, "UNAUTHORIZED")
            }
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "FORBIDDEN"),
            Self::RequestNotFound => (StatusCode::NOT_FOUND, "REQUEST_NOT_FOUND"),
            Self::NotRefundable { .. } => (StatusCode::CONFLICT, "NOT_REFUNDABLE"),
            Self::NoSuchPath | Self::NotFound(_) => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "CONFLICT"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            Self::TooMany { .. } | Self::TooManyOfV2 | Self::TooManyWrongKeys { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED")
            }
            Self::TimedOut | Self::SlowListing => (StatusCode::SERVICE_UNAVAILABLE, "REQUEST_TIMED_OUT"),
            Self::Store(error) => store_parts(error),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN_ERROR"),
        }
    }
}

fn quote_parts(error: &QuoteError) -> (StatusCode, &'static str) {
    match error {
        QuoteError::UnsupportedChain { .. } => (StatusCode::BAD_REQUEST, "UNSUPPORTED_CHAIN"),
        QuoteError::ChainDisabled { .. } => (StatusCode::BAD_REQUEST, "CHAIN_DISABLED"),
        QuoteError::InvalidCurrency { end: End::Origin, .. } => (StatusCode::BAD_REQUEST, "INVALID_INPUT_CURRENCY"),
        QuoteError::InvalidCurrency { end: End::Destination, .. } => {
            (StatusCode::BAD_REQUEST, "INVALID_OUTPUT_CURRENCY")
        }
        QuoteError::Blocked { .. } => (StatusCode::BAD_REQUEST, "SANCTIONED_WALLET_ADDRESS"),
        QuoteError::InvalidRecipient { .. } => (StatusCode::BAD_REQUEST, "INVALID_RECIPIENT"),
        QuoteError::OriginSwapsDisabled => (StatusCode::BAD_REQUEST, "NO_SWAP_ROUTES_FOUND"),
        QuoteError::PlainDepositOfContract => (StatusCode::BAD_REQUEST, "UNSUPPORTED_EXECUTION_TYPE"),
        QuoteError::NoSpendLimiter { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "ERC20_ROUTER_ADDRESS_NOT_FOUND"),
        QuoteError::CallsRevert { .. } | QuoteError::CallsGas { .. } | QuoteError::RecipientRefuses { .. } => {
            (StatusCode::BAD_REQUEST, "DESTINATION_TX_FAILED")
        }
        QuoteError::Node { timed_out: true, .. } => (StatusCode::SERVICE_UNAVAILABLE, "REQUEST_TIMED_OUT"),
        QuoteError::Node { timed_out: false, .. } => (StatusCode::SERVICE_UNAVAILABLE, "RPC_HTTP_ERROR"),
        QuoteError::Refused(refusal) => (StatusCode::BAD_REQUEST, refusal_code(refusal)),
        QuoteError::Market(MarketError::Unpriced { .. }) => (StatusCode::BAD_REQUEST, "UNSUPPORTED_CURRENCY"),
        QuoteError::Market(_) => (StatusCode::SERVICE_UNAVAILABLE, "PRICE_FETCH_FAILED"),
        QuoteError::Store(error) => store_parts(error),
    }
}

fn fast_fill_parts(error: &FastFillError) -> (StatusCode, &'static str) {
    match error {
        FastFillError::NotFound => (StatusCode::NOT_FOUND, "REQUEST_NOT_FOUND"),
        FastFillError::InFlight => (StatusCode::CONFLICT, "ALREADY_PROCESSING"),
        FastFillError::NotEligible(_) => (StatusCode::BAD_REQUEST, "NOT_ELIGIBLE"),
        FastFillError::LessThanQuoted | FastFillError::MoreThanQuoted { .. } | FastFillError::NotFillable => {
            (StatusCode::BAD_REQUEST, "INVALID_PARAMETERS")
        }
        FastFillError::OverMost { .. } | FastFillError::MostAboveAvailable { .. } => {
            (StatusCode::BAD_REQUEST, "MAX_FILL_AMOUNT_EXCEEDED")
        }
        FastFillError::BalanceTooLow { .. } => (StatusCode::FORBIDDEN, "FORBIDDEN"),
        FastFillError::Solver(SolverError::Store(error)) => store_parts(error),
        FastFillError::Solver(_) => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN_ERROR"),
    }
}

fn claim_parts(error: &ClaimError) -> (StatusCode, &'static str) {
    let code = match error {
        ClaimError::NotOffered => "UNSUPPORTED_EXECUTION_TYPE",
        ClaimError::OtherChain(_) => "UNSUPPORTED_CHAIN",
        ClaimError::OtherCurrency(_) => "UNSUPPORTED_CURRENCY",
        ClaimError::Recipient => "INVALID_RECIPIENT",
        ClaimError::WalletBlocked | ClaimError::RecipientBlocked => "SANCTIONED_WALLET_ADDRESS",
        ClaimError::AmountOutOfRange | ClaimError::NothingAvailable => "INVALID_PARAMETERS",
        ClaimError::TooLittle(_) => "AMOUNT_TOO_LOW",
        ClaimError::BalanceTooLow { .. } => "INSUFFICIENT_FUNDS",
        ClaimError::NotAsked => "REQUEST_NOT_FOUND",
        ClaimError::Expired => "SIGNATURE_EXPIRED",
        ClaimError::Used => "ALREADY_PROCESSING",
        ClaimError::NotSigned => "INVALID_SIGNATURE",
        ClaimError::Chain(_) => return (StatusCode::SERVICE_UNAVAILABLE, "RPC_HTTP_ERROR"),
        ClaimError::Solver(SolverError::Store(error)) => return store_parts(error),
        ClaimError::Solver(_) => return (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN_ERROR"),
    };
    (StatusCode::BAD_REQUEST, code)
}

fn refusal_code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::AmountTooLow { .. } | Refusal::Dust => "AMOUNT_TOO_LOW",
        Refusal::NoRoute => "NO_SWAP_ROUTES_FOUND",
        Refusal::NotOnOneChain(SolverOption::Calls) => "EXTRA_TXS_NOT_SUPPORTED",
        Refusal::NothingToDo | Refusal::NotOnOneChain(SolverOption::TopUp | SolverOption::FixedRate) => {
            "UNSUPPORTED_ROUTE"
        }
        Refusal::InsufficientLiquidity => "INSUFFICIENT_LIQUIDITY",
        Refusal::ImpactTooHigh => "SWAP_IMPACT_TOO_HIGH",
        Refusal::CallValues => "INVALID_EXTRA_TXS",
        Refusal::FixedRateUnsponsored | Refusal::FixedRateDeviates => "INVALID_FIXED_RATE",
        Refusal::FixedRateCurrency => "UNSUPPORTED_CURRENCY",
        Refusal::SponsorBalance => "SPONSOR_BALANCE_TOO_LOW",
        Refusal::TopUpOfGas | Refusal::AppFees | Refusal::OutOfRange => "INVALID_PARAMETERS",
    }
}

fn store_parts(error: &StoreError) -> (StatusCode, &'static str) {
    if error.is_transient() || matches!(error, StoreError::DiskLow) {
        (StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN_ERROR")
    }
}

impl ApiError {
    /// A listing that could not be read. Whether it takes long is up to its filters, and the caller's to change.
    pub fn of_listing(error: StoreError) -> Self {
        match error {
            StoreError::Timeout => Self::SlowListing,
            error => Self::Store(error),
        }
    }
}

/// The body of every failing response.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    message: String,
    pub error_code: &'static str,
    status_code: u16,
    /// The data that a tried call returned, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_call_data: Option<FailedCall>,
    /// Which route to use instead of a deprecated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<&'static str>,
}

/// Where the older listing's callers should go.
const SUCCESSOR: &str = "/requests/v3";

/// The transaction that was tried.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailedCall {
    from: String,
    to: String,
    data: String,
    value: String,
}

impl From<&Attempt> for FailedCall {
    fn from(attempt: &Attempt) -> Self {
        Self {
            from: format!("0x{}", hex::encode(attempt.from)),
            to: format!("0x{}", hex::encode(attempt.to)),
            data: attempt.data.to_string(),
            value: attempt.value.to_string(),
        }
    }
}

impl From<SolverError> for ApiError {
    fn from(error: SolverError) -> Self {
        match error {
            SolverError::Store(error) => Self::Store(error),
            other => {
                error!(error = %solver::error::Chained(&other), "a request failed in the solver");
                Self::Internal
            }
        }
    }
}

impl ApiError {
    /// The answer to the caller. An internal cause goes to the log here.
    pub fn answer(&self) -> (StatusCode, ErrorBody) {
        let (status, error_code) = self.parts();
        let message = match self {
            Self::FastFill(FastFillError::Solver(cause)) | Self::Claim(ClaimError::Solver(cause)) => {
                error!(error = %solver::error::Chained(cause), "a fast fill or a claim failed");
                match status {
                    StatusCode::SERVICE_UNAVAILABLE => "the service is busy, try again".to_owned(),
                    _ => "internal error".to_owned(),
                }
            }
            Self::Quote(QuoteError::Store(cause)) | Self::Link(LinkError::Store(cause)) | Self::Store(cause) => {
                error!(error = %solver::error::Chained(cause), "a request failed in the store");
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    "the service is busy, try again".to_owned()
                } else {
                    "internal error".to_owned()
                }
            }
            other => other.to_string(),
        };
        let (error_data, failed_call_data) = match self {
            Self::Quote(QuoteError::CallsRevert { data, attempt, .. }) => {
                (Some(data.to_string()), Some(FailedCall::from(attempt.as_ref())))
            }
            _ => (None, None),
        };
        let status_code = status.as_u16();
        let successor = matches!(self, Self::TooManyOfV2).then_some(SUCCESSOR);
        (status, ErrorBody { message, error_code, status_code, error_data, failed_call_data, successor })
    }
}

/// An error of a route whose clients look for the code under another name; ours is there too.
#[derive(Debug)]
pub(crate) struct Coded(ApiError);

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CodedError)]
pub(crate) struct CodedBody {
    #[serde(flatten)]
    body: ErrorBody,
    code: &'static str,
}

impl<E: Into<ApiError>> From<E> for Coded {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Coded {
    fn into_response(self) -> Response {
        let (status, body) = self.0.answer();
        let code = body.error_code;
        (status, Json(CodedBody { body, code })).into_response()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, body) = self.answer();
        let mut response = (status, Json(body)).into_response();
        if let Self::TooMany { retry_after_secs } | Self::TooManyWrongKeys { retry_after_secs } = self {
            response.headers_mut().insert(axum::http::header::RETRY_AFTER, retry_after_secs.into());
        }
        response
    }
}
