//! Permits: a user has signed the typed data of a quote, and one of our relayers sends the deposit.
//!
//! The signature is checked against the stored quote and tried on a node, because a transaction that fails costs us
//! gas. One commit moves the request on and decides the payment: of many posts one does both.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::alarm::Alarm;
use domain::fail::FailReason;
use domain::ids::{ChainId, RequestId};
use domain::money::{Amount, UsdMicros};
use domain::quote::{OrderTerms, PermitAsk, Quote};
use domain::request::State;
use domain::revert::{Deed, Revert};
use domain::time::Timestamp;
use evm::contracts::Erc20;
use evm::permits::{PERMIT2, Permit, signed_by};
use evm::{At, Attempt, ChainError, Refusal};
use store::payments::PaymentRow;
use store::relays::Relay;
use store::requests::Request;
use store::{StoreError, Tx, relays, requests};
use tracing::warn;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::gasless::relay::{self, NotBegun, order_of};
use crate::handle::ChainHandle;
use crate::holds::fast_fill::dollars;
use crate::holds::sponsorship;
use crate::payments::gas;
use crate::quoting::permit;
use crate::solver::Solver;

/// An account whose relay failed on the chain is not relayed again for this long: it would cost us gas again.
const PAUSE_AFTER_VOID: Duration = Duration::from_secs(600);
/// Permits that may fail on a chain within that time before no more are sent at our cost: whoever makes them fail pays
/// less for it than we do.
const MAX_VOIDS: u64 = 20;
/// Time that a signature must still be good for: the transaction has to be mined.
const LEAST_VALIDITY_SECS: i64 = 30;

/// The two forms in which a user signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Eip3009,
    Permit2,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eip3009 => "eip3009",
            Self::Permit2 => "permit2",
        }
    }

    pub const fn of(permit: &Permit) -> Self {
        match permit {
            Permit::Authorization { .. } => Self::Eip3009,
            Permit::Permit2 { .. } => Self::Permit2,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    #[error("Request not found")]
    NotFound,
    #[error("the quote asks for no signature of this kind")]
    NotAsked,
    #[error("this request is already being processed")]
    InFlight,
    #[error("the signature is no longer good; ask for another quote")]
    Expired,
    #[error("not one of the user over the quote's typed data")]
    NotSigned,
    #[error("the nonce of the signature is used already; ask for another quote")]
    NonceUsed,
    #[error("the user has {balance} of the {needed} that the permit moves, in smallest units")]
    BalanceTooLow { balance: U256, needed: U256 },
    #[error("Permit2 may move {allowance} of the {needed} that the permit moves, in smallest units")]
    AllowanceTooLow { allowance: U256, needed: U256 },
    #[error("the transaction fails: {details}")]
    Reverts { reason: FailReason, details: String },
    #[error("one of the wallets that it names is not served")]
    Blocked,
    #[error("another transaction of this account is on its way; try again when it is in a block")]
    Busy,
    #[error("a transaction of this account failed a short while ago; try again later")]
    Paused,
    #[error("the key that sponsors it is revoked, or no longer its sponsor's")]
    SponsorGone,
    #[error("gas has become too dear since the quote; ask for another")]
    GasTooDear,
    #[error("the sponsor's balance does not cover the gas of {needed} dollars")]
    SponsorBalance { needed: UsdMicros },
    #[error("the chain takes no transactions at the moment")]
    NotNow,
    #[error("the chain could not be asked")]
    Chain(#[source] ChainError),
    #[error("internal error")]
    Solver(#[from] SolverError),
}

impl From<StoreError> for PermitError {
    fn from(error: StoreError) -> Self {
        Self::Solver(error.into())
    }
}

impl From<ChainError> for PermitError {
    fn from(error: ChainError) -> Self {
        Self::Chain(error)
    }
}

impl From<NotBegun> for PermitError {
    fn from(why: NotBegun) -> Self {
        match why {
            NotBegun::Already => Self::InFlight,
            NotBegun::Busy => Self::Busy,
            NotBegun::TooLow { needed } => Self::SponsorBalance { needed: dollars(needed) },
            NotBegun::Unpriced => Self::NotNow,
            NotBegun::Failed(error) => Self::Solver(error),
        }
    }
}

/// Permits as users post them.
#[derive(Clone, Debug)]
pub struct Permits(pub Arc<Solver>);

impl Permits {
    /// Takes a signature and sends the deposit it stands for. The same signature again changes nothing. Not to be
    /// called in a future that a caller may drop: a committed payment has to be handed to its lane.
    pub async fn accept(self, id: RequestId, kind: Kind, signature: Bytes) -> Result<(), PermitError> {
        let solver = &self.0;
        let read = move |tx: &mut Tx<'_>| Ok::<_, StoreError>((requests::find(tx, id)?, relays::find(tx, id)?));
        let (found, relayed) = solver.store.read(read).await?;
        let request = found.filter(|request| request.parent.is_none()).ok_or(PermitError::NotFound)?;
        let ask = request.quote.ask.options.permit.ok_or(PermitError::NotAsked)?;
        let handle = solver.chains.get(&request.quote.ask.origin.chain).ok_or(PermitError::NotFound)?;
        let order = request.quote.terms.as_ref().map(|_| request.order_id);
        let permit = permit::of(&request.quote, order, &handle.chain, handle.treasury);
        let permit = permit.filter(|permit| Kind::of(permit) == kind).ok_or(PermitError::NotAsked)?;
        let user = request.quote.ask.user.packed().ok_or(PermitError::NotAsked)?;
        let signature = self.checked(handle, &permit, user, signature).await?;
        if relayed.is_some() {
            return Ok(());
        }
        is_open(&request)?;
        let blocks = i64::try_from(handle.block_time().as_secs().saturating_mul(3)).unwrap_or(i64::MAX);
        let time = solver.context().chain_time(handle.id());
        is_good(&request.quote, ask, time, LEAST_VALIDITY_SECS.max(blocks))?;
        let relayer = ask.relayer.filter(|relayer| handle.is_relayer(*relayer)).ok_or(PermitError::NotAsked)?;
        let data = permit.submission(user, &signature).ok_or(PermitError::NotSigned)?;
        let tried = match check_funds(handle, &permit, user).await {
            Ok(()) => self.tried(handle, &request.quote, relayer, &data).await,
            Err(error) => Err(error),
        };
        let gas = match tried {
            Ok(gas) => gas,
            // The money and the nonce are used, where another post of the same signature is in a block by now.
            Err(error) => return unless_relayed(solver, id, error).await,
        };
        let relay = Relay {
            request: id,
            chain: handle.id(),
            account: user,
            relayer,
            target: handle.chain.approval_proxy,
            data,
            authorizations: Bytes::new(),
            gas,
            key: request.quote.ask.key,
            charged: false,
            deadline: permit::deadline(&request.quote, ask),
        };
        match solver.decide(move |tx, context| begin(tx, &relay, context)).await {
            Ok(paid) => relay::hand_over(solver, paid).await,
            Err(error) => return unless_relayed(solver, id, error).await,
        }
        Ok(())
    }

    /// The signature, if the user signed: by a key, and then in the one form that contracts read, or, where Permit2
    /// asks, by a contract.
    async fn checked(
        &self,
        handle: &ChainHandle,
        permit: &Permit,
        user: Address,
        signature: Bytes,
    ) -> Result<Bytes, PermitError> {
        let digest = permit.digest();
        if let Some(signature) = signed_by(digest, user, &signature) {
            return Ok(signature);
        }
        let by_contract = match permit {
            Permit::Authorization { .. } => false,
            Permit::Permit2 { .. } => {
                evm::signed_by_contract_over(&handle.nodes, user, digest, signature.clone()).await?
            }
        };
        if by_contract { Ok(signature) } else { Err(PermitError::NotSigned) }
    }

    /// The gas limit of the transaction, as it was just tried. One that fails, or takes more than was charged for, is
    /// not sent.
    async fn tried(
        &self,
        handle: &ChainHandle,
        quote: &Quote,
        relayer: Address,
        data: &Bytes,
    ) -> Result<u64, PermitError> {
        let attempt = Attempt {
            from: relayer,
            to: handle.chain.approval_proxy,
            value: U256::ZERO,
            data: data.clone(),
            // A gas price is set: code that behaves only when gas is free must not pass.
            max_fee: self.0.market.latest(handle.id()).map(|snapshot| snapshot.max_fee()),
            gas: Some(most_gas(quote)),
        };
        match handle.nodes.estimate_gas(attempt).await {
            Ok(estimate) => Ok(gas_limit(quote, estimate)),
            Err(error) => Err(match error.refusal() {
                Some(Refusal::Reverted(data)) => reverts(&evm::revert::decode(data)),
                Some(Refusal::OutOfGas) => reverts(&Revert::OutOfGas),
                _ => error.into(),
            }),
        }
    }
}

/// The most gas of a quote's relay. On the same chain the sponsor pays for whatever it takes, and unwrapping takes more
/// than a deposit.
fn most_gas(quote: &Quote) -> u64 {
    gas::relay_limit(quote.origin_swap.is_some() || quote.terms.is_none())
}

/// The gas limit of a quote's relay that takes so much by a node's word. Holds and caps of its sponsor go by it: a
/// transfer on the same chain has no more than a deposit has, unless it takes more.
pub(crate) fn gas_limit(quote: &Quote, estimate: u64) -> u64 {
    gas::relay_within(estimate, quote.origin_swap.is_some(), most_gas(quote))
}

/// The answer to a signature that was not taken: where another post of it was first, that one's. A request that has a
/// deposit of the user's own has no relay.
pub(crate) async fn unless_relayed(solver: &Solver, id: RequestId, error: PermitError) -> Result<(), PermitError> {
    match solver.store.read(move |tx| relays::find(tx, id)).await? {
        Some(_) => Ok(()),
        None => Err(error),
    }
}

fn reverts(revert: &Revert) -> PermitError {
    PermitError::Reverts { reason: revert.reason(Deed::Calls), details: revert.to_string() }
}

/// A request that has a deposit, or has ended, needs no signature.
fn is_open(request: &Request) -> Result<(), PermitError> {
    match request.state {
        State::Waiting => Ok(()),
        State::Depositing | State::Pending | State::Submitted | State::Refunding => Err(PermitError::InFlight),
        State::Success | State::Refunded | State::Failed => Err(PermitError::Expired),
    }
}

fn is_good(quote: &Quote, ask: PermitAsk, time: Timestamp, least_secs: i64) -> Result<(), PermitError> {
    let left = permit::deadline(quote, ask).secs().saturating_sub(time.secs());
    if left < least_secs { Err(PermitError::Expired) } else { Ok(()) }
}

/// Reads what the permit needs: the nonce unused, the balance, and the allowance of Permit2.
async fn check_funds(handle: &ChainHandle, permit: &Permit, user: Address) -> Result<(), PermitError> {
    let (token, needed) = permit.moves();
    let (place, nonce, used) = permit.nonce_read(user);
    let mut calls: Vec<(Address, Bytes)> =
        vec![(place, nonce), (token, Erc20::balanceOfCall { owner: user }.abi_encode().into())];
    if matches!(permit, Permit::Permit2 { .. }) {
        calls.push((token, Erc20::allowanceCall { owner: user, spender: PERMIT2 }.abi_encode().into()));
    }
    let answers = handle.nodes.aggregate(handle.chain.multicall3, &calls, At::Latest).await?;
    let mut words = answers.into_iter().map(|answer| answer.ok().filter(|word| word.len() == 32));
    let mut next = || words.next().flatten().map(|word| U256::from_be_slice(&word));
    let (nonce, balance) = (next(), next());
    if nonce.is_none_or(|word| !(word & used).is_zero()) {
        return Err(PermitError::NonceUsed);
    }
    let balance = balance.unwrap_or_default();
    if balance < needed {
        return Err(PermitError::BalanceTooLow { balance, needed });
    }
    match (permit, next()) {
        (Permit::Permit2 { .. }, allowance) if allowance.unwrap_or_default() < needed => {
            Err(PermitError::AllowanceTooLow { allowance: allowance.unwrap_or_default(), needed })
        }
        _ => Ok(()),
    }
}

pub(crate) fn begin(tx: &mut Tx<'_>, relay: &Relay, context: &PayContext) -> Result<Option<PaymentRow>, PermitError> {
    let found = requests::find(tx, relay.request)?.ok_or(PermitError::NotFound)?;
    let mut request = requests::lock_order(tx, order_of(&found))?.ok_or(PermitError::NotFound)?;
    is_open(&request)?;
    let quote = &request.quote;
    if context.screening.blocks(quote.ask.parties().filter_map(|(_, who)| who.packed())) {
        return Err(PermitError::Blocked);
    }
    let cost = cost(relay, context)?;
    is_welcome(tx, relay, context)?;
    let payer = match (&quote.terms, &quote.ask.options.sponsor) {
        // The quote's own fees pay for it.
        (Some(terms), _) => {
            is_affordable(quote, terms, relay.chain, cost, context)?;
            None
        }
        (None, Some(_)) if !sponsorship::is_still_theirs(tx, quote)? => return Err(PermitError::SponsorGone),
        (None, Some(sponsor)) => {
            let (native, decimals) = context.price_now(relay.chain, Address::ZERO).ok_or(PermitError::NotNow)?;
            let needed = native.usd_ceil(cost, decimals).map_err(SolverError::from)?;
            if sponsor.cap.is_some_and(|cap| needed > cap) {
                return Err(PermitError::SponsorBalance { needed });
            }
            Some((sponsor.wallet, cost))
        }
        (None, None) => return Err(PermitError::NotAsked),
    };
    Ok(relay::begin(tx, &mut request, relay, payer, context)?)
}

/// Refuses a relay of an account whose last one failed.
pub(crate) fn is_rested(tx: &mut Tx<'_>, relay: &Relay, context: &PayContext) -> Result<(), PermitError> {
    match relays::voids_since(tx, relay.account, since(context.now))? {
        0 => Ok(()),
        _ => Err(PermitError::Paused),
    }
}

/// Refuses a permit of an account whose last one failed, and any where too many have.
pub(crate) fn is_welcome(tx: &mut Tx<'_>, relay: &Relay, context: &PayContext) -> Result<(), PermitError> {
    is_rested(tx, relay, context)?;
    let (permits, _) = relays::voids_on_since(tx, relay.chain, relay.target, since(context.now))?;
    if permits >= MAX_VOIDS {
        return Err(stopped(relay, "permits", context));
    }
    Ok(())
}

/// Tells that too many relays of a kind have failed for another one at our cost.
pub(crate) fn stopped(relay: &Relay, kind: &'static str, context: &PayContext) -> PermitError {
    warn!(chain.id = %relay.chain, "too many {kind} have failed: no more are sent at our cost for a while");
    if let Some((handle, _)) = context.on(relay.chain) {
        let text = format!("too many {kind} have failed within ten minutes; no more are relayed for a while");
        handle.health.alarms.raise(Alarm::RelaysStopped, text);
    }
    PermitError::NotNow
}

/// Failures since then count.
pub(crate) fn since(now: Timestamp) -> Timestamp {
    let pause = i64::try_from(PAUSE_AFTER_VOID.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.millis().saturating_sub(pause))
}

/// Refuses where gas alone costs more than twice what the quote charges for gas: a quote is no option on it.
pub(crate) fn is_affordable(
    quote: &Quote,
    terms: &OrderTerms,
    chain: ChainId,
    cost: Amount,
    context: &PayContext,
) -> Result<(), PermitError> {
    let (Some((native, decimals)), Some((handle, _))) = (context.price_now(chain, Address::ZERO), context.on(chain))
    else {
        return Err(PermitError::NotNow);
    };
    let currency = terms.deposit.address.packed().unwrap_or_default();
    let charged = quote.deposit_worth(&handle.chain, currency, quote.figures.fees.fill_gas);
    let now = native.usd_ceil(cost, decimals).map_err(SolverError::from)?;
    if now.0 > charged.0.saturating_mul(2) { Err(PermitError::GasTooDear) } else { Ok(()) }
}

/// The gas of a relay at today's fees, in the chain's native currency.
pub(crate) fn cost(relay: &Relay, context: &PayContext) -> Result<Amount, PermitError> {
    let Some((_, Some(snapshot))) = context.on(relay.chain) else { return Err(PermitError::NotNow) };
    Ok(snapshot.cost_with_data(relay.gas, relay.data.len()))
}
