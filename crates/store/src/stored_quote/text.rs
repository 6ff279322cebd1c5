//! Members that are one text: ids, addresses, amounts, prices, accounts.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::str::FromStr;

use alloy_primitives::{Address, B256, U256, hex};
use domain::account::{Account, Vm};
use domain::api_key::ApiKeyId;
use domain::digits::Digits;
use domain::fixed_rate::FixedRate;
use domain::money::{Amount, Price, Signed};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::ser::Formatter;

/// A row as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    /// More than most take.
    const INITIAL_CAPACITY: usize = 2 * 1024;
    let mut out = Vec::with_capacity(INITIAL_CAPACITY);
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, PlainTexts));
    written.expect("a row has no map, and memory does not fail");
    String::from_utf8(out).expect("JSON is text")
}

/// Compact JSON. A value that gives bytes gives the text between two quotes.
#[derive(Debug)]
struct PlainTexts;

impl Formatter for PlainTexts {
    fn write_byte_array<W: ?Sized + Write>(&mut self, writer: &mut W, bytes: &[u8]) -> io::Result<()> {
        writer.write_all(b"\"")?;
        writer.write_all(bytes)?;
        writer.write_all(b"\"")
    }
}

/// Digits, hex and the like, in one look at all bytes: `serde_json` looks at one after the other for one to escape.
/// Only [`to_json`] writes it as text.
pub(super) fn plain<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) & (byte != b'"') & (byte != b'\\');
    match text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        true => serializer.serialize_bytes(text.as_bytes()),
        false => serializer.serialize_str(text),
    }
}

/// An id or an address in hex.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Hex<T>(pub T);

impl Serialize for Hex<B256> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        plain(hex::Buffer::<32, true>::new().format(&self.0.0), serializer)
    }
}

impl Serialize for Hex<Address> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        plain(hex::Buffer::<20, true>::new().format(&self.0.0.0), serializer)
    }
}

/// A value in the one text it shows and parses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<T>(pub T);

impl Text<Amount> {
    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl Serialize for Text<Amount> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        plain(Digits::of(self.0.units()).as_str(), serializer)
    }
}

impl Serialize for Text<ApiKeyId> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for Text<FixedRate> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        borrowed(deserializer)?.parse().map(Self).map_err(Error::custom)
    }
}

/// The text where it stands, unless it has to be unescaped.
fn borrowed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
    Borrowed::deserialize(deserializer).map(|Borrowed(text)| text)
}

/// A cost, or with a sign in front a reward.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SignedText(pub Signed);

impl SignedText {
    pub(crate) fn is_zero(&self) -> bool {
        self.0 == Signed::ZERO
    }
}

impl Serialize for SignedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        plain(self.0.digits().as_str(), serializer)
    }
}

impl<'de> Deserialize<'de> for SignedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = borrowed(deserializer)?;
        let signed = match text.strip_prefix('-') {
            Some(size) => size.parse().map(Signed::reward),
            None => text.parse().map(Signed::cost),
        };
        signed.map(Self).map_err(Error::custom)
    }
}

/// As `answer:decimals`: every quote holds six of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriceText(pub Price);

impl Serialize for PriceText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Digits::of(U256::from(self.0.answer())).marked(':', self.0.decimals());
        plain(text.as_str(), serializer)
    }
}

impl<'de> Deserialize<'de> for PriceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = borrowed(deserializer)?;
        let parts =
            text.split_once(':').and_then(|(answer, decimals)| Some((answer.parse().ok()?, decimals.parse().ok()?)));
        let price = parts.and_then(|(answer, decimals)| Price::new(answer, decimals).ok());
        price.map(Self).ok_or_else(|| Error::custom("not a price"))
    }
}

/// An account as its caller wrote it.
#[derive(Clone, Debug)]
pub struct AccountText<'a>(Cow<'a, Account>);

impl<'a> From<&'a Account> for AccountText<'a> {
    fn from(account: &'a Account) -> Self {
        Self(Cow::Borrowed(account))
    }
}

impl From<AccountText<'_>> for Account {
    fn from(AccountText(account): AccountText<'_>) -> Self {
        account.into_owned()
    }
}

impl Serialize for AccountText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        plain(self.0.text(), serializer)
    }
}

impl<'de> Deserialize<'de> for AccountText<'_> {
    /// A stored account was valid when it was stored; its form tells which machine it belongs to.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = borrowed(deserializer)?;
        let account = [Vm::Evm, Vm::Venue, Vm::Svm].into_iter().find_map(|vm| Account::parse(vm, &text).ok());
        let account = account.ok_or_else(|| Error::custom("not an account of any known machine"))?;
        Ok(Self(Cow::Owned(account)))
    }
}
