//! Column types of our own tables beyond the plain ones.

use alloy_primitives::B256;
use domain::ids::RequestId;
use domain::money::Amount;

use crate::{Row, StoreError, Value};

impl Row {
    /// An on-chain amount, stored as decimal text: it is never compared or summed in SQL.
    pub fn amount(&self, index: usize) -> Result<Amount, StoreError> {
        self.text(index)?.parse().map_err(|_| unknown(index, "an amount"))
    }

    /// The request that a payment is about: zero in its column where there is none.
    pub(crate) fn about(&self, index: usize) -> Result<Option<RequestId>, StoreError> {
        Ok(Some(self.request_id(index)?).filter(|id| !id.0.is_zero()))
    }
}

/// The column that [`Row::about`] reads.
pub(crate) fn about(request: Option<RequestId>) -> Value {
    request.map_or(B256::ZERO, |id| id.0).into()
}

/// The error for a column text that this build does not know.
pub(crate) fn unknown(index: usize, wanted: &'static str) -> StoreError {
    StoreError::Column { index, wanted, found: "another text" }
}

impl StoreError {
    /// The database was unreachable or overloaded, which says nothing about the unit: it may be retried later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Busy
            | Self::Timeout
            | Self::Closed
            | Self::Fenced { .. }
            | Self::CommitUnknown
            | Self::Contended { .. }
            | Self::Unavailable(_) => true,
            // A constraint or type error is about the row; every other error is about the database.
            Self::Sqlite(error) => {
                use rusqlite::ErrorCode::{ConstraintViolation, TypeMismatch};
                !matches!(error.sqlite_error_code(), None | Some(ConstraintViolation | TypeMismatch))
            }
            Self::Postgres(fault) => !fault
                .code
                .as_deref()
                .is_some_and(|code| ["22", "23", "42"].iter().any(|class| code.starts_with(class))),
            _ => false,
        }
    }
}
