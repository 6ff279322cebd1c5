//! The codes of failing responses. A code has one status, on every route; `docs/errors.md` is printed from this table.

use std::fmt::Write;

use axum::http::StatusCode;

macro_rules! codes {
    ($($name:ident = $text:literal, $status:ident, $again:ident, $meaning:literal;)+) => {
        /// The `errorCode` of a failing response.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($name,)+
        }

        impl Code {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];

            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            pub(crate) fn status(self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)+
                }
            }

            /// Whether the same call may succeed later.
            pub(crate) fn again(self) -> Again {
                match self {
                    $(Self::$name => Again::$again,)+
                }
            }

            pub(crate) fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)+
                }
            }
        }
    };
}

/// The sense in calling again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Only another call can succeed.
    No,
    /// The answer depends on the market, the chains or the balance of the moment.
    Later,
    /// Nothing is wrong with the call; wait as long as `Retry-After` says, or back off.
    Yes,
}

impl Again {
    fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Later => "later",
            Self::Yes => "yes",
        }
    }
}

codes! {
    AlreadyProcessing = "ALREADY_PROCESSING", CONFLICT, No,
        "a fast fill of this request is under way, or this claim was signed for already";
    AmountTooLow = "AMOUNT_TOO_LOW", BAD_REQUEST, No,
        "the amount does not cover the fees, or is below the least that is paid; the message says the bound";
    ChainDisabled = "CHAIN_DISABLED", BAD_REQUEST, Later,
        "the chain takes no transfers at the moment";
    Conflict = "CONFLICT", CONFLICT, No,
        "the present state does not allow it; the message says why";
    DestinationTxFailed = "DESTINATION_TX_FAILED", BAD_REQUEST, No,
        "the fill was tried and fails: calls that revert, too much gas, a recipient that refuses; see `errorData`";
    RouterNotFound = "ERC20_ROUTER_ADDRESS_NOT_FOUND", INTERNAL_SERVER_ERROR, No,
        "the chain has no contract through which tokens could be routed";
    ExecutionReverted = "EXECUTION_REVERTED", BAD_REQUEST, No,
        "the call fails, or an operation in it, or takes more gas than is relayed; `details` says how";
    ExtraTxsNotSupported = "EXTRA_TXS_NOT_SUPPORTED", BAD_REQUEST, No,
        "`txs` does not go with this trade type, with the venue, or with the same chain on both sides";
    Forbidden = "FORBIDDEN", FORBIDDEN, No,
        "the key may not do this: it has no linked wallet, or the wallet's balance is too low";
    GaslessPermitBalanceTooLow = "GASLESS_PERMIT_BALANCE_TOO_LOW", BAD_REQUEST, Later,
        "the user has less than the permit moves";
    Gone = "GONE", GONE, No,
        "the route has been retired: use `successor`";
    HeadersTooLarge = "HEADERS_TOO_LARGE", REQUEST_HEADER_FIELDS_TOO_LARGE, No,
        "the headers are too many or too long";
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT", CONFLICT, No,
        "the `Idempotency-Key` was used for another call, or a call under it is still being answered";
    InsufficientFunds = "INSUFFICIENT_FUNDS", BAD_REQUEST, Later,
        "the app balance is lower than the amount claimed";
    InsufficientLiquidity = "INSUFFICIENT_LIQUIDITY", BAD_REQUEST, Later,
        "more than can be paid out, or than the pools hold; the message says the bound where there is one";
    InvalidAddress = "INVALID_ADDRESS", BAD_REQUEST, No,
        "not an address of its chain, or one in mixed case with a wrong checksum";
    InvalidExtraTxs = "INVALID_EXTRA_TXS", BAD_REQUEST, No,
        "the values of `txs` exceed the output";
    InvalidFixedRate = "INVALID_FIXED_RATE", BAD_REQUEST, No,
        "not of the form `input:output`, without `subsidizeFees`, or too far away from the market";
    InvalidInputCurrency = "INVALID_INPUT_CURRENCY", BAD_REQUEST, No,
        "`originCurrency` is not a currency of its chain";
    InvalidNonce = "INVALID_NONCE", BAD_REQUEST, No,
        "the nonce of the signature is used already: ask for another quote";
    InvalidOutputCurrency = "INVALID_OUTPUT_CURRENCY", BAD_REQUEST, No,
        "`destinationCurrency` is not a currency of its chain";
    InvalidParameters = "INVALID_PARAMETERS", BAD_REQUEST, No,
        "a member of the body, the query or the path is missing or not as documented; the message names it";
    InvalidRecipient = "INVALID_RECIPIENT", BAD_REQUEST, No,
        "the address cannot receive: a token, a contract of ours, or an account that the venue does not have";
    InvalidSignature = "INVALID_SIGNATURE", BAD_REQUEST, No,
        "not a signature of the wallet over what it was asked to sign";
    InvalidSlippageTolerance = "INVALID_SLIPPAGE_TOLERANCE", BAD_REQUEST, No,
        "not a whole number of basis points from 0 to 10000, as text";
    MaxFillAmountExceeded = "MAX_FILL_AMOUNT_EXCEEDED", BAD_REQUEST, No,
        "the fast fill is worth more than `maxFillAmountUsd`, or that is above the available balance";
    MethodNotAllowed = "METHOD_NOT_ALLOWED", METHOD_NOT_ALLOWED, No,
        "the path does not take this method; `Allow` lists those it takes";
    NotEligible = "NOT_ELIGIBLE", BAD_REQUEST, No,
        "the request cannot be filled ahead of its deposit";
    NotFound = "NOT_FOUND", NOT_FOUND, No,
        "there is nothing at this path";
    NotRefundable = "NOT_REFUNDABLE", CONFLICT, No,
        "the request cannot be refunded any more, or not yet";
    NoSwapRoutesFound = "NO_SWAP_ROUTES_FOUND", BAD_REQUEST, Later,
        "there is no route between these currencies";
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", PAYLOAD_TOO_LARGE, No,
        "the body is larger than any route takes";
    PermitFailed = "PERMIT_FAILED", BAD_REQUEST, Later,
        "the signed transaction would fail, or has failed a short while ago; the message says why";
    PriceFetchFailed = "PRICE_FETCH_FAILED", SERVICE_UNAVAILABLE, Yes,
        "prices or pools of a chain are not known at the moment";
    RateLimited = "RATE_LIMITED", TOO_MANY_REQUESTS, Yes,
        "too many calls by this key or address, or too many keys that are none";
    RequestNotFound = "REQUEST_NOT_FOUND", NOT_FOUND, No,
        "there is no request or claim with this id, or it belongs to another key";
    RequestTimedOut = "REQUEST_TIMED_OUT", SERVICE_UNAVAILABLE, Yes,
        "the answer took too long";
    RpcHttpError = "RPC_HTTP_ERROR", SERVICE_UNAVAILABLE, Yes,
        "a node of the chain, or the venue, could not be asked";
    SanctionedWalletAddress = "SANCTIONED_WALLET_ADDRESS", BAD_REQUEST, No,
        "this address is not served";
    ServiceUnavailable = "SERVICE_UNAVAILABLE", SERVICE_UNAVAILABLE, Yes,
        "the service is busy, or its database cannot be reached";
    SignatureExpired = "SIGNATURE_EXPIRED", BAD_REQUEST, No,
        "the claim or the permit was signed too late: ask for it again";
    SponsorBalanceTooLow = "SPONSOR_BALANCE_TOO_LOW", BAD_REQUEST, Later,
        "the sponsor's balance does not cover a fixed rate, or the gas of a relayed transaction";
    SwapImpactTooHigh = "SWAP_IMPACT_TOO_HIGH", BAD_REQUEST, Later,
        "the trade would lose too much to the pools; `overridePriceImpact` lets it through";
    TransferAmountExceedsAllowance = "TRANSFER_AMOUNT_EXCEEDS_ALLOWANCE", BAD_REQUEST, Later,
        "Permit2 may move less of the token than the permit moves: approve it first";
    Unauthorized = "UNAUTHORIZED", UNAUTHORIZED, No,
        "a key or the operator's token is needed, or the one that was shown is not valid";
    UnknownError = "UNKNOWN_ERROR", INTERNAL_SERVER_ERROR, Yes,
        "something failed here; the cause is in our log";
    UnsupportedChain = "UNSUPPORTED_CHAIN", BAD_REQUEST, No,
        "the chain is not served";
    UnsupportedCurrency = "UNSUPPORTED_CURRENCY", BAD_REQUEST, No,
        "the currency has no price, or is not offered for this";
    UnsupportedExecutionType = "UNSUPPORTED_EXECUTION_TYPE", BAD_REQUEST, No,
        "an option that changes where money goes and is not offered";
    UnsupportedRoute = "UNSUPPORTED_ROUTE", BAD_REQUEST, No,
        "there is nothing to do, or it is not offered on the same chain";
    UriTooLong = "URI_TOO_LONG", URI_TOO_LONG, No,
        "path and query together are too long";
}

const HEADING: &str = "# Errors

Every failing response has the body `{message, errorCode, statusCode}`, whatever failed: an unknown path, a body that is
not JSON, a header that is too long. `message` is a sentence for people, begins with the member it is about where there
is one, and may change. `errorCode` is for programs. A code has one status, on every route.

Some routes add members: `errorData` and `failedCallData` (a fill that was tried and failed), `code` (the same as
`errorCode`, on `/chains/health` and `/requests/{requestId}/signature`), `successor` and `migrationGuide` (`/requests/v2`).

*Again* says whether the same call may succeed: *yes* after `Retry-After`, or with growing pauses; *later*, when the
market, a chain or a balance has changed; *no*: change the call.

This page is printed from `crates/api/src/error/code.rs` by `causeway errors`; a test compares them.

| errorCode | status | again | meaning |
|---|---|---|---|
";

/// The page of errors, as `docs/errors.md` holds it.
pub fn page() -> String {
    let mut page = HEADING.to_owned();
    for code in Code::ALL {
        let (name, status, again) = (code.as_str(), code.status().as_u16(), code.again().as_str());
        writeln!(page, "| `{name}` | {status} | {again} | {} |", code.meaning()).expect("text can be written to");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart_and_in_order() {
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
        assert!(Code::ALL.iter().all(|code| code.status().is_client_error() || code.status().is_server_error()));
    }

    #[test]
    fn the_page_of_errors_is_the_printed_one() {
        let checked_in = include_str!("../../../../docs/errors.md");
        assert!(page() == checked_in, "run `cargo run -- errors --output docs/errors.md`");
    }
}
