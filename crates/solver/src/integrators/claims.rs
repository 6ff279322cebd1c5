//! Claims: an app balance, or a part of it, is paid out to the recipient that its wallet names, by the wallet's
//! signature over the claim.
//!
//! One commit holds the amount and decides the payment. The hold is spent when the payment is final, and voided when
//! the payment is proven void. The payment names the account on the chain, so that a claim is not paid twice after a
//! database is lost (`recover.rs`).

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, Bytes};
use domain::claim::{Event, State, step};
use domain::hold::State as HoldState;
use domain::ids::{ChainId, ClaimId, RequestId};
use domain::ledger::{self, Cause, Entry, Hold, HoldId, HoldKind, MAX_AMOUNT, UsdcMicros};
use domain::money::{Amount, OutOfRange};
use domain::payment::State as PaymentState;
use domain::time::Timestamp;
use evm::calldata::Claimed;
use evm::{ChainError, Nodes};
use store::claims::{self, Claim, ClaimRow};
use store::dues::Due;
use store::ledger::{self as app_ledger, Opened};
use store::payments::{PaymentRow, Purpose, Subject};
use store::{StoreError, Tx, dues, payments};
use tracing::{info, warn};

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::payments::amount::refund_cost;
use crate::payments::{Outcome, max_voids, pay};
use crate::solver::Solver;

/// Time for which a claim can be signed.
const SIGNABLE_FOR: Duration = Duration::from_secs(600);

/// A claim as it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub wallet: Address,
    pub chain: ChainId,
    pub currency: Address,
    pub recipient: Address,
    /// The whole available balance by default.
    pub amount: Option<Amount>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("no app balances are kept here")]
    NotOffered,
    #[error("app balances are paid out on chain {0}")]
    OtherChain(ChainId),
    #[error("app balances are paid out in USDC, {0:#x}")]
    OtherCurrency(Address),
    #[error("money cannot be sent to this address")]
    Recipient,
    #[error("the wallet's address is not served")]
    WalletBlocked,
    #[error("the recipient's address is not served")]
    RecipientBlocked,
    #[error("more than an account can have, or less than a millionth of a USDC apart")]
    AmountOutOfRange,
    #[error("nothing is available")]
    NothingAvailable,
    #[error("sending it costs {0}, in smallest units, and it is not more than that")]
    TooLittle(Amount),
    #[error("more than the {available} that are available, in smallest units")]
    BalanceTooLow { available: Amount },
    #[error("no claim of this id can be signed for; ask for one")]
    NotAsked,
    #[error("this claim has expired; ask for another")]
    Expired,
    #[error("this claim was signed for already")]
    Used,
    #[error("not one of the claim's wallet over its id")]
    NotSigned,
    #[error("the chain could not be asked whether the wallet's contract signed")]
    Chain(#[source] ChainError),
    #[error("internal error")]
    Solver(#[from] SolverError),
}

impl From<StoreError> for ClaimError {
    fn from(error: StoreError) -> Self {
        Self::Solver(error.into())
    }
}

impl From<OutOfRange> for ClaimError {
    fn from(error: OutOfRange) -> Self {
        Self::Solver(error.into())
    }
}

/// Claims of app balances, as their owners ask for them.
#[derive(Clone, Debug)]
pub struct Claims(pub Arc<Solver>);

impl Claims {
    /// The nodes of the chain where app balances live: contract wallets are asked there whether they signed.
    pub fn nodes(&self) -> Option<&Nodes> {
        self.0.balance_nodes()
    }

    /// Notes a claim that its wallet may sign. Nothing is held yet.
    pub async fn ask(&self, wish: Wish) -> Result<Claim, ClaimError> {
        let mut id = [0u8; 32];
        (self.0.env.random)(&mut id);
        let context = self.0.context();
        self.0.store.write(move |tx| ask(tx, ClaimId(id.into()), &wish, &context)).await
    }

    /// Pays a claim that its wallet has signed. Not to be called in a future that a caller may drop: a committed
    /// payment has to be handed to its lane.
    pub async fn accept(self, id: ClaimId, signature: Bytes) -> Result<Claim, ClaimError> {
        let now = self.0.now();
        let stored = self.0.store.read(move |tx| claims::find(tx, id)).await?.ok_or(ClaimError::NotAsked)?;
        is_open(&stored, now)?;
        let wallet = stored.claim.wallet;
        let mut signed = evm::signed_by_key(wallet, id.0, &signature);
        if let (false, Some(nodes)) = (signed, self.0.balance_nodes()) {
            signed = evm::signed_by_contract(nodes, wallet, id.0, signature).await.map_err(ClaimError::Chain)?;
        }
        if !signed {
            return Err(ClaimError::NotSigned);
        }
        let paid = self.0.decide(move |tx, context| accept(tx, id, context)).await?;
        self.0.crash("claim.committed");
        if paid.is_none()
            // If the wake-up is lost, the worker finds the claim at the next block.
            && let Err(error) = self.0.store.wake().await
        {
            warn!(error = %Chained(&error), "the worker was not woken for a claim");
        }
        self.0.hand_over(paid.into_iter().collect());
        Ok(stored.claim)
    }
}

fn is_open(stored: &ClaimRow, now: Timestamp) -> Result<(), ClaimError> {
    if stored.state != State::Asked {
        return Err(ClaimError::Used);
    }
    if stored.claim.expires_at <= now { Err(ClaimError::Expired) } else { Ok(()) }
}

fn ask(tx: &mut Tx<'_>, id: ClaimId, wish: &Wish, context: &PayContext) -> Result<Claim, ClaimError> {
    let handle = context.balances().ok_or(ClaimError::NotOffered)?;
    let currency = ledger::currency(&handle.chain).ok_or(ClaimError::NotOffered)?;
    let token = currency.address.packed().ok_or(ClaimError::NotOffered)?;
    if wish.chain != handle.id() {
        return Err(ClaimError::OtherChain(handle.id()));
    }
    if wish.currency != token {
        return Err(ClaimError::OtherCurrency(token));
    }
    if handle.cannot_receive(wish.recipient) {
        return Err(ClaimError::Recipient);
    }
    is_served(wish.wallet, wish.recipient, context)?;
    let available = app_ledger::account(tx, wish.wallet)?.available(HoldKind::Claim).min(MAX_AMOUNT);
    let amount = match wish.amount {
        None => whole(available, currency.decimals)?,
        Some(amount) => UsdcMicros::of(amount, currency.decimals)
            .ok()
            .filter(|micros| micros.in_units(currency.decimals) == Ok(amount))
            .ok_or(ClaimError::AmountOutOfRange)?,
    };
    if wish.amount.is_some() && amount > available {
        return Err(ClaimError::BalanceTooLow {
            available: whole(available, currency.decimals)?.in_units(currency.decimals)?,
        });
    }
    if amount <= UsdcMicros::ZERO {
        return Err(ClaimError::NothingAvailable);
    }
    // A claim costs its owner nothing, so it must not be a way to burn our gas.
    let cost = match context.on(handle.id()) {
        Some((handle, Some(snapshot))) => refund_cost(handle, snapshot, token, false)?,
        _ => None,
    };
    if let Some(cost) = cost.filter(|cost| amount.in_units(currency.decimals).is_ok_and(|units| units <= *cost)) {
        return Err(ClaimError::TooLittle(cost));
    }
    let claim = Claim {
        id,
        wallet: wish.wallet,
        recipient: wish.recipient,
        chain: wish.chain,
        currency: wish.currency,
        amount,
        expires_at: context.now.plus(SIGNABLE_FOR),
    };
    if !claims::put(tx, &claim, State::Asked, context.now)? {
        return Err(SolverError::InvariantViolated("two claims of one id").into());
    }
    Ok(claim)
}

/// The amount, rounded down to the currency's smallest unit.
fn whole(micros: UsdcMicros, decimals: u8) -> Result<UsdcMicros, OutOfRange> {
    let grain = 10i64.pow(u32::from(6u8.saturating_sub(decimals)));
    let whole = UsdcMicros(micros.0 - micros.0.rem_euclid(grain));
    whole.in_units(decimals).map(|_| whole)
}

fn is_served(wallet: Address, recipient: Address, context: &PayContext) -> Result<(), ClaimError> {
    let blocked = &context.screening.blocked;
    match (blocked.contains(&wallet), blocked.contains(&recipient)) {
        (true, _) => Err(ClaimError::WalletBlocked),
        (false, true) => Err(ClaimError::RecipientBlocked),
        (false, false) => Ok(()),
    }
}

/// Accepts a signed claim: its amount is held, and its payment decided or due.
fn accept(tx: &mut Tx<'_>, id: ClaimId, context: &PayContext) -> Result<Option<PaymentRow>, ClaimError> {
    let stored = claims::lock(tx, id)?.ok_or(ClaimError::NotAsked)?;
    is_open(&stored, context.now)?;
    let claim = &stored.claim;
    is_served(claim.wallet, claim.recipient, context)?;
    set_state(tx, &stored, Event::Signed, context)?;
    match app_ledger::open_hold(tx, &hold(claim, 0), context.now)? {
        Opened::Now => {}
        Opened::Already(_) => {
            return Err(SolverError::InvariantViolated("a claim is set aside before it is signed for").into());
        }
        Opened::TooLow(account) => {
            let decimals =
                context.balances().and_then(|handle| ledger::currency(&handle.chain)).map_or(6, |it| it.decimals);
            let available = whole(account.available(HoldKind::Claim), decimals)?.in_units(decimals)?;
            return Err(ClaimError::BalanceTooLow { available });
        }
    }
    Ok(send(tx, claim, context)?)
}

fn set_state(tx: &mut Tx<'_>, stored: &ClaimRow, event: Event, context: &PayContext) -> Result<(), SolverError> {
    Ok(claims::set_state(tx, stored.claim.id, step(stored.state, event)?, context.now)?)
}

fn hold(claim: &Claim, attempt: u32) -> Hold {
    let id = HoldId { kind: HoldKind::Claim, subject: claim.id.0, attempt };
    Hold { id, wallet: claim.wallet, amount: claim.amount, request: Some(RequestId(claim.id.0)) }
}

/// Decides the payment, or keeps it as due.
fn send(tx: &mut Tx<'_>, claim: &Claim, context: &PayContext) -> Result<Option<PaymentRow>, SolverError> {
    let decimals =
        context.on(claim.chain).and_then(|(handle, _)| handle.chain.token(claim.currency)).map(|it| it.decimals);
    let due = Due {
        subject: Subject::Claim(claim.id),
        request: Some(RequestId(claim.id.0)),
        chain: claim.chain,
        currency: claim.currency,
        recipient: claim.recipient,
        amount: claim
            .amount
            .in_units(decimals.ok_or(SolverError::InvariantViolated("a claim of an unknown currency"))?)?,
        since: context.now,
    };
    match pay(tx, &due, None, context)? {
        Outcome::Paid(payment) => Ok(Some(*payment)),
        Outcome::NotNow(reason) => {
            dues::put(tx, &due, &reason.to_string(), context.now)?;
            Ok(None)
        }
        Outcome::Settled | Outcome::Worthless(_) | Outcome::CannotFill(_) => {
            Err(SolverError::InvariantViolated("a claim that was paid before it was signed for"))
        }
    }
}

/// Ends a claim when the block of its payment is final: the hold is spent or, if nothing was paid, voided. A payment
/// that we gave up ourselves is sent once more.
pub fn ended(
    tx: &mut Tx<'_>,
    paid: &PaymentRow,
    state: PaymentState,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let no_claim = SolverError::InvariantViolated("a payment of no claim");
    let Subject::Claim(id) = paid.payment.subject else { return Err(no_claim) };
    let stored = claims::lock(tx, id)?.ok_or(no_claim)?;
    let claim = &stored.claim;
    let open = app_ledger::open_hold_of(tx, HoldKind::Claim, claim.id.0)?;
    match state {
        PaymentState::Decided | PaymentState::Sent | PaymentState::Mined | PaymentState::Reverted => Ok(Vec::new()),
        PaymentState::Final => {
            let hold = open.ok_or(SolverError::InvariantViolated("a claim that nothing stands for was paid"))?.hold;
            let entry = Entry::new(Cause::Claim { hold: hold.id }, hold.wallet, hold.amount.negated(), hold.request)?;
            app_ledger::post_hold(tx, hold.id, &[entry], context.now)?;
            set_state(tx, &stored, Event::Paid, context)?;
            info!(wallet = %claim.wallet, claim = %claim.id, micros = claim.amount.0, "a claim is paid");
            Ok(Vec::new())
        }
        PaymentState::Void => {
            let again = payments::voids(tx, &Subject::Claim(claim.id))? < max_voids(Purpose::Claim);
            if paid.cancelled && again {
                return Ok(send(tx, claim, context)?.into_iter().collect());
            }
            if let Some(open) = open {
                app_ledger::void_hold(tx, open.hold.id, context.now)?;
            }
            set_state(tx, &stored, Event::Failed, context)?;
            warn!(wallet = %claim.wallet, claim = %claim.id, "a claim could not be paid, its hold is voided");
            Ok(Vec::new())
        }
    }
}

/// Imports a claim whose payment the chain shows and this database does not know: the claim stands as if it was decided
/// here.
pub fn found(tx: &mut Tx<'_>, handle: &ChainHandle, shown: &Claimed, context: &PayContext) -> Result<(), SolverError> {
    let currency =
        ledger::currency(&handle.chain).ok_or(SolverError::InvariantViolated("a claim where no balances are kept"))?;
    let claim = Claim {
        id: shown.id,
        wallet: shown.account,
        recipient: shown.recipient,
        chain: handle.id(),
        currency: currency.address.packed().unwrap_or_default(),
        amount: UsdcMicros::of(Amount::new(shown.amount), currency.decimals)?,
        expires_at: context.now,
    };
    claims::put(tx, &claim, State::Asked, context.now)?;
    let stored = claims::lock(tx, claim.id)?.ok_or(SolverError::InvariantViolated("a claim that is not kept"))?;
    set_state(tx, &stored, Event::Found, context)?;
    let open = app_ledger::find_hold(tx, hold(&claim, 0).id)?;
    if open.is_none_or(|open| open.state != HoldState::Open) && stored.state != State::Success {
        let attempt = app_ledger::next_attempt(tx, HoldKind::Claim, claim.id.0)?;
        app_ledger::impose_hold(tx, &hold(&claim, attempt), context.now)?;
    }
    dues::remove(tx, &Subject::Claim(claim.id))?;
    Ok(())
}
