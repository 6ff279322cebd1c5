//! Shared helpers of the trade tests: a real DEX whose prices stand still while one test has its turn.

use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, Bytes, U256};
use alloy::rpc::types::TransactionReceipt;
use alloy::sol;
use devnet::{Account, Chain};
use domain::ids::{OrderId, RequestId};
use domain::swap::Path;
use evm::routed::Message;
use evm::steps::Entry;
use evm::swap::{Bound, Trade};
use evm::{Block, SeenDeposit, SentTx, calldata};
use tokio::sync::{Mutex, MutexGuard};

use crate::real::{chain, endpoint, fresh_id, nodes, watch};

sol! {
    interface Quoter {
        function quoteExactInput(bytes path, uint256 amountIn) external returns (
            uint256 amountOut, uint160[] sqrtPricesAfter, uint32[] ticksCrossed, uint256 gasEstimate
        );
        function quoteExactOutput(bytes path, uint256 amountOut) external returns (
            uint256 amountIn, uint160[] sqrtPricesAfter, uint32[] ticksCrossed, uint256 gasEstimate
        );
    }

    interface Positions {
        struct MintParams {
            address token0;
            address token1;
            uint24 fee;
            int24 tickLower;
            int24 tickUpper;
            uint256 amount0Desired;
            uint256 amount1Desired;
            uint256 amount0Min;
            uint256 amount1Min;
            address recipient;
            uint256 deadline;
        }

        function createAndInitializePoolIfNecessary(address token0, address token1, uint24 fee, uint160 sqrtPriceX96)
            external payable returns (address pool);
        function mint(MintParams params) external payable;
    }
}

pub(crate) const NATIVE: Address = Address::ZERO;

static TURN: Mutex<()> = Mutex::const_new(());

pub(crate) struct Rig {
    pub chain: &'static Chain,
    /// A user, or a filler.
    pub sender: Account,
    pub entry: Entry,
    pub order: OrderId,
    pub request: RequestId,
    _turn: MutexGuard<'static, ()>,
}

/// A path and what goes in and out of it: symbols with the fee between each two, ETH for the native currency.
pub(crate) struct Route {
    path: Path,
    native_in: bool,
    native_out: bool,
}

impl Rig {
    pub(crate) async fn open() -> Self {
        let turn = TURN.lock().await;
        let chain = chain("optimism").await;
        let contracts = &chain.contracts;
        Self {
            chain,
            sender: chain.fresh_user().await.unwrap(),
            entry: Entry {
                router: contracts.router,
                approval_proxy: contracts.approval_proxy,
                wrapped: contracts.weth,
            },
            order: OrderId(fresh_id()),
            request: RequestId(fresh_id()),
            _turn: turn,
        }
    }

    pub(crate) fn token(&self, symbol: &str) -> Address {
        self.chain.token(symbol).address
    }

    pub(crate) fn route(&self, symbols: &[&str], fees: &[u32]) -> Route {
        let token = |symbol: &&str| self.token(if *symbol == "ETH" { "WETH" } else { symbol });
        let path = match fees {
            [] => Path::wrapping(self.chain.contracts.weth),
            _ => Path::new(symbols.iter().map(token).collect(), fees.to_vec()).unwrap(),
        };
        Route { path, native_in: symbols[0] == "ETH", native_out: symbols[symbols.len() - 1] == "ETH" }
    }

    pub(crate) fn trade<'a>(&self, route: &'a Route, bound: Bound) -> Trade<'a> {
        let Route { path, native_in, native_out } = route;
        let (dex, wrapped) = (self.chain.contracts.swap_router, self.chain.contracts.weth);
        Trade { path, native_in: *native_in, native_out: *native_out, bound, dex, wrapped }
    }

    /// A trade of all that input, and its output to the unit.
    pub(crate) async fn sell<'a>(&self, route: &'a Route, input: U256) -> (Trade<'a>, U256) {
        let call = Quoter::quoteExactInputCall { path: packed(&route.path, false), amountIn: input };
        let output = match route.path.is_wrapping() {
            true => input,
            false => self.chain.read(self.chain.contracts.quoter, &call).await.unwrap().amountOut,
        };
        (self.trade(route, Bound::ExactInput { input, least_output: output }), output)
    }

    /// A trade for all that output which may cost a fiftieth more than it does, and its cost to the unit.
    pub(crate) async fn buy<'a>(&self, route: &'a Route, output: U256) -> (Trade<'a>, U256) {
        let call = Quoter::quoteExactOutputCall { path: packed(&route.path, true), amountOut: output };
        let input = match route.path.is_wrapping() {
            true => output,
            false => self.chain.read(self.chain.contracts.quoter, &call).await.unwrap().amountIn,
        };
        let most_input = input + input / U256::from(50);
        (self.trade(route, Bound::ExactOutput { output, most_input }), input)
    }

    /// A pool of the highest tier at a price of one, with that much of each token close to the price and none beyond.
    pub(crate) async fn open_shallow_pool(&self, one: Address, other: Address, amount: U256) -> Address {
        let (key, positions) = (self.sender.private_key, self.chain.contracts.position_manager);
        let (token0, token1) = (one.min(other), one.max(other));
        let fee = U24::from(10_000);
        for token in [token0, token1] {
            self.chain.set_token_balance(token, self.sender.address, amount * U256::from(100)).await.unwrap();
            let approve = calldata::approve(positions, amount);
            self.chain.send(key, token, U256::ZERO, approve).await.unwrap();
        }
        let create = Positions::createAndInitializePoolIfNecessaryCall {
            token0,
            token1,
            fee,
            sqrtPriceX96: U160::from(1_u128 << 96),
        };
        self.chain.call(key, positions, &create).await.unwrap();
        let params = Positions::MintParams {
            token0,
            token1,
            fee,
            tickLower: I24::try_from(-200).unwrap(),
            tickUpper: I24::try_from(200).unwrap(),
            amount0Desired: amount,
            amount1Desired: amount,
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: self.sender.address,
            deadline: U256::MAX,
        };
        self.chain.call(key, positions, &Positions::mintCall { params }).await.unwrap();
        self.chain.read(positions, &create).await.unwrap()
    }

    pub(crate) async fn approve_proxy(&self, symbol: &str, amount: U256) {
        let data = calldata::approve(self.entry.approval_proxy, amount);
        self.chain.send(self.sender.private_key, self.token(symbol), U256::ZERO, data).await.unwrap();
    }

    pub(crate) async fn send(&self, message: &Message) -> TransactionReceipt {
        self.try_send(message).await.unwrap()
    }

    /// Fails if the transaction would revert.
    pub(crate) async fn try_send(&self, message: &Message) -> Result<TransactionReceipt, String> {
        let Message { to, value, data } = message.clone();
        let sent = self.chain.send(self.sender.private_key, to, value, data).await;
        sent.map_err(|error| format!("{error:#}"))
    }

    pub(crate) async fn balance(&self, currency: Address, who: Address) -> U256 {
        self.chain.balance(currency, who).await.unwrap()
    }

    /// The sender's native balance as if gas were free.
    pub(crate) async fn native_before_gas(&self, receipts: &[&TransactionReceipt]) -> U256 {
        let gas =
            |receipt: &&TransactionReceipt| U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
        self.balance(NATIVE, self.sender.address).await + receipts.iter().map(gas).sum::<U256>()
    }

    async fn block(&self, receipt: &TransactionReceipt) -> Block {
        let nodes = nodes(self.chain, vec![endpoint(self.chain)]);
        let watch = watch(self.chain, [self.sender.address]);
        nodes.block_by_hash(receipt.block_hash.unwrap(), &watch).await.unwrap().expect("the block is there")
    }

    pub(crate) async fn only_deposit(&self, receipt: &TransactionReceipt) -> SeenDeposit {
        let mut deposits = self.block(receipt).await.deposits;
        deposits.retain(|deposit| deposit.tx == receipt.transaction_hash);
        let [deposit] = deposits.try_into().expect("one deposit");
        deposit
    }

    pub(crate) async fn evidence(&self, receipt: &TransactionReceipt) -> SentTx {
        let sent = self.block(receipt).await.sent;
        sent.into_iter().find(|sent| sent.hash == receipt.transaction_hash).expect("our transaction is among ours")
    }

    /// Funds left in a contract on the way belong to the next caller.
    pub(crate) async fn assert_nothing_is_left(&self) {
        let contracts = &self.chain.contracts;
        for place in [contracts.router, contracts.approval_proxy, contracts.spend_limiter, contracts.swap_router] {
            for currency in self.chain.tokens.iter().map(|token| token.address).chain([NATIVE]) {
                assert_eq!(self.balance(currency, place).await, U256::ZERO, "of {currency} at {place}");
            }
        }
    }

    /// An address nobody has used.
    pub(crate) fn stranger(&self) -> Address {
        Address::from_word(fresh_id())
    }
}

pub(crate) fn units(whole: u64, decimals: u32) -> U256 {
    U256::from(whole) * U256::from(10).pow(U256::from(decimals))
}

fn packed(path: &Path, backwards: bool) -> Bytes {
    let (mut tokens, mut fees) = (path.tokens().to_vec(), path.fees().to_vec());
    if backwards {
        tokens.reverse();
        fees.reverse();
    }
    let mut bytes = tokens[0].to_vec();
    for (token, fee) in tokens[1..].iter().zip(fees) {
        bytes.extend_from_slice(&fee.to_be_bytes()[1..]);
        bytes.extend_from_slice(token.as_slice());
    }
    bytes.into()
}
