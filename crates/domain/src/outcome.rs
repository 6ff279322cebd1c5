//! The outcome of a fill for those who pay for it or earn by it: the sponsor, and the apps whose fees it carries.
//!
//! It is fixed in the commit that decides the fill, at what things cost then, and booked once it and its deposit are
//! final. A same-chain transaction is fixed when it is final, and booked in the same commit. So nothing is booked twice
//! and nothing has to be taken back, whatever a chain does in between.

use alloy_primitives::Address;

use crate::catalog::Currency;
use crate::credit::CreditRate;
use crate::ids::RequestId;
use crate::ledger::{Cause, Entry, NotAnEntry, UsdcMicros};
use crate::money::{Amount, OutOfRange, Price, Ratio, Signed, UsdMicros};
use crate::quote::Quote;
use crate::sponsorship::{Component, Sponsorship, covered};

/// The prices and costs when the fill is decided.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub deposit: Price,
    pub payout: Price,
    pub usdc: Price,
    /// The rate of credits for the deposit's currency. None where it is not known: app fees are credited later.
    pub credit: Option<CreditRate>,
    /// The same for the payout's currency. Without it the sponsor is credited no gain of a fixed rate.
    pub gain: Option<CreditRate>,
    /// Gas of the fill.
    pub gas: UsdMicros,
    /// The market's payout for the same money, where the rate is fixed.
    pub market: Option<Amount>,
}

/// The currencies of the two middle amounts.
#[derive(Clone, Copy, Debug)]
pub struct Currencies<'a> {
    pub deposit: &'a Currency,
    pub payout: &'a Currency,
}

impl Costs {
    /// A fixed rate's drift on the sponsor's balance: a loss is charged in full, a gain credited like any other credit.
    fn drift(&self, drift: Signed, decimals: u8) -> Result<UsdcMicros, OutOfRange> {
        if drift.is_negative() {
            let lost = self.payout.usd_ceil(drift.size(), decimals)?;
            return to_charge(lost, self.usdc).map(UsdcMicros::negated);
        }
        self.gain.map_or(Ok(UsdcMicros::ZERO), |rate| rate.micros(drift.size()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The price of the deposit's currency.
    pub price: Price,
    pub sponsored: Option<Sponsored>,
    pub app_fees: Vec<AppFeePaid>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sponsored {
    pub wallet: Address,
    /// The fees as they turned out, and who pays them.
    pub fees: Sponsorship,
    /// The sponsor's part of them, taken from its balance.
    pub payment: UsdcMicros,
    /// The gain of a fixed rate for the sponsor; negative where it costs.
    pub drift: UsdcMicros,
    /// The market's payout, where the rate is fixed.
    pub market: Option<Amount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppFeePaid {
    pub recipient: Address,
    /// In the deposit's currency.
    pub amount: Amount,
    /// To its balance. None while the worth is not known.
    pub credit: Option<UsdcMicros>,
}

impl Outcome {
    /// The outcome of paying `output` for a deposit. None where nobody pays for it and nobody earns by it.
    pub fn of(
        quote: &Quote,
        deposited: Amount,
        output: Amount,
        costs: &Costs,
        currencies: Currencies<'_>,
    ) -> Result<Option<Self>, OutOfRange> {
        let figures = &quote.figures;
        // The sponsor pays no fees for a deposit's excess over the quoted amount.
        let part = Ratio::new(deposited.min(figures.deposit).units(), figures.deposit.units())?;
        let decimals = currencies.deposit.decimals;
        let sponsored = match &figures.sponsorship {
            Some(quoted) if is_live(quote)? => {
                let gas = costs.deposit.amount_ceil(costs.gas, decimals)?;
                let execution = gas.checked_add(figures.fees.top_up)?.checked_add(figures.fees.flat)?;
                let fees = quoted.turned_out(execution, part, costs.deposit, decimals)?;
                let payment = to_charge(costs.deposit.usd_ceil(fees.sponsored_total()?, decimals)?, costs.usdc)?;
                let drift = match costs.market {
                    None => UsdcMicros::ZERO,
                    Some(market) => costs.drift(Signed::difference(market, output), currencies.payout.decimals)?,
                };
                Some(Sponsored { wallet: quoted.ask.wallet, fees, payment, drift, market: costs.market })
            }
            Some(_) | None => None,
        };
        let paid = match (&figures.sponsorship, &sponsored) {
            (Some(quoted), Some(it)) => it.fees.share_paid(quoted, Component::App, part)?,
            (Some(_), None) | (None, _) => None,
        };
        let app_fees = earned(quote, |quoted| {
            let amount = quoted.mul_floor(part)?;
            let amount = paid.map_or(Ok(amount), |paid| amount.mul_floor(paid))?;
            Ok((amount, costs.credit.map(|rate| rate.micros(amount)).transpose()?))
        })?;
        let nothing = sponsored.is_none() && app_fees.is_empty();
        Ok((!nothing).then_some(Self { price: costs.deposit, sponsored, app_fees }))
    }

    /// The outcome of a same-chain transaction, once it is final: the apps' share of it has reached
    /// the treasury, and is credited at this rate. None where no app has a share.
    pub fn same_chain(quote: &Quote, rate: CreditRate) -> Result<Option<Self>, OutOfRange> {
        let app_fees = earned(quote, |amount| Ok((amount, Some(rate.micros(amount)?))))?;
        Ok((!app_fees.is_empty()).then_some(Self { price: rate.price, sponsored: None, app_fees }))
    }

    /// True while the worth of an app fee is not known.
    pub fn is_unpriced(&self) -> bool {
        self.app_fees.iter().any(|fee| fee.credit.is_none())
    }

    /// The same outcome with the credits that were not known, at this rate; without a rate they are nothing.
    pub fn priced(mut self, rate: Option<CreditRate>) -> Result<Self, OutOfRange> {
        for fee in self.app_fees.iter_mut().filter(|fee| fee.credit.is_none()) {
            fee.credit = Some(rate.map_or(Ok(UsdcMicros::ZERO), |rate| rate.micros(fee.amount))?);
        }
        Ok(self)
    }

    /// The amount to set aside for it: the fees, and the drift where it costs.
    pub fn reservation(&self) -> Option<(Address, UsdcMicros)> {
        self.sponsored.as_ref().map(|it| (it.wallet, it.payment.minus(it.drift.min(UsdcMicros::ZERO))))
    }

    /// The sponsor, where it pays any part of the app fees.
    pub fn sponsor_of_app_fees(&self) -> Option<Address> {
        let sponsored = self.sponsored.as_ref()?;
        let paid = sponsored.fees.buckets[Component::App as usize].sponsored;
        (!paid.is_zero()).then_some(sponsored.wallet)
    }

    /// The part of the sponsor's payment that is no fee but money for somebody: native currency beside the output, and
    /// the cost of a fixed rate.
    pub fn delivered(&self, top_up: Amount, decimals: u8, usdc: Price) -> Result<UsdcMicros, OutOfRange> {
        let Some(it) = &self.sponsored else { return Ok(UsdcMicros::ZERO) };
        let paid = it.fees.bucket(Component::Execution).sponsored.min(top_up);
        let top_up = to_charge(self.price.usd_ceil(paid, decimals)?, usdc)?;
        Ok(top_up.minus(it.drift.min(UsdcMicros::ZERO)))
    }

    /// The entries on the sponsor's balance, once the payment is final.
    pub fn sponsor_entries(&self, payment: i64, request: RequestId) -> Result<Vec<Entry>, NotAnEntry> {
        let Some(it) = &self.sponsored else { return Ok(Vec::new()) };
        let moves = [
            (Cause::Sponsorship { payment }, it.payment.negated()),
            // Apart from the fees, in either sign.
            (Cause::FixedRate { payment }, it.drift),
        ];
        let real = moves.into_iter().filter(|(_, delta)| *delta != UsdcMicros::ZERO);
        real.map(|(cause, delta)| Entry::new(cause, it.wallet, delta, Some(request))).collect()
    }

    /// The entries that credit the apps for a fill.
    pub fn app_entries(&self, payment: i64, request: RequestId) -> Result<Vec<Entry>, NotAnEntry> {
        self.credits(request, |place| Cause::AppFee { payment, place })
    }

    /// The entries that credit them for a same-chain transaction.
    pub fn same_chain_entries(&self, execution: i64, request: RequestId) -> Result<Vec<Entry>, NotAnEntry> {
        self.credits(request, |place| Cause::SameChainFee { execution, place })
    }

    fn credits(&self, request: RequestId, cause: impl Fn(u32) -> Cause) -> Result<Vec<Entry>, NotAnEntry> {
        let known = (0..).zip(&self.app_fees).filter_map(|(place, fee)| Some((place, fee.recipient, fee.credit?)));
        let real = known.filter(|(.., credit)| *credit > UsdcMicros::ZERO);
        real.map(|(place, recipient, credit)| Entry::new(cause(place), recipient, credit, Some(request))).collect()
    }
}

/// Each app's amount and credit, given the amount its share was quoted at.
fn earned(
    quote: &Quote,
    paid: impl Fn(Amount) -> Result<(Amount, Option<UsdcMicros>), OutOfRange>,
) -> Result<Vec<AppFeePaid>, OutOfRange> {
    let shares = quote.ask.options.app_fees.iter().zip(&quote.figures.fees.app);
    let earned = shares.map(|(asked, quoted)| {
        let (amount, credit) = paid(*quoted)?;
        Ok(AppFeePaid { recipient: asked.recipient, amount, credit })
    });
    earned.collect()
}

/// True if a sponsor pays for any of it. One that could not when it was asked does not later: the user pays.
pub fn is_live(quote: &Quote) -> Result<bool, OutOfRange> {
    let sponsored = quote.figures.sponsorship.as_ref().map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?;
    Ok(quote.figures.fixed.is_some() || !sponsored.is_zero())
}

impl Sponsorship {
    /// The fees as they turned out. The user's part was settled by the quote; the sponsor pays the rest of what it
    /// chose to pay, up to its cap.
    fn turned_out(&self, execution: Amount, part: Ratio, price: Price, decimals: u8) -> Result<Self, OutOfRange> {
        let mut left = self.ask.cap;
        let mut out = self.clone();
        out.cap_hit = false;
        for (at, component) in Component::ALL.into_iter().enumerate() {
            let quoted = &self.buckets[at];
            let scaled = |amount: Signed| -> Result<Signed, OutOfRange> {
                let size = amount.size().mul_floor(part)?;
                Ok(if amount.is_negative() { Signed::reward(size) } else { Signed::cost(size) })
            };
            let (total, by_user) = match component {
                Component::Execution => (Signed::cost(execution), quoted.user_pays()?),
                Component::Swap | Component::Relay | Component::App | Component::Rent => {
                    (scaled(quoted.total)?, scaled(quoted.user_pays()?)?)
                }
            };
            let bucket = &mut out.buckets[at];
            (bucket.total, bucket.sponsored) = (total, Amount::ZERO);
            let rest = total.checked_sub(by_user)?;
            if rest.is_negative() || total.is_negative() || !self.ask.selected().contains(&component) {
                continue;
            }
            let full = rest.size().min(total.size());
            bucket.sponsored = covered(full, &mut left, price, decimals)?;
            // A part that the user pays is the cap's doing only where the cap was hit by the quote.
            out.cap_hit |= bucket.sponsored < full || (self.cap_hit && bucket.sponsored < total.size());
        }
        Ok(out)
    }
}

impl Sponsorship {
    /// Which part of a fee is paid, by the user and the sponsor together, where that is not all of it: the sponsor's
    /// cap falls short of what it turned out to be worth. A fee that nobody pays, nobody earns.
    fn share_paid(&self, quoted: &Self, component: Component, part: Ratio) -> Result<Option<Ratio>, OutOfRange> {
        let at = component as usize;
        let by_user = quoted.buckets[at].user_pays()?;
        let by_user = if by_user.is_negative() { Amount::ZERO } else { by_user.size().mul_floor(part)? };
        let (total, paid) = (self.buckets[at].total.size(), by_user.checked_add(self.buckets[at].sponsored)?);
        if paid >= total { Ok(None) } else { Ratio::new(paid.units(), total.units()).map(Some) }
    }
}

/// An amount we charge: the fraction is paid to us.
fn to_charge(usd: UsdMicros, usdc: Price) -> Result<UsdcMicros, OutOfRange> {
    let units = usdc.amount_ceil(usd, 6)?.units();
    i64::try_from(units).map(UsdcMicros).map_err(|_| OutOfRange)
}

#[cfg(test)]
mod tests;
