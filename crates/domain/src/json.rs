//! JSON, as `serde_json` writes it, for what is written with every quote: its answer and its row.
//!
//! Nearly no text of ours has a character that must be escaped. So a text is looked through sixteen bytes at a time and
//! copied whole; letter by letter it was a seventh of all that a quote took. There are no floats here.

use std::fmt::{self, Write as _};

use serde::{Serialize, ser};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJson(String);

impl ser::Error for NotJson {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// `room` is about how long it will be.
pub fn write(value: &impl Serialize, room: usize) -> Result<Vec<u8>, NotJson> {
    let mut writer = Writer { out: Vec::with_capacity(room), verbatim: false, figure: false };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

#[derive(Debug)]
struct Writer {
    out: Vec<u8>,
    /// The next text is JSON already.
    verbatim: bool,
    /// What comes is a figure, whose bytes are written as they are.
    figure: bool,
}

/// The name under which figures hand themselves over. They are half of all texts of a quote: nothing in them has to be
/// escaped, nor looked through for what would be no text.
pub(crate) const FIGURE: &str = "$causeway::figure";

/// The name under which `serde_json` hands over what is JSON already; a test would notice another.
const RAW: &str = "$serde_json::private::RawValue";

fn must_escape(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Whether nothing in it must be escaped.
fn is_plain(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<16>();
    // Without a way out in the middle, so that it is done for all sixteen at once.
    let plain = |block: &[u8]| !block.iter().fold(false, |found, byte| found | must_escape(*byte));
    let (halves, rest) = rest.as_chunks::<8>();
    blocks.iter().all(|block| plain(block)) && halves.iter().all(|half| plain(half)) && plain(rest)
}

impl Writer {
    #[inline]
    fn quoted(&mut self, text: &str) {
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

    fn whole(&mut self, number: impl Into<u64>) -> Result<(), NotJson> {
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

    fn display(&mut self, value: impl fmt::Display) -> Result<(), NotJson> {
        write!(Letters(self), "{value}").map_err(ser::Error::custom)
    }

    #[inline]
    fn open(&mut self, start: &[u8], end: &'static [u8]) -> Open<'_> {
        self.out.extend_from_slice(start);
        Open { writer: self, first: true, end }
    }

    /// An object whose one member is named after a variant.
    fn variant(&mut self, variant: &str, start: &[u8], end: &'static [u8]) -> Open<'_> {
        self.out.push(b'{');
        self.quoted(variant);
        self.out.push(b':');
        self.open(start, end)
    }
}

/// What is formatted, escaped as it comes.
struct Letters<'a>(&'a mut Writer);

impl fmt::Write for Letters<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.text(text);
        Ok(())
    }
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = NotJson;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), NotJson> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), NotJson> {
        self.display(value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), NotJson> {
        self.display(value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), NotJson> {
        self.display(value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), NotJson> {
        self.display(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), NotJson> {
        self.whole(value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), NotJson> {
        self.whole(value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), NotJson> {
        self.whole(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), NotJson> {
        self.whole(value)
    }

    fn serialize_f32(self, _: f32) -> Result<(), NotJson> {
        Err(ser::Error::custom("floats are not written"))
    }

    fn serialize_f64(self, _: f64) -> Result<(), NotJson> {
        Err(ser::Error::custom("floats are not written"))
    }

    fn serialize_char(self, value: char) -> Result<(), NotJson> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), NotJson> {
        if std::mem::take(&mut self.verbatim) {
            self.out.extend_from_slice(value.as_bytes());
        } else {
            self.quoted(value);
        }
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), NotJson> {
        if !self.figure {
            return self.collect_seq(value);
        }
        self.out.push(b'"');
        self.out.extend_from_slice(value);
        self.out.push(b'"');
        Ok(())
    }

    fn is_human_readable(&self) -> bool {
        !self.figure
    }

    fn serialize_none(self) -> Result<(), NotJson> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotJson> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NotJson> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), NotJson> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), NotJson> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), NotJson> {
        self.figure = name == FIGURE;
        let done = value.serialize(&mut *self);
        self.figure = false;
        done
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotJson> {
        let Open { writer, end, .. } = self.variant(variant, b"", b"}");
        value.serialize(&mut *writer)?;
        writer.out.extend_from_slice(end);
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'a>, NotJson> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'a>, NotJson> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, NotJson> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, NotJson> {
        Ok(self.variant(variant, b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'a>, NotJson> {
        Ok(self.open(b"{", b"}"))
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Open<'a>, NotJson> {
        self.verbatim = name == RAW;
        Ok(if self.verbatim { self.open(b"", b"") } else { self.open(b"{", b"}") })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, NotJson> {
        Ok(self.variant(variant, b"{", b"}}"))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), NotJson> {
        self.out.push(b'"');
        self.display(value)?;
        self.out.push(b'"');
        Ok(())
    }
}

/// A list or an object that is not closed yet.
#[derive(Debug)]
struct Open<'a> {
    writer: &'a mut Writer,
    first: bool,
    end: &'static [u8],
}

impl Open<'_> {
    #[inline]
    fn comma(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(b',');
        }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.comma();
        value.serialize(&mut *self.writer)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), NotJson> {
        if !self.writer.verbatim {
            // The name of a field, or what one of ours is renamed to.
            debug_assert!(is_plain(name.as_bytes()));
            let out = &mut self.writer.out;
            match std::mem::take(&mut self.first) {
                true => out.push(b'"'),
                false => out.extend_from_slice(b",\""),
            }
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
        }
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn close(self) {
        self.writer.out.extend_from_slice(self.end);
    }
}

impl ser::SerializeSeq for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.item(value)
    }

    fn end(self) -> Result<(), NotJson> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeTuple for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.item(value)
    }

    fn end(self) -> Result<(), NotJson> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeTupleStruct for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.item(value)
    }

    fn end(self) -> Result<(), NotJson> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeTupleVariant for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.item(value)
    }

    fn end(self) -> Result<(), NotJson> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotJson> {
        self.comma();
        let from = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        match self.writer.out.get(from) {
            Some(b'"') => Ok(()),
            _ => Err(ser::Error::custom("a name must be text")),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), NotJson> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeStruct for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), NotJson> {
        self.member(name, value)
    }

    #[inline]
    fn end(self) -> Result<(), NotJson> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeStructVariant for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), NotJson> {
        self.member(name, value)
    }

    fn end(self) -> Result<(), NotJson> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use alloy_primitives::U256;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::digits::Digits;

    fn written(value: &impl Serialize) -> String {
        String::from_utf8(write(value, 0).unwrap()).unwrap()
    }

    #[derive(Serialize)]
    enum Shape {
        Nothing,
        One(u8),
        Two(i64, bool),
        Named { a: Option<char>, b: () },
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Everything<'a> {
        some_text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<u8>,
        none: Option<u8>,
        shapes: Vec<Shape>,
        pair: (u16, i32),
        raw: &'a RawValue,
        raws: [&'a RawValue; 2],
        map: BTreeMap<String, u64>,
        numbers: (u8, u16, u32, u64),
        empty: [u8; 0],
        formatted: fmt::Arguments<'a>,
        figures: [Digits; 2],
        bytes: Bytes,
        #[serde(flatten)]
        more: More,
    }

    #[derive(Serialize)]
    struct More {
        signed: i8,
        newtype: Newtype,
    }

    #[derive(Serialize)]
    struct Newtype(i16);

    /// What is bytes stays a list of them beside a figure.
    struct Bytes;

    impl Serialize for Bytes {
        fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            assert!(serializer.is_human_readable());
            serializer.serialize_bytes(b"12")
        }
    }

    #[test]
    fn every_shape_is_written_as_serde_json_writes_it() {
        let raw = RawValue::from_string(r#"{"a": ["\"", 1e3]}"#.to_owned()).unwrap();
        let everything = Everything {
            some_text: "a \"b\"",
            absent: None,
            none: None,
            shapes: vec![
                Shape::Nothing,
                Shape::One(1),
                Shape::Two(i64::MIN, true),
                Shape::Named { a: Some('\n'), b: () },
                Shape::Named { a: None, b: () },
            ],
            pair: (u16::MAX, -1),
            raw: &raw,
            raws: [&raw, &raw],
            map: [("x\u{1}".to_owned(), u64::MAX), ("y".to_owned(), 0)].into(),
            numbers: (0, 9, 10, 10_000_000_000_000_000_000),
            empty: [],
            formatted: format_args!("{}\t{}", 1, "\\"),
            figures: [Digits::of(U256::MAX), Digits::scaled(U256::from(1500), 3).negative(true)],
            bytes: Bytes,
            more: More { signed: -7, newtype: Newtype(-300) },
        };
        assert_eq!(written(&everything), serde_json::to_string(&everything).unwrap());
    }

    #[test]
    fn what_is_no_json_is_refused() {
        assert!(write(&1.5, 0).is_err());
        assert!(write(&BTreeMap::from([(1, 2)]), 0).is_err());
    }

    #[test]
    fn each_byte_is_escaped_wherever_it_stands() {
        for byte in (0u8..0x80).map(char::from) {
            for before in 0..34 {
                let text = format!("{}{byte}{}", "a".repeat(before), "é".repeat(34 - before));
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap(), "{byte:?} {before}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_writes_it(text: String) {
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
