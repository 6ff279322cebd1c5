//! The refusals of nodes, and the one place that understands what nodes say in prose.

use alloy::primitives::Bytes;

mod wordings;

use wordings::{REVERTS, WORDINGS};

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
    /// Transactions of this type are not taken, or these authorizations are not: an authority may have another one in
    /// the pool.
    #[error("transaction type or authorizations not taken")]
    Authorizations,
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

impl Refusal {
    /// True if the transaction itself is refused, whatever its fees and its turn: waiting does not mend it.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::GasTooLow
            | Self::GasTooHigh
            | Self::BadSignature
            | Self::Authorizations
            | Self::Reverted(_)
            | Self::OutOfGas => true,
            Self::AlreadyKnown
            | Self::NonceTooLow
            | Self::NonceTooHigh
            | Self::ReplacementUnderpriced
            | Self::FeeTooLow
            | Self::FeeTooHigh
            | Self::InsufficientFunds
            | Self::PoolFull
            | Self::UnknownBlock
            | Self::RateLimited
            | Self::TooMuch
            | Self::NotSupported
            | Self::Other(_) => false,
        }
    }
}

/// Classifies a JSON-RPC error, across the implementations we meet. Everyone else matches on the enum.
pub fn understand(code: i64, message: &str, data: Option<&Bytes>) -> Refusal {
    let text = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if code == 3 || says(&REVERTS) {
        return Refusal::Reverted(data.cloned().unwrap_or_default());
    }
    let wording = WORDINGS.iter().find(|wording| wording.code == Some(code) || says(wording.phrases));
    wording.map_or_else(|| Refusal::Other(shown(message)), |wording| wording.meaning.clone())
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
