//! Money at a deposit address that has its confirmations: it is swept, priced anew, sent back, or left where it is.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use domain::account::Account;
use domain::alarm::Alarm;
use domain::arrival::{Arrived, Plan, plan, since, unquotable};
use domain::deposit::too_late;
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::money::Amount;
use domain::quote::{Ask, CurrencyKey, Quote, RefundTarget, Trade};
use domain::request::State;
use domain::time::Timestamp;
use evm::At;
use market::Snapshot;
use store::arrivals::{self, Arrival, Place};
use store::blocks::Cursor;
use store::deposit_addresses::{self, DepositAddress};
use store::requests::Request;
use store::sweeps::Missing;
use store::{Tx, deposits, losses, requests, settlements, sweeps};
use tracing::{debug, error};

use crate::deposit_addresses::balances::note_balance;
use crate::deposit_addresses::senders::{blocked_sender, depositor};
use crate::deposit_addresses::sweep::{self, Purpose};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::payments::{gas, max_voids};
use crate::quoting::quote::{QuoteError, Quoter, row};
use crate::solver::Solver;

/// Balances settled in one round.
const PLACES_PER_ROUND: u16 = 16;
/// Delay before a balance that waits is looked at again. Another transfer to it is looked at when it has its confirmations.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// The same for one that a person has to look at.
const STUCK_RETRY_AFTER: Duration = Duration::from_secs(3_600);
/// Age of a balance from which its sweep does not wait for transfers that are still being searched for: whoever pays a
/// little with every block must not hold it up.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(600);

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
        let Some(facts) = facts(solver, handle, place).await? else { continue };
        // Anybody can have the nodes disagree about one address: the others have their turn.
        if let Err(error) = settle_one(solver, handle, quoter, at, place, facts).await {
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
    missing: Vec<Missing>,
    waiting: Vec<Arrival>,
    voids: u64,
}

/// None while a sweep of the balance is under way, or where the address is not known.
async fn facts(solver: &Solver, handle: &ChainHandle, place: Place) -> Result<Option<PlaceFacts>, SolverError> {
    let chain = handle.id();
    let read = move |tx: &mut Tx<'_>| {
        if sweeps::is_live(tx, chain, place.address, place.currency)? {
            return Ok(None);
        }
        let Some(given) = deposit_addresses::find(tx, place.address)? else { return Ok(None) };
        let Some(request) = requests::find(tx, given.request)? else { return Ok(None) };
        let has_deposit = deposits::of_order(tx, given.order)?.is_some();
        let order_paid = request.state != State::Waiting || has_deposit;
        let filled = settlements::outcome(tx, given.order)? == Some(store::payments::Purpose::Fill);
        let awaited = match filled && !has_deposit {
            true => Some(losses::find(tx, given.order)?.map_or(request.quote.figures.deposit, |it| it.loss.amount)),
            false => None,
        };
        let waiting = arrivals::waiting_at(tx, chain, place.address, place.currency)?;
        let voids = sweeps::voids(tx, chain, place.address, place.currency)?;
        let missing = sweeps::missing(tx, chain, place.address, place.currency)?;
        Ok::<_, SolverError>(Some(PlaceFacts { given, request, order_paid, awaited, missing, waiting, voids }))
    };
    solver.store.read(read).await
}

async fn settle_one(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    quoter: &Quoter,
    at: Cursor,
    place: Place,
    facts: PlaceFacts,
) -> Result<(), SolverError> {
    let chain = handle.id();
    // The newest balance: a sweep that the walk has seen mined must not be counted again.
    let Some(balance) = balance_at(handle, place, At::Latest).await? else {
        return postpone(solver, handle, place, RETRY_AFTER).await;
    };
    if balance.is_zero() {
        // A node that lags shows nothing as well: the block that we have searched has to say the same.
        if balance_at(handle, place, At::Hash(at.hash)).await? != Some(U256::ZERO) {
            return postpone(solver, handle, place, RETRY_AFTER).await;
        }
        // Somebody else swept it, or a reorg took it away.
        return solver.store.write(move |tx: &mut Tx<'_>| Ok(arrivals::left(tx, chain, place)?)).await;
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
    let purpose = match plan(&arrived, grace)? {
        Plan::Wait => None,
        Plan::Sweep => Some(Purpose::Order(arrived.balance)),
        Plan::Requote => {
            let leaves = |missing: &Missing| leaves_a_rest(solver, handle, place, &facts, missing, arrived.balance);
            match unpriced(&facts.missing, arrived.worth_returning, leaves) {
                Unpriced::PricedAnew => requote(quoter, handle, place, &facts, &arrived, grace).await,
                Unpriced::Waits => None,
                Unpriced::For(&Missing { order, request, .. }) => Some(Purpose::Again { order, request }),
                Unpriced::Stops(missing) => {
                    let why = "and nobody is known to send the rest back to; a person has to look at it";
                    let order = missing.order;
                    let why = format!("more than the missing deposit of the order {order} has come to it, {why}");
                    return stop(solver, handle, place, why).await;
                }
            }
        }
    };
    let Some(purpose) = purpose else {
        // The longer it has been there, the less often it is looked at: anybody can leave dust at many addresses.
        let soonest = RETRY_AFTER.min(grace).max(Duration::from_secs(1));
        return postpone(solver, handle, place, (arrived.age / 4).clamp(soonest, STUCK_RETRY_AFTER)).await;
    };
    let depositor = depositor(&facts.request.quote, &facts.waiting, balance);
    let (depositing, context) = (handle.clone(), solver.context());
    let until = context.now.plus(solver.terms.deposit_addresses.watch);
    let given = facts.given;
    let unit = move |tx: &mut Tx<'_>| {
        deposit_addresses::watch_until(tx, given.address, until)?;
        sweep::sweep(tx, &depositing, &given, place, &purpose, depositor.unwrap_or_default(), &context)
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

/// The fate of a balance that is not as quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unpriced<'a> {
    PricedAnew,
    Waits,
    /// It is swept for an order that was paid out and has lost its deposit.
    For(&'a Missing),
    /// It is more than such an order has lost, and a person decides about the rest.
    Stops(&'a Missing),
}

/// Orders with a missing deposit come first. However little has come, its recipient has been paid for it before a reorg took
/// the deposit away: priced anew, it would be paid out twice.
fn unpriced(missing: &[Missing], worth_returning: bool, leaves_a_rest: impl FnOnce(&Missing) -> bool) -> Unpriced<'_> {
    match missing.first() {
        None => Unpriced::PricedAnew,
        Some(_) if !worth_returning => Unpriced::Waits,
        Some(missing) if leaves_a_rest(missing) => Unpriced::Stops(missing),
        Some(missing) => Unpriced::For(missing),
    }
}

/// True if a balance is more than the missing deposit of an order by something worth returning, and nobody is known to
/// return it to.
fn leaves_a_rest(
    solver: &Solver,
    handle: &ChainHandle,
    place: Place,
    facts: &PlaceFacts,
    missing: &Missing,
    balance: Amount,
) -> bool {
    let rest = balance.saturating_sub(missing.amount);
    let has_worth = || {
        let snapshot = solver.market.latest(handle.id());
        snapshot.is_some_and(|snapshot| is_worth_returning(handle, &snapshot, place.currency, rest))
    };
    !rest.is_zero() && !can_go_back(facts, balance) && has_worth()
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

/// True if everything is known of a balance that can be. What came since the last search has a sender too, who is known in
/// a moment. Where no transfer tells of most of a balance, it is kept from now on as one that only the balance tells of: its
/// time begins then, and not with dust that came before.
async fn is_known(
    solver: &Solver,
    handle: &Arc<ChainHandle>,
    at: Cursor,
    place: Place,
    facts: &PlaceFacts,
    balance: U256,
    waited: Option<Duration>,
) -> Result<bool, SolverError> {
    let known = facts.waiting.iter().fold(U256::ZERO, |sum, arrival| sum.saturating_add(arrival.amount.units()));
    if known >= balance || waited.is_some_and(|waited| waited >= SEARCH_TIMEOUT) {
        return Ok(true);
    }
    if balance_at(handle, place, At::Hash(at.hash)).await?.is_some_and(|there| there < balance) {
        return Ok(false);
    }
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
    Arrived {
        kind: given.kind,
        as_quoted: (given.chain, given.currency) == (handle.id(), place.currency),
        balance,
        quoted: quote.figures.deposit,
        order_paid: facts.order_paid,
        awaited: facts.awaited,
        late: too_late(quote, now).is_some(),
        age,
        worth_returning: snapshot
            .is_some_and(|snapshot| is_worth_returning(handle, &snapshot, place.currency, balance)),
    }
}

/// True if a balance is worth more than the gas of its sweep and of a transfer back. Without prices nobody can say.
fn is_worth_returning(handle: &ChainHandle, snapshot: &Snapshot, currency: Address, balance: Amount) -> bool {
    let native = currency.is_zero();
    // The dearest transfer that a return may be: that it is refused for its gas afterwards would cost us the sweep.
    let back = snapshot.cost(gas::generous_limit(handle.chain.fill_gas, native));
    let worth = || {
        let cost = gas::sweep_cost(snapshot, native).checked_add(back).ok()?;
        let token = handle.chain.token(currency)?;
        let worth = snapshot.price(currency).ok()?.usd_floor(balance, token.decimals).ok()?;
        let cost = snapshot.price(Address::ZERO).ok()?.usd_ceil(cost, handle.chain.native.decimals).ok()?;
        Some(worth > cost)
    };
    worth().unwrap_or(false)
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
    debug!(chain.id = %handle.id(), address = %place.address, %refused, "what arrived at a deposit address cannot be quoted");
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
        let amount = Amount::new(U256::from(1_000));
        let lost = |n| Missing { order: OrderId(B256::repeat_byte(n)), request: RequestId(B256::ZERO), amount };
        let missing = [lost(1), lost(2)];
        let first = &missing[0];
        let cases = [
            ("nothing is missing", &missing[..0], true, false, Unpriced::PricedAnew),
            ("nothing is missing, and it is dust", &missing[..0], false, true, Unpriced::PricedAnew),
            ("the first order comes first", &missing[..], true, false, Unpriced::For(first)),
            ("dust stays where it is", &missing[..], false, false, Unpriced::Waits),
            ("nobody is known for the rest", &missing[..], true, true, Unpriced::Stops(first)),
        ];
        for (name, missing, worth, rest, expected) in cases {
            assert_eq!(unpriced(missing, worth, |_| rest), expected, "{name}");
        }
    }
}
