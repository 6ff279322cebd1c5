//! The venue of a run: a simulator of its own, which misbehaves and restarts, and the accounts of users on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use alloy::primitives::B256;
use anyhow::{Context, Result, bail};
use causeway::config::VenueConfig;
use causeway::local;
use devnet::{Account, BookedTransfer, NewAccount, Rng, VenueAccount, VenueFault, VenueOptions, VenueSimulator};
use domain::venue::{AccountIndex, Asset, Memo, Route, Standing, TxStatus, Units};
use evm::LocalSigner;
use serde_json::Value;
use tokio::sync::watch;
use venue::{Client, Digest, Expiry, Fee, KeyIndex, Network, Nonce, Options, Quota, SignedTransfer, Transfer};

use super::faults::{Counts, add, wait};

pub(crate) const CHAIN: u64 = domain::venue::CHAIN.0;
const SOLVER: u64 = 722_011;
/// The account of the first user; those of the others follow.
const FIRST_USER: u64 = 200_000;
/// Units of USDC.
const SOLVER_COLLATERAL: u64 = 1_000_000_000_000;
const USER_COLLATERAL: u64 = 1_000_000_000;
/// From a transaction's queueing to its commit, and again to its execution.
const STEP: Duration = Duration::from_millis(100);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
const EXPIRY: Duration = Duration::from_secs(600);
/// Looks in a row at a transaction that show the same end before a user believes it.
const BELIEVED: u32 = 3;
/// Transfers that a user signs, of which the venue failed all but the last.
const MAX_TRIES: u32 = 12;
/// The most that the venue's clock is ahead of ours. One that is behind would put transfers before the walk's
/// beginning, which are nobody's deposits.
const MAX_CLOCK_OFFSET_MILLIS: u64 = 25_000;
/// Time of a run in which the venue restarts at least once.
const RESTARTED_WITHIN: Duration = Duration::from_secs(8);
/// Attempts to listen again on the port of a simulator that has just ended.
const RESTART_TRIES: u32 = 100;

/// A transfer that a user is to sign, as the step of a withdrawal states it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub amount: u64,
    pub fee: u64,
    pub memo: B256,
}

impl Order {
    /// The parameters of the one step of a withdrawal.
    pub(crate) fn of(quote: &Value) -> Result<Self> {
        let parameters = &quote["steps"][0]["items"][0]["data"]["action"]["parameters"];
        let number = |name: &str| parameters[name].as_u64().with_context(|| format!("a withdrawal without {name}"));
        let memo = parameters["memo"].as_str().context("a withdrawal without a memo")?.parse()?;
        Ok(Self { amount: number("amount")?, fee: number("usdcFee")?, memo })
    }
}

#[derive(Debug)]
pub(crate) struct Venue {
    folder: PathBuf,
    port: u16,
    solver: VenueAccount,
    client: Client,
    /// None while it restarts.
    simulator: Mutex<Option<VenueSimulator>>,
    /// Accounts of transfers, by their index: one each, so that its balance is conclusive.
    users: Mutex<BTreeMap<usize, VenueAccount>>,
}

impl Venue {
    /// Starts the simulator with the solver's account, whose wallet is the treasury's.
    pub(crate) async fn start(folder: &Path, treasury: Account) -> Result<Self> {
        let folder = folder.join("venue");
        std::fs::create_dir_all(&folder)?;
        let simulator = VenueSimulator::start(&folder, VenueOptions { port: 0, step: STEP }).await?;
        let index = AccountIndex::new(SOLVER)?;
        let new = NewAccount { index, wallet: treasury, pays_fees: false, collateral: SOLVER_COLLATERAL };
        let solver = simulator.open(new)?;
        let client = Client::new(Options {
            base_url: simulator.url.clone(),
            network: Network(simulator.network_id),
            timeout: CALL_TIMEOUT,
            quota: Quota { calls: 1_000_000, weight: u32::MAX },
        })?;
        let port = simulator.url.port().context("a simulator without a port")?;
        let (simulator, users) = (Mutex::new(Some(simulator)), Mutex::default());
        Ok(Self { folder, port, solver, client, simulator, users })
    }

    /// The service's configuration of it, with the keys of the solver's account in this folder.
    pub(crate) fn config(&self, folder: &Path) -> Result<VenueConfig> {
        self.with(|simulator| local::venue(simulator, &self.solver, folder))
    }

    fn simulator(&self) -> MutexGuard<'_, Option<VenueSimulator>> {
        self.simulator.lock().expect("nothing panics while holding it")
    }

    fn with<T>(&self, read: impl FnOnce(&VenueSimulator) -> Result<T>) -> Result<T> {
        read(self.simulator().as_ref().context("the venue restarts")?)
    }

    /// Opens the account of a transfer.
    pub(crate) fn open(&self, transfer: usize, wallet: Account) -> Result<()> {
        let index = AccountIndex::new(FIRST_USER + transfer as u64)?;
        let new = NewAccount { index, wallet, pays_fees: true, collateral: USER_COLLATERAL };
        let account = self.with(|simulator| simulator.open(new))?;
        self.users.lock().expect("nothing panics while holding it").insert(transfer, account);
        Ok(())
    }

    /// The account of a transfer.
    pub(crate) fn account(&self, transfer: usize) -> Result<VenueAccount> {
        let users = self.users.lock().expect("nothing panics while holding it");
        users.get(&transfer).cloned().with_context(|| format!("transfer {transfer} has no account on the venue"))
    }

    /// Everything that the venue's books have.
    pub(crate) fn booked(&self) -> Result<Booked> {
        let solver = AccountIndex::new(SOLVER)?;
        let transfers = self.with(VenueSimulator::transfers)?;
        Ok(Booked { solver, balance: self.balance(SOLVER)?, before: SOLVER_COLLATERAL, transfers })
    }

    fn balance(&self, account: u64) -> Result<u64> {
        let index = AccountIndex::new(account)?;
        self.with(|simulator| simulator.balance(index, Asset::USDC, Route::Perps))
    }

    /// The change of the worth of a transfer's account, in millionths of a dollar. Zero without one.
    pub(crate) fn change(&self, transfer: usize) -> Result<i128> {
        let Ok(account) = self.account(transfer) else { return Ok(0) };
        Ok(i128::from(self.balance(account.index)?) - i128::from(USER_COLLATERAL))
    }

    /// The same of the solver's account.
    pub(crate) fn solver_change(&self) -> Result<i128> {
        Ok(i128::from(self.balance(SOLVER)?) - i128::from(SOLVER_COLLATERAL))
    }

    /// Sends a transfer to the solver as its user would: again until the venue shows it as executed, and under another
    /// nonce when it has failed.
    pub(crate) async fn send(&self, from: &VenueAccount, order: Order) -> Result<Digest> {
        for _ in 0..MAX_TRIES {
            let signed = self.sign(from, order).await?;
            let hash = signed.hash(self.client.network());
            // A status that flickers is not believed before it has been shown a few times in a row.
            let (mut last, mut shown) = (None, 0);
            loop {
                let seen = self.client.transaction(hash).await.ok();
                let status = seen.as_ref().and_then(|tx| tx.as_ref()).map(|tx| tx.status);
                shown = if status == last { shown + 1 } else { 1 };
                last = status;
                match status {
                    Some(TxStatus::Executed) if shown >= BELIEVED => return Ok(hash),
                    Some(status) if status.standing() == Standing::Void && shown >= BELIEVED => break,
                    Some(_) => {}
                    // Lost, or not shown: the same bytes are taken once.
                    None if seen.is_some() => drop(self.client.send(&signed).await),
                    None => {}
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        bail!("the venue fails every transfer of account {}", from.index)
    }

    async fn sign(&self, from: &VenueAccount, order: Order) -> Result<SignedTransfer> {
        let (account, key_index) = (AccountIndex::new(from.index)?, KeyIndex::new(from.api_key_index.into())?);
        let nonce: Nonce = loop {
            match self.client.next_nonce(account, key_index).await {
                Ok(nonce) => break nonce,
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        };
        let expires_at = u64::try_from((UNIX_EPOCH.elapsed()? + EXPIRY).as_millis())?;
        let transfer = Transfer {
            from: account,
            key_index,
            to: AccountIndex::new(SOLVER)?,
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Perps,
            amount: Units::new(order.amount)?,
            usdc_fee: Fee::new(order.fee)?,
            memo: Memo(order.memo),
            expires_at: Expiry::new(expires_at)?,
            nonce,
            skips_nonces: false,
        };
        let network = self.client.network();
        let wallet = LocalSigner::from_hex(&from.l1_private_key.to_string())?;
        let wallet = wallet.sign_digest(transfer.wallet_digest(network));
        Ok(SignedTransfer::new(transfer, network, &from.key()?, &[7; 32], Some(wallet)))
    }

    /// Misbehaves for short spells, and restarts, until the last fault. It begins with a restart, so that a short run
    /// has one, and goes through every disturbance before any comes again.
    pub(crate) async fn misbehave(&self, counts: &Counts, mut calm: watch::Receiver<bool>, mut rng: Rng) -> Result<()> {
        let mut deck = vec![Disturbance::Restart];
        while !*calm.borrow() {
            let disturbance = match deck.pop() {
                Some(disturbance) => disturbance,
                None => {
                    deck = shuffled(&mut rng);
                    continue;
                }
            };
            match disturbance {
                Disturbance::Restart => {
                    drop(self.simulator().take());
                    wait(&mut calm, rng.millis(0, 1_500)).await;
                    self.start_again().await?;
                    add(&counts.venue_restarts, 1);
                }
                Disturbance::Fault(fault) => {
                    self.put(fault)?;
                    add(&counts.venue_faults, 1);
                    wait(&mut calm, rng.millis(300, 2_000)).await;
                }
            }
            self.put(VenueFault::default())?;
            wait(&mut calm, rng.millis(300, 2_500)).await;
        }
        Ok(())
    }

    fn put(&self, fault: VenueFault) -> Result<()> {
        self.with(|simulator| {
            simulator.faults.set(fault);
            Ok(())
        })
    }

    /// Starts the simulator with its journal, at the same address.
    async fn start_again(&self) -> Result<()> {
        let mut tries = 0;
        loop {
            match VenueSimulator::start(&self.folder, VenueOptions { port: self.port, step: STEP }).await {
                Ok(started) => {
                    *self.simulator() = Some(started);
                    return Ok(());
                }
                // Its last connection may still be closing.
                Err(_) if tries < RESTART_TRIES => tries += 1,
                Err(error) => return Err(error.context("the venue does not start again")),
            }
            tokio::time::sleep(POLL_INTERVAL / 5).await;
        }
    }
}

/// A disturbance of the venue, for a short spell.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Disturbance {
    Restart,
    Fault(VenueFault),
}

/// Every disturbance there is, shuffled.
fn shuffled(rng: &mut Rng) -> Vec<Disturbance> {
    let well = VenueFault::default;
    // Within the difference between two clocks that the service accepts.
    let offset = i64::try_from(rng.between(1_000, MAX_CLOCK_OFFSET_MILLIS)).unwrap_or_default();
    let faults = [
        VenueFault { down: true, ..well() },
        VenueFault { stall: true, ..well() },
        VenueFault { delay: rng.millis(50, 600), ..well() },
        VenueFault { busy: true, ..well() },
        VenueFault { garbage: true, ..well() },
        VenueFault { reject_sends: true, ..well() },
        VenueFault { error_after_send: true, ..well() },
        VenueFault { hold_sends: true, ..well() },
        VenueFault { hold_sends: true, reorder: true, ..well() },
        VenueFault { drop_sends: true, ..well() },
        VenueFault { fail_sends: true, ..well() },
        VenueFault { stuck: true, ..well() },
        VenueFault { forget: true, ..well() },
        VenueFault { flicker: true, ..well() },
        VenueFault { unlisted: true, ..well() },
        VenueFault { duplicate: true, reorder: true, ..well() },
        VenueFault { clock_offset_millis: offset, ..well() },
    ];
    let mut left: Vec<Disturbance> = faults.into_iter().map(Disturbance::Fault).collect();
    // Two of them: a restart is what meets every other fault's leftovers.
    left.extend([Disturbance::Restart, Disturbance::Restart]);
    let mut deck = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let at = usize::try_from(rng.roll(u64::try_from(left.len()).unwrap_or(1))).unwrap_or_default();
        deck.push(left.swap_remove(at));
    }
    deck
}

/// Something wrong with a run that was long enough for a restart of the venue and had none.
pub(crate) fn never_restarted(time: Duration, restarts: u64) -> Option<String> {
    (restarts == 0 && time >= RESTARTED_WITHIN).then(|| "the venue was never restarted".to_owned())
}

/// The venue's books: every transfer, and the balance of the solver's account.
#[derive(Debug)]
pub(crate) struct Booked {
    pub solver: AccountIndex,
    pub balance: u64,
    pub before: u64,
    pub transfers: Vec<BookedTransfer>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The members of a fault that are switched on.
    fn switched(fault: &VenueFault) -> BTreeSet<String> {
        let members = |fault: &VenueFault| serde_json::to_value(fault).unwrap().as_object().unwrap().clone();
        let well = members(&VenueFault::default());
        members(fault).into_iter().filter(|(name, value)| well[name] != *value).map(|(name, _)| name).collect()
    }

    #[test]
    fn a_deck_has_a_restart_and_switches_every_fault_on() {
        let all = serde_json::to_value(VenueFault::default()).unwrap();
        let all: BTreeSet<String> = all.as_object().unwrap().keys().cloned().collect();
        for seed in 0..50 {
            let deck = shuffled(&mut Rng::new(seed));
            let faults = deck.iter().filter_map(|disturbance| match disturbance {
                Disturbance::Fault(fault) => Some(switched(fault)),
                Disturbance::Restart => None,
            });
            assert_eq!(faults.flatten().collect::<BTreeSet<_>>(), all);
            assert!(deck.contains(&Disturbance::Restart));
        }
    }

    #[test]
    fn decks_differ_in_their_order() {
        assert_ne!(shuffled(&mut Rng::new(1)), shuffled(&mut Rng::new(2)));
        assert_eq!(shuffled(&mut Rng::new(1)), shuffled(&mut Rng::new(1)));
    }

    #[test]
    fn a_run_that_was_long_enough_had_a_restart() {
        assert!(never_restarted(RESTARTED_WITHIN, 0).is_some());
        assert!(never_restarted(RESTARTED_WITHIN, 1).is_none());
        assert!(never_restarted(Duration::from_secs(1), 0).is_none());
    }
}
