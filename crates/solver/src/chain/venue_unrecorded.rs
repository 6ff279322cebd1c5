//! The transfer that used a payment's nonce, by the account's history.
//!
//! A database that was restored knows a payment and not the attempts that were made after the backup. One of those may
//! have been executed, and a payment that looks void by the attempts that are known would be made again.

use evm::Head;
use store::payments::PaymentRow;
use venue::{Listed, Transfer, VenueError, VenueTx};

use super::venue_payments::{Found, settled};
use crate::error::SolverError;
use crate::handle::venue::VenueChain;

/// Pages of the history that are read for one payment.
const MAX_PAGES: usize = 64;
/// Time before the payment was decided at which the search ends: our clock and the venue's differ by less.
const MARGIN_MILLIS: u64 = 60_000;

/// The end of a payment whose known attempts did not use its nonce. None if the account's history has no transfer that
/// is an attempt of it.
pub(super) async fn unrecorded(
    venue: &VenueChain,
    stored: &PaymentRow,
    head: Head,
) -> Result<Option<Found>, SolverError> {
    let token = venue.token(head.time).ok_or(SolverError::InvariantViolated("a search without the account's key"))?;
    let (payment, cancel) = (venue.transfer(stored, stored.fees, false)?, venue.transfer(stored, stored.fees, true)?);
    let since = u64::try_from(stored.created_at.millis()).unwrap_or_default().saturating_sub(MARGIN_MILLIS);
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let page = venue.client.transfers(venue.account, &token, cursor.as_deref()).await?;
        let may_be_it = |it: &&Listed| {
            it.from == venue.account && it.time_millis >= since && [payment.to, cancel.to].contains(&it.to)
        };
        for listed in page.transfers.iter().filter(may_be_it) {
            // A transfer that is listed and not shown may be the one.
            let Some(tx) = venue.client.transaction(listed.hash).await? else { return Ok(Some(Found::Open)) };
            let Some(cancels) = attempt_of(&payment, &cancel, &tx) else { continue };
            let ended = settled(&venue.client, tx).await?;
            return Ok(Some(ended.map_or(Found::Open, |tx| Found::Ended { tx: Box::new(tx), cancels })));
        }
        let passed = !page.transfers.is_empty() && page.transfers.iter().all(|it| it.time_millis < since);
        if passed || page.next.is_none() {
            return Ok(None);
        }
        if page.next == cursor {
            return Err(VenueError::Invalid("cursor does not move").into());
        }
        cursor = page.next;
    }
    Err(VenueError::Invalid("the history does not reach the payment within the pages that are read").into())
}

/// Whether a transaction is an attempt of a payment, and then whether it cancels it: the same nonce and contents, with
/// any fee and expiry. The memo is outside of the hash, and proves nothing where the rest is the same.
fn attempt_of(payment: &Transfer, cancel: &Transfer, tx: &VenueTx) -> Option<bool> {
    let shown = tx.transfer.as_ref()?.transfer;
    let is = |ours: &Transfer| {
        Transfer { usdc_fee: shown.usdc_fee, expires_at: shown.expires_at, memo: shown.memo, ..*ours } == shown
    };
    [(payment, false), (cancel, true)].into_iter().find(|(ours, _)| is(ours)).map(|(_, cancels)| cancels)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256};
    use domain::venue::{AccountIndex, Memo, TxStatus, Units};
    use venue::{ApiKey, Expiry, Fee, Network, Nonce, SignedTransfer};

    use super::*;
    use crate::handle::venue::tests::{chain, row};

    #[test]
    fn an_attempt_is_known_by_its_nonce_and_contents_whatever_it_offers() {
        let (venue, stored) = (chain(), row(Address::ZERO, 1_000_000));
        let [payment, cancel] = [false, true].map(|cancels| venue.transfer(&stored, stored.fees, cancels).unwrap());
        let shown = |transfer: Transfer| {
            let signed = SignedTransfer::new(transfer, Network::TESTNET, &ApiKey::from_seed(b"seed"), &[0; 32], None);
            let hash = signed.hash(Network::TESTNET);
            attempt_of(
                &payment,
                &cancel,
                &VenueTx { hash, status: TxStatus::Executed, queued_at: 1, transfer: Some(signed) },
            )
        };
        let later = Expiry::new(payment.expires_at.get() + 600_000).unwrap();
        assert_eq!(shown(payment), Some(false));
        assert_eq!(shown(Transfer { expires_at: later, usdc_fee: Fee::new(7).unwrap(), ..payment }), Some(false));
        assert_eq!(
            shown(Transfer { memo: Memo(B256::ZERO), ..payment }),
            Some(false),
            "the memo is outside of the hash"
        );
        assert_eq!(shown(Transfer { expires_at: later, ..cancel }), Some(true));
        for other in [
            Transfer { nonce: Nonce::new(payment.nonce.get() + 1).unwrap(), ..payment },
            Transfer { amount: Units::new(999_999).unwrap(), ..payment },
            Transfer { to: AccountIndex::new(100_002).unwrap(), ..payment },
        ] {
            assert_eq!(shown(other), None, "{other:?}");
        }
    }
}
