//! Blocks full of logs that look like transfers to the depository and the treasury: a node may refuse to list them, and
//! a service that gives up would stand still.

use alloy::primitives::{Address, Bytes, U256};
use anyhow::Result;
use devnet::Chain;

use super::hands::Hands;
use super::{Attempt, bytecode};

/// Logs of one transaction, and transactions.
const LOGS: u16 = 4_000;
const TRANSACTIONS: usize = 3;
const GAS_LIMIT: u64 = 9_000_000;

pub(super) async fn prepare(attempt: &Attempt, chain: &Chain, treasury: Address) -> Result<()> {
    let to = if attempt.coin { treasury } else { chain.contracts.depository };
    chain.set_code(attempt.contract, bytecode::emits(LOGS, attempt.main.address, to)).await
}

pub(super) async fn attempt(hands: &Hands<'_>) -> Result<()> {
    for _ in 0..TRANSACTIONS {
        let call = (hands.attempt.contract, U256::ZERO, Bytes::new());
        let tx = hands.call(&hands.attempt.main, call, GAS_LIMIT)?;
        hands.sends.send(tx).await;
    }
    Ok(())
}
