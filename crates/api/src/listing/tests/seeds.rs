//! The set of requests: one for each letter, each with something that others do not have.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use domain::account::{Account, Vm};
use domain::api_key::{ApiKey, ApiKeyId, KeyLimits, KeyText};
use domain::balance_change::BalanceChange;
use domain::catalog::{Catalog, Chain, Class, Currency};
use domain::deposit_address::{AddressAsk, Derivation, Kind};
use domain::fail::{FailReason, RefundFailReason};
use domain::fees::AppFee;
use domain::fixed_rate::Fixed;
use domain::ids::{ChainId, OrderId, RequestId, SweepId};
use domain::ledger::UsdcMicros;
use domain::money::{Amount, Price, Signed, UsdMicros};
use domain::pricing::{Fresh, Rates, Route, Side, draft};
use domain::quote::{Ask, Call, CurrencyKey, Operation, PermitAsk, Prices, Quote, QuoteOptions, Trade};
use domain::request::{Next, State};
use domain::sweep;
use domain::time::Timestamp;
use domain::venue::CHAIN;
use store::arrivals::{self, Arrival, Place};
use store::blocks::{self, Cursor};
use store::deposit_addresses::{self, DepositAddress, Ends};
use store::fast_fills::{self, FastFill};
use store::keys::StoredText;
use store::records::{self, Direction, Record};
use store::requests::{self, Child};
use store::sealing::MasterKey;
use store::sweeps::{self, Sweep};
use store::{Options, QuoteRow, Store, StoreError, Tx, listing};
use tempfile::TempDir;

use crate::keys::Keys;
use crate::listing::lookup::Lookup;
use crate::quote::tests::{chain, currency, terms};

pub(super) const OWN_KEY: &str = "key_01010101010101010101";
pub(super) const OWN_TEXT: &str = "cwk_0101010101010101010101010101010101010101010101010101010101010101";
pub(super) const FOREIGN_KEY: &str = "key_02020202020202020202";
pub(super) const PRIVATE: &str = "6f1c1e0e-8c0d-4b7e-9d0c-0f6a3a1d2b4c";
const SIBLING_KEY: [u8; 10] = [3; 10];
const BEGIN: i64 = 1_790_000_000_000;
pub(super) const BASE: u64 = 8453;
pub(super) const OPTIMISM: u64 = 10;
const LETTERS: &str = "abcdefghijklmnopqrstu";
/// The address that one of them is paid at, and who paid there.
pub(super) const DEPOSIT_ADDRESS: u8 = 0x77;
const DEPOSITOR: u8 = 0x78;

pub(super) struct World {
    pub store: Store,
    pub catalog: Arc<Catalog>,
    pub keys: Keys,
    pub caller: ApiKey,
    /// Another key of the caller's integrator.
    pub sibling: ApiKey,
    pub stranger: ApiKey,
    _dir: Option<TempDir>,
}

fn number(letter: char) -> u32 {
    u32::try_from(LETTERS.find(letter).unwrap()).unwrap() + 1
}

fn named(byte: u8, letter: char) -> B256 {
    let mut id = B256::repeat_byte(byte);
    id.0[28..].copy_from_slice(&number(letter).to_be_bytes());
    id
}

pub(super) fn id_of(letter: char) -> RequestId {
    RequestId(named(0x11, letter))
}

pub(super) fn order_of(letter: char) -> OrderId {
    OrderId(named(0x22, letter))
}

/// The first transaction is the user's, the second ours.
pub(super) fn hash_of(letter: char, ordinal: u8) -> B256 {
    named(0x33 + ordinal, letter)
}

pub(super) fn letter_of(id: RequestId) -> char {
    LETTERS.chars().find(|letter| id_of(*letter) == id).unwrap()
}

pub(super) fn units(units: u128) -> Amount {
    Amount::new(U256::from(units))
}

fn key(id: [u8; 10], name: &str, wallet: Option<Address>) -> ApiKey {
    ApiKey {
        id: ApiKeyId::new(id),
        name: name.to_owned(),
        wallet,
        limits: KeyLimits::new(false),
        may_force_refund: false,
        created_at: Timestamp::from_millis(BEGIN),
        rotated_at: None,
        revoked_at: None,
    }
}

/// The venue as a chain: one currency and no contracts.
fn venue() -> Chain {
    let native =
        Currency { address: Account::parse(Vm::Venue, "0").unwrap(), ..currency(CHAIN.0, 0, "usdc", 6, Class::Stable) };
    Chain { vm: Vm::Venue, native, tokens: Vec::new(), dex: None, ..chain(CHAIN.0, "venue") }
}

fn catalog() -> Catalog {
    let mut chains = vec![chain(BASE, "base"), chain(OPTIMISM, "optimism"), chain(777, "private")];
    for chain in &mut chains {
        chain.tokens.push(currency(chain.id.0, 4, "weth", 18, Class::Major));
    }
    chains[2].private_id = Some(PRIVATE.to_owned());
    chains.push(venue());
    Catalog::new(chains).unwrap()
}

impl World {
    pub(super) async fn sqlite() -> anyhow::Result<Self> {
        let dir = devnet::scratch("causeway-listing-")?;
        let url = format!("sqlite:{}", dir.path().join("causeway.db").display());
        Self::on(&url, Some(dir)).await
    }

    pub(super) async fn postgres() -> anyhow::Result<Self> {
        let url = devnet::Postgres::shared().await.fresh_database().await?.to_string();
        Self::on(&url, None).await
    }

    async fn on(url: &str, dir: Option<TempDir>) -> anyhow::Result<Self> {
        let options = Options::new(url.parse()?);
        Store::migrate(&options)?;
        let store = Store::open(&options)?;
        let wallet = Some(Address::repeat_byte(0x5f));
        let caller = key([1; 10], "shop", wallet);
        let sibling = key(SIBLING_KEY, "shop, the second", wallet);
        let stranger = key([2; 10], "stranger", Some(Address::repeat_byte(0x60)));
        for (key, text) in [(&caller, [1; 32]), (&stranger, [2; 32]), (&sibling, [3; 32])] {
            let text = StoredText::new(key.id, &KeyText::new(text), &MasterKey::new(&[7; 32])?, [0; 12])?;
            let key = key.clone();
            store.write(move |tx| store::keys::create(tx, &key, &text)).await?;
        }
        let keys = Keys::new(store.clone(), || Timestamp::from_millis(BEGIN));
        let world = Self { store, catalog: Arc::new(catalog()), keys, caller, sibling, stranger, _dir: dir };
        for letter in LETTERS.chars() {
            if letter != 'p' {
                let quote = quote(letter, &world.catalog);
                let row = QuoteRow::new(&quote, Some(order_of(letter)), Timestamp::from_millis(BEGIN * 2));
                match letter {
                    't' => world.store.write(move |tx| paid_at_address(tx, &row)).await?,
                    _ => world.store.write_quote(row).await?,
                }
            }
            world.store.write(move |tx| grow(tx, letter)).await?;
        }
        let catalog = world.catalog.clone();
        let stale = world.store.list(move |tx| listing::stale(tx, &catalog, 100)).await?;
        world.store.write(move |tx| stale.iter().try_for_each(|fresh| listing::put(tx, fresh))).await?;
        Ok(world)
    }

    pub(super) fn lookup(&self) -> Lookup<'_> {
        Lookup { catalog: &self.catalog, store: &self.store, keys: &self.keys }
    }
}

/// 250 USDC on base to optimism.
fn plain(letter: char, catalog: &Catalog) -> Quote {
    let (base, optimism) = (&catalog.chains()[0], &catalog.chains()[1]);
    let (here, there) = (&base.tokens[0], &optimism.tokens[0]);
    let dollars = |dollars: u128| Price::new(dollars * 100_000_000, 8).unwrap();
    let key = |currency: &Currency| CurrencyKey { chain: currency.chain, address: currency.address.clone() };
    let ask = Ask {
        user: Address::repeat_byte(0x11).into(),
        recipient: Address::repeat_byte(0x22).into(),
        refund_to: None,
        origin: key(here),
        destination: key(there),
        trade: Trade::ExactInput,
        amount: units(250_000_000),
        slippage_bps: None,
        referrer: None,
        explicit_deposit: true,
        ttl_secs: None,
        key: None,
        options: QuoteOptions::default(),
    };
    let route = Route {
        origin: Side { chain: base, currency: here },
        deposit: here,
        payout: there,
        destination: Side { chain: optimism, currency: there },
    };
    let rates = Rates {
        prices: Prices {
            origin: dollars(1),
            deposit: dollars(1),
            origin_native: dollars(3_000),
            payout: dollars(1),
            destination: dollars(1),
            destination_native: dollars(3_000),
        },
        fill_cost: units(60_000_000_000_000),
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
    let now = Timestamp::from_millis(BEGIN + i64::from(number(letter)) * 1_000);
    let fresh = Fresh { id: id_of(letter), salt: B256::repeat_byte(9), now };
    draft(&ask, route, rates, &terms()).and_then(|draft| draft.quote(fresh)).unwrap()
}

pub(super) fn place(chain: u64, byte: u8) -> CurrencyKey {
    CurrencyKey { chain: ChainId(chain), address: Address::repeat_byte(byte).into() }
}

/// On the same chain, without a solver.
fn same_chain(quote: &mut Quote, operation: Operation, from: u8, to: u8) {
    quote.terms = None;
    quote.figures.operation = operation;
    (quote.ask.origin, quote.ask.destination) = (place(BASE, from), place(BASE, to));
    if from != 1 {
        let ether = quote.figures.prices.origin_native;
        (quote.figures.prices.origin, quote.figures.prices.destination) = (ether, ether);
        (quote.figures.input, quote.figures.output) = (units(100_000_000_000_000_000), units(100_000_000_000_000_000));
    }
}

fn quote(letter: char, catalog: &Catalog) -> Quote {
    let mut quote = plain(letter, catalog);
    let (ask, figures) = (&mut quote.ask, &mut quote.figures);
    match letter {
        'b' => {
            (ask.user, ask.recipient) = (Address::repeat_byte(0x44).into(), Address::repeat_byte(0x33).into());
            ask.destination = place(OPTIMISM, 2);
            if let Some(terms) = &mut quote.terms {
                terms.payout = place(OPTIMISM, 2);
            }
            figures.operation = Operation::Swap;
            (ask.key, ask.referrer) = (Some(ApiKeyId::new([1; 10])), Some("shop".to_owned()));
            ask.options.app_fees = vec![AppFee { recipient: Address::repeat_byte(0x66), bps: 10 }];
            figures.fees.app = vec![units(250_000)];
        }
        'c' => same_chain(&mut quote, Operation::Swap, 1, 2),
        'd' => {
            (figures.input, figures.output) = (units(90_000_000), units(90_000_000));
            same_chain(&mut quote, Operation::Send, 1, 1);
        }
        'e' => same_chain(&mut quote, Operation::Wrap, 0, 4),
        'f' => same_chain(&mut quote, Operation::Unwrap, 4, 0),
        'g' => ask.options.calls = vec![Call { to: Address::repeat_byte(5), value: Amount::ZERO, data: Bytes::new() }],
        'h' => ask.recipient = Address::repeat_byte(0x33).into(),
        'k' => figures.top_up = Some(units(1_000_000_000_000_000)),
        'l' => figures.fixed = Some(Fixed { rate: "1:1".parse().unwrap(), market_output: units(249_000_000) }),
        'm' => ask.destination = place(777, 1),
        'q' => (ask.key, ask.referrer) = (Some(ApiKeyId::new([2; 10])), Some("shop".to_owned())),
        'r' => {
            (ask.origin, ask.destination) = (place(OPTIMISM, 2), place(BASE, 1));
            figures.operation = Operation::Swap;
            figures.input = units(2_000_000_000);
            if let Some(terms) = &mut quote.terms {
                (terms.deposit, terms.payout) = (place(OPTIMISM, 2), place(BASE, 1));
            }
        }
        's' => {
            ask.options.permit = Some(PermitAsk { valid_secs: 600, relayer: Some(Address::repeat_byte(0x99)) });
        }
        't' => {
            ask.options.deposit_address = Some(AddressAsk { kind: Kind::Strict, recovery: None });
            ask.refund_to = Some(Address::repeat_byte(0x11).into());
        }
        'u' => ask.options.relayed_gas = Some(300_000),
        _ => {}
    }
    quote
}

/// A request whose address is given out and paid at. The transfer into it is its third transaction.
fn paid_at_address(tx: &mut Tx<'_>, quote: &QuoteRow) -> Result<(), StoreError> {
    let (address, order, chain) = (Address::repeat_byte(DEPOSIT_ADDRESS), order_of('t'), ChainId(BASE));
    let (currency, created_at) = (Address::repeat_byte(1), Timestamp::from_millis(BEGIN));
    let block = Cursor { number: 90, hash: B256::repeat_byte(7) };
    blocks::advance(tx, chain, block, created_at, 10)?;
    let given = DepositAddress {
        address,
        request: id_of('t'),
        order,
        kind: Kind::Strict,
        derivation: Derivation::Strict { order, depositor: Address::repeat_byte(0x11) },
        chain,
        currency,
        created_at,
    };
    let ends = Ends { watched_until: created_at, forgotten_at: created_at };
    deposit_addresses::give_out(tx, quote, &given, ends)?.unwrap();
    let arrival = Arrival {
        chain,
        address,
        currency,
        amount: units(250_000_000),
        tx: Some(hash_of('t', 3)),
        log_index: 1,
        sender: Some(Address::repeat_byte(DEPOSITOR)),
        direct: true,
        block_number: 95,
        block_hash: B256::repeat_byte(7),
        ripe_at: 96,
        created_at,
    };
    arrivals::put(tx, &arrival)?;
    let id = SweepId(order.0);
    let sweep = Sweep { id, chain, address, currency, order, request: given.request, reason: None, expected: None };
    sweeps::begin(tx, &sweep, created_at)?;
    arrivals::swept(tx, chain, Place { address, currency }, id)?;
    sweeps::apply(tx, id, sweep::Event::Mined)
}

fn grow(tx: &mut Tx<'_>, letter: char) -> Result<(), StoreError> {
    let now = Timestamp::from_millis(BEGIN + i64::from(number(letter)) * 1_000);
    if letter == 'p' {
        let reason = FailReason::DoubleSpend;
        let child = Child { id: id_of('p'), order: order_of('p'), parent: id_of('a'), reason };
        return requests::open_child(tx, &child, now);
    }
    if letter == 'o' {
        return Ok(());
    }
    requests::lock_order(tx, order_of(letter))?.unwrap();
    if "acdefhtu".contains(letter) {
        put(tx, letter, Direction::In)?;
    }
    if "ah".contains(letter) {
        payment(tx, letter, if letter == 'a' { "fill" } else { "refund" }, hash_of(letter, 2))?;
        put(tx, letter, Direction::Out)?;
    }
    // The relay of a permit is on its way; a sweep and the relay of a smart account's call have brought deposits.
    match letter {
        's' => payment(tx, letter, "relay", hash_of(letter, 2))?,
        't' => payment(tx, letter, "sweep", hash_of(letter, 1))?,
        'u' => payment(tx, letter, "relay", hash_of(letter, 1))?,
        _ => {}
    }
    if letter == 'j' {
        let fast = FastFill {
            order: order_of('j'),
            request: id_of('j'),
            attempt: 1,
            key: ApiKeyId::new([1; 10]),
            wallet: Address::repeat_byte(0x5f),
            amount: units(250_000_000),
            held: UsdcMicros(250_000_000),
            window_ends: now,
        };
        fast_fills::put(tx, &fast, now)?;
    }
    let (state, reason, refund_reason) = match letter {
        'a' | 'c' | 'd' | 'e' | 'f' | 'r' | 'u' => (State::Success, None, None),
        'h' => (State::Refunded, Some(FailReason::SolverBalanceTooLow), None),
        'i' => (State::Failed, Some(FailReason::DepositReorged), Some(RefundFailReason::AmountTooLowToRefund)),
        'j' => (State::Submitted, None, None),
        'n' => (State::Waiting, None, None),
        's' => (State::Depositing, None, None),
        _ => (State::Pending, None, None),
    };
    let later = if letter == 'h' { Timestamp::from_millis(BEGIN + 100_000) } else { now };
    let next = Next { state, reason, refund_reason, due: None, withdraw_due: false, release_hold: false };
    requests::set_state(tx, id_of(letter), &next, later)
}

/// Transactions stand in blocks 100 and more, or 200 and more if they are ours.
fn put(tx: &mut Tx<'_>, letter: char, direction: Direction) -> Result<(), StoreError> {
    let (ordinal, chain, later) = match direction {
        Direction::In => (1, BASE, 0),
        Direction::Out => (2, OPTIMISM, 4_500),
    };
    let record = Record {
        request: id_of(letter),
        direction,
        chain: ChainId(chain),
        tx: hash_of(letter, ordinal),
        sender: Address::repeat_byte(0x11),
        target: Some(Address::repeat_byte(0xd0)),
        value: Amount::ZERO,
        data: Bytes::from_static(&[1, 2, 3]),
        fee: Some(units(21_000_000_000_000)),
        block_number: u64::from(ordinal) * 100 + u64::from(number(letter)),
        block_hash: B256::repeat_byte(7),
        block_time: Timestamp::from_millis(BEGIN + later),
        succeeded: true,
        gone: false,
        failure: None,
    };
    records::put(tx, &record)?;
    let unread = records::unread(tx, record.chain, 0, 1_000)?;
    let changed = |holder, change| BalanceChange { holder, currency: Address::repeat_byte(1), change };
    let changes = [
        changed(Address::repeat_byte(0x11), Signed::reward(units(250_000_000))),
        changed(Address::repeat_byte(0xd0), Signed::cost(units(250_000_000))),
    ];
    let mut own = unread.iter().filter(|unread| unread.tx == record.tx);
    own.try_for_each(|unread| records::set_read(tx, unread, Amount::ZERO, &changes))
}

fn payment(tx: &mut Tx<'_>, letter: char, purpose: &'static str, hash: B256) -> Result<(), StoreError> {
    let who = Address::repeat_byte(0x22);
    tx.execute(
        "insert into payment (purpose, subject, request_id, order_id, chain_id, wallet, nonce, target, value, data, gas,
         recipient, currency, amount, state, tx_hash, created_at, updated_at)
         values ($1, $2, $3, $2, $4, $5, $6, $5, '0', $2, 21000, $5, $7, '249800000', 'mined', $8, 1, 1)",
        &[
            purpose.into(),
            order_of(letter).into(),
            id_of(letter).into(),
            if purpose == "fill" { OPTIMISM } else { BASE }.try_into()?,
            who.into(),
            number(letter).into(),
            Address::repeat_byte(1).into(),
            hash.into(),
        ],
    )?;
    Ok(())
}
