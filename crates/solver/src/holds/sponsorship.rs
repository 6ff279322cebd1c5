//! Sponsored fees and app fees of a fill: reserved when the deposit is accepted, fixed in the commit that decides the
//! fill, booked when fill and deposit are final, released when there is no fill.

use alloy::primitives::Address;
use domain::deposit;
use domain::fixed_rate::Fixed;
use domain::ids::{ChainId, OrderId};
use domain::ledger::{Cause, Entry, Hold, HoldId, HoldKind, UsdcMicros};
use domain::money::{Amount, Price, UsdMicros};
use domain::outcome::{Costs, Currencies, Outcome, is_live};
use domain::payment::State as PaymentState;
use domain::quote::{CurrencyKey, Quote};
use market::Snapshot;
use store::dues::Due;
use store::ledger::{self, Opened};
use store::payments::{Payment, PaymentId, PaymentRow, Subject};
use store::requests::Request;
use store::{Tx, deposits, keys, outcomes, payments};
use tracing::warn;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::holds::fast_fill;

/// Result of a reservation with a fill's sponsor.
#[derive(Debug)]
pub enum Asked {
    /// The reservation is made, for this outcome of the fill.
    Reserved(Option<Box<Outcome>>),
    TooLow,
    /// The market has moved further from the fixed rate than an integrator may stand for.
    TooFar,
    /// Prices are not known at the moment.
    Unknown,
}

/// Reserves the quoted fees when the deposit is accepted, even if the fill has to wait. `false` if the sponsor does not
/// cover them.
pub fn reserve_quoted(tx: &mut Tx<'_>, quote: &Quote, due: &Due, context: &PayContext) -> Result<bool, SolverError> {
    if !is_live(quote)? || is_reserved(tx, due)? {
        return Ok(true);
    }
    if !is_still_theirs(tx, quote)? {
        return Ok(false);
    }
    let outcome = quoted(tx, quote, due.order(), due.amount, context)?;
    set_aside(tx, quote, due, outcome.as_ref(), context)
}

/// The outcome of a fill of this amount at the quote's own prices and gas. Those are good enough to charge for, and not
/// to credit at: app fees stay unpriced, and a gain of the fixed rate is nobody's.
fn quoted(
    tx: &mut Tx<'_>,
    quote: &Quote,
    order: OrderId,
    amount: Amount,
    context: &PayContext,
) -> Result<Option<Outcome>, SolverError> {
    let Some(currencies) = currencies(quote, context) else { return Ok(None) };
    let prices = &quote.figures.prices;
    let gas = prices.deposit.usd_ceil(quote.figures.fees.fill_gas, currencies.deposit.decimals)?;
    let market = quote.figures.fixed.map(|fixed| fixed.market_output);
    let costs = Costs {
        deposit: prices.deposit,
        payout: prices.payout,
        usdc: context.usdc_price(),
        credit: None,
        gain: None,
        gas,
        market,
    };
    let deposited = deposited(tx, quote, order)?;
    Ok(Outcome::of(quote, deposited, amount, &costs, currencies)?)
}

/// Reserves the fees of a fill that was found on the chain and that this database did not decide. Its outcome is lost
/// with the database that did; the quoted one is taken, and reserved even if the sponsor cannot cover it: the user was
/// paid.
pub fn found(
    tx: &mut Tx<'_>,
    quote: &Quote,
    payment: &Payment,
    id: PaymentId,
    context: &PayContext,
) -> Result<(), SolverError> {
    let Some(outcome) = quoted(tx, quote, payment.order(), payment.amount, context)? else { return Ok(()) };
    outcomes::put(tx, id, payment.order(), &outcome)?;
    let (kind, subject) = (HoldKind::Sponsorship, payment.order().0);
    if let Some((wallet, amount)) = outcome.reservation() {
        match ledger::open_hold_of(tx, kind, subject)? {
            Some(open) if open.hold.amount >= amount => return Ok(()),
            Some(open) => ledger::void_hold(tx, open.hold.id, context.now).map(drop)?,
            None => {}
        }
        let id = HoldId { kind, subject, attempt: ledger::next_attempt(tx, kind, subject)? };
        ledger::impose_hold(tx, &Hold { id, wallet, amount, request: payment.request }, context.now)?;
    }
    Ok(())
}

/// True if the order has a reservation.
pub fn is_reserved(tx: &mut Tx<'_>, due: &Due) -> Result<bool, SolverError> {
    Ok(ledger::open_hold_of(tx, HoldKind::Sponsorship, due.order().0)?.is_some())
}

/// True if the API key of the quote is not revoked and still belongs to the sponsor: a leaked key is revoked, and its
/// quotes must not cost its owner any more.
pub(crate) fn is_still_theirs(tx: &mut Tx<'_>, quote: &Quote) -> Result<bool, SolverError> {
    let Some(id) = quote.ask.key else { return Ok(false) };
    let wallet = quote.ask.options.sponsor.as_ref().map(|sponsor| sponsor.wallet);
    let key = keys::find(tx, id)?.filter(|key| key.revoked_at.is_none());
    Ok(key.is_some_and(|key| key.wallet.is_some() && key.wallet == wallet))
}

/// Costs of a fill as it is decided.
#[derive(Clone, Copy, Debug)]
pub struct FillCost {
    /// The amount paid out.
    pub amount: Amount,
    /// The market's output for a fixed-rate fill. None if prices are not known, or the rate is not fixed.
    pub market: Option<Amount>,
    /// Gas, in the destination's native currency.
    pub gas: Amount,
    /// Gas of the sweep or the relay that brings the deposit, in the origin's native currency: zero for a deposit of
    /// the user's own, and none while the origin's fees are not known.
    pub sweep: Option<Amount>,
}

/// Reserves the outcome of a decided fill at today's costs, in place of the quoted one.
pub fn reserve(
    tx: &mut Tx<'_>,
    quote: &Quote,
    due: &Due,
    cost: &FillCost,
    (handle, there): (&ChainHandle, &Snapshot),
    context: &PayContext,
) -> Result<Asked, SolverError> {
    let nobody = quote.ask.options.app_fees.is_empty() && !is_live(quote)?;
    if nobody {
        return Ok(Asked::Reserved(None));
    }
    let Some(currencies) = currencies(quote, context) else { return Ok(Asked::Unknown) };
    if let Some(fixed) = quote.figures.fixed {
        let Some(market) = cost.market else { return Ok(Asked::Unknown) };
        if (Fixed { market_output: market, ..fixed }).deviates(cost.amount)? {
            return Ok(Asked::TooFar);
        }
    }
    let Some(costs) = costs(quote, cost, (handle, there), context)? else { return Ok(Asked::Unknown) };
    let deposited = deposited(tx, quote, due.order())?;
    let outcome = Outcome::of(quote, deposited, cost.amount, &costs, currencies)?;
    let covered = set_aside(tx, quote, due, outcome.as_ref(), context)?;
    Ok(if covered { Asked::Reserved(outcome.map(Box::new)) } else { Asked::TooLow })
}

/// The costs of a fill at today's prices. None while a price is not known that a sponsor is charged by; only the credit
/// of app fees can be left for later.
fn costs(
    quote: &Quote,
    cost: &FillCost,
    (handle, there): (&ChainHandle, &Snapshot),
    context: &PayContext,
) -> Result<Option<Costs>, SolverError> {
    let Some(terms) = &quote.terms else { return Ok(None) };
    let currency = |key: &CurrencyKey| (key.chain, key.address.packed().unwrap_or_default());
    let ((here, deposit), (payer, payout)) = (currency(&terms.deposit), currency(&terms.payout));
    let credit = context.credit_rate(here, deposit, quote.figures.fees.app_total()?)?;
    let prices = &quote.figures.prices;
    let mut costs = Costs {
        // Shown beside app fees, and nothing else where there is no sponsor.
        deposit: credit.map_or(prices.deposit, |rate| rate.price),
        payout: prices.payout,
        usdc: context.usdc_price(),
        credit,
        gain: None,
        gas: UsdMicros(0),
        market: cost.market,
    };
    if !is_live(quote)? {
        return Ok(Some(costs));
    }
    let price = |chain, currency| context.price_now(chain, currency).map(|(price, _)| price);
    let native = price(there.chain, Address::ZERO);
    let (Some(deposit), Some(paid), Some(native)) = (price(here, deposit), price(payer, payout), native) else {
        return Ok(None);
    };
    (costs.deposit, costs.payout) = (deposit, paid);
    let Some(sweep) = swept(cost, here, context)? else { return Ok(None) };
    costs.gas = native.usd_ceil(cost.gas, handle.chain.native.decimals)?.checked_add(sweep)?;
    let gain = cost.market.map(|market| market.saturating_sub(cost.amount)).filter(|gain| !gain.is_zero());
    if let Some(gain) = gain {
        let Some(rate) = context.credit_rate(payer, payout, gain)? else { return Ok(None) };
        costs.gain = Some(rate);
    }
    Ok(Some(costs))
}

/// The worth of a sweep's gas on this chain. None while it is not known.
fn swept(cost: &FillCost, chain: ChainId, context: &PayContext) -> Result<Option<UsdMicros>, SolverError> {
    let Some(sweep) = cost.sweep else { return Ok(None) };
    if sweep.is_zero() {
        return Ok(Some(UsdMicros(0)));
    }
    let native = context.on(chain).map(|(handle, _)| handle.chain.native.decimals);
    let (Some(decimals), Some((price, _))) = (native, context.price_now(chain, Address::ZERO)) else {
        return Ok(None);
    };
    Ok(Some(price.usd_ceil(sweep, decimals)?))
}

fn currencies<'a>(quote: &Quote, context: &'a PayContext) -> Option<Currencies<'a>> {
    let terms = quote.terms.as_ref()?;
    let deposit = context.on(terms.deposit.chain)?.0.chain.currency(&terms.deposit.address)?;
    let payout = context.on(terms.payout.chain)?.0.chain.currency(&terms.payout.address)?;
    Some(Currencies { deposit, payout })
}

/// The amount deposited for the order or, if the deposit is still to come, the quoted one.
fn deposited(tx: &mut Tx<'_>, quote: &Quote, order: OrderId) -> Result<Amount, SolverError> {
    let tied = deposits::of_order(tx, order)?.filter(|stored| stored.state != deposit::State::Gone);
    Ok(tied.map_or(quote.figures.deposit, |stored| stored.deposit.amount))
}

fn set_aside(
    tx: &mut Tx<'_>,
    quote: &Quote,
    due: &Due,
    outcome: Option<&Outcome>,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let reservation = outcome.and_then(|outcome| Some((outcome, outcome.reservation()?)));
    let Some((outcome, (wallet, amount))) = reservation else { return Ok(true) };
    let (kind, subject) = (HoldKind::Sponsorship, due.order().0);
    let open = ledger::open_hold_of(tx, kind, subject)?;
    let own = open.as_ref().map_or(UsdcMicros::ZERO, |open| open.hold.amount);
    if !covers_delivery(tx, quote, outcome, (wallet, own), context)? {
        return Ok(false);
    }
    if let Some(open) = open {
        // The hold only grows: otherwise a waiting fill would leave an entry at every block.
        return Ok(amount <= open.hold.amount || ledger::change_hold(tx, open.hold.id, amount, context.now)?);
    }
    let id = HoldId { kind, subject, attempt: ledger::next_attempt(tx, kind, subject)? };
    let hold = Hold { id, wallet, amount, request: due.request };
    match ledger::open_hold(tx, &hold, context.now)? {
        Opened::Now | Opened::Already(_) => Ok(true),
        Opened::TooLow(_) => Ok(false),
    }
}

/// True if what a sponsor delivers beyond fees is covered by money that stands for nothing else. Fees stay with us, and
/// may be paid out of what a fast fill counts on; a delivery leaves us, and would pay that dollar out twice. `own` is
/// the order's reservation so far.
fn covers_delivery(
    tx: &mut Tx<'_>,
    quote: &Quote,
    outcome: &Outcome,
    (wallet, own): (Address, UsdcMicros),
    context: &PayContext,
) -> Result<bool, SolverError> {
    let Some(currencies) = currencies(quote, context) else { return Ok(true) };
    let (top_up, decimals) = (quote.figures.fees.top_up, currencies.deposit.decimals);
    let delivered = outcome.delivered(top_up, decimals, context.usdc_price())?;
    if delivered <= UsdcMicros::ZERO {
        return Ok(true);
    }
    let account = ledger::account(tx, wallet)?;
    Ok(account.balance.minus(account.held).minus(account.reserved).plus(own) >= delivered)
}

/// Voids the reservation: there will be no fill.
pub fn release(tx: &mut Tx<'_>, request: &Request, context: &PayContext) -> Result<(), SolverError> {
    if is_live(&request.quote)?
        && let Some(open) = ledger::open_hold_of(tx, HoldKind::Sponsorship, request.order_id.0)?
    {
        ledger::void_hold(tx, open.hold.id, context.now)?;
    }
    Ok(())
}

/// Books a fill's outcome once the fill and its deposit, or the fast fill's hold in place of the deposit, are final.
/// Until then a reorg may take either away and bring it back, and nothing has to be undone.
pub fn settle(tx: &mut Tx<'_>, order: OrderId, context: &PayContext) -> Result<(), SolverError> {
    let Some(fill) = payments::live(tx, &Subject::Fill(order))? else { return Ok(()) };
    let paid = payments::find(tx, fill)?.filter(|paid| paid.state == PaymentState::Final);
    let Some(paid) = paid else { return Ok(()) };
    let deposited = deposits::of_order(tx, order)?.is_some_and(|tied| tied.state == deposit::State::Final);
    if deposited || fast_fill::was_lost(tx, order)? { book(tx, &paid, context) } else { Ok(()) }
}

/// Voids the reservation of an order whose deposit was reorged away for good: nobody pays us, so nobody earns, and the
/// sponsor is not charged for our loss.
pub fn forgo(tx: &mut Tx<'_>, order: OrderId, context: &PayContext) -> Result<(), SolverError> {
    if let Some(open) = ledger::open_hold_of(tx, HoldKind::Sponsorship, order.0)? {
        ledger::void_hold(tx, open.hold.id, context.now)?;
    }
    Ok(())
}

fn book(tx: &mut Tx<'_>, paid: &PaymentRow, context: &PayContext) -> Result<(), SolverError> {
    let (payment, request) = (paid.id.0, paid.payment.request);
    let hold = ledger::open_hold_of(tx, HoldKind::Sponsorship, paid.payment.order().0)?;
    let Some(outcome) = outcomes::find(tx, paid.id)? else {
        // The fill was found on the chain, and its currencies are no longer served: its outcome is unknown.
        if let Some(hold) = hold {
            warn!(request.id = request.map(display), "a sponsored fill was imported, and its sponsor is not charged");
            ledger::void_hold(tx, hold.hold.id, context.now)?;
        }
        return Ok(());
    };
    let request = request.ok_or(SolverError::InvariantViolated("a fill of no request"))?;
    let mut app = outcome.app_entries(payment, request)?;
    app.sort_by_key(Entry::wallet);
    let sponsor = outcome.sponsor_entries(payment, request)?;
    // Accounts are locked in the order of their addresses.
    let after = app.partition_point(|entry| outcome.reservation().is_none_or(|(wallet, _)| entry.wallet() <= wallet));
    let mut credited = Vec::new();
    for entry in &app[..after] {
        if ledger::post(tx, entry, context.now)? {
            credited.push(*entry);
        }
    }
    match hold {
        Some(hold) => {
            ledger::post_hold(tx, hold.hold.id, &sponsor, context.now)?;
        }
        None => {
            for entry in &sponsor {
                ledger::post(tx, entry, context.now)?;
            }
        }
    }
    for entry in &app[after..] {
        if ledger::post(tx, entry, context.now)? {
            credited.push(*entry);
        }
    }
    hold_fees(tx, &outcome, &credited, context)
}

/// Holds app fees that were credited in this unit and that a sponsor pays, while its balance stands for fast fills: the
/// same dollar may be theirs.
pub(crate) fn hold_fees(
    tx: &mut Tx<'_>,
    outcome: &Outcome,
    credited: &[Entry],
    context: &PayContext,
) -> Result<(), SolverError> {
    let sponsor = outcome.sponsor_of_app_fees();
    for entry in credited {
        let Cause::AppFee { payment, place } = entry.cause() else { continue };
        let id = HoldId::of_app_fee(payment, place);
        let fee = Hold { id, wallet: entry.wallet(), amount: entry.delta(), request: entry.request() };
        let held = sponsor.map_or(Ok(false), |sponsor| ledger::hold_app_fee(tx, &fee, sponsor, context.now))?;
        if !held {
            // It may have paid the wallet's debt.
            ledger::free_app_fees_of(tx, entry.wallet(), context.now)?;
        }
    }
    Ok(())
}

/// The amount that a sponsor can spend on a new transfer, in dollars. Negative if it owes too much.
pub fn spendable(account: &domain::ledger::Account, usdc: Price) -> UsdMicros {
    let refused = UsdMicros(-1);
    if !account.covers(HoldKind::Sponsorship, UsdcMicros::ZERO) {
        return refused;
    }
    let units = account.available(HoldKind::Sponsorship).0.unsigned_abs();
    usdc.usd_floor(Amount::new(alloy::primitives::U256::from(units)), 6).unwrap_or(refused)
}
