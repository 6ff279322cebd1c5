//! A deposit's worth on an app balance: as a credit, and as a charge, at this moment or at one that has passed.
//!
//! Both are exchanges at our own terms. At the bare price of a feed, whoever chooses the moment could buy or sell with
//! us for nothing.

use alloy::primitives::Address;
use domain::catalog::Currency;
use domain::credit::CreditRate;
use domain::debt;
use domain::ids::ChainId;
use domain::ledger::{self, UsdcMicros};
use domain::money::{Amount, OutOfRange, Price, Ratio, pow10};
use domain::pair::Pair;
use market::Snapshot;
use store::deposits::Deposit;
use store::fast_fills::FastFill;

use crate::context::PayContext;
use crate::context::past_prices::{Moment, Past};

/// The credit for an amount of a currency. None while its worth is not known.
pub fn credit(
    context: &PayContext,
    (chain, currency): (ChainId, Address),
    amount: Amount,
) -> Result<Option<UsdcMicros>, OutOfRange> {
    context.credit_rate(chain, currency, amount)?.map(|rate| rate.micros(amount)).transpose()
}

/// The charge for an amount of a currency that is owed to us: the rate of the feeds, and relay fee and spread on top.
/// None while that is not known. Pools do not count: anyone could move one against the one who is charged.
pub fn charge(context: &PayContext, of: (ChainId, Address), amount: Amount) -> Result<Option<UsdcMicros>, OutOfRange> {
    let Some(exchange) = Exchange::of(context, of) else { return Ok(None) };
    let Some(prices) = exchange.prices(exchange.price_now()) else { return Ok(None) };
    exchange.charge(prices, amount, context).map(Some)
}

/// The charge in place of a fast fill's deposit that did not come within its window. None while it is not known.
pub fn charge_missed(
    context: &PayContext,
    fast: &FastFill,
    of: (ChainId, Address),
) -> Result<Option<UsdcMicros>, OutOfRange> {
    let now = charge(context, of, fast.amount)?;
    let Some(exchange) = Exchange::of(context, of).filter(|it| it.pair.is_exchange()) else { return Ok(now) };
    let at_end = match context.past_prices.at(Moment::new(of, fast.window_ends)) {
        Past::Unread => return Ok(None),
        Past::Forgotten => None,
        Past::Known(span) => match exchange.prices(Some(span.high)) {
            None => return Ok(None),
            Some(prices) => Some(exchange.charge(prices, fast.amount, context)?),
        },
    };
    let at_fill = context.terms.fast_fill.worth(fast.held, exchange.currency.class)?;
    Ok(debt::charge(at_end, at_fill, now))
}

/// The worths of a deposit that came after the window: when it landed, where that is remembered, and now.
#[derive(Clone, Copy, Debug)]
pub struct LateWorth {
    landed: Option<UsdcMicros>,
    now: UsdcMicros,
}

impl LateWorth {
    /// None while it is not known.
    pub fn of(context: &PayContext, deposit: &Deposit) -> Result<Option<Self>, OutOfRange> {
        let of = (deposit.chain, deposit.currency);
        let Some(now) = credit(context, of, deposit.amount)? else { return Ok(None) };
        let Some(exchange) = Exchange::of(context, of).filter(|it| it.pair.is_exchange()) else {
            return Ok(Some(Self { landed: None, now }));
        };
        let landed = match context.past_prices.at(Moment::new(of, deposit.block_time)) {
            Past::Unread => return Ok(None),
            Past::Forgotten => None,
            Past::Known(span) => match exchange.prices(Some(span.low)) {
                None => return Ok(None),
                Some(prices) => Some(exchange.credit(prices, deposit.amount, context)?),
            },
        };
        Ok(Some(Self { landed, now }))
    }

    /// The credit for it, where so much was charged in its place.
    pub fn credit(self, charged: UsdcMicros) -> UsdcMicros {
        debt::credit(charged, self.landed, self.now)
    }
}

/// An exchange of a currency for the USDC of app balances.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    currency: &'a Currency,
    here: Option<&'a Snapshot>,
    usdc: &'a Currency,
    there: Option<&'a Snapshot>,
    pair: Pair,
}

impl<'a> Exchange<'a> {
    fn of(context: &'a PayContext, (chain, currency): (ChainId, Address)) -> Option<Self> {
        let (handle, here) = context.on(chain)?;
        let currency = handle.chain.token(currency)?;
        let (home, there) = context.on(context.balances()?.id())?;
        let usdc = ledger::currency(&home.chain)?;
        Some(Self { currency, here, usdc, there, pair: Pair::of(currency, usdc) })
    }

    fn price_now(&self) -> Option<Price> {
        fresh(self.here, self.currency.evm_address())
    }

    /// The prices of both sides, with this one for the currency.
    fn prices(&self, price: Option<Price>) -> Option<(Price, Price)> {
        if !self.pair.is_exchange() {
            // One asset is worth itself, whatever its price.
            return Some((Price::DOLLAR, Price::DOLLAR));
        }
        price.zip(fresh(self.there, self.usdc.evm_address()))
    }

    fn charge(
        &self,
        (price, usdc_price): (Price, Price),
        amount: Amount,
        context: &PayContext,
    ) -> Result<UsdcMicros, OutOfRange> {
        let (pair, usdc) = (self.pair, self.usdc);
        let charged = Ratio::bps_more(pair.charged_bps(&context.terms));
        let rate = pair.rate((self.currency, price), (usdc, usdc_price))?.times(charged)?;
        let micros = rate.times(Ratio::new(pow10(6), pow10(usdc.decimals))?)?;
        i64::try_from(amount.mul_ceil(micros)?.units()).map(UsdcMicros).map_err(|_| OutOfRange)
    }

    /// A bound of a credit at a price that has passed. Pools are not remembered: those of now bound the credit as well.
    fn credit(
        &self,
        (price, usdc_price): (Price, Price),
        amount: Amount,
        context: &PayContext,
    ) -> Result<UsdcMicros, OutOfRange> {
        CreditRate::new((self.currency, price), (self.usdc, usdc_price), None, &context.terms)?.micros(amount)
    }
}

fn fresh(snapshot: Option<&Snapshot>, of: Address) -> Option<Price> {
    snapshot.filter(|snapshot| snapshot.check_age().is_ok()).and_then(|snapshot| snapshot.fed(of))
}
