//! Routes of a transfer: the currency that the user deposits, the one that the solver pays out, and the pools on either
//! side.
//!
//! Currencies that the solver holds are deposited and paid out as they are. All others are traded: by the user before
//! the deposit, by the solver as part of the fill.

use alloy::primitives::Address;
use domain::catalog::Currency;
use domain::inventory::Stock;
use domain::money::{Amount, OutOfRange, UsdMicros};
use domain::pricing::{self, Draft, Fresh, Rates, Refusal, Route, Side};
use domain::quote::{Ask, Prices, Quote, Trade};
use domain::same_chain::{self, DUST, Place};
use domain::swap::{Exchange, Offer};
use market::{MarketError, Routes, Snapshot, hedge};

use crate::payments::gas::{self, Shape, pools};
use crate::quoting::quote::{Bound, QuoteError, Quoter};

/// Legs that are priced in full, on each side.
const MAX_LEGS: usize = 2;

/// A currency to deposit or to pay out, and the market between it and the currency that the caller named.
#[derive(Clone, Debug)]
struct Leg<'a> {
    currency: &'a Currency,
    market: Option<Routes<'a>>,
    /// The market's offer from when the leg was ranked: a route is often priced with the same amount.
    asked: Option<(Amount, Offer)>,
}

impl<'a> Leg<'a> {
    fn direct(currency: &'a Currency) -> Self {
        Self { currency, market: None, asked: None }
    }

    fn traded(currency: &'a Currency, market: Routes<'a>) -> Self {
        Self { currency, market: Some(market), asked: None }
    }

    fn exchange(&self) -> Option<&dyn Exchange> {
        self.market.is_some().then_some(self)
    }

    /// Asks the market and remembers the answer.
    fn ask(&mut self, input: Amount) -> Option<Amount> {
        let offer = self.sell(input)?;
        let amount = offer.amount;
        self.asked = Some((input, offer));
        Some(amount)
    }
}

impl Exchange for Leg<'_> {
    fn sell(&self, input: Amount) -> Option<Offer> {
        let known = self.asked.as_ref().filter(|(asked, _)| *asked == input);
        known.map_or_else(|| self.market?.sell(input), |(_, offer)| Some(offer.clone()))
    }

    fn buy(&self, output: Amount) -> Option<Offer> {
        self.market?.buy(output)
    }
}

/// Both sides of a transfer at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteInputs<'a> {
    pub origin: Side<'a>,
    pub destination: Side<'a>,
    pub here: &'a Snapshot,
    pub there: &'a Snapshot,
    pub sponsor_available: UsdMicros,
}

impl RouteInputs<'_> {
    /// Replaces an error about a missing route while some pools are unread: a route may go through them.
    pub(crate) fn or_missing_pools(&self, error: QuoteError, stays: bool) -> QuoteError {
        let no_way = matches!(
            error,
            QuoteError::Refused(Refusal::NoRoute | Refusal::InsufficientLiquidity)
                | QuoteError::Market(MarketError::NoPrice { .. })
        );
        let read = |pools: bool, market: &Snapshot| if pools { market.check_pools() } else { Ok(()) };
        let origin = read(stays || !self.origin.currency.held, self.here);
        match origin.and(read(!self.destination.currency.held, self.there)) {
            Err(missing) if no_way => missing.into(),
            _ => error,
        }
    }
}

impl Quoter {
    /// The quote of the best route across chains.
    pub(crate) fn cross(&self, ask: Ask, inputs: RouteInputs<'_>, fresh: Fresh) -> Result<Quote, QuoteError> {
        let deposits = deposits(&ask, inputs)?;
        let held = inputs.destination.currency.held;
        let direct = Leg::direct(inputs.destination.currency);
        if held {
            match self.best(&ask, inputs, &deposits, &[direct], fresh) {
                // A currency that we are out of may be bought.
                Err(dry @ (QuoteError::Refused(Refusal::InsufficientLiquidity) | QuoteError::TooMuch { .. }))
                    if ask.options.fixed_rate.is_none() =>
                {
                    let bought = self.best(&ask, inputs, &deposits, &self.payouts(&ask, inputs), fresh);
                    return bought.map_err(|_| dry);
                }
                other => return other,
            }
        }
        self.best(&ask, inputs, &deposits, &self.payouts(&ask, inputs), fresh)
    }

    /// Currencies that the solver could pay out and trade for the one that was asked for.
    fn payouts<'a>(&self, ask: &Ask, inputs: RouteInputs<'a>) -> Vec<Leg<'a>> {
        let RouteInputs { destination, there, .. } = inputs;
        let Some(handle) = self.solver.chains.get(&destination.chain.id) else { return Vec::new() };
        let to = destination.currency.evm_address();
        let legs =
            destination.chain.held().filter(|currency| currency.native || destination.chain.spend_limiter.is_some());
        let legs = legs.filter_map(|currency| Some(Leg::traded(currency, there.exchange(currency.evm_address(), to)?)));
        most(legs, |leg| {
            let paid = about(ask, inputs, leg.currency, there)?;
            let brings = leg.ask(paid)?;
            // A currency that we have enough of comes first, even if it brings less.
            let enough = handle.payable(leg.currency.evm_address(), there, true) >= paid;
            Some((enough, worth(destination.currency, brings, there)?))
        })
    }

    fn best(
        &self,
        ask: &Ask,
        inputs: RouteInputs<'_>,
        deposits: &[Leg<'_>],
        payouts: &[Leg<'_>],
        fresh: Fresh,
    ) -> Result<Quote, QuoteError> {
        let mut best: Result<Draft<'_>, QuoteError> = Err(Refusal::NoRoute.into());
        for deposit in deposits {
            for payout in payouts {
                let route = Route {
                    origin: inputs.origin,
                    deposit: deposit.currency,
                    payout: payout.currency,
                    destination: inputs.destination,
                };
                let price = |pools| {
                    let rates = self.rates(ask, inputs, deposit, payout, pools)?;
                    let draft = pricing::draft(ask, route, rates, &self.solver.terms);
                    draft.map_err(|refusal| bounded(refusal, ask, route, &rates))
                };
                // The number of pools is known once a route is priced; most take one.
                let first = usize::from(payout.market.is_some());
                let mut draft = price(first);
                let more = draft.as_ref().map_or(first, |draft| pools(draft.destination_swap()));
                if more > first {
                    draft = price(more);
                }
                // Drafts are large: only the better one is moved.
                if beats(&draft, &best, ask.trade) {
                    best = draft;
                }
            }
        }
        Ok(best?.quote(fresh)?)
    }

    fn rates<'a>(
        &self,
        ask: &Ask,
        inputs: RouteInputs<'a>,
        deposit: &'a Leg<'a>,
        payout: &'a Leg<'a>,
        pools: usize,
    ) -> Result<Rates<'a>, QuoteError> {
        let RouteInputs { origin, destination, here, there, sponsor_available } = inputs;
        let handle = self.solver.chains.get(&destination.chain.id).ok_or(Refusal::NoRoute)?;
        let paid = payout.currency.evm_address();
        let options = &ask.options;
        let routed = payout.market.is_some() || options.top_up.is_some() || !options.calls.is_empty();
        if routed && !paid.is_zero() && destination.chain.spend_limiter.is_none() {
            return Err(QuoteError::NoSpendLimiter { chain: destination.chain.id });
        }
        let shape = if routed {
            Shape::Routed { tried: options.tried_gas, calls: &options.calls, pools }
        } else {
            Shape::transfer(payout.currency.native, self.is_contract(ask, destination), options.tried_gas)
        };
        Ok(Rates {
            prices: Prices {
                origin: here.price(origin.currency.evm_address())?,
                deposit: here.price(deposit.currency.evm_address())?,
                origin_native: here.price(Address::ZERO)?,
                payout: there.price(paid)?,
                destination: there.price(destination.currency.evm_address())?,
                destination_native: there.price(Address::ZERO)?,
            },
            fill_cost: with_origin_gas(
                gas::of(destination.chain.fill_gas, shape).cost(there),
                ask,
                inputs,
                deposit.market.is_some(),
            )?,
            fill_millis: handle.health.fill_time.millis(),
            payable: handle.payable(paid, there, routed),
            payable_native: handle.payable(Address::ZERO, there, routed),
            hedge: about(ask, inputs, deposit.currency, here).and_then(|amount| {
                let origin = (origin.chain, deposit.currency, here);
                hedge(origin, (destination.chain, payout.currency, there), amount)
            }),
            losses_known: here.has_feed(origin.currency.evm_address())
                && there.has_feed(destination.currency.evm_address()),
            deposit_need_bps: need_bps(deposit.currency, here, |stock| {
                stock.need_while_adding(about(ask, inputs, deposit.currency, here).unwrap_or_default())
            })?,
            payout_need_bps: need_bps(payout.currency, there, |stock| {
                stock.need_while_taking(about(ask, inputs, payout.currency, there).unwrap_or_default())
            })?,
            origin_swap: deposit.exchange(),
            destination_swap: payout.exchange(),
            sponsor_available,
        })
    }

    fn is_contract(&self, ask: &Ask, destination: Side<'_>) -> bool {
        let chain = destination.chain.id;
        ask.recipient.packed().is_some_and(|who| self.solver.recipient_code.is_contract(chain, who))
    }

    /// The quote of a same-chain transfer.
    pub(crate) fn stay(&self, ask: Ask, inputs: RouteInputs<'_>, fresh: Fresh) -> Result<Quote, QuoteError> {
        let RouteInputs { origin, destination, here, sponsor_available, .. } = inputs;
        let (from, to) = (origin.currency.evm_address(), destination.currency.evm_address());
        let market = here.exchange(from, to);
        let (origin_price, native) = (here.price(from)?, here.price(Address::ZERO)?);
        let destination_price = here.price(to)?;
        let rates = same_chain::Rates {
            prices: Prices {
                origin: origin_price,
                deposit: origin_price,
                origin_native: native,
                payout: destination_price,
                destination: destination_price,
                destination_native: native,
            },
            swap: market.as_ref().map(|market| market as &dyn Exchange),
            sponsor_available,
        };
        let place = Place { chain: origin.chain, from: origin.currency, to: destination.currency };
        let (fixed, price) = match ask.trade {
            Trade::ExactInput => (place.from, origin_price),
            Trade::ExactOutput | Trade::ExpectedOutput => (place.to, destination_price),
        };
        let quote = same_chain::price(ask, place, &rates, &self.solver.terms, fresh);
        quote.map_err(|refusal| match (refusal, price.amount_floor(DUST, fixed.decimals)) {
            (Refusal::AmountTooLow { fees }, _) => QuoteError::TooLow { fees: Bound::new(fees, place.from) },
            (Refusal::Dust, Ok(least)) => QuoteError::Dust { least: Bound::new(least, fixed) },
            (refusal, _) => refusal.into(),
        })
    }
}

/// The cost of a fill and of bringing the money into the depository, where that is ours to do: in the destination's
/// native currency, in which gas is counted.
pub(crate) fn with_origin_gas(
    fill: Amount,
    ask: &Ask,
    inputs: RouteInputs<'_>,
    trades: bool,
) -> Result<Amount, QuoteError> {
    let RouteInputs { origin, destination, here, there, .. } = inputs;
    let Some(cost) = gas::origin_cost(&ask.options, here, origin.currency.native, trades) else { return Ok(fill) };
    let (here_price, there_price) = (here.price(Address::ZERO)?, there.price(Address::ZERO)?);
    let cost = || {
        let worth = here_price.usd_ceil(cost, origin.chain.native.decimals)?;
        there_price.amount_ceil(worth, destination.chain.native.decimals)?.checked_add(fill)
    };
    Ok(cost().map_err(Refusal::from)?)
}

/// The refusal with the amount that would do. Through pools nobody knows the most that they give, and beside a gas
/// top-up it may be the gas that is missing.
fn bounded(refusal: Refusal, ask: &Ask, route: Route<'_>, rates: &Rates<'_>) -> QuoteError {
    let direct = rates.origin_swap.is_none() && rates.destination_swap.is_none() && ask.options.top_up.is_none();
    match refusal {
        Refusal::AmountTooLow { fees } => QuoteError::TooLow { fees: Bound::new(fees, route.deposit) },
        Refusal::InsufficientLiquidity if direct => {
            QuoteError::TooMuch { most: Bound::new(rates.payable, route.payout) }
        }
        other => other.into(),
    }
}

/// More output, or less input. A draft beats a refusal, and any refusal beats "no route".
fn beats(draft: &Result<Draft<'_>, QuoteError>, best: &Result<Draft<'_>, QuoteError>, trade: Trade) -> bool {
    match (draft, best) {
        (Ok(draft), Ok(best)) => match trade {
            Trade::ExactInput => draft.output() > best.output(),
            Trade::ExactOutput | Trade::ExpectedOutput => draft.input() < best.input(),
        },
        (Ok(_), Err(_)) | (Err(_), Err(QuoteError::Refused(Refusal::NoRoute))) => true,
        (Err(_), _) => false,
    }
}

fn deposits<'a>(ask: &Ask, inputs: RouteInputs<'a>) -> Result<Vec<Leg<'a>>, QuoteError> {
    let RouteInputs { origin, here, .. } = inputs;
    if origin.currency.held {
        return Ok(vec![Leg::direct(origin.currency)]);
    }
    if ask.options.no_origin_swap {
        return Err(QuoteError::OriginSwapsDisabled);
    }
    let from = origin.currency.evm_address();
    let legs = origin
        .chain
        .held()
        .filter_map(|currency| Some(Leg::traded(currency, here.exchange(from, currency.evm_address())?)));
    let input = about(ask, inputs, origin.currency, here);
    Ok(most(legs, |leg| worth(leg.currency, leg.ask(input?)?, here)))
}

/// The legs that bring the most. A leg without a price yet comes last; currencies without a market have no leg.
fn most<'a, R: Ord + Copy>(
    legs: impl Iterator<Item = Leg<'a>>,
    rank: impl Fn(&mut Leg<'a>) -> Option<R>,
) -> Vec<Leg<'a>> {
    let mut ranked: Vec<(Option<R>, Leg<'a>)> = Vec::new();
    for mut leg in legs {
        // The native currency and its wrapped token have one market, which is asked once.
        let twin = ranked.iter().find(|(_, other)| other.market == leg.market);
        leg.asked = twin.and_then(|(_, twin)| twin.asked.clone());
        ranked.push((rank(&mut leg), leg));
    }
    // The first of equals wins: the native currency is first in the list.
    ranked.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    ranked.into_iter().take(MAX_LEGS).map(|(_, leg)| leg).collect()
}

/// The transfer's worth in this currency, to compare legs by.
fn about(ask: &Ask, inputs: RouteInputs<'_>, currency: &Currency, market: &Snapshot) -> Option<Amount> {
    let (fixed, price) = match ask.trade {
        Trade::ExactInput => (inputs.origin.currency, inputs.here.price(inputs.origin.currency.evm_address()).ok()?),
        Trade::ExactOutput | Trade::ExpectedOutput => {
            (inputs.destination.currency, inputs.there.price(inputs.destination.currency.evm_address()).ok()?)
        }
    };
    if std::ptr::eq(fixed, currency) {
        return Some(ask.amount);
    }
    let usd = price.usd_floor(ask.amount, fixed.decimals).ok()?;
    market.price(currency.evm_address()).ok()?.amount_floor(usd, currency.decimals).ok()
}

fn worth(currency: &Currency, amount: Amount, market: &Snapshot) -> Option<UsdMicros> {
    market.price(currency.evm_address()).ok()?.usd_floor(amount, currency.decimals).ok()
}

/// The need for a currency over a trade. Without a target there is none.
fn need_bps(
    currency: &Currency,
    snapshot: &Snapshot,
    over: impl FnOnce(Stock) -> Result<i32, OutOfRange>,
) -> Result<i32, Refusal> {
    let Some(target) = currency.target else { return Ok(0) };
    Ok(over(Stock { held: snapshot.held(currency.evm_address()), target })?)
}
