//! Text that the writer copies without looking through it: figures, and JSON that is written already.
//!
//! Each hands its bytes over under a name that only the writer knows, which then says that it is not for people to read.
//! Any other serializer is given what it would expect.

use domain::digits::Digits;
use domain::money::{Amount, Signed};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

pub(super) const FIGURE: &str = "$causeway::figure";
pub(super) const JSON: &str = "$causeway::json";

/// Half of all texts of a quote are figures: nothing in them has to be escaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure(pub Digits);

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(FIGURE, &FigureBytes(&self.0))
    }
}

struct FigureBytes<'a>(&'a Digits);

impl Serialize for FigureBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(self.0.as_str()),
            false => serializer.serialize_bytes(self.0.as_bytes()),
        }
    }
}

/// For fields that stay an [`Amount`] until they are written.
pub(crate) fn amount<S: Serializer>(amount: &Amount, serializer: S) -> Result<S::Ok, S::Error> {
    signed(&Signed::cost(*amount), serializer)
}

/// For fields that stay a [`Signed`] until they are written.
pub(crate) fn signed<S: Serializer>(amount: &Signed, serializer: S) -> Result<S::Ok, S::Error> {
    Figure(amount.digits()).serialize(serializer)
}

/// JSON that is written already.
#[derive(Clone, Debug)]
pub(crate) struct WrittenJson(Box<RawValue>);

impl WrittenJson {
    pub(crate) fn new(value: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(Self)
    }
}

impl Serialize for WrittenJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(JSON, &JsonBytes(&self.0))
    }
}

struct JsonBytes<'a>(&'a RawValue);

impl Serialize for JsonBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => self.0.serialize(serializer),
            false => serializer.serialize_bytes(self.0.get().as_bytes()),
        }
    }
}
