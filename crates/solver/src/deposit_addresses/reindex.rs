//! The search for money at an address that nobody told of: on another chain, or in another currency.

use std::sync::Arc;

use alloy::primitives::{Address, B256};
use domain::catalog::Currency;
use domain::ids::ChainId;
use domain::money::Amount;
use evm::At;
use store::arrivals::{self, Place};
use store::blocks::Cursor;
use store::deposit_addresses::{self, DepositAddress, Search};
use store::{StoreError, Tx};

use crate::deposit_addresses::balances::{known_block, note_found};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// A caller has an address searched on a chain again only after this time.
pub const REINDEX_PAUSE_MILLIS: i64 = 60_000;

#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub address: Address,
    /// The chain that the address was given out for.
    pub chain: ChainId,
    /// The chain to search.
    pub target: ChainId,
    /// The only currency to search for.
    pub currency: Option<Address>,
    /// The name of whoever asks.
    pub caller: B256,
}

#[derive(Clone, Debug)]
pub struct Found {
    pub currency: Currency,
    pub balance: Amount,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub found: Vec<Found>,
    pub checked: usize,
    pub failed: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum ReindexError {
    #[error("no deposit address of this chain")]
    UnknownAddress,
    #[error("the address is not the same there")]
    OtherAddress,
    #[error("not a currency that can be deposited there")]
    InvalidCurrency,
    #[error("the address was searched a short while ago")]
    TooSoon,
    #[error("the nodes of the chain cannot be asked at the moment")]
    NodesFailed,
    #[error("store")]
    Store(#[from] StoreError),
}

impl From<SolverError> for ReindexError {
    fn from(error: SolverError) -> Self {
        match error {
            SolverError::Store(error) => Self::Store(error),
            _ => Self::NodesFailed,
        }
    }
}

/// Searches addresses for callers.
#[derive(Clone, Debug)]
pub struct Reindexer(pub Arc<Solver>);

impl Reindexer {
    pub async fn reindex(&self, wish: Wish) -> Result<Report, ReindexError> {
        let solver = &self.0;
        let read = move |tx: &mut Tx<'_>| match deposit_addresses::find(tx, wish.address)? {
            Some(given) => Ok::<_, StoreError>(Some(given)),
            None => deposit_addresses::forgotten(tx, wish.address),
        };
        let given = solver.store.read(read).await?;
        let given = given.filter(|given| given.chain == wish.chain).ok_or(ReindexError::UnknownAddress)?;
        let factory = |chain: &ChainId| solver.chains.get(chain).and_then(|it| it.chain.deposit_address_factory);
        let handle = solver.chains.get(&wish.target).ok_or(ReindexError::OtherAddress)?;
        if factory(&wish.target).is_none() || factory(&wish.target) != factory(&wish.chain) {
            return Err(ReindexError::OtherAddress);
        }
        let currencies: Vec<Currency> = handle
            .chain
            .currencies()
            .filter(|currency| currency.held && wish.currency.is_none_or(|only| currency.address.evm() == Some(only)))
            .cloned()
            .collect();
        if currencies.is_empty() {
            return Err(ReindexError::InvalidCurrency);
        }
        let (now, watch) = (solver.now(), solver.terms.deposit_addresses.watch);
        let search = Search { address: wish.address, chain: wish.target, caller: wish.caller };
        let unit = move |tx: &mut Tx<'_>| {
            // Whoever asks still expects something.
            let taken = deposit_addresses::reindex(tx, search, now, REINDEX_PAUSE_MILLIS)?;
            if taken {
                deposit_addresses::watch_until(tx, search.address, now.plus(watch))?;
            }
            Ok::<_, StoreError>(taken)
        };
        if !solver.store.write(unit).await? {
            return Err(ReindexError::TooSoon);
        }
        let report = self.look(handle, given, currencies).await?;
        // The worker sweeps what was found.
        solver.store.wake().await?;
        Ok(report)
    }

    async fn look(
        &self,
        handle: &Arc<ChainHandle>,
        given: DepositAddress,
        currencies: Vec<Currency>,
    ) -> Result<Report, ReindexError> {
        let (solver, chain) = (&self.0, handle.id());
        let walk = solver.store.read(move |tx| known_block(tx, chain)).await?.ok_or(ReindexError::NodesFailed)?;
        let asked: Vec<(Address, Address)> =
            currencies.iter().map(|currency| (given.address, currency.evm_address())).collect();
        let balances = handle.nodes.seconded_balances(handle.chain.multicall3, &asked, At::Hash(walk.hash)).await;
        let balances = balances.map_err(|_| ReindexError::NodesFailed)?;
        let mut report = Report { checked: currencies.len(), ..Report::default() };
        for (currency, balance) in currencies.into_iter().zip(balances) {
            match balance.map(Amount::new) {
                None => report.failed += 1,
                Some(balance) if balance.is_zero() => {}
                Some(balance) => {
                    self.note(handle, walk, given.clone(), currency.evm_address(), balance).await?;
                    report.found.push(Found { currency, balance });
                }
            }
        }
        Ok(report)
    }

    async fn note(
        &self,
        handle: &Arc<ChainHandle>,
        walk: Cursor,
        given: DepositAddress,
        currency: Address,
        balance: Amount,
    ) -> Result<(), ReindexError> {
        let (handle, context) = (handle.clone(), self.0.context());
        let unit = move |tx: &mut Tx<'_>| {
            note_found(tx, &handle, walk, &given, currency, balance.units(), &context)?;
            // A balance that was left where it is gets another chance.
            let place = Place { address: given.address, currency };
            Ok::<_, SolverError>(arrivals::postpone(tx, handle.id(), place, context.now)?)
        };
        Ok(self.0.store.write(unit).await?)
    }
}
