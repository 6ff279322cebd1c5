//! The part of a request's fees that is the platform's and its integrator's, for the integrator.

use domain::catalog::Class;
use domain::money::{Amount, OutOfRange, Ratio};
use domain::pair::Pair;
use serde::Serialize;
use store::listing::Listed;
use utoipa::ToSchema;

use crate::listing::figures::Figures;
use crate::wire::AmountBody;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PlatformFee)]
pub(crate) struct PlatformFee<'a> {
    /// The class of the two currencies, by which the fee goes: `stable`, `major` or `minor`.
    bucket: &'static str,
    /// Null: there are no rules but the classes.
    #[schema(required = true)]
    rule_id: Option<&'static str>,
    /// Null where there is none, or several.
    #[schema(required = true)]
    integrator_fee_recipient: Option<String>,
    relay_fee_bps: u64,
    integrator_fee_bps: u64,
    total_fee_bps: u64,
    relay_fee: AmountBody<'a>,
    integrator_fee: AmountBody<'a>,
    total_platform_fee: AmountBody<'a>,
}

impl<'a> PlatformFee<'a> {
    pub(crate) fn new(listed: &Listed, figures: &Figures<'a>) -> Result<Self, OutOfRange> {
        let quote = &listed.request.quote;
        let (fees, asked) = (&quote.figures.fees, &quote.ask.options.app_fees);
        let (relay, app) = (fees.relay, fees.app_total()?);
        let bucket = match Pair::of(&figures.origin.currency, &figures.destination.currency).class {
            Class::Stable => "stable",
            Class::Major => "major",
            Class::Minor => "minor",
        };
        let relay_bps = bps(relay, quote.figures.deposit)?;
        let app_bps = asked.iter().fold(0u64, |sum, fee| sum.saturating_add(fee.bps.into()));
        Ok(Self {
            bucket,
            rule_id: None,
            integrator_fee_recipient: match asked.as_slice() {
                [only] => Some(format!("{:#x}", only.recipient)),
                _ => None,
            },
            relay_fee_bps: relay_bps,
            integrator_fee_bps: app_bps,
            total_fee_bps: relay_bps.saturating_add(app_bps),
            relay_fee: figures.deposit.amount(relay)?,
            integrator_fee: figures.deposit.amount(app)?,
            total_platform_fee: figures.deposit.amount(relay.checked_add(app)?)?,
        })
    }
}

/// A fee as a part of the deposit. Fees were rounded up, so this is rounded down.
fn bps(fee: Amount, deposit: Amount) -> Result<u64, OutOfRange> {
    if deposit.is_zero() {
        return Ok(0);
    }
    let bps = Amount::new(alloy_primitives::U256::from(10_000)).mul_floor(Ratio::new(fee.units(), deposit.units())?)?;
    u64::try_from(bps.units()).map_err(|_| OutOfRange)
}
