//! Money at a deposit address that has its confirmations: it is swept, priced anew, sent back, or left where it is.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use domain::account::Account;
use domain::alarm::Alarm;
use domain::arrival::{Arrived, Plan, plan, since, unquotable};
use domain::deposit::too_late;
use domain::deposit_address::{Factory, Kind};
use domain::fail::FailReason;
use domain::ids::{ChainId, OrderId};
use domain::loss::takes_place;
use domain::money::{Amount, OutOfRange};
use domain::quote::{Ask, CurrencyKey, Quote, RefundTarget, Trade};
use domain::request::State;
use domain::time::Timestamp;
use evm::At;
use store::arrivals::{self, Arrival, Place};
use store::blocks::Cursor;
use store::deposit_addresses::{self, DepositAddress};
use store::requests::Request;
use store::sweeps::Missing;
use store::{Tx, deposits, fast_fills, losses, requests, settlements, sweeps};
use tracing::{debug, error};

use crate::deposit_addresses::balances::note_balance;
use crate::deposit_addresses::senders::{blocked_sender, depositor};
use crate::deposit_addresses::sweep::{self, Decided, Purpose};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::payments::{gas, max_voids};
use crate::quoting::quote::{QuoteError, Quoter, row};
use crate::solver::Solver;

/// Balances settled in one round.
const PLACES_PER_ROUND: u16 = 16;
/// Delay before a balance that waits is looked at again. Another transfer to it is looked at when it has its
/// confirmations.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// The same for one that a person has to look at.
const STUCK_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// The block at which a transfer has its confirmations, by the worth that its quote gives it.
pub(super) fn ripe_at(handle: &ChainHandle, quote: &Quote, currency: Address, amount: Amount, block: u64) -> u64 {
    let worth = quote.deposit_worth(&handle.chain, currency, amount);
    block.saturating_add(u64::from(handle.chain.confirmations_for(worth)).saturating_sub(1))
}

/// Settles the balances that are ripe at this block.
pub(super) async fn settle(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    quoter: &Quoter,
    at: Cursor,
) -> Result<(), SolverError> {
    let (chain, now) = (handle.id(), solver.now());
    if handle.refusing().is_some() {
        return Ok(());
    }
    let read = move |tx: &mut Tx<'_>| arrivals::ripe(tx, chain, at.number, now, PLACES_PER_ROUND);
    let mut trouble = Ok(());
    for place in solver.store.read(read).await? {
        // Anybody can have the nodes disagree about one address: the others have their turn.
        if let Err(error) = settle_one(solver, handle, quoter, at, place).await {
            postpone(solver, handle, place, RETRY_AFTER).await?;
            trouble = trouble.and(Err(error));
        }
    }
    trouble
}

/// The database's side of a balance.
#[derive(Clone, Debug)]
struct PlaceFacts {
    given: DepositAddress,
    request: Request,
    order_paid: bool,
    awaited: Option<Amount>,
    /// An integrator stands for the deposit of the order.
    in_one: bool,
    missing: Vec<Missing>,
    waiting: Vec<Arrival>,
    voids: u64,
}

impl PlaceFacts {
    /// None while a sweep of the balance is under way, or where the address is not known.
    fn read(tx: &mut Tx<'_>, chain: ChainId, place: Place) -> Result<Option<Self>, SolverError> {
        if sweeps::is_live(tx, chain, place.address, place.currency)? {
            return Ok(None);
        }
        let Some(given) = deposit_addresses::find(tx, place.address)? else { return Ok(None) };
        let Some(request) = requests::find(tx, given.request)? else { return Ok(None) };
        let has_deposit = deposits::of_order(tx, given.order)?.is_some();
        let order_paid = request.state != State::Waiting || has_deposit;
        let filled = settlements::outcome(tx, given.order)? == Some(store::payments::Purpose::Fill);
        let awaited = match filled && !has_deposit {
            true => awaited(tx, &given, &request)?,
            false => None,
        };
        let waiting = arrivals::waiting_at(tx, chain, place.address, place.currency)?;
        let voids = sweeps::voids(tx, chain, place.address, place.currency)?;
        let missing = sweeps::missing(tx, chain, place.address, place.currency)?;
        let in_one = fast_fills::is_stood_for(tx, given.order)?;
        Ok(Some(Self { given, request, order_paid, awaited, in_one, missing, waiting, voids }))
    }

    /// True if a decision by these facts is one by newer ones too. Transfers that came since are decided about by
    /// themselves.
    fn still_hold(&self, now: &Self) -> bool {
        let decisive = |facts: &Self| (facts.order_paid, facts.awaited, facts.voids);
        decisive(self) == decisive(now) && self.missing == now.missing
    }
}

/// The deposit that an order which was filled without it awaits.
fn awaited(tx: &mut Tx<'_>, given: &DepositAddress, request: &Request) -> Result<Option<Amount>, SolverError> {
    let Some(known) = losses::find(tx, given.order)? else { return Ok(Some(request.quote.figures.deposit)) };
    let shortfall = sweeps::shortfall(tx, given.order, None)?;
    // A fast fill, and an order of a strict address, await all of it: parts pay for neither.
    let is_in_one = given.kind == Kind::Strict || fast_fills::is_stood_for(tx, given.order)?;
    let awaited = if is_in_one { known.loss.amount } else { shortfall };
    Ok((!shortfall.is_zero()).then_some(awaited))
}

async fn settle_one(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    quoter: &Quoter,
    at: Cursor,
    place: Place,
) -> Result<(), SolverError> {
    let chain = handle.id();
    let read = move |tx: &mut Tx<'_>| PlaceFacts::read(tx, chain, place);
    let Some(facts) = solver.store.read(read).await? else { return Ok(()) };
    // The newest balance, because a sweep that the walk has seen mined must not be counted again; and no more than
    // there was in the block that we have searched, because nobody knows yet whose the rest is.
    let (newest, searched) =
        tokio::try_join!(balance_at(handle, place, At::Latest), balance_at(handle, place, At::Hash(at.hash)))?;
    let (Some(newest), Some(searched)) = (newest, searched) else {
        return postpone(solver, handle, place, RETRY_AFTER).await;
    };
    let balance = newest.min(searched);
    if newest.is_zero() && searched.is_zero() {
        // Somebody else swept it, or a reorg took it away.
        return solver.store.write(move |tx: &mut Tx<'_>| Ok(arrivals::left(tx, chain, place)?)).await;
    }
    if balance.is_zero() {
        return postpone(solver, handle, place, RETRY_AFTER).await;
    }
    let derived = handle.chain.deposit_address_factory.map(|it| Factory::new(it).address_of(facts.given.derivation));
    if derived != Some(place.address) {
        return stop(solver, handle, place, "the configured factory is not the one that it comes from".to_owned())
            .await;
    }
    let blocked = blocked_sender(&facts.waiting, &solver.screening.load());
    if let Some(who) = blocked {
        return stop(solver, handle, place, format!("the blocked wallet {who:#x} has paid there; a person decides"))
            .await;
    }
    if facts.voids >= max_voids(store::payments::Purpose::Sweep) {
        return stop(solver, handle, place, "it cannot be swept; a person has to look at it".to_owned()).await;
    }
    let waited = waited(&facts, balance, solver.now())?;
    if !is_known(solver, handle, at, place, &facts, balance, waited).await? {
        return postpone(solver, handle, place, Duration::from_secs(1)).await;
    }
    let arrived = arrived(solver, handle, place, &facts, balance, waited.unwrap_or_default());
    let grace = solver.terms.deposit_addresses.grace;
    let Some((purpose, amount)) = decide(solver, handle, quoter, place, &facts, &arrived).await? else {
        // The longer it has been there, the less often it is looked at: anybody can leave dust at many addresses.
        let soonest = RETRY_AFTER.min(grace).max(Duration::from_secs(1));
        return postpone(solver, handle, place, (arrived.age / 4).clamp(soonest, STUCK_RETRY_AFTER)).await;
    };
    let depositor = depositor(&facts.request.quote, &facts.waiting, balance).unwrap_or_default();
    let decided = Decided { place, amount, purpose, depositor };
    let (depositing, context) = (handle.clone(), solver.context());
    let until = context.now.plus(solver.terms.deposit_addresses.watch);
    let unit = move |tx: &mut Tx<'_>| {
        // Nodes were asked since the facts were read.
        if PlaceFacts::read(tx, chain, place)?.is_none_or(|now| !facts.still_hold(&now)) {
            return Ok(None);
        }
        deposit_addresses::watch_until(tx, facts.given.address, until)?;
        if decided.amount.units() < balance {
            // The rest is known by transfers afterwards, whatever is known of it now.
            note_balance(tx, &depositing, at, &facts.given, place.currency, balance, &context)?;
        }
        sweep::sweep(tx, &depositing, &facts.given, &decided, &context)
    };
    match solver.store.write(unit).await? {
        Some(paid) => {
            solver.hand_over(vec![paid]);
            solver.crash("address.swept");
            Ok(())
        }
        None => postpone(solver, handle, place, Duration::from_secs(1)).await,
    }
}

/// The purpose of a sweep, and how much of the balance it is for. None while the balance waits.
async fn decide(
    solver: &Solver,
    handle: &ChainHandle,
    quoter: &Quoter,
    place: Place,
    facts: &PlaceFacts,
    arrived: &Arrived,
) -> Result<Option<(Purpose, Amount)>, SolverError> {
    let (balance, grace) = (arrived.balance, solver.terms.deposit_addresses.grace);
    let plan = plan(arrived, grace)?;
    match (plan, facts.given.kind) {
        (Plan::Wait, _) => return Ok(None),
        (Plan::Sweep, Kind::Strict) => return Ok(Some((Purpose::Order, balance))),
        (Plan::Sweep | Plan::Requote, _) => {}
    }
    let worth = |amount| is_worth_returning(solver, handle, place.currency, amount);
    let is_worth_it = |amount| worth(amount) != Some(false);
    Ok(match share(&facts.missing, balance, worth)? {
        Share::Waits => None,
        Share::For(&Missing { order, request, .. }, amount) => Some((Purpose::Again { order, request }, amount)),
        Share::Free if plan == Plan::Sweep && (facts.in_one || arrived.awaited.is_none_or(is_worth_it)) => {
            // An integrator may have counted on less than was quoted: what comes beyond that is theirs.
            let most = |awaited: Amount| if facts.in_one { awaited.max(arrived.quoted) } else { awaited };
            Some((Purpose::Order, arrived.awaited.map_or(balance, |awaited| most(awaited).min(balance))))
        }
        Share::Free => requote(quoter, handle, place, facts, arrived, grace).await.map(|purpose| (purpose, balance)),
    })
}

/// Whom a balance of an open address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share<'a> {
    /// Nobody was paid out for it.
    Free,
    Waits,
    /// So much of it is for an order that was paid out and has lost its deposit.
    For(&'a Missing, Amount),
}

/// Orders with a missing deposit come first, each with no more than it misses. However little has come, its recipient
/// has been paid for it before a reorg took the deposit away: priced anew, it would be paid out twice. `worth` says
/// whether an amount is worth its gas, if that is known: an order that misses less misses nothing.
fn share(
    missing: &[Missing],
    balance: Amount,
    worth: impl Fn(Amount) -> Option<bool>,
) -> Result<Share<'_>, OutOfRange> {
    for missing in missing {
        let amount = balance.min(missing.amount);
        if missing.in_one {
            // Worth its gas or not: an integrator would pay for it.
            match takes_place(missing.amount, balance)? {
                true => return Ok(Share::For(missing, amount)),
                false => continue,
            }
        }
        if worth(missing.amount) == Some(false) {
            continue;
        }
        return Ok(if worth(amount) == Some(true) { Share::For(missing, amount) } else { Share::Waits });
    }
    Ok(Share::Free)
}

/// True if somebody is named or known whom the balance goes back to.
fn can_go_back(facts: &PlaceFacts, balance: Amount) -> bool {
    let quote = &facts.request.quote;
    quote.refund_target() != RefundTarget::Nobody && depositor(quote, &facts.waiting, balance.units()).is_some()
}

async fn balance_at(handle: &ChainHandle, place: Place, at: At) -> Result<Option<U256>, SolverError> {
    let asked = [(place.address, place.currency)];
    let balances = handle.nodes.seconded_balances(handle.chain.multicall3, &asked, at).await?;
    Ok(balances.first().copied().flatten())
}

/// The time for which a balance has been there, dust aside. None while most of it is not known by transfers.
fn waited(facts: &PlaceFacts, balance: U256, now: Timestamp) -> Result<Option<Duration>, SolverError> {
    let transfers = facts.waiting.iter().map(|arrival| (arrival.created_at, arrival.amount)).collect();
    let since = since(transfers, facts.request.quote.figures.deposit, Amount::new(balance))?;
    let age = |since: Timestamp| u64::try_from(now.millis().saturating_sub(since.millis())).unwrap_or_default();
    Ok(since.map(|since| Duration::from_millis(age(since))))
}

/// True if most of a balance is known by transfers. Otherwise it is kept from now on as one that only the balance tells
/// of: its time begins then, and not with dust that came before.
async fn is_known(
    solver: &Solver,
    handle: &Arc<ChainHandle>,
    at: Cursor,
    place: Place,
    facts: &PlaceFacts,
    balance: U256,
    waited: Option<Duration>,
) -> Result<bool, SolverError> {
    if waited.is_some() {
        return Ok(true);
    }
    let (handle, given, context) = (handle.clone(), facts.given.clone(), solver.context());
    let unit =
        move |tx: &mut Tx<'_>| note_balance(tx, &handle, at, &given, place.currency, balance, &context).map(|_| false);
    solver.store.write(unit).await
}

/// Leaves a balance where it is until a person has decided.
async fn stop(solver: &Solver, handle: &ChainHandle, place: Place, why: String) -> Result<(), SolverError> {
    error!(chain.id = %handle.id(), address = %place.address, "money at a deposit address is not swept: {why}");
    handle.health.alarms.raise(Alarm::AddressStopped, format!("{:#x}: {why}", place.address));
    postpone(solver, handle, place, STUCK_RETRY_AFTER).await
}

async fn postpone(solver: &Solver, handle: &ChainHandle, place: Place, by: Duration) -> Result<(), SolverError> {
    let (chain, until) = (handle.id(), solver.now().plus(by));
    solver.store.write(move |tx: &mut Tx<'_>| Ok(arrivals::postpone(tx, chain, place, until)?)).await
}

fn arrived(
    solver: &Solver,
    handle: &ChainHandle,
    place: Place,
    facts: &PlaceFacts,
    balance: U256,
    age: Duration,
) -> Arrived {
    let (given, quote) = (&facts.given, &facts.request.quote);
    let snapshot = solver.market.latest(handle.id());
    let chain_time = snapshot.as_ref().and_then(|snapshot| i64::try_from(snapshot.time).ok());
    let now = chain_time.map_or_else(|| solver.now(), Timestamp::from_secs);
    let balance = Amount::new(balance);
    let worth_returning = is_worth_returning(solver, handle, place.currency, balance).unwrap_or(false);
    Arrived {
        kind: given.kind,
        as_quoted: (given.chain, given.currency) == (handle.id(), place.currency),
        balance,
        quoted: quote.figures.deposit,
        order_paid: facts.order_paid,
        awaited: facts.awaited,
        late: too_late(quote, now).is_some(),
        age,
        worth_returning,
    }
}

/// True if a balance is worth more than the gas of its sweep and of a transfer back. None without prices.
fn is_worth_returning(solver: &Solver, handle: &ChainHandle, currency: Address, balance: Amount) -> Option<bool> {
    let (snapshot, native) = (solver.market.latest(handle.id())?, currency.is_zero());
    // The dearest transfer that a return may be: that it is refused for its gas afterwards would cost us the sweep.
    let back = snapshot.cost(gas::generous_limit(handle.chain.fill_gas, native));
    let cost = gas::sweep_cost(&snapshot, native).checked_add(back).ok()?;
    let token = handle.chain.token(currency)?;
    let worth = snapshot.price(currency).ok()?.usd_floor(balance, token.decimals).ok()?;
    let cost = snapshot.price(Address::ZERO).ok()?.usd_ceil(cost, handle.chain.native.decimals).ok()?;
    Some(worth > cost)
}

/// Prices what has arrived. Where that cannot be done, it goes back to whoever is named or known; none while it waits.
async fn requote(
    quoter: &Quoter,
    handle: &ChainHandle,
    place: Place,
    facts: &PlaceFacts,
    arrived: &Arrived,
    grace: Duration,
) -> Option<Purpose> {
    let mut ask = Ask {
        origin: CurrencyKey { chain: handle.id(), address: Account::from(place.currency) },
        trade: Trade::ExactInput,
        amount: arrived.balance,
        ..facts.request.quote.ask.clone()
    };
    // Granted for the quoted payment alone: anybody pays at an open address, as often and as little as they like.
    (ask.options.sponsor, ask.options.fixed_rate, ask.options.top_up) = (None, None, None);
    let priced = match quoter.prepare(&mut ask).await {
        Ok(()) => quoter.price(ask),
        Err(error) => Err(error),
    };
    let refused = match priced {
        Ok(quoted) => {
            let order: OrderId = quoted.order_id?;
            let supersedes = !facts.order_paid;
            return Some(Purpose::Requoted { quote: row(&quoted.quote, Some(order)), order, supersedes });
        }
        Err(refused) => refused,
    };
    debug!(chain.id = %handle.id(), address = %place.address, %refused, "the balance of a deposit address cannot be quoted");
    let too_low = matches!(refused, QuoteError::TooLow { .. } | QuoteError::Dust { .. });
    let reason: FailReason = unquotable(too_low, arrived.age, grace)?;
    (can_go_back(facts, arrived.balance) && arrived.worth_returning).then_some(Purpose::Back(reason))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;
    use domain::ids::RequestId;

    use super::*;

    #[test]
    fn money_that_an_order_was_paid_out_for_is_not_priced_again() {
        let of = |units: u64| Amount::new(U256::from(units));
        let lost = |n, units, in_one| Missing {
            order: OrderId(B256::repeat_byte(n)),
            request: RequestId(B256::ZERO),
            amount: of(units),
            in_one,
        };
        let missing = [lost(1, 1_000, false), lost(2, 500, false), lost(3, 9, false)];
        let (first, last) = (&missing[0], &missing[2..]);
        let (fast, small) = ([lost(4, 1_000, true)], [lost(5, 9, true)]);
        let worth = |amount: Amount| Some(amount >= of(10));
        let cases = [
            ("nothing is missing", &missing[..0], 1_000, Share::Free),
            ("nothing is missing, and it is dust", &missing[..0], 9, Share::Free),
            ("the first order comes first", &missing[..], 1_000, Share::For(first, of(1_000))),
            ("a part of it", &missing[..], 10, Share::For(first, of(10))),
            ("no more than is missing", &missing[..], 1_500, Share::For(first, of(1_000))),
            ("dust stays where it is", &missing[..], 9, Share::Waits),
            ("what misses less than gas misses nothing", last, 1_000, Share::Free),
            ("a fast fill", &fast[..], 900, Share::For(&fast[0], of(900))),
            ("a part of one pays for nothing", &fast[..], 899, Share::Free),
            ("a small one, worth less than its gas", &small[..], 1_000, Share::For(&small[0], of(9))),
        ];
        for (name, missing, balance, expected) in cases {
            assert_eq!(share(missing, of(balance), worth), Ok(expected), "{name}");
        }
        assert_eq!(share(last, of(1_000), |_| None), Ok(Share::Waits), "without prices nobody can say");
    }
}
