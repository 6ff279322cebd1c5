//! One row of a result, read by position. A column of another type is an error, not a default.

use alloy_primitives::{Address, B256};
use domain::ids::{OrderId, RequestId};
use domain::time::Timestamp;

use crate::{StoreError, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    values: Vec<Value>,
}

macro_rules! optional {
    ($($optional:ident $required:ident $type:ty;)*) => {
        $(pub fn $optional(&self, index: usize) -> Result<Option<$type>, StoreError> {
            match self.values.get(index) {
                Some(Value::Null) => Ok(None),
                _ => self.$required(index).map(Some),
            }
        })*
    };
}

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self { values }
    }

    pub fn int(&self, index: usize) -> Result<i64, StoreError> {
        match self.values.get(index) {
            Some(Value::Int(value)) => Ok(*value),
            _ => Err(self.mismatch(index, "an integer")),
        }
    }

    /// A count or an id that is never negative.
    pub fn uint(&self, index: usize) -> Result<u64, StoreError> {
        u64::try_from(self.int(index)?).map_err(|_| self.mismatch(index, "an unsigned integer"))
    }

    pub fn u32(&self, index: usize) -> Result<u32, StoreError> {
        u32::try_from(self.int(index)?).map_err(|_| self.mismatch(index, "a 32-bit unsigned integer"))
    }

    pub fn bool(&self, index: usize) -> Result<bool, StoreError> {
        match self.values.get(index) {
            // SQLite has no boolean type.
            Some(Value::Bool(_) | Value::Int(0 | 1)) => {
                Ok(matches!(self.values[index], Value::Bool(true) | Value::Int(1)))
            }
            _ => Err(self.mismatch(index, "a boolean")),
        }
    }

    pub fn text(&self, index: usize) -> Result<&str, StoreError> {
        match self.values.get(index) {
            Some(Value::Text(value)) => Ok(value),
            _ => Err(self.mismatch(index, "text")),
        }
    }

    pub fn bytes(&self, index: usize) -> Result<&[u8], StoreError> {
        match self.values.get(index) {
            Some(Value::Bytes(value)) => Ok(value),
            _ => Err(self.mismatch(index, "bytes")),
        }
    }

    pub fn b256(&self, index: usize) -> Result<B256, StoreError> {
        B256::try_from(self.bytes(index)?).map_err(|_| self.mismatch(index, "32 bytes"))
    }

    pub fn address(&self, index: usize) -> Result<Address, StoreError> {
        Address::try_from(self.bytes(index)?).map_err(|_| self.mismatch(index, "20 bytes"))
    }

    pub fn request_id(&self, index: usize) -> Result<RequestId, StoreError> {
        self.b256(index).map(RequestId)
    }

    pub fn order_id(&self, index: usize) -> Result<OrderId, StoreError> {
        self.b256(index).map(OrderId)
    }

    pub fn time(&self, index: usize) -> Result<Timestamp, StoreError> {
        self.int(index).map(Timestamp::from_millis)
    }

    optional! {
        opt_int int i64;
        opt_uint uint u64;
        opt_bool bool bool;
        opt_text text &str;
        opt_bytes bytes &[u8];
        opt_b256 b256 B256;
        opt_address address Address;
        opt_request_id request_id RequestId;
        opt_order_id order_id OrderId;
        opt_time time Timestamp;
    }

    fn mismatch(&self, index: usize, wanted: &'static str) -> StoreError {
        let found = self.values.get(index).map_or("absent", Value::kind);
        StoreError::Column { index, wanted, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_another_type_is_an_error() {
        let row = Row::new(vec![Value::Int(-1), Value::Null, Value::Bytes(vec![1; 31])]);
        for error in [
            row.uint(0).unwrap_err(),
            row.text(0).map(drop).unwrap_err(),
            row.bool(0).unwrap_err(),
            row.int(1).unwrap_err(),
            row.b256(2).unwrap_err(),
            row.address(2).unwrap_err(),
            row.opt_int(2).unwrap_err(),
            row.opt_int(3).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Column { .. }), "{error}");
        }
        assert_eq!(row.opt_text(1).unwrap(), None);
        assert_eq!(row.opt_int(0).unwrap(), Some(-1));
    }
}
