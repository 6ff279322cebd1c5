//! A trader beside us who swaps, and puts liquidity in and out.

use alloy::primitives::aliases::{I24, U24};
use alloy::primitives::{Address, U160, U256};
use alloy::sol;
use alloy::sol_types::{SolCall, SolEvent};
use devnet::{Account, Chain};
use market::Pool;

sol! {
    interface SwapRouter {
        struct ExactInput {
            address tokenIn;
            address tokenOut;
            uint24 fee;
            address recipient;
            uint256 amountIn;
            uint256 amountOutMinimum;
            uint160 sqrtPriceLimitX96;
        }

        function exactInputSingle(ExactInput params) external payable returns (uint256 amountOut);
    }

    interface Token {
        function approve(address spender, uint256 amount) external returns (bool);
    }

    interface PositionManager {
        struct Mint {
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

        struct Decrease {
            uint256 tokenId;
            uint128 liquidity;
            uint256 amount0Min;
            uint256 amount1Min;
            uint256 deadline;
        }

        function mint(Mint params) external payable;
        function decreaseLiquidity(Decrease params) external payable;

        event IncreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1);
    }
}

pub(crate) struct Trader<'a> {
    chain: &'a Chain,
    account: Account,
}

pub(crate) struct Position {
    id: U256,
    liquidity: u128,
}

impl<'a> Trader<'a> {
    /// A trader rich in all tokens. The wrapped one is paid for in native currency.
    pub(crate) async fn new(chain: &'a Chain) -> Self {
        let account = chain.fresh_user().await.unwrap();
        chain.set_balance(account.address, U256::from(10).pow(U256::from(27))).await.unwrap();
        for token in chain.tokens.iter().filter(|token| token.symbol != "WETH") {
            let riches = U256::from(10).pow(U256::from(token.decimals + 10));
            chain.set_token_balance(token.address, account.address, riches).await.unwrap();
            for spender in [chain.contracts.swap_router, chain.contracts.position_manager] {
                let approve = Token::approveCall { spender, amount: U256::MAX };
                chain.call(account.private_key, token.address, &approve).await.unwrap();
            }
        }
        Self { chain, account }
    }

    /// Sells until the amount is used up or the price is reached; zero is no limit.
    pub(crate) async fn swap(&self, pool: &Pool, token: Address, amount: U256, limit: U256) {
        let params = SwapRouter::ExactInput {
            tokenIn: token,
            tokenOut: pool.other(token),
            fee: U24::from(pool.key().fee),
            recipient: self.account.address,
            amountIn: amount,
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::from(limit),
        };
        let call = SwapRouter::exactInputSingleCall { params };
        let value = self.value(token, amount);
        let router = self.chain.contracts.swap_router;
        self.chain.send(self.account.private_key, router, value, call.abi_encode().into()).await.unwrap();
    }

    pub(crate) async fn mint(&self, pool: &Pool, lower: i32, upper: i32, share: u64) -> Position {
        let key = pool.key();
        let part = |token| pool.depth(token) / U256::from(share);
        let params = PositionManager::Mint {
            token0: key.token0,
            token1: key.token1,
            fee: U24::from(key.fee),
            tickLower: I24::try_from(lower).unwrap(),
            tickUpper: I24::try_from(upper).unwrap(),
            amount0Desired: part(key.token0),
            amount1Desired: part(key.token1),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: self.account.address,
            deadline: U256::MAX,
        };
        let value = self.value(key.token0, part(key.token0)).max(self.value(key.token1, part(key.token1)));
        let call = PositionManager::mintCall { params };
        let manager = self.chain.contracts.position_manager;
        let receipt =
            self.chain.send(self.account.private_key, manager, value, call.abi_encode().into()).await.unwrap();
        let logs = receipt.inner.logs().iter();
        let mut minted = logs.filter_map(|log| PositionManager::IncreaseLiquidity::decode_log(&log.inner).ok());
        let minted = minted.next().unwrap();
        Position { id: minted.tokenId, liquidity: minted.liquidity }
    }

    pub(crate) async fn burn(&self, position: &Position, part: u128) {
        let params = PositionManager::Decrease {
            tokenId: position.id,
            liquidity: position.liquidity / part,
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            deadline: U256::MAX,
        };
        let call = PositionManager::decreaseLiquidityCall { params };
        self.chain.call(self.account.private_key, self.chain.contracts.position_manager, &call).await.unwrap();
    }

    fn value(&self, token: Address, amount: U256) -> U256 {
        if token == self.chain.contracts.weth { amount } else { U256::ZERO }
    }
}
