//! What a transfer costs and what arrives: the whole of pricing, as a function of facts.
//!
//! A transfer has up to four currencies: what the user pays, what reaches the depository, what the solver pays out and
//! what arrives. Between the first two and the last two there may be a trade on a chain's pools; between the middle two
//! is our own rate. Fees are taken out of the deposit, in its currency. What we charge is rounded up, what we pay out is
//! rounded down, and the output is computed from what is left, so the parts always add up to the deposit. Where the
//! caller fixes the output, the input is the least that pays for it by the same rules.

use std::time::Duration;

use alloy_primitives::{Address, B256, U256};

use crate::catalog::{Chain, Class, Currency};
use crate::fees::{Charge, Fees, least};
use crate::fixed_rate::Fixed;
use crate::ids::RequestId;
use crate::money::{Amount, OutOfRange, Price, Ratio, Signed, UsdMicros};
use crate::pair::{ByClass, Pair};
use crate::quote::{Ask, Bound, CurrencyKey, Figures, OrderTerms, Prices, Quote, Swap, Trade};
use crate::sponsorship::{Component, Sponsorship};
use crate::swap::{Exchange, Offer};
use crate::time::Timestamp;

/// What the operator charges and promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub solver: Address,
    /// The name of the chain of the solver's identity, hashed into every order.
    pub solver_chain: String,
    pub flat_fee: UsdMicros,
    /// The service's share of the input.
    pub relay_bps: ByClass,
    /// What exchanging one asset for another out of our inventory costs on top.
    pub spread_bps: ByClass,
    /// The most that a lopsided inventory adds to the cost of a transfer, or takes off it.
    pub rebalance_bps: u16,
    pub slippage_bps: u16,
    pub stable_slippage_bps: u16,
    /// A trade that loses more than this to the pools is refused, unless the caller insists.
    pub most_impact_bps: u16,
    pub order_lifetime: Duration,
}

/// The market at one moment, as far as this transfer is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Rates<'a> {
    pub prices: Prices,
    /// Wei per unit of gas, base fee and tip together.
    pub origin_gas_price: u128,
    /// What the fill will cost on the destination, in its native currency: gas, and data where that is charged for.
    pub fill_cost: Amount,
    /// The most that one fill can pay out of the solver's inventory now, and of native currency beside it.
    pub payable: Amount,
    pub payable_native: Amount,
    /// How much more of the deposit and the payout currency we would like to hold, in basis points of what we would
    /// like: negative where we hold too much.
    pub deposit_need_bps: i32,
    pub payout_need_bps: i32,
    /// What pools would give for the deposit in the payout currency, where there are such pools.
    pub hedge: Option<Ratio>,
    pub origin_swap: Option<&'a dyn Exchange>,
    pub destination_swap: Option<&'a dyn Exchange>,
    /// Both the origin and the destination currency are priced by feeds: what pools take of them can be told, and made
    /// good by a sponsor. A pool's own price is anybody's to set.
    pub losses_known: bool,
    /// What the caller's sponsor can spend. Negative where it owes too much to get anything.
    pub sponsor_available: UsdMicros,
}

/// What makes one quote different from the next.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    pub id: RequestId,
    pub salt: B256,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the amount does not cover the fees of {fees}, in the smallest unit of the currency they are taken in")]
    AmountTooLow { fees: Amount },
    #[error("the amount is worth less than $0.05")]
    Dust,
    #[error("no route between these currencies")]
    NoRoute,
    #[error("there is nothing to do: same chain, same currency, same owner")]
    NothingToDo,
    #[error("{what} needs a solver and is not offered on one chain")]
    NotOnOneChain { what: &'static str },
    #[error("Amount is higher than the available liquidity")]
    InsufficientLiquidity,
    #[error("the trade would lose too much to the pools; overridePriceImpact lets it through")]
    ImpactTooHigh,
    #[error("txs: the values of the calls exceed the output")]
    CallValues,
    #[error("topupGas: the output is already the gas currency")]
    TopUpOfGas,
    #[error("appFees: the fees together must stay below the amount")]
    AppFees,
    #[error("fixedRate: {0}")]
    FixedRate(&'static str),
    #[error("fixedRate: only between stablecoins that the solver holds")]
    FixedRateCurrency,
    #[error("the sponsor's balance does not cover this transfer")]
    SponsorBalance,
    #[error("an amount is out of range")]
    OutOfRange,
}

impl From<OutOfRange> for Refusal {
    fn from(_: OutOfRange) -> Self {
        Self::OutOfRange
    }
}

/// One side of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub chain: &'a Chain,
    pub currency: &'a Currency,
}

/// The four currencies of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    pub origin: Side<'a>,
    pub deposit: &'a Currency,
    pub payout: &'a Currency,
    pub destination: Side<'a>,
}

/// How long a price that depends on a market stands at the most.
const MARKET_TTL_SECS: u32 = 600;
/// What is set aside for a pool to move before an exact output is bought, where the caller does not say.
const EXACT_OUTPUT_HEADROOM_BPS: u16 = 50;

/// A way and what it comes to, to be held against others before one of them is promised.
#[derive(Debug)]
pub struct Draft<'a> {
    deal: Deal<'a>,
    solved: Solved,
    top_up: Option<Amount>,
    fixed: Option<Fixed>,
}

/// What the transfer comes to if it goes this way.
pub fn draft<'a>(ask: &'a Ask, way: Way<'a>, rates: Rates<'a>, terms: &'a Terms) -> Result<Draft<'a>, Refusal> {
    let deal = Deal::new(ask, way, rates, terms)?;
    let solved = deal.solve()?;
    let top_up = deal.top_up()?;
    let beside = top_up.unwrap_or_default();
    let native = if way.payout.native { solved.paid.checked_add(beside)? } else { beside };
    if solved.paid > rates.payable || native > rates.payable_native {
        return Err(Refusal::InsufficientLiquidity);
    }
    check_calls(ask, way.destination.currency, solved.minimum)?;
    let fixed = deal.fixed(&solved.split, solved.output)?;
    Ok(Draft { deal, solved, top_up, fixed })
}

impl Draft<'_> {
    pub fn input(&self) -> Amount {
        self.solved.input
    }

    pub fn output(&self) -> Amount {
        self.solved.output
    }

    pub fn destination_swap(&self) -> Option<&Swap> {
        self.solved.destination_swap.as_ref()
    }

    /// The promise. What only it needs is worked out here.
    pub fn quote(self, fresh: Fresh) -> Result<Quote, Refusal> {
        let Self { deal, solved, top_up, fixed } = self;
        let origin_swap = deal.bounded_origin_swap(&solved)?;
        let Solved { split, destination_swap, paid, output, minimum, slippage_bps, deposit, input, .. } = solved;
        let Deal { way, rates, terms, pair, exchange, .. } = deal;
        let figures = Figures {
            operation: pair.operation,
            input,
            deposit,
            exchanged: split.exchanged,
            paid,
            output,
            minimum,
            fees: split.fees,
            top_up,
            fixed,
            sponsorship: split.sponsorship,
            origin_gas: gas_cost(user_gas(way.origin.currency, origin_swap.is_some()), rates.origin_gas_price)?,
            slippage_bps,
            prices: rates.prices,
            time_estimate_secs: time_estimate(way.origin.chain, way.destination.chain, deal.worth(deposit)?),
        };
        let deadline = fresh.now.plus(terms.order_lifetime).secs();
        let key =
            |chain: &Chain, currency: &Currency| CurrencyKey { chain: chain.id, address: currency.address.clone() };
        Ok(Quote {
            id: fresh.id,
            ask: deal.bounded_ask(),
            figures,
            created_at: fresh.now,
            origin_swap,
            destination_swap,
            terms: Some(OrderTerms {
                deadline: u32::try_from(deadline).map_err(|_| Refusal::OutOfRange)?,
                salt: fresh.salt,
                solver: terms.solver,
                solver_chain: terms.solver_chain.clone(),
                origin_chain: way.origin.chain.name.clone(),
                destination_chain: way.destination.chain.name.clone(),
                origin_router: way.origin.chain.router,
                destination_router: way.destination.chain.router,
                deposit: key(way.origin.chain, way.deposit),
                payout: key(way.destination.chain, way.payout),
                exchange: exchange.is_exchange(),
            }),
        })
    }
}

/// What the calls spend must be there even if only the minimum arrives, and native currency is only there if it is
/// what arrives.
fn check_calls(ask: &Ask, arrives: &Currency, minimum: Amount) -> Result<(), Refusal> {
    let values = ask.wishes.calls.iter().try_fold(Amount::ZERO, |sum, call| sum.checked_add(call.value))?;
    let most = if arrives.native { minimum } else { Amount::ZERO };
    if values > most { Err(Refusal::CallValues) } else { Ok(()) }
}

/// What a deposit is divided into.
#[derive(Debug)]
pub(crate) struct Split {
    pub fees: Fees,
    pub sponsorship: Option<Sponsorship>,
    pub exchanged: Amount,
}

#[derive(Debug)]
struct Solved {
    input: Amount,
    deposit: Amount,
    split: Split,
    /// Its bound is the deposit where it is sold for: how much less would do is asked only of what is promised.
    origin_swap: Option<Swap>,
    origin_loss: Amount,
    destination_swap: Option<Swap>,
    paid: Amount,
    output: Amount,
    minimum: Amount,
    slippage_bps: u16,
}

/// Everything that is settled before the amounts are.
#[derive(Debug)]
struct Deal<'a> {
    ask: &'a Ask,
    way: Way<'a>,
    rates: Rates<'a>,
    terms: &'a Terms,
    pair: Pair,
    /// Of the deposit for the payout.
    exchange: Pair,
    charge: Charge,
    /// What the solver pays out for what is left of the deposit: the caller's rate, or the market's.
    rate: Ratio,
    market_rate: Ratio,
}

impl<'a> Deal<'a> {
    fn new(ask: &'a Ask, way: Way<'a>, rates: Rates<'a>, terms: &'a Terms) -> Result<Self, Refusal> {
        let pair = Pair::of(way.origin.currency, way.destination.currency);
        let exchange = Pair::of(way.deposit, way.payout);
        let prices = &rates.prices;
        let feeds = exchange.rate((way.deposit, prices.deposit), (way.payout, prices.payout))?;
        let market_rate = exchange.bounded(feeds, rates.hedge, terms)?;
        let rate = match ask.wishes.fixed_rate {
            None => market_rate,
            Some(fixed) => {
                let direct = rates.origin_swap.is_none() && rates.destination_swap.is_none();
                if !direct || [way.deposit, way.payout].iter().any(|it| it.class != Class::Stable || !it.held) {
                    return Err(Refusal::FixedRateCurrency);
                }
                if ask.wishes.sponsor.is_none() {
                    return Err(Refusal::FixedRate("needs subsidizeFees"));
                }
                fixed.ratio(way.deposit.decimals, way.payout.decimals)?
            }
        };
        if ask.wishes.top_up.is_some() && way.destination.currency.native {
            return Err(Refusal::TopUpOfGas);
        }
        let in_deposit = |usd| prices.deposit.amount_ceil(usd, way.deposit.decimals);
        let gas = prices.destination_native.usd_ceil(rates.fill_cost, way.destination.chain.native.decimals)?;
        let charge = Charge {
            fill_gas: in_deposit(gas)?,
            top_up: in_deposit(ask.wishes.top_up.unwrap_or_default())?,
            flat: in_deposit(terms.flat_fee)?,
            relay_bps: pair.relay_bps(terms),
            app_bps: ask.wishes.app_fees.iter().map(|fee| fee.bps).collect(),
            rebalance_bps: rebalance_bps(exchange, &rates, terms),
        };
        charge.check().map_err(|OutOfRange| Refusal::AppFees)?;
        Ok(Self { ask, way, rates, terms, pair, exchange, charge, rate, market_rate })
    }

    /// Whatever depends on a market stands for a while at the most, whatever the caller would like.
    fn bounded_ask(&self) -> Ask {
        let mut ask = self.ask.clone();
        let wishes = &ask.wishes;
        let at_market =
            self.exchange.is_exchange() || self.rates.destination_swap.is_some() || !wishes.calls.is_empty();
        // A sponsor stands for a sum in dollars, and its key may be revoked: neither is promised for days.
        let sponsored = wishes.fixed_rate.is_some() || wishes.sponsor.is_some();
        if at_market || sponsored || wishes.top_up.is_some() {
            ask.ttl_secs = Some(ask.ttl_secs.unwrap_or(MARKET_TTL_SECS).min(MARKET_TTL_SECS));
        }
        ask
    }

    fn solve(&self) -> Result<Solved, Refusal> {
        let amount = self.ask.amount;
        let pools = self.rates.origin_swap.is_some() || self.rates.destination_swap.is_some();
        match self.ask.trade {
            Trade::ExactInput => self.forward(amount),
            Trade::ExpectedOutput if pools => {
                let paid = self.buy_output(amount)?.map_or(amount, |offer| offer.amount);
                let deposit = self.deposit_for(paid, Amount::ZERO)?;
                let input = self.buy_deposit(deposit)?.map_or(deposit, |offer| offer.amount);
                self.forward(input)
            }
            Trade::ExpectedOutput | Trade::ExactOutput => self.backward(amount),
        }
    }

    /// From what is paid in to what arrives.
    fn forward(&self, input: Amount) -> Result<Solved, Refusal> {
        let dry = Refusal::InsufficientLiquidity;
        let sold = self.rates.origin_swap.map(|market| market.sell(input).ok_or_else(|| self.no_offer(input)));
        let sold = sold.transpose()?;
        let deposit = sold.as_ref().map_or(input, |offer| offer.amount);
        let origin_loss = self.origin_loss(input, deposit)?;
        let mut split = self.split(deposit, origin_loss)?;
        let sell = |paid: Amount| self.rates.destination_swap.map(|market| market.sell(paid).ok_or(dry)).transpose();
        let mut paid = split.exchanged.mul_floor(self.rate)?;
        if paid.is_zero() {
            return Err(self.too_low(&split));
        }
        let mut bought = sell(paid)?;
        if let (Some(offer), true) = (&bought, self.sponsors_losses()) {
            // What the sponsor makes good is estimated at what the pools take without it.
            let loss = origin_loss.checked_add(self.destination_loss(paid, offer.amount)?)?;
            split = self.split(deposit, loss)?;
            paid = split.exchanged.mul_floor(self.rate)?;
            bought = sell(paid)?;
        }
        let output = bought.as_ref().map_or(paid, |offer| offer.amount);
        if output.is_zero() {
            return Err(self.too_low(&split));
        }
        let pools = sold.is_some() || bought.is_some();
        let slippage_bps = match self.ask.wishes.fixed_rate {
            Some(_) => 0,
            None => self.ask.slippage_bps.unwrap_or(self.pair.slippage_bps(self.terms, pools)),
        };
        let kept = 10_000u16.checked_sub(slippage_bps).ok_or(Refusal::OutOfRange)?;
        let minimum = output.mul_floor(Ratio::bps(kept))?;
        self.check_impact(sold.is_some().then_some((input, deposit)), bought.is_some().then_some((paid, output)))?;
        let swap = |offer: Offer, input, output, least| Swap {
            path: offer.path,
            input,
            output,
            bound: Bound::LeastOutput(least),
        };
        Ok(Solved {
            origin_swap: sold.map(|offer| swap(offer, input, deposit, deposit)),
            origin_loss,
            destination_swap: bought.map(|offer| swap(offer, paid, output, minimum)),
            input,
            deposit,
            split,
            paid,
            output,
            minimum,
            slippage_bps,
        })
    }

    /// The user's own trade. Where all of the input is sold, it is bound to the least deposit that still brings the
    /// minimum: below it the user's own transaction reverts, and nothing has to be sent back.
    fn bounded_origin_swap(&self, solved: &Solved) -> Result<Option<Swap>, Refusal> {
        let Some(mut swap) = solved.origin_swap.clone() else { return Ok(None) };
        if let Bound::LeastOutput(least) = &mut swap.bound {
            let part = Ratio::new(solved.minimum.units(), solved.output.units())?;
            let enough = self.deposit_for(solved.paid.mul_ceil(part)?, solved.origin_loss);
            *least = enough.unwrap_or(solved.deposit).min(solved.deposit);
        }
        Ok(Some(swap))
    }

    /// From what arrives to what has to be paid in.
    fn backward(&self, output: Amount) -> Result<Solved, Refusal> {
        let headroom = Ratio::bps_more(self.ask.slippage_bps.unwrap_or(EXACT_OUTPUT_HEADROOM_BPS));
        let bought = self.buy_output(output)?;
        // A pool may move before the fill; what is left over of this goes to the recipient. Wrapping stays at par.
        let most = |offer: &Offer| {
            if offer.path.is_wrapping() { Ok(offer.amount) } else { offer.amount.mul_ceil(headroom) }
        };
        let paid = bought.as_ref().map_or(Ok(output), most)?;
        let loss = match &bought {
            Some(offer) => self.destination_loss(offer.amount, output)?,
            None => Amount::ZERO,
        };
        let deposit = self.deposit_for(paid, loss)?;
        let split = self.split(deposit, loss)?;
        let sold = self.buy_deposit(deposit)?;
        let input = sold.as_ref().map_or(deposit, |offer| offer.amount);
        self.check_impact(
            sold.is_some().then_some((input, deposit)),
            bought.as_ref().map(|offer| (offer.amount, output)),
        )?;
        let swap = |offer: Offer, output, most| Swap {
            path: offer.path,
            input: offer.amount,
            output,
            bound: Bound::MostInput(most),
        };
        let slippage_bps = match self.ask.trade {
            Trade::ExactOutput => 0,
            Trade::ExactInput | Trade::ExpectedOutput if self.ask.wishes.fixed_rate.is_some() => 0,
            Trade::ExactInput | Trade::ExpectedOutput => {
                self.ask.slippage_bps.unwrap_or(self.pair.slippage_bps(self.terms, false))
            }
        };
        let kept = 10_000u16.checked_sub(slippage_bps).ok_or(Refusal::OutOfRange)?;
        Ok(Solved {
            input,
            deposit,
            split,
            origin_swap: sold.map(|offer| most(&offer).map(|most| swap(offer, deposit, most))).transpose()?,
            origin_loss: Amount::ZERO,
            destination_swap: bought.map(|offer| swap(offer, output, paid)),
            paid,
            output,
            minimum: output.mul_floor(Ratio::bps(kept))?,
            slippage_bps,
        })
    }

    fn buy_output(&self, output: Amount) -> Result<Option<Offer>, Refusal> {
        let market = self.rates.destination_swap;
        market.map(|market| market.buy(output).ok_or(Refusal::InsufficientLiquidity)).transpose()
    }

    fn buy_deposit(&self, deposit: Amount) -> Result<Option<Offer>, Refusal> {
        let market = self.rates.origin_swap;
        market.map(|market| market.buy(deposit).ok_or(Refusal::InsufficientLiquidity)).transpose()
    }

    /// What becomes of a deposit. `loss` is what the pools take, in the deposit's currency, for a sponsor to make good.
    fn split(&self, deposit: Amount, loss: Amount) -> Result<Split, Refusal> {
        let price = (self.rates.prices.deposit, self.way.deposit.decimals);
        split(self.ask, &self.charge, deposit, loss, price, self.rates.sponsor_available)
    }

    /// The least deposit for which this much is paid out.
    fn deposit_for(&self, paid: Amount, loss: Amount) -> Result<Amount, Refusal> {
        let left = paid.mul_ceil(self.rate.inverse()?)?;
        let guess = if self.ask.wishes.sponsor.is_some() { left } else { self.charge.gross(left)? };
        let pays = |deposit: Amount| {
            let paid_out = |split: Split| split.exchanged.mul_floor(self.rate).is_ok_and(|out| out >= paid);
            self.split(deposit, loss).is_ok_and(paid_out)
        };
        least(guess, pays).ok_or(Refusal::OutOfRange)
    }

    fn sponsors_losses(&self) -> bool {
        let sponsor = self.ask.wishes.sponsor.as_ref().filter(|_| self.rates.losses_known);
        sponsor.is_some_and(|sponsor| sponsor.selected().contains(&Component::Swap))
    }

    /// What the origin's pools take, in the deposit's currency.
    fn origin_loss(&self, input: Amount, deposit: Amount) -> Result<Amount, Refusal> {
        if self.rates.origin_swap.is_none() || !self.sponsors_losses() {
            return Ok(Amount::ZERO);
        }
        let (prices, from, to) = (&self.rates.prices, self.way.origin.currency, self.way.deposit);
        let fair = Price::exchange((prices.origin, from.decimals), (prices.deposit, to.decimals))?;
        Ok(input.mul_floor(fair)?.saturating_sub(deposit))
    }

    /// What the destination's pools take, in the deposit's currency.
    fn destination_loss(&self, paid: Amount, output: Amount) -> Result<Amount, Refusal> {
        if !self.sponsors_losses() {
            return Ok(Amount::ZERO);
        }
        let (spent, got) = self.destination_worth(paid, output)?;
        let lost = UsdMicros(spent.checked_sub(got)?.0.max(0));
        Ok(self.rates.prices.deposit.amount_floor(lost, self.way.deposit.decimals)?)
    }

    fn destination_worth(&self, paid: Amount, output: Amount) -> Result<(UsdMicros, UsdMicros), OutOfRange> {
        let prices = &self.rates.prices;
        let spent = prices.payout.usd_floor(paid, self.way.payout.decimals)?;
        Ok((spent, prices.destination.usd_floor(output, self.way.destination.currency.decimals)?))
    }

    fn check_impact(
        &self,
        origin: Option<(Amount, Amount)>,
        destination: Option<(Amount, Amount)>,
    ) -> Result<(), Refusal> {
        if self.ask.wishes.any_impact {
            return Ok(());
        }
        let prices = &self.rates.prices;
        if let Some((input, deposit)) = origin {
            let spent = prices.origin.usd_floor(input, self.way.origin.currency.decimals)?;
            check_impact((spent, prices.deposit.usd_floor(deposit, self.way.deposit.decimals)?), self.terms)?;
        }
        match destination {
            Some((paid, output)) => check_impact(self.destination_worth(paid, output)?, self.terms),
            None => Ok(()),
        }
    }

    fn worth(&self, deposit: Amount) -> Result<UsdMicros, OutOfRange> {
        self.rates.prices.deposit.usd_floor(deposit, self.way.deposit.decimals)
    }

    /// A pool gives nothing for next to nothing, which is not for lack of liquidity.
    fn no_offer(&self, input: Amount) -> Refusal {
        let prices = &self.rates.prices;
        let worth = prices.origin.usd_floor(input, self.way.origin.currency.decimals);
        let fees = self.charge.fees(Amount::ZERO).and_then(|fees| fees.fixed());
        let cost = fees.and_then(|fees| prices.deposit.usd_ceil(fees, self.way.deposit.decimals));
        match (worth, fees, cost) {
            (Ok(worth), Ok(fees), Ok(cost)) if worth < cost => Refusal::AmountTooLow { fees },
            _ => Refusal::InsufficientLiquidity,
        }
    }

    fn too_low(&self, split: &Split) -> Refusal {
        match split.fees.total() {
            Ok(fees) => Refusal::AmountTooLow { fees: fees.size() },
            Err(OutOfRange) => Refusal::OutOfRange,
        }
    }

    fn top_up(&self) -> Result<Option<Amount>, Refusal> {
        let native = &self.way.destination.chain.native;
        let amount = |usd| self.rates.prices.destination_native.amount_floor(usd, native.decimals);
        Ok(self.ask.wishes.top_up.map(amount).transpose()?.filter(|amount| !amount.is_zero()))
    }

    /// Beside what the market would give, and only if the integrator can stand for the difference.
    fn fixed(&self, split: &Split, output: Amount) -> Result<Option<Fixed>, Refusal> {
        let Some(rate) = self.ask.wishes.fixed_rate else { return Ok(None) };
        let fixed = Fixed { rate, market_output: split.exchanged.mul_floor(self.market_rate)? };
        if fixed.deviates(output)? {
            return Err(Refusal::FixedRate("more than 500 basis points away from the market"));
        }
        let (price, decimals) = (self.rates.prices.payout, self.way.payout.decimals);
        let drift = fixed.fee(output, price, decimals)?;
        let sponsored = split.sponsorship.as_ref().map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?;
        let fees = self.rates.prices.deposit.usd_ceil(sponsored, self.way.deposit.decimals)?;
        // What the rate brings is there only afterwards: it pays for no fees.
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

/// Divides a deposit into fees, what a sponsor adds, and what is left.
pub(crate) fn split(
    ask: &Ask,
    charge: &Charge,
    deposit: Amount,
    loss: Amount,
    (price, decimals): (Price, u8),
    available: UsdMicros,
) -> Result<Split, Refusal> {
    let fees = charge.fees(deposit)?;
    let sponsorship = match &ask.wishes.sponsor {
        None => None,
        Some(sponsor) => {
            let swap = fees.rebalance.checked_add(Signed::cost(loss))?;
            let totals = [
                Signed::cost(fees.execution()?),
                swap,
                Signed::cost(fees.relay),
                Signed::cost(fees.app_total()?),
                Signed::ZERO,
            ];
            let paid = Sponsorship::allocate(sponsor, totals, price, decimals)?;
            if price.usd_ceil(paid.sponsored_total()?, decimals)? <= available {
                Some(paid)
            } else if ask.wishes.fixed_rate.is_some() {
                return Err(Refusal::SponsorBalance);
            } else {
                Some(Sponsorship::none(sponsor, totals))
            }
        }
    };
    let sponsored = sponsorship.as_ref().map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?;
    let total = fees.total()?;
    let left = total.taken_from(deposit.checked_add(sponsored)?);
    let exchanged = left.map_err(|_| Refusal::AmountTooLow { fees: total.size() })?;
    Ok(Split { fees, sponsorship, exchanged })
}

/// The way back through the market, and what the transfer does to the balance of our inventory.
fn rebalance_bps(exchange: Pair, rates: &Rates<'_>, terms: &Terms) -> i16 {
    let need = |bps: i32| i64::from(bps.clamp(-10_000, 10_000));
    let skew = need(rates.payout_need_bps) - need(rates.deposit_need_bps);
    // Rounded up: towards the cost.
    let skew = (i64::from(terms.rebalance_bps) * skew + 19_999).div_euclid(20_000);
    i16::try_from(i64::from(exchange.spread_bps(terms)) + skew).unwrap_or(i16::MAX)
}

pub(crate) fn gas_cost(units: u64, price: u128) -> Result<Amount, OutOfRange> {
    U256::from(units).checked_mul(U256::from(price)).map(Amount::new).ok_or(OutOfRange)
}

/// Gas of the user's own steps: a native deposit, an approval and a token deposit, or a trade before either.
pub(crate) fn user_gas(currency: &Currency, swaps: bool) -> u64 {
    match (currency.native, swaps) {
        (true, false) => 26_000,
        (false, false) => 46_000 + 75_000,
        (true, true) => 260_000,
        (false, true) => 46_000 + 330_000,
    }
}

/// The confirmations we ask for, the block that carries the fill, and the moment in between.
fn time_estimate(origin: &Chain, destination: &Chain, worth: UsdMicros) -> u32 {
    let confirming = origin.block_time_millis.saturating_mul(origin.confirmations_for(worth).into());
    let millis = confirming.saturating_add(destination.block_time_millis);
    u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
pub(crate) mod tests;
