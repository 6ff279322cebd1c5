//! The one place that creates payments.

use std::fmt;

use alloy::primitives::{Address, U256};
use domain::deposit;
use domain::fail::{FailReason, RefundFailReason};
use domain::ids::OrderId;
use domain::money::{Amount, Price, Ratio};
use domain::outcome::is_live;
use domain::quote::Quote;
use market::Snapshot;
use store::dues::Due;
use store::lanes::Lane;
use store::payments::{Fees, Outstanding, Payment, PaymentRow, Purpose};
use store::{Tx, contracts, deposits, dues, fast_fills, lanes, outcomes, payers, payments, risk, settlements};

use crate::chain_handle::ChainHandle;
use crate::claims;
use crate::deposits::worth;
use crate::error::SolverError;
use crate::fast_fill;
use crate::payment_call::PaymentCall;
use crate::reprice::{Repriced, reprice};
use crate::solver::PayContext;
use crate::sponsor::{self, Asked};

#[derive(Clone, Debug)]
pub enum Outcome {
    /// Committed with the unit: lane, nonce and contents are fixed.
    Paid(Box<PaymentRow>),
    /// The due row stays, and is tried again when something changes.
    NotNow(Reason),
    /// The order already has its outcome; nothing is owed.
    Settled,
    /// A refund that costs more than it returns.
    Worthless(RefundFailReason),
    /// The market no longer gives what the order asks for.
    CannotFill(FailReason),
}

/// What a payment waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    UnknownChain,
    /// A chain of the order takes no payments; the text says why and what to do.
    Refusing(String),
    NoMarket,
    /// A contract that the payment goes through is not configured.
    NoContract,
    FeesTooHigh,
    LanesFull,
    /// Another process is the worker.
    Elsewhere,
    /// No lane has the funds.
    Inventory,
    /// Too much is out against deposits that are not final.
    OverBudget,
    /// More than a return from our own funds may be.
    TooLarge,
    /// It failed on the chain too often to be tried again without somebody looking.
    NeedsPerson,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownChain => f.write_str("the chain is not configured"),
            Self::Refusing(why) => f.write_str(why),
            Self::NoMarket => f.write_str("the chain's prices and balances are not known"),
            Self::NoContract => {
                f.write_str("the chain has no spend limiter or no dex configured, which this payment goes through")
            }
            Self::FeesTooHigh => f.write_str("gas costs more than the configured cap"),
            Self::LanesFull => f.write_str("every lane is full or quarantined"),
            Self::Elsewhere => f.write_str("the worker, which runs elsewhere, is about to pay it"),
            Self::Inventory => f.write_str("no wallet has the funds"),
            Self::OverBudget => f.write_str("too much is paid out against deposits that are not final yet"),
            Self::TooLarge => f.write_str("too large to be returned from our own funds"),
            Self::NeedsPerson => f.write_str("it failed on the chain twice; a person has to look at it"),
        }
    }
}

/// A recipient that refuses money must not cost us gas for ever.
pub const fn max_voids(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Fill | Purpose::Refund | Purpose::Excess | Purpose::Claim => 2,
        Purpose::Return | Purpose::Refill | Purpose::Payout => 1,
    }
}

/// How many times the quoted gas of a fill is taken off a refund at the most, for fills that failed.
const MAX_WASTED_GAS_TIMES: u64 = 3;

/// The largest share of what we can pay that one return may take: more than that is for the depository to pay, or
/// anyone could move our inventory into it.
const MAX_RETURN_BPS: u16 = 1_000;

/// Turns what is due into a payment, or says why not now. Runs inside the caller's unit; the settlement row taken here
/// is what excludes every other outcome of the order.
///
/// A fill is paid by its quote; what else there is needs none.
pub fn pay(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<Outcome, SolverError> {
    if let Some(why) = context.refusing(due.chain, quote) {
        return not_now(Reason::Refusing(why.to_string()));
    }
    if settlements::outcome(tx, due.order)?.is_some() {
        return Ok(Outcome::Settled);
    }
    if !context.pays {
        return not_now(Reason::Elsewhere);
    }
    let voids = payments::voids(tx, due.purpose, due.subject)?;
    if voids >= max_voids(due.purpose) {
        return not_now(Reason::NeedsPerson);
    }
    // A fill ahead of its deposit that came to nothing decided nothing for the one after.
    // What was set aside for one that failed may have been given back meanwhile: then all is decided anew.
    let repeats = voids > 0 && !fast_fills::was_voided(tx, due.order)? && {
        let live = quote.map_or(Ok(false), is_live)?;
        !live || sponsor::is_reserved(tx, due)?
    };
    if let (Purpose::Fill, false, Some(quote)) = (due.purpose, repeats, quote)
        && !sponsor::reserve_quoted(tx, quote, due, context)?
    {
        return Ok(Outcome::CannotFill(FailReason::SponsorBalanceTooLow));
    }
    let Some((handle, snapshot)) = context.on(due.chain) else { return not_now(Reason::UnknownChain) };
    let Some(snapshot) = snapshot else { return not_now(Reason::NoMarket) };
    let Some(fees) = first_offer(handle, snapshot) else { return not_now(Reason::FeesTooHigh) };
    let amount = match due.purpose {
        Purpose::Fill | Purpose::Claim => due.amount,
        // The allocator gives its own to the lanes, and so does who fills up our wallets.
        Purpose::Payout | Purpose::Refill => {
            return Err(SolverError::InvariantViolated("a payout or a top-up is never due"));
        }
        Purpose::Refund | Purpose::Return | Purpose::Excess => {
            let cost = refund_cost(handle, snapshot, due.currency)?;
            let wasted = match quote.filter(|_| due.purpose == Purpose::Refund) {
                Some(quote) => wasted(tx, due.order, (handle, snapshot), due.currency, quote, context)?,
                None => Some(Amount::ZERO),
            };
            let (Some(cost), Some(wasted)) = (cost, wasted) else { return not_now(Reason::NoMarket) };
            let amount = due.amount.saturating_sub(cost);
            if !amount.is_zero() && amount <= wasted {
                return Ok(Outcome::Worthless(RefundFailReason::NegativeNewAmountAfterFees));
            }
            amount.saturating_sub(wasted)
        }
    };
    match due.purpose {
        Purpose::Refund | Purpose::Return | Purpose::Excess if amount.is_zero() => {
            return Ok(Outcome::Worthless(RefundFailReason::AmountTooLowToRefund));
        }
        Purpose::Fill | Purpose::Claim if amount.is_zero() => {
            return Err(SolverError::InvariantViolated("a payment of nothing"));
        }
        Purpose::Fill
        | Purpose::Refund
        | Purpose::Return
        | Purpose::Excess
        | Purpose::Claim
        | Purpose::Refill
        | Purpose::Payout => {}
    }
    if matches!(due.purpose, Purpose::Refund | Purpose::Excess)
        && handle.depository_pays(due.currency, due.amount)
        && quote.is_some_and(|quote| worth(quote, handle, due.currency, due.amount) > handle.settings.most_refund)
    {
        return not_now(Reason::TooLarge);
    }
    if due.purpose == Purpose::Return
        && amount > handle.payable(due.currency, snapshot, false).mul_floor(Ratio::bps(MAX_RETURN_BPS))?
    {
        return not_now(Reason::TooLarge);
    }
    let to_contract = match context.accounts.code(due.chain, due.recipient) {
        Some(is_contract) => is_contract,
        // Quoted by another process, or before a restart. Only native currency asks.
        None => due.currency.is_zero() && contracts::is_known(tx, due.chain, due.recipient)?,
    };
    let filled = quote.filter(|_| due.purpose == Purpose::Fill);
    let (amount, swap, comes_to) = match filled {
        None => (amount, None, None),
        // What was decided once and is paid again is not decided again.
        Some(quote) if repeats => {
            (amount, quote.destination_swap.clone(), outcomes::of_order(tx, due.order)?.map(Box::new))
        }
        Some(quote) => match reprice(quote, amount, handle, snapshot, context)? {
            Repriced::Pay { amount, swap } => {
                match sponsor::reserve(tx, quote, due, amount, (handle, snapshot), context)? {
                    Asked::Reserved(comes_to) => (amount, swap, comes_to),
                    Asked::TooLow => return Ok(Outcome::CannotFill(FailReason::SponsorBalanceTooLow)),
                    Asked::TooFar => return Ok(Outcome::CannotFill(FailReason::Slippage)),
                    Asked::Unknown => return not_now(Reason::NoMarket),
                }
            }
            Repriced::Refund(reason) => return Ok(Outcome::CannotFill(reason)),
            Repriced::Unknown => return not_now(Reason::NoMarket),
        },
    };
    let filled = filled.map(|quote| (quote, swap.as_ref()));
    let call = match due.purpose {
        Purpose::Claim => Some(claims::call(tx, due, handle)?),
        Purpose::Fill | Purpose::Refund | Purpose::Return | Purpose::Excess | Purpose::Refill | Purpose::Payout => {
            PaymentCall::of(due, amount, handle, to_contract, filled)
        }
    };
    let Some(call) = call else { return not_now(Reason::NoContract) };
    if !context.sends || !handle.sends() {
        return not_now(Reason::Elsewhere);
    }
    let payers = payers::lock(tx, due.chain, snapshot.block)?;
    let mut free: Vec<&Lane> = payers
        .lanes
        .iter()
        .filter(|lane| lane.quarantined.is_none() && lane.unmined < room(due.purpose, handle.settings.window))
        .filter(|lane| handle.wallets.iter().any(|wallet| wallet.address == lane.wallet))
        .collect();
    if free.is_empty() {
        payers.keep(tx);
        return not_now(Reason::LanesFull);
    }
    // Whatever is paid back leaves the wallet enough gas for the fills it may still have to send.
    let reserve = match due.purpose {
        Purpose::Fill => 0,
        Purpose::Refund | Purpose::Return | Purpose::Excess | Purpose::Claim | Purpose::Refill | Purpose::Payout => {
            handle.settings.window.saturating_mul(handle.chain.fill_gas.erc20_limit)
        }
    };
    free.sort_by_key(|lane| lane.unmined);
    let able = |lane: &&&Lane| can_pay(lane.wallet, &call, fees, reserve, snapshot, &payers.outstanding);
    let Some(wallet) = free.iter().find(able).map(|lane| lane.wallet) else {
        payers.keep(tx);
        return not_now(Reason::Inventory);
    };
    if !within_risk(tx, due, quote, context)? {
        payers.keep(tx);
        return not_now(Reason::OverBudget);
    }
    let payment = Payment {
        purpose: due.purpose,
        subject: due.subject,
        request: due.request,
        order: due.order,
        chain: due.chain,
        wallet,
        nonce: lanes::take_nonce(tx, due.chain, wallet)?,
        target: call.target,
        value: call.value,
        data: call.data,
        gas: call.gas,
        recipient: due.recipient,
        currency: due.currency,
        amount,
    };
    let stored = payments::insert(tx, &payment, fees, context.now)?;
    let stored = stored.ok_or(SolverError::InvariantViolated("a live payment without its settlement"))?;
    if !settlements::take(tx, due.order, due.purpose, stored.id)? {
        return Err(SolverError::InvariantViolated("an order was settled twice in one unit"));
    }
    if due.purpose == Purpose::Fill {
        fast_fill::paid(tx, due, quote, context)?;
    }
    if let Some(comes_to) = &comes_to {
        outcomes::put(tx, stored.id, due.order, comes_to)?;
    }
    dues::remove(tx, due.purpose, due.subject)?;
    payers.keep_with(tx, &stored);
    Ok(Outcome::Paid(Box::new(stored)))
}

/// What goes back for nothing, or is in no hurry, leaves half of every lane to what was promised.
const fn room(purpose: Purpose, window: u64) -> u64 {
    match purpose {
        Purpose::Fill | Purpose::Refund => window,
        Purpose::Return | Purpose::Excess | Purpose::Claim | Purpose::Refill | Purpose::Payout => window / 2,
    }
}

/// Counts a payment against a deposit that a reorg could still take away. A return or an excess comes after finality
/// anyway.
fn within_risk(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<bool, SolverError> {
    let against = matches!(due.purpose, Purpose::Fill | Purpose::Refund);
    let (Some(quote), true) = (quote, against) else { return Ok(true) };
    let Some(stored) = deposits::of_order(tx, due.order)? else { return Ok(true) };
    let deposit = &stored.deposit;
    if stored.state == deposit::State::Final {
        return Ok(true);
    }
    let Some((handle, _)) = context.on(deposit.chain) else { return Ok(false) };
    let usd = worth(quote, handle, deposit.currency, deposit.amount);
    Ok(risk::take(tx, deposit.chain, due.order, usd, handle.settings.risk, context.now)?)
}

/// Keeps what cannot be paid now, with the reason. A refund that our own funds are not for is left to the depository,
/// which pays it once the deposit is final.
pub fn keep(tx: &mut Tx<'_>, due: &Due, reason: &Reason, context: &PayContext) -> Result<(), SolverError> {
    if !is_for_the_depository(tx, due, reason, context)? {
        return Ok(dues::put(tx, due, &reason.to_string(), context.now)?);
    }
    dues::put(tx, due, &format!("{reason}: it goes out of the depository once its deposit is final"), context.now)?;
    Ok(dues::leave_to_depository(tx, due.purpose, due.subject)?)
}

fn is_for_the_depository(
    tx: &mut Tx<'_>,
    due: &Due,
    reason: &Reason,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let pays = context.on(due.chain).is_some_and(|(handle, _)| handle.depository_pays(due.currency, due.amount));
    if due.purpose != Purpose::Refund || !pays {
        return Ok(false);
    }
    Ok(match reason {
        Reason::OverBudget | Reason::TooLarge | Reason::NeedsPerson => true,
        // Until then there may be funds again.
        Reason::Inventory => {
            deposits::of_order(tx, due.order)?.is_some_and(|stored| stored.state == deposit::State::Final)
        }
        Reason::UnknownChain
        | Reason::Refusing(_)
        | Reason::NoMarket
        | Reason::NoContract
        | Reason::FeesTooHigh
        | Reason::LanesFull
        | Reason::Elsewhere => false,
    })
}

fn not_now(reason: Reason) -> Result<Outcome, SolverError> {
    Ok(Outcome::NotNow(reason))
}

pub(crate) fn first_offer(handle: &ChainHandle, snapshot: &Snapshot) -> Option<Fees> {
    let max_fee = snapshot.max_fee();
    if max_fee > handle.settings.max_fee_cap {
        return None;
    }
    Some(Fees { max_fee: u64::try_from(max_fee).ok()?, max_tip: u64::try_from(snapshot.tip).ok()? })
}

/// What sending a refund costs, in the refunded currency. None when prices are not known.
pub(crate) fn refund_cost(
    handle: &ChainHandle,
    snapshot: &Snapshot,
    currency: Address,
) -> Result<Option<Amount>, SolverError> {
    let gas = handle.chain.fill_gas;
    let units = if currency.is_zero() { gas.native_typical } else { gas.erc20_typical };
    let wei = snapshot.cost(units);
    if currency.is_zero() {
        return Ok(Some(wei));
    }
    let Some(token) = handle.chain.token(currency) else { return Ok(None) };
    let (Ok(native), Ok(price)) = (snapshot.price(Address::ZERO), snapshot.price(currency)) else { return Ok(None) };
    let rate = Price::exchange((native, handle.chain.native.decimals), (price, token.decimals))?;
    Ok(Some(wei.mul_ceil(rate)?))
}

/// What fills of an order that failed come to, off its refund and in the currency that goes back: never more than so many
/// times the gas that was quoted, because what is beyond that is not the caller's doing. None when prices are not known.
pub(crate) fn wasted(
    tx: &mut Tx<'_>,
    order: OrderId,
    (handle, snapshot): (&ChainHandle, &Snapshot),
    currency: Address,
    quote: &Quote,
    context: &PayContext,
) -> Result<Option<Amount>, SolverError> {
    // Calls are the caller's own: only they can make them pass when they are tried and fail when they are paid, so what
    // that burns is theirs. Any other fill that fails is our loss.
    if quote.ask.options.calls.is_empty() {
        return Ok(Some(Amount::ZERO));
    }
    let mut sum = Amount::ZERO;
    for (chain, fee) in payments::wasted(tx, Purpose::Fill, order.0)? {
        let Some((there, Some(market))) = context.on(chain) else { return Ok(None) };
        let known = if currency.is_zero() { Some(&handle.chain.native) } else { handle.chain.token(currency) };
        let Some(known) = known else { return Ok(None) };
        let (Ok(native), Ok(price)) = (market.price(Address::ZERO), snapshot.price(currency)) else {
            return Ok(None);
        };
        let rate = Price::exchange((native, there.chain.native.decimals), (price, known.decimals))?;
        sum = sum.checked_add(fee.mul_ceil(rate)?)?;
    }
    let most = quote.figures.fees.fill_gas.mul_floor(Ratio::new(U256::from(MAX_WASTED_GAS_TIMES), U256::ONE)?)?;
    Ok(Some(sum.min(most)))
}

/// Whether a wallet can pay: what was there at the snapshot's block, less everything that block does not know of.
pub(crate) fn can_pay(
    wallet: Address,
    call: &PaymentCall,
    fees: Fees,
    reserve: u64,
    snapshot: &Snapshot,
    outstanding: &[Outstanding],
) -> bool {
    let gas = |gas: u64, fee: u64| U256::from(gas).saturating_mul(U256::from(fee));
    let sum = |items: &mut dyn Iterator<Item = U256>| items.fold(U256::ZERO, U256::saturating_add);
    let of_wallet = || outstanding.iter().filter(|payment| payment.wallet == wallet);
    let native_out =
        sum(&mut of_wallet().map(|payment| payment.value.units().saturating_add(gas(payment.gas, payment.max_fee))));
    let own_gas = gas(call.gas.saturating_add(reserve), fees.max_fee)
        .saturating_add(snapshot.data_fee_of(call.data.len()).units());
    let native_need = call.value.units().saturating_add(own_gas).saturating_add(native_out);
    if snapshot.native.get(&wallet).copied().unwrap_or_default().units() < native_need {
        return false;
    }
    if call.currency.is_zero() {
        return true;
    }
    let Some(funds) = snapshot.tokens.get(&call.currency) else { return false };
    let same = |payment: &&Outstanding| payment.currency == call.currency;
    let treasury_out = sum(&mut outstanding.iter().filter(same).map(|payment| payment.amount.units()));
    // A wallet's allowance and its limit at the spend limiter are two limits: what one has out does not burden the other.
    let same_way =
        |payment: &&Outstanding| same(payment) && (payment.target != payment.currency) == call.through_spend_limiter;
    let wallet_out = sum(&mut of_wallet().filter(same_way).map(|payment| payment.amount.units()));
    let limiter_out = sum(&mut outstanding.iter().filter(same_way).map(|payment| payment.amount.units()));
    let need = call.amount.units();
    let enough = |has: Amount, out: U256| has.units() >= need.saturating_add(out);
    let allowed = if call.through_spend_limiter {
        let limit = funds.limits.get(&wallet).copied().unwrap_or_default();
        enough(limit, wallet_out) && enough(funds.spend_limiter, limiter_out)
    } else {
        enough(funds.allowances.get(&wallet).copied().unwrap_or_default(), wallet_out)
    };
    allowed && enough(funds.treasury, treasury_out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use alloy::primitives::{B256, Bytes};
    use domain::ids::ChainId;
    use market::TokenFunds;

    use super::*;

    const WALLET: Address = Address::repeat_byte(1);
    const OTHER: Address = Address::repeat_byte(2);
    const TOKEN: Address = Address::repeat_byte(9);
    const FEES: Fees = Fees { max_fee: 10, max_tip: 1 };

    fn amount(units: u64) -> Amount {
        Amount::new(U256::from(units))
    }

    fn snapshot(native: u64, treasury: u64, allowance: u64) -> Snapshot {
        Snapshot {
            chain: ChainId(1),
            block: 1,
            hash: B256::ZERO,
            time: 0,
            base_fee: 3,
            tip: 1,
            data_fee: Amount::ZERO,
            prices: BTreeMap::new(),
            spots: BTreeMap::new(),
            native: [(WALLET, amount(native)), (OTHER, amount(native))].into(),
            pools: Default::default(),
            tokens: [(
                TOKEN,
                TokenFunds {
                    treasury: amount(treasury),
                    allowances: [(WALLET, amount(allowance)), (OTHER, amount(allowance))].into(),
                    spend_limiter: amount(allowance),
                    limits: [(WALLET, amount(allowance))].into(),
                },
            )]
            .into(),
            received: Instant::now(),
            max_age: Duration::from_secs(1),
        }
    }

    fn call(currency: Address, units: u64) -> PaymentCall {
        let value = if currency.is_zero() { amount(units) } else { Amount::ZERO };
        let (target, data) = (currency, Bytes::new());
        PaymentCall { target, value, data, gas: 5, currency, amount: amount(units), through_spend_limiter: false }
    }

    fn out(wallet: Address, currency: Address, units: u64) -> Outstanding {
        let value = if currency.is_zero() { amount(units) } else { Amount::ZERO };
        Outstanding { wallet, target: currency, value, currency, amount: amount(units), gas: 5, max_fee: 10 }
    }

    #[test]
    fn a_native_payment_needs_its_value_its_gas_and_what_is_already_out() {
        // 100 and gas of 5 units at 10 each.
        let native = call(Address::ZERO, 100);
        assert!(can_pay(WALLET, &native, FEES, 0, &snapshot(150, 0, 0), &[]));
        assert!(!can_pay(WALLET, &native, FEES, 0, &snapshot(149, 0, 0), &[]));
        let before = [out(WALLET, Address::ZERO, 20)];
        assert!(!can_pay(WALLET, &native, FEES, 0, &snapshot(219, 0, 0), &before));
        assert!(can_pay(WALLET, &native, FEES, 0, &snapshot(220, 0, 0), &before));
        assert!(!can_pay(WALLET, &native, FEES, 1, &snapshot(150, 0, 0), &[]), "the reserve stays");
        // What another wallet has out does not touch this one's balance.
        assert!(can_pay(WALLET, &native, FEES, 0, &snapshot(150, 0, 0), &[out(OTHER, Address::ZERO, 1_000)]));
    }

    #[test]
    fn a_token_payment_shares_the_treasury_and_not_the_allowance() {
        let token = call(TOKEN, 100);
        assert!(can_pay(WALLET, &token, FEES, 0, &snapshot(50, 100, 100), &[]));
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(49, 100, 100), &[]), "no gas");
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(50, 100, 99), &[]), "no allowance");
        let elsewhere = [out(OTHER, TOKEN, 1)];
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(50, 100, 100), &elsewhere), "the treasury is promised");
        assert!(can_pay(WALLET, &token, FEES, 0, &snapshot(50, 101, 100), &elsewhere));
        let own = [out(WALLET, TOKEN, 1)];
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(100, 101, 100), &own), "the allowance is used");
        assert!(can_pay(WALLET, &token, FEES, 0, &snapshot(100, 101, 101), &own));
        assert!(
            !can_pay(WALLET, &call(OTHER, 1), FEES, 0, &snapshot(1_000, 1_000, 1_000), &[]),
            "not a currency of ours"
        );
    }

    #[test]
    fn a_payment_through_the_spend_limiter_needs_the_wallets_limit_there() {
        let spend_limiter = Address::repeat_byte(0xf0);
        let routed = PaymentCall { target: spend_limiter, through_spend_limiter: true, ..call(TOKEN, 100) };
        assert!(can_pay(WALLET, &routed, FEES, 0, &snapshot(50, 100, 100), &[]));
        assert!(!can_pay(OTHER, &routed, FEES, 0, &snapshot(50, 100, 100), &[]), "no limit");
        assert!(!can_pay(WALLET, &routed, FEES, 0, &snapshot(50, 100, 99), &[]), "not enough of it");
        // A transfer uses the allowance and not the limit; both use the treasury.
        let direct = [out(WALLET, TOKEN, 50)];
        assert!(can_pay(WALLET, &routed, FEES, 0, &snapshot(100, 150, 100), &direct));
        assert!(!can_pay(WALLET, &routed, FEES, 0, &snapshot(100, 149, 100), &direct));
        let through = [Outstanding { target: spend_limiter, ..out(OTHER, TOKEN, 1) }];
        assert!(
            !can_pay(WALLET, &routed, FEES, 0, &snapshot(100, 500, 100), &through),
            "the spend limiter is promised"
        );
        assert!(can_pay(WALLET, &call(TOKEN, 100), FEES, 0, &snapshot(100, 500, 100), &through));
    }

    #[test]
    fn native_currency_beside_tokens_comes_out_of_the_wallet() {
        let beside = PaymentCall { value: amount(10), ..call(TOKEN, 100) };
        assert!(can_pay(WALLET, &beside, FEES, 0, &snapshot(60, 100, 100), &[]));
        assert!(!can_pay(WALLET, &beside, FEES, 0, &snapshot(59, 100, 100), &[]));
    }

    #[test]
    fn the_data_of_a_long_fill_is_paid_for_as_well() {
        let mut rich = snapshot(10_000, 100, 100);
        rich.data_fee = amount(256);
        let fee = |call: &PaymentCall| rich.data_fee_of(call.data.len()).units().to::<u64>();
        let long = PaymentCall { data: vec![1; 5_000].into(), ..call(TOKEN, 100) };
        assert!(fee(&long) > 10 * fee(&call(TOKEN, 100)));
        let with = |native: u64| Snapshot { native: [(WALLET, amount(native))].into(), ..rich.clone() };
        assert!(can_pay(WALLET, &long, FEES, 0, &with(50 + fee(&long)), &[]));
        assert!(!can_pay(WALLET, &long, FEES, 0, &with(49 + fee(&long)), &[]));
    }

    #[test]
    fn what_is_not_known_of_a_wallet_is_nothing() {
        assert!(!can_pay(Address::repeat_byte(7), &call(Address::ZERO, 0), FEES, 0, &snapshot(1_000, 0, 0), &[]));
    }
}
