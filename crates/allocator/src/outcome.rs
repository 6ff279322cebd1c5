//! How payouts end. Only a final block says: a used nonce is an executed payout, and a signature whose time has
//! passed there, its nonce unused, can be replaced by another under the same nonce.

use domain::payout::{Event, Kind, MAX_VOIDS, State, step};
use domain::time::Timestamp;
use evm::Head;
use metrics::counter;
use store::payouts::{self, PayoutRow};
use store::{Tx, depository_ledger, payments};
use tracing::{error, info, warn};

use crate::allocator::{Allocator, MAX_ROWS_PER_ROUND};
use crate::chain::PayoutChain;
use crate::error::AllocatorError;

/// Signatures of one payout that may run out unused: its recipient does not take it.
const MAX_SIGNATURES: u32 = 3;

pub(crate) async fn conclude(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    last: Head,
) -> Result<(), AllocatorError> {
    let chain = payout_chain.id();
    let mut ended = false;
    for stored in allocator.store.read(move |tx| payouts::open(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        let used = payout_chain.is_used(stored.payout.nonce, last).await?;
        let now = allocator.now();
        let unit = move |tx: &mut Tx<'_>| {
            let Some(stored) = payouts::lock(tx, stored.id)? else { return Ok(()) };
            if used {
                return executed(tx, &stored, now);
            }
            let Some(live) = payouts::live(tx, stored.id)? else { return Ok(()) };
            // While its transaction may still be mined it is left alone: it will fail there, and be void by proof.
            let sent = payments::live(tx, &stored.payout.payment_subject())?.is_some();
            if stored.state != State::Signed || last.time <= live.expiration || sent {
                return Ok(());
            }
            expired(tx, &stored, now)
        };
        allocator.store.write(unit).await?;
        ended |= used;
    }
    if ended {
        allocator.store.wake().await?;
    }
    Ok(())
}

/// The nonce was used, by whomever. The worker tells the request which the payout ends.
fn executed(tx: &mut Tx<'_>, stored: &PayoutRow, now: Timestamp) -> Result<(), AllocatorError> {
    let payout = &stored.payout;
    payouts::expire(tx, stored.id)?;
    payouts::set_state(tx, stored.id, step(stored.state, Event::NonceUsed)?, None, now)?;
    if payout.kind == Kind::Refund {
        if let Some(held) = depository_ledger::lock(tx, payout.subject)? {
            depository_ledger::set_returned(tx, &held.deposit)?;
        }
        payouts::announce(tx, stored.id)?;
    }
    info!(chain.id = %payout.chain, payout = stored.id.0, amount = %payout.amount, "the depository has paid out");
    counter!("causeway_payouts_total", "chain" => payout.chain.to_string()).increment(1);
    Ok(())
}

/// The signature's time has passed by a final block, and the nonce is unused.
fn expired(tx: &mut Tx<'_>, stored: &PayoutRow, now: Timestamp) -> Result<(), AllocatorError> {
    let (chain, id) = (stored.payout.chain, stored.id);
    payouts::expire(tx, id)?;
    let hopeless = payouts::signatures(tx, id)? >= MAX_SIGNATURES;
    if hopeless || payments::voids(tx, &stored.payout.payment_subject())? >= MAX_VOIDS {
        error!(chain.id = %chain, payout = id.0, "a payout failed again and again and waits for a person");
        let parked = step(stored.state, Event::GivenUp)?;
        return Ok(payouts::set_state(tx, id, parked, Some("it fails on the chain"), now)?);
    }
    warn!(chain.id = %chain, payout = id.0, "a signature was not used in time; the payout is signed again");
    let again = step(stored.state, Event::SignatureExpired)?;
    Ok(payouts::set_state(tx, id, again, Some("its signature expired"), now)?)
}
