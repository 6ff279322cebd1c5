//! The permit of a quote: the typed data that its user signs, so that a relayer of ours can send the deposit.
//!
//! It is a pure function of the stored quote and the chain: the signature is checked against the same bytes that were
//! given out.

use std::time::Duration;

use alloy::primitives::{Address, U256, keccak256};
use alloy::sol_types::Eip712Domain;
use domain::catalog::Chain;
use domain::deposit;
use domain::ids::OrderId;
use domain::quote::{PermitAsk, Quote};
use domain::time::Timestamp;
use evm::contracts::{PermitBatchWitnessTransferFrom, ReceiveWithAuthorization, TokenPermissions};
use evm::permits::Permit;
use evm::routed::TokenCalls;

use crate::handle::entry;
use crate::payments::call::trade;
use crate::quoting::steps::same_chain_calls;

/// The moment from which the signature is of no use: the caller's, and no later than the last at which the order is
/// filled.
pub fn deadline(quote: &Quote, ask: PermitAsk) -> Timestamp {
    let after = |secs: u32| quote.created_at.plus(Duration::from_secs(secs.into()));
    let ends = [quote.ask.ttl_secs.map(after), quote.terms.as_ref().map(deposit::last_fill)];
    ends.into_iter().flatten().fold(after(ask.valid_secs), Timestamp::min)
}

/// The permit of a quote. None where the quote asks for none, has no relayer, or pays in native currency.
pub fn of(quote: &Quote, order: Option<OrderId>, chain: &Chain, treasury: Address) -> Option<Permit> {
    let ask = quote.ask.options.permit?;
    let user = quote.ask.user.packed()?;
    let currency = chain.currency(&quote.ask.origin.address).filter(|currency| !currency.native)?;
    let calls = match order {
        Some(order) => deposit_calls(quote, order, chain, user)?,
        None => same_chain_calls(quote, chain, treasury)?,
    };
    let (token, amount, proxy) = (calls.token, calls.amount, chain.approval_proxy);
    let witness = calls.by_relayer(ask.relayer?);
    let until = u64::try_from(deadline(quote, ask).secs()).ok()?;
    if let Some(domain) = &currency.authorizations {
        let domain = Eip712Domain::new(
            Some(domain.name.clone().into()),
            Some(domain.version.clone().into()),
            Some(U256::from(chain.id.0)),
            Some(token),
            None,
        );
        let signed = ReceiveWithAuthorization::to_proxy(user, proxy, amount, until, &witness);
        return Some(Permit::Authorization { domain: Box::new(domain), signed: Box::new(signed), token, witness });
    }
    // Permit2 takes nonces in any order: one for each quote.
    let nonce = keccak256([b"permit2".as_slice(), quote.id.as_slice()].concat());
    let signed = PermitBatchWitnessTransferFrom {
        permitted: vec![TokenPermissions { token, amount }],
        spender: proxy,
        nonce: nonce.into(),
        deadline: U256::from(until),
        witness,
    };
    Some(Permit::Permit2 { chain_id: chain.id.0, signed })
}

fn deposit_calls(quote: &Quote, order: OrderId, chain: &Chain, user: Address) -> Option<TokenCalls> {
    let Some(swap) = &quote.origin_swap else {
        let (token, amount) = (quote.ask.origin.address.packed()?, quote.figures.input.units());
        return Some(entry(chain).deposit(chain.depository, token, amount, user, order, quote.id));
    };
    let native_out = quote.terms.as_ref()?.deposit.address.packed()?.is_zero();
    let trade = trade(chain, swap, swap.funds(), false, native_out)?;
    entry(chain).origin_swap(chain.depository, &trade, user, order, quote.id).tokens()
}
