//! Calldata as text. It is the longest text of an answer, and half of it where pools are on the way.

use alloy_primitives::{Bytes, hex};
use serde::ser::{Error, Serialize, Serializer};
use serde_json::value::RawValue;

/// For calldata that stays [`Bytes`] until it is written. It is handed over as finished JSON, which `serde_json` checks
/// eight bytes at a time: in a text it looks at every byte for one to escape, which takes three times as long.
pub(crate) fn calldata<S: Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    let digits = hex::encode(data);
    // Two quotes and the prefix.
    let mut text = String::with_capacity(digits.len() + 4);
    text.push_str("\"0x");
    text.push_str(&digits);
    text.push('"');
    RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Call {
        #[serde(serialize_with = "calldata")]
        data: Bytes,
    }

    #[test]
    fn calldata_is_hex_with_its_prefix_whatever_its_length() {
        for length in [0, 1, 4, 31, 32, 33, 4096] {
            let data = Bytes::from((0..length).map(|n| (n % 251) as u8).collect::<Vec<_>>());
            let call = Call { data: data.clone() };
            assert_eq!(serde_json::to_string(&call).unwrap(), format!(r#"{{"data":"{data}"}}"#));
            assert_eq!(serde_json::to_value(&call).unwrap(), json!({ "data": data.to_string() }));
        }
    }
}
