//! The venue behind a chain handle: its client, the account that pays on it, and that account's keys.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy::primitives::B256;
use domain::account::{Account, Vm};
use domain::time::Timestamp;
use domain::venue::{AccountIndex, Asset, Holding, Memo, Route, Units, tx_key};
use evm::LocalSigner;
use store::payments::{Fees, PaymentRow};
use venue::{ApiKey, AuthToken, Client, Digest, Expiry, Fee, KeyIndex, Nonce, SignedTransfer, TokenClaims, Transfer};

use crate::error::SolverError;
use crate::handle::venue_hints::{Disputes, Missed, NoDeposits, VenueHints};
use crate::handle::venue_rescan::VenueRescan;

/// The life of an attempt on the venue's clock: a second less than ten minutes, as the venue's own signer gives it.
const ATTEMPT_LIFETIME_MILLIS: u64 = 599_000;
/// The life of a token for reading the account's history.
const TOKEN_LIFETIME_SECS: u64 = 600;
/// Longer than an attempt lives, and a minute for the venue to list it.
pub const UNLISTED_TIMEOUT: Duration = Duration::from_secs(660);
/// The largest difference between the venue's clock and ours.
const MAX_CLOCK_DIFFERENCE_SECS: i64 = 30;

/// Keys of the account: one signs transactions, the other the texts with their memos.
#[derive(Debug)]
pub struct VenueKeys {
    pub api: ApiKey,
    pub wallet: LocalSigner,
}

#[derive(Debug)]
pub struct VenueChain {
    pub client: Client,
    pub account: AccountIndex,
    pub key_index: KeyIndex,
    /// Present only in a process that pays.
    pub keys: Option<VenueKeys>,
    /// Accounts from which the operator funds ours: their transfers are no deposits.
    pub sources: BTreeSet<AccountIndex>,
    /// Time between two looks at the venue.
    pub poll_interval: Duration,
    /// The venue's fee for a user's transfer, in units of USDC, as quotes state it.
    pub user_fee: u64,
    /// The venue's fee for a transfer of ours.
    own_fee: AtomicU64,
    /// Transfers into the account that clients say they have sent.
    pub hints: VenueHints,
    pub disputes: Disputes,
    /// Payments that failed and that the venue no longer shows as failed.
    pub doubtful_voids: Disputes,
    /// Transfers into the account that are listed and could not be read.
    pub missed: Missed,
    /// Transfers into the account that are listed and are no deposits.
    pub no_deposits: NoDeposits,
    /// The slow walk, for transfers that are listed later than the walk reads back.
    pub rescan: VenueRescan,
    /// Time after which recovery takes a transfer that used a nonce and is not listed for one that failed, or asks a
    /// person: longer than an attempt may be executed.
    pub unlisted_timeout: Duration,
}

/// The venue's fees, in units of USDC, as the operator states them.
#[derive(Clone, Copy, Debug)]
pub struct VenueFees {
    /// For a transfer of a user's.
    pub user: u64,
    /// The most for one of ours.
    pub most: u64,
}

impl VenueChain {
    pub fn new(
        client: Client,
        account: AccountIndex,
        key_index: KeyIndex,
        keys: Option<VenueKeys>,
        sources: BTreeSet<AccountIndex>,
        poll_interval: Duration,
        fees: VenueFees,
    ) -> Self {
        // Until the venue has said what our transfers cost, they cost what everybody's do, or what the operator allows.
        let own_fee = AtomicU64::new(fees.user.min(fees.most));
        Self {
            client,
            account,
            key_index,
            keys,
            sources,
            poll_interval,
            user_fee: fees.user,
            own_fee,
            hints: VenueHints::default(),
            disputes: Disputes::default(),
            doubtful_voids: Disputes::default(),
            missed: Missed::default(),
            no_deposits: NoDeposits::default(),
            rescan: VenueRescan::default(),
            unlisted_timeout: UNLISTED_TIMEOUT,
        }
    }

    pub fn with_unlisted_timeout(self, unlisted_timeout: Duration) -> Self {
        Self { unlisted_timeout, ..self }
    }

    pub fn with_rescan(self, rescan: VenueRescan) -> Self {
        Self { rescan, ..self }
    }

    /// Takes note of a transfer by the venue's own hash, as a client writes it. Anything else is no hint.
    pub fn note_hint(&self, hash: &str) {
        if let Ok(hash) = hash.parse() {
            self.hints.note(hash, Instant::now(), self.poll_interval);
        }
    }

    /// The reason why the lane could never send its next payment: the venue takes nonces in turn, and has not come to
    /// it. All before it have ended, so the venue counts for another key.
    pub fn wrong_key_index(&self, used: u64, lowest_open: u64) -> Option<String> {
        let (account, index) = (self.account, self.key_index.get());
        (used < lowest_open).then(|| {
            format!(
                "key {index} of account {account} has used {used} nonces on the venue, and the next payment of the database has \
                 nonce {lowest_open}: the payments before it were signed with another key; set `venue.api_key_index` back"
            )
        })
    }

    pub fn own_fee(&self) -> u64 {
        self.own_fee.load(Ordering::Relaxed)
    }

    pub fn set_own_fee(&self, fee: Fee) {
        self.own_fee.store(fee.get(), Ordering::Relaxed);
    }

    /// The offer of a new attempt: today's fee, and an expiry counted from the venue's clock.
    pub fn offer(&self, now_secs: u64) -> Fees {
        let expiry = now_secs.saturating_mul(1_000).saturating_add(ATTEMPT_LIFETIME_MILLIS);
        Fees { max_fee: self.own_fee(), max_tip: expiry }
    }

    /// A token to read the account with. None in a process without its keys.
    pub fn token(&self, now_secs: u64) -> Option<AuthToken> {
        let deadline = now_secs.saturating_add(TOKEN_LIFETIME_SECS);
        let claims = TokenClaims { deadline, account: self.account, key_index: self.key_index };
        self.keys.as_ref().map(|keys| AuthToken::new(claims, &keys.api, &[0; 32]))
    }

    /// The transfer of a payment's attempt. It is deterministic, and so is its hash.
    pub fn transfer(&self, stored: &PaymentRow, fees: Fees, cancels: bool) -> Result<Transfer, SolverError> {
        let payment = &stored.payment;
        let bad = SolverError::InvariantViolated("a payment that no transfer of the venue can make");
        let holding = match payment.currency.is_zero() {
            true => Some(Holding::COLLATERAL),
            false => {
                let currency = Account::unpacked(Vm::Venue, payment.currency);
                currency.and_then(|currency| Holding::of_currency(&currency))
            }
        };
        let units = u64::try_from(payment.amount.units()).ok().and_then(|units| Units::new(units).ok());
        let memo = <[u8; 32]>::try_from(&payment.data[..]).ok().map(|memo| Memo(B256::from(memo)));
        let (Some(holding), Some(amount), Some(memo), Ok(to)) =
            (holding, units, memo, AccountIndex::unpacked(payment.target))
        else {
            return Err(bad);
        };
        let (Ok(usdc_fee), Ok(expires_at), Ok(nonce)) =
            (Fee::new(fees.max_fee), Expiry::new(fees.max_tip), Nonce::new(payment.nonce))
        else {
            return Err(bad);
        };
        let transfer = Transfer {
            from: self.account,
            key_index: self.key_index,
            to,
            asset: holding.asset,
            from_route: holding.route,
            to_route: holding.route,
            amount,
            usdc_fee,
            memo,
            expires_at,
            nonce,
            skips_nonces: false,
        };
        Ok(if cancels { self.cancellation(transfer) } else { transfer })
    }

    /// A transfer of the smallest amount between two balances of our own account: it uses up the nonce and pays nobody.
    fn cancellation(&self, transfer: Transfer) -> Transfer {
        Transfer {
            to: self.account,
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Spot,
            amount: Units::new(1).expect("one unit is in the range"),
            memo: Memo(B256::ZERO),
            ..transfer
        }
    }

    /// The hash of a payment's attempt, known before it is sent.
    pub fn attempt_hash(&self, stored: &PaymentRow, fees: Fees, cancels: bool) -> Result<Digest, SolverError> {
        Ok(self.transfer(stored, fees, cancels)?.hash(self.client.network()))
    }

    /// The last attempt of a payment, signed. Both signatures are deterministic: after a crash the same row gives the
    /// same bytes.
    pub fn sign(&self, stored: &PaymentRow) -> Result<SignedTransfer, SolverError> {
        let keys = self.keys.as_ref().ok_or(SolverError::InvariantViolated("a lane without its key"))?;
        if stored.payment.wallet != self.account.packed() {
            return Err(SolverError::InvariantViolated("a payment in another account's lane"));
        }
        let (transfer, network) = (self.transfer(stored, stored.fees, stored.cancelled)?, self.client.network());
        let wallet = keys.wallet.sign_digest(transfer.wallet_digest(network));
        Ok(SignedTransfer::new(transfer, network, &keys.api, &[0; 32], Some(wallet)))
    }
}

/// True unless the venue's clock, in seconds, differs from ours by more than it may.
pub fn is_in_time(theirs: u64, ours: Timestamp) -> bool {
    let theirs = i64::try_from(theirs).unwrap_or(i64::MAX);
    theirs.saturating_sub(ours.secs()).saturating_abs() <= MAX_CLOCK_DIFFERENCE_SECS
}

/// The 32 bytes that rows know a transaction by.
pub fn key_of(digest: Digest) -> B256 {
    tx_key(digest.bytes())
}

#[cfg(test)]
pub(crate) mod tests {
    use alloy::primitives::{Address, Bytes, U256};
    use domain::ids::OrderId;
    use domain::money::Amount;
    use domain::payment::State;
    use domain::subject::Subject;
    use store::payments::{Payment, PaymentId};
    use venue::{Network, Options, Quota};

    use super::*;

    /// A handle on account 722011, with keys of its own. Nobody answers.
    pub(crate) fn chain() -> VenueChain {
        let client = Client::new(Options {
            base_url: "http://127.0.0.1:1".parse().unwrap(),
            network: Network::TESTNET,
            timeout: Duration::from_secs(1),
            quota: Quota::STANDARD,
        });
        let wallet = LocalSigner::from_hex(&"11".repeat(32)).unwrap();
        let keys = VenueKeys { api: ApiKey::from_seed(b"seed"), wallet };
        let (account, key) = (AccountIndex::new(722_011).unwrap(), KeyIndex::new(3).unwrap());
        let poll = Duration::from_secs(1);
        let fees = VenueFees { user: 3_000_000, most: 5_000_000 };
        VenueChain::new(client.unwrap(), account, key, Some(keys), BTreeSet::new(), poll, fees)
    }

    pub(crate) fn row(currency: Address, units: u64) -> PaymentRow {
        let (order, now) = (OrderId(B256::repeat_byte(7)), Timestamp::from_secs(1));
        PaymentRow {
            id: PaymentId(1),
            state: State::Decided,
            payment: Payment {
                subject: Subject::Fill(order),
                request: None,
                chain: domain::venue::CHAIN,
                wallet: AccountIndex::new(722_011).unwrap().packed(),
                nonce: 5,
                target: AccountIndex::new(100_001).unwrap().packed(),
                value: Amount::ZERO,
                data: Bytes::copy_from_slice(order.as_slice()),
                gas: 1,
                recipient: AccountIndex::new(100_001).unwrap().packed(),
                currency,
                amount: Amount::new(U256::from(units)),
            },
            fees: Fees { max_fee: 0, max_tip: 1_700_000_599_000 },
            attempts: 1,
            attempted_at: now,
            cancelled: false,
            created_at: now,
            block_number: None,
            authorizations: None,
        }
    }

    #[test]
    fn a_row_gives_the_same_bytes_after_a_crash() {
        let (one, other, row) = (chain(), chain(), row(Address::ZERO, 1_000_000));
        let signed = one.sign(&row).unwrap();
        assert_eq!(signed.to_json(), other.sign(&row).unwrap().to_json());
        assert_eq!(one.attempt_hash(&row, row.fees, false).unwrap(), signed.hash(Network::TESTNET));
        assert_eq!(signed.transfer.memo.order(), Some(row.payment.order()));
        assert_eq!(signed.wallet(Network::TESTNET), Some(one.keys.unwrap().wallet.address()));
    }

    #[test]
    fn a_key_that_has_used_fewer_nonces_than_have_ended_is_another_one() {
        let chain = chain();
        assert_eq!((chain.wrong_key_index(5, 5), chain.wrong_key_index(9, 5)), (None, None));
        let why = chain.wrong_key_index(4, 5).unwrap();
        assert!(why.contains("key 3 of account 722011") && why.contains("venue.api_key_index"), "{why}");
    }

    #[test]
    fn another_expiry_is_another_attempt_under_the_same_nonce() {
        let (chain, row) = (chain(), row(Address::ZERO, 1_000_000));
        let later = Fees { max_tip: row.fees.max_tip + 1, ..row.fees };
        let of = |fees| chain.transfer(&row, fees, false).unwrap();
        assert_ne!(of(row.fees).hash(Network::TESTNET), of(later).hash(Network::TESTNET));
        assert_eq!(of(row.fees).nonce, of(later).nonce);
    }

    #[test]
    fn a_cancellation_pays_nobody_and_uses_the_nonce() {
        let (chain, row) = (chain(), row(Address::ZERO, 1_000_000));
        let cancel = chain.transfer(&row, row.fees, true).unwrap();
        assert_eq!((cancel.from, cancel.to, cancel.amount.get()), (chain.account, chain.account, 1));
        assert_eq!((cancel.nonce.get(), cancel.memo.order()), (5, None));
    }

    #[test]
    fn spot_balances_go_back_where_they_came_from() {
        let chain = chain();
        let asset = |index: u64| AccountIndex::new(index).unwrap().packed();
        let of = |currency, units| chain.transfer(&row(currency, units), Fees { max_fee: 0, max_tip: 1 }, false);
        let back = of(asset(3), 5).unwrap();
        assert_eq!((back.asset, back.from_route, back.to_route), (Asset::USDC, Route::Spot, Route::Spot));
        assert_eq!(of(asset(1), 5).unwrap().asset, Asset::ETH);
        assert!(of(asset(2), 5).is_err() && of(Address::ZERO, 0).is_err() && of(Address::ZERO, 1 << 60).is_err());
    }
}
