//! The writer as a serializer.

use std::fmt;

use serde::{Serialize, ser};

use super::open::Open;
use super::verbatim::{FIGURE, JSON};
use super::writer::{Bytes, NotJson, Writer};

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
        self.quoted(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), NotJson> {
        match self.bytes {
            Bytes::List => return self.collect_seq(value),
            Bytes::Json => self.out.extend_from_slice(value),
            Bytes::Figure => {
                self.out.push(b'"');
                self.out.extend_from_slice(value);
                self.out.push(b'"');
            }
        }
        Ok(())
    }

    fn is_human_readable(&self) -> bool {
        self.bytes == Bytes::List
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
        self.bytes = match name {
            FIGURE => Bytes::Figure,
            JSON => Bytes::Json,
            _ => Bytes::List,
        };
        let done = value.serialize(&mut *self);
        self.bytes = Bytes::List;
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
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, NotJson> {
        Ok(self.open(b"{", b"}"))
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
