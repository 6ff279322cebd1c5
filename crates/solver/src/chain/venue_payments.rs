//! Payments of ours on the venue: each is found by the hashes of all its attempts, and applied when it has ended.

use std::sync::Arc;

use domain::venue::TxStatus;
use evm::Head;
use store::payments::{Attempt, PaymentRow};
use store::{Tx, lanes, payments, venue_txs};
use venue::{Client, Digest, VenueTx};

use crate::chain::apply_block::apply_sent;
use crate::chain::payment_events::quarantine;
use crate::chain::venue_unrecorded::unrecorded;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, key_of};
use crate::payments::venue_tx::sent_tx;
use crate::solver::Solver;

/// Payments of ours that one round looks for.
const MAX_PAYMENTS_PER_ROUND: i64 = 64;
/// Time after its attempts' end at which a payment whose nonce is used and that the venue does not show stops its lane.
const LOST_TIMEOUT_MILLIS: u64 = 60_000;

/// Looks for the payments that are on their way, and applies those that have ended. True if some have not.
pub(super) async fn apply_payments(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    head: Head,
) -> Result<bool, SolverError> {
    let (chain, wallet) = (handle.id(), venue.account.packed());
    if solver.store.read(move |tx| payments::unmined(tx, chain, wallet, 1)).await?.is_empty() {
        return Ok(false);
    }
    // The nonce first, the attempts after it: an attempt is committed before it is sent, so the one that has used a
    // nonce below this is among those that are read now.
    let next = venue.client.next_nonce(venue.account, venue.key_index).await?.get();
    let read = move |tx: &mut Tx<'_>| {
        let mut open = Vec::new();
        for stored in payments::unmined(tx, chain, wallet, MAX_PAYMENTS_PER_ROUND)? {
            let attempts = payments::attempts(tx, stored.id)?;
            open.push((stored, attempts));
        }
        Ok::<_, SolverError>(open)
    };
    let open = solver.store.read(read).await?;
    let stopped = is_stopped(solver, handle, venue).await?;
    for (stored, attempts) in open.iter().filter(|(stored, _)| stored.payment.nonce < next) {
        let found = match stopped {
            true => find(venue, stored, attempts, head).await?,
            false => judge(venue, stored, attempts, head).await?,
        };
        match found {
            // A person looks first.
            Found::Rejected { .. } | Found::Nothing if stopped => {}
            Found::Ended { tx, cancels } | Found::Rejected { tx, cancels } => {
                name(solver, &[tx.hash]).await?;
                if let Some(mut sent) = sent_tx(venue, &tx) {
                    // Its contents say that it is ours, and whom it paid how much. The memo is outside of the hash: one
                    // that the venue shows otherwise is no reason to pay again.
                    if !cancels {
                        sent.input = stored.payment.data.clone();
                    }
                    apply_sent(solver, handle, head, vec![sent]).await?;
                }
            }
            Found::Open => {}
            Found::Nothing => lost(solver, handle, stored).await?,
        }
    }
    Ok(true)
}

/// A payment by all of its attempts, those included that only the account's history has.
pub(super) async fn judge(
    venue: &VenueChain,
    stored: &PaymentRow,
    attempts: &[Attempt],
    head: Head,
) -> Result<Found, SolverError> {
    let found = find(venue, stored, attempts, head).await?;
    match found.is_certain() {
        true => Ok(found),
        false => Ok(unrecorded(venue, stored, head).await?.unwrap_or(found)),
    }
}

/// A payment as the venue shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// One of its attempts was taken, and has used the nonce: it is executed, or it failed.
    Ended {
        tx: Box<VenueTx>,
        cancels: bool,
    },
    /// All of its attempts came second. What came first is not among them.
    Rejected {
        tx: Box<VenueTx>,
        cancels: bool,
    },
    Open,
    /// No attempt is known there that could have used the nonce.
    Nothing,
}

impl Found {
    /// True unless something else has used the nonce, which may be an attempt that a restored database does not know.
    fn is_certain(&self) -> bool {
        match self {
            Self::Ended { .. } | Self::Open => true,
            Self::Rejected { .. } | Self::Nothing => false,
        }
    }
}

/// An attempt as the venue shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    /// It has ended, and a second read showed the same.
    Ended(Box<VenueTx>),
    /// It may still be executed, or two reads differ.
    Open,
    /// The venue does not know it. `lives` while it could still be taken.
    Unknown { lives: bool },
}

async fn find(venue: &VenueChain, stored: &PaymentRow, attempts: &[Attempt], head: Head) -> Result<Found, SolverError> {
    let mut shown = Vec::with_capacity(attempts.len());
    for attempt in attempts {
        let hash = venue.attempt_hash(stored, attempt.fees, attempt.cancels)?;
        let seen = match venue.client.transaction(hash).await? {
            Some(tx) => settled(&venue.client, tx).await?.map_or(Shown::Open, |tx| Shown::Ended(Box::new(tx))),
            None => {
                let ends = attempt.fees.max_tip.saturating_add(LOST_TIMEOUT_MILLIS);
                Shown::Unknown { lives: head.time.saturating_mul(1_000) < ends }
            }
        };
        let executed = matches!(&seen, Shown::Ended(tx) if tx.status == TxStatus::Executed);
        shown.push((seen, attempt.cancels));
        if executed {
            break;
        }
    }
    Ok(found(shown))
}

/// The end of a payment whose nonce is used, by all of its attempts.
///
/// They share the nonce, and the venue may show one as rejected because another one was executed. So an executed one
/// decides, whatever the others look like; and a rejection voids nothing while there is an attempt that the venue does
/// not show: something has used the nonce, and it may be that one.
fn found(shown: Vec<(Shown, bool)>) -> Found {
    let (mut void, mut open, mut unknown) = (None, false, false);
    for (seen, cancels) in shown {
        match seen {
            Shown::Ended(tx) if tx.status == TxStatus::Executed => return Found::Ended { tx, cancels },
            // One that was taken and failed has used the nonce itself.
            Shown::Ended(tx) => {
                let before = void.as_ref().is_some_and(|(known, _): &(Box<VenueTx>, bool)| is_failed(known));
                if !before {
                    void = Some((tx, cancels));
                }
            }
            Shown::Open | Shown::Unknown { lives: true } => open = true,
            Shown::Unknown { lives: false } => unknown = true,
        }
    }
    match void {
        _ if open => Found::Open,
        Some((tx, cancels)) if is_failed(&tx) => Found::Ended { tx, cancels },
        Some((tx, cancels)) if !unknown => Found::Rejected { tx, cancels },
        Some(_) | None => Found::Nothing,
    }
}

fn is_failed(tx: &VenueTx) -> bool {
    tx.status == TxStatus::Failed
}

/// A transaction that has ended, if a second read shows the same.
pub(super) async fn settled(client: &Client, tx: VenueTx) -> Result<Option<VenueTx>, SolverError> {
    use domain::venue::TxStatus::{Executed, Failed, Rejected};
    if !matches!(tx.status, Executed | Failed | Rejected) {
        return Ok(None);
    }
    let again = client.transaction(tx.hash).await?;
    Ok(again.filter(|again| *again == tx))
}

/// True if the account's lane waits for a person.
async fn is_stopped(solver: &Solver, handle: &ChainHandle, venue: &VenueChain) -> Result<bool, SolverError> {
    let (chain, wallet) = (handle.id(), venue.account.packed());
    let lanes = solver.store.read(move |tx| lanes::all(tx, chain)).await?;
    Ok(lanes.into_iter().any(|lane| lane.wallet == wallet && lane.quarantined.is_some()))
}

/// A payment whose nonce is used while no attempt is known that used it: the venue has forgotten it, or somebody else
/// has the key. It is neither paid again nor void; its lane stops, and a person looks.
async fn lost(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, stored: &PaymentRow) -> Result<(), SolverError> {
    let (nonce, wallet, handle) = (stored.payment.nonce, stored.payment.wallet, handle.clone());
    let unit = move |tx: &mut Tx<'_>| {
        let why = format!(
            "nonce {nonce} is used on the venue and none of its payment's transactions is known there to have used it: \
             either the venue has forgotten it or somebody else has the key"
        );
        quarantine(tx, &handle, wallet, &why)
    };
    solver.store.write(unit).await
}

/// Notes the venue's own names of transactions, before rows refer to them.
pub(super) async fn name(solver: &Solver, digests: &[Digest]) -> Result<(), SolverError> {
    let digests = digests.to_vec();
    let unit = move |tx: &mut Tx<'_>| {
        for digest in &digests {
            venue_txs::note(tx, key_of(*digest), &digest.to_string())?;
        }
        Ok::<_, SolverError>(())
    };
    solver.store.write(unit).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(name: u8, status: TxStatus) -> Shown {
        let hash: Digest = format!("{:0>80}", format!("{name:02x}")).parse().unwrap();
        Shown::Ended(Box::new(VenueTx { hash, status, queued_at: 1, transfer: None }))
    }

    fn end(name: u8, status: TxStatus, cancels: bool) -> Found {
        let Shown::Ended(tx) = ended(name, status) else { unreachable!("it has ended") };
        Found::Ended { tx, cancels }
    }

    fn rejected(name: u8) -> Found {
        let Shown::Ended(tx) = ended(name, TxStatus::Rejected) else { unreachable!("it has ended") };
        Found::Rejected { tx, cancels: false }
    }

    #[test]
    fn a_rejected_attempt_beside_an_executed_one_voids_nothing() {
        use TxStatus::{Executed, Failed, Rejected};
        let (lives, gone) = (Shown::Unknown { lives: true }, Shown::Unknown { lives: false });
        let cases = [
            ("rejected, then executed", vec![ended(1, Rejected), ended(2, Executed)], end(2, Executed, false)),
            ("executed, then rejected", vec![ended(1, Executed), ended(2, Rejected)], end(1, Executed, false)),
            ("failed, and executed", vec![ended(1, Failed), ended(2, Executed)], end(2, Executed, false)),
            ("rejected, the other on its way", vec![ended(1, Rejected), Shown::Open], Found::Open),
            ("rejected, the other not known yet", vec![ended(1, Rejected), lives.clone()], Found::Open),
            ("rejected, the other forgotten", vec![ended(1, Rejected), gone.clone()], Found::Nothing),
            ("the same, the other way round", vec![gone.clone(), ended(1, Rejected)], Found::Nothing),
            ("failed, the other never taken", vec![gone.clone(), ended(2, Failed)], end(2, Failed, false)),
            (
                "the same beside a rejected one",
                vec![ended(1, Failed), gone.clone(), ended(3, Rejected)],
                end(1, Failed, false),
            ),
            ("both rejected", vec![ended(1, Rejected), ended(2, Rejected)], rejected(2)),
            ("one, and it was rejected", vec![ended(1, Rejected)], rejected(1)),
            ("one, and it failed", vec![ended(1, Failed)], end(1, Failed, false)),
            ("one, and it is not known", vec![lives], Found::Open),
            ("one, and it is forgotten", vec![gone], Found::Nothing),
        ];
        for (name, shown, expected) in cases {
            assert_eq!(found(shown.into_iter().map(|seen| (seen, false)).collect()), expected, "{name}");
        }
        // A cancellation that was executed is the end of the payment, and pays nobody.
        let cancelled = found(vec![(ended(1, Rejected), false), (ended(2, Executed), true)]);
        assert_eq!(cancelled, end(2, Executed, true));
    }

    #[test]
    fn only_an_attempt_that_was_taken_says_what_used_the_nonce() {
        for (found, certain) in [
            (end(1, TxStatus::Executed, false), true),
            (end(1, TxStatus::Failed, false), true),
            (Found::Open, true),
            (rejected(1), false),
            (Found::Nothing, false),
        ] {
            assert_eq!(found.is_certain(), certain, "{found:?}");
        }
    }
}
