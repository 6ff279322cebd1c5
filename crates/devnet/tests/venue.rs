//! The client of the venue against its simulator. A binary of its own: it needs no chains.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not their helpers")]

use std::time::Duration;

use alloy::signers::SignerSync;
use devnet::{Keys, NewAccount, VenueAccount, VenueFault, VenueOptions, VenueSimulator};
use domain::venue::{AccountIndex, Asset, Memo, Route, Standing, TxStatus, Units};
use tempfile::TempDir;
use venue::{
    AuthToken, Client, Digest, Expiry, Fee, KeyIndex, Network, Nonce, Options, Quota, Sent, SignedTransfer,
    TokenClaims, Transfer, VenueError,
};

const SOLVER: u64 = 722_011;
const USER: u64 = 100_001;
const SUB_ACCOUNT: u64 = (1 << 47) + 5;
const MILLION: u64 = 1_000_000_000_000;
/// The venue's fee between wallets.
const FEE: u64 = 3_000_000;
/// Longer than a busy machine takes for any answer.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

struct World {
    folder: TempDir,
    simulator: VenueSimulator,
    client: Client,
    solver: VenueAccount,
    user: VenueAccount,
    sub_account: VenueAccount,
}

fn index(index: u64) -> AccountIndex {
    AccountIndex::new(index).unwrap()
}

fn fee(units: u64) -> Fee {
    Fee::new(units).unwrap()
}

fn client(simulator: &VenueSimulator, timeout: Duration) -> Client {
    let options = Options {
        base_url: simulator.url.clone(),
        network: Network(simulator.network_id),
        timeout,
        quota: Quota { calls: 100_000, weight: u32::MAX },
    };
    Client::new(options).unwrap()
}

impl World {
    async fn new() -> Self {
        let folder = devnet::scratch("venue-").unwrap();
        let options = VenueOptions { step: Duration::from_millis(1), ..VenueOptions::default() };
        let simulator = VenueSimulator::start(folder.path(), options).await.unwrap();
        Self::on(folder, simulator)
    }

    fn on(folder: TempDir, simulator: VenueSimulator) -> Self {
        let keys = Keys::new(0);
        let open = |account, wallet, pays_fees, collateral| {
            simulator.open(NewAccount { index: index(account), wallet, pays_fees, collateral }).unwrap()
        };
        let solver = open(SOLVER, keys.treasury, false, MILLION);
        let user = open(USER, keys.users[0], true, MILLION);
        let sub_account = open(SUB_ACCOUNT, keys.users[0], true, 0);
        let client = client(&simulator, LONG_TIMEOUT);
        Self { folder, simulator, client, solver, user, sub_account }
    }

    async fn restart(self) -> Self {
        let Self { folder, simulator, .. } = self;
        drop(simulator);
        let options = VenueOptions { step: Duration::from_millis(1), ..VenueOptions::default() };
        let simulator = VenueSimulator::start(folder.path(), options).await.unwrap();
        Self::on(folder, simulator)
    }

    async fn transfer(&self, from: &VenueAccount, to: u64, units: u64) -> Transfer {
        let key_index = KeyIndex::new(from.api_key_index.into()).unwrap();
        let status = self.client.status().await.unwrap();
        Transfer {
            from: index(from.index),
            key_index,
            to: index(to),
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Perps,
            amount: Units::new(units).unwrap(),
            usdc_fee: fee(FEE),
            memo: Memo([0x5b; 32].into()),
            expires_at: status.expiry(60_000),
            nonce: self.client.next_nonce(index(from.index), key_index).await.unwrap(),
            skips_nonces: false,
        }
    }

    fn sign(&self, by: &VenueAccount, transfer: Transfer) -> SignedTransfer {
        let network = self.client.network();
        let wallet = devnet::Account::new(by.l1_private_key).signer();
        let wallet = wallet.sign_hash_sync(&transfer.wallet_digest(network)).unwrap();
        SignedTransfer::new(transfer, network, &by.key().unwrap(), &[1; 32], Some(wallet))
    }

    async fn pay(&self, from: &VenueAccount, to: u64, units: u64) -> Digest {
        let signed = self.sign(from, self.transfer(from, to, units).await);
        assert!(matches!(self.client.send(&signed).await, Sent::Taken));
        signed.hash(self.client.network())
    }

    async fn until(&self, hash: Digest, status: TxStatus) {
        for _ in 0..2_000 {
            if self.simulator.status(hash).unwrap() == Some(status) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("the transaction does not become {status:?}");
    }

    fn token(&self, of: &VenueAccount) -> AuthToken {
        let key_index = KeyIndex::new(of.api_key_index.into()).unwrap();
        let claims = TokenClaims { deadline: 9_999_999_999, account: index(of.index), key_index };
        AuthToken::new(claims, &of.key().unwrap(), &[2; 32])
    }

    fn collateral(&self, account: u64) -> u64 {
        self.simulator.balance(index(account), Asset::USDC, Route::Perps).unwrap()
    }
}

fn refusal(sent: Sent) -> String {
    match sent {
        Sent::Refused(VenueError::Refused { message, .. }) => message,
        other => panic!("it is not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_transfer_is_taken_committed_and_found_by_its_recipient() {
    let world = World::new().await;
    let client = &world.client;
    let wallet = world.user.l1_address;
    assert_eq!(client.accounts_of(wallet).await.unwrap(), [index(USER), index(SUB_ACCOUNT)]);
    assert_eq!(client.accounts_of([7; 20].into()).await.unwrap(), []);
    let (user, key_index) = (index(USER), KeyIndex::new(3).unwrap());
    let state = client.account(user).await.unwrap().unwrap();
    assert_eq!((state.wallet, state.collateral, state.available), (wallet, MILLION, MILLION));
    assert_eq!(client.account(index(1)).await.unwrap(), None);
    let public = client.public_key(user, key_index).await.unwrap().unwrap();
    assert_eq!(public.to_string(), world.user.api_public_key);
    assert_eq!(client.public_key(user, KeyIndex::new(4).unwrap()).await.unwrap(), None);
    let (of_user, of_solver) = (world.token(&world.user), world.token(&world.solver));
    assert_eq!(client.transfer_fee(user, index(SOLVER), &of_user).await.unwrap(), fee(FEE));
    assert_eq!(client.transfer_fee(index(SOLVER), user, &of_solver).await.unwrap(), Fee::NONE);
    assert_eq!(client.transfer_fee(user, index(SUB_ACCOUNT), &of_user).await.unwrap(), Fee::NONE);
    assert!(client.transfer_fee(user, index(SOLVER), &of_solver).await.is_err(), "a token of another account");

    let hash = world.pay(&world.user, SOLVER, 1_500_000).await;
    world.until(hash, TxStatus::Executed).await;
    assert_eq!(world.collateral(USER), MILLION - 1_500_000 - FEE);
    assert_eq!(world.collateral(SOLVER), MILLION + 1_500_000);
    assert_eq!(client.next_nonce(user, key_index).await.unwrap(), Nonce::new(1).unwrap());
    let incoming = client.incoming_since(index(SOLVER), &world.token(&world.solver), None, 1).await.unwrap();
    assert_eq!(incoming.transfers.iter().map(|row| row.hash).collect::<Vec<_>>(), [hash]);
    let tx = client.transaction(hash).await.unwrap().unwrap();
    let signed = tx.transfer.unwrap();
    assert_eq!((tx.status.standing(), signed.transfer.memo), (Standing::Paid, Memo([0x5b; 32].into())));
    assert_eq!(signed.wallet(client.network()), Some(wallet), "the memo is the wallet's word");
    let none = client.incoming_since(user, &world.token(&world.user), None, 1).await.unwrap();
    assert!(none.transfers.is_empty() && none.mark == incoming.mark);
}

#[tokio::test]
async fn both_signatures_nonce_fee_expiry_and_balance_are_checked() {
    let world = World::new().await;
    let (client, network) = (&world.client, world.client.network());
    let good = world.transfer(&world.user, SOLVER, 1_000_000).await;
    let sign = |transfer| world.sign(&world.user, transfer);
    let stranger = world.sign(&world.solver, good);
    assert!(refusal(client.send(&stranger).await).contains("invalid signature"));
    // The wallet signed one memo, and another is sent: the API key's signature still holds.
    let wallet = devnet::Account::new(world.user.l1_private_key).signer();
    let other = Transfer { memo: Memo([1; 32].into()), ..good };
    let wallet = wallet.sign_hash_sync(&other.wallet_digest(network)).unwrap();
    let renamed = SignedTransfer::new(good, network, &world.user.key().unwrap(), &[0; 32], Some(wallet));
    assert!(refusal(client.send(&renamed).await).contains("L1 signature"));
    let bare = SignedTransfer::new(good, network, &world.user.key().unwrap(), &[0; 32], None);
    assert!(refusal(client.send(&bare).await).contains("L1 signature"));
    let foreign = SignedTransfer::new(good, Network::MAINNET, &world.user.key().unwrap(), &[0; 32], None);
    assert!(refusal(client.send(&foreign).await).contains("invalid signature"));
    let now = client.status().await.unwrap().time_millis;
    for (changed, message) in [
        (Transfer { nonce: Nonce::new(1).unwrap(), ..good }, "invalid nonce"),
        (Transfer { usdc_fee: fee(FEE - 1), ..good }, "fee is too low"),
        (Transfer { expires_at: Expiry::new(now - 1).unwrap(), ..good }, "expired"),
        (Transfer { amount: Units::new(MILLION - FEE + 1).unwrap(), ..good }, "not enough balance"),
        (Transfer { asset: Asset::ETH, from_route: Route::Spot, ..good }, "not enough balance"),
        (Transfer { to: index(1), ..good }, "account not found"),
        (Transfer { key_index: KeyIndex::new(4).unwrap(), ..good }, "api key not found"),
    ] {
        assert!(refusal(client.send(&sign(changed)).await).contains(message), "{message}");
    }
    assert_eq!(world.collateral(USER), MILLION);
    // Between accounts of one wallet its signature may be left out, and nothing is charged.
    let own = Transfer { to: index(SUB_ACCOUNT), usdc_fee: Fee::NONE, ..good };
    let own = SignedTransfer::new(own, network, &world.user.key().unwrap(), &[0; 32], None);
    assert!(matches!(client.send(&own).await, Sent::Taken));
    let again = client.send(&own).await;
    assert!(matches!(&again, Sent::Refused(error) if error.is_invalid_nonce()), "{again:?}");
    // A transaction may leave nonces out if it says so.
    let later = Transfer { nonce: Nonce::new(7).unwrap(), skips_nonces: true, ..good };
    assert!(matches!(client.send(&sign(later)).await, Sent::Taken));
    assert_eq!(world.simulator.next_nonce(index(USER), good.key_index).unwrap(), 8);
}

#[tokio::test]
async fn books_and_open_transactions_outlive_the_simulator() {
    let world = World::new().await;
    let first = world.pay(&world.user, SOLVER, 1_000_000).await;
    world.until(first, TxStatus::Executed).await;
    world.simulator.faults.update(|fault| fault.stuck = true);
    let second = world.pay(&world.user, SUB_ACCOUNT, 2_000_000).await;
    assert_eq!(world.simulator.status(second).unwrap(), Some(TxStatus::Queued));
    assert_eq!(world.collateral(SUB_ACCOUNT), 0);
    let old = world.client.clone();
    let world = world.restart().await;
    assert!(old.status().await.is_err(), "connections to the old one are dead");
    assert_eq!(world.simulator.status(first).unwrap(), Some(TxStatus::Executed));
    world.until(second, TxStatus::Executed).await;
    assert_eq!(world.collateral(SUB_ACCOUNT), 2_000_000);
    assert_eq!(world.collateral(USER), MILLION - 3_000_000 - 2 * FEE);
    // The fee that `transfer` offers is more than the sub-account would have to pay, and more than it has left over.
    let poor = world.sign(&world.sub_account, world.transfer(&world.sub_account, USER, 1).await);
    assert!(refusal(world.client.send(&poor).await).contains("not enough balance"));
}

#[tokio::test]
async fn a_venue_that_is_down_busy_silent_or_garbled_is_told_apart() {
    let world = World::new().await;
    let set = |fault| world.simulator.faults.set(fault);
    set(VenueFault { down: true, ..VenueFault::default() });
    assert!(matches!(world.client.status().await, Err(VenueError::Failing(503))));
    set(VenueFault { busy: true, ..VenueFault::default() });
    assert!(matches!(world.client.status().await, Err(VenueError::Busy(pause)) if pause == Duration::from_secs(1)));
    set(VenueFault { garbage: true, ..VenueFault::default() });
    assert!(matches!(world.client.status().await, Err(VenueError::Json(_))));
    set(VenueFault { stall: true, ..VenueFault::default() });
    let hasty = client(&world.simulator, Duration::from_millis(700));
    assert!(matches!(hasty.status().await, Err(VenueError::Unreachable(_))));
    set(VenueFault { delay: Duration::from_millis(50), ..VenueFault::default() });
    world.client.status().await.unwrap();
    let strict = Options {
        base_url: world.simulator.url.clone(),
        network: Network::MAINNET,
        timeout: LONG_TIMEOUT,
        quota: Quota { calls: 2, weight: 10_000 },
    };
    let strict = Client::new(strict).unwrap();
    assert!(matches!(strict.status().await, Err(VenueError::Invalid(_))), "another network");
    assert!(strict.status().await.is_err());
    assert!(matches!(strict.status().await, Err(VenueError::QuotaUsed(_))));
}

#[tokio::test]
async fn a_send_that_ends_in_an_error_may_have_paid_and_its_hash_says_so() {
    let world = World::new().await;
    let faults = &world.simulator.faults;
    let signed = world.sign(&world.user, world.transfer(&world.user, SOLVER, 1).await);
    let hash = signed.hash(world.client.network());
    faults.update(|fault| fault.error_after_send = true);
    assert!(matches!(world.client.send(&signed).await, Sent::Unknown(_)));
    faults.clear();
    world.until(hash, TxStatus::Executed).await;
    assert!(world.client.transaction(hash).await.unwrap().is_some());
    assert!(matches!(world.client.send(&signed).await, Sent::Refused(error) if error.is_invalid_nonce()));

    let signed = world.sign(&world.user, world.transfer(&world.user, SOLVER, 2).await);
    faults.update(|fault| fault.reject_sends = true);
    assert!(refusal(world.client.send(&signed).await).contains("rejected"));
    faults.set(VenueFault { drop_sends: true, ..VenueFault::default() });
    assert!(matches!(world.client.send(&signed).await, Sent::Taken), "taken, and lost");
    assert_eq!(world.client.transaction(signed.hash(world.client.network())).await.unwrap(), None);
    faults.set(VenueFault { fail_sends: true, ..VenueFault::default() });
    assert!(matches!(world.client.send(&signed).await, Sent::Taken));
    world.until(signed.hash(world.client.network()), TxStatus::Failed).await;
    assert_eq!(world.collateral(USER), MILLION - 1 - FEE, "a failed transfer costs nothing");
    faults.set(VenueFault { forget: true, ..VenueFault::default() });
    assert_eq!(world.client.transaction(hash).await.unwrap(), None, "unknown, and paid");
}

/// The venue executes one transaction of a nonce, and shows the other one as rejected: whoever sent both has paid once.
#[tokio::test]
async fn of_two_transactions_with_one_nonce_one_is_executed_and_one_rejected() {
    for last_first in [false, true] {
        let world = World::new().await;
        let (client, network) = (world.client.clone(), world.client.network());
        world.simulator.faults.update(|fault| (fault.hold_sends, fault.reorder) = (true, last_first));
        let first = world.transfer(&world.user, SOLVER, 1_000_000).await;
        let expires_at = Expiry::new(first.expires_at.get() + 1_000).unwrap();
        let both = [first, Transfer { expires_at, ..first }].map(|transfer| world.sign(&world.user, transfer));
        for signed in [&both[0], &both[1], &both[0]] {
            assert!(matches!(client.send(signed).await, Sent::Unknown(_)));
        }
        assert_eq!(world.simulator.held(), 2, "the same one is kept back once");
        assert_eq!(client.next_nonce(index(USER), first.key_index).await.unwrap(), first.nonce, "nothing is used");
        world.simulator.faults.update(|fault| fault.hold_sends = false);
        let order = if last_first { [1, 0] } else { [0, 1] };
        let [executed, rejected] = order.map(|at| both[at].hash(network));
        world.until(executed, TxStatus::Executed).await;
        let shown = client.transaction(rejected).await.unwrap().unwrap();
        assert_eq!(shown.status, TxStatus::Rejected);
        assert_eq!(world.collateral(USER), MILLION - 1_000_000 - FEE, "paid once");
        let world = world.restart().await;
        assert_eq!(world.simulator.status(rejected).unwrap(), Some(TxStatus::Rejected));
        assert_eq!(world.collateral(SOLVER), MILLION + 1_000_000);
    }
}

#[tokio::test]
async fn a_history_of_pages_in_disorder_is_read_whole_and_once() {
    let world = World::new().await;
    let mut sent = Vec::new();
    for units in 1..=120 {
        sent.push(world.pay(&world.user, SOLVER, units).await);
    }
    world.until(sent[119], TxStatus::Executed).await;
    world.simulator.faults.set(VenueFault { duplicate: true, reorder: true, ..VenueFault::default() });
    let (solver, token) = (index(SOLVER), world.token(&world.solver));
    let all = world.client.incoming_since(solver, &token, None, 3).await.unwrap();
    let mut found: Vec<_> = all.transfers.iter().map(|row| row.hash).collect();
    assert!(all.transfers.is_sorted_by_key(|row| row.time_millis));
    found.sort();
    sent.sort();
    assert_eq!(found, sent);
    assert!(world.client.incoming_since(solver, &token, None, 2).await.is_err(), "a walk that stops short is an error");
    world.simulator.faults.clear();
    let next = world.pay(&world.user, SOLVER, 500).await;
    world.until(next, TxStatus::Executed).await;
    let since = world.client.incoming_since(solver, &token, all.mark, 3).await.unwrap();
    assert!(since.transfers.iter().any(|row| row.hash == next) && since.mark >= all.mark);
}

#[tokio::test]
async fn the_expiry_is_held_against_the_clock_of_the_venue() {
    let world = World::new().await;
    world.simulator.faults.update(|fault| fault.clock_offset_millis = 3_600_000);
    let ahead = world.transfer(&world.user, SOLVER, 1).await;
    world.simulator.faults.clear();
    let here = world.transfer(&world.user, SOLVER, 1).await;
    assert!(ahead.expires_at.get() > here.expires_at.get() + 3_000_000);
    world.simulator.faults.update(|fault| fault.clock_offset_millis = 3_600_000);
    assert!(refusal(world.client.send(&world.sign(&world.user, here)).await).contains("expired"));
    assert!(matches!(world.client.send(&world.sign(&world.user, ahead)).await, Sent::Taken));
}

#[tokio::test]
async fn a_payment_learns_its_nonce_when_reading_has_used_up_its_part() {
    let world = World::new().await;
    let options = Options {
        base_url: world.simulator.url.clone(),
        network: Network(world.simulator.network_id),
        timeout: LONG_TIMEOUT,
        quota: Quota { calls: 10, weight: 10_000 },
    };
    let (client, account) = (Client::new(options).unwrap(), index(SOLVER));
    let key = KeyIndex::new(world.solver.api_key_index.into()).unwrap();
    for _ in 0..8 {
        client.next_nonce(account, key).await.unwrap();
    }
    assert!(matches!(client.next_nonce(account, key).await, Err(VenueError::QuotaUsed(_))), "the rest is for payments");
    client.next_nonce_to_send(account, key).await.unwrap();
}
