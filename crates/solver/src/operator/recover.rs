//! Recovery of a restored database: the payments that the chain already shows are imported.
//!
//! A restored backup does not know of payments made after it was taken. They are on the chain: sent by our wallets,
//! with the order's id as the last bytes of their calldata. Each becomes a settled payment, and only then does the
//! nonce move up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::{SolCall, SolValue};
use domain::ids::{ChainId, OrderId, PayoutNonce, RequestId};
use domain::money::Amount;
use domain::payment::State;
use domain::payout::{self, Kind};
use domain::quote::Quote;
use domain::request::Event;
use evm::agreement::majority;
use evm::calldata::Claimed;
use evm::contracts::{Depository, Erc20, SpendLimiter};
use evm::topics::NATIVE_PAID;
use evm::{At, Block, Head, SentTx, Wait, calldata};
use store::payments::{Fees, Payment, PaymentId, PaymentRow, Purpose, Subject};
use store::{Tx, blocks, lanes, payments, requests, settlements};
use tracing::warn;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::holds::sponsorship;
use crate::orders::advance::advance;
use crate::payments::gas::is_routed;
use crate::payments::mined::{is_attempt, mined_in};
use crate::solver::Solver;

/// Time for nodes that lag or do not answer, for each block: several blocks of a slow chain.
const NODE_TIMEOUT: Duration = Duration::from_secs(60);
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Result of one chain's recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub blocks: u64,
    pub imported: u64,
    /// Transactions of our wallets that name no order.
    pub unknown: u64,
}

/// Walks a chain from the database's cursor to its head and imports the payments of our wallets. `progress` is called
/// for every block. Nothing else may be running on this database.
pub async fn recover(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    progress: impl Fn(u64, u64),
) -> Result<Report, SolverError> {
    let chain = handle.id();
    for wallet in handle.senders() {
        solver.store.write(move |tx| lanes::register(tx, chain, wallet)).await?;
    }
    // The highest that any node claims: a payment may be in it, and the other nodes are waited for.
    let head = handle.nodes.head().await?;
    let cursor = solver.store.read(move |tx| blocks::cursor(tx, chain)).await?;
    let first = cursor.map(|cursor| cursor.number + 1).or(handle.settings.start_block);
    let first =
        first.ok_or(SolverError::InvariantViolated("the database has never seen this chain: set `start_block`"))?;
    let mut report = Report::default();
    for number in first..=head.number {
        let block = agreed_block(handle, number).await?;
        report.blocks += 1;
        // Transactions of the treasury lane settle nothing, and neither do sweeps and relays.
        let factory = handle.chain.deposit_address_factory;
        let settles = |sent: &SentTx| {
            let sweeps = factory.is_some() && sent.to == factory;
            !sweeps && !handle.is_treasury_lane(sent.from) && !handle.is_relayer(sent.from)
        };
        for sent in block.sent.into_iter().filter(settles) {
            let (context, head, handle) = (solver.context(), block.head, handle.clone());
            let payout = payout(handle.chain.depository, &sent);
            // A payout may have failed because somebody else had executed it before.
            let paid = match payout {
                Some((nonce, Some(_))) if !sent.success => is_used(&handle, nonce).await?,
                Some(_) | None => sent.success,
            };
            let unit = move |tx: &mut Tx<'_>| match (payout, claimed(&handle, &sent)) {
                (Some(payout), _) => import_payout(tx, chain, head, &sent, (payout, paid), &context),
                (None, Some(shown)) => import_claim(tx, &handle, head, &sent, &shown, &context),
                (None, None) => {
                    let shown = sent.to.map(|target| self::paid(target, handle.chain.router, &sent));
                    import(tx, chain, shown, head, &sent, &context)
                }
            };
            let import = solver.store.write(unit).await?;
            match import {
                Import::Known => {}
                Import::Settled => report.imported += 1,
                Import::Unknown => report.unknown += 1,
            }
        }
        progress(number, head.number);
    }
    raise_nonces(solver, handle, head.number).await?;
    Ok(report)
}

/// Waits until the nodes agree about a block: the newest ones reach some nodes later than others.
async fn agreed_block(handle: &ChainHandle, number: u64) -> Result<Block, SolverError> {
    let (chain, began) = (handle.id(), Instant::now());
    let mut waits = false;
    loop {
        let late = began.elapsed() > NODE_TIMEOUT;
        match read_block(handle, number).await {
            Ok(Some(block)) => return Ok(block),
            Ok(None) if late => return Err(SolverError::NoAgreement { chain, block: number }),
            Err(error) if late => return Err(error),
            Ok(None) | Err(_) => {}
        }
        if !waits {
            warn!(chain.id = %chain, block = number, "waiting for the nodes of chain {chain} to agree about block {number}");
            waits = true;
        }
        tokio::time::sleep(READ_INTERVAL).await;
    }
}

/// The block, if its nodes agree: a payment that one of them hides or invents would be made twice, or never.
async fn read_block(handle: &ChainHandle, number: u64) -> Result<Option<Block>, SolverError> {
    let Some(voted) = handle.nodes.voted_header(number, |_| false).await? else { return Ok(None) };
    let agreed = handle.nodes.agreed_block(number, voted.hash, &handle.watch, Wait::ForAll).await?;
    Ok(agreed.filter(|agreed| agreed.stands && !agreed.open).map(|agreed| agreed.block))
}

/// Raises the nonces to those of the last block that was read: every transaction up to it is known, and none after it.
pub(crate) async fn raise_nonces(solver: &Arc<Solver>, handle: &ChainHandle, read: u64) -> Result<(), SolverError> {
    let (chain, most) = (handle.id(), majority(handle.nodes.len()));
    for wallet in handle.senders() {
        let used = handle.nodes.quorum_nonce(most, wallet, At::Number(read)).await?;
        let unit = move |tx: &mut Tx<'_>| {
            lanes::raise_nonce(tx, chain, wallet, used)?;
            // All transactions that used the wallet's nonces are accounted for now.
            lanes::quarantine(tx, chain, wallet, None)
        };
        solver.store.write(unit).await?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Import {
    Known,
    Settled,
    Unknown,
}

/// Imports a payment of ours. `paid` is the currency, recipient and amount that its transaction shows.
pub(super) fn import(
    tx: &mut Tx<'_>,
    chain: ChainId,
    paid: Option<(Address, Address, Amount)>,
    head: Head,
    sent: &SentTx,
    context: &PayContext,
) -> Result<Import, SolverError> {
    if let Some(stored) = payments::at_nonce(tx, chain, sent.from, sent.nonce)? {
        return beside(&stored, sent);
    }
    let (Some(id), Some(target), Some(paid)) = (calldata::trailing_id(&sent.input), sent.to, paid) else {
        return Ok(Import::Unknown);
    };
    let order = OrderId(id);
    let mut request = requests::lock_order(tx, order)?;
    let refund = request.as_ref().is_some_and(|request| request.quote.ask.origin.chain == chain);
    let subject = if refund { Subject::Refund(order) } else { Subject::Fill(order) };
    let quote = request.as_ref().filter(|_| !refund).map(|request| &request.quote);
    let (currency, recipient, amount) = quote.and_then(quoted).unwrap_or(paid);
    let payment = Payment {
        subject,
        // An order whose quote the backup does not hold is settled all the same.
        request: request.as_ref().map(|request| request.id),
        chain,
        wallet: sent.from,
        nonce: sent.nonce,
        target,
        value: Amount::new(sent.value),
        data: sent.input.clone(),
        gas: sent.gas_used,
        recipient,
        currency,
        amount,
    };
    let Some(id) = settle_import(tx, &payment, head, sent, context)? else { return Ok(Import::Known) };
    if let (true, Some(request)) = (sent.success, request.as_mut()) {
        advance(tx, request, Event::Found { refund }, &sent.hash, context)?;
        if !refund {
            sponsorship::found(tx, &request.quote, &payment, id, context)?;
        }
    }
    Ok(Import::Settled)
}

/// Imports a payment as the chain shows it, and settles the order or claim that it names. None if it is known already.
fn settle_import(
    tx: &mut Tx<'_>,
    payment: &Payment,
    head: Head,
    sent: &SentTx,
    context: &PayContext,
) -> Result<Option<PaymentId>, SolverError> {
    let (purpose, order) = (payment.purpose(), payment.order());
    let fee = u64::try_from(sent.effective_gas_price).unwrap_or(u64::MAX >> 1);
    let fees = Fees { max_fee: fee, max_tip: 0 };
    // An earlier payment of the same subject did not pay on the chain: only then was there a second one.
    if let (true, Some(earlier)) = (sent.success, payments::live(tx, &payment.subject)?) {
        payments::set_state(tx, earlier, State::Void, context.now)?;
    }
    let Some(stored) = payments::import(tx, payment, fees, context.now)? else { return Ok(None) };
    let state = if sent.success { State::Mined } else { State::Reverted };
    payments::set_state(tx, stored.id, state, context.now)?;
    let mined = mined_in(head, sent, true);
    payments::set_mined(tx, stored.id, Some(mined))?;
    if sent.success {
        settlements::impose(tx, order, purpose, stored.id)?;
    } else {
        // A failed payment takes the settlement row only if it is free: then the order waits until the payment is void.
        settlements::take(tx, order, purpose, stored.id)?;
    }
    Ok(Some(stored.id))
}

/// Compares a transaction with the payment that has its nonce in this database. If the chain shows another payment, two
/// databases have paid from one wallet: this one cannot hold both, and must not go on as if it knew of neither.
fn beside(stored: &PaymentRow, sent: &SentTx) -> Result<Import, SolverError> {
    if is_attempt(stored, sent) {
        return Ok(Import::Known);
    }
    if sent.success && calldata::trailing_id(&sent.input).is_some() {
        return Err(SolverError::TwoDatabases { chain: stored.payment.chain, tx: sent.hash });
    }
    // The transaction paid for nothing of ours. The walk voids our payment by it.
    Ok(Import::Unknown)
}

/// The nonce of the payout that a transaction of ours brought to the depository, and the order it refunded, if any.
fn payout(depository: Address, sent: &SentTx) -> Option<(PayoutNonce, Option<OrderId>)> {
    let call = Depository::executeCall::abi_decode(&sent.input).ok().filter(|_| sent.to == Some(depository))?;
    let nonce = PayoutNonce(call.request.nonce.into());
    let words: Vec<B256> = match sent.input.get(4 + call.abi_encoded_size()..) {
        Some(tail) if tail.len() == 64 => tail.chunks(32).map(B256::from_slice).collect(),
        _ => Vec::new(),
    };
    let order = match words[..] {
        [key, order] if payout::nonce(Kind::Refund, key) == nonce => Some(OrderId(order)),
        _ => None,
    };
    Some((nonce, order))
}

/// True if the depository has paid out under this nonce, no matter who sent the transaction.
async fn is_used(handle: &ChainHandle, nonce: PayoutNonce) -> Result<bool, SolverError> {
    let call = Depository::usedNoncesCall { nonce: U256::from_be_bytes(nonce.0.0) }.abi_encode();
    let answer = handle.nodes.call(handle.chain.depository, call.into(), At::Latest).await?;
    Depository::usedNoncesCall::abi_decode_returns(&answer)
        .map_err(|_| SolverError::InvariantViolated("the depository does not say which nonces are used"))
}

/// Imports a payout. The allocator reads the deposits that it was for into its depository ledger by itself. An order
/// that it refunded is settled at once: nobody may fill it meanwhile.
fn import_payout(
    tx: &mut Tx<'_>,
    chain: ChainId,
    head: Head,
    sent: &SentTx,
    ((nonce, order), paid): ((PayoutNonce, Option<OrderId>), bool),
    context: &PayContext,
) -> Result<Import, SolverError> {
    if let Some(stored) = payments::at_nonce(tx, chain, sent.from, sent.nonce)? {
        return beside(&stored, sent);
    }
    let mut request = match order {
        Some(order) => requests::lock_order(tx, order)?,
        None => None,
    };
    // A payout that failed will be void, which must not free the order if somebody else's transaction paid it.
    let settles = match order {
        Some(order) if sent.success => order,
        Some(_) => OrderId(nonce.0),
        None => OrderId(calldata::trailing_id(&sent.input).unwrap_or_default()),
    };
    let subject = Subject::Payout { nonce, settles };
    let payment = Payment {
        subject,
        request: request.as_ref().map(|request| request.id),
        chain,
        wallet: sent.from,
        nonce: sent.nonce,
        target: sent.to.unwrap_or_default(),
        value: Amount::ZERO,
        data: sent.input.clone(),
        gas: sent.gas_used,
        recipient: Address::ZERO,
        currency: Address::ZERO,
        amount: Amount::ZERO,
    };
    // The nonce lets only one of several transactions succeed, so an earlier one that is still open here did not.
    if let (true, Some(earlier)) = (sent.success, payments::live(tx, &subject)?) {
        payments::set_state(tx, earlier, State::Void, context.now)?;
    }
    let fee = u64::try_from(sent.effective_gas_price).unwrap_or(u64::MAX >> 1);
    let stored = payments::import(tx, &payment, Fees { max_fee: fee, max_tip: 0 }, context.now)?;
    let Some(stored) = stored else { return Ok(Import::Known) };
    payments::set_state(tx, stored.id, if sent.success { State::Mined } else { State::Reverted }, context.now)?;
    let mined = mined_in(head, sent, true);
    payments::set_mined(tx, stored.id, Some(mined))?;
    if let (true, Some(order)) = (paid, order) {
        settlements::impose(tx, order, Purpose::Payout, stored.id)?;
        if let Some(request) = request.as_mut() {
            advance(tx, request, Event::Found { refund: true }, &sent.hash, context)?;
        }
    }
    Ok(Import::Settled)
}

/// The claim of an app balance that a transaction of ours paid, if any.
fn claimed(handle: &ChainHandle, sent: &SentTx) -> Option<Claimed> {
    let token = domain::ledger::currency(&handle.chain)?.address.packed();
    calldata::claimed(&sent.input).filter(|_| sent.to.is_some() && sent.to == token)
}

/// Imports a claim from its transaction alone. Its amount is held at once, before anything else can be claimed, and
/// booked when it is final like any other.
fn import_claim(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    sent: &SentTx,
    shown: &Claimed,
    context: &PayContext,
) -> Result<Import, SolverError> {
    if let Some(stored) = payments::at_nonce(tx, handle.id(), sent.from, sent.nonce)? {
        return beside(&stored, sent);
    }
    crate::integrators::claims::found(tx, handle, shown, context)?;
    let target = sent.to.unwrap_or_default();
    let payment = Payment {
        subject: Subject::Claim(shown.id),
        request: Some(RequestId(shown.id.0)),
        chain: handle.id(),
        wallet: sent.from,
        nonce: sent.nonce,
        target,
        value: Amount::ZERO,
        data: sent.input.clone(),
        gas: sent.gas_used,
        recipient: shown.recipient,
        currency: target,
        amount: Amount::new(shown.amount),
    };
    Ok(settle_import(tx, &payment, head, sent, context)?.map_or(Import::Known, |_| Import::Settled))
}

/// Currency, recipient and amount of a routed fill, as its order has them: its call does not show them.
fn quoted(quote: &Quote) -> Option<(Address, Address, Amount)> {
    let terms = quote.terms.as_ref().filter(|_| is_routed(quote))?;
    Some((terms.payout.address.packed()?, quote.payee(terms).packed()?, quote.figures.paid))
}

/// Currency, recipient and amount of a transaction of ours: its value, or the arguments of its token call.
fn paid(target: Address, router: Address, sent: &SentTx) -> (Address, Address, Amount) {
    if !sent.value.is_zero() && !sent.input.starts_with(&SpendLimiter::spendCall::SELECTOR) {
        let through = (target == router).then(|| native_paid(router, sent)).flatten();
        let (to, amount) = through.unwrap_or((target, sent.value));
        return (Address::ZERO, to, Amount::new(amount));
    }
    let arguments = sent.input.get(4..).unwrap_or_default();
    if sent.input.starts_with(&SpendLimiter::spendCall::SELECTOR) {
        // The recipient follows from its calls and its order, and the order is not here any more.
        let spent = SpendLimiter::spendCall::abi_decode_raw(arguments);
        return spent.map_or((target, Address::ZERO, Amount::ZERO), |call| {
            (call.token, call.refundTo, Amount::new(call.amount))
        });
    }
    let call = Erc20::transferFromCall::abi_decode_raw(arguments);
    call.map_or((target, Address::ZERO, Amount::ZERO), |call| (target, call.to, Amount::new(call.amount)))
}

/// The recipient and amount that the router paid, by its own log; a transfer to itself is not a payment.
fn native_paid(router: Address, sent: &SentTx) -> Option<(Address, U256)> {
    let logs = sent.logs.iter().filter(|log| log.address() == router && log.topic0() == Some(&NATIVE_PAID));
    let payments = logs.filter_map(|log| <(Address, U256)>::abi_decode(&log.data().data).ok());
    payments.filter(|(to, _)| *to != router).last()
}

#[cfg(test)]
mod tests;
