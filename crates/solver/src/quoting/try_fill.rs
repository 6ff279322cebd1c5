//! Fills that are tried on a node before they are promised: with calls of the caller's own, and with native currency to
//! a contract. It is the one time a quote waits for a node.

use std::time::Duration;

use alloy::primitives::Address;
use domain::pricing::{Refusal, SolverOption};
use domain::quote::Ask;
use domain::revert::Revert;
use evm::ChainError;
use store::dues::Due;
use store::payments::Subject;
use store::refused_recipients::Recipient;

use crate::context::Cache;
use crate::payments::call::PaymentCall;
use crate::payments::gas;
use crate::quoting::quote::{Attempt, QuoteError, Quoter};

/// Gas assumed for the caller's calls until they are tried.
const UNTRIED_CALLS_GAS: u64 = 1_000_000;
/// The most gas that a fill with the caller's calls may take.
const MAX_CALLS_GAS: u64 = 3_000_000;
/// The most gas that a fill to a contract may take.
const MAX_RECIPIENT_GAS: u64 = 500_000;
/// Age at which a recipient is tried again.
const FRESH_FOR: Duration = Duration::from_secs(30);

/// A contract that gets native currency, and whether it gets it beside a token.
type Receiver = (Recipient, bool);

/// Contracts that were tried as recipients: the gas of the whole fill, or none where they refuse.
#[derive(Debug, Default)]
pub struct TriedRecipients {
    answers: Cache<Receiver, Option<u64>>,
}

impl Quoter {
    /// The gas of a fill in which code runs that is not ours, as it was just tried. None for all others.
    pub(super) async fn tried_gas(&self, ask: &Ask) -> Result<Option<u64>, QuoteError> {
        if !ask.options.calls.is_empty() {
            return self.try_fill(ask, true).await.map(Some);
        }
        let Some(receiver) = self.receiving_contract(ask) else { return Ok(None) };
        let known = self.tried_recipients.answers.get(&receiver).filter(|(_, at)| at.elapsed() < FRESH_FOR);
        match known {
            Some((Some(gas), _)) => return Ok(Some(gas)),
            Some((None, _)) => return Err(QuoteError::RecipientRefuses { reason: None }),
            None => {}
        }
        let tried = self.try_fill(ask, false).await;
        match &tried {
            Ok(gas) => self.tried_recipients.answers.answered(receiver, Some(Some(*gas))),
            Err(QuoteError::RecipientRefuses { .. }) => self.tried_recipients.answers.answered(receiver, Some(None)),
            Err(_) => {}
        }
        tried.map(Some)
    }

    /// The recipient, if it is known to be a contract and gets native currency from us.
    fn receiving_contract(&self, ask: &Ask) -> Option<Receiver> {
        let (chain, currency, address) =
            (ask.destination.chain, ask.destination.address.packed()?, ask.recipient.packed()?);
        let beside = ask.options.top_up.is_some();
        let native = currency.is_zero() || beside;
        let is_one = ask.origin.chain != chain && native && self.solver.recipient_code.is_contract(chain, address);
        is_one.then_some((Recipient { chain, currency, address }, beside))
    }

    async fn try_fill(&self, ask: &Ask, calls: bool) -> Result<u64, QuoteError> {
        let (limit, mut ask) = (ask.options.tried_gas.filter(|_| calls), ask.clone());
        let most = if calls { limit.unwrap_or(MAX_CALLS_GAS).min(MAX_CALLS_GAS) } else { MAX_RECIPIENT_GAS };
        ask.options.tried_gas = calls.then(|| limit.unwrap_or(UNTRIED_CALLS_GAS).min(most));
        let draft = self.price(ask)?;
        let (Some(terms), Some(order)) = (&draft.quote.terms, draft.order_id) else {
            return Err(Refusal::NotOnSameChain(SolverOption::Calls).into());
        };
        let handle = self.solver.chains.get(&terms.payout.chain).ok_or(Refusal::NoRoute)?;
        let due = Due {
            subject: Subject::Fill(order),
            request: Some(draft.quote.id),
            chain: terms.payout.chain,
            currency: terms.payout.address.packed().unwrap_or_default(),
            recipient: draft.quote.payee(terms).packed().unwrap_or_default(),
            amount: draft.quote.figures.paid,
            since: self.solver.now(),
        };
        let swap = draft.quote.destination_swap.as_ref();
        let call = PaymentCall::of(&due, due.amount, handle, !calls, Some((&draft.quote, swap)));
        let call = call.ok_or(QuoteError::NoSpendLimiter { chain: terms.payout.chain })?;
        let from = handle.richest(self.solver.market.latest(handle.id()).as_deref());
        let attempt = evm::Attempt {
            from,
            to: call.target,
            value: call.value.units(),
            data: call.data.clone(),
            // A gas price is set: code that behaves only when gas is free must not pass.
            max_fee: self.solver.market.latest(handle.id()).map(|snapshot| snapshot.max_fee()),
            // More than is allowed, so that the caller is told how much is needed.
            gas: Some(most.saturating_mul(2)),
        };
        let tried = handle.nodes.estimate_gas(attempt).await;
        let tried = tried.map_err(|error| failed(error, from, &call, calls))?;
        // The word of one node. Less than the bytes alone take is charged to nobody, and sent to no node.
        let needed = tried.max(gas::least(&call.data, 0));
        match needed <= most {
            true => Ok(needed),
            false if calls => Err(QuoteError::CallsGas { needed }),
            false => Err(QuoteError::RecipientRefuses { reason: Some(Revert::OutOfGas.to_string()) }),
        }
    }
}

/// The error for a fill that could not be tried or failed. A node out of reach is not the fill's fault.
fn failed(error: ChainError, from: Address, call: &PaymentCall, calls: bool) -> QuoteError {
    match error.refusal() {
        Some(evm::Refusal::Reverted(data)) => {
            let reason = Some(evm::revert::decode(data)).filter(|revert| *revert != Revert::Silent);
            let (reason, data) = (reason.map(|revert| revert.to_string()), data.clone());
            if !calls {
                return QuoteError::RecipientRefuses { reason };
            }
            let attempt = Box::new(Attempt { from, to: call.target, data: call.data.clone(), value: call.value });
            QuoteError::CallsRevert { reason, data, attempt }
        }
        Some(evm::Refusal::OutOfGas) if calls => QuoteError::CallsGas { needed: call.gas },
        Some(evm::Refusal::OutOfGas) => QuoteError::RecipientRefuses { reason: Some(Revert::OutOfGas.to_string()) },
        _ => node_failed(error),
    }
}

pub(super) fn node_failed(error: ChainError) -> QuoteError {
    QuoteError::Node { timed_out: matches!(error, ChainError::Timeout { .. }), cause: error }
}
