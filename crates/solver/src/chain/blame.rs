//! The party to blame for a failed fill: only gas that the recipient, or a call of the caller's own, made us burn comes
//! off the refund.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;
use domain::quote::Quote;
use evm::blame::{Blame, Suspects};
use evm::contracts::Erc20;
use evm::routed::Message;
use evm::{At, ChainError, Replayed};
use store::records::Record;

use crate::handle::ChainHandle;
use crate::payments::gas::is_routed;

/// The party to blame. The trace of the transaction tells; where no node offers it, the form of the fill does.
pub(crate) async fn of(
    handle: &ChainHandle,
    tx: &Replayed,
    record: &Record,
    quote: &Quote,
) -> Result<Blame, ChainError> {
    let (Some(recipient), Some(target)) = (quote.ask.recipient.packed(), record.target) else {
        return Ok(Blame::Nobody);
    };
    if handle.chain.token(target).is_some() {
        let refused = handle.nodes.token_refuses(tx).await?;
        return Ok(if refused { Blame::Recipient } else { Blame::Nobody });
    }
    let calls = quote.ask.options.calls.iter();
    let calls: Vec<Message> =
        calls.map(|call| Message { to: call.to, value: call.value.units(), data: call.data.clone() }).collect();
    let suspects = Suspects { router: handle.chain.router, recipient, calls };
    let (blame, suspected) = match handle.nodes.blame(record.tx, &suspects).await? {
        Some(Blame::Call(at)) => (Blame::Call(at), suspects.calls.get(at..=at).unwrap_or_default()),
        Some(blame) => (blame, &[][..]),
        // Only the recipient's code runs in a plain payment.
        None if !is_routed(quote) => (Blame::Recipient, &[][..]),
        // Only their author can make calls that pass when they are tried and fail when they are paid.
        None if !suspects.calls.is_empty() => (Blame::Call(0), &suspects.calls[..]),
        None => (Blame::Nobody, &[][..]),
    };
    for call in suspected {
        if meets_planted_allowance(handle, record, call).await? {
            return Ok(Blame::Nobody);
        }
    }
    Ok(blame)
}

/// True for an approval of the router's that a stranger may have made fail: some tokens refuse to change an allowance
/// that is not zero, and anyone can have the router approve.
async fn meets_planted_allowance(handle: &ChainHandle, record: &Record, call: &Message) -> Result<bool, ChainError> {
    let Some(spender) = approved(call).filter(|_| handle.chain.token(call.to).is_some()) else { return Ok(false) };
    let allowance = Erc20::allowanceCall { owner: handle.chain.router, spender }.abi_encode();
    for at in [At::Number(record.block_number.saturating_sub(1)), At::Hash(record.block_hash)] {
        let answer = handle.nodes.call(call.to, allowance.clone().into(), at).await?;
        if U256::try_from_be_slice(&answer).is_some_and(|allowance| !allowance.is_zero()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The spender that a call approves.
fn approved(call: &Message) -> Option<Address> {
    let arguments = call.data.strip_prefix(&Erc20::approveCall::SELECTOR)?;
    Erc20::approveCall::abi_decode_raw(arguments.get(..64)?).ok().map(|approval| approval.spender)
}
