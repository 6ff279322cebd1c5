//! The watch over a chain's deposit addresses, behind its walk and never in its way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::Address;
use domain::catalog::Catalog;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::deposit_addresses::{balances, prune, settle, transfers};
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::quoting::quote::Quoter;
use crate::solver::Solver;

/// The longest pause between two rounds: what was postponed is looked at without a block.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Time between two looks for addresses that are forgotten, while there are none.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// Watches until told to stop. After an error it waits for the next block, and retries from the same position.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    if handle.chain.deposit_address_factory.is_none() {
        return;
    }
    let chains = solver.chains.values().map(|handle| handle.chain.clone());
    let quoter = Quoter {
        solver: solver.clone(),
        catalog: Arc::new(Catalog::new(chains.collect()).unwrap_or_default()),
        order_key: None,
        user_balances: Default::default(),
        sponsor_accounts: Default::default(),
        tried_recipients: Default::default(),
    };
    let (mut taken, mut woken) = (handle.health.taken.subscribe(), solver.store.woken());
    let mut progress = Progress { looked: Address::ZERO, prune_at: Instant::now() + PRUNE_INTERVAL };
    let mut trouble = String::new();
    loop {
        match round(&solver, &handle, &quoter, &mut progress).await {
            Ok(()) => trouble.clear(),
            Err(error) => {
                let text = Chained(&error).to_string();
                // The same trouble at every block is one line.
                if text != trouble {
                    warn!(chain.id = %handle.id(), error = %text, "deposit addresses of chain {} wait", handle.id());
                    trouble = text;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = taken.changed() => if changed.is_err() { return },
            changed = woken.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(MAX_PAUSE) => {}
        }
    }
}

/// The place of the watch in the work that it does a little of at a time.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The address whose balance was looked at last.
    looked: Address,
    prune_at: Instant,
}

async fn round(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    quoter: &Quoter,
    progress: &mut Progress,
) -> Result<(), SolverError> {
    let Some(at) = transfers::search(solver, handle).await? else { return Ok(()) };
    // An error of one part does not keep the other from its work: both are tried, and the first error is told.
    let balances = balances::look(solver, handle, at, progress.looked).await;
    let settled = settle::settle(solver, handle, quoter, at).await;
    progress.looked = balances?;
    settled?;
    if Instant::now() >= progress.prune_at {
        progress.prune_at = Instant::now() + PRUNE_INTERVAL;
        if prune::round(solver, handle, at).await? {
            progress.prune_at = Instant::now();
        }
    }
    Ok(())
}
