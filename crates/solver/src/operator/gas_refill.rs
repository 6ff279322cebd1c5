//! Gas refills: the fillers' native currency is always watched, and refilled from the treasury when a person asks.
//!
//! Any process stores a wish when it is asked. The worker alone pays it, under its lease: the nonce comes from the
//! database, and the payment is sent, bumped and followed like every other. A wallet whose refill is on its way, or not
//! yet final, gets no second one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256, keccak256};
use domain::gas_refill::{GasLevels, Refill};
use domain::ids::{ChainId, RefillId};
use domain::money::Amount;
use evm::{At, NonceTag, calldata};
use metrics::gauge;
use store::gas_refills::{self, RefillWish};
use store::lanes::Lane;
use store::payments::{Fees, Payment, PaymentRow, Purpose, Subject, UnderWay};
use store::{Tx, lanes, payments};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::payments::call::PaymentCall;
use crate::payments::lane::{self, Chosen, Unassigned, first_offer};
use crate::solver::Solver;

const ROUND_INTERVAL: Duration = Duration::from_secs(5);

/// Wallets of a chain that are looked at. There are a handful.
const MAX_WALLETS: i64 = 256;

/// Age at which an unpaid wish is forgotten: a wish is for now, and may be repeated.
const FORGOTTEN_AFTER_MILLIS: i64 = 600_000;

/// Native balances of a chain's wallets, and their refills.
#[derive(Clone, Debug)]
pub struct Report {
    pub chain: ChainId,
    pub treasury: Amount,
    pub wallets: Vec<Holding>,
}

#[derive(Clone, Debug)]
pub struct Holding {
    pub wallet: Address,
    pub has: Amount,
    /// The amount of a refill, if it is worth a transaction.
    pub lacks: Option<Amount>,
    /// A refill that was asked for and is not paid yet.
    pub wish: Option<RefillWish>,
    /// A refill that is paid and not final yet.
    pub under_way: Option<UnderWay>,
}

/// A report on every chain with configured gas levels.
pub async fn report(solver: &Solver) -> Result<Vec<Report>, SolverError> {
    let mut reports = Vec::new();
    for handle in solver.chains.values() {
        if let Some(levels) = handle.settings.gas_levels {
            reports.push(report_on(solver, handle, levels).await?);
        }
    }
    Ok(reports)
}

async fn report_on(solver: &Solver, handle: &ChainHandle, levels: GasLevels) -> Result<Report, SolverError> {
    let chain = handle.id();
    let read = move |tx: &mut Tx<'_>| {
        let under_way = payments::under_way(tx, chain, Purpose::Refill, MAX_WALLETS)?;
        Ok::<_, SolverError>((gas_refills::on(tx, chain, MAX_WALLETS)?, under_way))
    };
    let (options, under_way) = solver.store.read(read).await?;
    let mut wallets = Vec::new();
    for wallet in handle.refilled_wallets() {
        let has = Amount::new(handle.nodes.balance(wallet, At::Latest).await?);
        wallets.push(Holding {
            wallet,
            has,
            lacks: levels.lacks(has),
            wish: options.iter().find(|wish| wish.wallet == wallet).cloned(),
            under_way: under_way.iter().find(|payment| payment.recipient == wallet).cloned(),
        });
    }
    let treasury = Amount::new(handle.nodes.balance(handle.treasury, At::Latest).await?);
    Ok(Report { chain, treasury, wallets })
}

/// Asks the worker to refill every wallet that lacks gas. Asking twice is asking once.
pub async fn ask(solver: &Solver) -> Result<(), SolverError> {
    let lacking: Vec<(ChainId, Address)> = report(solver)
        .await?
        .iter()
        .flat_map(|report| report.wallets.iter().map(|holding| (report.chain, holding)))
        .filter(|(_, holding)| holding.lacks.is_some() && holding.under_way.is_none())
        .map(|(chain, holding)| (chain, holding.wallet))
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let now = solver.now();
    let unit = move |tx: &mut Tx<'_>| {
        lacking.iter().try_for_each(|(chain, wallet)| gas_refills::ask(tx, *chain, *wallet, now))
    };
    solver.store.write(unit).await?;
    // If the wake-up is lost, the worker looks by itself soon.
    if let Err(error) = solver.store.wake().await {
        warn!(error = %Chained(&error), "the worker was not woken for a gas refill");
    }
    Ok(())
}

/// The worker's task: reports wallets that run low, and pays the refills that were asked for.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let Some(levels) = handle.settings.gas_levels else { return };
    let mut woken = solver.store.woken();
    let mut low = BTreeSet::new();
    loop {
        tell(&solver, &handle, levels, &mut low);
        if let Err(error) = serve(&solver, &handle, levels).await {
            warn!(chain.id = %handle.id(), error = %Chained(&error), "wallets could not be refilled, trying again");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = woken.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
    }
}

/// Reports wallets that run low: the log says it once for each, the metric for as long as it lasts.
fn tell(solver: &Solver, handle: &ChainHandle, levels: GasLevels, told: &mut BTreeSet<Address>) {
    let Some(snapshot) = solver.market.latest(handle.id()) else { return };
    for wallet in handle.refilled_wallets() {
        let has = snapshot.native.get(&wallet).or_else(|| snapshot.relayers.get(&wallet));
        let Some(&has) = has else { continue };
        let low = levels.is_low(has);
        let labels = [("chain", handle.id().to_string()), ("wallet", wallet.to_string())];
        gauge!("causeway_wallet_gas_low", &labels).set(if low { 1 } else { 0 });
        if !low {
            told.remove(&wallet);
        } else if told.insert(wallet) {
            let has = has.formatted(handle.chain.native.decimals);
            warn!(chain.id = %handle.id(), %wallet, %has, "a wallet runs low on native currency: `causeway topup` refills it");
        }
    }
}

/// Balances and nonces on the chain, read before a unit of work begins.
#[derive(Clone, Debug)]
struct Seen {
    wallets: Vec<(Address, Amount)>,
    treasury: Amount,
    /// Nonces of the treasury that are used in blocks, and in blocks and the nodes' mempools together.
    used: u64,
    pending: u64,
}

async fn serve(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, levels: GasLevels) -> Result<(), SolverError> {
    let chain = handle.id();
    if solver.store.read(move |tx| gas_refills::on(tx, chain, MAX_WALLETS)).await?.is_empty() {
        return Ok(());
    }
    let mut wallets = Vec::new();
    for wallet in handle.refilled_wallets() {
        wallets.push((wallet, Amount::new(handle.nodes.balance(wallet, At::Latest).await?)));
    }
    let seen = Seen {
        wallets,
        treasury: Amount::new(handle.nodes.balance(handle.treasury, At::Latest).await?),
        used: handle.nodes.nonce(handle.treasury, NonceTag::Latest).await?,
        pending: handle.nodes.nonce(handle.treasury, NonceTag::Pending).await?,
    };
    let context = solver.context();
    let unit = move |tx: &mut Tx<'_>| fill_up(tx, chain, levels, &seen, &context);
    let paid = solver.store.write(unit).await?;
    for stored in &paid {
        let Payment { recipient, amount, .. } = &stored.payment;
        info!(chain.id = %chain, wallet = %recipient, %amount, "a wallet is refilled from the treasury");
    }
    solver.hand_over(paid);
    Ok(())
}

/// Pays the refills. Everything is checked again in the unit that pays: of any number who ask, one is served.
fn fill_up(
    tx: &mut Tx<'_>,
    chain: ChainId,
    levels: GasLevels,
    seen: &Seen,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let Some((handle, snapshot)) = context.on(chain) else { return Ok(Vec::new()) };
    lanes::register(tx, chain, handle.treasury)?;
    let lanes = lanes::lock(tx, chain)?;
    let under_way = payments::under_way(tx, chain, Purpose::Refill, MAX_WALLETS)?;
    let mut wanted = Vec::new();
    for wish in gas_refills::on(tx, chain, MAX_WALLETS)? {
        let has = seen.wallets.iter().find(|(wallet, _)| *wallet == wish.wallet).map(|(_, has)| *has);
        let served = under_way.iter().any(|payment| payment.recipient == wish.wallet);
        match has.filter(|has| !served && levels.lacks(*has).is_some()) {
            Some(_) if context.now.millis().saturating_sub(wish.since.millis()) > FORGOTTEN_AFTER_MILLIS => {
                let why = wish.reason.as_deref().unwrap_or("nobody looked");
                warn!(chain.id = %chain, wallet = %wish.wallet, why, "a wallet was not refilled in time; ask again");
                gas_refills::remove(tx, chain, wish.wallet)?;
            }
            Some(has) => wanted.push((wish.wallet, has)),
            // The refill is on its way, or not needed any more.
            None => gas_refills::remove(tx, chain, wish.wallet)?,
        }
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let lane = lanes.iter().find(|lane| lane.wallet == handle.treasury);
    let lane = lane.ok_or(SolverError::InvariantViolated("the treasury has no lane"))?;
    let fees = snapshot.and_then(|snapshot| first_offer(handle, snapshot).ok());
    let (refills, fees) = match (obstacle(handle, lane, seen), fees) {
        (None, Some(fees)) => (levels.refills(&wanted, spare(tx, handle, seen, fees, wanted.len())?), fees),
        (why, _) => {
            let why = why.unwrap_or("the price of gas is not known, or is above the cap");
            wanted.iter().try_for_each(|(wallet, _)| gas_refills::explain(tx, chain, *wallet, why))?;
            return Ok(Vec::new());
        }
    };
    for (wallet, _) in &wanted {
        match refills.iter().any(|refill| refill.wallet == *wallet) {
            true => gas_refills::remove(tx, chain, *wallet)?,
            false => gas_refills::explain(tx, chain, *wallet, "the treasury does not have enough native currency")?,
        }
    }
    // The treasury may have been used by hand since.
    lanes::raise_nonce(tx, chain, handle.treasury, seen.used)?;
    let first = lane.next_nonce.max(seen.used);
    let paid = (first..).zip(&refills).map(|(nonce, refill)| pay(tx, handle, *refill, nonce, fees, context));
    paid.collect()
}

/// The reason why the treasury sends nothing now, if there is one. Its key may also be used by hand: nobody's nonce is
/// taken.
fn obstacle(handle: &ChainHandle, lane: &Lane, seen: &Seen) -> Option<&'static str> {
    let free = lane.next_nonce > seen.pending.max(seen.used) && lane.unmined == 0;
    if handle.refusing().is_some() {
        Some("the chain takes no payments")
    } else if !handle.lanes.has_key_of(handle.treasury) {
        Some("`solver.treasury_key` is not configured where the worker runs")
    } else if lane.quarantined.is_some() || lane.unmined >= handle.settings.window / 2 {
        Some("the treasury's lane is full or quarantined")
    } else if handle.is_treasury_lane(handle.treasury) && seen.pending > seen.used.max(lane.next_nonce) {
        Some("the treasury has transactions of somebody else's on their way; wait until they are mined")
    } else if free {
        Some("the chain took back a transaction of the treasury; send one by hand under its next nonce")
    } else {
        None
    }
}

/// The treasury's balance beyond its unmined payments and the gas of `count` refills.
fn spare(tx: &mut Tx<'_>, handle: &ChainHandle, seen: &Seen, fees: Fees, count: usize) -> Result<Amount, SolverError> {
    // A payment may be bumped a few times before it is mined.
    let most = U256::from(fees.max_fee).saturating_mul(U256::from(4)).min(U256::from(handle.settings.max_fee_cap));
    let gas = |limit: u64, fee: U256| U256::from(limit).saturating_mul(fee);
    let own = gas(handle.chain.fill_gas.native_limit, most).saturating_mul(U256::from(count));
    let unmined = payments::unmined(tx, handle.id(), handle.treasury, MAX_WALLETS)?;
    let out = unmined.iter().fold(own, |sum, stored| {
        let fee = U256::from(stored.fees.max_fee).max(most);
        sum.saturating_add(stored.payment.value.units()).saturating_add(gas(stored.payment.gas, fee))
    });
    Ok(seen.treasury.saturating_sub(Amount::new(out)))
}

fn pay(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    refill: Refill,
    nonce: u64,
    fees: Fees,
    context: &PayContext,
) -> Result<PaymentRow, SolverError> {
    let id = id(handle.id(), handle.treasury, nonce);
    let call = PaymentCall {
        target: refill.wallet,
        value: refill.amount,
        data: calldata::native_fill(id.0),
        gas: handle.chain.fill_gas.native_limit,
        currency: Address::ZERO,
        amount: refill.amount,
        through_spend_limiter: false,
        relayer: None,
    };
    let payment = Unassigned { subject: Subject::Refill(id), request: None, recipient: refill.wallet, call, fees };
    let row = lane::assign(tx, Chosen::treasury(handle), handle, payment, context)?;
    if row.payment.nonce != nonce {
        return Err(SolverError::InvariantViolated("the treasury's lane moved while it was held"));
    }
    Ok(row)
}

/// The id of a refill. A nonce is used once, so it names one refill.
fn id(chain: ChainId, treasury: Address, nonce: u64) -> RefillId {
    let parts = [b"topup".as_slice(), &chain.0.to_be_bytes(), treasury.as_slice(), &nonce.to_be_bytes()];
    RefillId(keccak256(parts.concat()))
}
