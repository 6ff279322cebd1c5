//! Same-chain transfers, through the router and without a solver: swap, wrap, unwrap, send.
//!
//! The service's share and the apps' are taken out of the input in the user's own transaction. App fees are taken only
//! in currencies with a price feed: they are credited in dollars, and anybody can move the price of a pool.

use crate::catalog::{Chain, Currency};
use crate::fees::{Charge, Fees, least};
use crate::money::{Amount, OutOfRange, Ratio, UsdMicros};
use crate::pair::Pair;
use crate::pricing::{EXACT_OUTPUT_HEADROOM_BPS, Fresh, Refusal, SolverOption, Split, Terms, check_impact, split};
use crate::quote::{Ask, Bound, Figures, Operation, Prices, Quote, Swap, Trade};
use crate::sponsorship::NotSponsored;
use crate::swap::{Exchange, Offer};

/// The market at one moment, on one chain.
#[derive(Clone, Copy, Debug)]
pub struct Rates<'a> {
    pub prices: Prices,
    pub swap: Option<&'a dyn Exchange>,
    pub sponsor_available: UsdMicros,
}

#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub chain: &'a Chain,
    pub from: &'a Currency,
    pub to: &'a Currency,
}

/// A swap below this is not worth its gas.
pub const DUST: UsdMicros = UsdMicros(50_000);

pub fn price(ask: Ask, place: Place<'_>, rates: &Rates<'_>, terms: &Terms, fresh: Fresh) -> Result<Quote, Refusal> {
    let operation = operation(&ask, place);
    refuse_what_needs_a_solver(&ask)?;
    let pair = Pair::of(place.from, place.to);
    let charge = match operation {
        // Sending collects nothing.
        Operation::Send => Charge::default(),
        Operation::Swap | Operation::Bridge | Operation::Wrap | Operation::Unwrap => Charge {
            relay_bps: if operation == Operation::Swap { pair.relay_bps(terms) } else { 0 },
            app_bps: if place.chain.is_fed(place.from) {
                ask.options.app_fees.iter().map(|fee| fee.bps).collect()
            } else {
                Vec::new()
            },
            ..Charge::default()
        },
    };
    charge.check().map_err(|OutOfRange| Refusal::AppFees)?;
    if operation == Operation::Send && ask.recipient == ask.user {
        return Err(Refusal::NothingToDo);
    }
    let market = match operation {
        Operation::Swap | Operation::Bridge => Some(rates.swap.ok_or(Refusal::NoRoute)?),
        Operation::Send | Operation::Wrap | Operation::Unwrap => None,
    };
    let worth = match ask.trade {
        Trade::ExactInput => rates.prices.origin.usd_floor(ask.amount, place.from.decimals)?,
        Trade::ExactOutput | Trade::ExpectedOutput => {
            rates.prices.destination.usd_floor(ask.amount, place.to.decimals)?
        }
    };
    // Before the market is asked: of next to nothing a pool makes nothing, or a fantastic price.
    if market.is_some() && worth < DUST {
        return Err(Refusal::Dust);
    }
    let pricing = Pricing { ask: &ask, place, rates, terms, charge, market };
    let Solved { input, split, swap, output, minimum, slippage_bps } = pricing.solve(pair)?;
    let mut figures = Figures {
        operation,
        input,
        deposit: input,
        exchanged: split.exchanged,
        paid: output,
        output,
        minimum,
        fees: split.fees,
        top_up: None,
        sponsorship: split.sponsorship,
        fixed: None,
        origin_gas: Amount::ZERO,
        slippage_bps,
        prices: rates.prices,
        time_estimate_secs: u32::try_from(place.chain.block_time_millis.div_ceil(1000)).unwrap_or(u32::MAX).max(1),
    };
    if let Some(sponsorship) = &mut figures.sponsorship {
        sponsorship.refused = Some(NotSponsored::SameChain);
    }
    if swap.is_some() {
        figures.count_loss(place.from, place.from, place.to)?;
    }
    let created_at = fresh.now;
    Ok(Quote { id: fresh.id, ask, figures, created_at, origin_swap: swap, destination_swap: None, terms: None })
}

fn operation(ask: &Ask, place: Place<'_>) -> Operation {
    if ask.origin == ask.destination {
        Operation::Send
    } else if place.from.native && place.chain.wraps(place.to) {
        Operation::Wrap
    } else if place.chain.wraps(place.from) && place.to.native {
        Operation::Unwrap
    } else {
        Operation::Swap
    }
}

fn refuse_what_needs_a_solver(ask: &Ask) -> Result<(), Refusal> {
    let options = &ask.options;
    let asked = [
        (SolverOption::Calls, !options.calls.is_empty()),
        (SolverOption::TopUp, options.top_up.is_some()),
        (SolverOption::FixedRate, options.fixed_rate.is_some()),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((option, _)) => Err(Refusal::NotOnSameChain(option)),
        None => Ok(()),
    }
}

struct Solved {
    input: Amount,
    split: Split,
    swap: Option<Swap>,
    output: Amount,
    minimum: Amount,
    slippage_bps: u16,
}

struct Pricing<'a> {
    ask: &'a Ask,
    place: Place<'a>,
    rates: &'a Rates<'a>,
    terms: &'a Terms,
    charge: Charge,
    market: Option<&'a dyn Exchange>,
}

impl Pricing<'_> {
    fn solve(&self, pair: Pair) -> Result<Solved, Refusal> {
        let amount = self.ask.amount;
        let slippage = self.ask.slippage_bps.unwrap_or(pair.slippage_bps(self.terms, true));
        match (self.ask.trade, self.market) {
            (Trade::ExactInput, _) => self.forward(amount, slippage),
            (Trade::ExpectedOutput, Some(market)) => {
                let offer = market.buy(amount).ok_or(Refusal::InsufficientLiquidity)?;
                self.forward(self.input_for(offer.amount)?, slippage)
            }
            (Trade::ExactOutput, Some(market)) => {
                let offer = market.buy(amount).ok_or(Refusal::InsufficientLiquidity)?;
                self.exact_output(amount, offer)
            }
            // At par: what arrives is what is left.
            (Trade::ExactOutput | Trade::ExpectedOutput, None) => self.forward(self.input_for(amount)?, slippage),
        }
    }

    fn forward(&self, input: Amount, slippage_bps: u16) -> Result<Solved, Refusal> {
        let split = self.split(input)?;
        let Some(market) = self.market else {
            let output = split.exchanged;
            if output.is_zero() {
                return Err(self.too_low(&split.fees));
            }
            let slippage_bps = self.ask.slippage_bps.unwrap_or(0);
            return Ok(Solved { input, split, swap: None, output, minimum: output, slippage_bps });
        };
        let offer = market.sell(split.exchanged).ok_or(Refusal::InsufficientLiquidity)?;
        self.check_impact(split.exchanged, offer.amount)?;
        let kept = 10_000u16.checked_sub(slippage_bps).ok_or(Refusal::OutOfRange)?;
        let (output, minimum) = (offer.amount, offer.amount.mul_floor(Ratio::bps(kept))?);
        let swap = Swap { path: offer.path, input: split.exchanged, output, bound: Bound::LeastOutput(minimum) };
        Ok(Solved { input, split, swap: Some(swap), output, minimum, slippage_bps })
    }

    fn exact_output(&self, output: Amount, offer: Offer) -> Result<Solved, Refusal> {
        self.check_impact(offer.amount, output)?;
        let input = self.input_for(offer.amount)?;
        let slippage_bps = self.ask.slippage_bps.unwrap_or(EXACT_OUTPUT_HEADROOM_BPS);
        let most = offer.amount.mul_ceil(Ratio::bps_more(slippage_bps))?;
        let swap = Swap { path: offer.path, input: offer.amount, output, bound: Bound::MostInput(most) };
        Ok(Solved { input, split: self.split(input)?, swap: Some(swap), output, minimum: output, slippage_bps })
    }

    fn split(&self, input: Amount) -> Result<Split, Refusal> {
        let price = (self.rates.prices.origin, self.place.from.decimals);
        split(self.ask, &self.charge, input, Amount::ZERO, price, self.rates.sponsor_available)
    }

    /// The least input of which this much is left to trade.
    fn input_for(&self, left: Amount) -> Result<Amount, Refusal> {
        let pays = |input| self.split(input).is_ok_and(|split| split.exchanged >= left);
        least(self.charge.gross(left)?, pays).ok_or(Refusal::OutOfRange)
    }

    fn check_impact(&self, sold: Amount, bought: Amount) -> Result<(), Refusal> {
        if self.ask.options.any_impact {
            return Ok(());
        }
        let prices = &self.rates.prices;
        let spent = prices.origin.usd_floor(sold, self.place.from.decimals)?;
        check_impact((spent, prices.destination.usd_floor(bought, self.place.to.decimals)?), self.terms)
    }

    fn too_low(&self, fees: &Fees) -> Refusal {
        fees.total().map_or(Refusal::OutOfRange, |fees| Refusal::AmountTooLow { fees: fees.size() })
    }
}
