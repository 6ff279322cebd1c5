//! Fast fills, ahead of the deposit and at an integrator's risk: its balance stands for the deposit until it is there.
//!
//! One commit opens the hold and decides the fill, so that of many calls one does both. The order's input is an empty
//! slot from then on (`holds/fast_fill.rs`).

use std::sync::Arc;

use alloy::primitives::Address;
use domain::api_key::ApiKeyId;
use domain::catalog::Class;
use domain::deposit::{self, Facts, Verdict};
use domain::ids::RequestId;
use domain::ledger::{Hold, HoldKind, UsdcMicros};
use domain::loss;
use domain::money::{Amount, OutOfRange, UsdMicros};
use domain::quote::{CurrencyKey, OrderTerms, Quote};
use domain::request::{Event, State};
use domain::time::Timestamp;
use serde_json::json;
use store::fast_fills::FastFill;
use store::ledger::{self, Opened};
use store::payments::{PaymentRow, Subject};
use store::requests::Request;
use store::{StoreError, Tx, fast_fills, payments, requests, settlements};
use tracing::warn;

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::holds::fast_fill::dollars;
use crate::orders::advance::advance;
use crate::solver::Solver;

/// An integrator's request for a fast fill.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub request: RequestId,
    pub key: ApiKeyId,
    /// The wallet linked to the key: its balance stands for the deposit.
    pub wallet: Address,
    /// The expected amount of the deposit, in its own currency; the quoted amount by default.
    pub amount: Option<Amount>,
    /// The most that the amount may be worth.
    pub most: Option<UsdMicros>,
}

/// Result of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The fill is decided, or waits for nothing but us.
    Queued,
    /// The deposit is there already: the fill needs nobody's balance.
    DepositIsIn,
    /// The request was filled or refunded before.
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
    #[error("more than the quote brings: its own deposit of {quoted} would not end the hold")]
    MoreThanQuoted { quoted: Amount },
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

/// The reason why a request cannot be filled ahead of its deposit.
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
    #[error("one of the wallets that it names is not served")]
    NotServed,
    #[error("a fill of it has failed on the chain")]
    FillFailed,
    #[error("its deposit is not on an EVM chain")]
    DepositNotEvm,
    #[error("its order has ended, or is about to")]
    OrderEnded,
    #[error("its currency is no longer served")]
    CurrencyNotServed,
    #[error("the price of its currency is not known at the moment")]
    PriceUnknown,
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

/// Fast fills as integrators ask for them.
#[derive(Clone, Debug)]
pub struct FastFills(pub Arc<Solver>);

impl FastFills {
    /// Decides a fill ahead of its deposit. Not to be called in a future that a caller may drop: a committed payment
    /// has to be handed to its lane.
    pub async fn fill(self, wish: Wish) -> Result<Answer, FastFillError> {
        let (answer, paid) = self.0.decide(move |tx, context| decide(tx, &wish, context)).await?;
        if answer == Answer::Queued {
            self.0.crash("hold.committed");
        }
        if answer == Answer::Queued && paid.is_empty() {
            // If the wake-up is lost, the worker finds the fast fill at the next block.
            if let Err(error) = self.0.store.wake().await {
                warn!(error = %Chained(&error), "the worker was not woken for a fast fill");
            }
        }
        self.0.hand_over(paid);
        Ok(answer)
    }
}

pub(crate) fn decide(
    tx: &mut Tx<'_>,
    wish: &Wish,
    context: &PayContext,
) -> Result<(Answer, Vec<PaymentRow>), FastFillError> {
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
        State::Waiting | State::Depositing | State::Pending if settled => return Err(FastFillError::InFlight),
        State::Pending => return Ok((Answer::DepositIsIn, Vec::new())),
        State::Waiting | State::Depositing if ledger::open_hold_of(tx, HoldKind::FastFill, request.id.0)?.is_some() => {
            return Err(FastFillError::InFlight);
        }
        State::Waiting | State::Depositing => {}
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
        held: plan.hold,
        window_ends: plan.window_ends,
    };
    let hold = Hold { id: fast.hold(), wallet: fast.wallet, amount: fast.held, request: Some(request.id) };
    match ledger::open_hold(tx, &hold, context.now)? {
        Opened::Now => {}
        Opened::Already(_) => return Err(FastFillError::InFlight),
        Opened::TooLow(_) => return Err(FastFillError::BalanceTooLow { worth: dollars(plan.hold), available }),
    }
    fast_fills::put(tx, &fast, context.now)?;
    let figures = json!({
        "amount": fast.amount.to_string(),
        "usd": plan.worth.to_string(),
        "key": fast.key.to_string(),
    });
    let paid = advance(tx, &mut request, Event::FastFill { output: plan.output }, &figures, context)?;
    // If the market no longer allows the fill, `advance` has voided the hold: then nothing of this is committed.
    if fast_fills::of_order(tx, request.order_id)?.is_none() {
        return Err(FastFillError::NotEligible(Ineligible::MarketMoved));
    }
    Ok((Answer::Queued, paid))
}

struct Plan {
    amount: Amount,
    worth: UsdMicros,
    /// The worth, and a margin for the price to move within the window.
    hold: UsdcMicros,
    window_ends: Timestamp,
    /// The amount paid out for it.
    output: Amount,
}

/// The fill of an expected deposit, by the rules that a deposit of that amount would meet.
fn plan(tx: &mut Tx<'_>, wish: &Wish, request: &Request, context: &PayContext) -> Result<Plan, FastFillError> {
    let quote = &request.quote;
    let terms = quote.terms.as_ref().ok_or(FastFillError::NotEligible(Ineligible::NoOrder))?;
    if context.forces_refund(quote) {
        return Err(FastFillError::NotEligible(Ineligible::AsksForRefund));
    }
    if context.screening.blocks(quote.ask.parties().filter_map(|(_, who)| who.packed())) {
        return Err(FastFillError::NotEligible(Ineligible::NotServed));
    }
    // A fill that reverted once would revert again; an ordinary fill still has its own try.
    if payments::voids(tx, &Subject::Fill(request.order_id))? > 0 {
        return Err(FastFillError::NotEligible(Ineligible::FillFailed));
    }
    let amount = wish.amount.unwrap_or(quote.figures.deposit);
    if amount < quote.figures.deposit && quote.ask.key != Some(wish.key) {
        // Otherwise anyone could have another's transfer filled at its minimum and keep the rest of the deposit.
        return Err(FastFillError::LessThanQuoted);
    }
    let quoted = quote.figures.deposit;
    if !loss::takes_place(amount, quoted)? {
        return Err(FastFillError::MoreThanQuoted { quoted });
    }
    let (Some(currency), Some(user)) = (terms.deposit.address.packed(), quote.ask.user.packed()) else {
        return Err(FastFillError::NotEligible(Ineligible::DepositNotEvm));
    };
    let time = context.chain_time(terms.payout.chain);
    if deposit::too_late(quote, time).is_some() {
        return Err(FastFillError::NotEligible(Ineligible::OrderEnded));
    }
    let facts = Facts {
        chain: terms.deposit.chain,
        currency,
        amount,
        payer: user,
        sender: user,
        swept: false,
        relayed: false,
        block_time: time,
    };
    match deposit::judge(quote, &facts)? {
        Verdict::Fill { output } => {
            let (worth, class) = worth(quote, terms, amount, context)?;
            let hold = context.terms.fast_fill.hold(worth, class)?;
            // The clock of a chain that stands still is behind: it would take its standstill off the window.
            let now = context.chain_time(terms.deposit.chain).max(context.now);
            Ok(Plan { amount, worth, hold, window_ends: now.plus(context.terms.fast_fill.window), output })
        }
        Verdict::Refund { .. } | Verdict::Unrecognized { .. } => Err(FastFillError::NotFillable),
    }
}

/// The worth of an amount of the deposit's currency, with its class: at the quoted price or, if that is more, at
/// today's. The deposit's own chain may stand still; then the other chain prices the same asset, and a stablecoin is
/// worth what was quoted.
fn worth(
    quote: &Quote,
    terms: &OrderTerms,
    amount: Amount,
    context: &PayContext,
) -> Result<(UsdMicros, Class), FastFillError> {
    let currency =
        |key: &CurrencyKey| context.on(key.chain).and_then(|(handle, _)| handle.chain.currency(&key.address));
    let deposit = currency(&terms.deposit).ok_or(FastFillError::NotEligible(Ineligible::CurrencyNotServed))?;
    let quoted = quote.figures.prices.deposit.usd_ceil(amount, deposit.decimals)?;
    let twin = currency(&terms.payout).filter(|payout| payout.id == deposit.id);
    let mut priced = [Some(deposit), twin].into_iter().flatten();
    let price = priced.find_map(|it| context.price_now(it.chain, it.evm_address()));
    match price {
        Some((price, _)) => Ok((price.usd_ceil(amount, deposit.decimals)?.max(quoted), deposit.class)),
        None if deposit.class == Class::Stable => Ok((quoted, deposit.class)),
        None => Err(FastFillError::NotEligible(Ineligible::PriceUnknown)),
    }
}
