//! The wordings of nodes, in lower case.

use super::Refusal;

/// Ways to say one thing. The code, if there is one, says it without words.
pub(super) struct Wording {
    pub meaning: Refusal,
    pub code: Option<i64>,
    pub phrases: &'static [&'static str],
}

/// Phrases for a revert, which carries data.
pub(super) const REVERTS: [&str; 4] = ["execution reverted", "vm execution error", "reverted", "revert:"];

/// Order matters where one phrase contains another: a refused replacement also speaks of a price that is too low.
pub(super) static WORDINGS: [Wording; 17] = [
    Wording { meaning: Refusal::OutOfGas, code: None, phrases: &["out of gas", "outofgas", "gas required exceeds"] },
    Wording {
        meaning: Refusal::AlreadyKnown,
        code: None,
        phrases: &[
            "already known",
            "alreadyknown",
            "already imported",
            "known transaction",
            "already exists",
            "already in the pool",
            "already in mempool",
            "existing tx with same hash",
        ],
    },
    Wording {
        meaning: Refusal::NonceTooLow,
        code: None,
        phrases: &[
            "nonce too low",
            "nonce is too low",
            "oldnonce",
            "ownnoncealreadyused",
            "nonce has already been used",
            "nonce is below sender account nonce",
        ],
    },
    Wording {
        meaning: Refusal::NonceTooHigh,
        code: None,
        phrases: &[
            "nonce too high",
            "noncegap",
            "noncetoofarinfuture",
            "nonce too distant",
            "nonce too far",
            "gapped-nonce",
        ],
    },
    Wording {
        meaning: Refusal::ReplacementUnderpriced,
        code: None,
        phrases: &[
            "replacement",
            "could not replace existing",
            "another transaction with same nonce",
            "feetoolowtocompete",
            "future transaction tries to replace",
        ],
    },
    Wording {
        meaning: Refusal::InsufficientFunds,
        code: None,
        phrases: &[
            "insufficient funds",
            "insufficientfunds",
            "upfront cost exceeds",
            "insufficient balance",
            "lack of funds",
        ],
    },
    Wording {
        meaning: Refusal::GasTooLow,
        code: None,
        phrases: &[
            "intrinsic gas",
            "floor data gas",
            "gas floor",
            "callgascostmorethangaslimit",
            "gas limit is too low",
            "gaslimittoolow",
        ],
    },
    Wording {
        meaning: Refusal::GasTooHigh,
        code: None,
        phrases: &[
            "exceeds block gas limit",
            "gaslimitexceeded",
            "gas limit too high",
            "exceeds max transaction gas",
            "caller gas limit",
        ],
    },
    Wording {
        meaning: Refusal::FeeTooHigh,
        code: None,
        phrases: &["exceeds the configured cap", "fee cap exceeded", "higher than max fee per gas"],
    },
    Wording {
        meaning: Refusal::FeeTooLow,
        code: None,
        phrases: &[
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
    },
    Wording {
        meaning: Refusal::PoolFull,
        code: None,
        phrases: &[
            "pool is full",
            "too many transactions in the queue",
            "account limit exceeded",
            "limit reached for delegated",
        ],
    },
    // Before "not supported", which is said of methods: a caller's transaction must not count as the fault of a node.
    Wording {
        meaning: Refusal::Authorizations,
        code: None,
        phrases: &[
            "authority already reserved",
            "authorization list",
            "authorization tuple",
            "eip-7702",
            "eip7702",
            "set code tx",
            "transaction type not supported",
            "invalid transaction type",
        ],
    },
    Wording {
        meaning: Refusal::BadSignature,
        code: None,
        phrases: &[
            "invalid sender",
            "invalid chain id",
            "wrong chain",
            "chain id mismatch",
            "incompatible eip-155",
            "invalid signature",
        ],
    },
    Wording {
        meaning: Refusal::UnknownBlock,
        code: None,
        phrases: &[
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
    },
    Wording {
        meaning: Refusal::RateLimited,
        code: Some(429),
        phrases: &[
            "rate limit",
            "ratelimit",
            "too many requests",
            "request count exceeded",
            "capacity exceeded",
            "throughput",
        ],
    },
    Wording {
        meaning: Refusal::TooMuch,
        code: None,
        phrases: &[
            "query returned more than",
            "too many results",
            "too many logs",
            "max results",
            "max logs",
            "logs is limited to",
            "maximum allowed number of",
            "block range",
            "response size",
            "result set too large",
            "logs matched",
            "too large",
        ],
    },
    Wording {
        meaning: Refusal::NotSupported,
        code: Some(-32601),
        phrases: &["method not found", "does not exist/is not available", "not supported", "unsupported method"],
    },
];
