//! The allocator: it signs money out of the depositories, and trusts nobody's word for it.
//!
//! It keeps a book of its own, read from final blocks on which enough nodes agree, and takes from the solver's tables
//! only ids: which transaction is said to have settled which deposit. Before it signs it reads that transaction itself
//! and holds it against the order, whose hash the deposit carries. It writes signed payouts, which the lanes of the solver send.

mod batches;
mod evidence;
pub mod identity;
mod ledger;
mod outcome;
mod refunds;
mod returns;
mod signing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use domain::ids::ChainId;
use domain::money::{Amount, UsdMicros};
use evm::{Head, LocalSigner, Nodes, Watch};
use metrics::counter;
use store::chain_states;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// Rows looked at in one round. What is left has its turn in the next.
const MAX_ROWS_PER_ROUND: i64 = 64;

/// The most that may be signed for in one currency on one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    pub hour: Amount,
    pub day: Amount,
}

#[derive(Clone, Debug)]
pub struct Terms {
    /// A batch is made when it is worth this much,
    pub batch_usd: UsdMicros,
    /// or when the oldest deposit in it has waited this long.
    pub batch_age: Duration,
    /// How long a signature is good. Never more than half an hour.
    pub validity: Duration,
}

/// The allocator's means on one chain.
#[derive(Debug)]
pub struct PayoutChain {
    pub handle: Arc<ChainHandle>,
    /// Its own list, which may be the solver's.
    pub nodes: Nodes,
    /// How many of them have to say the same.
    pub quorum: usize,
    /// By currency. What has none is not paid out.
    pub caps: BTreeMap<Address, Cap>,
    watch: Watch,
}

impl PayoutChain {
    pub fn new(handle: Arc<ChainHandle>, nodes: Nodes, quorum: usize, caps: BTreeMap<Address, Cap>) -> Self {
        // Deposits only: what our wallets sent is looked up by its hash.
        let watch = Watch::new(handle.chain.depository, []);
        Self { handle, nodes, quorum, caps, watch }
    }

    pub fn id(&self) -> ChainId {
        self.handle.id()
    }

    fn depository(&self) -> Address {
        self.handle.chain.depository
    }

    /// The newest block that cannot change any more.
    async fn last_final(&self) -> Result<Head, SolverError> {
        Ok(self.nodes.quorum_header(self.quorum, self.handle.settings.finality).await?)
    }
}

#[derive(Debug)]
pub struct Allocator {
    key: LocalSigner,
    terms: Terms,
    /// Where reimbursements go, and nowhere else.
    treasury: Address,
    payout_chains: BTreeMap<ChainId, PayoutChain>,
}

impl Allocator {
    pub fn new(key: LocalSigner, terms: Terms, treasury: Address, payout_chains: Vec<PayoutChain>) -> Self {
        let payout_chains = payout_chains.into_iter().map(|payout_chain| (payout_chain.id(), payout_chain)).collect();
        Self { key, terms, treasury, payout_chains }
    }

    pub fn address(&self) -> Address {
        self.key.address()
    }

    pub fn payout_chain(&self, chain: ChainId) -> Option<&PayoutChain> {
        self.payout_chains.get(&chain)
    }

    /// One task per chain, until the token ends them.
    pub fn start(self: &Arc<Self>, solver: &Arc<Solver>, stop: &CancellationToken, tasks: &TaskTracker) {
        for &chain in self.payout_chains.keys() {
            tasks.spawn(run(self.clone(), solver.clone(), chain, stop.clone()));
        }
    }

    /// Everything there is to do on a chain now: the book first, since all else goes by it.
    pub async fn round(&self, solver: &Arc<Solver>, chain: ChainId) -> Result<(), SolverError> {
        let Some(payout_chain) = self.payout_chains.get(&chain) else { return Ok(()) };
        let Some(last) = ledger::read(self, solver, payout_chain).await? else { return Ok(()) };
        outcome::conclude(solver, payout_chain, last).await?;
        evidence::gather(self, solver, payout_chain).await?;
        // A database older than the chain may not know what was signed for, and must not promise it again.
        if let Some(why) = solver.store.read(move |tx| chain_states::refusing(tx, chain)).await? {
            debug!(chain.id = %chain, %why, "nothing is signed for on a chain that takes no payments");
            return Ok(());
        }
        refunds::intend(self, solver, payout_chain).await?;
        returns::intend(self, solver, payout_chain).await?;
        batches::intend(self, solver, payout_chain).await?;
        signing::sign(self, solver, payout_chain, last).await
    }
}

async fn run(allocator: Arc<Allocator>, solver: Arc<Solver>, chain: ChainId, stop: CancellationToken) {
    let Some(payout_chain) = allocator.payout_chains.get(&chain) else { return };
    // Repayment is in no hurry: a few blocks, and seldom enough for nodes that count requests.
    let pause = (payout_chain.handle.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    let mut trouble = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let Err(error) = allocator.round(&solver, chain).await else {
            trouble.clear();
            continue;
        };
        counter!("causeway_payout_rounds_failed_total", "chain" => chain.to_string()).increment(1);
        let text = Chained(&error).to_string();
        // The same trouble every few seconds is one line.
        if text != trouble {
            warn!(chain.id = %chain, error = %text, "no payouts on chain {chain} for now");
            trouble = text;
        }
    }
}
