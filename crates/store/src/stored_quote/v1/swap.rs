//! A trade on pools, within a stored quote.

use std::borrow::Cow;

use alloy_primitives::Address;
use domain::money::Amount;
use domain::{quote as rules, swap};
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::super::text::{Hex, Text};

/// Written as a list, whose order never changes.
#[derive(Debug, Deserialize)]
pub struct Swap<'a> {
    path: Path<'a>,
    input: Text<Amount>,
    output: Text<Amount>,
    bound: Bound,
}

as_list!(Swap<'_> { path, input, output, bound });

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Bound {
    LeastOutput(Text<Amount>),
    MostInput(Text<Amount>),
}

impl<'a> From<&'a rules::Swap> for Swap<'a> {
    fn from(rules::Swap { path, input, output, bound }: &'a rules::Swap) -> Self {
        let bound = match *bound {
            rules::Bound::LeastOutput(least) => Bound::LeastOutput(Text(least)),
            rules::Bound::MostInput(most) => Bound::MostInput(Text(most)),
        };
        Self { path: Path(Cow::Borrowed(path)), input: Text(*input), output: Text(*output), bound }
    }
}

impl From<Swap<'_>> for rules::Swap {
    fn from(Swap { path, input, output, bound }: Swap<'_>) -> Self {
        let bound = match bound {
            Bound::LeastOutput(Text(least)) => rules::Bound::LeastOutput(least),
            Bound::MostInput(Text(most)) => rules::Bound::MostInput(most),
        };
        Self { path: path.0.into_owned(), input: input.0, output: output.0, bound }
    }
}

/// Written as a list, whose order never changes.
#[derive(Debug)]
struct Path<'a>(Cow<'a, swap::Path>);

impl Serialize for Path<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (Tokens(self.0.tokens()), self.0.fees()).serialize(serializer)
    }
}

struct Tokens<'a>(&'a [Address]);

impl Serialize for Tokens<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().copied().map(Hex))
    }
}

impl<'de> Deserialize<'de> for Path<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Members {
            tokens: Vec<Address>,
            fees: Vec<u32>,
        }
        let Members { tokens, fees } = Members::deserialize(deserializer)?;
        swap::Path::new(tokens, fees).map(|path| Self(Cow::Owned(path))).map_err(Error::custom)
    }
}
