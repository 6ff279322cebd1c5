//! A chain of the devnet, its snapshots, and its quoter's answers at the same block.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::aliases::U24;
use alloy::primitives::{Address, B256, Bytes, U160, U256};
use alloy::sol_types::SolCall;
use devnet::Chain;
use domain::ids::ChainId;
use domain::swap::Path;
use evm::pools::QuoterV2;
use evm::{At, Endpoint, Nodes};
use market::{Dex, Feed, MAX_TICKS, Market, Pool, Snapshot, Watchlist, refresh};
use tokio::task::JoinHandle;

/// The pools that the devnet opens.
pub(crate) const POOLS: usize = 5;
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Mirrored<'a> {
    pub chain: &'a Chain,
    pub nodes: Nodes,
    market: Arc<Market>,
    task: JoinHandle<()>,
}

impl Drop for Mirrored<'_> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn watchlist(chain: &Chain) -> Watchlist {
    let native = (Address::ZERO, chain.native_feed);
    let feeds = chain.tokens.iter().filter(|token| token.symbol != "WETH");
    let feeds = feeds.filter_map(|token| Some((token.address, token.feed?))).chain([native]);
    Watchlist {
        multicall3: chain.contracts.multicall3,
        feeds: feeds.map(|(currency, address)| Feed { currency, address, max_age_secs: 1 << 40 }).collect(),
        treasury: Address::repeat_byte(1),
        wallets: vec![],
        relayers: Vec::new(),
        tokens: vec![],
        spend_limiter: None,
        gas_oracle: None,
        tip: 0,
        max_age: WAIT_TIMEOUT,
        dex: Some(Dex {
            factory: chain.contracts.uniswap_factory,
            quoter: chain.contracts.quoter,
            wrapped: chain.contracts.weth,
            tokens: chain.tokens.iter().map(|token| (token.address, token.decimals)).collect(),
            fee_tiers: vec![100, 500, 3000, 10_000],
            most_ticks: MAX_TICKS,
        }),
    }
}

pub(crate) async fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(began.elapsed() < WAIT_TIMEOUT, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl<'a> Mirrored<'a> {
    pub(crate) fn start(chain: &'a Chain) -> Self {
        Self::start_with(chain, watchlist(chain))
    }

    pub(crate) fn start_with(chain: &'a Chain, watchlist: Watchlist) -> Self {
        let endpoint = Endpoint { http: chain.rpc_url.clone(), ws: Some(chain.ws_url.clone()) };
        let nodes = Nodes::new(ChainId(chain.id), vec![endpoint], Duration::from_secs(10)).unwrap();
        let market = Arc::new(Market::new([ChainId(chain.id)]));
        let task = tokio::spawn(refresh(market.clone(), nodes.clone(), watchlist));
        Self { chain, nodes, market, task }
    }

    pub(crate) fn latest(&self) -> Option<Arc<Snapshot>> {
        self.market.latest(ChainId(self.chain.id))
    }

    /// A snapshot of the chain as it is now, or a little later, with all pools.
    pub(crate) async fn now(&self) -> Arc<Snapshot> {
        let block = self.chain.block_number().await.unwrap();
        let complete = |snapshot: &Arc<Snapshot>| {
            snapshot.block >= block && snapshot.check_pools().is_ok() && snapshot.pools.all().len() == POOLS
        };
        until("a snapshot with all pools", || self.latest().filter(complete)).await
    }

    pub(crate) fn pool<'s>(&self, snapshot: &'s Snapshot, a: &str, b: &str, fee: u32) -> &'s Pool {
        let (a, b) = (self.chain.token(a).address, self.chain.token(b).address);
        let is = |pool: &&Pool| {
            let key = pool.key();
            (key.token0, key.token1, key.fee) == (a.min(b), a.max(b), fee)
        };
        snapshot.pools.all().iter().find(is).unwrap()
    }

    async fn quote<C: SolCall>(&self, at: B256, call: C) -> Option<C::Return> {
        let data = Bytes::from(call.abi_encode());
        match self.nodes.call(self.chain.contracts.quoter, data, At::Hash(at)).await {
            Ok(answer) => Some(C::abi_decode_returns(&answer).unwrap()),
            Err(error) => {
                assert!(matches!(error.refusal(), Some(evm::Refusal::Reverted(_))), "{error}");
                None
            }
        }
    }

    /// The chain's output, and the ticks it crosses for that.
    pub(crate) async fn sell(&self, at: B256, pool: &Pool, token: Address, amount: U256) -> Option<(U256, u32)> {
        let params = QuoterV2::ExactInput {
            tokenIn: token,
            tokenOut: pool.other(token),
            amountIn: amount,
            fee: U24::from(pool.key().fee),
            sqrtPriceLimitX96: U160::ZERO,
        };
        let quote = self.quote(at, QuoterV2::quoteExactInputSingleCall { params }).await?;
        Some((quote.amountOut, quote.ticksCrossed))
    }

    pub(crate) async fn buy(&self, at: B256, pool: &Pool, token: Address, amount: U256) -> Option<(U256, u32)> {
        let params = QuoterV2::ExactOutput {
            tokenIn: pool.other(token),
            tokenOut: token,
            amount,
            fee: U24::from(pool.key().fee),
            sqrtPriceLimitX96: U160::ZERO,
        };
        let quote = self.quote(at, QuoterV2::quoteExactOutputSingleCall { params }).await?;
        Some((quote.amountIn, quote.ticksCrossed))
    }

    pub(crate) async fn sell_along(&self, at: B256, path: &Path, amount: U256) -> Option<U256> {
        let path = encoded(path.tokens(), path.fees());
        Some(self.quote(at, QuoterV2::quoteExactInputCall { path, amountIn: amount }).await?.amountOut)
    }

    /// The chain takes such a path backwards.
    pub(crate) async fn buy_along(&self, at: B256, path: &Path, amount: U256) -> Option<U256> {
        let tokens: Vec<_> = path.tokens().iter().rev().copied().collect();
        let fees: Vec<_> = path.fees().iter().rev().copied().collect();
        let path = encoded(&tokens, &fees);
        Some(self.quote(at, QuoterV2::quoteExactOutputCall { path, amountOut: amount }).await?.amountIn)
    }
}

fn encoded(tokens: &[Address], fees: &[u32]) -> Bytes {
    let mut bytes = tokens[0].to_vec();
    for (token, fee) in tokens[1..].iter().zip(fees) {
        bytes.extend(&fee.to_be_bytes()[1..]);
        bytes.extend(token);
    }
    bytes.into()
}

/// Pseudo-random numbers that are the same in every run.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// An amount from one unit to the whole, small ones as likely as large ones.
    pub(crate) fn part_of(&mut self, whole: U256) -> U256 {
        let bits = (self.roll() % (whole.bit_len() as u64)) as usize;
        let random = U256::from_limbs([self.roll(), self.roll(), self.roll(), self.roll()]);
        (random % (whole >> bits).max(U256::from(1))) + U256::from(1)
    }
}

/// The extent of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub quotes: usize,
    pub crossed: u32,
    pub most_crossed: u32,
}

/// Compares every pool, each way, either side fixed: the same to the unit as the chain's quoter, or no offer.
pub(crate) async fn compare(mirrored: &Mirrored<'_>, snapshot: &Snapshot, rounds: usize, seed: u64) -> Compared {
    let mut rng = Rng(seed);
    let mut compared = Compared::default();
    for pool in snapshot.pools.all() {
        let key = *pool.key();
        for round in 0..rounds {
            for token in [key.token0, key.token1] {
                let amount = rng.part_of(pool.depth(token) * U256::from(2));
                for buying in [false, true] {
                    let (ours, theirs) = match buying {
                        false => (pool.sell(token, amount), mirrored.sell(snapshot.hash, pool, token, amount).await),
                        true => (pool.buy(token, amount), mirrored.buy(snapshot.hash, pool, token, amount).await),
                    };
                    let Some(ours) = ours else {
                        // The chain takes as much of an input as it can; of an output it gives all or nothing.
                        assert!(!buying || theirs.is_none(), "{key:?} {token} {amount}");
                        continue;
                    };
                    let (theirs, crossed) = theirs.unwrap();
                    assert_eq!(ours, theirs, "{key:?} {token} {amount} buying {buying} round {round}");
                    compared.quotes += 1;
                    compared.crossed += crossed;
                    compared.most_crossed = compared.most_crossed.max(crossed);
                }
            }
        }
    }
    compared
}
