//! The argument values of statements: the few types common to both engines.
//!
//! A boolean column is declared `boolean` and tested with `where flag`; SQLite keeps it as 0 or 1. On-chain amounts are
//! decimal text. There are no floats.

use alloy_primitives::{Address, B256, FixedBytes};
use domain::ids::{ClaimId, OrderId, PayoutNonce, RequestId, SweepId};
use domain::time::Timestamp;

use crate::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Int(_) => "an integer",
            Self::Bool(_) => "a boolean",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
        }
    }
}

macro_rules! from {
    ($($type:ty => $value:ident $into:expr;)*) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $into
            }
        })*
    };
}

from! {
    i64 => value Self::Int(value);
    i32 => value Self::Int(value.into());
    u32 => value Self::Int(value.into());
    u16 => value Self::Int(value.into());
    u8 => value Self::Int(value.into());
    bool => value Self::Bool(value);
    &str => value Self::Text(value.to_owned());
    String => value Self::Text(value);
    &String => value Self::Text(value.clone());
    &[u8] => value Self::Bytes(value.to_vec());
    Vec<u8> => value Self::Bytes(value);
    &Vec<u8> => value Self::Bytes(value.clone());
    B256 => value Self::Bytes(value.to_vec());
    &B256 => value Self::Bytes(value.to_vec());
    Address => value Self::Bytes(value.to_vec());
    &Address => value Self::Bytes(value.to_vec());
    FixedBytes<4> => value Self::Bytes(value.to_vec());
    [u8; 32] => value Self::Bytes(value.to_vec());
    RequestId => value Self::Bytes(value.as_slice().to_vec());
    OrderId => value Self::Bytes(value.as_slice().to_vec());
    ClaimId => value Self::Bytes(value.as_slice().to_vec());
    SweepId => value Self::Bytes(value.as_slice().to_vec());
    PayoutNonce => value Self::Bytes(value.as_slice().to_vec());
    Timestamp => value Self::Int(value.millis());
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Checked, because both engines have signed 64-bit integers.
impl TryFrom<u64> for Value {
    type Error = StoreError;

    fn try_from(value: u64) -> Result<Self, StoreError> {
        i64::try_from(value).map(Self::Int).map_err(|_| StoreError::OutOfRange("an unsigned integer"))
    }
}
