//! A chain read into a snapshot, once per block: feeds, balances and allowances in one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::money::{Amount, Price};
use evm::contracts::{Erc20, GasPriceOracle, Multicall3, PriceFeed, SpendLimiter};
use evm::{ChainError, Head, Nodes};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::Market;
use crate::mirror::Mirror;
use crate::pools::Pools;
use crate::snapshot::{Quoted, SAMPLE_BYTES, Snapshot, TokenFunds};
use crate::watchlist::{Feed, Watchlist};

/// The time that the rest of a snapshot, once it is read, waits for its pools. Pools that are late come with the next
/// head.
const POOLS_TIMEOUT: Duration = Duration::from_secs(2);

/// The head start of those who look for deposits in a new head. Reading a market is a lot of work for a node, and
/// payments made now go by the current snapshot.
const DEPOSITS_HEAD_START: Duration = Duration::from_millis(20);

/// The pause before a head that could not be read is tried again, where there are several nodes: the second may have
/// been behind.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the chain's snapshot current until the nodes are dropped. Heads that come faster than they can be read are
/// skipped: only the newest counts.
pub fn refresh(market: Arc<Market>, nodes: Nodes, watchlist: Watchlist) -> BoxFuture<'static, ()> {
    async move {
        let mut heads = nodes.heads();
        let plan = Plan::new(&watchlist);
        let mut mirror = Mirror::new(&nodes, &watchlist);
        let mut failing = false;
        loop {
            let head = *heads.borrow_and_update();
            if let Some(head) = head {
                let mut read_at = head;
                let mut outcome = read(&plan, &nodes, &watchlist, mirror.as_mut(), head).await;
                if matches!(outcome, Err(ChainError::NotSeconded(_)))
                    && let Some(agreed) = agreed_instead(&nodes, head).await
                {
                    read_at = agreed;
                    outcome = read(&plan, &nodes, &watchlist, mirror.as_mut(), agreed).await;
                }
                match outcome {
                    Ok(snapshot) => {
                        market.publish(snapshot);
                        failing = false;
                        mirror.iter_mut().for_each(|mirror| mirror.work(read_at));
                    }
                    // Logged once: the age of the snapshot tells the rest.
                    Err(error) if !failing => {
                        warn!(chain.id = %nodes.chain(), %error, "cannot read the market of chain {}", nodes.chain());
                        failing = true;
                    }
                    Err(error) => debug!(chain.id = %nodes.chain(), %error, "still cannot read the market"),
                }
            }
            let learned = async {
                match &mut mirror {
                    Some(mirror) => mirror.learn().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = heads.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(DEPOSITS_HEAD_START).await;
                }
                // The same head again, now with more pools, or fewer.
                () = learned => {}
                () = tokio::time::sleep(RETRY_INTERVAL), if failing && nodes.len() > 1 => {}
            }
        }
    }
    .boxed()
}

/// The head of the same number that most nodes have, where the announced one is its announcer's alone. Whoever
/// announces first must not stop the market of a chain: the heads of others are followed for a while.
async fn agreed_instead(nodes: &Nodes, head: Head) -> Option<Head> {
    let agreed = nodes.header_votes(head.number).await.ok()?.agreed().filter(|agreed| agreed.hash != head.hash)?;
    nodes.distrust_leader();
    Some(agreed)
}

async fn read(
    plan: &Plan,
    nodes: &Nodes,
    watchlist: &Watchlist,
    mirror: Option<&mut Mirror>,
    head: Head,
) -> Result<Snapshot, ChainError> {
    let Some(mirror) = mirror else {
        let (snapshot, _) = plan.read(nodes, watchlist, head, Vec::new()).await?;
        return Ok(snapshot);
    };
    // The rest may wait itself for a node that is behind, and the pools may wait as long.
    let rest = Notify::new();
    let reading = async {
        let read = plan.read(nodes, watchlist, head, mirror.calls()).await;
        rest.notify_one();
        read
    };
    let late = async {
        rest.notified().await;
        tokio::time::sleep(POOLS_TIMEOUT).await;
    };
    let growing = async {
        tokio::select! {
            growth = mirror.towards(head) => Ok::<_, ChainError>(Some(growth)),
            () = late => Ok(None),
        }
    };
    let ((mut snapshot, states), growth) = tokio::try_join!(reading, growing)?;
    let pools = match growth {
        Some(Ok(growth)) => tokio::time::timeout(POOLS_TIMEOUT, mirror.at(head, &states, growth)).await.ok(),
        Some(Err(error)) => {
            debug!(chain.id = %nodes.chain(), %error, "cannot read the changes of the pools");
            None
        }
        None => None,
    };
    snapshot.pools = pools.unwrap_or_else(|| mirror.former(watchlist.max_age));
    Ok(snapshot.with_spots())
}

/// About the size of a signed token fill: size decides the cost of its data, and so does how little it compresses.
const SAMPLE: [u8; SAMPLE_BYTES] = {
    let mut bytes = [0; SAMPLE_BYTES];
    let mut at = 0;
    while at < SAMPLE_BYTES {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

/// The calls, encoded once; their answers come back in the same order.
struct Plan {
    calls: Vec<(Address, Bytes)>,
    feeds: Arc<[Feed]>,
}

impl Plan {
    fn new(watchlist: &Watchlist) -> Self {
        let mut calls = Vec::new();
        for feed in &watchlist.feeds {
            calls.push((feed.address, PriceFeed::decimalsCall {}.abi_encode().into()));
            calls.push((feed.address, PriceFeed::latestRoundDataCall {}.abi_encode().into()));
        }
        for &wallet in watchlist.wallets.iter().chain(&watchlist.relayers) {
            calls.push((watchlist.multicall3, Multicall3::getEthBalanceCall { owner: wallet }.abi_encode().into()));
        }
        for &token in &watchlist.tokens {
            calls.push((token, Erc20::balanceOfCall { owner: watchlist.treasury }.abi_encode().into()));
            for &wallet in &watchlist.wallets {
                let allowance = Erc20::allowanceCall { owner: watchlist.treasury, spender: wallet };
                calls.push((token, allowance.abi_encode().into()));
            }
            if let Some(spend_limiter) = watchlist.spend_limiter {
                let allowance = Erc20::allowanceCall { owner: watchlist.treasury, spender: spend_limiter };
                calls.push((token, allowance.abi_encode().into()));
                for &filler in &watchlist.wallets {
                    let limit = SpendLimiter::limitCall { treasury: watchlist.treasury, filler, token };
                    calls.push((spend_limiter, limit.abi_encode().into()));
                }
            }
        }
        if let Some(oracle) = watchlist.gas_oracle {
            calls.push((oracle, GasPriceOracle::getL1FeeCall { transaction: SAMPLE.into() }.abi_encode().into()));
        }
        Self { calls, feeds: watchlist.feeds.as_slice().into() }
    }

    /// Also answers the calls in `more`, of which the plan knows nothing. Where there are several nodes, two of them
    /// have to show the same: otherwise there is no new snapshot, and the last one ages.
    async fn read(
        &self,
        nodes: &Nodes,
        watchlist: &Watchlist,
        head: Head,
        more: Vec<(Address, Bytes)>,
    ) -> Result<(Snapshot, Vec<Bytes>), ChainError> {
        let calls = [self.calls.clone(), more].concat();
        let asked = Instant::now();
        let (header, answers) = nodes.seconded_aggregate(watchlist.multicall3, &calls, head.hash).await?;
        // Time and base fee were announced by one node.
        let head = header.unwrap_or(head);
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
        let relayers = watchlist.relayers.iter().map(|&wallet| (wallet, amount(&next()))).collect();
        let mut tokens = BTreeMap::new();
        for &token in &watchlist.tokens {
            let treasury = amount(&next());
            let allowances = watchlist.wallets.iter().map(|&wallet| (wallet, amount(&next()))).collect();
            let mut funds = TokenFunds { treasury, allowances, ..TokenFunds::default() };
            if watchlist.spend_limiter.is_some() {
                funds.spend_limiter = amount(&next());
                funds.limits = watchlist.wallets.iter().map(|&wallet| (wallet, amount(&next()))).collect();
            }
            tokens.insert(token, funds);
        }
        let data_fee = match watchlist.gas_oracle {
            None => Amount::ZERO,
            // An unreadable cost is not zero.
            Some(_) => {
                let fee = GasPriceOracle::getL1FeeCall::abi_decode_returns(&next());
                Amount::new(fee.map_err(|_| ChainError::Undecodable("getL1Fee"))?)
            }
        };
        let snapshot = Snapshot {
            chain: nodes.chain(),
            block: head.number,
            hash: head.hash,
            time: head.time,
            base_fee: head.base_fee,
            tip: watchlist.tip,
            data_fee,
            feeds: self.feeds.clone(),
            prices,
            spots: BTreeMap::new(),
            native,
            relayers,
            tokens,
            pools: Arc::new(Pools::default()),
            received: asked,
            max_age: watchlist.max_age,
        };
        Ok((snapshot, answers.collect()))
    }
}

/// An unreadable amount counts as zero: it lowers what we promise and never raises it.
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
