//! Fills that are tried before they are made: those in which a recipient's code or the caller's own calls run. One that
//! would fail costs no gas, and its deposit goes back.

use std::sync::Arc;

use alloy::primitives::Address;
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::quote::Quote;
use domain::revert::{Deed, Revert};
use evm::{Attempt, Refusal};
use futures::StreamExt;
use futures::stream;
use store::payments::Fees;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::handle::ChainHandle;
use crate::handle::trials::Verdict;
use crate::payments::call::PaymentCall;

/// Trials made at once.
const MAX_CONCURRENT_TRIALS: usize = 16;

/// True for a fill in which code runs that is not ours.
pub fn is_needed(quote: &Quote, to_contract: bool) -> bool {
    !quote.ask.options.calls.is_empty() || (to_contract && delivers_native(quote))
}

/// True if the recipient gets native currency, as the output or beside it.
pub fn delivers_native(quote: &Quote) -> bool {
    quote.ask.destination.address.packed() == Some(Address::ZERO) || quote.figures.top_up.is_some()
}

/// The verdict on a fill that this wallet would send. None while it is being tried.
pub fn verdict(
    handle: &ChainHandle,
    order: OrderId,
    wallet: Address,
    call: &PaymentCall,
    fees: Fees,
) -> Option<Verdict> {
    handle.trials.verdict(order, || Attempt {
        from: wallet,
        to: call.target,
        value: call.value.units(),
        data: call.data.clone(),
        // A gas price is set: code that behaves only when gas is free must not pass.
        max_fee: Some(fees.max_fee.into()),
        gas: Some(call.gas),
    })
}

/// The reason for which a fill that was tried is not made.
pub fn reason(quote: &Quote, revert: &Revert) -> FailReason {
    match revert {
        Revert::OutOfGas => FailReason::QuotedGasLimitExceeded,
        revert if quote.ask.options.calls.is_empty() => revert.reason(Deed::NativeTransfer),
        revert => revert.reason(Deed::Calls),
    }
}

/// Makes the trials that decisions ask for, a few at a time, and has the fills decided again.
pub async fn run(handle: Arc<ChainHandle>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = handle.trials.asked.notified() => {}
        }
        let wanted = handle.trials.take(usize::MAX);
        let trials: Vec<_> = wanted.into_iter().map(|(order, attempt)| make(&handle, order, attempt)).collect();
        let mut trials = stream::iter(trials).buffer_unordered(MAX_CONCURRENT_TRIALS);
        while trials.next().await.is_some() {
            handle.trials.made.notify_one();
        }
    }
}

async fn make(handle: &ChainHandle, order: OrderId, attempt: Attempt) {
    let chain = handle.id();
    let verdict = match handle.nodes.estimate_gas(attempt).await {
        Ok(_) => Some(Verdict::Passes),
        Err(error) => match error.refusal() {
            Some(Refusal::Reverted(data)) => Some(Verdict::Refuses(evm::revert::decode(data))),
            Some(Refusal::OutOfGas) => Some(Verdict::Refuses(Revert::OutOfGas)),
            _ => {
                debug!(chain.id = %chain, order = %order.0, %error, "a fill cannot be tried now");
                None
            }
        },
    };
    if let Some(Verdict::Refuses(revert)) = &verdict {
        info!(chain.id = %chain, order = %order.0, "a fill that was tried fails: {revert}");
    }
    handle.trials.answered(order, verdict);
}
