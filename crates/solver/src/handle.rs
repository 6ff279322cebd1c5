//! The handle on one chain: its configuration and nodes, the inboxes of its lanes, and its health.

mod alarms;
pub mod fill_time;
mod health;
mod lanes;
mod moved_money;
pub mod trials;
pub mod tx_hints;
pub mod venue;
pub(crate) mod venue_hints;
pub(crate) mod venue_patience;
pub mod venue_rescan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256};
use domain::catalog::Chain;
use domain::gas_refill::GasLevels;
use domain::ids::ChainId;
use domain::ledger;
use domain::money::{Amount, UsdMicros};
use domain::time::Timestamp;
use evm::steps::Entry;
use evm::{EndpointHealth, Funding, Nodes, Watch};
use market::Snapshot;
use store::risk::Limits;

pub use self::health::{CHECK_TIMEOUT_MILLIS, Health};
pub use self::lanes::{Lanes, Payer, PayingWallets, Wallet};
pub use self::moved_money::MovedMoney;
use self::trials::Trials;
use self::tx_hints::TxHints;
use self::venue::VenueChain;

/// Blocks that are walked ahead of what most nodes have: nodes lag behind each other by some. Beyond, the walk waits
/// and it is reported.
const MAX_UNAGREED_BLOCKS: u64 = 8;
/// The same where small deposits are acted on by the word of one node. A fork is found among the kept blocks.
const MAX_BLOCKS_OF_ONE_NODE: u64 = 256;

#[derive(Clone, Debug)]
pub struct Settings {
    /// The first block to read with a database that is new to the chain; none means the head.
    pub start_block: Option<u64>,
    /// Blocks on top of another that make it final.
    pub finality: u64,
    /// Unmined payments a lane may have.
    pub window: u64,
    /// The most a payment may offer per unit of gas, in wei. Above it the lane takes no new work.
    pub max_fee_cap: u128,
    /// Limits of the risk budget: payments against deposits here that are not final.
    pub risk: Limits,
    /// Deposits worth less than this are acted on by the word of one node, if no other denies them.
    pub one_node_below: UsdMicros,
    /// The largest refund out of our own funds. A larger one goes out of the depository, where that is possible.
    pub most_refund: UsdMicros,
    /// The allocator's largest payout, by currency. Empty where no allocator runs.
    pub depository_caps: BTreeMap<Address, Amount>,
    /// Native currency each filler should have, where that is configured.
    pub gas_levels: Option<GasLevels>,
    /// Time after which a request fails whose deposit was reorged away and has not come back.
    pub lost_after_millis: i64,
    /// Time after which the unmined head of a lane is bumped.
    pub bump_after: Duration,
}

#[derive(Debug)]
pub struct ChainHandle {
    pub chain: Chain,
    pub nodes: Nodes,
    pub settings: Settings,
    pub treasury: Address,
    pub watch: Watch,
    pub lanes: Lanes,
    pub health: Health,
    /// Transactions that clients say they have sent here.
    pub tx_hints: TxHints,
    pub trials: Trials,
    pub moved_money: MovedMoney,
    /// The venue's side, where the chain is the venue: it has no nodes and no contracts.
    pub venue: Option<VenueChain>,
}

/// Contracts by which users' transactions enter a chain. `wrapped` is zero where nothing wraps the native currency.
pub fn entry(chain: &Chain) -> Entry {
    let wrapped = chain.dex.map_or(Address::ZERO, |dex| dex.wrapped);
    Entry { router: chain.router, approval_proxy: chain.approval_proxy, wrapped }
}

impl ChainHandle {
    /// `sources` are the wallets from which the operator funds the treasury.
    pub fn new(
        chain: Chain,
        nodes: Nodes,
        settings: Settings,
        treasury: Address,
        sources: &[Address],
        wallets: PayingWallets<'_>,
    ) -> Self {
        let lanes = Lanes::new(wallets, treasury);
        let watch = Watch::new(chain.depository, chain.token_addresses(), lanes.all().map(|wallet| wallet.address));
        let ours = lanes.fillers().into_iter().chain(lanes.relayers()).collect();
        let funding = funding(&chain, treasury, sources, ours);
        let watch = watch.with_entry(Some(entry(&chain))).with_funding(Some(funding));
        let (health, tx_hints, trials) = (Health::default(), TxHints::default(), Trials::default());
        let moved_money = MovedMoney::default();
        Self { chain, nodes, settings, treasury, watch, lanes, health, tx_hints, trials, moved_money, venue: None }
    }

    /// The handle on the venue. Its account is depository, treasury and the one lane at once: money comes in and goes
    /// out by transfers of it.
    pub fn of_venue(chain: Chain, nodes: Nodes, settings: Settings, venue: VenueChain) -> Self {
        let account = venue.account.packed();
        let fillers = &[Payer { address: account, key: None }];
        let lanes = Lanes::new(PayingWallets { fillers, relayers: &[], treasury_lane: None }, account);
        let watch = Watch::new(account, [], []);
        let (health, tx_hints, trials) = (Health::default(), TxHints::default(), Trials::default());
        let moved_money = MovedMoney::default();
        let (treasury, venue) = (account, Some(venue));
        Self { chain, nodes, settings, treasury, watch, lanes, health, tx_hints, trials, moved_money, venue }
    }

    /// Takes note of a transaction that a client says it has sent: by the 32 bytes that rows know it by, and as the
    /// client writes it, because the venue's own hash is longer.
    pub fn note_hint(&self, tx: B256, text: &str) {
        if let Some(venue) = &self.venue {
            venue.note_hint(text);
        }
        self.tx_hints.note(tx);
    }

    pub fn id(&self) -> ChainId {
        self.chain.id
    }

    pub fn block_time(&self) -> Duration {
        Duration::from_millis(self.chain.block_time_millis)
    }

    /// The fillers' wallets.
    pub fn addresses(&self) -> Vec<Address> {
        self.lanes.fillers()
    }

    /// The wallets that send transactions by themselves: the fillers' and the relayers'.
    pub fn senders(&self) -> Vec<Address> {
        self.lanes.fillers().into_iter().chain(self.lanes.relayers()).collect()
    }

    /// True for a relayer. Its transactions settle nothing: they are the users' own.
    pub fn is_relayer(&self, who: Address) -> bool {
        self.lanes.is_relayer(who)
    }

    /// True for the target of a raw call. Permits go to the approval proxy, which no raw call may call.
    pub fn is_raw_call(&self, target: Address) -> bool {
        target != self.chain.approval_proxy
    }

    /// True for the treasury lane. People use the treasury by hand as well, so a transaction of it that is not ours is
    /// no fault.
    pub fn is_treasury_lane(&self, who: Address) -> bool {
        who == self.treasury && !self.lanes.sends(who)
    }

    /// The wallets that the treasury refills.
    pub fn refilled_wallets(&self) -> impl Iterator<Item = Address> {
        let treasury = self.treasury;
        self.senders().into_iter().filter(move |wallet| *wallet != treasury)
    }

    /// Refuses payments until the start-up checks have passed (again).
    pub fn begin(&self, now: Timestamp) {
        self.health.begin(now);
    }

    /// The reason why nothing begins on this chain, neither a promise nor a payment, if there is one: its payments are
    /// in doubt, or an operator has paused it.
    pub fn refusing(&self) -> Option<Arc<String>> {
        self.health.refusing().or_else(|| self.health.paused())
    }

    /// The contradictions between this chain's nodes, which name them, and a walk that too few of them follow.
    pub fn nodes_in_doubt(&self) -> Vec<String> {
        let mut said: Vec<String> = self.nodes.contradictions().iter().map(ToString::to_string).collect();
        let unagreed = self.health.unagreed();
        if !self.may_walk_ahead() || unagreed > MAX_UNAGREED_BLOCKS {
            let waits = format!(
                "too few nodes have the last {unagreed} blocks: deposits in them wait, and nothing becomes final"
            );
            let unwell = self.nodes.health().into_iter().filter_map(unwell);
            said.push(std::iter::once(waits).chain(unwell).collect::<Vec<_>>().join("; "));
        }
        said
    }

    /// True if a block that too few nodes have may be walked. The blocks of one node lead the walk only so far, and
    /// never so far that it could not go back: a fork deeper than finality stops the chain.
    pub fn may_walk_ahead(&self) -> bool {
        self.health.unagreed() < self.max_unagreed()
    }

    pub fn max_unagreed(&self) -> u64 {
        let by_one = self.settings.one_node_below > UsdMicros::default();
        let most = if by_one { MAX_BLOCKS_OF_ONE_NODE } else { MAX_UNAGREED_BLOCKS };
        most.min(self.settings.finality)
    }

    /// True if the word of a node is money here, because there is no other.
    pub fn has_one_node(&self) -> bool {
        self.nodes.len() == 1
    }

    /// True for recipients that are refused: money sent to a token, to the zero address or to ourselves is lost, or
    /// comes back unexplained.
    pub fn cannot_receive(&self, who: Address) -> bool {
        self.chain.cannot_receive(who) || who == self.treasury || self.lanes.sends(who)
    }

    /// True if an amount of a currency can be refunded out of the depository.
    pub fn depository_pays(&self, currency: Address, amount: Amount) -> bool {
        self.settings.depository_caps.get(&currency).is_some_and(|most| amount <= *most)
    }

    /// The most that one more payment can pay out: the snapshot's balance, less gas for a full window and payments
    /// already on their way. Routed tokens are spent through the spend limiter.
    pub fn payable(&self, currency: Address, snapshot: &Snapshot, routed: bool) -> Amount {
        let reserve = self.chain.fill_gas.native_limit.saturating_mul(self.settings.window);
        let payable = snapshot.payable(currency, reserve);
        let payable =
            if routed && !currency.is_zero() { snapshot.payable_through_spend_limiter(currency) } else { payable };
        payable.saturating_sub(self.health.committed(currency))
    }

    /// The wallet with the most native currency.
    pub fn richest(&self, snapshot: Option<&Snapshot>) -> Address {
        let balance = |who: &Address| snapshot.and_then(|snapshot| snapshot.native.get(who).copied());
        self.addresses().into_iter().max_by_key(balance).unwrap_or_default()
    }
}

/// The last error of a node that has not answered since.
fn unwell(node: EndpointHealth) -> Option<String> {
    node.last_error.filter(|_| node.failures_in_a_row > 0).map(|error| format!("{}: {error}", node.host))
}

/// Transfers to the treasury that fund app balances.
fn funding(chain: &Chain, treasury: Address, sources: &[Address], wallets: Vec<Address>) -> Funding {
    let contracts = [chain.depository, chain.router, chain.approval_proxy, treasury];
    let ours =
        wallets.into_iter().chain(contracts).chain(chain.spend_limiter).chain(chain.dex.map(|dex| dex.swap_router));
    let currency = ledger::currency(chain);
    Funding {
        solver: treasury,
        here: currency.is_some(),
        tokens: currency.and_then(|currency| currency.address.packed()).into_iter().collect(),
        ours: ours.collect::<BTreeSet<_>>(),
        sources: sources.iter().copied().collect(),
    }
}
