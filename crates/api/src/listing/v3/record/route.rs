//! The route of a request's money, as v3 shows it.

use domain::money::OutOfRange;
use serde::Serialize;
use store::listing::Listed;
use utoipa::ToSchema;

use crate::listing::figures::Figures;
use crate::listing::members::route::{ActualEnds, Ends, actual, oracle, quoted, rate, sources};
use crate::wire::{AmountBody, iso};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RouteV3)]
pub(super) struct RouteV3<'a> {
    included_swap_sources: Vec<&'static str>,
    included_origin_swap_sources: Vec<&'static str>,
    included_destination_swap_sources: Vec<&'static str>,
    quoted: Ends<'a>,
    actual: ActualEnds<'a>,
}

/// The prices that the quote went by.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OraclePriceV3)]
pub(super) struct OraclePrice<'a> {
    /// Output units per input unit.
    rate: String,
    observed_at: String,
    input_currency: AmountBody<'a>,
    output_currency: AmountBody<'a>,
}

impl<'a> RouteV3<'a> {
    pub(super) fn new(listed: &'a Listed, figures: &Figures<'a>) -> Result<Self, OutOfRange> {
        let quote = &listed.request.quote;
        let (origin_swap, destination_swap) = (quote.origin_swap.as_ref(), quote.destination_swap.as_ref());
        let quoted = quoted(listed, figures)?;
        let actual = actual(listed, figures, &quoted)?;
        let mut all = sources(origin_swap);
        all.extend(sources(destination_swap));
        all.dedup();
        Ok(Self {
            included_swap_sources: all,
            included_origin_swap_sources: sources(origin_swap),
            included_destination_swap_sources: sources(destination_swap),
            quoted,
            actual,
        })
    }
}

impl<'a> OraclePrice<'a> {
    /// None where one of the currencies has no price.
    pub(super) fn new(listed: &Listed, figures: &Figures<'a>) -> Result<Option<Self>, OutOfRange> {
        let Some((input, output)) = oracle(figures)? else { return Ok(None) };
        Ok(Some(Self {
            rate: rate(input, output, figures)?,
            observed_at: iso(listed.request.quote.created_at),
            input_currency: figures.origin.amount(input)?,
            output_currency: figures.destination.amount(output)?,
        }))
    }
}
