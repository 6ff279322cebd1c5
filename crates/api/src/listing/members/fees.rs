//! The parts of a request's price: as quoted, and as they turned out.

use domain::money::{Amount, OutOfRange, Price, Signed, UsdMicros};
use domain::quote::Quote;
use domain::sponsorship::{Component, Sponsorship};
use serde::Serialize;
use store::listing::Listed;
use utoipa::ToSchema;

use crate::json::Figure;
use crate::listing::figures::{Figures, Priced};
use crate::wire::Dollars;

/// A part of the price: dollars with the sign of what it means for the user, and its size.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FeeV3)]
pub(crate) struct Fee {
    #[schema(value_type = String)]
    pub usd: Dollars,
    #[schema(value_type = String)]
    amount: Figure,
    #[schema(value_type = String)]
    amount_formatted: Figure,
}

impl Fee {
    fn new(currency: Priced<'_>, size: Amount, usd: UsdMicros) -> Self {
        let size = Signed::cost(size);
        let formatted = size.scaled(currency.currency.decimals);
        Self { usd: Dollars(usd), amount: Figure(size.digits()), amount_formatted: Figure(formatted) }
    }
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = FeePartsV3)]
pub(crate) struct FeeParts {
    pub swap: Fee,
    pub execution: Fee,
    pub platform: Fee,
    pub app: Fee,
    pub sponsored: Fee,
}

/// The sizes of a request's fees, in the currency of its deposit.
struct Sizes {
    execution: Amount,
    platform: Amount,
    app: Amount,
    sponsored: Amount,
}

/// As quoted, and as they turned out.
pub(crate) fn both(listed: &Listed, figures: &Figures<'_>) -> Result<[FeeParts; 2], OutOfRange> {
    let quote = &listed.request.quote;
    let fees = &quote.figures.fees;
    let sponsorship = quote.figures.sponsorship.as_ref();
    let sizes = Sizes {
        execution: fees.execution()?,
        platform: fees.relay,
        app: fees.app_total()?,
        sponsored: sponsorship.map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?,
    };
    let quoted = parts(quote, figures, &sizes, figures.deposit.price)?;
    let actual = match listed.outcome.as_ref() {
        None => quoted,
        Some(outcome) => {
            let paid = outcome.app_fees.iter().try_fold(Amount::ZERO, |sum, fee| sum.checked_add(fee.amount))?;
            let turned_out = outcome.sponsored.as_ref().map(|it| &it.fees);
            let execution = |it: &Sponsorship| it.bucket(Component::Execution).total.size();
            let sizes = Sizes {
                execution: turned_out.map_or(sizes.execution, execution),
                platform: sizes.platform,
                app: paid,
                sponsored: turned_out.map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?,
            };
            parts(quote, figures, &sizes, outcome.price)?
        }
    };
    Ok([quoted, actual])
}

fn parts(quote: &Quote, figures: &Figures<'_>, sizes: &Sizes, price: Price) -> Result<FeeParts, OutOfRange> {
    let deposit = Priced { price, ..figures.deposit };
    let amounts = &quote.figures;
    let total = figures.destination.usd(amounts.output)?.checked_sub(figures.origin.usd(amounts.input)?)?;
    let usd = |size: Amount| deposit.usd_signed(Signed::cost(size));
    let charged = usd(sizes.execution)?.checked_add(usd(sizes.platform)?)?.checked_add(usd(sizes.app)?)?;
    // The residual, so that the parts always sum to the whole.
    let swap = total.checked_add(charged)?.checked_sub(usd(sizes.sponsored)?)?;
    let swap_size = deposit.price.amount_floor(UsdMicros(swap.0.saturating_abs()), deposit.currency.decimals)?;
    let cost = |size: Amount| -> Result<Fee, OutOfRange> {
        Ok(Fee::new(deposit, size, UsdMicros::default().checked_sub(usd(size)?)?))
    };
    Ok(FeeParts {
        swap: Fee::new(deposit, swap_size, swap),
        execution: cost(sizes.execution)?,
        platform: cost(sizes.platform)?,
        app: cost(sizes.app)?,
        sponsored: Fee::new(deposit, sizes.sponsored, usd(sizes.sponsored)?),
    })
}
