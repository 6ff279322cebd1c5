//! Filling ahead of the deposit, at an integrator's risk: its balance stands for the deposit until that is there.
//!
//! One commit opens the hold and decides the fill, so that of many calls one does both. The order's input is an empty slot
//! from then on (`losses.rs`): the deposit that takes it ends the hold, and if none has by the order's deadline the hold is
//! spent. What the deposit brings more or less than was counted on is the integrator's.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use domain::api_key::ApiKeyId;
use domain::deposit::{self, Facts, Verdict};
use domain::fail::FailReason;
use domain::hold::State as HoldState;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::ledger::{Cause, Entry, Hold, HoldKind, UsdcMicros};
use domain::money::{Amount, OutOfRange, Price, Ratio, UsdMicros};
use domain::quote::{OrderTerms, Quote};
use domain::request::{Event, State};
use domain::time::Timestamp;
use serde_json::json;
use store::deposits::DepositRow;
use store::dues::Due;
use store::fast_fills::FastFill;
use store::ledger::{self, Opened};
use store::losses::Loss;
use store::payments::{PaymentRow, Purpose};
use store::requests::Request;
use store::{StoreError, Tx, deposits, dues, fast_fills, losses, payments, requests, settlements};

use tracing::warn;

use crate::advance::advance;
use crate::error::{Chained, SolverError};
use crate::solver::{PayContext, Solver};

/// What an integrator asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub request: RequestId,
    pub key: ApiKeyId,
    /// Linked to the key: its balance stands for the deposit.
    pub wallet: Address,
    /// What the deposit will bring, in its own currency; the quoted amount unless said.
    pub amount: Option<Amount>,
    /// The most it may be worth.
    pub most: Option<UsdMicros>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The fill is decided, or waits for nothing but us.
    Queued,
    /// The deposit is there already: the fill needs nobody's balance.
    DepositIsIn,
    /// Filled or refunded before.
    Done,
}

#[derive(Debug, thiserror::Error)]
pub enum FastFillError {
    #[error("Request not found")]
    NotFound,
    #[error("this request is already being processed")]
    InFlight,
    #[error("{0}")]
    NotEligible(Ineligible),
    #[error("less than was quoted, for a request that another key asked for")]
    LessThanQuoted,
    #[error("a deposit of this would not be filled")]
    NotFillable,
    #[error("the fill is worth {worth} dollars")]
    OverMost { worth: UsdMicros },
    #[error("more than the {available} dollars that are available")]
    MostAboveAvailable { available: UsdMicros },
    #[error("the balance of the linked wallet is too low: {worth} dollars are needed and {available} are available")]
    BalanceTooLow { worth: UsdMicros, available: UsdMicros },
    #[error("internal error")]
    Solver(#[from] SolverError),
}

/// Why a request cannot be filled ahead of its deposit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    #[error("only a transfer between chains can be filled ahead of its deposit")]
    OneChain,
    #[error("it has failed")]
    Failed,
    #[error("the market no longer gives what its order asks for")]
    MarketMoved,
    #[error("it has no order")]
    NoOrder,
    #[error("it asks for a refund")]
    AsksForRefund,
    #[error("a fill of it has failed on the chain")]
    FillFailed,
    #[error("its deposit is not on an EVM chain")]
    DepositNotEvm,
    #[error("its order has ended, or is about to")]
    OrderEnded,
    #[error("its currency is no longer served")]
    CurrencyNotServed,
}

impl From<StoreError> for FastFillError {
    fn from(error: StoreError) -> Self {
        Self::Solver(error.into())
    }
}

impl From<OutOfRange> for FastFillError {
    fn from(error: OutOfRange) -> Self {
        Self::Solver(error.into())
    }
}

impl Solver {
    /// Decides a fill ahead of its deposit. Not to be called in a future that a caller may drop: what it commits has to be
    /// handed on.
    pub async fn fast_fill(self: Arc<Self>, wish: Wish) -> Result<Answer, FastFillError> {
        let (answer, paid) = self.decide(move |tx, context| decide(tx, &wish, context)).await?;
        if answer == Answer::Queued {
            self.crash("hold.committed");
        }
        if answer == Answer::Queued && paid.is_empty() {
            // Should the word get lost, the worker finds it at the next block.
            if let Err(error) = self.store.wake().await {
                warn!(error = %Chained(&error), "the worker was not told of a fast fill");
            }
        }
        self.hand_over(paid);
        Ok(answer)
    }
}

fn decide(tx: &mut Tx<'_>, wish: &Wish, context: &PayContext) -> Result<(Answer, Vec<PaymentRow>), FastFillError> {
    let found = requests::find(tx, wish.request)?.ok_or(FastFillError::NotFound)?;
    let done = Ok((Answer::Done, Vec::new()));
    if matches!(found.state, State::Success | State::Refunded) {
        return done;
    }
    if found.quote.terms.is_none() || found.parent.is_some() {
        return Err(FastFillError::NotEligible(Ineligible::OneChain));
    }
    let mut request = requests::lock_order(tx, found.order_id)?.ok_or(FastFillError::NotFound)?;
    let settled = settlements::outcome(tx, request.order_id)?.is_some();
    match request.state {
        State::Success | State::Refunded => return done,
        State::Submitted | State::Refunding => return Err(FastFillError::InFlight),
        State::Failed => return Err(FastFillError::NotEligible(Ineligible::Failed)),
        State::Waiting | State::Pending if settled => return Err(FastFillError::InFlight),
        State::Pending => return Ok((Answer::DepositIsIn, Vec::new())),
        State::Waiting if ledger::open_hold_of(tx, HoldKind::FastFill, request.id.0)?.is_some() => {
            return Err(FastFillError::InFlight);
        }
        State::Waiting => {}
    }
    let plan = plan(tx, wish, &request, context)?;
    let account = ledger::account(tx, wish.wallet)?;
    let available = dollars(account.available(HoldKind::FastFill));
    if let Some(most) = wish.most {
        if most > available {
            return Err(FastFillError::MostAboveAvailable { available });
        }
        if plan.worth > most {
            return Err(FastFillError::OverMost { worth: plan.worth });
        }
    }
    let fast = FastFill {
        order: request.order_id,
        request: request.id,
        attempt: ledger::next_attempt(tx, HoldKind::FastFill, request.id.0)?,
        key: wish.key,
        wallet: wish.wallet,
        amount: plan.amount,
        held: UsdcMicros(plan.worth.0),
    };
    let hold = Hold { id: fast.hold(), wallet: fast.wallet, amount: fast.held, request: Some(request.id) };
    match ledger::open_hold(tx, &hold, context.now)? {
        Opened::Now => {}
        Opened::Already(_) => return Err(FastFillError::InFlight),
        Opened::TooLow(_) => return Err(FastFillError::BalanceTooLow { worth: plan.worth, available }),
    }
    fast_fills::put(tx, &fast, context.now)?;
    let figures = json!({
        "amount": fast.amount.to_string(),
        "usd": plan.worth.to_string(),
        "key": fast.key.to_string(),
    });
    let paid = advance(tx, &mut request, Event::FastFill { output: plan.output }, &figures, context)?;
    // Where the market no longer allows it, advancing has given the hold back: then nothing of this is committed.
    if fast_fills::of_order(tx, request.order_id)?.is_none() {
        return Err(FastFillError::NotEligible(Ineligible::MarketMoved));
    }
    Ok((Answer::Queued, paid))
}

struct Plan {
    amount: Amount,
    worth: UsdMicros,
    /// What is paid out for it.
    output: Amount,
}

/// What would be paid for what, by the rules a deposit of that amount would meet.
fn plan(tx: &mut Tx<'_>, wish: &Wish, request: &Request, context: &PayContext) -> Result<Plan, FastFillError> {
    let quote = &request.quote;
    let terms = quote.terms.as_ref().ok_or(FastFillError::NotEligible(Ineligible::NoOrder))?;
    if context.forces_refund(quote) {
        return Err(FastFillError::NotEligible(Ineligible::AsksForRefund));
    }
    // A fill that reverted once would revert again; an ordinary one still has its own try.
    if payments::voids(tx, Purpose::Fill, request.order_id.0)? > 0 {
        return Err(FastFillError::NotEligible(Ineligible::FillFailed));
    }
    let amount = wish.amount.unwrap_or(quote.figures.deposit);
    if amount < quote.figures.deposit && quote.ask.key != Some(wish.key) {
        // Else anyone could have a stranger's transfer filled at its minimum and keep the rest of the deposit.
        return Err(FastFillError::LessThanQuoted);
    }
    let (Some(currency), Some(user)) = (terms.deposit.address.evm(), quote.ask.user.evm()) else {
        return Err(FastFillError::NotEligible(Ineligible::DepositNotEvm));
    };
    let time = destination_time(terms, context);
    if deposit::too_late(quote, time).is_some() {
        return Err(FastFillError::NotEligible(Ineligible::OrderEnded));
    }
    let facts = Facts { chain: terms.deposit.chain, currency, amount, payer: user, sender: user, block_time: time };
    match deposit::judge(quote, &facts)? {
        Verdict::Fill { output } => Ok(Plan { amount, worth: worth(quote, terms, amount, context)?, output }),
        Verdict::Refund { .. } | Verdict::Unrecognized { .. } => Err(FastFillError::NotFillable),
    }
}

/// Deadlines go by the chain's clock; where it is not known, by ours.
pub(crate) fn destination_time(terms: &OrderTerms, context: &PayContext) -> Timestamp {
    let time = context.on(terms.payout.chain).and_then(|(_, snapshot)| i64::try_from(snapshot?.time).ok());
    time.map_or(context.now, Timestamp::from_secs)
}

/// What an amount of the deposit's currency is worth: as quoted or, where that is more, now. The deposit's own chain may
/// stand still, so that nobody knows.
fn worth(quote: &Quote, terms: &OrderTerms, amount: Amount, context: &PayContext) -> Result<UsdMicros, FastFillError> {
    let on = context.on(terms.deposit.chain);
    let currency = on.and_then(|(handle, _)| handle.chain.currency(&terms.deposit.address));
    let currency = currency.ok_or(FastFillError::NotEligible(Ineligible::CurrencyNotServed))?;
    let quoted = quote.figures.prices.deposit.usd_ceil(amount, currency.decimals)?;
    let price = terms.deposit.address.evm().and_then(|of| price_now(terms.deposit.chain, of, context));
    let now = price.map(|(price, decimals)| price.usd_ceil(amount, decimals)).transpose()?;
    Ok(now.unwrap_or(quoted).max(quoted))
}

/// With the decimals of its currency; none where nobody knows.
fn price_now(chain: ChainId, currency: Address, context: &PayContext) -> Option<(Price, u8)> {
    let (handle, snapshot) = context.on(chain)?;
    let snapshot = snapshot.filter(|snapshot| snapshot.check_age().is_ok())?;
    Some((snapshot.price(currency).ok()?, handle.chain.token(currency)?.decimals))
}

/// A USDC of the ledger counts as a dollar here.
fn dollars(usdc: UsdcMicros) -> UsdMicros {
    UsdMicros(usdc.0)
}

/// A fill was paid. Ahead of its deposit, the order is short of what was counted on.
pub fn paid(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<(), SolverError> {
    let Some(terms) = quote.and_then(|quote| quote.terms.as_ref()) else { return Ok(()) };
    let Some(fast) = fast_fills::of_order(tx, due.order)? else { return Ok(()) };
    if deposits::of_order(tx, due.order)?.is_some() {
        return Ok(());
    }
    let loss = Loss {
        order: due.order,
        request: due.request,
        chain: terms.deposit.chain,
        currency: terms.deposit.address.evm().unwrap_or_default(),
        amount: fast.amount,
        usd: dollars(fast.held),
        deadline: Timestamp::from_secs(i64::from(terms.deadline)),
    };
    Ok(losses::open(tx, &loss, context.now)?)
}

/// Nothing was and nothing will be paid ahead: the balance is free again.
pub fn give_up(tx: &mut Tx<'_>, request: &Request, context: &PayContext) -> Result<(), SolverError> {
    if let Some(open) = ledger::open_hold_of(tx, HoldKind::FastFill, request.id.0)? {
        ledger::void_hold(tx, open.hold.id, context.now)?;
        fast_fills::void(tx, request.order_id)?;
    }
    Ok(())
}

/// Whether an order was filled ahead of its deposit, which is still to come.
pub fn is_ahead(tx: &mut Tx<'_>, request: &Request) -> Result<bool, SolverError> {
    Ok(fast_fills::of_order(tx, request.order_id)?.is_some()
        && settlements::outcome(tx, request.order_id)?.is_some()
        && deposits::of_order(tx, request.order_id)?.is_none())
}

/// The deposit of an order that was to be filled ahead of it has taken its slot: the hold ends. If nothing was paid yet,
/// the deposit pays for the order like any other.
pub fn landed(
    tx: &mut Tx<'_>,
    deposit: &DepositRow,
    request: &Request,
    context: &PayContext,
) -> Result<(), SolverError> {
    let Some(fast) = fast_fills::of_order(tx, request.order_id)? else { return Ok(()) };
    if settlements::outcome(tx, request.order_id)?.is_none() {
        dues::withdraw(tx, request.id)?;
        return give_up(tx, request, context);
    }
    let Some(hold) = ledger::find_hold(tx, fast.hold())? else { return Ok(()) };
    let ends_here = match hold.state {
        HoldState::Open => ledger::void_hold(tx, fast.hold(), context.now)?,
        HoldState::Posted => {
            let cause = Cause::FastFillReturn { hold: fast.hold() };
            ledger::post(tx, &Entry::new(cause, fast.wallet, fast.held, Some(request.id))?, context.now)?
        }
        // An earlier deposit had ended it, and a reorg took that one away.
        HoldState::Voided => false,
    };
    if ends_here && request.state == State::Success {
        book_difference(tx, &fast, deposit, context)?;
    }
    Ok(())
}

/// The fill is mined. Where the deposit came before it, what that brought is known now.
pub fn filled(tx: &mut Tx<'_>, request: &Request, context: &PayContext) -> Result<(), SolverError> {
    let Some(fast) = fast_fills::of_order(tx, request.order_id)? else { return Ok(()) };
    match deposits::of_order(tx, request.order_id)? {
        Some(deposit) => book_difference(tx, &fast, &deposit, context),
        None => Ok(()),
    }
}

/// What the deposit brought more or less than was counted on.
fn book_difference(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    deposit: &DepositRow,
    context: &PayContext,
) -> Result<(), SolverError> {
    let price = price_now(deposit.deposit.chain, deposit.deposit.currency, context);
    let delta = difference(fast, deposit.deposit.amount, price)?;
    let deposit = deposit.id.0;
    let cause = match delta {
        UsdcMicros::ZERO => return Ok(()),
        more if more > UsdcMicros::ZERO => Cause::FastFillSurplus { deposit },
        _ => Cause::FastFillShortage { deposit },
    };
    ledger::post(tx, &Entry::new(cause, fast.wallet, delta, Some(fast.request))?, context.now)?;
    Ok(())
}

/// At the worth of when the fill was asked for or of now, whichever is the worse for the integrator: whoever chooses when
/// to deposit, and how much, would else sell us a currency at a price that has passed. Where nobody knows today's, no more
/// is credited than stood for the deposit.
fn difference(fast: &FastFill, deposited: Amount, now: Option<(Price, u8)>) -> Result<UsdcMicros, OutOfRange> {
    let held = Amount::new(U256::from(fast.held.0.unsigned_abs()));
    let micros = |amount: Amount| i64::try_from(amount.units()).map_err(|_| OutOfRange);
    if deposited >= fast.amount {
        let more = deposited.checked_sub(fast.amount)?;
        let then = micros(held.mul_floor(Ratio::new(more.units(), fast.amount.units())?)?)?;
        let bound =
            now.map_or(Ok(fast.held.0), |(price, decimals)| price.usd_floor(more, decimals).map(|usd| usd.0))?;
        return Ok(UsdcMicros(then.min(bound)));
    }
    let less = fast.amount.checked_sub(deposited)?;
    let then = micros(held.mul_ceil(Ratio::new(less.units(), fast.amount.units())?)?)?;
    let bound = now.map_or(Ok(0), |(price, decimals)| price.usd_ceil(less, decimals).map(|usd| usd.0))?;
    Ok(UsdcMicros(then.max(bound)).negated())
}

/// The order has ended for good and its deposit never came: the hold is spent. `false` means that none stood for it.
pub fn lost(tx: &mut Tx<'_>, request: &Request, context: &PayContext) -> Result<bool, SolverError> {
    let Some(fast) = fast_fills::of_order(tx, request.order_id)? else { return Ok(false) };
    let open = ledger::find_hold(tx, fast.hold())?.is_some_and(|hold| hold.state == HoldState::Open);
    if !open {
        return Ok(false);
    }
    let entry =
        Entry::new(Cause::FastFillLoss { hold: fast.hold() }, fast.wallet, fast.held.negated(), Some(request.id))?;
    ledger::post_hold(tx, fast.hold(), &[entry], context.now)?;
    Ok(true)
}

/// Whether the integrator has paid for the deposit in its stead.
pub fn was_lost(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, SolverError> {
    let Some(fast) = fast_fills::of_order(tx, order)? else { return Ok(false) };
    Ok(ledger::find_hold(tx, fast.hold())?.is_some_and(|hold| hold.state == HoldState::Posted))
}

/// Why a deposit would not pay for an order that it names, seen from one that was filled ahead of it: only where it is
/// another chain's or another currency's. Its size is measured by what was counted on.
pub const fn is_of_the_order(reason: FailReason) -> bool {
    matches!(reason, FailReason::DepositedAmountTooLowToFill)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;

    use super::*;

    #[test]
    fn a_difference_is_worth_what_is_worse_for_the_integrator() {
        let amount = |units: u64| Amount::new(U256::from(units));
        // Three units are worth a thousandth of a dollar.
        let fast = FastFill {
            order: OrderId(B256::ZERO),
            request: RequestId(B256::ZERO),
            attempt: 0,
            key: ApiKeyId::new([0; 10]),
            wallet: Address::ZERO,
            amount: amount(3_000),
            held: UsdcMicros(1_000_000),
        };
        for (deposited, micros) in [
            (3_000, 0),
            (3_001, 333),
            (2_999, -334),
            (2_700, -100_000),
            (6_000, 1_000_000),
            // As long as nobody knows the price, the hold bounds what is credited.
            (30_000_000, 1_000_000),
        ] {
            assert_eq!(difference(&fast, amount(deposited), None), Ok(UsdcMicros(micros)), "{deposited}");
        }
        let at = |tenths: u128| Some((Price::new(tenths, 1).unwrap(), 3));
        for (deposited, price, micros) in [
            // The market fell: what is too much is worth today's price, what is missing that of then.
            (6_000, 1, 300_000),
            (30_000_000, 1, 2_999_700_000),
            (2_700, 1, -100_000),
            // It rose: the other way about.
            (6_000, 10, 1_000_000),
            (2_700, 10, -300_000),
        ] {
            assert_eq!(difference(&fast, amount(deposited), at(price)), Ok(UsdcMicros(micros)), "{deposited} {price}");
        }
    }
}
