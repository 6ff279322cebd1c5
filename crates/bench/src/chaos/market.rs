//! The price of ether during the run: pools move first, and the feeds follow a few seconds later, as they do.
//!
//! The price swings between two bounds in small steps. A step that a reorg took away is made again.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use alloy::primitives::aliases::{U24, U160};
use alloy::primitives::{Address, Bytes, U64, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, bail};
use devnet::{Account, Chain, Devnet, Rng};
use evm::calldata;
use evm::contracts::PriceFeed;
use evm::pools::{UniswapFactory, UniswapPool};
use evm::swap::SwapRouter;
use serde_json::json;
use tokio::sync::watch;

/// Millionths of a dollar for an ether, or a smallest unit of USDC.
pub(crate) type Price = i128;

/// The price that the local chains begin with.
pub(crate) const FIRST: Price = 3_000_000_000;
/// The ends of a swing.
const LOW: Price = 2_720_000_000;
const HIGH: Price = 3_300_000_000;
/// The largest step, in hundredths of a percent.
pub(crate) const MAX_STEP_BPS: u64 = 150;
const STEP_TIME: Duration = Duration::from_millis(1_200);
/// Time by which the feeds are behind the pools.
const FEED_LAG: Duration = Duration::from_millis(3_600);
/// A pool this close to its price is left alone, in hundredths of a percent.
const CLOSE_BPS: Price = 3;
/// The fee tiers of the pools of WETH and USDC. The first one has the price.
const TIERS: [u32; 2] = [500, 3_000];
const GAS_LIMIT: u64 = 4_000_000;

/// A chain's pools of WETH and USDC.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    pools: Vec<(U24, Address)>,
    weth: Address,
    usdc: Address,
}

impl Pools {
    async fn of(chain: &Chain) -> Result<Self> {
        let (weth, usdc) = (chain.contracts.weth, chain.token("USDC").address);
        let mut pools = Vec::new();
        for tier in TIERS {
            let fee = U24::from(tier);
            let call = UniswapFactory::getPoolCall { tokenA: weth, tokenB: usdc, fee };
            pools.push((fee, chain.read(chain.contracts.uniswap_factory, &call).await?));
        }
        Ok(Self { pools, weth, usdc })
    }

    /// The pool that has the price.
    pub(crate) fn main(&self) -> Address {
        self.pools[0].1
    }

    /// The price behind a pool's square root.
    pub(crate) fn price(&self, sqrt: U160) -> Option<Price> {
        let square = U256::from(sqrt).checked_mul(U256::from(sqrt)).filter(|square| !square.is_zero())?;
        let ether = U256::from(10u64).pow(U256::from(18));
        let price: U256 = if self.weth < self.usdc { (square * ether) >> 192 } else { (ether << 192) / square };
        price.try_into().ok()
    }

    fn sqrt(&self, price: Price) -> U160 {
        let (price, ether) = (U256::from(price.unsigned_abs()), U256::from(10u64).pow(U256::from(18)));
        let ratio: U256 = if self.weth < self.usdc { (price << 192) / ether } else { (ether << 192) / price };
        U160::from(ratio.root(2))
    }
}

/// The price of ether at every moment so far.
#[derive(Debug)]
pub(crate) struct Market<'a> {
    devnet: &'a Devnet,
    pub pools: Vec<Pools>,
    moves: Mutex<Vec<(Instant, Price)>>,
}

impl<'a> Market<'a> {
    /// Equips the account that moves the pools.
    pub(crate) async fn new(devnet: &'a Devnet) -> Result<Self> {
        let mut pools = Vec::new();
        for chain in &devnet.chains {
            let of = Pools::of(chain).await?;
            let approve = calldata::approve(chain.contracts.swap_router, U256::MAX);
            let mover = devnet.keys.deployer;
            chain.send_all(mover.private_key, [of.weth, of.usdc].map(|token| (token, approve.clone()))).await?;
            for token in [of.weth, of.usdc] {
                chain.set_token_balance(token, mover.address, U256::from(10u64).pow(U256::from(30))).await?;
            }
            pools.push(of);
        }
        Ok(Self { devnet, pools, moves: Mutex::new(vec![(Instant::now(), FIRST)]) })
    }

    fn moves(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Price)>> {
        self.moves.lock().expect("nothing panics while holding it")
    }

    pub(crate) fn now(&self) -> Price {
        self.moves().last().map_or(FIRST, |(_, price)| *price)
    }

    /// The price that the feeds have.
    pub(crate) fn feed(&self) -> Price {
        self.since(Instant::now() - FEED_LAG)[0]
    }

    /// The prices since a moment, the one that held then included.
    pub(crate) fn since(&self, moment: Instant) -> Vec<Price> {
        let moves = self.moves();
        let first = moves.iter().rposition(|(at, _)| *at <= moment).unwrap_or(0);
        moves[first..].iter().map(|(_, price)| *price).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.moves().len() - 1
    }

    /// Moves the price until the last fault.
    pub(crate) async fn run(&self, mut calm: watch::Receiver<bool>, mut rng: Rng) {
        let mut rising = rng.once_in(2);
        while !*calm.borrow() {
            let (now, bps) = (self.now(), rng.between(30, MAX_STEP_BPS));
            let step = now * Price::from(bps) / 10_000;
            let next = if rising { now + step } else { now - step };
            rising = if !(LOW..=HIGH).contains(&next) || rng.once_in(12) { !rising } else { rising };
            self.moves().push((Instant::now(), next.clamp(LOW, HIGH)));
            self.follow(STEP_TIME, &mut calm).await;
        }
        // The feeds catch up, so that the run ends in a market at rest.
        let (_still, mut calm) = watch::channel(false);
        self.follow(FEED_LAG + STEP_TIME, &mut calm).await;
    }

    /// Holds pools and feeds at their prices for a while.
    async fn follow(&self, time: Duration, calm: &mut watch::Receiver<bool>) {
        let until = Instant::now() + time;
        while Instant::now() < until && !*calm.borrow() {
            for (chain, pools) in self.devnet.chains.iter().zip(&self.pools) {
                // A chain may be in the middle of a reorg: the next round tries again.
                drop(self.set(chain, pools).await);
            }
            drop(tokio::time::timeout(STEP_TIME / 3, calm.wait_for(|calm| *calm)).await);
        }
    }

    async fn set(&self, chain: &Chain, pools: &Pools) -> Result<()> {
        let (price, feed) = (self.now(), self.feed());
        let mover: &Account = &self.devnet.keys.deployer;
        for &(fee, pool) in &pools.pools {
            let slot = chain.read(pool, &UniswapPool::slot0Call {}).await?;
            let has = pools.price(slot.sqrtPriceX96).context("a pool without a price")?;
            if (has - price).abs() * 10_000 <= price * CLOSE_BPS {
                continue;
            }
            let (sold, bought) = if has > price { (pools.weth, pools.usdc) } else { (pools.usdc, pools.weth) };
            let params = SwapRouter::ExactInputSingleParams {
                tokenIn: sold,
                tokenOut: bought,
                fee,
                recipient: mover.address,
                // The price is the bound.
                amountIn: U256::from(10u64).pow(U256::from(26)),
                amountOutMinimum: U256::ZERO,
                sqrtPriceLimitX96: pools.sqrt(price),
            };
            let data = SwapRouter::exactInputSingleCall { params }.abi_encode().into();
            let router = chain.contracts.swap_router;
            chain.submit_with(mover.private_key, router, U256::ZERO, data, GAS_LIMIT).await?;
        }
        // Feeds have eight decimals.
        let answer = i64::try_from(feed * 100)?;
        if chain.read(chain.native_feed, &PriceFeed::latestRoundDataCall {}).await?.answer.as_i64() != answer {
            chain.submit_price("ETH", answer).await?;
        }
        Ok(())
    }
}

/// The price of ether on one chain, block by block.
#[derive(Debug)]
pub(crate) struct History {
    first: u64,
    /// Of the pool and of the feed.
    prices: Vec<(Price, Price)>,
}

/// Blocks read in one request.
const MAX_BLOCKS_PER_BATCH: u64 = 100;

impl History {
    /// Nothing yet: the first block is to be read.
    pub(crate) fn new(first: u64) -> Self {
        Self { first, prices: Vec::new() }
    }

    pub(crate) fn last(&self) -> u64 {
        self.first + self.prices.len() as u64 - 1
    }

    /// Reads on to a block, which stays. Returns the new stretches in which the pool's price holds, by their last
    /// blocks.
    pub(crate) async fn read_to(&mut self, chain: &Chain, pools: &Pools, last: u64) -> Result<Vec<(u64, Price)>> {
        let call = |to: Address, data: Vec<u8>, block: u64| {
            ("eth_call", json!([{ "to": to, "data": Bytes::from(data) }, U64::from(block)]))
        };
        let known = self.prices.len();
        while self.last() < last {
            let from = self.last() + 1;
            let calls = (from..=last.min(self.last() + MAX_BLOCKS_PER_BATCH)).flat_map(|block| {
                let pool = call(pools.main(), UniswapPool::slot0Call {}.abi_encode(), block);
                [pool, call(chain.native_feed, PriceFeed::latestRoundDataCall {}.abi_encode(), block)]
            });
            let answers = chain.batch(calls).await?;
            for pair in answers.chunks(2) {
                let [pool, feed] = pair else { bail!("half an answer") };
                let pool: Bytes = serde_json::from_value(pool.clone())?;
                let feed: Bytes = serde_json::from_value(feed.clone())?;
                let slot = UniswapPool::slot0Call::abi_decode_returns(&pool)?;
                let answer = PriceFeed::latestRoundDataCall::abi_decode_returns(&feed)?.answer;
                let pool = pools.price(slot.sqrtPriceX96).context("a pool without a price")?;
                self.prices.push((pool, Price::try_from(answer)? / 100));
            }
        }
        Ok(self.stretches(known))
    }

    /// The pool's price at a block.
    pub(crate) fn at(&self, block: u64) -> Price {
        self.around(block, block).0
    }

    /// The lowest and the highest price of pool and feed in some blocks.
    pub(crate) fn around(&self, from: u64, to: u64) -> (Price, Price) {
        let place = |block: u64| usize::try_from(block.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let last = self.prices.len().saturating_sub(1);
        let some = &self.prices[place(from).min(last)..=place(to).min(last)];
        let one = |(pool, feed): &(Price, Price)| if from == to { [*pool, *pool] } else { [*pool, *feed] };
        let all = some.iter().flat_map(one);
        all.fold((Price::MAX, Price::MIN), |(low, high), it| (low.min(it), high.max(it)))
    }

    /// The stretches of blocks with one price, from a place on: their last blocks, and the price.
    fn stretches(&self, from: usize) -> Vec<(u64, Price)> {
        let mut all: Vec<(u64, Price)> = Vec::new();
        for (block, (price, _)) in (self.first..).zip(&self.prices).skip(from) {
            match all.last_mut() {
                Some((last, same)) if same == price => *last = block,
                _ => all.push((block, *price)),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_and_its_square_root_agree_in_either_order_of_the_tokens() {
        let (low, high) = (Address::with_last_byte(1), Address::with_last_byte(2));
        for (weth, usdc) in [(low, high), (high, low)] {
            let pools = Pools { pools: Vec::new(), weth, usdc };
            for price in [LOW, FIRST, HIGH] {
                let back = pools.price(pools.sqrt(price)).unwrap();
                assert!((back - price).abs() <= 1, "{price} became {back}");
            }
        }
    }

    #[test]
    fn stretches_end_where_the_price_changes() {
        let history = History { first: 7, prices: vec![(1, 1), (1, 2), (3, 2), (3, 3), (1, 3)] };
        assert_eq!(history.stretches(0), [(8, 1), (10, 3), (11, 1)]);
        assert_eq!(history.stretches(3), [(10, 3), (11, 1)]);
        assert_eq!((history.at(9), history.around(7, 9)), (3, (1, 3)));
    }
}
