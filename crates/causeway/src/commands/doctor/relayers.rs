//! Checks that relayers hold gas and nothing else: anybody has them call what they like, so there must be nothing that
//! they could be made to give away.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;
use evm::At;
use evm::contracts::{DepositAddressFactory, Erc20, SpendLimiter};
use solver::ChainHandle;

use super::Findings;

pub(super) async fn check(findings: &mut Findings, handle: &ChainHandle) {
    for relayer in handle.lanes.relayers() {
        let (before, mut asked) = (findings.failures, Vec::new());
        for token in &handle.chain.tokens {
            let Some(address) = token.address.evm() else { continue };
            if !is_zero(handle, address, Erc20::balanceOfCall { owner: relayer }.abi_encode()).await {
                // Anybody can send it some.
                findings.warn(format!("relayer {relayer} holds {}", token.symbol), "move it to the treasury");
            }
            let allowed = Erc20::allowanceCall { owner: handle.treasury, spender: relayer }.abi_encode();
            asked.push((address, allowed, format!("may move the treasury's {}", token.symbol)));
            if let Some(limiter) = handle.chain.spend_limiter {
                let limit = SpendLimiter::limitCall { treasury: handle.treasury, filler: relayer, token: address };
                asked.push((limiter, limit.abi_encode(), format!("may spend the treasury's {}", token.symbol)));
            }
        }
        if let Some(factory) = handle.chain.deposit_address_factory {
            let operates = DepositAddressFactory::operatorsCall { account: relayer }.abi_encode();
            asked.push((factory, operates, "may sweep open deposit addresses".to_owned()));
        }
        for (contract, call, what) in asked {
            if !is_zero(handle, contract, call).await {
                let mend = "a relayer holds gas and nothing else: take the right back";
                findings.fail(format!("relayer {relayer} {what}"), mend);
            }
        }
        if findings.failures == before {
            findings.ok(format!("relayer {relayer} has no allowance and no role"));
        }
    }
}

/// True if a contract answers zero, or nothing: other checks tell of contracts that do not answer.
async fn is_zero(handle: &ChainHandle, contract: Address, call: Vec<u8>) -> bool {
    let answer = handle.nodes.call(contract, call.into(), At::Latest).await.unwrap_or_default();
    answer.len() != 32 || U256::from_be_slice(&answer).is_zero()
}
