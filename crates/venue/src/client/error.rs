//! Errors of the venue's API, and the one place that understands its codes and prose.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum VenueError {
    #[error("the venue cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("the venue answers with status {0}")]
    Failing(u16),
    /// The venue's own limit.
    #[error("the venue asks for a pause of {0:?}")]
    Busy(Duration),
    /// Our own limit, below the venue's.
    #[error("the quota of calls is used up for {0:?}")]
    QuotaUsed(Duration),
    #[error("the venue refuses with code {code}: {message}")]
    Refused { code: u64, message: String },
    #[error("the venue's answer has more than {0} bytes")]
    TooLarge(usize),
    #[error("the venue's answer cannot be read: {0}")]
    Invalid(&'static str),
    #[error("the venue's answer is not the JSON it should be")]
    Json(#[source] serde_json::Error),
    #[error("the base address of the venue takes no path")]
    BaseUrl,
}

/// The longest message that is kept of a refusal.
const MAX_MESSAGE: usize = 256;

const ACCOUNT_NOT_FOUND: u64 = 21_100;
const INVALID_NONCE: u64 = 21_104;
const TRANSACTION_NOT_FOUND: u64 = 21_500;

impl VenueError {
    pub(crate) fn refused(code: u64, message: &str) -> Self {
        let message = message.chars().filter(|char| !char.is_control()).take(MAX_MESSAGE).collect();
        Self::Refused { code, message }
    }

    /// The thing that was asked for does not exist, by the venue's word. A bare 404 is not its word: the path is wrong.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, message }
            if [ACCOUNT_NOT_FOUND, TRANSACTION_NOT_FOUND].contains(code) || message.contains("not found"))
    }

    /// The nonce is not the next one: it was used, perhaps by this very transaction, or one before it is missing.
    pub fn is_invalid_nonce(&self) -> bool {
        matches!(self, Self::Refused { code, message } if *code == INVALID_NONCE || message.contains("invalid nonce"))
    }

    /// Whether asking again may help.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Failing(_) => true,
            Self::Busy(_)
            | Self::QuotaUsed(_)
            | Self::Refused { .. }
            | Self::TooLarge(_)
            | Self::Invalid(_)
            | Self::Json(_)
            | Self::BaseUrl => false,
        }
    }
}
