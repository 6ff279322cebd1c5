//! The refusals of nodes, and the one place that understands what nodes say in prose.

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
    /// Above the node's own ceiling for what a transaction may cost.
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

/// Classifies a JSON-RPC error, across the implementations we meet. Everyone else matches on the enum.
///
/// Order matters where one phrase contains another: a refused replacement also speaks of a price that is too low.
pub fn understand(code: i64, message: &str, data: Option<&Bytes>) -> Refusal {
    let text = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));

    if code == 3 || says(&["execution reverted", "vm execution error", "reverted", "revert:"]) {
        return Refusal::Reverted(data.cloned().unwrap_or_default());
    }
    if says(&["out of gas", "outofgas", "gas required exceeds"]) {
        return Refusal::OutOfGas;
    }
    if says(&[
        "already known",
        "alreadyknown",
        "already imported",
        "known transaction",
        "already exists",
        "already in the pool",
        "already in mempool",
        "existing tx with same hash",
    ]) {
        return Refusal::AlreadyKnown;
    }
    if says(&[
        "nonce too low",
        "nonce is too low",
        "oldnonce",
        "ownnoncealreadyused",
        "nonce has already been used",
        "nonce is below sender account nonce",
    ]) {
        return Refusal::NonceTooLow;
    }
    if says(&[
        "nonce too high",
        "noncegap",
        "noncetoofarinfuture",
        "nonce too distant",
        "nonce too far",
        "gapped-nonce",
    ]) {
        return Refusal::NonceTooHigh;
    }
    if says(&[
        "replacement",
        "could not replace existing",
        "another transaction with same nonce",
        "feetoolowtocompete",
        "future transaction tries to replace",
    ]) {
        return Refusal::ReplacementUnderpriced;
    }
    if says(&[
        "insufficient funds",
        "insufficientfunds",
        "upfront cost exceeds",
        "insufficient balance",
        "lack of funds",
    ]) {
        return Refusal::InsufficientFunds;
    }
    if says(&[
        "intrinsic gas",
        "floor data gas",
        "gas floor",
        "callgascostmorethangaslimit",
        "gas limit is too low",
        "gaslimittoolow",
    ]) {
        return Refusal::GasTooLow;
    }
    if says(&[
        "exceeds block gas limit",
        "gaslimitexceeded",
        "gas limit too high",
        "exceeds max transaction gas",
        "caller gas limit",
    ]) {
        return Refusal::GasTooHigh;
    }
    if says(&["exceeds the configured cap", "fee cap exceeded", "higher than max fee per gas"]) {
        return Refusal::FeeTooHigh;
    }
    if says(&[
        "underpriced",
        "less than block base fee",
        "below configured minimum",
        "feetoolow",
        "fee too low",
        "gas price too low",
        "gas price supplied is too low",
        "lower than the minimum",
        "base fee exceeds gas limit",
    ]) {
        return Refusal::FeeTooLow;
    }
    if says(&[
        "pool is full",
        "too many transactions in the queue",
        "account limit exceeded",
        "limit reached for delegated",
    ]) {
        return Refusal::PoolFull;
    }
    if says(&[
        "invalid sender",
        "invalid chain id",
        "wrong chain",
        "chain id mismatch",
        "incompatible eip-155",
        "invalid signature",
    ]) {
        return Refusal::BadSignature;
    }
    if says(&[
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
    ]) {
        return Refusal::UnknownBlock;
    }
    if code == 429
        || says(&[
            "rate limit",
            "ratelimit",
            "too many requests",
            "request count exceeded",
            "capacity exceeded",
            "throughput",
        ])
    {
        return Refusal::RateLimited;
    }
    if says(&[
        "more than 10000 results",
        "block range",
        "response size",
        "result set too large",
        "logs matched",
        "too large",
    ]) {
        return Refusal::TooMuch;
    }
    if code == -32601
        || says(&["method not found", "does not exist/is not available", "not supported", "unsupported method"])
    {
        return Refusal::NotSupported;
    }
    Refusal::Other(shown(message))
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
