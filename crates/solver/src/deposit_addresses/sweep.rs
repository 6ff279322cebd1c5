//! The sweep of a deposit address: a payment of a filler lane that moves nothing of ours but gas.

use alloy::primitives::{Address, Bytes, keccak256};
use domain::deposit_address::Derivation;
use domain::fail::FailReason;
use domain::ids::{ChainId, OrderId, RequestId, SweepId};
use domain::money::Amount;
use evm::calldata;
use serde_json::json;
use store::arrivals::{self, Place};
use store::deposit_addresses::{self, DepositAddress};
use store::payments::{PaymentRow, Subject};
use store::sweeps::{self, Sweep};
use store::{QuoteRow, Tx, requests, webhooks};
use tracing::debug;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::payments::call::PaymentCall;
use crate::payments::gas;
use crate::payments::lane::{self, Unassigned, first_offer};

/// A decision about a balance.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub place: Place,
    /// Exactly so much leaves an open address, or nothing: whatever else is there, or comes, is decided about by
    /// itself. A strict address has one order, and is emptied.
    pub amount: Amount,
    pub purpose: Purpose,
    /// Whom the deposit names.
    pub depositor: Address,
}

/// The purpose of a sweep.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// It is to pay for the order that the address was given out for.
    Order,
    /// It is to pay for an order of its own, whose request begins with it.
    Requoted { quote: QuoteRow, order: OrderId, supersedes: bool },
    /// It is to pay for an order that an earlier sweep was for, and that was paid out before a reorg took its deposit
    /// away.
    Again { order: OrderId, request: RequestId },
    /// It goes back to the depositor, as a child of the request that the address was given out for.
    Back(FailReason),
}

/// Sweeps a balance, once at a time. None where no lane can take it now.
pub(crate) fn sweep(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    given: &DepositAddress,
    decided: &Decided,
    context: &PayContext,
) -> Result<Option<PaymentRow>, SolverError> {
    let (chain, place, purpose) = (handle.id(), decided.place, &decided.purpose);
    // The request first, as everywhere.
    let Some(parent) = requests::lock(tx, given.request)? else { return Ok(None) };
    let (Some(factory), Some((_, Some(snapshot)))) = (handle.chain.deposit_address_factory, context.on(chain)) else {
        return Ok(None);
    };
    let (Ok(fees), None) = (first_offer(handle, snapshot), handle.refusing()) else { return Ok(None) };
    if sweeps::is_live(tx, chain, place.address, place.currency)? {
        return Ok(None);
    }
    let id = id(chain, place, sweeps::count(tx, chain, place.address, place.currency)?);
    let (order, request, reason, expected) = match purpose {
        Purpose::Order => (given.order, given.request, None, Some(decided.amount)),
        Purpose::Requoted { quote, order, .. } => (*order, RequestId(quote.request_id), None, None),
        Purpose::Again { order, request } => (*order, *request, None, None),
        Purpose::Back(reason) => (back_under(id), given.request, Some(*reason), None),
    };
    let payment = Unassigned {
        subject: Subject::Sweep(id),
        // No request is told of it: its deposit is what they are about.
        request: None,
        recipient: handle.chain.depository,
        call: call(factory, given, decided, order, id),
        fees,
    };
    let chosen = match lane::choose(tx, handle, snapshot, &payment)? {
        Ok(chosen) => chosen,
        Err(reason) => {
            debug!(chain.id = %chain, address = %place.address, "no lane can sweep the address now: {reason}");
            return Ok(None);
        }
    };
    let paid = lane::assign(tx, chosen, handle, payment, context)?;
    if let Purpose::Requoted { quote, supersedes, .. } = purpose {
        let opened = requests::open_at_address(tx, quote, place.address)?;
        let opened = opened.ok_or(SolverError::InvariantViolated("a request was opened and is not there"))?;
        let figures = json!({ "address": place.address, "parent": given.request.to_string() });
        webhooks::publish(tx, &opened, "requoted", &figures, context.now)?;
        if *supersedes {
            deposit_addresses::supersede(tx, place.address, opened.id)?;
        }
    }
    let Place { address, currency } = place;
    let sweep = Sweep { id, chain, address, currency, order, request, reason, expected };
    if !sweeps::begin(tx, &sweep, context.now)? {
        return Err(SolverError::InvariantViolated("a balance is swept twice in one unit"));
    }
    // All that is known there: what a smaller sweep leaves waits again once it is final.
    arrivals::swept(tx, chain, place, id)?;
    let figures = json!({ "chain": chain.0, "address": place.address, "order": order.to_string() });
    crate::lifecycle::note(tx, &parent, "swept", &figures, context)?;
    Ok(Some(paid))
}

/// The id of a sweep: one for each of a balance.
fn id(chain: ChainId, place: Place, count: u64) -> SweepId {
    let (chain, count) = (chain.0.to_be_bytes(), count.to_be_bytes());
    let parts = [b"sweep".as_slice(), &chain, place.address.as_slice(), place.currency.as_slice(), &count];
    SweepId(keccak256(parts.concat()))
}

/// The order id of a deposit that goes back: nobody's, so that it can pay for nothing.
fn back_under(sweep: SweepId) -> OrderId {
    OrderId(keccak256([b"back".as_slice(), sweep.as_slice()].concat()))
}

fn call(factory: Address, given: &DepositAddress, decided: &Decided, order: OrderId, id: SweepId) -> PaymentCall {
    let currency = decided.place.currency;
    let data: Bytes = match given.derivation {
        // Order and depositor are fixed by the address.
        Derivation::Strict { order, depositor } => calldata::sweep(order, depositor, currency, id.0),
        Derivation::Open(route) => {
            calldata::sweep_open(route, order, decided.depositor, (currency, decided.amount.units()), id.0)
        }
    };
    PaymentCall {
        target: factory,
        value: Amount::ZERO,
        data,
        gas: gas::sweep_limit(currency.is_zero()),
        currency: Address::ZERO,
        amount: Amount::ZERO,
        through_spend_limiter: false,
        relayer: None,
    }
}
