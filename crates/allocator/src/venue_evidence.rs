//! Fills on the venue as evidence (protocol 4.2): the transfer that is said to have settled a deposit, read from the
//! venue and compared with the order.
//!
//! The venue's hash covers who paid whom, and how much; the memo is covered by our wallet's signature alone, which is
//! checked too. That the transfer was executed is the venue's word: there is no second one.

use alloy::primitives::{Address, U256};
use domain::ids::OrderId;
use domain::order::Order;
use domain::venue::{AccountIndex, Holding, Standing, TxStatus, tx_key};
use store::depository_ledger::Settlement;
use store::venue_txs;
use venue::{Digest, Network, VenueTx};

use crate::allocator::Allocator;
use crate::error::AllocatorError;
use crate::paying_venue::PayingVenue;

/// A settlement as the venue shows it.
#[derive(Debug)]
pub(crate) enum Shown {
    Final(Box<VenueTx>, Address),
    NotFinal,
    Bad(&'static str),
}

/// Reads the transfer of a settlement, twice, and the wallet of our account.
pub(crate) async fn read(
    allocator: &Allocator,
    venue: &PayingVenue,
    settlement: &Settlement,
) -> Result<Shown, AllocatorError> {
    let key = settlement.tx;
    let name = allocator.store.read(move |tx| venue_txs::digest(tx, key)).await?;
    let digest = name.and_then(|name| name.parse::<Digest>().ok());
    let Some(digest) = digest.filter(|digest| tx_key(digest.bytes()) == key) else {
        return Ok(Shown::Bad("the transfer that settled it has no name on the venue"));
    };
    let (Some(tx), Some(again)) = (venue.client.transaction(digest).await?, venue.client.transaction(digest).await?)
    else {
        return Ok(Shown::NotFinal);
    };
    // Two reads that differ prove nothing, a failure neither.
    if tx != again {
        return Ok(Shown::NotFinal);
    }
    if tx.status.standing() == Standing::Void {
        return Ok(Shown::Bad("the transfer that settled it failed"));
    }
    let now = venue.client.status().await?.time_millis;
    let ripe = tx.queued_at.saturating_add(venue.finality_secs.saturating_mul(1_000)) <= now;
    if tx.status != TxStatus::Executed || !ripe {
        return Ok(Shown::NotFinal);
    }
    match venue.client.account(venue.account).await? {
        Some(account) => Ok(Shown::Final(Box::new(tx), account.wallet)),
        None => Ok(Shown::Bad("the venue does not know our account")),
    }
}

/// A transfer of ours, with the order as its memo, that pays the order's recipient its minimum in time.
pub(crate) fn fill(
    order: &Order,
    id: OrderId,
    tx: &VenueTx,
    (account, wallet, network): (AccountIndex, Address, Network),
    chain: &str,
) -> Result<(), &'static str> {
    let signed = tx.transfer.as_ref().ok_or("the transaction that settled it is no transfer")?;
    let transfer = &signed.transfer;
    if transfer.from != account {
        return Err("the transfer that settled it is not from our account");
    }
    if transfer.memo.order() != Some(id) || signed.wallet(network) != Some(wallet) {
        return Err("the transfer that settled it names another order");
    }
    if order.output.chain != chain {
        return Err("the fill is on another chain");
    }
    if tx.queued_at / 1_000 > u64::from(order.output.deadline) {
        return Err("the fill came after the order's deadline");
    }
    let [payment] = &order.output.payments[..] else { return Err("an order of other than one payment") };
    let holding = Holding { asset: transfer.asset, route: transfer.to_route };
    if holding.paid_currency().as_ref() != Some(&payment.currency) {
        return Err("the fill is in another currency");
    }
    if AccountIndex::of(&payment.recipient) != Ok(transfer.to) {
        return Err("the fill paid somebody else");
    }
    let paid = U256::from(transfer.amount.get());
    if paid < payment.minimum.units() { Err("the fill paid less than the order's minimum") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;
    use domain::account::{Account, Vm};
    use domain::money::Amount;
    use domain::order::{Output, Payment};
    use domain::venue::{Asset, Memo, Route, Units};
    use evm::LocalSigner;
    use venue::{ApiKey, Expiry, Fee, KeyIndex, Nonce, SignedTransfer, Transfer};

    use super::*;

    const NETWORK: Network = Network::TESTNET;

    fn index(index: u64) -> AccountIndex {
        AccountIndex::new(index).unwrap()
    }

    fn order() -> Order {
        let payment = Payment {
            recipient: index(5).account(),
            currency: Account::parse(Vm::Venue, "0").unwrap(),
            minimum: Amount::new(U256::from(90)),
            expected: Amount::new(U256::from(95)),
        };
        Order {
            solver_chain: "here".to_owned(),
            solver: Address::ZERO,
            salt: U256::ZERO,
            inputs: Vec::new(),
            output: Output {
                chain: "venue".to_owned(),
                payments: vec![payment],
                calls: Vec::new(),
                deadline: 1_000,
                extra_data: Vec::new(),
            },
            fees: Vec::new(),
        }
    }

    fn transfer() -> Transfer {
        Transfer {
            from: index(7),
            key_index: KeyIndex::new(3).unwrap(),
            to: index(5),
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Perps,
            amount: Units::new(90).unwrap(),
            usdc_fee: Fee::NONE,
            memo: Memo::from(order().id()),
            expires_at: Expiry::new(2_000_000).unwrap(),
            nonce: Nonce::new(0).unwrap(),
            skips_nonces: false,
        }
    }

    fn judged(transfer: Transfer, queued_at: u64, signer: &str) -> Result<(), &'static str> {
        let ours = LocalSigner::from_hex(&"11".repeat(32)).unwrap();
        let wallet = LocalSigner::from_hex(signer).unwrap().sign_digest(transfer.wallet_digest(NETWORK));
        let signed = SignedTransfer::new(transfer, NETWORK, &ApiKey::from_seed(b"seed"), &[0; 32], Some(wallet));
        let tx = VenueTx { hash: signed.hash(NETWORK), status: TxStatus::Executed, queued_at, transfer: Some(signed) };
        fill(&order(), order().id(), &tx, (index(7), ours.address(), NETWORK), "venue")
    }

    #[test]
    fn a_fill_on_the_venue_is_our_transfer_to_the_orders_recipient_in_time() {
        let ours = "11".repeat(32);
        assert_eq!(judged(transfer(), 1_000_999, &ours), Ok(()));
        let wrong = [
            Transfer { from: index(8), ..transfer() },
            Transfer { to: index(6), ..transfer() },
            Transfer { amount: Units::new(89).unwrap(), ..transfer() },
            Transfer { to_route: Route::Spot, ..transfer() },
            Transfer { asset: Asset::ETH, ..transfer() },
            Transfer { memo: Memo(B256::repeat_byte(1)), ..transfer() },
        ];
        for wrong in wrong {
            assert!(judged(wrong, 1_000_000, &ours).is_err(), "{wrong:?}");
        }
        assert!(judged(transfer(), 1_001_000, &ours).is_err(), "late");
        assert!(judged(transfer(), 1_000_000, &"22".repeat(32)).is_err(), "another wallet wrote the memo");
    }
}
