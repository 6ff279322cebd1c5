//! Cases of relays: those that no node takes, those whose time ends, and the deposits that they bring.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes};
use domain::alarm::Alarm;
use domain::api_key::ApiKeyId;
use domain::ids::OrderId;
use domain::payment::State as PaymentState;
use domain::quote::{Quote, QuoteOptions};
use domain::relay;
use domain::request::State;
use evm::{Endpoint, LocalSigner, Nodes, SeenDeposit};
use serde_json::json;
use store::payments::PaymentRow;
use store::relays::{self, Relay};
use store::{Tx, lanes, payments, requests};
use tokio::sync::mpsc;

use super::scripted;
use super::world::*;
use crate::chain::payment_events::retry;
use crate::error::SolverError;
use crate::gasless::execute;
use crate::gasless::permits::{self, PermitError};
use crate::gasless::relay::{NotBegun, begin};
use crate::handle::{ChainHandle, Payer, PayingWallets};
use crate::payments::amount::{refund_cost, relay_cost};
use crate::payments::send::{give_up_ending, send};

const QUOTED: u128 = 100 * ONE_USDC;
const ACCOUNT: Address = Address::repeat_byte(0x77);
const KEY: &str = "0xdef0fa5c9eb1eb6bb94b19758abb23cafeed8f767ec08975bde8656f7e2be0ef";
/// The lane of the relayer: the filler's comes first.
const LANE: usize = 1;

/// A relay whose permit is good for ten minutes, or a raw call.
fn relay(quote: &Quote, relayer: Address, target: Address) -> Relay {
    Relay {
        request: quote.id,
        chain: ORIGIN,
        account: Address::from_slice(&quote.id.0[12..]),
        relayer,
        target,
        data: Bytes::copy_from_slice(quote.id.0.as_slice()),
        authorizations: Bytes::new(),
        gas: 200_000,
        key: Some(ApiKeyId::new([7; 10])),
        charged: false,
        deadline: NOW.plus(Duration::from_secs(600)),
    }
}

async fn begun(world: &World, relayer: Address, target: Address) -> (Quote, OrderId, Relay, Option<PaymentRow>) {
    let (quote, order) = world.quote(USDC, USDC, QUOTED).await;
    let relay = relay(&quote, relayer, target);
    let stored = relay.clone();
    let unit = move |tx: &mut Tx<'_>, context: &crate::context::PayContext| {
        let mut request = requests::lock_order(tx, order)?.unwrap();
        begin(tx, &mut request, &stored, None, context).map_err(|why| match why {
            NotBegun::Failed(error) => error,
            _ => SolverError::InvariantViolated("it does not begin"),
        })
    };
    let paid = world.unit(unit).await.unwrap();
    (quote, order, relay, paid)
}

fn proxy(world: &World) -> Address {
    world.handle(ORIGIN).chain.approval_proxy
}

/// A chain whose node answers every transaction with these words, and a relayer that can sign for it.
struct Refusing {
    world: World,
    handle: Arc<ChainHandle>,
    sent: Arc<AtomicUsize>,
    _inboxes: Vec<mpsc::Receiver<PaymentRow>>,
}

async fn refusing(words: &'static str) -> Refusing {
    let mut world = World::new().await;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let endpoint: Endpoint = scripted::start(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Some(json!({ "error": { "code": -32000, "message": words } }))
    })
    .await;
    let known = world.handle(ORIGIN);
    let key = LocalSigner::from_hex(KEY).unwrap();
    let wallet = key.address();
    let wallets = PayingWallets {
        fillers: &[Payer { address: FILLER, key: None }],
        relayers: &[Payer { address: wallet, key: Some(key) }],
        treasury_lane: None,
    };
    let nodes = Nodes::new(ORIGIN, vec![endpoint], Duration::from_secs(20)).unwrap();
    let handle = ChainHandle::new(known.chain.clone(), nodes, known.settings.clone(), TREASURY, &[], wallets);
    let inboxes = handle.lanes.open_inboxes();
    handle.health.refuse(None);
    world.unit(move |tx, _| Ok(lanes::register(tx, ORIGIN, wallet)?)).await.unwrap();
    world.snapshot(ORIGIN, |snapshot| {
        snapshot.relayers.insert(wallet, units(ONE_ETHER));
    });
    let handle = Arc::new(handle);
    world.context.chains.get_mut(&ORIGIN).unwrap().0 = handle.clone();
    Refusing { world, handle, sent, _inboxes: inboxes }
}

impl Refusing {
    fn relayer(&self) -> Address {
        self.handle.lanes.relayers()[0]
    }

    async fn row(&self, row: &PaymentRow) -> PaymentRow {
        let id = row.id;
        self.world.store.read(move |tx| payments::find(tx, id)).await.unwrap().unwrap()
    }

    async fn state(&self, relay: &Relay) -> relay::State {
        let id = relay.request;
        self.world.store.read(move |tx| relays::find(tx, id)).await.unwrap().unwrap().state
    }
}

#[tokio::test]
async fn a_relay_that_every_node_refuses_for_good_frees_its_nonce_at_once() {
    // The words, and whether it is given up when it was just sent and when a while has passed.
    for (words, raw_call, at_once, later) in [
        ("intrinsic gas too low", true, true, true),
        ("intrinsic gas too low", false, true, true),
        ("authority already reserved", true, true, true),
        ("we do not like it", true, false, true),
        ("we do not like it", false, false, false),
        ("insufficient funds for gas * price + value", true, false, false),
        ("nonce too high", true, false, false),
        ("nonce too low", true, false, false),
    ] {
        let refusing = refusing(words).await;
        let target = if raw_call { ACCOUNT } else { proxy(&refusing.world) };
        let (_, _, relay, paid) = begun(&refusing.world, refusing.relayer(), target).await;
        let paid = paid.unwrap();
        send(&refusing.world.solver(|| NOW), &refusing.handle, LANE, &paid).await.unwrap();
        assert_eq!(refusing.row(&paid).await.cancelled, at_once, "{words}");
        // The cancellation goes out in the same breath.
        assert_eq!(refusing.sent.load(Ordering::SeqCst), if at_once { 2 } else { 1 }, "{words}");
        assert_eq!(
            refusing.state(&relay).await,
            if at_once { relay::State::Void } else { relay::State::Live },
            "{words}"
        );
        let after = refusing.world.solver(|| NOW.plus(Duration::from_secs(11)));
        if !at_once {
            send(&after, &refusing.handle, LANE, &paid).await.unwrap();
        }
        let row = refusing.row(&paid).await;
        assert_eq!((row.cancelled, row.attempts), (later, if later { 2 } else { 1 }), "{words}");
    }
}

/// Its deposit was there and the order is filled: a reorg took the deposit back, and it had better land again.
#[tokio::test]
async fn a_relay_that_was_paid_out_for_is_tried_for_longer() {
    let refusing = refusing("intrinsic gas too low").await;
    let world = &refusing.world;
    let (quote, order, _, paid) = begun(world, refusing.relayer(), ACCOUNT).await;
    let paid = paid.unwrap();
    assert_eq!(world.deposit(deposit(order, USDC, QUOTED)).await.unwrap().len(), 1);
    assert_eq!(world.state(quote.id).await, State::Pending);
    let id = paid.id;
    world.unit(move |tx, context| Ok(payments::set_state(tx, id, PaymentState::Sent, context.now)?)).await.unwrap();
    for (solver, given_up) in [
        (world.solver(|| NOW.plus(Duration::from_secs(299))), false),
        (world.solver(|| NOW.plus(Duration::from_secs(300))), true),
    ] {
        send(&solver, &refusing.handle, LANE, &paid).await.unwrap();
        assert_eq!(refusing.row(&paid).await.cancelled, given_up);
    }
    // By the clock alone it is not given up at all.
    let (_, other, _, relayed) = begun(world, refusing.relayer(), proxy(world)).await;
    let seen = SeenDeposit { tx: B256::repeat_byte(0xd2), ..deposit(other, USDC, QUOTED) };
    assert_eq!(world.deposit(seen).await.unwrap().len(), 1);
    let late = world.solver(|| NOW.plus(Duration::from_secs(599)));
    assert_eq!(give_up_ending(&late, &refusing.handle, &mut [relayed.unwrap()]).await.unwrap(), []);
}

#[tokio::test]
async fn a_relay_near_the_end_of_its_permit_is_given_up() {
    let world = World::new().await;
    let handle = world.handle(ORIGIN);
    let (_, _, _, paid) = begun(&world, RELAYER, proxy(&world)).await;
    let mut queue = [paid.unwrap()];
    // A block comes every two seconds.
    let early = world.solver(|| NOW.plus(Duration::from_secs(596)));
    assert_eq!(give_up_ending(&early, &handle, &mut queue).await.unwrap(), []);
    let late = world.solver(|| NOW.plus(Duration::from_secs(597)));
    assert_eq!(give_up_ending(&late, &handle, &mut queue).await.unwrap(), [queue[0].id]);
    assert!(queue[0].cancelled);
    assert_eq!(give_up_ending(&late, &handle, &mut queue).await.unwrap(), [], "once");
}

#[tokio::test]
async fn a_relay_that_waits_until_its_permit_is_about_to_end_is_not_sent() {
    for (left_secs, state) in [(4, State::Depositing), (3, State::Failed)] {
        let mut world = World::new().await;
        world.snapshot(ORIGIN, |snapshot| {
            snapshot.relayers.clear();
            snapshot.native.clear();
        });
        let (quote, _, _, paid) = begun(&world, RELAYER, proxy(&world)).await;
        assert!(paid.is_none(), "nobody has gas for it");
        let id = quote.id;
        let due = move |tx: &mut Tx<'_>| store::dues::find(tx, &store::payments::Subject::Relay(id));
        let due = world.store.read(due).await.unwrap().unwrap();
        let time = u64::try_from(NOW.secs()).unwrap() + 600 - left_secs;
        let block = evm::Head { time, ..head(BLOCK + 1) };
        world.unit(move |tx, context| retry(tx, block, &due, context)).await.unwrap();
        assert_eq!(world.state(quote.id).await, state, "{left_secs} seconds before");
    }
}

#[tokio::test]
async fn raw_calls_leave_half_of_a_shared_lane_to_permits() {
    // The window is four.
    let world = World::new().await;
    for n in 0..4 {
        let (_, _, _, paid) = begun(&world, RELAYER, ACCOUNT).await;
        assert_eq!(paid.is_some(), n < 2, "call {n}");
    }
    for n in 0..3 {
        let (_, _, _, paid) = begun(&world, RELAYER, proxy(&world)).await;
        assert_eq!(paid.is_some(), n < 2, "permit {n}");
    }
}

#[tokio::test]
async fn the_calls_of_a_key_count_for_that_key_alone() {
    let world = World::new().await;
    let key = ApiKeyId::new([7; 10]);
    for n in 0..3 {
        let (_, _, relay, _) = begun(&world, RELAYER, ACCOUNT).await;
        let (_, _, permit, _) = begun(&world, RELAYER, proxy(&world)).await;
        let void = move |tx: &mut Tx<'_>, _: &crate::context::PayContext| {
            if n == 0 {
                return Ok(relays::apply(tx, permit.request, relay::Event::Failed, NOW)?);
            }
            Ok(relays::apply(tx, relay.request, relay::Event::Failed, NOW)?)
        };
        world.unit(void).await.unwrap();
    }
    let (before, proxy) = (domain::time::Timestamp::from_millis(0), proxy(&world));
    let counted = move |key, since| {
        move |tx: &mut Tx<'_>| {
            let calls = relays::calls_of_key(tx, ORIGIN, proxy, key, since)?;
            let (permits, void) = relays::voids_on_since(tx, ORIGIN, proxy, since)?;
            Ok::<_, SolverError>((calls, void, permits))
        }
    };
    let read = async |key, since| world.store.read(counted(key, since)).await.unwrap();
    // Void and live calls of the key, void calls of all keys, and void permits.
    assert_eq!(read(key, before).await, ((2, 1), 2, 1));
    assert_eq!(read(key, NOW).await, ((0, 1), 0, 0), "that was long ago");
    assert_eq!(read(ApiKeyId::new([8; 10]), before).await, ((0, 0), 2, 1));
}

/// Contracts of ours trust whoever calls them, or hold somebody's money: no caller chooses them as a target.
#[tokio::test]
async fn calls_of_our_own_contracts_wallets_and_tokens_are_refused() {
    const OTHER_TREASURY: Address = Address::repeat_byte(0xf9);
    let world = World::new().await;
    let known = world.handle(ORIGIN);
    let mut chain = known.chain.clone();
    chain.spend_limiter = Some(Address::repeat_byte(0xd8));
    let endpoint = Endpoint { http: "http://127.0.0.1:1".parse().unwrap(), ws: None };
    let nodes = Nodes::new(ORIGIN, vec![endpoint], Duration::from_secs(1)).unwrap();
    let wallets = PayingWallets {
        fillers: &[Payer { address: FILLER, key: None }],
        relayers: &[Payer { address: RELAYER, key: None }],
        treasury_lane: None,
    };
    let handle = ChainHandle::new(chain, nodes, known.settings.clone(), OTHER_TREASURY, &[], wallets);
    let chain = &handle.chain;
    let ours = [
        ("nobody", Address::ZERO),
        ("depository", chain.depository),
        ("router", chain.router),
        ("approval proxy", chain.approval_proxy),
        ("multicall3", chain.multicall3),
        ("spend limiter", chain.spend_limiter.unwrap()),
        ("factory", chain.deposit_address_factory.unwrap()),
        ("token", USDC),
        ("filler", FILLER),
        ("relayer", RELAYER),
        ("treasury", OTHER_TREASURY),
    ];
    for (name, who) in ours {
        assert!(handle.cannot_receive(who), "{name}");
    }
    assert!(!handle.cannot_receive(ACCOUNT) && !handle.cannot_receive(USER));
    let call = |to| execute::Wish {
        chain: ORIGIN,
        to,
        data: Bytes::from(vec![1, 2, 3, 4]),
        authorizations: Vec::new(),
        request: None,
        key: ApiKeyId::new([7; 10]),
        payer: Some(USER),
        referrer: None,
    };
    let executions = execute::Executions(world.solver(|| NOW));
    for to in [known.chain.deposit_address_factory.unwrap(), known.chain.router, USDC, FILLER] {
        let refused = executions.clone().execute(call(to)).await;
        assert!(matches!(refused, Err(execute::ExecuteError::Target)), "{to}");
    }
}

#[tokio::test]
async fn twenty_permits_that_failed_stop_those_of_the_chain_and_raise_an_alarm() {
    let world = World::new().await;
    let alarms = || world.handle(ORIGIN).health.alarms.all();
    let mut welcome = Vec::new();
    for _ in 0..20 {
        let (_, _, permit, _) = begun(&world, RELAYER, proxy(&world)).await;
        let next = Relay { account: ACCOUNT, ..permit.clone() };
        let unit = move |tx: &mut Tx<'_>, context: &crate::context::PayContext| {
            let is_welcome = permits::is_welcome(tx, &next, context).is_ok();
            relays::apply(tx, permit.request, relay::Event::Failed, context.now)?;
            Ok((is_welcome, permits::is_welcome(tx, &next, context).is_ok()))
        };
        assert!(alarms().is_empty());
        welcome.push(world.unit(unit).await.unwrap());
    }
    assert_eq!(welcome.pop(), Some((true, false)), "the twentieth");
    assert_eq!(welcome, [(true, true); 19]);
    assert!(matches!(alarms().as_slice(), [(Alarm::RelaysStopped, text)] if text.contains("permits")));
}

/// Two posts of one signature race, or one races the user's own deposit: both find the request taken, and only the
/// first has done what it was posted for.
#[tokio::test]
async fn a_permit_is_in_flight_by_its_twin_or_by_a_deposit_of_the_users_own() {
    for (relayed, answer) in [(true, None), (false, Some("this request is already being processed"))] {
        let world = World::new().await;
        let (quote, relay) = match relayed {
            true => {
                let (quote, _, relay, _) = begun(&world, RELAYER, proxy(&world)).await;
                (quote, relay)
            }
            false => {
                let (quote, order) = world.quote(USDC, USDC, QUOTED).await;
                world.deposit(deposit(order, USDC, QUOTED)).await.unwrap();
                let relay = relay(&quote, RELAYER, proxy(&world));
                (quote, relay)
            }
        };
        let again = move |tx: &mut Tx<'_>, context: &crate::context::PayContext| {
            Ok(matches!(permits::begin(tx, &relay, context), Err(PermitError::InFlight)))
        };
        assert!(world.unit(again).await.unwrap());
        let answered = permits::unless_relayed(&world.solver(|| NOW), quote.id, PermitError::InFlight).await;
        assert_eq!(answered.err().map(|error| error.to_string()).as_deref(), answer);
    }
}

#[tokio::test]
async fn a_deposit_by_the_users_own_relay_is_the_users() {
    // In its permit, in another transaction of the relayer, in the same call by somebody else, and in a raw call, which
    // another key may have asked for.
    for (name, permit, same_data, sender, state, children) in [
        ("its permit", true, true, RELAYER, State::Refunding, 0),
        ("another relay", true, false, RELAYER, State::Depositing, 1),
        ("somebody else", true, true, STRANGER, State::Depositing, 1),
        ("a raw call", false, true, RELAYER, State::Depositing, 1),
    ] {
        let world = World::new().await;
        let target = if permit { proxy(&world) } else { ACCOUNT };
        let (quote, order, relay, _) = begun(&world, RELAYER, target).await;
        let input = if same_data { relay.data.clone() } else { Bytes::from(vec![1, 2, 3, 4]) };
        let half = deposit(order, USDC, QUOTED / 2);
        let seen = SeenDeposit { payer: STRANGER, sender, to: Some(relay.target), input, ..half };
        world.deposit(seen).await.unwrap();
        assert_eq!(world.state(quote.id).await, state, "{name}");
        let id = quote.id;
        let found = world.store.read(move |tx| requests::children(tx, id)).await.unwrap().len();
        assert_eq!(found, children, "{name}");
    }
}

/// Hold and cap of a sponsor go by the limit: a plain transfer on the same chain must not need those of a trade.
#[test]
fn a_relay_has_the_gas_of_a_trade_only_where_it_trades_or_takes_as_much() {
    let bridge = quote(USDC, USDC, QUOTED, QuoteOptions::default());
    let same_chain = Quote { terms: None, ..bridge.clone() };
    assert!(same_chain.origin_swap.is_none());
    let limits = |quote: &Quote| [0, 110_000, 200_000, u64::MAX].map(|estimate| permits::gas_limit(quote, estimate));
    assert_eq!(limits(&bridge), [175_000, 175_000, 250_000, 262_500]);
    assert_eq!(limits(&same_chain), [175_000, 175_000, 250_000, 540_000]);
}

#[tokio::test]
async fn a_refund_bears_the_gas_of_the_relay_that_brought_its_deposit() {
    let world = World::new().await;
    let (_, order, relay, _) = begun(&world, RELAYER, proxy(&world)).await;
    let half = deposit(order, USDC, QUOTED / 2);
    let seen = SeenDeposit { sender: RELAYER, to: Some(relay.target), input: relay.data.clone(), ..half };
    let paid = world.deposit(seen).await.unwrap();
    let (handle, snapshot) = (world.handle(ORIGIN), world.context.chains[&ORIGIN].1.clone().unwrap());
    let transfer = refund_cost(&handle, &snapshot, USDC, false).unwrap().unwrap();
    let burnt = relays::Burnt { fee: None, gas: relay.gas };
    let burnt = relay_cost(&handle, &snapshot, burnt, USDC).unwrap().unwrap();
    assert!(!burnt.is_zero());
    let amounts: Vec<_> = paid.iter().map(|row| row.payment.amount).collect();
    assert_eq!(amounts, [units(QUOTED / 2).saturating_sub(transfer).saturating_sub(burnt)]);
}
