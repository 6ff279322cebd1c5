//! Reading a chain into a snapshot, once per block: feeds, balances and allowances in one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::money::{Amount, Price};
use evm::contracts::{Erc20, GasPriceOracle, Multicall3, PriceFeed};
use evm::{At, ChainError, Head, Nodes};
use tracing::{debug, warn};

use crate::Market;
use crate::snapshot::{Quoted, Snapshot, TokenFunds};

#[derive(Clone, Debug)]
pub struct Feed {
    /// The currency it prices; zero is the native one.
    pub currency: Address,
    pub address: Address,
    /// An answer older than this, by the chain's own time, is no answer.
    pub max_age_secs: u64,
}

/// What to read on a chain.
#[derive(Clone, Debug)]
pub struct Watchlist {
    pub multicall3: Address,
    pub feeds: Vec<Feed>,
    pub treasury: Address,
    pub wallets: Vec<Address>,
    pub tokens: Vec<Address>,
    /// Where the chain says what data costs, if it charges for data.
    pub gas_oracle: Option<Address>,
    /// Wei per unit of gas, on top of the base fee.
    pub tip: u128,
    pub max_age: Duration,
}

/// Keeps the chain's snapshot current until the nodes are dropped. Heads that come faster than they can be read are
/// skipped: only the newest counts.
pub async fn refresh(market: Arc<Market>, nodes: Nodes, watchlist: Watchlist) {
    let mut heads = nodes.heads();
    let plan = Plan::new(&watchlist);
    let mut failing = false;
    loop {
        let head = *heads.borrow_and_update();
        if let Some(head) = head {
            match plan.read(&nodes, &watchlist, head).await {
                Ok(snapshot) => {
                    market.publish(snapshot);
                    failing = false;
                }
                // Said once: the age of the snapshot tells the rest.
                Err(error) if !failing => {
                    warn!(chain.id = %nodes.chain(), %error, "cannot read the market of chain {}", nodes.chain());
                    failing = true;
                }
                Err(error) => debug!(chain.id = %nodes.chain(), %error, "still cannot read the market"),
            }
        }
        if heads.changed().await.is_err() {
            return;
        }
    }
}

/// About what a signed token fill is: its size decides what its data costs, and so does how little it compresses.
const SAMPLE: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut at = 0;
    while at < 256 {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

/// The calls, made up once; their answers come back in the same order.
struct Plan {
    calls: Vec<(Address, Bytes)>,
}

impl Plan {
    fn new(watchlist: &Watchlist) -> Self {
        let mut calls = Vec::new();
        for feed in &watchlist.feeds {
            calls.push((feed.address, PriceFeed::decimalsCall {}.abi_encode().into()));
            calls.push((feed.address, PriceFeed::latestRoundDataCall {}.abi_encode().into()));
        }
        for &wallet in &watchlist.wallets {
            calls.push((watchlist.multicall3, Multicall3::getEthBalanceCall { owner: wallet }.abi_encode().into()));
        }
        for &token in &watchlist.tokens {
            calls.push((token, Erc20::balanceOfCall { owner: watchlist.treasury }.abi_encode().into()));
            for &wallet in &watchlist.wallets {
                let allowance = Erc20::allowanceCall { owner: watchlist.treasury, spender: wallet };
                calls.push((token, allowance.abi_encode().into()));
            }
        }
        if let Some(oracle) = watchlist.gas_oracle {
            calls.push((oracle, GasPriceOracle::getL1FeeCall { transaction: SAMPLE.into() }.abi_encode().into()));
        }
        Self { calls }
    }

    async fn read(&self, nodes: &Nodes, watchlist: &Watchlist, head: Head) -> Result<Snapshot, ChainError> {
        let answers = nodes.aggregate(watchlist.multicall3, &self.calls, At::Hash(head.hash)).await?;
        let mut answers = answers.into_iter().map(|answer| answer.unwrap_or_default());
        let mut next = || answers.next().unwrap_or_default();
        let mut prices = BTreeMap::new();
        for feed in &watchlist.feeds {
            let (decimals, round) = (next(), next());
            if let Some(quoted) = quoted(feed, &decimals, &round, head.time) {
                prices.insert(feed.currency, quoted);
            }
        }
        let native = watchlist.wallets.iter().map(|&wallet| (wallet, amount(&next()))).collect();
        let mut tokens = BTreeMap::new();
        for &token in &watchlist.tokens {
            let treasury = amount(&next());
            let allowances = watchlist.wallets.iter().map(|&wallet| (wallet, amount(&next()))).collect();
            tokens.insert(token, TokenFunds { treasury, allowances });
        }
        let data_fee = match watchlist.gas_oracle {
            None => Amount::ZERO,
            // A cost that cannot be read is not nothing.
            Some(_) => {
                let fee = GasPriceOracle::getL1FeeCall::abi_decode_returns(&next());
                Amount::new(fee.map_err(|_| ChainError::Undecodable("getL1Fee"))?)
            }
        };
        Ok(Snapshot {
            chain: nodes.chain(),
            block: head.number,
            hash: head.hash,
            time: head.time,
            base_fee: head.base_fee,
            tip: watchlist.tip,
            data_fee,
            prices,
            native,
            tokens,
            received: Instant::now(),
            max_age: watchlist.max_age,
        })
    }
}

/// What cannot be read counts as nothing: it lowers what we promise and never raises it.
fn amount(answer: &Bytes) -> Amount {
    if answer.len() == 32 { Amount::new(U256::from_be_slice(answer)) } else { Amount::ZERO }
}

fn quoted(feed: &Feed, decimals: &Bytes, round: &Bytes, now: u64) -> Option<Quoted> {
    let decimals = PriceFeed::decimalsCall::abi_decode_returns(decimals).ok()?;
    let round = PriceFeed::latestRoundDataCall::abi_decode_returns(round).ok()?;
    let answer = u128::try_from(round.answer).ok()?;
    let updated_at = u64::try_from(round.updatedAt).ok()?;
    Some(Quoted {
        price: Price::new(answer, decimals).ok()?,
        age_secs: now.saturating_sub(updated_at),
        max_age_secs: feed.max_age_secs,
    })
}
