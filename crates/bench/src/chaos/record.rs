//! Balances and prices as the run goes on: a local chain forgets its older states.
//!
//! Blocks are read once no reorg can reach them. Those who are followed are read at each change of the price, the many
//! users only at the beginning and at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy::primitives::Address;
use anyhow::{Context, Result};
use devnet::Chain;
use tokio::sync::watch;

use super::api::Api;
use super::faults::MAX_REORG_DEPTH;
use super::market::{History, Market};
use super::worth::{Change, Holding, Party, holdings};

const READ_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Record<'a> {
    chains: &'a [Chain],
    api: &'a Api,
    market: &'a Market<'a>,
    users: Vec<Party>,
    followed: Vec<Party>,
    changes: Vec<Change>,
    /// App balances at the beginning.
    app: BTreeMap<Address, i64>,
    /// App balances as they were read last, with the head of each chain when they were seen to have changed.
    seen: BTreeMap<Address, (i64, Vec<u64>)>,
    tapes: Vec<Tape>,
}

/// The record of one chain.
#[derive(Debug)]
struct Tape {
    first: u64,
    history: History,
    /// Of the users at the beginning.
    users: Vec<Holding>,
    /// Of those who are followed, when they were read last.
    followed: Vec<Holding>,
}

fn accounts(parties: &[Party]) -> Vec<Address> {
    parties.iter().flat_map(|party| party.accounts.iter().copied()).collect()
}

impl<'a> Record<'a> {
    /// Begins at the given block of each chain.
    pub(crate) async fn new(
        (chains, api, market): (&'a [Chain], &'a Api, &'a Market<'a>),
        blocks: &[u64],
        users: Vec<Party>,
        followed: Vec<Party>,
    ) -> Result<Self> {
        let mut app = BTreeMap::new();
        for wallet in followed.iter().flat_map(|party| &party.wallets) {
            app.insert(*wallet, api.available(*wallet).await?);
        }
        let mut tapes = Vec::new();
        for (chain, &first) in chains.iter().zip(blocks) {
            tapes.push(Tape {
                first,
                history: History::new(first + 1),
                users: holdings(chain, first, &accounts(&users)).await?,
                followed: holdings(chain, first, &accounts(&followed)).await?,
            });
        }
        let changes = vec![Change::default(); followed.len()];
        let seen = app.iter().map(|(wallet, balance)| (*wallet, (*balance, Vec::new()))).collect();
        Ok(Self { chains, api, market, users, followed, changes, app, seen, tapes })
    }

    /// Reads on every now and then until the given moment.
    pub(crate) async fn follow(&mut self, mut done: watch::Receiver<bool>) -> Result<()> {
        while !*done.borrow() {
            let mut heads = Vec::new();
            for index in 0..self.chains.len() {
                let head = self.chains[index].block_number().await?;
                self.read_to(index, head.saturating_sub(MAX_REORG_DEPTH + 1)).await?;
                heads.push(head);
            }
            self.look_at_balances(&heads).await;
            drop(tokio::time::timeout(READ_INTERVAL, done.wait_for(|done| *done)).await);
        }
        Ok(())
    }

    /// Notes which app balances have changed. A service that is dead is asked again the next time.
    async fn look_at_balances(&mut self, heads: &[u64]) {
        for (wallet, seen) in &mut self.seen {
            if let Ok(now) = self.api.available(*wallet).await
                && now != seen.0
            {
                *seen = (now, heads.to_vec());
            }
        }
    }

    /// The block of a chain by which the last change of an app balance had happened.
    pub(crate) fn booked_by(&self, wallet: Address, chain: usize) -> Option<u64> {
        self.seen.get(&wallet)?.1.get(chain).copied()
    }

    /// Reads a chain up to a block, which stays.
    pub(crate) async fn read_to(&mut self, index: usize, last: u64) -> Result<()> {
        let (chain, tape) = (&self.chains[index], &mut self.tapes[index]);
        let accounts = accounts(&self.followed);
        for (block, price) in tape.history.read_to(chain, &self.market.pools[index], last).await? {
            let after = holdings(chain, block, &accounts).await?;
            let mut moved = tape.followed.iter().zip(&after);
            for (party, change) in self.followed.iter().zip(&mut self.changes) {
                for (before, after) in moved.by_ref().take(party.accounts.len()) {
                    change.add(before, after, price);
                }
            }
            tape.followed = after;
        }
        Ok(())
    }

    /// The changes of those who are followed, in their order.
    pub(crate) async fn followed(&self) -> Result<Vec<Change>> {
        let mut changes = self.changes.clone();
        for (party, change) in self.followed.iter().zip(&mut changes) {
            for wallet in &party.wallets {
                let before = self.app.get(wallet).context("a wallet that nobody knew")?;
                change.app += i128::from(self.api.available(*wallet).await? - before);
            }
        }
        Ok(changes)
    }

    /// The changes of the users, in their order: in amounts, not at the price of each moment.
    pub(crate) async fn users(&self) -> Result<Vec<Change>> {
        let mut changes = vec![Change::default(); self.users.len()];
        for (index, (chain, tape)) in self.chains.iter().zip(&self.tapes).enumerate() {
            let after = holdings(chain, self.last(index), &accounts(&self.users)).await?;
            let mut moved = tape.users.iter().zip(&after);
            for (party, change) in self.users.iter().zip(&mut changes) {
                for (before, after) in moved.by_ref().take(party.accounts.len()) {
                    change.add(before, after, 0);
                }
            }
        }
        Ok(changes)
    }

    pub(crate) fn history(&self, chain: usize) -> &History {
        &self.tapes[chain].history
    }

    fn last(&self, chain: usize) -> u64 {
        self.tapes[chain].history.last()
    }

    /// The block of one chain at about the time of a block of another.
    pub(crate) fn same_moment(&self, chain: usize, block: u64, other: usize) -> u64 {
        let first = |chain: usize| self.tapes[chain].first;
        let span = |chain: usize| (self.last(chain) - first(chain)).max(1);
        first(other) + block.saturating_sub(first(chain)) * span(other) / span(chain)
    }
}
