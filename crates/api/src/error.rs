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
use solver::deposit_addresses::reindex::ReindexError;
use solver::gasless::execute::ExecuteError;
use solver::gasless::permits::PermitError;
use solver::integrators::claims::ClaimError;
use solver::integrators::fast_fill::FastFillError;
use solver::integrators::wallet_links::LinkError;
use solver::{Attempt, QuoteError, SolverError};
use store::StoreError;
use tracing::error;
use utoipa::ToSchema;

use crate::retirement::Successor;

mod code;
mod gasless;
mod messages;

pub(crate) use code::Code;
pub use code::page;

pub(crate) type ApiResult<T> = Result<Json<T>, ApiError>;

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{}", messages::of_quote(.0))]
    Quote(#[from] QuoteError),
    #[error("{}", messages::of_fast_fill(.0))]
    FastFill(#[from] FastFillError),
    #[error("{}", messages::of_claim(.0))]
    Claim(#[from] ClaimError),
    #[error("{}", messages::of_permit(.0))]
    Permit(#[from] PermitError),
    #[error("{}", messages::of_execute(.0))]
    Execute(#[from] ExecuteError),
    #[error("{}", messages::of_reindex(.0))]
    Reindex(#[from] ReindexError),
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
    #[error("{field} must be an integer between 0 and 10000, as text")]
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
    #[error("the address of the call is longer than {most} bytes")]
    UriTooLong { most: usize },
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
    /// The retiring listing says nothing of its limits but that they were met.
    #[error("{problem}: this listing is deprecated and its limits shrink, use {}", to.route)]
    TooManyOfV2 { problem: &'static str, to: Successor },
    #[error("this listing has been retired, use {}", to.route)]
    Retired { to: Successor },
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
    fn code(&self) -> Code {
        match self {
            Self::Quote(error) => quote_code(error),
            Self::FastFill(error) => fast_fill_code(error),
            Self::Claim(error) => claim_code(error),
            Self::Permit(error) => gasless::permit_code(error),
            Self::Execute(error) => gasless::execute_code(error),
            Self::Reindex(error) => reindex_code(error),
            Self::Link(LinkError::Store(error)) => store_code(error),
            Self::Link(LinkError::Chain(_)) => Code::RpcHttpError,
            Self::Link(LinkError::NothingAsked | LinkError::NotSigned) => Code::InvalidSignature,
            Self::NameUsed | Self::NameInUse => Code::IdempotencyConflict,
            Self::Parameter { .. } | Self::Body(_) => Code::InvalidParameters,
            Self::UnsupportedChain { .. } => Code::UnsupportedChain,
            Self::Address { .. } => Code::InvalidAddress,
            Self::Slippage { .. } => Code::InvalidSlippageTolerance,
            Self::NotOffered { .. } => Code::UnsupportedExecutionType,
            Self::ExtraTxs { .. } => Code::ExtraTxsNotSupported,
            Self::FixedRate { .. } => Code::InvalidFixedRate,
            Self::BodyTooLarge { .. } => Code::PayloadTooLarge,
            Self::UriTooLong { .. } => Code::UriTooLong,
            Self::OperatorOnly | Self::KeyRequired { .. } | Self::NoKey | Self::WrongKey => Code::Unauthorized,
            Self::Forbidden(_) => Code::Forbidden,
            Self::RequestNotFound => Code::RequestNotFound,
            Self::NotRefundable { .. } => Code::NotRefundable,
            Self::NoSuchPath | Self::NotFound(_) => Code::NotFound,
            Self::Conflict(_) => Code::Conflict,
            Self::MethodNotAllowed => Code::MethodNotAllowed,
            Self::TooMany { .. } | Self::TooManyOfV2 { .. } | Self::TooManyWrongKeys { .. } => Code::RateLimited,
            Self::Retired { .. } => Code::Gone,
            Self::TimedOut | Self::SlowListing => Code::RequestTimedOut,
            Self::Store(error) => store_code(error),
            Self::Internal => Code::UnknownError,
        }
    }
}

fn reindex_code(error: &ReindexError) -> Code {
    match error {
        ReindexError::UnknownAddress => Code::NotFound,
        ReindexError::OtherAddress | ReindexError::InvalidCurrency => Code::InvalidParameters,
        ReindexError::TooSoon => Code::RateLimited,
        ReindexError::NodesFailed => Code::RpcHttpError,
        ReindexError::Store(error) => store_code(error),
    }
}

fn quote_code(error: &QuoteError) -> Code {
    match error {
        QuoteError::UnsupportedChain { .. } => Code::UnsupportedChain,
        QuoteError::ChainDisabled { .. } => Code::ChainDisabled,
        QuoteError::InvalidCurrency { end: End::Origin, .. } => Code::InvalidInputCurrency,
        QuoteError::InvalidCurrency { end: End::Destination, .. } => Code::InvalidOutputCurrency,
        QuoteError::Blocked { .. } => Code::SanctionedWalletAddress,
        QuoteError::InvalidRecipient { .. } => Code::InvalidRecipient,
        QuoteError::OriginSwapsDisabled => Code::NoSwapRoutesFound,
        QuoteError::PlainDepositOfContract
        | QuoteError::NoDepositAddresses { .. }
        | QuoteError::NoPermits { .. }
        | QuoteError::GaslessUnsponsored => Code::UnsupportedExecutionType,
        QuoteError::NeedsRefundRecipient => Code::InvalidParameters,
        QuoteError::NoSpendLimiter { .. } => Code::RouterNotFound,
        QuoteError::CallsRevert { .. }
        | QuoteError::CallsGas { .. }
        | QuoteError::RecipientRefuses { .. }
        | QuoteError::RecipientRefused => Code::DestinationTxFailed,
        QuoteError::Node { timed_out: true, .. } => Code::RequestTimedOut,
        QuoteError::Node { timed_out: false, .. } => Code::RpcHttpError,
        QuoteError::Refused(refusal) => refusal_code(refusal),
        QuoteError::Venue(_) => Code::RpcHttpError,
        QuoteError::VenueQuota { .. } => Code::ServiceUnavailable,
        QuoteError::CallsOnVenue => Code::ExtraTxsNotSupported,
        QuoteError::TooLow { .. } | QuoteError::Dust { .. } | QuoteError::BelowLeast { .. } => Code::AmountTooLow,
        QuoteError::TooMuch { .. } => Code::InsufficientLiquidity,
        QuoteError::Market(MarketError::Unpriced { .. }) => Code::UnsupportedCurrency,
        QuoteError::Market(_) => Code::PriceFetchFailed,
        QuoteError::Store(error) => store_code(error),
    }
}

fn fast_fill_code(error: &FastFillError) -> Code {
    match error {
        FastFillError::NotFound => Code::RequestNotFound,
        FastFillError::InFlight => Code::AlreadyProcessing,
        FastFillError::NotEligible(_) => Code::NotEligible,
        FastFillError::LessThanQuoted | FastFillError::MoreThanQuoted { .. } | FastFillError::NotFillable => {
            Code::InvalidParameters
        }
        FastFillError::OverMost { .. } | FastFillError::MostAboveAvailable { .. } => Code::MaxFillAmountExceeded,
        FastFillError::BalanceTooLow { .. } => Code::Forbidden,
        FastFillError::Solver(SolverError::Store(error)) => store_code(error),
        FastFillError::Solver(_) => Code::UnknownError,
    }
}

fn claim_code(error: &ClaimError) -> Code {
    match error {
        ClaimError::NotOffered => Code::UnsupportedExecutionType,
        ClaimError::OtherChain(_) => Code::UnsupportedChain,
        ClaimError::OtherCurrency(_) => Code::UnsupportedCurrency,
        ClaimError::Recipient => Code::InvalidRecipient,
        ClaimError::WalletBlocked | ClaimError::RecipientBlocked => Code::SanctionedWalletAddress,
        ClaimError::AmountOutOfRange | ClaimError::NothingAvailable => Code::InvalidParameters,
        ClaimError::TooLittle(_) => Code::AmountTooLow,
        ClaimError::BalanceTooLow { .. } => Code::InsufficientFunds,
        ClaimError::NotAsked => Code::RequestNotFound,
        ClaimError::Expired => Code::SignatureExpired,
        ClaimError::Used => Code::AlreadyProcessing,
        ClaimError::NotSigned => Code::InvalidSignature,
        ClaimError::Chain(_) => Code::RpcHttpError,
        ClaimError::Solver(SolverError::Store(error)) => store_code(error),
        ClaimError::Solver(_) => Code::UnknownError,
    }
}

fn refusal_code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::AmountTooLow { .. } | Refusal::Dust => Code::AmountTooLow,
        Refusal::NoRoute => Code::NoSwapRoutesFound,
        Refusal::NotOnSameChain(SolverOption::Calls) => Code::ExtraTxsNotSupported,
        Refusal::NothingToDo | Refusal::NotOnSameChain(SolverOption::TopUp | SolverOption::FixedRate) => {
            Code::UnsupportedRoute
        }
        Refusal::InsufficientLiquidity => Code::InsufficientLiquidity,
        Refusal::ImpactTooHigh => Code::SwapImpactTooHigh,
        Refusal::CallValues => Code::InvalidExtraTxs,
        Refusal::FixedRateUnsponsored | Refusal::FixedRateDeviates => Code::InvalidFixedRate,
        Refusal::FixedRateCurrency => Code::UnsupportedCurrency,
        Refusal::SponsorBalance => Code::SponsorBalanceTooLow,
        Refusal::TopUpOfGas | Refusal::AppFees | Refusal::OutOfRange => Code::InvalidParameters,
    }
}

fn store_code(error: &StoreError) -> Code {
    if error.is_transient() || matches!(error, StoreError::DiskLow) {
        Code::ServiceUnavailable
    } else {
        Code::UnknownError
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
    pub(crate) message: String,
    pub error_code: &'static str,
    status_code: u16,
    /// The data that a tried call returned, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_call_data: Option<FailedCall>,
    /// The route to use instead of a deprecated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<String>,
    /// A page that says how to move there.
    #[serde(skip_serializing_if = "Option::is_none")]
    migration_guide: Option<String>,
}

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
        let code = self.code();
        let (status, error_code) = (code.status(), code.as_str());
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
        let (successor, migration_guide) = match self {
            Self::TooManyOfV2 { to, .. } | Self::Retired { to } => (Some(to.route.clone()), Some(to.guide.clone())),
            _ => (None, None),
        };
        let body =
            ErrorBody { message, error_code, status_code, error_data, failed_call_data, successor, migration_guide };
        (status, body)
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
