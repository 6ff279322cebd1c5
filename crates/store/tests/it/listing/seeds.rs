//! Requests to list, each different from the others.

use alloy_primitives::{Address, B256, Bytes, U256};
use domain::account::Vm;
use domain::api_key::ApiKeyId;
use domain::catalog::{Catalog, Chain, Class, Currency, FillGas, Presentation};
use domain::fail::{FailReason, RefundFailReason};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::ledger::UsdcMicros;
use domain::money::Amount;
use domain::request::{Next, State};
use domain::time::Timestamp;
use serde_json::{Value as Json, json};
use store::fast_fills::{self, FastFill};
use store::records::{self, Direction, Record};
use store::requests::{self, Child};
use store::{QuoteRow, Store, StoreError, Tx};

const BRIDGE: &str = include_str!("../../../src/stored_quote/rows/bridge.json");
pub const BEGIN: i64 = 1_790_000_000_000;

pub fn id(n: u32) -> RequestId {
    let mut id = B256::repeat_byte(0x11);
    id.0[28..].copy_from_slice(&n.to_be_bytes());
    RequestId(id)
}

pub fn order(n: u32) -> B256 {
    let mut id = B256::repeat_byte(0x22);
    id.0[28..].copy_from_slice(&n.to_be_bytes());
    id
}

/// The first is the user's, the second ours.
pub fn tx_hash(n: u32, ordinal: u8) -> B256 {
    let mut hash = B256::repeat_byte(0x33 + ordinal);
    hash.0[28..].copy_from_slice(&n.to_be_bytes());
    hash
}

pub async fn write<T: Send + 'static>(
    store: &Store,
    unit: impl Fn(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    store.write(unit).await
}

/// A request as it is made. Those that nobody has acted on stay quotes.
#[derive(Clone, Debug, Default)]
pub struct Seed {
    pub changes: Vec<(&'static str, Json)>,
    pub begun: bool,
    pub state: Option<State>,
    pub reason: Option<FailReason>,
    pub refund_reason: Option<RefundFailReason>,
    /// Our transaction, with its purpose.
    pub paid: Option<&'static str>,
    pub deposited: bool,
    pub fast: bool,
    pub child_of: Option<u32>,
}

impl Seed {
    pub fn begun(mut self) -> Self {
        self.begun = true;
        self
    }

    /// Replaces a member of the quote, by its path.
    pub fn with(mut self, path: &'static str, value: Json) -> Self {
        self.changes.push((path, value));
        self
    }

    pub fn state(mut self, state: State) -> Self {
        (self.begun, self.state) = (true, Some(state));
        self
    }

    pub fn deposited(mut self) -> Self {
        (self.begun, self.deposited) = (true, true);
        self
    }

    pub fn paid(mut self, purpose: &'static str) -> Self {
        self.paid = Some(purpose);
        self
    }

    pub fn body(&self, n: u32) -> String {
        let mut quote: Json = serde_json::from_str(BRIDGE).unwrap();
        quote["v"] = json!(1);
        quote["id"] = json!(id(n).to_string());
        quote["created_at"] = json!(BEGIN + i64::from(n) * 1_000);
        for (path, value) in &self.changes {
            let (parent, member) = path.rsplit_once('/').unwrap();
            let parent = quote.pointer_mut(parent).unwrap();
            match parent {
                Json::Array(items) => items[member.parse::<usize>().unwrap()] = value.clone(),
                parent => parent[member] = value.clone(),
            }
        }
        quote.to_string()
    }
}

fn account(n: u8) -> Json {
    json!(Address::repeat_byte(n).to_string().to_lowercase())
}

/// A set in which every fact tells some requests from others.
pub fn garden() -> Vec<Seed> {
    let plain = || Seed::default().begun();
    let mut all = vec![
        plain(),
        plain().with("/ask/user", account(0x44)).with("/ask/recipient", account(0x33)),
        plain().with("/ask/destination", json!([8453, account(2)])).with("/terms/payout", json!([8453, account(2)])),
        plain().deposited().paid("fill").state(State::Success),
        plain().deposited().paid("refund").state(State::Refunded),
        plain()
            .with("/terms", Json::Null)
            .with("/figures/operation", json!("Swap"))
            .with("/ask/destination", json!([8453, account(2)]))
            .deposited()
            .state(State::Success),
        plain().with("/ask/key", json!("key_07070707070707070707")).with("/ask/referrer", json!("shop")),
        plain().with("/ask/key", json!("key_08080808080808080808")),
        plain().with("/figures/input", json!("200000000")),
        plain()
            .with("/ask/wishes", json!({ "app_fees": [{ "recipient": account(6), "bps": 10 }] }))
            .with("/figures/fees/app", json!(["250000"])),
        Seed { fast: true, ..plain().state(State::Submitted) },
        plain().with("/figures/top_up", json!("1000000000000000")),
        Seed { child_of: Some(1), ..Seed::default() },
        Seed { refund_reason: Some(RefundFailReason::AmountTooLowToRefund), ..plain().state(State::Failed) },
        Seed { reason: Some(FailReason::DepositReorged), ..plain().state(State::Failed) },
        plain().with("/ask/origin", json!([10, account(2)])).with("/terms/deposit", json!([10, account(2)])),
    ];
    // Void payments are in no listing of fills, and a transaction that we send for the user is no refund.
    all.push(plain().deposited().paid("void").state(State::Refunding));
    all.push(plain().deposited().paid("relay").state(State::Depositing));
    all.push(plain().deposited().paid("payout").state(State::Refunded));
    all
}

pub async fn sow(store: &Store, seeds: &[Seed]) -> Result<(), StoreError> {
    for (seed, n) in seeds.iter().zip(1u32..) {
        if seed.child_of.is_none() {
            let row = QuoteRow {
                request_id: id(n).0,
                order_id: Some(order(n)),
                created_at: BEGIN + i64::from(n) * 1_000,
                expires_at: BEGIN + 1_000_000_000,
                body: seed.body(n),
            };
            store.write_quote(row).await?;
        }
        let seed = seed.clone();
        write(store, move |tx| grow(tx, &seed, n)).await?;
    }
    Ok(())
}

fn grow(tx: &mut Tx<'_>, seed: &Seed, n: u32) -> Result<(), StoreError> {
    let now = Timestamp::from_millis(BEGIN + i64::from(n) * 1_000);
    if let Some(parent) = seed.child_of {
        let reason = FailReason::DoubleSpend;
        return requests::open_child(
            tx,
            &Child { id: id(n), order: OrderId(order(n)), parent: id(parent), reason },
            now,
        );
    }
    if !seed.begun {
        return Ok(());
    }
    requests::lock_order(tx, OrderId(order(n)))?.unwrap();
    if seed.deposited {
        records::put(tx, &record(n, Direction::In))?;
    }
    if let Some(purpose) = seed.paid {
        payment(tx, n, purpose)?;
        records::put(tx, &record(n, Direction::Out))?;
    }
    if seed.fast {
        let fast = FastFill {
            order: OrderId(order(n)),
            request: id(n),
            attempt: 1,
            key: ApiKeyId::new([9; 10]),
            wallet: Address::repeat_byte(9),
            amount: Amount::new(U256::from(5)),
            held: UsdcMicros(5),
            window_ends: now,
        };
        fast_fills::put(tx, &fast, now)?;
    }
    if let Some(state) = seed.state {
        set_state(tx, id(n), state, seed.reason, seed.refund_reason, now)?;
    }
    Ok(())
}

pub fn set_state(
    tx: &mut Tx<'_>,
    id: RequestId,
    state: State,
    reason: Option<FailReason>,
    refund_reason: Option<RefundFailReason>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let next = Next { state, reason, refund_reason, due: None, withdraw_due: false, release_hold: false };
    requests::set_state(tx, id, &next, now)?;
    store::events::append(tx, id, state, "test", &json!({}), now)
}

pub fn now() -> Timestamp {
    Timestamp::from_millis(BEGIN)
}

pub async fn step(store: &Store, id: RequestId, state: State, reason: Option<FailReason>) -> Result<(), StoreError> {
    write(store, move |tx| set_state(tx, id, state, reason, None, Timestamp::from_millis(BEGIN))).await
}

fn record(n: u32, direction: Direction) -> Record {
    let (ordinal, chain, later) = match direction {
        Direction::In => (1, 8453, 0),
        Direction::Out => (2, 10, 4_500),
    };
    Record {
        request: id(n),
        direction,
        chain: ChainId(chain),
        tx: tx_hash(n, ordinal),
        sender: Address::repeat_byte(1),
        target: Some(Address::repeat_byte(2)),
        value: Amount::ZERO,
        data: Bytes::new(),
        fee: None,
        block_number: u64::from(ordinal) * 100 + u64::from(n),
        block_hash: B256::repeat_byte(7),
        block_time: Timestamp::from_millis(BEGIN + later),
        succeeded: true,
        gone: false,
        failure: None,
    }
}

fn payment(tx: &mut Tx<'_>, n: u32, purpose: &str) -> Result<(), StoreError> {
    let (purpose, state) = if purpose == "void" { ("fill", "void") } else { (purpose, "mined") };
    tx.execute(
        "insert into payment (purpose, subject, request_id, order_id, chain_id, wallet, nonce, target, value, data, gas,
         recipient, currency, amount, state, tx_hash, created_at, updated_at)
         values ($1, $2, $3, $4, 10, $5, $6, $5, '0', $2, 21000, $5, $5, '5', $7, $8, 1, 1)",
        &[
            purpose.into(),
            order(n).into(),
            id(n).into(),
            order(n).into(),
            Address::repeat_byte(3).into(),
            n.into(),
            state.into(),
            tx_hash(n, 2).into(),
        ],
    )?;
    Ok(())
}

pub fn catalog() -> Catalog {
    Catalog::new(vec![chain(8453, "base"), chain(10, "optimism")]).unwrap()
}

fn chain(id: u64, name: &str) -> Chain {
    let id = ChainId(id);
    let currency = |address: Address, symbol: &str, decimals, native| Currency {
        chain: id,
        address: address.into(),
        id: symbol.to_lowercase(),
        symbol: symbol.to_owned(),
        name: symbol.to_owned(),
        decimals,
        class: Class::Stable,
        native,
        logo_uri: String::new(),
        resets_allowance: false,
        authorizations: None,
        held: true,
        target: None,
    };
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
        native: currency(Address::ZERO, "ETH", 18, true),
        tokens: vec![
            currency(Address::repeat_byte(1), "USDC", 6, false),
            currency(Address::repeat_byte(2), "DAI", 18, false),
        ],
        depository: Address::repeat_byte(0xd0),
        router: Address::repeat_byte(0xd1),
        approval_proxy: Address::repeat_byte(0xd2),
        multicall3: Address::repeat_byte(0xd3),
        spend_limiter: None,
        deposit_address_factory: None,
        dex: None,
        block_time_millis: 2_000,
        confirmations: 1,
        tiers: Vec::new(),
        fill_gas: FillGas {
            native_limit: 30_000,
            erc20_limit: 120_000,
            native_typical: 22_280,
            erc20_typical: 65_000,
            contract_typical: 65_000,
            routed_typical: 200_000,
        },
        private_id: None,
    }
}
