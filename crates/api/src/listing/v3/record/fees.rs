//! The fees of a request and who pays them: as quoted, and as they turned out.

use domain::catalog::Catalog;
use domain::ledger;
use domain::money::{Amount, OutOfRange, Signed, UsdMicros};
use domain::sponsorship::{Component, Sponsorship};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use store::listing::Listed;
use utoipa::ToSchema;

use crate::json::Figure;
use crate::listing::figures::{Figures, Priced};
use crate::listing::members::fees::{self, FeeParts};
use crate::wire::{CurrencyBody, Dollars};

/// An amount whose currency is named one level up.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(as = BareAmount, rename_all = "camelCase")]
pub(super) struct Bare {
    #[schema(value_type = String)]
    amount: Signed,
    #[schema(value_type = String)]
    amount_formatted: u8,
    #[schema(value_type = String)]
    amount_usd: UsdMicros,
    #[schema(value_type = String)]
    minimum_amount: Signed,
}

impl Bare {
    fn new(currency: Priced<'_>, amount: Signed, usd: UsdMicros) -> Self {
        Self { amount, amount_formatted: currency.currency.decimals, amount_usd: usd, minimum_amount: amount }
    }
}

impl Serialize for Bare {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_struct("BareAmount", 4)?;
        body.serialize_field("amount", &Figure(self.amount.digits()))?;
        body.serialize_field("amountFormatted", &Figure(self.amount.scaled(self.amount_formatted)))?;
        body.serialize_field("amountUsd", &Dollars(self.amount_usd))?;
        body.serialize_field("minimumAmount", &Figure(self.minimum_amount.digits()))?;
        body.end()
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeesV3)]
pub(super) struct FeesV3<'a> {
    quoted: FeeParts,
    actual: FeeParts,
    #[schema(value_type = CurrencyBody<'a>)]
    currency: CurrencyBody<'a>,
}

impl<'a> FeesV3<'a> {
    pub(super) fn new(listed: &'a Listed, figures: &Figures<'a>) -> Result<Self, OutOfRange> {
        let [quoted, actual] = fees::both(listed, figures)?;
        Ok(Self { quoted, actual, currency: figures.deposit.currency.currency().into() })
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AppFeesV3)]
pub(super) struct AppFees<'a> {
    quoted: Vec<AppFeeQuoted>,
    actual: Vec<AppFeePaid>,
    currency: CurrencyBody<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppFeeQuotedV3)]
pub(super) struct AppFeeQuoted {
    recipient: String,
    bps: String,
    amount: String,
    amount_formatted: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppFeePaidV3)]
pub(super) struct AppFeePaid {
    #[serde(flatten)]
    fee: AppFeeQuoted,
    #[schema(value_type = String)]
    amount_usd: Dollars,
}

impl<'a> AppFees<'a> {
    pub(super) fn new(listed: &'a Listed, figures: &Figures<'a>) -> Result<Self, OutOfRange> {
        let quote = &listed.request.quote;
        let decimals = figures.deposit.currency.decimals;
        let body = |recipient, bps: u16, amount: Amount| AppFeeQuoted {
            recipient: format!("{recipient:#x}"),
            bps: bps.to_string(),
            amount: amount.to_string(),
            amount_formatted: amount.formatted(decimals),
        };
        let asked = &quote.ask.options.app_fees;
        let quoted = asked.iter().zip(&quote.figures.fees.app);
        let paid =
            listed.outcome.iter().flat_map(|outcome| asked.iter().zip(&outcome.app_fees).map(move |it| (outcome, it)));
        let actual = paid.map(|(outcome, (asked, paid))| {
            let amount_usd = Dollars(outcome.price.usd_floor(paid.amount, decimals)?);
            Ok(AppFeePaid { fee: body(paid.recipient, asked.bps, paid.amount), amount_usd })
        });
        Ok(Self {
            quoted: quoted.map(|(asked, amount)| body(asked.recipient, asked.bps, *amount)).collect(),
            actual: actual.collect::<Result<_, _>>()?,
            currency: figures.deposit.currency.currency().into(),
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeeSponsorshipV3)]
pub(super) struct SponsorshipV3<'a> {
    quoted: Phase,
    actual: ActualPhase<'a>,
    currency: CurrencyBody<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorshipPhaseV3)]
pub(super) struct Phase {
    /// `execution`, `swap`, `platform`, `app`, `rent`.
    selected_components: Vec<&'static str>,
    /// Millionths of a dollar.
    #[schema(required = true)]
    max_subsidization_amount: Option<String>,
    cap_hit: bool,
    components: Components,
    sponsored_total: Bare,
    user_pays_total: Bare,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorshipOutcomeV3)]
pub(super) struct ActualPhase<'a> {
    #[serde(flatten)]
    phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    sponsor_payment: Option<SponsorPayment<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorPaymentV3)]
pub(super) struct SponsorPayment<'a> {
    amount: String,
    address: &'a str,
    chain_id: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SponsorshipComponentsV3)]
pub(super) struct Components {
    execution: BucketV3,
    swap: BucketV3,
    platform: BucketV3,
    app: BucketV3,
    rent: BucketV3,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorshipBucketV3)]
pub(super) struct BucketV3 {
    selected: bool,
    total: Bare,
    sponsored: Bare,
    user_pays: Bare,
}

impl<'a> SponsorshipV3<'a> {
    /// None where no sponsor was asked for.
    pub(super) fn new(
        listed: &'a Listed,
        figures: &Figures<'a>,
        catalog: &'a Catalog,
    ) -> Result<Option<Self>, OutOfRange> {
        let Some(asked) = &listed.request.quote.figures.sponsorship else { return Ok(None) };
        let quoted = Phase::new(asked, figures.deposit)?;
        let turned_out = listed.outcome.as_ref().and_then(|outcome| Some((outcome, outcome.sponsored.as_ref()?)));
        let actual = match (turned_out, ledger::currency_of(catalog)) {
            (Some((outcome, it)), Some(usdc)) => ActualPhase {
                phase: Phase::new(&it.fees, Priced { price: outcome.price, ..figures.deposit })?,
                sponsor_payment: Some(SponsorPayment {
                    amount: it.payment.in_units(usdc.decimals)?.to_string(),
                    address: usdc.address.text(),
                    chain_id: usdc.chain.0,
                }),
            },
            _ => ActualPhase { phase: Phase::new(asked, figures.deposit)?, sponsor_payment: None },
        };
        Ok(Some(Self { quoted, actual, currency: figures.deposit.currency.currency().into() }))
    }
}

/// The name of a component in v3, which calls the relay's part the platform's.
const fn name(component: Component) -> &'static str {
    match component {
        Component::Relay => "platform",
        other => other.as_str(),
    }
}

impl Phase {
    fn new(sponsorship: &Sponsorship, currency: Priced<'_>) -> Result<Self, OutOfRange> {
        let mut totals = (UsdMicros::default(), UsdMicros::default());
        let mut bucket = |component: Component| -> Result<BucketV3, OutOfRange> {
            let bucket = sponsorship.bucket(component);
            let total = currency.usd_signed(bucket.total)?;
            let sponsored = currency.usd_signed(Signed::cost(bucket.sponsored))?;
            totals = (totals.0.checked_add(total)?, totals.1.checked_add(sponsored)?);
            Ok(BucketV3 {
                selected: sponsorship.ask.selected().contains(&component),
                total: Bare::new(currency, bucket.total, total),
                sponsored: Bare::new(currency, Signed::cost(bucket.sponsored), sponsored),
                user_pays: Bare::new(currency, bucket.user_pays()?, total.checked_sub(sponsored)?),
            })
        };
        let components = Components {
            execution: bucket(Component::Execution)?,
            swap: bucket(Component::Swap)?,
            platform: bucket(Component::Relay)?,
            app: bucket(Component::App)?,
            rent: bucket(Component::Rent)?,
        };
        let (total, sponsored) = totals;
        let by_user = sponsorship.user_pays_total()?;
        Ok(Self {
            selected_components: sponsorship.ask.selected().iter().copied().map(name).collect(),
            max_subsidization_amount: sponsorship.ask.cap.map(|cap| cap.0.to_string()),
            cap_hit: sponsorship.cap_hit,
            components,
            sponsored_total: Bare::new(currency, Signed::cost(sponsorship.sponsored_total()?), sponsored),
            user_pays_total: Bare::new(currency, by_user, total.checked_sub(sponsored)?),
        })
    }
}
