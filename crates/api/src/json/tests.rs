use std::collections::BTreeMap;
use std::fmt;

use alloy_primitives::U256;
use domain::digits::Digits;
use proptest::prelude::*;
use serde::{Serialize, ser};
use serde_json::value::RawValue;

use super::verbatim::{Figure, WrittenJson};
use super::writer::write;

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
    raw: &'a WrittenJson,
    raws: [&'a WrittenJson; 2],
    map: BTreeMap<String, u64>,
    numbers: (u8, u16, u32, u64),
    empty: [u8; 0],
    formatted: fmt::Arguments<'a>,
    figures: [Figure; 2],
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

/// Bytes stay a list of them beside a figure.
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
    let raw = WrittenJson::new(&raw).unwrap();
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
        figures: [Digits::of(U256::MAX), Digits::scaled(U256::from(1500), 3).negative(true)].map(Figure),
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
