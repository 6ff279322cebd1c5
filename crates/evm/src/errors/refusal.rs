//! The refusals of nodes, and the one place that understands their prose.

use alloy::primitives::Bytes;

/// The meaning of a node's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("already known")]
    AlreadyKnown,
    #[error("nonce too low")]
    NonceTooLow,
    #[error("nonce too high")]
    NonceTooHigh,
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    /// Below the node's own minimum, or below the base fee of the next block.
    #[error("fee too low")]
    FeeTooLow,
    /// Above the node's own ceiling for the cost of a transaction.
    #[error("fee above the node's ceiling")]
    FeeTooHigh,
    #[error("insufficient funds")]
    InsufficientFunds,
    /// Less gas than the transaction needs before its first instruction, the floor for calldata included.
    #[error("intrinsic gas too low")]
    GasTooLow,
    #[error("gas above the limit of a block or a transaction")]
    GasTooHigh,
    #[error("the transaction pool is full")]
    PoolFull,
    #[error("signed for another chain or by nobody")]
    BadSignature,
    #[error("unknown block")]
    UnknownBlock,
    #[error("execution reverted ({} bytes)", .0.len())]
    Reverted(Bytes),
    /// The call needs more gas than it was given.
    #[error("out of gas")]
    OutOfGas,
    #[error("rate limited")]
    RateLimited,
    #[error("range or result too large")]
    TooMuch,
    #[error("method not supported")]
    NotSupported,
    /// An unknown error; the text is shortened and free of addresses of the node.
    #[error("{0}")]
    Other(String),
}

/// The meanings of errors, each with the code that is enough by itself, if there is one, and its phrases in lower case.
///
/// The first match counts. Order matters where one phrase contains another: a refused replacement also speaks of a price
/// that is too low.
const MEANINGS: &[(Refusal, Option<i64>, &[&str])] = &[
    (Refusal::OutOfGas, None, &["out of gas", "outofgas", "gas required exceeds"]),
    (
        Refusal::AlreadyKnown,
        None,
        &[
            "already known",
            "alreadyknown",
            "already imported",
            "known transaction",
            "already exists",
            "already in the pool",
            "already in mempool",
            "existing tx with same hash",
        ],
    ),
    (
        Refusal::NonceTooLow,
        None,
        &[
            "nonce too low",
            "nonce is too low",
            "oldnonce",
            "ownnoncealreadyused",
            "nonce has already been used",
            "nonce is below sender account nonce",
        ],
    ),
    (
        Refusal::NonceTooHigh,
        None,
        &["nonce too high", "noncegap", "noncetoofarinfuture", "nonce too distant", "nonce too far", "gapped-nonce"],
    ),
    (
        Refusal::ReplacementUnderpriced,
        None,
        &[
            "replacement",
            "could not replace existing",
            "another transaction with same nonce",
            "feetoolowtocompete",
            "future transaction tries to replace",
        ],
    ),
    (
        Refusal::InsufficientFunds,
        None,
        &["insufficient funds", "insufficientfunds", "upfront cost exceeds", "insufficient balance", "lack of funds"],
    ),
    (
        Refusal::GasTooLow,
        None,
        &[
            "intrinsic gas",
            "floor data gas",
            "gas floor",
            "callgascostmorethangaslimit",
            "gas limit is too low",
            "gaslimittoolow",
        ],
    ),
    (
        Refusal::GasTooHigh,
        None,
        &[
            "exceeds block gas limit",
            "gaslimitexceeded",
            "gas limit too high",
            "exceeds max transaction gas",
            "caller gas limit",
        ],
    ),
    (Refusal::FeeTooHigh, None, &["exceeds the configured cap", "fee cap exceeded", "higher than max fee per gas"]),
    (
        Refusal::FeeTooLow,
        None,
        &[
            "underpriced",
            "less than block base fee",
            "below configured minimum",
            "feetoolow",
            "fee too low",
            "gas price too low",
            "gas price supplied is too low",
            "lower than the minimum",
            "base fee exceeds gas limit",
        ],
    ),
    (
        Refusal::PoolFull,
        None,
        &[
            "pool is full",
            "too many transactions in the queue",
            "account limit exceeded",
            "limit reached for delegated",
        ],
    ),
    (
        Refusal::BadSignature,
        None,
        &[
            "invalid sender",
            "invalid chain id",
            "wrong chain",
            "chain id mismatch",
            "incompatible eip-155",
            "invalid signature",
        ],
    ),
    (
        Refusal::UnknownBlock,
        None,
        &[
            "header not found",
            "unknown block",
            "block not found",
            "header for hash not found",
            "hash is not currently canonical",
            "missing trie node",
            "blockoutofrange",
            "block height is",
            "not yet available",
            "could not find block",
            "resource not found",
        ],
    ),
    (
        Refusal::RateLimited,
        Some(429),
        &["rate limit", "ratelimit", "too many requests", "request count exceeded", "capacity exceeded", "throughput"],
    ),
    (
        Refusal::TooMuch,
        None,
        &[
            "more than 10000 results",
            "block range",
            "response size",
            "result set too large",
            "logs matched",
            "too large",
        ],
    ),
    (
        Refusal::NotSupported,
        Some(-32601),
        &["method not found", "does not exist/is not available", "not supported", "unsupported method"],
    ),
];

/// The code of a revert, and its phrases where a node gives it another code.
const REVERT_CODE: i64 = 3;
const REVERT_PHRASES: &[&str] = &["execution reverted", "vm execution error", "reverted", "revert:"];

/// Classifies a JSON-RPC error, across the implementations we meet. Everyone else matches on the enum.
pub fn understand(code: i64, message: &str, data: Option<&Bytes>) -> Refusal {
    let text = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if code == REVERT_CODE || says(REVERT_PHRASES) {
        return Refusal::Reverted(data.cloned().unwrap_or_default());
    }
    let meaning = MEANINGS.iter().find(|(_, own_code, phrases)| *own_code == Some(code) || says(phrases));
    meaning.map_or_else(|| Refusal::Other(shown(message)), |(refusal, ..)| refusal.clone())
}

/// A node's own words, short enough for a log line; links are cut because they may name a private endpoint.
pub(crate) fn shown(message: &str) -> String {
    const MAX_TEXT_LEN: usize = 200;
    message
        .split_whitespace()
        .map(|word| if word.contains("://") { "(link)" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MAX_TEXT_LEN)
        .collect()
}

#[cfg(test)]
mod tests;
