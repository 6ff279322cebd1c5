//! Errors between us and a node.
//!
//! An endpoint is named by its host only: many providers put the key into the path or the query.

use std::fmt;
use std::time::Duration;

use alloy::primitives::B256;
use domain::ids::ChainId;

mod refusal;

pub use refusal::{Refusal, understand};

pub(crate) use refusal::shown;

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
    #[error("no two nodes of chain {0} show the same state of a block")]
    NotSeconded(ChainId),
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
            Self::NoEndpoint(_) | Self::Client(_) | Self::Undecodable(_) | Self::NotSeconded(_) => false,
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
            Self::Inconsistent { .. } | Self::NotSeconded(_) => "inconsistent",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_shown_without_its_secrets() {
        let url = "https://user:pass@rpc.example.com:8545/v3/0123456789abcdef?key=secret".parse().unwrap();
        let error = ChainError::Status { host: Host::of(&url), method: "eth_call", status: 500 };
        assert_eq!(error.to_string(), "rpc.example.com:8545 answered eth_call with HTTP status 500");
        assert!(!format!("{error:?}").contains("secret"));
    }
}
