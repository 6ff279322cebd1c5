//! Credits in USDC for another currency, at the market as it stood when the unit began.

use alloy::primitives::Address;
use domain::credit::CreditRate;
use domain::ids::ChainId;
use domain::ledger;
use domain::money::{Amount, OutOfRange, Price};
use market::{Snapshot, hedge};

use super::PayContext;

impl PayContext {
    /// The rate at which a balance is credited for this much of a currency: that of an exchange for USDC where balances
    /// live. Every credit that comes from another currency has it from here.
    ///
    /// None unless both chains are fresh, all their pools are read and feeds price both currencies: the credit waits.
    pub fn credit_rate(
        &self,
        chain: ChainId,
        currency: Address,
        amount: Amount,
    ) -> Result<Option<CreditRate>, OutOfRange> {
        let Some((handle, here)) = self.on(chain) else { return Ok(None) };
        let Some(currency) = handle.chain.token(currency) else { return Ok(None) };
        let Some((home, there)) = self.balances().and_then(|home| self.on(home.id())) else { return Ok(None) };
        let Some(usdc) = ledger::currency(&home.chain) else { return Ok(None) };
        if currency.id == usdc.id {
            // One asset is worth itself, whatever its price.
            let price = here.and_then(|snapshot| snapshot.price(currency.evm_address()).ok());
            let price = price.unwrap_or(Price::DOLLAR);
            return CreditRate::new((currency, price), (usdc, price), None, &self.terms).map(Some);
        }
        let (Some(here), Some(there)) = (whole(here), whole(there)) else { return Ok(None) };
        let prices = here.fed(currency.evm_address()).zip(there.fed(usdc.evm_address()));
        let Some((price, usdc_price)) = prices else { return Ok(None) };
        let pools = hedge((&handle.chain, currency, here), (&home.chain, usdc, there), amount);
        CreditRate::new((currency, price), (usdc, usdc_price), pools, &self.terms).map(Some)
    }
}

/// A snapshot that is fresh and knows its pools.
fn whole(snapshot: Option<&Snapshot>) -> Option<&Snapshot> {
    snapshot.filter(|snapshot| snapshot.check_age().is_ok() && snapshot.check_pools().is_ok())
}
