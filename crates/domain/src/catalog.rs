//! The chains and currencies this deployment serves: facts of configuration, the same for every reader.

use alloy_primitives::Address;

use crate::account::{Account, Vm};
use crate::ids::ChainId;
use crate::money::{Amount, UsdMicros};

/// The fee class of a currency: what a pair of them costs follows from both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Stable,
    Major,
    Minor,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Currency {
    pub chain: ChainId,
    pub address: Account,
    /// Equal for the same asset on different chains: `usdc`, `eth`.
    pub id: String,
    pub symbol: String,
    pub name: String,
    pub decimals: u8,
    pub class: Class,
    pub native: bool,
    pub logo_uri: String,
    /// The token refuses to change one non-zero allowance into another.
    pub resets_allowance: bool,
    /// The token's own domain for signatures, if it takes EIP-3009 authorizations.
    pub authorizations: Option<TokenDomain>,
    /// The solver takes it in and pays it out. Other currencies are traded on the chain's pools.
    pub held: bool,
    /// The amount that the solver likes to hold here; transfers that lead away from it cost more.
    pub target: Option<Amount>,
}

/// The name and version under which a token's holders sign typed data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenDomain {
    pub name: String,
    pub version: String,
}

impl Currency {
    /// The address by which contracts and our rows know it; zero for the native currency.
    pub fn evm_address(&self) -> Address {
        self.address.packed().unwrap_or(Address::ZERO)
    }
}

/// Gas of our own transactions. Fills are sent with a tenth more than their estimate, and charged for by that limit;
/// all else is sent with generous limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillGas {
    pub native_limit: u64,
    pub erc20_limit: u64,
    /// Estimates: native currency to a wallet, a token, and native currency through the router to a contract with code
    /// of its own.
    pub native_typical: u64,
    pub erc20_typical: u64,
    pub contract_typical: u64,
    /// A fill that trades or calls through the router; each pool it goes through comes on top.
    pub routed_typical: u64,
}

/// The confirmations that a deposit of at least this worth waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    pub from: UsdMicros,
    pub confirmations: u32,
}

/// Where a chain's pools are traded on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dex {
    pub swap_router: Address,
    /// The native currency as a token.
    pub wrapped: Address,
}

/// The public facts about a chain. Private node addresses are not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presentation {
    pub display_name: String,
    pub http_rpc_url: String,
    pub ws_rpc_url: String,
    pub explorer_url: String,
    pub explorer_name: String,
    pub icon_url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub id: ChainId,
    /// The protocol's name for the chain, hashed into orders: it never changes.
    pub name: String,
    pub vm: Vm,
    pub presentation: Presentation,
    pub native: Currency,
    /// ERC-20 currencies that can be transferred from here or to here.
    pub tokens: Vec<Currency>,
    pub depository: Address,
    pub router: Address,
    pub approval_proxy: Address,
    pub multicall3: Address,
    /// Where fillers spend the treasury's tokens through the router; without it they only transfer them.
    pub spend_limiter: Option<Address>,
    /// The factory whose deposit addresses bring their money into the depository; without it there are none.
    pub deposit_address_factory: Option<Address>,
    pub dex: Option<Dex>,
    pub block_time_millis: u64,
    /// Blocks that must stand on a deposit, its own included, before we pay against it.
    pub confirmations: u32,
    /// More of them for deposits worth more.
    pub tiers: Vec<Tier>,
    pub fill_gas: FillGas,
    /// Hidden from listings unless this id is asked for.
    pub private_id: Option<String>,
}

impl Chain {
    /// Whether an address is nobody, a contract of ours or a token: money sent there is lost or comes back as a riddle.
    pub fn cannot_receive(&self, who: Address) -> bool {
        [Address::ZERO, self.depository, self.router, self.approval_proxy, self.multicall3].contains(&who)
            || self.spend_limiter == Some(who)
            || self.deposit_address_factory == Some(who)
            || self.dex.is_some_and(|dex| dex.swap_router == who)
            || self.token(who).is_some()
    }

    /// The text of an account of this chain that a row holds in 20 bytes.
    pub fn account_text(&self, packed: Address) -> String {
        let account = Account::unpacked(self.vm, packed);
        account.map_or_else(|| format!("{packed:#x}"), |account| account.text().to_owned())
    }

    pub fn currencies(&self) -> impl Iterator<Item = &Currency> {
        std::iter::once(&self.native).chain(&self.tokens)
    }

    /// Blocks that must stand on a deposit of this worth.
    pub fn confirmations_for(&self, worth: UsdMicros) -> u32 {
        let tiers = self.tiers.iter().filter(|tier| tier.from <= worth).map(|tier| tier.confirmations);
        tiers.max().unwrap_or_default().max(self.confirmations)
    }

    /// The currencies that the solver takes in and pays out.
    pub fn held(&self) -> impl Iterator<Item = &Currency> {
        self.currencies().filter(|currency| currency.held)
    }

    pub fn currency(&self, address: &Account) -> Option<&Currency> {
        self.currencies().find(|currency| currency.address == *address)
    }

    pub fn token(&self, address: Address) -> Option<&Currency> {
        self.currencies().find(|currency| currency.address.packed() == Some(address))
    }

    /// The addresses of the listed tokens.
    pub fn token_addresses(&self) -> impl Iterator<Item = Address> {
        self.tokens.iter().filter_map(|token| token.address.evm())
    }

    /// True for the native currency as a token.
    pub fn wraps(&self, currency: &Currency) -> bool {
        let wrapped = self.dex.map(|dex| dex.wrapped);
        wrapped.is_some() && currency.address.evm() == wrapped
    }

    /// True if a feed is sure: a held currency has one, and the wrapped token has that of the native currency.
    pub fn is_fed(&self, currency: &Currency) -> bool {
        currency.held || self.wraps(currency)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Catalog {
    chains: Vec<Chain>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chain {0} is listed twice, by id or by name")]
pub struct ChainListedTwice(ChainId);

impl Catalog {
    pub fn new(chains: Vec<Chain>) -> Result<Self, ChainListedTwice> {
        for (at, chain) in chains.iter().enumerate() {
            if chains[..at].iter().any(|other| other.id == chain.id || other.name == chain.name) {
                return Err(ChainListedTwice(chain.id));
            }
        }
        Ok(Self { chains })
    }

    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    pub fn chain(&self, id: ChainId) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.id == id)
    }

    /// The machine behind a chain name: all that hashing an order needs to know of a chain.
    pub fn vm(&self, name: &str) -> Option<Vm> {
        self.chains.iter().find(|chain| chain.name == name).map(|chain| chain.vm)
    }
}
