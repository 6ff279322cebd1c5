//! Bytecode: our contracts from the checked-in artifacts, everyone else's from the fetched packages.

use std::fs;
use std::path::Path;

use alloy_primitives::{Address, B256, Bytes, address, b256, keccak256};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::progress::Progress;
use crate::tools::{self, Cache};

pub(crate) const MULTICALL3: Address = address!("cA11bde05977b3631167028862bE2a173976CA11");
pub(crate) const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");
/// The contract that deploys by CREATE2: a salt and the code to deploy are its whole input. Every node of the local
/// network starts with it.
pub(crate) const DETERMINISTIC_DEPLOYER: Address = address!("4e59b44847b379578588920cA78FbF26c0B4956C");
/// The address where an OP-style chain prices the publishing of data.
pub(crate) const GAS_ORACLE: Address = address!("420000000000000000000000000000000000000F");

macro_rules! ours {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(pub(crate) const $name: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/artifacts/", $file, ".json"));)*
        /// All of our artifacts, for the key of a saved template.
        pub(crate) const ALL: &[&str] = &[$($name),*];
    };
}

ours! {
    DEPOSITORY = "Depository",
    ROUTER = "Router",
    APPROVAL_PROXY = "ApprovalProxy",
    SPEND_LIMITER = "SpendLimiter",
    DEPOSIT_ADDRESS_FACTORY = "DepositAddressFactory",
    USDC = "Usdc",
    USDT = "Usdt",
    DAI = "Dai",
    LONG_TAIL = "LongTail",
    PRICE_FEED = "PriceFeed",
    GAS_PRICE_ORACLE = "GasPriceOracle",
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    bytecode: Bytes,
    #[serde(default)]
    deployed_bytecode: Bytes,
}

/// Code to deploy, from the text of an artifact.
pub(crate) fn creation(artifact: &str) -> Result<Bytes> {
    Ok(serde_json::from_str::<Artifact>(artifact).context("an artifact without bytecode")?.bytecode)
}

/// Code as it stands on chain, from the text of an artifact.
pub(crate) fn runtime(artifact: &str) -> Result<Bytes> {
    Ok(serde_json::from_str::<Artifact>(artifact).context("an artifact without bytecode")?.deployed_bytecode)
}

/// The bytecode that comes from packages.
#[derive(Clone, Debug)]
pub(crate) struct ThirdParty {
    pub weth: Bytes,
    pub factory: Bytes,
    pub position_manager: Bytes,
    pub tick_lens: Bytes,
    pub swap_router: Bytes,
    pub quoter: Bytes,
    /// Runtime code; the rest is code to deploy.
    pub multicall3: Bytes,
    pub permit2: Bytes,
}

impl ThirdParty {
    /// Blocks on the first use of a package.
    pub(crate) fn load(cache: &Cache, progress: &Progress) -> Result<Self> {
        let [core, periphery, router, weth, viem, permit2] = cache.fetch_all(tools::CONTRACT_PACKAGES, progress)?;
        let read = |dir: &Path, file: &str| -> Result<Bytes> {
            let path = dir.join(file);
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            creation(&text).with_context(|| format!("in {}", path.display()))
        };
        Ok(Self {
            weth: read(&weth, "build/contracts/WETH9.json")?,
            factory: read(&core, "artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json")?,
            position_manager: read(
                &periphery,
                "artifacts/contracts/NonfungiblePositionManager.sol/NonfungiblePositionManager.json",
            )?,
            tick_lens: read(&periphery, "artifacts/contracts/lens/TickLens.sol/TickLens.json")?,
            swap_router: read(&router, "artifacts/contracts/SwapRouter02.sol/SwapRouter02.json")?,
            quoter: read(&router, "artifacts/contracts/lens/QuoterV2.sol/QuoterV2.json")?,
            multicall3: multicall3(&viem.join("_esm/constants/contracts.js"))?,
            permit2: known(read(&permit2, "dist/src/permit2.json")?, PERMIT2_CODE_HASH, "Permit2")?,
        })
    }
}

const PERMIT2_CODE_HASH: B256 = b256!("463331fa7a0d5f07488e42c37b461bb56a822145c161a821fbafe7d4e916b546");
const MULTICALL3_CODE_HASH: B256 = b256!("5a29a1eb2f59e45e4249b938c8192cac0d2bd32398e1afa03f302a867db692ea");

/// The constant is creation code whose constructor is a plain copy: the bytes behind the first INVALID are the
/// contract.
fn multicall3(path: &Path) -> Result<Bytes> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let code = text
        .split_once("multicall3Bytecode = '")
        .and_then(|(_, rest)| rest.split_once('\''))
        .and_then(|(hex, _)| hex.parse::<Bytes>().ok())
        .with_context(|| format!("no Multicall3 bytecode in {}", path.display()))?;
    let end_of_constructor = code.iter().position(|&byte| byte == 0xfe).context("malformed Multicall3 bytecode")?;
    known(code.slice(end_of_constructor + 1..), MULTICALL3_CODE_HASH, "Multicall3")
}

fn known(code: Bytes, hash: B256, name: &str) -> Result<Bytes> {
    let found = keccak256(&code);
    ensure!(found == hash, "the {name} code that was fetched is not the one known: its hash is {found}");
    Ok(code)
}
