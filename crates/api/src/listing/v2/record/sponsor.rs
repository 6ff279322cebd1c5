//! Sponsors of a request's fees, as v2 shows them.

use domain::catalog::{Catalog, Currency};
use domain::ledger;
use domain::money::{Amount, OutOfRange};
use serde::Serialize;
use store::listing::Listed;
use utoipa::ToSchema;

use super::Reading;
use super::fees::outcome;
use crate::listing::figures::Figures;
use crate::quote::sponsor::SponsorshipBody;
use crate::wire::{Amounts, Dollars};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SubsidizedFeeV2)]
pub(crate) struct SubsidizedFee<'a> {
    /// The sponsor's part, in the fee currency.
    origin: AmountOf<'a>,
    /// The charge to the sponsor's balance: nothing until the fill is made.
    sponsor: AmountOf<'a>,
    #[schema(value_type = String)]
    amount_usd: Dollars,
    #[schema(value_type = String)]
    amount_usd_current: Dollars,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AmountOfV2)]
pub(crate) struct AmountOf<'a> {
    amount: String,
    /// The currency's.
    address: &'a str,
    chain_id: u64,
}

impl<'a> AmountOf<'a> {
    fn new(currency: &'a Currency, amount: Amount) -> Self {
        Self { amount: amount.to_string(), address: currency.address.text(), chain_id: currency.chain.0 }
    }
}

/// None where no sponsor pays.
pub(super) fn sponsored<'a>(
    listed: &Listed,
    figures: &Figures<'a>,
    reading: Reading<'a>,
) -> Result<Option<SubsidizedFee<'a>>, OutOfRange> {
    let Some(asked) = &listed.request.quote.figures.sponsorship else { return Ok(None) };
    let Some(usdc) = ledger::currency_of(reading.view.catalog) else { return Ok(None) };
    let turned_out = outcome(listed).and_then(|outcome| outcome.sponsored.as_ref());
    let amount = turned_out.map_or(asked, |it| &it.fees).sponsored_total()?;
    if amount.is_zero() {
        return Ok(None);
    }
    let charged = turned_out.map_or(Ok(Amount::ZERO), |it| it.payment.in_units(usdc.decimals))?;
    Ok(Some(SubsidizedFee {
        origin: AmountOf::new(figures.deposit.currency.currency(), amount),
        sponsor: AmountOf::new(usdc, charged),
        amount_usd: Dollars(figures.deposit.usd(amount)?),
        amount_usd_current: Dollars(reading.usd_now(figures.deposit, amount)?),
    }))
}

/// As quoted and, once the fill is made, as it turned out. None where no sponsor was asked for.
pub(super) fn phases<'a>(
    listed: &Listed,
    figures: &Figures<'a>,
    catalog: &'a Catalog,
) -> Result<Option<SponsorshipBody<'a>>, OutOfRange> {
    let Some(asked) = &listed.request.quote.figures.sponsorship else { return Ok(None) };
    let (currency, price) = (figures.deposit.currency, figures.deposit.price);
    let body = SponsorshipBody::new(asked, currency, price, &mut Amounts::default())?;
    match (outcome(listed), ledger::currency_of(catalog)) {
        (Some(outcome), Some(usdc)) => body.turned_out(outcome, currency, usdc).map(Some),
        _ => Ok(Some(body)),
    }
}
