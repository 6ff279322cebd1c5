//! Who ended richer: the accounts of each party on all chains, and its app balances, before and after.
//!
//! Amounts that moved are worth the price of their moment, so that the price of what somebody merely holds is no gain.
//! A stablecoin is worth a dollar.

use std::time::Instant;

use alloy::primitives::{Address, Bytes, U64, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use devnet::Chain;
use evm::calldata;
use evm::contracts::{Erc20, Multicall3};
use serde_json::json;

use super::market::{Market, Price};

/// Stablecoins, beside ether and wrapped ether.
const STABLES: [&str; 3] = ["USDC", "USDT", "DAI"];
/// Accounts read in one call.
const MAX_ACCOUNTS_PER_CALL: usize = 200;
/// Millionths of a dollar that nobody counts: amounts are rounded.
pub(crate) const TOLERANCE: i128 = 10_000;
const ETHER: i128 = 1_000_000_000_000_000_000;

/// Somebody with accounts on the chains, and app balances.
#[derive(Clone, Debug, Default)]
pub(crate) struct Party {
    pub accounts: Vec<Address>,
    /// Wallets with an app balance.
    pub wallets: Vec<Address>,
}

/// A party's change of worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Stablecoins on the chains, in millionths of a dollar.
    pub stable: i128,
    /// The same of the app balances.
    pub app: i128,
    /// Ether, in wei.
    pub ether: i128,
    /// The same in millionths of a dollar, each part at the price of its moment.
    pub ether_then: i128,
    /// All ether that moved, at the same prices.
    pub ether_moved: i128,
}

impl Change {
    /// The gain, each part at the price of its moment.
    pub(crate) fn gain(&self) -> i128 {
        self.stable + self.app + self.ether_then
    }

    /// Adds what moved on one chain between two readings, at the price of that time.
    pub(crate) fn add(&mut self, before: &Holding, after: &Holding, price: Price) {
        let wei = after.ether - before.ether;
        self.stable += after.stable - before.stable;
        self.ether += wei;
        self.ether_then += worth(wei, price);
        self.ether_moved += worth(wei.abs(), price);
    }

    /// The gain if everything had moved at one price.
    pub(crate) fn gain_at(&self, price: Price) -> i128 {
        self.stable + self.app + worth(self.ether, price)
    }
}

/// An amount of wei in millionths of a dollar.
pub(crate) fn worth(wei: i128, price: Price) -> i128 {
    wei * price / ETHER
}

/// Millionths of a dollar as text.
pub(crate) fn dollars(micros: i128) -> String {
    let (sign, size) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    format!("{sign}{}.{:02}", size / 1_000_000, size % 1_000_000 / 10_000)
}

/// The least gain of an honest party at the prices since it began to pay: the service may decide at any of them.
pub(crate) fn least_gain(change: &Change, market: &Market<'_>, since: Instant) -> i128 {
    let gains = market.since(since).into_iter().map(|price| change.gain_at(price));
    gains.min().unwrap_or_default()
}

/// The holdings of an account on one chain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holding {
    /// Millionths of a dollar.
    pub stable: i128,
    /// Wei.
    pub ether: i128,
}

/// The holdings of accounts at a block.
pub(crate) async fn holdings(chain: &Chain, block: u64, accounts: &[Address]) -> Result<Vec<Holding>> {
    let mut all = Vec::new();
    for some in accounts.chunks(MAX_ACCOUNTS_PER_CALL) {
        let multicall = chain.contracts.multicall3;
        let calls: Vec<(Address, Bytes)> = some
            .iter()
            .flat_map(|&owner| {
                let native = (multicall, Multicall3::getEthBalanceCall { owner }.abi_encode().into());
                let of = move |token| (token, Erc20::balanceOfCall { owner }.abi_encode().into());
                let stables = STABLES.into_iter().map(move |symbol| of(chain.token(symbol).address));
                [native, of(chain.contracts.weth)].into_iter().chain(stables)
            })
            .collect();
        let call = json!([{ "to": multicall, "data": calldata::aggregate(&calls) }, U64::from(block)]);
        let answer: Bytes = chain.rpc("eth_call", call).await.with_context(|| format!("{} at {block}", chain.name))?;
        let results = Multicall3::aggregate3Call::abi_decode_returns(&answer)?;
        ensure!(results.len() == calls.len() && results.iter().all(|result| result.success), "balances are missing");
        let amounts: Vec<i128> = results.iter().map(|it| amount(&it.returnData)).collect::<Result<_>>()?;
        for owned in amounts.chunks(2 + STABLES.len()) {
            let stables = STABLES.iter().zip(&owned[2..]);
            let micros = stables.map(|(symbol, it)| it / 10i128.pow(u32::from(chain.token(symbol).decimals) - 6));
            all.push(Holding { stable: micros.sum(), ether: owned[0] + owned[1] });
        }
    }
    Ok(all)
}

fn amount(data: &[u8]) -> Result<i128> {
    let amount = U256::try_from_be_slice(data).context("an odd balance")?;
    Ok(i128::try_from(amount)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_measured_at_the_price_of_its_moment() {
        // Half an ether came at 3,000 dollars, half went at 2,000; the rest is held.
        let change = Change { stable: -100_000_000, ether: 0, ether_then: 500_000_000, ..Change::default() };
        assert_eq!(change.gain(), 400_000_000);
        assert_eq!(change.gain_at(2_000_000_000), -100_000_000);
        assert_eq!(worth(ETHER / 2, 3_000_000_000), 1_500_000_000);
    }
}
