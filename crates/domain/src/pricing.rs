//! Pricing: the fees of a transfer and its output, as a function of facts.
//!
//! A transfer has up to four currencies: what the user pays, what reaches the depository, what the solver pays out and
//! what arrives. Between the first two and the last two there may be a trade on a chain's pools; between the middle two
//! is our own rate. Fees are taken out of the deposit, in its currency. Charges are rounded up, payouts are rounded
//! down, and the output is computed from what is left, so the parts always add up to the deposit. Where the
//! caller fixes the output, the input is the least that pays for it by the same rules.

use alloy_primitives::B256;

mod inputs;
mod solve;
mod split;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use self::inputs::check_impact;
pub(crate) use self::solve::EXACT_OUTPUT_HEADROOM_BPS;
pub(crate) use self::split::{Split, split};

use self::inputs::Pricing;
use self::solve::Solved;
use crate::catalog::{Chain, Currency};
use crate::fixed_rate::{Fixed, MAX_DEVIATION_BPS};
use crate::ids::RequestId;
use crate::money::{Amount, OutOfRange, Ratio, UsdMicros};
use crate::quote::{Ask, CurrencyKey, Figures, OrderTerms, Prices, Quote, Swap};
use crate::swap::Exchange;
use crate::time::Timestamp;

pub use crate::terms::Terms;

/// The market at one moment, as far as this transfer is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Rates<'a> {
    pub prices: Prices,
    /// The cost of the fill on the destination, in its native currency: gas, and data where that is charged for.
    pub fill_cost: Amount,
    /// The most that one fill can pay out of the solver's inventory now, and of native currency beside it.
    pub payable: Amount,
    pub payable_native: Amount,
    /// How much more of the deposit and the payout currency we would like to hold, in basis points of what we would
    /// like, on average over the trade: negative where we hold too much.
    pub deposit_need_bps: i32,
    pub payout_need_bps: i32,
    /// The rate at which pools exchange the deposit for the payout currency, where there are such pools.
    pub hedge: Option<Ratio>,
    pub origin_swap: Option<&'a dyn Exchange>,
    pub destination_swap: Option<&'a dyn Exchange>,
    /// The recent time from deciding a fill to sending it.
    pub fill_millis: u64,
    /// Both the origin and the destination currency are priced by feeds: what pools take of them can be told, and made
    /// good by a sponsor. A pool's own price is anybody's to set.
    pub losses_known: bool,
    /// The amount that the caller's sponsor can spend. Negative where it owes too much to get anything.
    pub sponsor_available: UsdMicros,
}

/// The id, salt and time that make one quote different from the next.
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
    #[error("an option needs a solver and is not offered on the same chain: {0:?}")]
    NotOnSameChain(SolverOption),
    #[error("Amount is higher than the available liquidity")]
    InsufficientLiquidity,
    #[error("the trade would lose too much to the pools")]
    ImpactTooHigh,
    #[error("the values of the calls exceed the output")]
    CallValues,
    #[error("the output is already the gas currency")]
    TopUpOfGas,
    #[error("the fees of apps together must stay below the amount")]
    AppFees,
    #[error("a fixed rate needs a sponsor")]
    FixedRateUnsponsored,
    #[error("the fixed rate is more than {MAX_DEVIATION_BPS} basis points away from the market")]
    FixedRateDeviates,
    #[error("a fixed rate is only between stablecoins that the solver holds")]
    FixedRateCurrency,
    #[error("the sponsor's balance does not cover this transfer")]
    SponsorBalance,
    #[error("an amount is out of range")]
    OutOfRange,
}

/// An option of a quote that only a solver can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SolverOption {
    Calls,
    TopUp,
    FixedRate,
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
pub struct Route<'a> {
    pub origin: Side<'a>,
    pub deposit: &'a Currency,
    pub payout: &'a Currency,
    pub destination: Side<'a>,
}

/// A priced route, before the best one is promised.
#[derive(Debug)]
pub struct Draft<'a> {
    pricing: Pricing<'a>,
    solved: Solved,
    top_up: Option<Amount>,
    fixed: Option<Fixed>,
}

/// Prices the transfer by this route.
pub fn draft<'a>(ask: &'a Ask, route: Route<'a>, rates: Rates<'a>, terms: &'a Terms) -> Result<Draft<'a>, Refusal> {
    let pricing = Pricing::new(ask, route, rates, terms)?;
    let solved = pricing.solve()?;
    let top_up = pricing.top_up()?;
    let beside = top_up.unwrap_or_default();
    let native = if route.payout.native { solved.paid.checked_add(beside)? } else { beside };
    if solved.paid > rates.payable || native > rates.payable_native {
        return Err(Refusal::InsufficientLiquidity);
    }
    check_calls(ask, route.destination.currency, solved.minimum)?;
    let fixed = pricing.fixed(&solved.split, solved.output)?;
    Ok(Draft { pricing, solved, top_up, fixed })
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

    /// The promise, with the figures that only it needs.
    pub fn quote(self, fresh: Fresh) -> Result<Quote, Refusal> {
        let Self { pricing, solved, top_up, fixed } = self;
        let origin_swap = pricing.bounded_origin_swap(&solved)?;
        let Solved { split, destination_swap, paid, output, minimum, slippage_bps, deposit, input, .. } = solved;
        let Pricing { route, rates, terms, pair, exchange, .. } = pricing;
        let trades = exchange.is_exchange() || origin_swap.is_some() || destination_swap.is_some();
        let mut figures = Figures {
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
            origin_gas: Amount::ZERO,
            slippage_bps,
            prices: rates.prices,
            time_estimate_secs: time_estimate(route, pricing.worth(deposit)?, rates.fill_millis),
        };
        // One asset is worth itself whatever two feeds say, and a fixed rate's difference is told apart.
        if trades && figures.fixed.is_none() {
            figures.count_loss(route.origin.currency, route.deposit, route.destination.currency)?;
        }
        let at_address = pricing.ask.options.deposit_address.is_some();
        let lifetime = if at_address { terms.deposit_addresses.lifetime } else { terms.order_lifetime };
        let deadline = fresh.now.plus(lifetime).secs();
        let key =
            |chain: &Chain, currency: &Currency| CurrencyKey { chain: chain.id, address: currency.address.clone() };
        Ok(Quote {
            id: fresh.id,
            ask: pricing.bounded_ask(),
            figures,
            created_at: fresh.now,
            origin_swap,
            destination_swap,
            terms: Some(OrderTerms {
                deadline: u32::try_from(deadline).map_err(|_| Refusal::OutOfRange)?,
                salt: fresh.salt,
                solver: terms.solver,
                solver_chain: terms.solver_chain.clone(),
                origin_chain: route.origin.chain.name.clone(),
                destination_chain: route.destination.chain.name.clone(),
                origin_router: route.origin.chain.router,
                destination_router: route.destination.chain.router,
                deposit: key(route.origin.chain, route.deposit),
                payout: key(route.destination.chain, route.payout),
                exchange: exchange.is_exchange(),
            }),
        })
    }
}

/// The calls' values must be covered even if only the minimum arrives, and native currency is only there if it is
/// what arrives.
fn check_calls(ask: &Ask, arrives: &Currency, minimum: Amount) -> Result<(), Refusal> {
    let values = ask.options.calls.iter().try_fold(Amount::ZERO, |sum, call| sum.checked_add(call.value))?;
    let most = if arrives.native { minimum } else { Amount::ZERO };
    if values > most { Err(Refusal::CallValues) } else { Ok(()) }
}

/// Seconds until the deposit is confirmed, the fill is sent and a block holds it.
fn time_estimate(route: Route<'_>, worth: UsdMicros, fill_millis: u64) -> u32 {
    let (origin, destination) = (route.origin.chain, route.destination.chain);
    let confirming = origin.block_time_millis.saturating_mul(origin.confirmations_for(worth).into());
    let blocks = confirming.saturating_add(destination.block_time_millis).div_ceil(1_000);
    let ours = fill_millis.saturating_add(500) / 1_000;
    u32::try_from(blocks.saturating_add(ours)).unwrap_or(u32::MAX).max(1)
}
