//! The audit: all rows of the database, checked against the chains. It changes nothing, and works on one snapshot of
//! the database while the service goes on.
//!
//! Each chain is audited as of the last block that the snapshot has applied. Rows are read in pages, so that the size
//! of the database does not matter.
//!
//! An event in a doubtful block waits until enough nodes show it. The database says so, and such an event is a note and
//! no difference.

mod books;
mod claims;
mod depositories;
mod fast_fills;
mod ledger;
mod losses;
mod payments;
mod relays;
mod venue;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use domain::ids::ChainId;
use evm::{At, Head};
use serde::Serialize;
use store::{Store, Tx, blocks, doubtful_blocks};
use tokio::runtime::Handle;

use crate::chain::follow::MAX_DOUBTFUL_BLOCKS;
use crate::error::SolverError;
use crate::handle::ChainHandle;

/// Differences that are spelled out for one check; more are only counted.
const MAX_SHOWN: usize = 1_000;

/// Result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Empty for a check of all chains.
    pub chain: String,
    pub check: &'static str,
    /// Number of items compared.
    pub compared: u64,
    pub different: u64,
    pub differences: Vec<String>,
    /// Facts that a person should know and that are no differences.
    pub notes: Vec<String>,
}

impl Check {
    fn new(chain: &str, check: &'static str) -> Self {
        Self { chain: chain.to_owned(), check, compared: 0, different: 0, differences: Vec::new(), notes: Vec::new() }
    }

    fn differs(&mut self, how: String) {
        self.different += 1;
        if self.differences.len() < MAX_SHOWN {
            self.differences.push(how);
        }
    }

    /// Notes an event that waits until enough nodes show it.
    fn waits(&mut self, what: &str) {
        if self.notes.len() < MAX_SHOWN {
            self.notes.push(format!("{what} waits until enough nodes show it"));
        }
    }
}

/// Callback with a check's progress: its chain, its name, the part done and the total.
pub type Progress<'a> = &'a (dyn Fn(&str, &str, u64, u64) + Sync);

struct Audit<'a, 'b> {
    tx: &'a mut Tx<'b>,
    chains: &'a [Arc<ChainHandle>],
    nodes: Handle,
    progress: Progress<'a>,
    /// Blocks that the walk has passed and whose nodes do not agree yet.
    doubtful: BTreeMap<ChainId, BTreeSet<u64>>,
    checks: Vec<Check>,
}

impl Audit<'_, '_> {
    /// Waits for a node. The snapshot does not change meanwhile.
    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.nodes.block_on(answer)
    }

    fn is_doubtful(&self, chain: ChainId, block: u64) -> bool {
        self.doubtful.get(&chain).is_some_and(|blocks| blocks.contains(&block))
    }

    fn handle(&self, chain: ChainId) -> Option<Arc<ChainHandle>> {
        self.chains.iter().find(|handle| handle.id() == chain).cloned()
    }
}

/// Runs all checks. Blocks the calling thread, which must not be one that drives the runtime behind `nodes`.
pub fn run(
    options: &store::Options,
    chains: &[Arc<ChainHandle>],
    nodes: Handle,
    progress: Progress<'_>,
) -> Result<Vec<Check>, SolverError> {
    Store::snapshot(options, |tx| {
        let mut doubtful = BTreeMap::new();
        for handle in chains {
            let blocks = doubtful_blocks::numbers(tx, handle.id(), MAX_DOUBTFUL_BLOCKS)?;
            doubtful.insert(handle.id(), blocks.into_iter().collect());
        }
        let mut audit = Audit { tx, chains, nodes, progress, doubtful, checks: Vec::new() };
        for handle in chains {
            if let Some(venue) = &handle.venue {
                audit.venue(handle, venue)?;
                continue;
            }
            let Some(at) = audit.stand(handle)? else { continue };
            audit.depository(handle, at)?;
            audit.nonces(handle, at)?;
        }
        audit.payments()?;
        audit.endings()?;
        audit.promises()?;
        audit.payouts()?;
        audit.app_balances()?;
        audit.fundings()?;
        audit.outcomes()?;
        audit.same_chain()?;
        audit.claims()?;
        audit.fast_fills()?;
        audit.losses()?;
        audit.relays()?;
        Ok(audit.checks)
    })
}

impl Audit<'_, '_> {
    /// The block at which a chain is audited: the last that the snapshot has applied, if the chain still has it.
    fn stand(&mut self, handle: &ChainHandle) -> Result<Option<Head>, SolverError> {
        let mut check = Check::new(&handle.chain.name, "the last applied block is on the chain");
        let cursor = blocks::cursor(self.tx, handle.id())?;
        let Some(cursor) = cursor else {
            self.checks.push(check);
            return Ok(None);
        };
        check.compared = 1;
        let head = self.wait(handle.nodes.header(At::Number(cursor.number)))?;
        let same = head.filter(|head| head.hash == cursor.hash);
        if same.is_none() {
            let now = head.map_or("none".to_owned(), |head| head.hash.to_string());
            check.differs(format!("block {} is {} in the database, {now} on the chain", cursor.number, cursor.hash));
        }
        self.checks.push(check);
        Ok(same)
    }
}
