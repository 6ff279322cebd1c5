//! A world without chains: a SQLite database, and the facts a payment decision reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, U256};
use domain::account::Vm;
use domain::catalog::{Catalog, Chain, Class, Currency, FillGas, Presentation};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::{Amount, Price, UsdMicros};
use domain::pair::ByClass;
use domain::pricing::{Fresh, Rates, Route, Side, Terms, draft};
use domain::quote::{Ask, CurrencyKey, Prices, Quote, QuoteOptions, Trade};
use domain::request::State;
use domain::terms::FastFillTerms;
use domain::time::Timestamp;
use evm::{Endpoint, Head, Id, Nodes, SeenDeposit, SentTx};
use market::{Market, Quoted, Snapshot, TokenFunds};
use store::payments::{PaymentRow, Subject};
use store::risk::Limits;
use store::{Store, Tx, lanes, payments, requests};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::context::PayContext;
use crate::env::{Env, Screening};
use crate::error::SolverError;
use crate::handle::{ChainHandle, Payer, PayingWallets, Settings};
use crate::orders;
use crate::quoting::quote::row;
use crate::solver::Solver;

pub(crate) const ORIGIN: ChainId = ChainId(8453);
pub(crate) const DESTINATION: ChainId = ChainId(10);
pub(crate) const ETH: Address = Address::ZERO;
pub(crate) const USDC: Address = Address::repeat_byte(0x01);
pub(crate) const USER: Address = Address::repeat_byte(0x11);
pub(crate) const RECIPIENT: Address = Address::repeat_byte(0x22);
pub(crate) const STRANGER: Address = Address::repeat_byte(0x33);
pub(crate) const FILLER: Address = Address::repeat_byte(0xf1);
pub(crate) const RELAYER: Address = Address::repeat_byte(0xf2);
pub(crate) const TREASURY: Address = Address::repeat_byte(0xf2);
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);
/// The block that every snapshot is of.
pub(crate) const BLOCK: u64 = 1_000;

pub(crate) const ONE_ETHER: u128 = 1_000_000_000_000_000_000;
pub(crate) const ONE_USDC: u128 = 1_000_000;

pub(crate) fn units(units: u128) -> Amount {
    Amount::new(U256::from(units))
}

/// A database, and a context that a test may change before it decides.
pub(crate) struct World {
    pub options: store::Options,
    pub store: Store,
    pub context: PayContext,
    /// Held, so that the lanes count as running here.
    _inboxes: Vec<mpsc::Receiver<PaymentRow>>,
    _folder: TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// `change` may alter the settings of both chains.
    pub(crate) async fn with(change: impl Fn(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("solver.db").display());
        let options = store::Options::new(url.parse().unwrap());
        Store::migrate(&options).unwrap();
        let store = Store::open(&options).unwrap();
        let mut inboxes = Vec::new();
        let mut chains = BTreeMap::new();
        for (id, name) in [(ORIGIN, "base"), (DESTINATION, "optimism")] {
            let handle = handle(chain(id, name), &change);
            inboxes.extend(handle.lanes.open_inboxes());
            handle.health.refuse(None);
            for wallet in [FILLER, RELAYER] {
                store.write::<_, SolverError>(move |tx| Ok(lanes::register(tx, id, wallet)?)).await.unwrap();
            }
            chains.insert(id, (Arc::new(handle), Some(Arc::new(snapshot(id)))));
        }
        let context = PayContext {
            terms: Arc::new(terms()),
            debug_refunds: false,
            chains,
            screening: Arc::new(Screening::default()),
            recipient_code: Arc::default(),
            venue_accounts: Arc::default(),
            past_prices: Arc::default(),
            now: NOW,
            pays: true,
            sends: true,
        };
        Self { options, store, context, _inboxes: inboxes, _folder: folder }
    }

    /// Changes what is known of a chain.
    pub(crate) fn snapshot(&mut self, chain: ChainId, change: impl FnOnce(&mut Snapshot)) {
        let (_, snapshot) = self.context.chains.get_mut(&chain).unwrap();
        let mut changed = Snapshot::clone(snapshot.as_ref().unwrap());
        change(&mut changed);
        *snapshot = Some(Arc::new(changed));
    }

    pub(crate) fn handle(&self, chain: ChainId) -> Arc<ChainHandle> {
        self.context.chains[&chain].0.clone()
    }

    /// Runs one unit of work in the context as it stands.
    pub(crate) async fn unit<T: Send + 'static>(
        &self,
        unit: impl Fn(&mut Tx<'_>, &PayContext) -> Result<T, SolverError> + Send + Sync + 'static,
    ) -> Result<T, SolverError> {
        let context = self.context.clone();
        self.store.write(move |tx| unit(tx, &context)).await
    }

    /// A stored quote of so much from one currency to another.
    pub(crate) async fn quote(&self, from: Address, to: Address, amount: u128) -> (Quote, OrderId) {
        let quote = quote(from, to, amount, QuoteOptions::default());
        let order = quote.order().unwrap().id();
        self.store.begin_quote(row(&quote, Some(order))).unwrap().durable().await.unwrap();
        (quote, order)
    }

    /// A block of the origin shows a deposit.
    pub(crate) async fn deposit(&self, seen: SeenDeposit) -> Result<Vec<PaymentRow>, SolverError> {
        let handle = self.handle(ORIGIN);
        self.unit(move |tx, context| orders::deposits::apply(tx, &handle, head(BLOCK), &seen, context)).await
    }

    /// A solver on this world, with another clock. Its market is empty, and its nodes do not answer.
    pub(crate) fn solver(&self, clock: fn() -> Timestamp) -> Arc<Solver> {
        let chains: BTreeMap<_, _> =
            self.context.chains.iter().map(|(&chain, (handle, _))| (chain, handle.clone())).collect();
        Arc::new(Solver {
            store: self.store.clone(),
            market: Arc::new(Market::new(chains.keys().copied())),
            terms: self.context.terms.clone(),
            chains,
            screening: Arc::default(),
            recipient_code: Arc::default(),
            venue_accounts: Arc::default(),
            refused_recipients: Default::default(),
            past_prices: Arc::default(),
            leased: Arc::default(),
            debug_refunds: false,
            env: Env { clock, random: |_| (), crash: |_| () },
        })
    }

    pub(crate) async fn state(&self, id: RequestId) -> State {
        let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(requests::find(tx, id)?.unwrap().state);
        self.store.read(read).await.unwrap()
    }

    /// The payment for a subject that is not void.
    pub(crate) async fn live(&self, subject: Subject) -> Option<PaymentRow> {
        let read = move |tx: &mut Tx<'_>| match payments::live(tx, &subject)? {
            Some(id) => Ok::<_, SolverError>(payments::find(tx, id)?),
            None => Ok(None),
        };
        self.store.read(read).await.unwrap()
    }
}

pub(crate) fn head(number: u64) -> Head {
    let time = u64::try_from(NOW.secs()).unwrap();
    Head { number, hash: B256::left_padding_from(&number.to_be_bytes()), parent_hash: B256::ZERO, time, base_fee: 0 }
}

/// A deposit through the depository by the quoted wallet, in the block of the snapshots.
pub(crate) fn deposit(order: OrderId, currency: Address, amount: u128) -> SeenDeposit {
    SeenDeposit {
        tx: B256::repeat_byte(0xd1),
        tx_index: 0,
        ordinal: 0,
        log_index: 0,
        id: Id::Event(order.0),
        depositor: USER,
        payer: USER,
        sender: USER,
        currency,
        amount: U256::from(amount),
        to: Some(Address::repeat_byte(0xd0)),
        input: Bytes::new(),
        value: U256::ZERO,
        fee: None,
    }
}

/// The transaction of a payment as a block shows it.
pub(crate) fn sent(row: &PaymentRow, success: bool) -> SentTx {
    let payment = &row.payment;
    SentTx {
        from: payment.wallet,
        nonce: payment.nonce,
        hash: B256::left_padding_from(&[0xee, u8::try_from(row.id.0).unwrap()]),
        index: 0,
        to: Some(payment.target),
        value: payment.value.units(),
        input: payment.data.clone(),
        success,
        gas_used: 21_000,
        effective_gas_price: 1_000_000_000,
        fee: U256::from(21_000_000_000_000u64),
        logs: Vec::new(),
    }
}

fn currency(chain: ChainId, address: Address, id: &str, decimals: u8, class: Class) -> Currency {
    Currency {
        chain,
        address: address.into(),
        id: id.to_owned(),
        symbol: id.to_uppercase(),
        name: id.to_owned(),
        decimals,
        class,
        native: address.is_zero(),
        logo_uri: String::new(),
        resets_allowance: false,
        authorizations: None,
        held: true,
        target: None,
    }
}

pub(crate) fn chain(id: ChainId, name: &str) -> Chain {
    let address = Address::repeat_byte;
    Chain {
        id,
        name: name.to_owned(),
        vm: Vm::Evm,
        presentation: Presentation {
            display_name: name.to_owned(),
            http_rpc_url: String::new(),
            ws_rpc_url: String::new(),
            explorer_url: String::new(),
            explorer_name: String::new(),
            icon_url: None,
        },
        native: currency(id, ETH, "eth", 18, Class::Major),
        tokens: vec![currency(id, USDC, "usdc", 6, Class::Stable)],
        depository: address(0xd0),
        router: address(0xd5),
        approval_proxy: address(0xd2),
        multicall3: address(0xd3),
        spend_limiter: None,
        deposit_address_factory: Some(address(0xd7)),
        dex: None,
        block_time_millis: 2_000,
        confirmations: 1,
        tiers: Vec::new(),
        fill_gas: FillGas {
            native_limit: 40_000,
            erc20_limit: 120_000,
            native_typical: 22_280,
            erc20_typical: 60_000,
            contract_typical: 65_000,
            routed_typical: 200_000,
        },
        private_id: None,
    }
}

fn handle(chain: Chain, change: impl Fn(&mut Settings)) -> ChainHandle {
    let endpoint = Endpoint { http: "http://127.0.0.1:1".parse().unwrap(), ws: None };
    with_nodes(chain, vec![endpoint], Duration::from_secs(1), change)
}

/// A chain with nodes that answer.
pub(crate) fn handle_at(id: ChainId, name: &str, endpoints: Vec<Endpoint>) -> ChainHandle {
    with_nodes(chain(id, name), endpoints, Duration::from_secs(20), |_| ())
}

fn with_nodes(
    chain: Chain,
    endpoints: Vec<Endpoint>,
    timeout: Duration,
    change: impl Fn(&mut Settings),
) -> ChainHandle {
    let nodes = Nodes::new(chain.id, endpoints, timeout).unwrap();
    let most = UsdMicros(i64::MAX);
    let mut settings = Settings {
        start_block: None,
        finality: 10,
        window: 4,
        max_fee_cap: 100_000_000_000,
        risk: Limits { open: most, per_minute: most },
        one_node_below: UsdMicros::default(),
        most_refund: UsdMicros(1_000_000_000),
        depository_caps: BTreeMap::new(),
        gas_levels: None,
        lost_after_millis: 600_000,
        bump_after: Duration::from_secs(12),
    };
    change(&mut settings);
    let wallets = PayingWallets {
        fillers: &[Payer { address: FILLER, key: None }],
        relayers: &[Payer { address: RELAYER, key: None }],
        treasury_lane: None,
    };
    ChainHandle::new(chain, nodes, settings, TREASURY, &[], wallets)
}

/// ETH at 3,000 dollars and USDC at one, with funds for every case.
fn snapshot(chain: ChainId) -> Snapshot {
    let quoted = |dollars: u128| Quoted { price: dollar(dollars), age_secs: 0, max_age_secs: 3_600 };
    let usdc = units(1_000_000 * ONE_USDC);
    Snapshot {
        chain,
        block: BLOCK,
        hash: head(BLOCK).hash,
        time: head(BLOCK).time,
        base_fee: 1_000_000_000,
        tip: 1_000_000,
        data_fee: Amount::ZERO,
        feeds: Arc::default(),
        prices: [(ETH, quoted(3_000)), (USDC, quoted(1))].into(),
        spots: BTreeMap::new(),
        native: [(FILLER, units(50 * ONE_ETHER)), (TREASURY, units(50 * ONE_ETHER))].into(),
        relayers: [(RELAYER, units(ONE_ETHER))].into(),
        tokens: [(
            USDC,
            TokenFunds {
                treasury: usdc,
                allowances: [(FILLER, usdc)].into(),
                spend_limiter: Amount::ZERO,
                limits: BTreeMap::new(),
            },
        )]
        .into(),
        pools: Arc::default(),
        received: Instant::now(),
        max_age: Duration::from_secs(3_600),
    }
}

pub(crate) fn dollar(dollars: u128) -> Price {
    Price::new(dollars * 100_000_000, 8).unwrap()
}

fn terms() -> Terms {
    Terms {
        solver: Address::repeat_byte(0xaa),
        solver_chain: "base".to_owned(),
        flat_fee: UsdMicros(20_000),
        relay_bps: ByClass { stable: 1, major: 6, minor: 15 },
        spread_bps: ByClass { stable: 2, major: 5, minor: 30 },
        rebalance_bps: 0,
        most_impact_bps: 1_000,
        slippage_bps: 200,
        stable_slippage_bps: 50,
        order_lifetime: Duration::from_secs(604_800),
        deposit_addresses: domain::terms::DepositAddressTerms {
            lifetime: Duration::from_secs(15_552_000),
            grace: Duration::from_secs(3_600),
            watch: Duration::from_secs(2_592_000),
        },
        fast_fill: FastFillTerms { margin_bps: 200, window: Duration::from_secs(1_800) },
    }
}

/// A quote at the snapshots' prices.
pub(crate) fn quote(from: Address, to: Address, amount: u128, options: QuoteOptions) -> Quote {
    static SEQUENCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let n = SEQUENCE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let catalog = Catalog::new(vec![chain(ORIGIN, "base"), chain(DESTINATION, "optimism")]).unwrap();
    let (origin, destination) = (&catalog.chains()[0], &catalog.chains()[1]);
    let (deposit, payout) = (origin.token(from).unwrap(), destination.token(to).unwrap());
    let key = |currency: &Currency| CurrencyKey { chain: currency.chain, address: currency.address.clone() };
    let price = |currency: &Currency| if currency.native { dollar(3_000) } else { dollar(1) };
    // The gas of a fill at a gwei and, at an address, of its sweep.
    let gas_units = if options.deposit_address.is_some() { 60_000 + 115_000 } else { 60_000 };
    let ask = Ask {
        user: USER.into(),
        recipient: RECIPIENT.into(),
        refund_to: None,
        origin: key(deposit),
        destination: key(payout),
        trade: Trade::ExactInput,
        amount: units(amount),
        slippage_bps: None,
        referrer: None,
        explicit_deposit: true,
        ttl_secs: None,
        key: None,
        options,
    };
    let side = |chain, currency| Side { chain, currency };
    let route = Route { origin: side(origin, deposit), deposit, payout, destination: side(destination, payout) };
    let rates = Rates {
        prices: Prices {
            origin: price(deposit),
            deposit: price(deposit),
            origin_native: dollar(3_000),
            payout: price(payout),
            destination: price(payout),
            destination_native: dollar(3_000),
        },
        fill_cost: units(gas_units * 1_000_000_000),
        payable: units(1 << 100),
        payable_native: units(1 << 100),
        deposit_need_bps: 0,
        payout_need_bps: 0,
        hedge: None,
        origin_swap: None,
        destination_swap: None,
        losses_known: true,
        fill_millis: 12,
        sponsor_available: UsdMicros(0),
    };
    let mut id = B256::repeat_byte(0x70);
    id.0[24..].copy_from_slice(&n.to_be_bytes());
    let fresh = Fresh { id: RequestId(id), salt: id, now: NOW };
    draft(&ask, route, rates, &terms()).and_then(|draft| draft.quote(fresh)).unwrap()
}
