//! One chain as it stood at one block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, U256};
use domain::ids::ChainId;
use domain::money::{Amount, Price};

use crate::pools::Pools;
use crate::watchlist::Feed;

/// The size of the sample whose data fee the chain is asked for.
pub(crate) const SAMPLE_BYTES: usize = 256;
/// The bytes of a signed transaction beside its calldata.
const SIGNED_BYTES: usize = 124;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarketError {
    #[error("chain {chain} has not been read yet")]
    NoSnapshot { chain: ChainId },
    #[error("chain {chain} has not produced a block we could read for {} seconds", age.as_secs())]
    Stale { chain: ChainId, age: Duration },
    #[error("the pools of chain {chain} have not been read yet")]
    NoPools { chain: ChainId },
    #[error("there is no current price for {currency} on chain {chain}")]
    NoPrice { chain: ChainId, currency: Address },
    #[error("nothing says what {currency} on chain {chain} is worth: it has no feed and no pool")]
    Unpriced { chain: ChainId, currency: Address },
}

/// An answer of a price feed and how old it was when the block was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    pub price: Price,
    pub age_secs: u64,
    pub max_age_secs: u64,
}

/// The treasury's balance of one token, and the part of it that each wallet may move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFunds {
    pub treasury: Amount,
    pub allowances: BTreeMap<Address, Amount>,
    /// The amount that the spend limiter may take from the treasury, and the part of it that each wallet may spend.
    pub spend_limiter: Amount,
    pub limits: BTreeMap<Address, Amount>,
}

#[derive(Clone, Debug)]
pub struct Snapshot {
    pub chain: ChainId,
    pub block: u64,
    pub hash: B256,
    /// Unix seconds of the block.
    pub time: u64,
    /// Wei per unit of gas.
    pub base_fee: u128,
    pub tip: u128,
    /// Wei that a fill's data costs on top of its gas, where the chain charges for data.
    pub data_fee: Amount,
    /// The feeds behind the prices.
    pub feeds: Arc<[Feed]>,
    /// By currency; zero is the native one.
    pub prices: BTreeMap<Address, Quoted>,
    /// Pool prices of tokens that have no feed, computed once for all readers.
    pub spots: BTreeMap<Address, Price>,
    /// Native balances of the wallets that pay.
    pub native: BTreeMap<Address, Amount>,
    /// The relayers' native currency, which is for gas alone.
    pub relayers: BTreeMap<Address, Amount>,
    pub tokens: BTreeMap<Address, TokenFunds>,
    /// The pools known exactly at this block; where none could be read at it, the pools as they were a moment ago.
    /// Shared with the snapshot before where nothing happened to them.
    pub pools: Arc<Pools>,
    /// The time it was asked for, by a monotonic clock: a node that answers late does not make it younger.
    pub received: Instant,
    pub max_age: Duration,
}

impl Snapshot {
    pub fn check_age(&self) -> Result<(), MarketError> {
        let age = self.received.elapsed();
        if age > self.max_age { Err(MarketError::Stale { chain: self.chain, age }) } else { Ok(()) }
    }

    /// An error unless every known pool was read at this block.
    pub fn check_pools(&self) -> Result<(), MarketError> {
        if self.pools.is_partial() { Err(MarketError::NoPools { chain: self.chain }) } else { Ok(()) }
    }

    /// The price by the currency's feed or, for a token without one, by its pools.
    pub fn price(&self, currency: Address) -> Result<Price, MarketError> {
        let price = self.feed(currency).or_else(|| self.spots.get(&currency).copied());
        let chain = self.chain;
        price.ok_or_else(|| match self.is_unpriced(currency) {
            true => MarketError::Unpriced { chain, currency },
            false => MarketError::NoPrice { chain, currency },
        })
    }

    pub(crate) fn feed(&self, currency: Address) -> Option<Price> {
        let quoted = self.prices.get(&currency)?;
        (quoted.age_secs <= quoted.max_age_secs).then_some(quoted.price)
    }

    /// True when a feed prices the currency now.
    pub fn has_feed(&self, currency: Address) -> bool {
        self.feed(currency).is_some()
    }

    /// The price of a unit of gas in a block like this one.
    pub fn gas_price(&self) -> u128 {
        self.base_fee.saturating_add(self.tip)
    }

    /// The cost of a transaction that uses this much gas, with no more data than a token transfer has.
    pub fn cost(&self, gas: u64) -> Amount {
        self.cost_with_data(gas, 0)
    }

    /// The same with this many bytes of calldata.
    pub fn cost_with_data(&self, gas: u64, calldata: usize) -> Amount {
        let gas = U256::from(self.gas_price()).saturating_mul(U256::from(gas));
        Amount::new(gas.saturating_add(self.data_fee_of(calldata).units()))
    }

    /// The data fee of a transaction with this many bytes of calldata: in proportion to the chain's answer for the
    /// sample, which compresses worse than calldata does.
    pub fn data_fee_of(&self, calldata: usize) -> Amount {
        let bytes = U256::from(calldata.saturating_add(SIGNED_BYTES).max(SAMPLE_BYTES));
        let fee = self.data_fee.units().saturating_mul(bytes);
        Amount::new(fee.div_ceil(U256::from(SAMPLE_BYTES)))
    }

    /// The fee cap for a transaction to be mined soon: three times the base fee, and the tip.
    pub fn max_fee(&self) -> u128 {
        self.base_fee.saturating_mul(3).saturating_add(self.tip)
    }

    /// The most that one payment can pay out in a currency. A native payment comes from one wallet alone, which also
    /// needs gas for all the payments it may have under way.
    pub fn payable(&self, currency: Address, gas_reserve: u64) -> Amount {
        if currency == Address::ZERO {
            let gas = U256::from(self.max_fee()).saturating_mul(U256::from(gas_reserve));
            let reserve = gas.saturating_add(self.data_fee.units());
            let richest = self.native.values().max().copied().unwrap_or_default();
            return richest.saturating_sub(Amount::new(reserve));
        }
        let Some(funds) = self.tokens.get(&currency) else { return Amount::ZERO };
        let widest = funds.allowances.values().max().copied().unwrap_or_default();
        funds.treasury.min(widest)
    }

    /// The same for tokens that are spent through the spend limiter.
    pub fn payable_through_spend_limiter(&self, token: Address) -> Amount {
        let Some(funds) = self.tokens.get(&token) else { return Amount::ZERO };
        let widest = funds.limits.values().max().copied().unwrap_or_default();
        funds.treasury.min(funds.spend_limiter).min(widest)
    }

    /// The solver's whole balance of a currency.
    pub fn held(&self, currency: Address) -> Amount {
        if currency == Address::ZERO {
            let sum = self.native.values().fold(U256::ZERO, |sum, held| sum.saturating_add(held.units()));
            return Amount::new(sum);
        }
        self.tokens.get(&currency).map(|funds| funds.treasury).unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn snapshot() -> Snapshot {
        Snapshot {
            chain: ChainId(1),
            block: 1,
            hash: B256::ZERO,
            time: 1_000,
            base_fee: 100,
            tip: 10,
            data_fee: Amount::ZERO,
            feeds: Arc::new([]),
            prices: BTreeMap::new(),
            spots: BTreeMap::new(),
            native: BTreeMap::new(),
            relayers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            pools: Arc::default(),
            received: Instant::now(),
            max_age: Duration::from_secs(30),
        }
    }

    fn amount(units: u64) -> Amount {
        Amount::new(U256::from(units))
    }

    #[test]
    fn long_calldata_costs_more_where_data_is_charged_for() {
        let mut snapshot = snapshot();
        assert_eq!(snapshot.cost_with_data(10, 100_000), amount(1_100), "only gas");
        snapshot.data_fee = amount(1_000);
        // The sample is the size of a token transfer; anything shorter costs as much.
        assert_eq!((snapshot.cost(10), snapshot.cost_with_data(10, 132)), (amount(2_100), amount(2_100)));
        assert_eq!(snapshot.data_fee_of(10 * SAMPLE_BYTES - SIGNED_BYTES), amount(10_000));
        assert_eq!(snapshot.data_fee_of(SAMPLE_BYTES - SIGNED_BYTES + 1), amount(1_004), "the fraction is charged");
    }

    #[test]
    fn a_native_promise_is_what_one_wallet_can_pay_after_gas() {
        let mut snapshot = snapshot();
        snapshot.native =
            [(Address::repeat_byte(1), amount(1_000_000)), (Address::repeat_byte(2), amount(900_000))].into();
        assert_eq!(snapshot.payable(Address::ZERO, 1_000), amount(1_000_000 - 310 * 1_000));
        assert_eq!(snapshot.payable(Address::ZERO, u64::MAX), Amount::ZERO);
    }

    #[test]
    fn a_token_promise_is_bounded_by_allowance_and_treasury() {
        let token = Address::repeat_byte(9);
        let mut snapshot = snapshot();
        let allowances = [(Address::repeat_byte(1), amount(50)), (Address::repeat_byte(2), amount(70))].into();
        snapshot.tokens.insert(token, TokenFunds { treasury: amount(60), allowances, ..TokenFunds::default() });
        assert_eq!(snapshot.payable(token, 0), amount(60));
        assert_eq!(snapshot.payable(Address::repeat_byte(8), 0), Amount::ZERO);
    }

    #[test]
    fn an_old_price_is_no_price() {
        let mut snapshot = snapshot();
        let price = Price::new(1, 0).unwrap();
        snapshot.prices.insert(Address::ZERO, Quoted { price, age_secs: 11, max_age_secs: 10 });
        assert!(matches!(snapshot.price(Address::ZERO), Err(MarketError::NoPrice { .. })));
        snapshot.prices.insert(Address::ZERO, Quoted { price, age_secs: 10, max_age_secs: 10 });
        assert_eq!(snapshot.price(Address::ZERO), Ok(price));
    }

    #[test]
    fn a_snapshot_grows_stale_by_our_own_clock() {
        let mut snapshot = snapshot();
        assert!(snapshot.check_age().is_ok());
        snapshot.max_age = Duration::ZERO;
        assert!(matches!(snapshot.check_age(), Err(MarketError::Stale { .. })));
    }
}
