//! JSON, as `serde_json` writes it, for the answer of a quote.
//!
//! Nearly no text of ours has a character that must be escaped. So a text is looked through sixteen bytes at a time and
//! copied whole; letter by letter it was a seventh of all that a quote took. There are no floats here.

use std::fmt::{self, Write as _};

use serde::{Serialize, ser};

use super::open::Open;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotJson(String);

impl ser::Error for NotJson {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// `room` is about how long it will be.
pub(crate) fn write(value: &impl Serialize, room: usize) -> Result<Vec<u8>, NotJson> {
    let mut writer = Writer { out: Vec::with_capacity(room), bytes: Bytes::List };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) out: Vec<u8>,
    pub(super) bytes: Bytes,
}

/// How the next bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// As a list of numbers.
    List,
    /// As a text in which nothing must be escaped.
    Figure,
    /// As they are.
    Json,
}

fn must_escape(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Nothing in the text must be escaped.
pub(super) fn is_plain(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<16>();
    // Without a way out in the middle, so that it is done for all sixteen at once.
    let plain = |block: &[u8]| !block.iter().fold(false, |found, byte| found | must_escape(*byte));
    let (halves, rest) = rest.as_chunks::<8>();
    blocks.iter().all(|block| plain(block)) && halves.iter().all(|half| plain(half)) && plain(rest)
}

impl Writer {
    #[inline]
    pub(super) fn quoted(&mut self, text: &str) {
        self.out.push(b'"');
        self.text(text);
        self.out.push(b'"');
    }

    #[inline]
    fn text(&mut self, text: &str) {
        if is_plain(text.as_bytes()) {
            self.out.extend_from_slice(text.as_bytes());
        } else {
            text.bytes().for_each(|byte| self.byte(byte));
        }
    }

    fn byte(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0c => b'f',
            0x0d => b'r',
            _ if must_escape(byte) => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                self.out.extend_from_slice(b"\\u00");
                return self.out.extend_from_slice(&digits);
            }
            _ => return self.out.push(byte),
        };
        self.out.extend_from_slice(&[b'\\', short]);
    }

    pub(super) fn whole(&mut self, number: impl Into<u64>) -> Result<(), NotJson> {
        let (mut digits, mut from, mut rest) = ([0; 20], 20, number.into());
        loop {
            from -= 1;
            digits[from] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                self.out.extend_from_slice(&digits[from..]);
                return Ok(());
            }
        }
    }

    pub(super) fn display(&mut self, value: impl fmt::Display) -> Result<(), NotJson> {
        write!(Letters(self), "{value}").map_err(ser::Error::custom)
    }

    #[inline]
    pub(super) fn open(&mut self, start: &[u8], end: &'static [u8]) -> Open<'_> {
        self.out.extend_from_slice(start);
        Open { writer: self, first: true, end }
    }

    /// An object whose one member is named after a variant.
    pub(super) fn variant(&mut self, variant: &str, start: &[u8], end: &'static [u8]) -> Open<'_> {
        self.out.push(b'{');
        self.quoted(variant);
        self.out.push(b':');
        self.open(start, end)
    }
}

/// Formatted text, escaped as it comes.
struct Letters<'a>(&'a mut Writer);

impl fmt::Write for Letters<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.text(text);
        Ok(())
    }
}
