//! Version 1 of a stored quote.

use alloy_primitives::B256;
use domain::ids::RequestId;
use domain::quote as rules;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::text::Hex;

/// Writes a struct as a list of its members, in the order in which it declares and reads them.
macro_rules! as_list {
    ($type:ty { $($member:ident),+ $(,)? }) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Self { $($member),+ } = self;
                ($($member,)+).serialize(serializer)
            }
        }
    };
}

mod ask;
mod figures;
mod sponsor;
mod swap;
mod terms;

use ask::Ask;
use figures::Figures;
pub(crate) use sponsor::Sponsorship;
use swap::Swap;
pub(crate) use terms::Terms;
#[cfg(test)]
pub(crate) use {
    ask::Place,
    figures::Prices,
    sponsor::{Bucket, SponsorAsk},
};

pub(crate) const VERSION: u32 = 1;

/// The version of a row that names none.
pub(crate) fn version() -> u32 {
    VERSION
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Quote<'a> {
    #[serde(default = "version")]
    v: u32,
    id: Hex<B256>,
    #[serde(borrow)]
    ask: Ask<'a>,
    figures: Figures,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin_swap: Option<Swap<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination_swap: Option<Swap<'a>>,
    terms: Option<Terms<'a>>,
}

/// None where the text is no quote of this version.
pub(crate) fn read_quote(text: &str) -> Option<rules::Quote> {
    serde_json::from_str::<Quote<'_>>(text).ok().map(Into::into)
}

impl<'a> From<&'a rules::Quote> for Quote<'a> {
    fn from(quote: &'a rules::Quote) -> Self {
        let rules::Quote { id, ask, figures, created_at, origin_swap, destination_swap, terms } = quote;
        Self {
            v: VERSION,
            id: Hex(id.0),
            ask: ask.into(),
            figures: figures.into(),
            created_at: created_at.millis(),
            origin_swap: origin_swap.as_ref().map(Into::into),
            destination_swap: destination_swap.as_ref().map(Into::into),
            terms: terms.as_ref().map(Into::into),
        }
    }
}

impl From<Quote<'_>> for rules::Quote {
    fn from(quote: Quote<'_>) -> Self {
        let Quote { v: _, id, ask, figures, created_at, origin_swap, destination_swap, terms } = quote;
        Self {
            id: RequestId(id.0),
            ask: ask.into(),
            figures: figures.into(),
            created_at: Timestamp::from_millis(created_at),
            origin_swap: origin_swap.map(Into::into),
            destination_swap: destination_swap.map(Into::into),
            terms: terms.map(Into::into),
        }
    }
}
