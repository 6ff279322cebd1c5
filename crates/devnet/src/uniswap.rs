//! A real Uniswap V3 with pools that agree with the feeds.

use alloy::sol;
use alloy::sol_types::SolValue;
use alloy_primitives::aliases::{I24, U24};
use alloy_primitives::{Address, U160, U256, Uint};
use anyhow::{Context, Result};

use crate::artifacts::ThirdParty;
use crate::keys::Account;
use crate::stage::Stage;
use crate::tokens::{Erc20, Token, ether, units};

sol! {
    interface Factory {
        function enableFeeAmount(uint24 fee, int24 tickSpacing) external;
        function getPool(address tokenA, address tokenB, uint24 fee) external view returns (address pool);
    }

    interface Pool {
        function slot0()
            external
            view
            returns (
                uint160 sqrtPriceX96,
                int24 tick,
                uint16 observationIndex,
                uint16 observationCardinality,
                uint16 observationCardinalityNext,
                uint8 feeProtocol,
                bool unlocked
            );
    }

    interface PositionManager {
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
            external
            payable
            returns (address pool);
        function mint(MintParams calldata params)
            external
            payable
            returns (uint256 tokenId, uint128 liquidity, uint256 amount0, uint256 amount1);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dex {
    pub factory: Address,
    pub position_manager: Address,
    pub swap_router: Address,
    pub quoter: Address,
    pub tick_lens: Address,
}

/// One pool: that much of `a` is worth that much of `b`, in whole tokens, and each side is given that amount.
struct Plan {
    a: (&'static str, u64),
    b: (&'static str, u64),
    fee: u32,
    spacing: i32,
}

/// TAIL stands at 0.02 USD and has little liquidity; the other pools are deep enough that a test hardly moves them.
const POOLS: [Plan; 5] = [
    Plan { a: ("WETH", 5_000), b: ("USDC", 15_000_000), fee: 500, spacing: 10 },
    Plan { a: ("WETH", 2_000), b: ("USDC", 6_000_000), fee: 3000, spacing: 60 },
    Plan { a: ("USDC", 10_000_000), b: ("USDT", 10_000_000), fee: 100, spacing: 1 },
    Plan { a: ("USDC", 10_000_000), b: ("DAI", 10_000_000), fee: 100, spacing: 1 },
    Plan { a: ("WETH", 50), b: ("TAIL", 7_500_000), fee: 3000, spacing: 60 },
];

/// The reach of positions on either side of the price, in tick spacings. The widest reaches the ends of the range, so
/// that a quote never runs dry; the uneven ones give a swap ticks to cross.
const REACHES: [(i32, i32); 4] = [(20, 20), (5, 60), (60, 7), (200, 200)];
const MAX_TICK: i32 = 887_272;

/// Stages the deployment; the contracts exist once the stage is mined.
pub(crate) fn deploy(stage: &mut Stage<'_>, deployer: &Account, weth: Address, code: &ThirdParty) -> Result<Dex> {
    let factory = stage.create(deployer, code.factory.clone(), vec![])?;
    // The descriptor only draws pictures of positions.
    let args = (factory, weth, Address::ZERO).abi_encode();
    let position_manager = stage.create(deployer, code.position_manager.clone(), args)?;
    // There is no V2 here; the router only asks it for V2 swaps.
    let args = (Address::ZERO, factory, position_manager, weth).abi_encode();
    let swap_router = stage.create(deployer, code.swap_router.clone(), args)?;
    let quoter = stage.create(deployer, code.quoter.clone(), (factory, weth).abi_encode())?;
    let tick_lens = stage.create(deployer, code.tick_lens.clone(), vec![])?;
    // On the real DEX, the 0.01% tier was added by a vote.
    stage.call(deployer, factory, &Factory::enableFeeAmountCall { fee: U24::from(100), tickSpacing: I24::ONE })?;
    Ok(Dex { factory, position_manager, swap_router, quoter, tick_lens })
}

/// Creates the pools at the prices of the feeds and fills them from freshly minted tokens.
pub(crate) async fn open_pools(stage: &mut Stage<'_>, deployer: &Account, dex: &Dex, tokens: &[Token]) -> Result<()> {
    for token in tokens {
        if token.symbol == "WETH" {
            let deposit = alloy::sol_types::SolCall::abi_encode(&Erc20::depositCall {});
            stage.send(deployer, token.address.into(), ether(100_000), deposit.into())?;
        } else {
            let value = units(1_000_000_000, token.decimals);
            stage.call(deployer, token.address, &Erc20::mintCall { to: deployer.address, value })?;
        }
        let approve = Erc20::approveCall { spender: dex.position_manager, value: U256::MAX };
        stage.call(deployer, token.address, &approve)?;
    }
    let mut pools = vec![];
    for plan in &POOLS {
        let side = |(symbol, n): (&str, u64)| {
            let token = tokens.iter().find(|t| t.symbol == symbol);
            token.map(|t| (t.address, units(n, t.decimals))).with_context(|| format!("no token {symbol}"))
        };
        let mut sides = [side(plan.a)?, side(plan.b)?];
        sides.sort();
        let [(token0, amount0), (token1, amount1)] = sides;
        let fee = U24::from(plan.fee);
        let sqrt_price = sqrt_price_x96(amount0, amount1);
        let create =
            PositionManager::createAndInitializePoolIfNecessaryCall { token0, token1, fee, sqrtPriceX96: sqrt_price };
        stage.call(deployer, dex.position_manager, &create)?;
        pools.push((plan, sides));
    }
    stage.mine().await?;
    for (plan, [(token0, amount0), (token1, amount1)]) in pools {
        let fee = U24::from(plan.fee);
        let pool = stage.read(dex.factory, &Factory::getPoolCall { tokenA: token0, tokenB: token1, fee }).await?;
        let tick = stage.read(pool, &Pool::slot0Call {}).await?.tick.as_i32();
        let middle = tick.div_euclid(plan.spacing) * plan.spacing;
        let widest = MAX_TICK / plan.spacing * plan.spacing;
        let reaches = REACHES.map(|(below, above)| (middle - below * plan.spacing, middle + above * plan.spacing));
        for (lower, upper) in reaches.into_iter().chain([(-widest, widest)]) {
            let share = U256::from(REACHES.len() + 1);
            let params = PositionManager::MintParams {
                token0,
                token1,
                fee,
                tickLower: I24::try_from(lower)?,
                tickUpper: I24::try_from(upper)?,
                amount0Desired: amount0 / share,
                amount1Desired: amount1 / share,
                amount0Min: U256::ZERO,
                amount1Min: U256::ZERO,
                recipient: deployer.address,
                deadline: U256::MAX,
            };
            stage.call(deployer, dex.position_manager, &PositionManager::mintCall { params })?;
        }
    }
    stage.mine().await
}

/// The square root of `amount1 / amount0` with 96 binary places.
fn sqrt_price_x96(amount0: U256, amount1: U256) -> U160 {
    type Wide = Uint<512, 8>;
    let ratio: Wide = (Wide::from(amount1) << 192) / Wide::from(amount0);
    U160::from(ratio.root(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_of_equal_amounts_is_one() {
        assert_eq!(sqrt_price_x96(U256::from(7), U256::from(7)), U160::from(1_u128 << 96));
        assert_eq!(sqrt_price_x96(U256::from(1), U256::from(4)), U160::from(2_u128 << 96));
    }
}
