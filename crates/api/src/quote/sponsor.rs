//! Sponsorship in a quote: the caller's wish for it, and how it is shown.

use domain::catalog::Currency;
use domain::fixed_rate::FixedRate;
use domain::money::{OutOfRange, Price, Signed, UsdMicros};
use domain::outcome::Outcome;
use domain::sponsorship::{Component, NotSponsored, SponsorAsk, Sponsorship};
use serde::Serialize;
use utoipa::ToSchema;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::quote::body::whole;
use crate::wire::{AmountBody, Amounts, Shown, WrittenAmount};

/// The members of a body about sponsorship, as they came.
pub(crate) struct Asked<'a> {
    pub subsidize: bool,
    pub components: Option<&'a [String]>,
    pub cap: Option<&'a str>,
    pub fixed_rate: Option<&'a str>,
}

impl Asked<'_> {
    pub(crate) fn read(self, caller: &Caller) -> Result<(Option<SponsorAsk>, Option<FixedRate>), ApiError> {
        let bad = |field, problem: &str| ApiError::Parameter { field, problem: problem.to_owned() };
        let fixed_rate = self.fixed_rate.map(str::parse::<FixedRate>).transpose();
        let fixed_rate = fixed_rate.map_err(|error| ApiError::FixedRate { problem: error.to_string() })?;
        if !self.subsidize {
            if fixed_rate.is_some() {
                return Err(ApiError::FixedRate { problem: "needs subsidizeFees".to_owned() });
            }
            // Each has no effect alone, which the caller should hear.
            if self.components.is_some_and(|list| !list.is_empty()) {
                return Err(bad("sponsoredFeeComponents", "needs subsidizeFees"));
            }
            if self.cap.is_some() {
                return Err(bad("maxSubsidizationAmount", "needs subsidizeFees"));
            }
            return Ok((None, None));
        }
        let components = match self.components {
            // An empty list is a choice as well: nothing is sponsored.
            None => Component::DEFAULT.to_vec(),
            Some(names) => names
                .iter()
                .map(|name| Component::ALL.into_iter().find(|component| component.as_str() == name))
                .collect::<Option<_>>()
                .ok_or_else(|| bad("sponsoredFeeComponents", "must be of execution, swap, relay, app and rent"))?,
        };
        let micros = |text| whole(text).and_then(|micros| i64::try_from(micros).ok()).map(UsdMicros);
        let cap = match self.cap {
            None => None,
            Some(text) => Some(
                micros(text)
                    .ok_or_else(|| bad("maxSubsidizationAmount", "must be millionths of a dollar, as decimal text"))?,
            ),
        };
        // Whose balance it is is known by the key.
        let key = caller.key().ok_or(ApiError::KeyRequired { field: "subsidizeFees" })?;
        let wallet = key.wallet.ok_or(ApiError::Forbidden("subsidizeFees: no wallet is linked to this key"))?;
        Ok((Some(SponsorAsk::new(wallet, components, cap)), fixed_rate))
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FeeSponsorship)]
pub(crate) struct SponsorshipBody<'a> {
    quoted: PhaseBody<'a>,
    /// How it turned out, once the fill is made. A quote does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    actual: Option<ActualBody<'a>>,
    #[schema(value_type = AmountBody<'a>)]
    sponsored_total: WrittenAmount<'a>,
    #[schema(value_type = AmountBody<'a>)]
    user_pays_total: WrittenAmount<'a>,
    /// Why nothing is sponsored. Absent where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_sponsored_reason: Option<&'static str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorshipOutcome)]
pub(crate) struct ActualBody<'a> {
    #[serde(flatten)]
    phase: PhaseBody<'a>,
    sponsor_payment: SponsorPayment<'a>,
}

/// The charge to the sponsor's balance, in the balance's currency.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorPayment)]
pub(crate) struct SponsorPayment<'a> {
    amount: String,
    address: &'a str,
    chain_id: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorshipPhase)]
pub(crate) struct PhaseBody<'a> {
    selected_components: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_subsidization_amount: Option<String>,
    cap_hit: bool,
    components: ComponentsBody<'a>,
    #[schema(value_type = AmountBody<'a>)]
    sponsored_total: WrittenAmount<'a>,
    #[schema(value_type = AmountBody<'a>)]
    user_pays_total: WrittenAmount<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SponsorshipComponents)]
pub(crate) struct ComponentsBody<'a> {
    execution: BucketBody<'a>,
    swap: BucketBody<'a>,
    relay: BucketBody<'a>,
    app: BucketBody<'a>,
    rent: BucketBody<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SponsorshipBucket)]
pub(crate) struct BucketBody<'a> {
    selected: bool,
    #[schema(value_type = AmountBody<'a>)]
    total: WrittenAmount<'a>,
    #[schema(value_type = AmountBody<'a>)]
    sponsored: WrittenAmount<'a>,
    #[schema(value_type = AmountBody<'a>)]
    user_pays: WrittenAmount<'a>,
}

/// The name of a reason why nothing is sponsored.
fn reason(refused: NotSponsored) -> &'static str {
    match refused {
        NotSponsored::SameChain => "SAME_CHAIN",
        NotSponsored::BalanceTooLow => "SPONSOR_BALANCE_TOO_LOW",
        NotSponsored::NothingSelected => "NO_COMPONENTS",
        NotSponsored::CapTooLow => "CAP_TOO_LOW",
        NotSponsored::NothingCharged => "NO_FEES",
    }
}

/// The sponsor's payment, in dollars: the sum of what is shown for each bucket.
pub(crate) fn sponsored_usd(sponsorship: &Sponsorship, price: Price, decimals: u8) -> Result<UsdMicros, OutOfRange> {
    sum(sponsorship.buckets.iter().map(|bucket| price.usd_floor(bucket.sponsored, decimals)))
}

fn sum(mut parts: impl Iterator<Item = Result<UsdMicros, OutOfRange>>) -> Result<UsdMicros, OutOfRange> {
    parts.try_fold(UsdMicros::default(), |sum, part| sum.checked_add(part?))
}

impl<'a> SponsorshipBody<'a> {
    pub(crate) fn new(
        sponsorship: &Sponsorship,
        currency: Shown<'a>,
        price: Price,
        amounts: &mut Amounts<'a>,
    ) -> Result<Self, OutOfRange> {
        let quoted = PhaseBody::new(sponsorship, currency, price, amounts)?;
        let (sponsored_total, user_pays_total) = (quoted.sponsored_total.clone(), quoted.user_pays_total.clone());
        let not_sponsored_reason = sponsorship.refused.map(reason);
        Ok(Self { quoted, actual: None, sponsored_total, user_pays_total, not_sponsored_reason })
    }

    /// With what the fill came to. `usdc` is the currency of the balance.
    pub(crate) fn turned_out(
        self,
        outcome: &Outcome,
        currency: Shown<'a>,
        usdc: &'a Currency,
    ) -> Result<Self, OutOfRange> {
        let Some(sponsored) = &outcome.sponsored else { return Ok(self) };
        let phase = PhaseBody::new(&sponsored.fees, currency, outcome.price, &mut Amounts::default())?;
        let sponsor_payment = SponsorPayment {
            amount: sponsored.payment.in_units(usdc.decimals)?.to_string(),
            address: usdc.address.text(),
            chain_id: usdc.chain.0,
        };
        Ok(Self { actual: Some(ActualBody { phase, sponsor_payment }), ..self })
    }
}

impl<'a> PhaseBody<'a> {
    fn new(
        sponsorship: &Sponsorship,
        currency: Shown<'a>,
        price: Price,
        amounts: &mut Amounts<'a>,
    ) -> Result<Self, OutOfRange> {
        let usd = |amount: Signed| price.usd_signed(amount, currency.decimals);
        // Nothing is selected of which nothing is sponsored.
        let selected = if sponsorship.refused.is_some() { &[] } else { sponsorship.ask.selected() };
        let mut bucket = |component: Component| -> Result<BucketBody<'a>, OutOfRange> {
            let bucket = sponsorship.bucket(component);
            let (total, sponsored) = (usd(bucket.total)?, usd(Signed::cost(bucket.sponsored))?);
            Ok(BucketBody {
                selected: selected.contains(&component),
                total: amounts.write(AmountBody::signed(currency, bucket.total, total))?,
                sponsored: amounts.write(AmountBody::new(currency, bucket.sponsored, sponsored))?,
                user_pays: amounts.write(AmountBody::signed(
                    currency,
                    bucket.user_pays()?,
                    total.checked_sub(sponsored)?,
                ))?,
            })
        };
        let components = ComponentsBody {
            execution: bucket(Component::Execution)?,
            swap: bucket(Component::Swap)?,
            relay: bucket(Component::Relay)?,
            app: bucket(Component::App)?,
            rent: bucket(Component::Rent)?,
        };
        let charged = sum(sponsorship.buckets.iter().map(|bucket| usd(bucket.total)))?;
        let sponsored = sponsored_usd(sponsorship, price, currency.decimals)?;
        let sponsored_total = AmountBody::new(currency, sponsorship.sponsored_total()?, sponsored);
        let user_pays = charged.checked_sub(sponsored)?;
        let user_pays_total = AmountBody::signed(currency, sponsorship.user_pays_total()?, user_pays);
        Ok(Self {
            selected_components: selected.iter().map(|component| component.as_str()).collect(),
            max_subsidization_amount: sponsorship.ask.cap.map(|cap| cap.0.to_string()),
            cap_hit: sponsorship.cap_hit,
            components,
            sponsored_total: amounts.write(sponsored_total)?,
            user_pays_total: amounts.write(user_pays_total)?,
        })
    }
}
