//! Lists and objects as they are written.

use serde::{Serialize, ser};

use super::writer::{NotJson, Writer, is_plain};

/// A list or an object that is not closed yet.
#[derive(Debug)]
pub(super) struct Open<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) first: bool,
    pub(super) end: &'static [u8],
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
        // The name of a field, or what one of ours is renamed to.
        debug_assert!(is_plain(name.as_bytes()));
        let out = &mut self.writer.out;
        match std::mem::take(&mut self.first) {
            true => out.push(b'"'),
            false => out.extend_from_slice(b",\""),
        }
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
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
