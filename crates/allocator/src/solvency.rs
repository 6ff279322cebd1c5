//! Solvency of a depository: its balances beside what the ledger owes, noted for operators. Signing asks again for
//! itself.

use std::time::Duration;

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;
use domain::money::Amount;
use evm::contracts::Erc20;
use evm::{At, Head};
use store::depository_holdings::{self, Holding};
use store::{StoreError, Tx};

use crate::allocator::Allocator;
use crate::chain::PayoutChain;
use crate::error::AllocatorError;

/// Time between two readings of a chain: they cost a call for each currency.
const INTERVAL: Duration = Duration::from_secs(60);

/// Notes the balances as of the block that the ledger ends with.
pub(crate) async fn note(allocator: &Allocator, payout_chain: &PayoutChain, last: Head) -> Result<(), AllocatorError> {
    let (chain, now) = (payout_chain.id(), allocator.now());
    let read = move |tx: &mut Tx<'_>| {
        let noted = depository_holdings::last_noted(tx, chain)?;
        if noted.is_some_and(|noted| now < noted.plus(INTERVAL)) {
            return Ok(Vec::new());
        }
        depository_holdings::totals(tx, chain)
    };
    let totals = allocator.store.read::<_, StoreError>(read).await?;
    let mut holdings = Vec::with_capacity(totals.len());
    for (currency, total) in totals {
        let held = balance(payout_chain, currency, last).await?;
        // More paid out than came in is owed nothing; what left unasked is an alarm of its own.
        let owed = total.deposited.saturating_sub(total.executed);
        holdings.push(Holding { chain, currency, held, owed, block: last.number, noted_at: now });
    }
    if holdings.is_empty() {
        return Ok(());
    }
    let put = move |tx: &mut Tx<'_>| holdings.iter().try_for_each(|holding| depository_holdings::put(tx, holding));
    Ok(allocator.store.write::<_, StoreError>(put).await?)
}

async fn balance(payout_chain: &PayoutChain, currency: Address, last: Head) -> Result<Amount, AllocatorError> {
    let (need, owner, at) = (payout_chain.quorum, payout_chain.depository(), At::Hash(last.hash));
    if currency.is_zero() {
        return Ok(Amount::new(payout_chain.nodes.quorum_balance(need, owner, at).await?));
    }
    let call = Erc20::balanceOfCall { owner }.abi_encode();
    let answer = payout_chain.nodes.quorum_call(need, currency, call.into(), at).await?;
    // A token that answers otherwise holds nothing for us.
    let word: [u8; 32] = answer.as_ref().try_into().unwrap_or_default();
    Ok(Amount::new(U256::from_be_bytes(word)))
}
