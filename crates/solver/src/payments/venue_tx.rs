//! Transactions of the venue as the rest of the service knows transactions: deposits that were seen, payments that were
//! made.

use alloy::primitives::{Address, B256, Bytes, U256};
use domain::venue::{AccountIndex, Holding, TxStatus};
use evm::{Head, Id, SeenDeposit, SentTx};
use venue::{Network, VenueTx};

use crate::handle::venue::{VenueChain, key_of};

/// The venue's second as a block. The venue has no blocks and no forks: a second is always the same one.
pub fn head_at(secs: u64) -> Head {
    let hash = |number: u64| B256::left_padding_from(&number.to_be_bytes());
    Head { number: secs, hash: hash(secs), parent_hash: hash(secs.saturating_sub(1)), time: secs, base_fee: 0 }
}

/// A transfer into our account as a deposit. None for what is none: another kind of transaction, one of our own, one of
/// the operator's, one that goes elsewhere. `wallet` is that of the sending account, by the venue's word.
pub fn deposit(venue: &VenueChain, tx: &VenueTx, wallet: Address) -> Option<SeenDeposit> {
    let signed = tx.transfer.as_ref().filter(|_| tx.status == TxStatus::Executed)?;
    let transfer = &signed.transfer;
    if transfer.to != venue.account || transfer.from == venue.account || venue.sources.contains(&transfer.from) {
        return None;
    }
    let holding = Holding { asset: transfer.asset, route: transfer.to_route };
    let (currency, from) = (holding.deposited_currency().packed()?, transfer.from.packed());
    let amount = U256::from(transfer.amount.get());
    let order = transfer.memo.order().filter(|_| is_memo_believed(venue, tx, wallet, venue.client.network()));
    Some(SeenDeposit {
        tx: key_of(tx.hash),
        tx_index: 0,
        ordinal: 0,
        log_index: 0,
        id: order.map_or(Id::None, |order| Id::Event(order.0)),
        depositor: from,
        payer: from,
        sender: from,
        currency,
        amount,
        to: Some(transfer.to.packed()),
        input: Bytes::copy_from_slice(transfer.memo.0.as_slice()),
        value: if currency.is_zero() { amount } else { U256::ZERO },
        fee: Some(U256::from(transfer.usdc_fee.get())),
    })
}

/// The API key's signature leaves the memo out. It counts where the sender's wallet has signed it, and without that
/// between accounts of one wallet, which is ours then.
fn is_memo_believed(venue: &VenueChain, tx: &VenueTx, wallet: Address, network: Network) -> bool {
    let Some(signed) = &tx.transfer else { return false };
    match signed.has_wallet_signature() {
        true => signed.wallet(network) == Some(wallet),
        false => venue.keys.as_ref().is_some_and(|keys| keys.wallet.address() == wallet),
    }
}

/// A transaction of ours that has ended, as a block would show it. None while it may still be paid or fail, and for one
/// that is not ours. What failed costs nothing: the venue gives its fee back.
pub fn sent_tx(venue: &VenueChain, tx: &VenueTx) -> Option<SentTx> {
    let success = match tx.status {
        TxStatus::Executed => true,
        TxStatus::Failed | TxStatus::Rejected => false,
        TxStatus::Pending | TxStatus::Queued | TxStatus::Committed => return None,
    };
    let transfer = tx.transfer.as_ref()?.transfer;
    if transfer.from != venue.account || transfer.key_index != venue.key_index {
        return None;
    }
    // A cancellation moves a unit between two balances of ours, which is nothing to anybody.
    let cancels = transfer.to == venue.account;
    let collateral = Holding { asset: transfer.asset, route: transfer.to_route } == Holding::COLLATERAL;
    let value = if collateral && !cancels { U256::from(transfer.amount.get()) } else { U256::ZERO };
    let input = if cancels { Bytes::new() } else { Bytes::copy_from_slice(transfer.memo.0.as_slice()) };
    let fee = if success { transfer.usdc_fee.get() } else { 0 };
    Some(SentTx {
        from: transfer.from.packed(),
        nonce: transfer.nonce.get(),
        hash: key_of(tx.hash),
        index: 0,
        to: Some(transfer.to.packed()),
        value,
        input,
        success,
        gas_used: super::call::VENUE_GAS,
        effective_gas_price: fee.into(),
        fee: U256::from(fee),
        logs: Vec::new(),
    })
}

/// The sender of a transfer, where the transaction is one.
pub fn sender(tx: &VenueTx) -> Option<AccountIndex> {
    tx.transfer.as_ref().map(|signed| signed.transfer.from)
}

#[cfg(test)]
mod tests {
    use domain::ids::OrderId;
    use domain::venue::{Asset, Memo, Route, Units};
    use evm::LocalSigner;
    use venue::{ApiKey, Expiry, Fee, KeyIndex, Nonce, SignedTransfer, Transfer};

    use super::*;
    use crate::handle::venue::tests::chain;

    const NETWORK: Network = Network::TESTNET;
    const ORDER: OrderId = OrderId(B256::repeat_byte(7));

    fn index(index: u64) -> AccountIndex {
        AccountIndex::new(index).unwrap()
    }

    fn wallet(digit: &str) -> LocalSigner {
        LocalSigner::from_hex(&digit.repeat(32)).unwrap()
    }

    /// A transfer of a user's into our account.
    fn incoming() -> Transfer {
        Transfer {
            from: index(5),
            key_index: KeyIndex::new(3).unwrap(),
            to: index(722_011),
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Perps,
            amount: Units::new(1_000_000).unwrap(),
            usdc_fee: Fee::new(3_000_000).unwrap(),
            memo: Memo::from(ORDER),
            expires_at: Expiry::new(1_700_000_000_000).unwrap(),
            nonce: Nonce::new(0).unwrap(),
            skips_nonces: false,
        }
    }

    fn shown(transfer: Transfer, status: TxStatus, signer: Option<&LocalSigner>) -> VenueTx {
        let wallet = signer.map(|signer| signer.sign_digest(transfer.wallet_digest(NETWORK)));
        let signed = SignedTransfer::new(transfer, NETWORK, &ApiKey::from_seed(b"user"), &[0; 32], wallet);
        VenueTx { hash: signed.hash(NETWORK), status, queued_at: 1_699_999_999_000, transfer: Some(signed) }
    }

    #[test]
    fn an_executed_transfer_into_our_account_is_a_deposit() {
        let (venue, user) = (chain(), wallet("22"));
        let seen = deposit(&venue, &shown(incoming(), TxStatus::Executed, Some(&user)), user.address()).unwrap();
        assert_eq!((seen.id, seen.currency, seen.amount), (Id::Event(ORDER.0), Address::ZERO, U256::from(1_000_000)));
        assert_eq!((seen.depositor, seen.payer), (index(5).packed(), index(5).packed()));
        for status in [TxStatus::Pending, TxStatus::Queued, TxStatus::Committed, TxStatus::Failed, TxStatus::Rejected] {
            assert!(deposit(&venue, &shown(incoming(), status, Some(&user)), user.address()).is_none(), "{status:?}");
        }
    }

    #[test]
    fn our_own_transfers_and_those_of_the_operator_are_no_deposits() {
        let (mut venue, user) = (chain(), wallet("22"));
        venue.sources.insert(index(9));
        for transfer in [
            Transfer { from: index(722_011), ..incoming() },
            Transfer { from: index(9), ..incoming() },
            Transfer { to: index(6), ..incoming() },
        ] {
            let tx = shown(transfer, TxStatus::Executed, Some(&user));
            assert!(deposit(&venue, &tx, user.address()).is_none(), "{transfer:?}");
        }
    }

    #[test]
    fn a_memo_counts_by_the_senders_wallet_alone() {
        let (venue, user, other) = (chain(), wallet("22"), wallet("33"));
        let ours = venue.keys.as_ref().unwrap().wallet.clone();
        let id = |signer: Option<&LocalSigner>, of: &LocalSigner| {
            deposit(&venue, &shown(incoming(), TxStatus::Executed, signer), of.address()).unwrap().id
        };
        assert_eq!(id(Some(&user), &user), Id::Event(ORDER.0));
        assert_eq!(id(Some(&other), &user), Id::None, "somebody else wrote it");
        assert_eq!(id(None, &user), Id::None, "nobody signed it");
        assert_eq!(id(None, &ours), Id::Event(ORDER.0), "between accounts of our own wallet");
        let remark = Transfer { memo: Memo(B256::right_padding_from(b"thanks")), ..incoming() };
        let tx = shown(remark, TxStatus::Executed, Some(&user));
        assert_eq!(deposit(&venue, &tx, user.address()).unwrap().id, Id::None);
    }

    #[test]
    fn other_assets_and_routes_are_other_currencies() {
        let (venue, user) = (chain(), wallet("22"));
        for (asset, route, currency) in
            [(Asset::USDC, Route::Spot, 3), (Asset::ETH, Route::Spot, 1), (Asset::new(7).unwrap(), Route::Perps, 7)]
        {
            let transfer = Transfer { asset, from_route: route, to_route: route, ..incoming() };
            let seen = deposit(&venue, &shown(transfer, TxStatus::Executed, Some(&user)), user.address()).unwrap();
            assert_eq!((seen.currency, seen.value), (index(currency).packed(), U256::ZERO));
        }
    }

    #[test]
    fn a_payment_has_ended_when_it_is_executed_or_void() {
        let venue = chain();
        let ours = Transfer { from: index(722_011), to: index(5), ..incoming() };
        let ended = |transfer, status| sent_tx(&venue, &shown(transfer, status, None));
        for status in [TxStatus::Pending, TxStatus::Queued, TxStatus::Committed] {
            assert!(ended(ours, status).is_none(), "{status:?}");
        }
        let paid = ended(ours, TxStatus::Executed).unwrap();
        assert_eq!((paid.success, paid.fee, paid.value), (true, U256::from(3_000_000), U256::from(1_000_000)));
        assert_eq!(paid.paid(Address::ZERO, index(5).packed(), Address::ZERO), U256::from(1_000_000));
        let failed = ended(ours, TxStatus::Failed).unwrap();
        assert_eq!((failed.success, failed.fee), (false, U256::ZERO), "what fails costs nothing");
        let cancel = ended(Transfer { to: index(722_011), ..ours }, TxStatus::Executed).unwrap();
        assert!(crate::payments::mined::uses_up_nonce(&cancel));
        assert!(ended(incoming(), TxStatus::Executed).is_none(), "not ours");
    }
}
