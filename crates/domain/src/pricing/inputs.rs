//! The inputs of pricing, settled before the amounts are: rates and charges, and what an amount means by them.

use crate::catalog::Class;
use crate::fees::{Charge, least};
use crate::fixed_rate::Fixed;
use crate::money::{Amount, OutOfRange, Price, Ratio, UsdMicros};
use crate::pair::Pair;
use crate::quote::Ask;
use crate::sponsorship::Sponsorship;

use super::split::{Split, split};
use super::{Rates, Refusal, Route, Terms};

/// How long a price that depends on a market stands at the most.
const MARKET_TTL_SECS: u32 = 600;

/// Everything that is settled before the amounts are.
#[derive(Debug)]
pub(crate) struct Pricing<'a> {
    pub ask: &'a Ask,
    pub route: Route<'a>,
    pub rates: Rates<'a>,
    pub terms: &'a Terms,
    pub pair: Pair,
    /// Of the deposit for the payout.
    pub exchange: Pair,
    pub charge: Charge,
    /// The rate at which the solver pays out for the rest of the deposit: the caller's, or the market's.
    pub rate: Ratio,
    pub market_rate: Ratio,
}

impl<'a> Pricing<'a> {
    pub(crate) fn new(ask: &'a Ask, route: Route<'a>, rates: Rates<'a>, terms: &'a Terms) -> Result<Self, Refusal> {
        let pair = Pair::of(route.origin.currency, route.destination.currency);
        let exchange = Pair::of(route.deposit, route.payout);
        let prices = &rates.prices;
        let feeds = exchange.rate((route.deposit, prices.deposit), (route.payout, prices.payout))?;
        let market_rate = exchange.bounded(feeds, rates.hedge, terms)?;
        let rate = match ask.options.fixed_rate {
            None => market_rate,
            Some(fixed) => {
                let direct = rates.origin_swap.is_none() && rates.destination_swap.is_none();
                if !direct || [route.deposit, route.payout].iter().any(|it| it.class != Class::Stable || !it.held) {
                    return Err(Refusal::FixedRateCurrency);
                }
                if ask.options.sponsor.is_none() {
                    return Err(Refusal::FixedRateUnsponsored);
                }
                fixed.ratio(route.deposit.decimals, route.payout.decimals)?
            }
        };
        if ask.options.top_up.is_some() && route.destination.currency.native {
            return Err(Refusal::TopUpOfGas);
        }
        let in_deposit = |usd| prices.deposit.amount_ceil(usd, route.deposit.decimals);
        let gas = prices.destination_native.usd_ceil(rates.fill_cost, route.destination.chain.native.decimals)?;
        let charge = Charge {
            fill_gas: in_deposit(gas)?,
            top_up: in_deposit(ask.options.top_up.unwrap_or_default())?,
            flat: in_deposit(terms.flat_fee)?,
            relay_bps: pair.relay_bps(terms),
            app_bps: ask.options.app_fees.iter().map(|fee| fee.bps).collect(),
            rebalance_bps: match ask.options.fixed_rate {
                // The rate alone, with no charge beside it.
                Some(_) => rebalance_bps(exchange, &rates, terms).max(0),
                None => rebalance_bps(exchange, &rates, terms),
            },
        };
        charge.check().map_err(|OutOfRange| Refusal::AppFees)?;
        Ok(Self { ask, route, rates, terms, pair, exchange, charge, rate, market_rate })
    }

    /// A quote that depends on a market stands for a while at the most, whatever the caller would like.
    pub(crate) fn bounded_ask(&self) -> Ask {
        let mut ask = self.ask.clone();
        let options = &ask.options;
        let at_market =
            self.exchange.is_exchange() || self.rates.destination_swap.is_some() || !options.calls.is_empty();
        // A sponsor stands for a sum in dollars, and its key may be revoked: neither is promised for days.
        let sponsored = options.fixed_rate.is_some() || options.sponsor.is_some();
        if at_market || sponsored || options.top_up.is_some() {
            ask.ttl_secs = Some(ask.ttl_secs.unwrap_or(MARKET_TTL_SECS).min(MARKET_TTL_SECS));
        }
        ask
    }

    /// The split of a deposit. `loss` is the pools' part, in the deposit's currency, for a sponsor to make good.
    pub(crate) fn split(&self, deposit: Amount, loss: Amount) -> Result<Split, Refusal> {
        let price = (self.rates.prices.deposit, self.route.deposit.decimals);
        split(self.ask, &self.charge, deposit, loss, price, self.rates.sponsor_available)
    }

    /// The least deposit for which this much is paid out.
    pub(crate) fn deposit_for(&self, paid: Amount, loss: Amount) -> Result<Amount, Refusal> {
        let left = paid.mul_ceil(self.rate.inverse()?)?;
        let guess = if self.ask.options.sponsor.is_some() { left } else { self.charge.gross(left)? };
        let pays = |deposit: Amount| {
            let paid_out = |split: Split| split.exchanged.mul_floor(self.rate).is_ok_and(|out| out >= paid);
            self.split(deposit, loss).is_ok_and(paid_out)
        };
        least(guess, pays).ok_or_else(|| match self.split(guess, loss) {
            Err(refusal @ Refusal::SponsorBalance) => refusal,
            Err(_) | Ok(_) => Refusal::OutOfRange,
        })
    }

    /// True if the pools' loss is one of the fees: with a sponsor it is shown beside them, and may be made good.
    pub(crate) fn counts_losses(&self) -> bool {
        self.ask.options.sponsor.is_some() && self.rates.losses_known
    }

    /// The loss to the origin's pools, in the deposit's currency.
    pub(crate) fn origin_loss(&self, input: Amount, deposit: Amount) -> Result<Amount, Refusal> {
        if self.rates.origin_swap.is_none() || !self.counts_losses() {
            return Ok(Amount::ZERO);
        }
        let (prices, from, to) = (&self.rates.prices, self.route.origin.currency, self.route.deposit);
        let fair = Price::exchange((prices.origin, from.decimals), (prices.deposit, to.decimals))?;
        Ok(input.mul_floor(fair)?.saturating_sub(deposit))
    }

    /// The loss to the destination's pools, in the deposit's currency.
    pub(crate) fn destination_loss(&self, paid: Amount, output: Amount) -> Result<Amount, Refusal> {
        if !self.counts_losses() {
            return Ok(Amount::ZERO);
        }
        let (spent, got) = self.destination_worth(paid, output)?;
        let lost = UsdMicros(spent.checked_sub(got)?.0.max(0));
        Ok(self.rates.prices.deposit.amount_floor(lost, self.route.deposit.decimals)?)
    }

    fn destination_worth(&self, paid: Amount, output: Amount) -> Result<(UsdMicros, UsdMicros), OutOfRange> {
        let prices = &self.rates.prices;
        let spent = prices.payout.usd_floor(paid, self.route.payout.decimals)?;
        Ok((spent, prices.destination.usd_floor(output, self.route.destination.currency.decimals)?))
    }

    pub(crate) fn check_impact(
        &self,
        origin: Option<(Amount, Amount)>,
        destination: Option<(Amount, Amount)>,
    ) -> Result<(), Refusal> {
        if self.ask.options.any_impact {
            return Ok(());
        }
        let prices = &self.rates.prices;
        if let Some((input, deposit)) = origin {
            let spent = prices.origin.usd_floor(input, self.route.origin.currency.decimals)?;
            check_impact((spent, prices.deposit.usd_floor(deposit, self.route.deposit.decimals)?), self.terms)?;
        }
        match destination {
            Some((paid, output)) => check_impact(self.destination_worth(paid, output)?, self.terms),
            None => Ok(()),
        }
    }

    pub(crate) fn worth(&self, deposit: Amount) -> Result<UsdMicros, OutOfRange> {
        self.rates.prices.deposit.usd_floor(deposit, self.route.deposit.decimals)
    }

    /// A pool gives nothing for next to nothing, which is not for lack of liquidity.
    pub(crate) fn no_offer(&self, input: Amount) -> Refusal {
        let prices = &self.rates.prices;
        let worth = prices.origin.usd_floor(input, self.route.origin.currency.decimals);
        let fees = self.charge.fees(Amount::ZERO).and_then(|fees| fees.fixed());
        let cost = fees.and_then(|fees| prices.deposit.usd_ceil(fees, self.route.deposit.decimals));
        match (worth, fees, cost) {
            (Ok(worth), Ok(fees), Ok(cost)) if worth < cost => Refusal::AmountTooLow { fees },
            _ => Refusal::InsufficientLiquidity,
        }
    }

    pub(crate) fn too_low(&self, split: &Split) -> Refusal {
        match split.fees.total() {
            Ok(fees) => Refusal::AmountTooLow { fees: fees.size() },
            Err(OutOfRange) => Refusal::OutOfRange,
        }
    }

    pub(crate) fn top_up(&self) -> Result<Option<Amount>, Refusal> {
        let native = &self.route.destination.chain.native;
        let amount = |usd| self.rates.prices.destination_native.amount_floor(usd, native.decimals);
        Ok(self.ask.options.top_up.map(amount).transpose()?.filter(|amount| !amount.is_zero()))
    }

    /// Beside what the market would give, and only if the integrator can stand for the difference.
    pub(crate) fn fixed(&self, split: &Split, output: Amount) -> Result<Option<Fixed>, Refusal> {
        let Some(rate) = self.ask.options.fixed_rate else { return Ok(None) };
        let fixed = Fixed { rate, market_output: split.exchanged.mul_floor(self.market_rate)? };
        if fixed.deviates(output)? {
            return Err(Refusal::FixedRateDeviates);
        }
        let (price, decimals) = (self.rates.prices.payout, self.route.payout.decimals);
        let drift = fixed.fee(output, price, decimals)?;
        let sponsored = split.sponsorship.as_ref().map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?;
        let fees = self.rates.prices.deposit.usd_ceil(sponsored, self.route.deposit.decimals)?;
        // The gain of the rate is there only afterwards: it pays for no fees.
        let spent = fees.checked_add(UsdMicros(drift.0.min(0).saturating_neg()))?;
        if spent > self.rates.sponsor_available {
            return Err(Refusal::SponsorBalance);
        }
        Ok(Some(fixed))
    }
}

pub(crate) fn check_impact((spent, got): (UsdMicros, UsdMicros), terms: &Terms) -> Result<(), Refusal> {
    let lost = i128::from(spent.0.saturating_sub(got.0));
    if lost * 10_000 > i128::from(spent.0) * i128::from(terms.most_impact_bps) {
        return Err(Refusal::ImpactTooHigh);
    }
    Ok(())
}

/// The way back through the market, and what the transfer does to the balance of our inventory.
fn rebalance_bps(exchange: Pair, rates: &Rates<'_>, terms: &Terms) -> i16 {
    let need = |bps: i32| i64::from(bps.clamp(-10_000, 10_000));
    let skew = need(rates.payout_need_bps) - need(rates.deposit_need_bps);
    // Rounded up: towards the cost.
    let skew = (i64::from(terms.rebalance_bps) * skew + 19_999).div_euclid(20_000);
    i16::try_from(i64::from(exchange.spread_bps(terms)) + skew).unwrap_or(i16::MAX)
}
