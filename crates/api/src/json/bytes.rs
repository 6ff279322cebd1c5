//! Bytes as hex text with its prefix: calldata is the longest text of an answer, and half of it where pools are on the
//! way.

use std::io::{Result, Write};

use alloy_primitives::hex;
use serde::ser::{Serialize, Serializer};
use serde_json::ser::Formatter;

/// For ids, addresses and calldata that stay bytes until they are written. Only an [`Answer`](super::Answer) writes
/// them as text: in a text `serde_json` looks at every byte for one to escape, and there is none in hex.
pub(crate) fn bytes<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes.as_ref())
}

/// Compact JSON, whose bytes are hex text.
#[derive(Debug)]
struct HexBytes;

impl Formatter for HexBytes {
    fn write_byte_array<W: ?Sized + Write>(&mut self, writer: &mut W, bytes: &[u8]) -> Result<()> {
        const CHUNK: usize = 128;
        let mut digits = [0; 2 * CHUNK];
        writer.write_all(b"\"0x")?;
        for chunk in bytes.chunks(CHUNK) {
            let digits = &mut digits[..2 * chunk.len()];
            hex::encode_to_slice(chunk, digits).expect("there are two digits for each byte");
            writer.write_all(digits)?;
        }
        writer.write_all(b"\"")
    }
}

pub(super) fn write(out: &mut Vec<u8>, body: &impl Serialize) -> serde_json::Result<()> {
    body.serialize(&mut serde_json::Serializer::with_formatter(out, HexBytes))
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{B256, Bytes};
    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    struct Call {
        #[serde(serialize_with = "bytes")]
        id: B256,
        #[serde(serialize_with = "bytes")]
        data: Bytes,
        value: &'static str,
    }

    #[test]
    fn bytes_are_hex_with_its_prefix_whatever_their_length() {
        for length in [0, 1, 4, 31, 32, 33, 127, 128, 129, 4096] {
            let (id, data) = (B256::repeat_byte(0xa7), (0..length).map(|n| (n % 251) as u8).collect::<Bytes>());
            let mut text = Vec::new();
            write(&mut text, &Call { id, data: data.clone(), value: "\"1\"" }).unwrap();
            let expected = format!(r#"{{"id":"{id}","data":"{data}","value":"\"1\""}}"#);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
