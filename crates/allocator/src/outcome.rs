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
        payouts::mark_untold(tx, stored.id)?;
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

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256, U256};
    use domain::ids::{ChainId, PayoutNonce};
    use domain::money::Amount;
    use store::depository_ledger::Deposit;
    use store::payouts::{Payout, PayoutId, Signature};
    use store::{Options, Store};

    use super::*;

    const CHAIN: ChainId = ChainId(1);
    const NOW: Timestamp = Timestamp::from_millis(1_000);
    const KEY: B256 = B256::repeat_byte(1);

    fn deposit() -> Deposit {
        Deposit {
            key: KEY,
            chain: CHAIN,
            tx: KEY,
            ordinal: 0,
            block_number: 1,
            block_hash: B256::ZERO,
            block_time: NOW,
            order: None,
            return_key: KEY,
            depositor: Address::ZERO,
            payer: Address::ZERO,
            sender: Address::ZERO,
            currency: Address::ZERO,
            amount: Amount::new(U256::from(70)),
        }
    }

    /// Signs a payout and lets the signature run out.
    fn sign_in_vain(tx: &mut Tx<'_>, id: PayoutId, ordinal: u32) -> Result<State, AllocatorError> {
        let struct_hash = B256::from(U256::from(ordinal));
        let signature = Signature { ordinal, issued: 100, expiration: 200, struct_hash, bytes: None };
        payouts::decide(tx, id, &signature, NOW)?;
        payouts::set_state(tx, id, State::Signed, None, NOW)?;
        let stored = payouts::lock(tx, id)?.unwrap();
        expired(tx, &stored, NOW)?;
        Ok(payouts::lock(tx, id)?.unwrap().state)
    }

    #[tokio::test]
    async fn a_payout_is_given_up_when_its_last_signature_runs_out() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(format!("sqlite:{}", folder.path().join("allocator.db").display()).parse().unwrap());
        Store::migrate(&options).unwrap();
        let store = Store::open(&options).unwrap();
        let states = store.write(|tx| -> Result<_, AllocatorError> {
            let held = deposit();
            depository_ledger::insert(tx, &held)?;
            let (recipient, amount) = (Address::repeat_byte(2), held.amount);
            let payout = Payout {
                nonce: PayoutNonce(KEY),
                kind: Kind::Refund,
                subject: KEY,
                chain: CHAIN,
                currency: Address::ZERO,
                recipient,
                amount,
            };
            let id = payouts::insert(tx, &payout, &[(KEY, amount)], State::Intended, NOW)?.unwrap();
            (1..=MAX_SIGNATURES).map(|ordinal| sign_in_vain(tx, id, ordinal)).collect::<Result<Vec<_>, _>>()
        });
        assert_eq!(states.await.unwrap(), [State::Intended, State::Intended, State::Parked]);
        store.close().await;
    }
}
