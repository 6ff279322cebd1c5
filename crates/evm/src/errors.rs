//! Errors between us and a node, and the one place that understands what nodes say in prose.
//!
//! An endpoint is named by its host only: many providers put the key into the path or the query.

use std::fmt;
use std::time::Duration;

use alloy::primitives::{B256, Bytes};
use domain::ids::ChainId;

#[derive(Clone, Debug, thiserror::Error)]
pub enum ChainError {
    #[error("chain {0} has no endpoint")]
    NoEndpoint(ChainId),
    #[error("the HTTP client could not be set up: {0}")]
    Client(String),
    #[error("{host} did not answer {method} within {after:?}")]
    Timeout { host: Host, method: &'static str, after: Duration },
    #[error("{host} could not be reached for {method}: {reason}")]
    Unreachable { host: Host, method: &'static str, reason: Unreachable },
    #[error("{host} answered {method} with HTTP status {status}")]
    Status { host: Host, method: &'static str, status: u16 },
    #[error("{host} answered {method} with something unreadable: {reason}")]
    Unreadable { host: Host, method: &'static str, reason: String },
    /// The node contradicts itself or the question: logs of another block, a block with another hash.
    #[error("{host} answered {method} for block {block} inconsistently: {reason}")]
    Inconsistent { host: Host, method: &'static str, block: B256, reason: &'static str },
    #[error("{host} refused {method}: {refusal}")]
    Refused { host: Host, method: &'static str, refusal: Refusal },
    #[error("the contract's answer to {0} does not decode")]
    Undecodable(&'static str),
}

impl ChainError {
    /// True when the endpoint is to blame and is better left alone for a while.
    pub fn is_endpoint_failure(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::Status { .. }
            | Self::Unreadable { .. }
            | Self::Inconsistent { .. } => true,
            Self::Refused { refusal, .. } => matches!(refusal, Refusal::RateLimited | Refusal::NotSupported),
            Self::NoEndpoint(_) | Self::Client(_) | Self::Undecodable(_) => false,
        }
    }

    /// True when every node would say the same, so asking another one is a waste of time.
    pub fn is_conclusive(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::Reverted(_) | Refusal::OutOfGas, .. })
    }

    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// One word for metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::NoEndpoint(_) | Self::Client(_) => "setup",
            Self::Timeout { .. } => "timeout",
            Self::Unreachable { .. } => "unreachable",
            Self::Status { .. } => "status",
            Self::Unreadable { .. } | Self::Undecodable(_) => "unreadable",
            Self::Inconsistent { .. } => "inconsistent",
            Self::Refused { .. } => "refused",
        }
    }
}

/// Logs that a node cannot have read in a block of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(pub &'static str);

/// The host and port of an endpoint, without user, path and query.
#[derive(Clone, PartialEq, Eq)]
pub struct Host(std::sync::Arc<str>);

impl Host {
    pub(crate) fn of(url: &url::Url) -> Self {
        let name = url.host_str().unwrap_or("?");
        match url.port() {
            Some(port) => Self(format!("{name}:{port}").into()),
            None => Self(name.into()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No connection: refused, no such name, TLS.
    Connect,
    /// The connection broke while asking or answering; the request may have arrived.
    Broken,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::Broken => "the connection broke",
        })
    }
}

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
mod tests {
    use super::*;

    #[test]
    fn nodes_are_understood_whatever_their_wording() {
        use Refusal::*;
        let table: &[(i64, &str, Refusal)] = &[
            // geth and its derivatives
            (-32000, "already known", AlreadyKnown),
            (-32000, "nonce too low: next nonce 5, tx nonce 3", NonceTooLow),
            (-32000, "nonce too high: address 0xab, tx: 9 state: 3", NonceTooHigh),
            (-32000, "replacement transaction underpriced", ReplacementUnderpriced),
            (-32000, "future transaction tries to replace pending", ReplacementUnderpriced),
            (-32000, "transaction underpriced: tip needed 1000000000, tip permitted 1", FeeTooLow),
            (-32000, "max fee per gas less than block base fee: address 0x1, maxFeePerGas: 1, baseFee: 7", FeeTooLow),
            (-32000, "tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", FeeTooHigh),
            (-32000, "insufficient funds for gas * price + value: balance 0, tx cost 5, overshot 5", InsufficientFunds),
            (-32000, "intrinsic gas too low: gas 21000, minimum needed 22280", GasTooLow),
            (-32000, "insufficient gas for floor data gas cost: gas 21000, minimum needed 22280", GasTooLow),
            (-32000, "exceeds block gas limit", GasTooHigh),
            (-32000, "transaction gas limit too high (cap: 16777216, tx: 30000000)", GasTooHigh),
            (-32000, "txpool is full", PoolFull),
            (-32000, "in-flight transaction limit reached for delegated accounts", PoolFull),
            (-32000, "invalid chain id for signer: have 1 want 2", BadSignature),
            (-32000, "header not found", UnknownBlock),
            (-32000, "unknown block", UnknownBlock),
            (-32000, "missing trie node 0xabc (path )", UnknownBlock),
            (3, "execution reverted: ERC20: transfer amount exceeds balance", Reverted(Bytes::new())),
            (-32000, "out of gas", OutOfGas),
            (-32000, "gas required exceeds allowance (30000)", OutOfGas),
            (-32601, "the method eth_foo does not exist/is not available", NotSupported),
            // anvil
            (-32003, "transaction already imported", AlreadyKnown),
            (-32003, "Out of gas: gas required exceeds allowance: 30000", OutOfGas),
            (-32603, "EVM error OutOfGas", OutOfGas),
            (-32003, "nonce too low", NonceTooLow),
            (-32003, "Insufficient funds for gas * price + value", InsufficientFunds),
            (-32003, "intrinsic gas too low", GasTooLow),
            (-32003, "max fee per gas less than block base fee", FeeTooLow),
            (-32003, "replacement transaction underpriced", ReplacementUnderpriced),
            (-32602, "BlockOutOfRangeError: block height is 3 but requested was 9", UnknownBlock),
            (-32001, "Resource not found", UnknownBlock),
            // erigon
            (-32000, "existing tx with same hash", AlreadyKnown),
            (-32000, "ALREADY_EXISTS: already known", AlreadyKnown),
            (-32000, "could not replace existing tx", ReplacementUnderpriced),
            (-32000, "INTERNAL_ERROR: nonce too low", NonceTooLow),
            (-32000, "fee too low", FeeTooLow),
            // nethermind
            (-32010, "AlreadyKnown", AlreadyKnown),
            (-32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 3", NonceTooLow),
            (-32010, "OwnNonceAlreadyUsed", NonceTooLow),
            (-32010, "NonceGap, Future nonce. Expected nonce: 3", NonceTooHigh),
            (-32010, "ReplacementNotAllowed", ReplacementUnderpriced),
            (-32010, "FeeTooLowToCompete", ReplacementUnderpriced),
            (-32010, "FeeTooLow, MaxFeePerGas too low", FeeTooLow),
            (-32010, "InsufficientFunds, Account balance: 0", InsufficientFunds),
            (-32010, "GasLimitExceeded, Gas limit: 5", GasTooHigh),
            (-32001, "Header for hash not found", UnknownBlock),
            // besu
            (-32000, "Known transaction", AlreadyKnown),
            (-32001, "Transaction nonce is below sender account nonce", NonceTooLow),
            (-32004, "Upfront cost exceeds account balance", InsufficientFunds),
            (-32003, "Intrinsic gas exceeds gas limit", GasTooLow),
            (-32009, "Gas price below configured minimum gas price", FeeTooLow),
            // older nodes
            (-32010, "Transaction with the same hash was already imported.", AlreadyKnown),
            (-32010, "Transaction nonce is too low. Try incrementing the nonce.", NonceTooLow),
            (
                -32010,
                "There is another transaction with same nonce in the queue. Try increasing the fee",
                ReplacementUnderpriced,
            ),
            // providers
            (-32005, "daily request count exceeded, request rate limited", RateLimited),
            (429, "Your app has exceeded its compute units per second capacity", RateLimited),
            (-32005, "query returned more than 10000 results", TooMuch),
            (-32602, "Log response size exceeded", TooMuch),
            (-32600, "Too Many Requests", RateLimited),
            (-32603, "internal error", Other("internal error".into())),
        ];
        for (code, message, meaning) in table {
            assert_eq!(&understand(*code, message, None), meaning, "{message}");
        }
    }

    #[test]
    fn a_revert_keeps_its_data() {
        let data = Bytes::from_static(&[0x49, 0x48, 0x2b, 0x28]);
        assert_eq!(understand(3, "execution reverted", Some(&data)), Refusal::Reverted(data));
    }

    #[test]
    fn an_endpoint_is_shown_without_its_secrets() {
        let url = "https://user:pass@rpc.example.com:8545/v3/0123456789abcdef?key=secret".parse().unwrap();
        let error = ChainError::Status { host: Host::of(&url), method: "eth_call", status: 500 };
        assert_eq!(error.to_string(), "rpc.example.com:8545 answered eth_call with HTTP status 500");
        assert!(!format!("{error:?}").contains("secret"));
    }

    #[test]
    fn unknown_prose_is_shortened_and_loses_links() {
        let said = format!("upgrade at https://rpc.example.com/KEY now {}", "x".repeat(500));
        let Refusal::Other(text) = understand(-32000, &said, None) else { panic!("understood nonsense") };
        assert!(text.starts_with("upgrade at (link) now x") && text.len() == 200);
    }
}
