//! The solver's means on one chain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use arc_swap::{ArcSwap, ArcSwapOption};
use domain::catalog::Chain;
use domain::gas_refill::GasLevels;
use domain::ids::ChainId;
use domain::money::{Amount, UsdMicros};
use evm::steps::Entry;
use evm::{LocalSigner, Nodes, Watch};
use market::Snapshot;
use store::payments::PaymentRow;
use store::risk::Limits;
use tokio::sync::{Notify, mpsc, watch};

use crate::fill_time::FillTime;
use crate::tx_hints::TxHints;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to begin on a database that has never seen the chain; none means its head.
    pub start_block: Option<u64>,
    /// Blocks on top of another that make it final.
    pub finality: u64,
    /// Unmined payments a lane may have.
    pub window: u64,
    /// The most a payment may offer per unit of gas, in wei. Above it the lane takes no new work.
    pub max_fee_cap: u128,
    /// What may be out against deposits here that are not final.
    pub risk: Limits,
    /// The largest refund out of our own funds. What is worth more goes out of the depository, where that is possible.
    pub most_refund: UsdMicros,
    /// By currency, the most that the allocator pays out at a time. Empty where there is none.
    pub depository_caps: BTreeMap<Address, Amount>,
    /// What each filler should have of the native currency, where that is said.
    pub gas_levels: Option<GasLevels>,
    /// How long a deposit that a reorg took away may stay away before its request fails.
    pub lost_after_millis: i64,
    /// How long the head of a lane may stay unmined before it is offered more.
    pub bump_after: Duration,
}

const UNCHECKED: &str = "the start-up checks have not finished";

/// How many payments may wait for a lane's attention. What does not fit is found in the database.
const INBOX_CAPACITY: usize = 256;

/// Who pays on a chain. The key is only there where this process signs with it.
#[derive(Clone, Debug)]
pub struct Payer {
    pub address: Address,
    pub key: Option<LocalSigner>,
}

/// A wallet that pays on this chain.
#[derive(Debug)]
pub struct Wallet {
    pub address: Address,
    pub key: Option<LocalSigner>,
    /// None while no lane task of this process runs.
    inbox: ArcSwapOption<mpsc::Sender<PaymentRow>>,
}

#[derive(Debug)]
pub struct ChainHandle {
    pub chain: Chain,
    pub nodes: Nodes,
    pub settings: Settings,
    pub treasury: Address,
    pub wallets: Vec<Wallet>,
    /// The treasury's own, where its key is here and it is no filler itself: it fills the others up and pays nobody else.
    treasury_lane: Option<Wallet>,
    pub watch: Watch,
    /// The number of the last block taken in.
    pub taken: watch::Sender<u64>,
    /// A transaction of ours has failed, and somebody may want to know why.
    pub failed: Notify,
    /// What clients say they have sent here.
    pub tx_hints: TxHints,
    refusing: ArcSwapOption<String>,
    /// By currency: what is on its way out or due, and may not be promised again.
    committed: ArcSwap<BTreeMap<Address, Amount>>,
    /// Wallets with payments that the last block taken in does not hold. Not known before there is one.
    unmined: ArcSwapOption<BTreeSet<Address>>,
    pub fill_time: FillTime,
}

/// Where users' transactions enter a chain. Where nothing wraps the native currency, no transaction does.
pub fn entry(chain: &Chain) -> Entry {
    let wrapped = chain.dex.map_or(Address::ZERO, |dex| dex.wrapped);
    Entry { router: chain.router, approval_proxy: chain.approval_proxy, wrapped }
}

impl ChainHandle {
    /// `sources` is from where the operator fills the treasury up; with `treasury_lane` the treasury fills up the fillers.
    #[allow(clippy::too_many_arguments, reason = "each is a thing of its own, and there is one caller")]
    pub fn new(
        chain: Chain,
        nodes: Nodes,
        settings: Settings,
        treasury: Address,
        sources: &[Address],
        payers: &[Payer],
        treasury_lane: Option<&LocalSigner>,
    ) -> Self {
        let wallet =
            |payer: &Payer| Wallet { address: payer.address, key: payer.key.clone(), inbox: Default::default() };
        let wallets: Vec<_> = payers.iter().map(wallet).collect();
        let addresses: Vec<_> = wallets.iter().map(|wallet| wallet.address).collect();
        let treasury_lane = treasury_lane.filter(|_| !addresses.contains(&treasury));
        let treasury_lane = treasury_lane.map(|key| wallet(&Payer { address: treasury, key: Some(key.clone()) }));
        let watch = Watch::new(chain.depository, wallets.iter().chain(&treasury_lane).map(|wallet| wallet.address));
        let funding = crate::funding::watched(&chain, treasury, sources, addresses);
        let watch = watch.with_entry(Some(entry(&chain))).with_funding(Some(funding));
        Self {
            chain,
            nodes,
            settings,
            treasury,
            wallets,
            treasury_lane,
            watch,
            taken: watch::Sender::new(0),
            failed: Notify::new(),
            tx_hints: TxHints::default(),
            refusing: ArcSwapOption::from_pointee(UNCHECKED.to_owned()),
            committed: ArcSwap::default(),
            unmined: ArcSwapOption::empty(),
            fill_time: FillTime::default(),
        }
    }

    /// Makes the lanes' inboxes anew, one per wallet and the keeper's last: what was in the old ones is found in the database.
    pub fn open_inboxes(&self) -> Vec<mpsc::Receiver<PaymentRow>> {
        let open = |wallet: &Wallet| {
            let (inbox, receiver) = mpsc::channel(INBOX_CAPACITY);
            wallet.inbox.store(Some(Arc::new(inbox)));
            receiver
        };
        self.lanes().map(open).collect()
    }

    /// No lane task of this process runs any more.
    pub fn close_inboxes(&self) {
        self.lanes().for_each(|wallet| wallet.inbox.store(None));
    }

    fn lanes(&self) -> impl Iterator<Item = &Wallet> {
        self.wallets.iter().chain(&self.treasury_lane)
    }

    /// The wallet of a lane, in the order of the inboxes.
    pub fn wallet(&self, lane: usize) -> Option<&Wallet> {
        self.lanes().nth(lane)
    }

    /// Whether it is the treasury, and that is used by hand as well: whatever it sends that is not ours is nobody's fault.
    pub fn is_treasury_lane(&self, who: Address) -> bool {
        who == self.treasury && !self.addresses().contains(&who)
    }

    /// Whether this process can sign for a wallet.
    pub fn has_key_of(&self, who: Address) -> bool {
        self.lanes().any(|wallet| wallet.address == who && wallet.key.is_some())
    }

    /// The wallets that the treasury fills up.
    pub fn refilled_wallets(&self) -> impl Iterator<Item = Address> {
        let treasury = self.treasury;
        self.wallets.iter().map(|wallet| wallet.address).filter(move |wallet| *wallet != treasury)
    }

    /// Nothing is paid until the start-up checks have passed (again).
    pub fn begin(&self) {
        self.refuse(Some(UNCHECKED.to_owned()));
        self.unmined.store(None);
    }

    pub fn addresses(&self) -> Vec<Address> {
        self.wallets.iter().map(|wallet| wallet.address).collect()
    }

    /// Money sent to a token, to nobody or to ourselves is lost or comes back as a riddle.
    pub fn cannot_receive(&self, who: Address) -> bool {
        let chain = &self.chain;
        let contracts = [Address::ZERO, chain.depository, chain.router, chain.approval_proxy, chain.multicall3];
        contracts.contains(&who)
            || chain.spend_limiter == Some(who)
            || chain.dex.is_some_and(|dex| dex.swap_router == who)
            || who == self.treasury
            || chain.token(who).is_some()
            || self.addresses().contains(&who)
    }

    /// Whether so much of a currency can be refunded out of the depository.
    pub fn depository_pays(&self, currency: Address, amount: Amount) -> bool {
        self.settings.depository_caps.get(&currency).is_some_and(|most| amount <= *most)
    }

    pub fn id(&self) -> ChainId {
        self.chain.id
    }

    /// Why no payment is made on this chain, where none is.
    pub fn refusing(&self) -> Option<Arc<String>> {
        self.refusing.load_full()
    }

    pub fn refuse(&self, why: Option<String>) {
        self.refusing.store(why.map(Arc::new));
    }

    /// The most that one more payment can pay out: what the snapshot shows, less gas for a full window and what is
    /// already on its way. Tokens that are routed are spent through the spend limiter.
    pub fn payable(&self, currency: Address, snapshot: &Snapshot, routed: bool) -> Amount {
        let reserve = self.chain.fill_gas.native_limit.saturating_mul(self.settings.window);
        let committed = self.committed.load().get(&currency).copied().unwrap_or_default();
        let payable = snapshot.payable(currency, reserve);
        let payable =
            if routed && !currency.is_zero() { snapshot.payable_through_spend_limiter(currency) } else { payable };
        payable.saturating_sub(committed)
    }

    /// The wallet with the most native currency.
    pub fn richest(&self, snapshot: Option<&Snapshot>) -> Address {
        let balance = |who: &Address| snapshot.and_then(|snapshot| snapshot.native.get(who).copied());
        self.addresses().into_iter().max_by_key(balance).unwrap_or_default()
    }

    pub fn commit(&self, amounts: BTreeMap<Address, Amount>) {
        self.committed.store(Arc::new(amounts));
    }

    /// Whose payments are to be looked after.
    pub fn set_unmined(&self, wallets: BTreeSet<Address>) {
        self.unmined.store(Some(Arc::new(wallets)));
    }

    /// Whether a wallet may have payments that are not in a block.
    pub fn has_unmined(&self, wallet: Address) -> bool {
        self.unmined.load().as_ref().is_none_or(|wallets| wallets.contains(&wallet))
    }

    pub fn block_time(&self) -> Duration {
        Duration::from_millis(self.chain.block_time_millis)
    }

    /// Whether this process is the one that sends.
    pub fn sends(&self) -> bool {
        self.wallets.iter().any(|wallet| wallet.inbox.load().is_some())
    }

    /// Hands a committed payment to its lane. One that does not fit is found in the database at the next block.
    pub fn hand_over(&self, payment: PaymentRow) {
        let wallet = self.lanes().find(|wallet| wallet.address == payment.payment.wallet);
        if let Some(inbox) = wallet.and_then(|wallet| wallet.inbox.load_full()) {
            let _ = inbox.try_send(payment);
        }
    }
}
