//! The allocator's tasks: one per chain, each a round of everything there is to do there.

use std::sync::Arc;
use std::time::Duration;

use domain::chained::Chained;
use metrics::counter;
use store::{StoreError, Tx, chain_pauses, chain_states};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::allocator::Allocator;
use crate::chain::PayoutChain;
use crate::error::AllocatorError;
use crate::{batches, evidence, ledger, outcome, refunds, returns, signing, solvency};

impl Allocator {
    /// One task per chain, until the token ends them.
    pub fn start(&self, stop: &CancellationToken, tasks: &TaskTracker) {
        for payout_chain in self.chains.values() {
            tasks.spawn(run(self.clone(), payout_chain.clone(), stop.clone()));
        }
    }
}

async fn run(allocator: Allocator, payout_chain: Arc<PayoutChain>, stop: CancellationToken) {
    let chain = payout_chain.id();
    // Repayment is in no hurry: a few blocks, and seldom enough for nodes that count requests.
    let pause = (payout_chain.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    let mut trouble = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let Err(error) = round(&allocator, &payout_chain).await else {
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

/// Everything there is to do on a chain now: the ledger first, since all else goes by it.
async fn round(allocator: &Allocator, payout_chain: &PayoutChain) -> Result<(), AllocatorError> {
    let chain = payout_chain.id();
    let Some(last) = ledger::read(allocator, payout_chain).await? else { return Ok(()) };
    outcome::conclude(allocator, payout_chain, last).await?;
    evidence::gather(allocator, payout_chain).await?;
    if let Err(error) = solvency::note(allocator, payout_chain, last).await {
        // For operators to read: nothing is held up by it.
        debug!(chain.id = %chain, error = %Chained(&error), "the depository's balances are not known");
    }
    // A database older than the chain may not know what was signed for, and must not promise it again. On a paused
    // chain nothing new begins.
    let refusing = move |tx: &mut Tx<'_>| {
        let paused = chain_pauses::of(tx, chain)?.map(|pause| pause.to_string());
        Ok::<_, StoreError>(chain_states::refusing(tx, chain)?.or(paused))
    };
    if let Some(why) = allocator.store.read(refusing).await? {
        debug!(chain.id = %chain, %why, "nothing is signed for on a chain that takes no payments");
        return Ok(());
    }
    refunds::intend(allocator, payout_chain).await?;
    returns::intend(allocator, payout_chain).await?;
    batches::intend(allocator, payout_chain).await?;
    signing::sign(allocator, payout_chain, last).await
}
