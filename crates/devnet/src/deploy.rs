//! The deployment of a new chain: contracts, tokens, feeds, pools and funds.
//!
//! Every chain gets the same transactions from the same accounts in the same order, so addresses are equal on all of
//! them.

use alloy::sol;
use alloy::sol_types::{SolCall, SolConstructor, SolValue};
use alloy_primitives::{Address, Bytes, I256, TxKind, U256};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::artifacts::{self, ThirdParty};
use crate::keys::{Account, Keys};
use crate::networks;
use crate::rpc::Rpc;
use crate::stage::{Deterministic, Stage};
use crate::tokens::{Erc20, Token, ether, units};
use crate::uniswap;

sol! {
    interface Guarded {
        function setGuardian(address guardian) external;
    }

    interface SpendLimiter {
        function setLimit(address filler, address token, uint256 amount) external;
    }

    interface DepositAddressFactory {
        function setOperator(address operator, bool allowed) external;
    }

    interface DataFees {
        function setL1Fee(uint256 l1BaseFee, uint256 blobBaseFee, uint32 baseFeeScalar, uint32 blobBaseFeeScalar)
            external;
    }

    contract Feed {
        constructor(address owner, uint8 decimals, string memory description, int256 answer);
        function setAnswer(int256 answer) external;
        function setFrozenAt(uint256 timestamp) external;
    }
}

/// The addresses of the contracts on a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contracts {
    pub depository: Address,
    pub router: Address,
    pub approval_proxy: Address,
    pub spend_limiter: Address,
    pub deposit_address_factory: Address,
    pub multicall3: Address,
    pub permit2: Address,
    pub weth: Address,
    pub uniswap_factory: Address,
    pub position_manager: Address,
    pub swap_router: Address,
    pub quoter: Address,
    pub tick_lens: Address,
    /// Only where the chain charges for publishing data.
    pub gas_oracle: Option<Address>,
}

/// The facts of a deployed chain, kept beside its saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deployment {
    pub contracts: Contracts,
    pub tokens: Vec<Token>,
    pub native_feed: Address,
    /// The last block of the deployment: nothing of interest happened before it.
    pub start_block: u64,
}

/// Answers of the feeds, with 8 decimals.
pub(crate) const ETH_USD: i64 = 3000_0000_0000;
const STABLE_USD: i64 = 1_0000_0000;

/// The native balance of the deployer and the treasury: the WETH of the DEX and of users comes from it, and so do
/// native balances.
const MILLION_ETHER: U256 = ether(1_000_000);
const FILLER_ETHER: U256 = ether(100);
const USER_ETHER: U256 = ether(10_000);

pub(crate) async fn deploy(rpc: &Rpc, chain_id: u64, keys: &Keys, third_party: &ThirdParty) -> Result<Deployment> {
    let mut stage = Stage::new(rpc, chain_id);
    let deployer = &keys.deployer;
    for (account, balance) in funds(keys) {
        rpc.call::<Value>("anvil_setBalance", (account, balance)).await?;
    }
    set_code(rpc, artifacts::MULTICALL3, &third_party.multicall3).await?;
    set_code(rpc, artifacts::PERMIT2, &third_party.permit2).await?;

    // Our contracts come first: their addresses stay put when anything else in the deployment changes.
    let ours = stage_ours(&mut stage, keys)?;
    let (native_feed, tokens) = stage_tokens(&mut stage, deployer, third_party)?;
    let weth = tokens[0].address;
    let dex = uniswap::deploy(&mut stage, deployer, weth, third_party)?;
    fund(&mut stage, keys, &tokens, ours.spend_limiter)?;
    let gas_oracle = stage_gas_oracle(&mut stage, deployer, chain_id).await?;
    stage.mine().await.context("deploying the contracts")?;
    uniswap::open_pools(&mut stage, deployer, &dex, &tokens).await.context("opening the pools")?;

    let start_block: U256 = rpc.call("eth_blockNumber", json!([])).await?;
    let contracts = Contracts {
        depository: ours.depository,
        router: ours.router,
        approval_proxy: ours.approval_proxy,
        spend_limiter: ours.spend_limiter,
        deposit_address_factory: ours.deposit_address_factory,
        multicall3: artifacts::MULTICALL3,
        permit2: artifacts::PERMIT2,
        weth,
        uniswap_factory: dex.factory,
        position_manager: dex.position_manager,
        swap_router: dex.swap_router,
        quoter: dex.quoter,
        tick_lens: dex.tick_lens,
        gas_oracle,
    };
    Ok(Deployment { contracts, tokens, native_feed, start_block: start_block.to() })
}

async fn set_code(rpc: &Rpc, address: Address, code: &Bytes) -> Result<Value> {
    rpc.call("anvil_setCode", (address, code)).await
}

/// The contracts of this repository.
struct Ours {
    depository: Address,
    router: Address,
    approval_proxy: Address,
    spend_limiter: Address,
    deposit_address_factory: Address,
}

fn stage_ours(stage: &mut Stage<'_>, keys: &Keys) -> Result<Ours> {
    let deployer = &keys.deployer;
    let depository = stage.create(
        deployer,
        artifacts::creation(artifacts::DEPOSITORY)?,
        (keys.owner.address, keys.allocator.address).abi_encode(),
    )?;
    let router = stage.create(deployer, artifacts::creation(artifacts::ROUTER)?, vec![])?;
    let approval_proxy = stage.create(
        deployer,
        artifacts::creation(artifacts::APPROVAL_PROXY)?,
        (keys.owner.address, router, artifacts::PERMIT2).abi_encode(),
    )?;
    let spend_limiter = stage.create(deployer, artifacts::creation(artifacts::SPEND_LIMITER)?, router.abi_encode())?;
    stage.call(&keys.owner, depository, &Guarded::setGuardianCall { guardian: keys.guardian.address })?;
    let deposit_address_factory = stage_factory(stage, keys, depository)?;
    Ok(Ours { depository, router, approval_proxy, spend_limiter, deposit_address_factory })
}

/// The deployment of a factory of deposit addresses for a depository.
pub fn deposit_address_factory(owner: Address, depository: Address) -> Result<Deterministic> {
    let code = artifacts::creation(artifacts::DEPOSIT_ADDRESS_FACTORY)?;
    Ok(Deterministic::new(&code, &(owner, depository).abi_encode()))
}

/// The factory of deposit addresses, deployed as on a real chain: its address stands for its arguments. Every filler
/// may sweep.
fn stage_factory(stage: &mut Stage<'_>, keys: &Keys, depository: Address) -> Result<Address> {
    let factory = deposit_address_factory(keys.owner.address, depository)?;
    stage.send(&keys.owner, TxKind::Call(factory.deployer), U256::ZERO, factory.input)?;
    let factory = factory.address;
    for filler in &keys.fillers {
        let call = DepositAddressFactory::setOperatorCall { operator: filler.address, allowed: true };
        stage.call(&keys.owner, factory, &call)?;
    }
    Ok(factory)
}

/// The feed of the native currency and the tokens with theirs, WETH first.
fn stage_tokens(stage: &mut Stage<'_>, deployer: &Account, third_party: &ThirdParty) -> Result<(Address, Vec<Token>)> {
    let native_feed = stage_feed(stage, deployer, "ETH / USD", ETH_USD)?;
    let weth = stage.create(deployer, third_party.weth.clone(), vec![])?;
    let mut tokens = vec![Token {
        symbol: "WETH".into(),
        name: "Wrapped Ether".into(),
        address: weth,
        decimals: 18,
        feed: Some(native_feed),
    }];
    for (artifact, symbol, name, decimals) in [
        (artifacts::USDC, "USDC", "USD Coin", 6),
        (artifacts::USDT, "USDT", "Tether USD", 6),
        (artifacts::DAI, "DAI", "Dai Stablecoin", 18),
        (artifacts::LONG_TAIL, "TAIL", "Long Tail", 18),
    ] {
        let address = stage.create(deployer, artifacts::creation(artifact)?, deployer.address.abi_encode())?;
        let feed = match symbol {
            "TAIL" => None,
            _ => Some(stage_feed(stage, deployer, &format!("{symbol} / USD"), STABLE_USD)?),
        };
        tokens.push(Token { symbol: symbol.into(), name: name.into(), address, decimals, feed });
    }
    Ok((native_feed, tokens))
}

fn stage_feed(stage: &mut Stage<'_>, deployer: &Account, description: &str, answer: i64) -> Result<Address> {
    let args = Feed::constructorCall {
        owner: deployer.address,
        decimals: 8,
        description: description.to_owned(),
        answer: I256::try_from(answer)?,
    };
    stage.create(deployer, artifacts::creation(artifacts::PRICE_FEED)?, args.abi_encode())
}

/// The oracle for the price of data, on chains that charge for it.
async fn stage_gas_oracle(stage: &mut Stage<'_>, deployer: &Account, chain_id: u64) -> Result<Option<Address>> {
    if !matches!(chain_id, networks::BASE | networks::OPTIMISM) {
        // Chains without the oracle send the same number of transactions, which keeps later addresses equal.
        stage.send(deployer, TxKind::Call(deployer.address), U256::ZERO, Bytes::new())?;
        return Ok(None);
    }
    set_code(stage.rpc, artifacts::GAS_ORACLE, &artifacts::runtime(artifacts::GAS_PRICE_ORACLE)?).await?;
    // About the price of the real chains: a few tenths of a cent for a transfer.
    let fees = DataFees::setL1FeeCall {
        l1BaseFee: U256::from(2_000_000_000_u64),
        blobBaseFee: U256::from(1_000_000_000_u64),
        baseFeeScalar: 5227,
        blobBaseFeeScalar: 1_014_213,
    };
    stage.call(deployer, artifacts::GAS_ORACLE, &fees)?;
    Ok(Some(artifacts::GAS_ORACLE))
}

fn funds(keys: &Keys) -> impl Iterator<Item = (Address, U256)> {
    let rich = [&keys.deployer, &keys.treasury].map(|a| (a.address, MILLION_ETHER));
    let roles = [&keys.owner, &keys.allocator, &keys.guardian].into_iter().chain(&keys.fillers);
    let users = keys.users.iter().map(|a| (a.address, USER_ETHER));
    let relayer = (keys.orders.relayer().address, FILLER_ETHER);
    rich.into_iter().chain(roles.map(|a| (a.address, FILLER_ETHER))).chain([relayer]).chain(users)
}

/// Tokens for the users and the solver, and the amount that each filler may draw from the treasury: directly, and as
/// much again through the spend limiter.
fn fund(stage: &mut Stage<'_>, keys: &Keys, tokens: &[Token], spend_limiter: Address) -> Result<()> {
    let fillers = u64::try_from(keys.fillers.len())?;
    for token in tokens {
        let (for_treasury, per_filler, per_user) = match token.symbol.as_str() {
            "WETH" => (10_000, 1_000, 100),
            "TAIL" => (0, 0, 1_000_000),
            _ => (50_000_000, 5_000_000, 100_000),
        };
        let amount = |n| units(n, token.decimals);
        let treasury = &keys.treasury;
        if token.symbol == "WETH" {
            // Nobody mints WETH: the treasury wraps for all.
            let users = u64::try_from(keys.users.len())?;
            let data = Erc20::depositCall {}.abi_encode();
            stage.send(treasury, TxKind::Call(token.address), amount(for_treasury + per_user * users), data.into())?;
            for user in &keys.users {
                let (to, value) = (user.address, amount(per_user));
                stage.call(treasury, token.address, &Erc20::transferCall { to, value })?;
            }
        } else {
            let users = keys.users.iter().map(|user| (user.address, per_user));
            for (to, n) in users.chain([(treasury.address, for_treasury)]).filter(|(_, n)| *n > 0) {
                stage.call(&keys.deployer, token.address, &Erc20::mintCall { to, value: amount(n) })?;
            }
        }
        if per_filler == 0 {
            continue;
        }
        stage.call(
            treasury,
            token.address,
            &Erc20::approveCall { spender: spend_limiter, value: amount(per_filler * fillers) },
        )?;
        for filler in &keys.fillers {
            let (filler, value) = (filler.address, amount(per_filler));
            stage.call(treasury, token.address, &Erc20::approveCall { spender: filler, value })?;
            stage.call(
                treasury,
                spend_limiter,
                &SpendLimiter::setLimitCall { filler, token: token.address, amount: value },
            )?;
        }
    }
    Ok(())
}
