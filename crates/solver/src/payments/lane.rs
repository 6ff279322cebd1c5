//! Lanes: the one place that gives a payment its wallet and its nonce.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, U256};
use domain::ids::RequestId;
use domain::money::Amount;
use market::Snapshot;
use store::lanes::Lane;
use store::payers::Payers;
use store::payments::{Fees, Outstanding, Payment, PaymentRow, Purpose, Subject};
use store::{Tx, dues, payers, payments, settlements};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::payments::Reason;
use crate::payments::call::PaymentCall;

/// A payment before it has a wallet and a nonce.
#[derive(Clone, Debug)]
pub(crate) struct Unassigned {
    pub subject: Subject,
    /// None if the payment is about no request.
    pub request: Option<RequestId>,
    pub recipient: Address,
    pub call: PaymentCall,
    pub fees: Fees,
}

/// A wallet that can pay, its lane locked until the unit ends.
#[derive(Debug)]
pub(crate) struct Chosen {
    wallet: Address,
    payers: Option<Payers>,
}

/// The filler with the shortest lane that can pay, or the relayer that alone can, or the reason why none can.
pub(crate) fn choose(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    snapshot: &Snapshot,
    payment: &Unassigned,
) -> Result<Result<Chosen, Reason>, SolverError> {
    let (purpose, room) = (payment.subject.purpose(), room(payment, handle));
    let payers = payers::lock(tx, handle.id(), snapshot.block)?;
    let wallets = &handle.lanes.wallets;
    let mut free: Vec<&Lane> = payers
        .lanes
        .iter()
        .filter(|lane| lane.quarantined.is_none() && lane.unmined < room)
        .filter(|lane| match payment.call.relayer {
            Some(relayer) => lane.wallet == relayer && handle.is_relayer(relayer),
            None => wallets.iter().any(|wallet| wallet.address == lane.wallet),
        })
        .collect();
    free.sort_by_key(|lane| lane.unmined);
    let reserve = reserve(purpose, handle);
    let able =
        |lane: &&&Lane| can_pay(lane.wallet, &payment.call, payment.fees, reserve, snapshot, &payers.outstanding);
    let wallet = free.iter().find(able).map(|lane| lane.wallet);
    let full = free.is_empty();
    match wallet {
        Some(wallet) => Ok(Ok(Chosen { wallet, payers: Some(payers) })),
        None => {
            payers.keep(tx);
            Ok(Err(if full { Reason::LanesFull } else { Reason::Inventory }))
        }
    }
}

impl Chosen {
    pub(crate) fn wallet(&self) -> Address {
        self.wallet
    }

    /// The treasury lane, which refills our wallets and pays nobody else.
    pub(crate) fn treasury(handle: &ChainHandle) -> Self {
        Self { wallet: handle.treasury, payers: None }
    }

    /// Leaves the lanes for the next payment of the unit.
    pub(crate) fn release(self, tx: &mut Tx<'_>) {
        if let Some(payers) = self.payers {
            payers.keep(tx);
        }
    }
}

/// Fixes a payment: wallet, nonce, contents and, if it settles its subject, the settlement row that excludes every
/// other outcome. Nothing else creates payments.
pub(crate) fn assign(
    tx: &mut Tx<'_>,
    chosen: Chosen,
    handle: &ChainHandle,
    payment: Unassigned,
    context: &PayContext,
) -> Result<PaymentRow, SolverError> {
    let Unassigned { subject, request, recipient, call, fees } = payment;
    let payment = Payment {
        subject,
        request,
        chain: handle.id(),
        wallet: chosen.wallet,
        // The store takes the lane's next nonce.
        nonce: 0,
        target: call.target,
        value: call.value,
        data: call.data,
        gas: call.gas,
        recipient,
        currency: call.currency,
        amount: call.amount,
    };
    let row = payments::assign(tx, payment, fees, context.now)?;
    let row = row.ok_or(SolverError::InvariantViolated("a live payment without its settlement"))?;
    let settles = match subject.purpose() {
        Purpose::Fill | Purpose::Refund | Purpose::Return | Purpose::Excess | Purpose::Claim => true,
        // A refill, a sweep and a relay settle nothing, and a payout's settlement row was taken when the payout was
        // intended.
        Purpose::Refill | Purpose::Payout | Purpose::Sweep | Purpose::Relay => false,
    };
    if settles && !settlements::take(tx, subject.settles(), subject.purpose(), row.id)? {
        return Err(SolverError::InvariantViolated("an order was settled twice in one unit"));
    }
    if let Some(payers) = chosen.payers {
        payers.keep_with(tx, &row);
    }
    Ok(row)
}

/// Returns, claims, refills, payouts and sweeps leave half of every lane to fills and refunds, which were promised.
/// Relays have lanes of their own, in which raw calls leave as much to permits.
fn room(payment: &Unassigned, handle: &ChainHandle) -> u64 {
    let (window, call) = (handle.settings.window, &payment.call);
    let shares = |relayer: Address| handle.is_raw_call(call.target) && handle.lanes.is_shared(relayer);
    match payment.subject.purpose() {
        Purpose::Relay if call.relayer.is_some_and(shares) => window.div_ceil(2),
        Purpose::Fill | Purpose::Refund | Purpose::Relay => window,
        Purpose::Return | Purpose::Excess | Purpose::Claim | Purpose::Refill | Purpose::Payout | Purpose::Sweep => {
            window.div_ceil(2)
        }
    }
}

/// Gas that a payment leaves its wallet for the fills it may still have to send.
const fn reserve(purpose: Purpose, handle: &ChainHandle) -> u64 {
    match purpose {
        Purpose::Fill | Purpose::Relay => 0,
        Purpose::Refund
        | Purpose::Return
        | Purpose::Excess
        | Purpose::Claim
        | Purpose::Refill
        | Purpose::Payout
        | Purpose::Sweep => handle.settings.window.saturating_mul(handle.chain.fill_gas.erc20_limit),
    }
}

/// The fees of a first attempt, or the reason why no payment begins: the chain is paused, the snapshot is too old, or
/// gas costs more than the configured cap. Every payment passes here, so that none is made on a chain that stands
/// still.
pub(crate) fn first_offer(handle: &ChainHandle, snapshot: &Snapshot) -> Result<Fees, Reason> {
    if let Some(why) = handle.health.paused() {
        return Err(Reason::Paused(why.to_string()));
    }
    if snapshot.check_age().is_err() {
        return Err(Reason::Halted);
    }
    if let Some(venue) = &handle.venue {
        let fees = venue.offer(snapshot.time);
        return if u128::from(fees.max_fee) > handle.settings.max_fee_cap {
            Err(Reason::FeesTooHigh)
        } else {
            Ok(fees)
        };
    }
    let max_fee = snapshot.max_fee();
    let fits = |fee: u128| u64::try_from(fee).map_err(|_| Reason::FeesTooHigh);
    if max_fee > handle.settings.max_fee_cap {
        return Err(Reason::FeesTooHigh);
    }
    Ok(Fees { max_fee: fits(max_fee)?, max_tip: fits(snapshot.tip)? })
}

/// Amounts by currency, and the wallets that pay them.
type Committed = (BTreeMap<Address, Amount>, BTreeSet<Address>);

/// Amounts that quotes may not promise again: payments that a block does not know of, and those still due.
pub(crate) fn committed(tx: &mut Tx<'_>, handle: &ChainHandle, block: u64) -> Result<Committed, SolverError> {
    let mut sums: BTreeMap<Address, Amount> = BTreeMap::new();
    let chain = handle.id();
    let mut outstanding = payments::outstanding(tx, chain, block)?;
    let wallets = outstanding.iter().map(|payment| payment.wallet).collect();
    // Gas refills are not promised to anybody.
    outstanding.retain(|payment| !handle.is_treasury_lane(payment.wallet) && !handle.is_relayer(payment.wallet));
    let tokens = outstanding.iter().filter(|payment| !payment.currency.is_zero());
    let tokens = tokens.map(|payment| (payment.currency, payment.amount));
    // Native currency also goes along with tokens.
    let native = outstanding.iter().map(|payment| (Address::ZERO, payment.value));
    for (currency, amount) in tokens.chain(native).chain(dues::amounts(tx, chain)?) {
        let sum = sums.entry(currency).or_default();
        *sum = sum.checked_add(amount)?;
    }
    Ok((sums, wallets))
}

/// True if a wallet can pay, from its balance at the snapshot's block less all payments unknown to that block.
fn can_pay(
    wallet: Address,
    call: &PaymentCall,
    fees: Fees,
    reserve: u64,
    snapshot: &Snapshot,
    outstanding: &[Outstanding],
) -> bool {
    let gas = |gas: u64, fee: u64| U256::from(gas).saturating_mul(U256::from(fee));
    let sum = |items: &mut dyn Iterator<Item = U256>| items.fold(U256::ZERO, U256::saturating_add);
    let of_wallet = || outstanding.iter().filter(|payment| payment.wallet == wallet);
    let native_out =
        sum(&mut of_wallet().map(|payment| payment.value.units().saturating_add(gas(payment.gas, payment.max_fee))));
    let own_gas = gas(call.gas.saturating_add(reserve), fees.max_fee)
        .saturating_add(snapshot.data_fee_of(call.data.len()).units());
    let native_need = call.value.units().saturating_add(own_gas).saturating_add(native_out);
    let native = snapshot.native.get(&wallet).or_else(|| snapshot.relayers.get(&wallet));
    if native.copied().unwrap_or_default().units() < native_need {
        return false;
    }
    if call.currency.is_zero() {
        return true;
    }
    let Some(funds) = snapshot.tokens.get(&call.currency) else { return false };
    let same = |payment: &&Outstanding| payment.currency == call.currency;
    let treasury_out = sum(&mut outstanding.iter().filter(same).map(|payment| payment.amount.units()));
    // A wallet's allowance and its limit at the spend limiter are two limits: payments by one do not burden the other.
    let same_way =
        |payment: &&Outstanding| same(payment) && (payment.target != payment.currency) == call.through_spend_limiter;
    let wallet_out = sum(&mut of_wallet().filter(same_way).map(|payment| payment.amount.units()));
    let limiter_out = sum(&mut outstanding.iter().filter(same_way).map(|payment| payment.amount.units()));
    let need = call.amount.units();
    let enough = |has: Amount, out: U256| has.units() >= need.saturating_add(out);
    let allowed = if call.through_spend_limiter {
        let limit = funds.limits.get(&wallet).copied().unwrap_or_default();
        enough(limit, wallet_out) && enough(funds.spend_limiter, limiter_out)
    } else {
        enough(funds.allowances.get(&wallet).copied().unwrap_or_default(), wallet_out)
    };
    allowed && enough(funds.treasury, treasury_out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use alloy::primitives::{B256, Bytes};
    use domain::ids::ChainId;
    use market::TokenFunds;

    use super::*;

    const WALLET: Address = Address::repeat_byte(1);
    const OTHER: Address = Address::repeat_byte(2);
    const TOKEN: Address = Address::repeat_byte(9);
    const FEES: Fees = Fees { max_fee: 10, max_tip: 1 };

    fn amount(units: u64) -> Amount {
        Amount::new(U256::from(units))
    }

    fn snapshot(native: u64, treasury: u64, allowance: u64) -> Snapshot {
        Snapshot {
            chain: ChainId(1),
            block: 1,
            hash: B256::ZERO,
            time: 0,
            base_fee: 3,
            tip: 1,
            data_fee: Amount::ZERO,
            feeds: Default::default(),
            prices: BTreeMap::new(),
            spots: BTreeMap::new(),
            native: [(WALLET, amount(native)), (OTHER, amount(native))].into(),
            relayers: BTreeMap::new(),
            pools: Default::default(),
            tokens: [(
                TOKEN,
                TokenFunds {
                    treasury: amount(treasury),
                    allowances: [(WALLET, amount(allowance)), (OTHER, amount(allowance))].into(),
                    spend_limiter: amount(allowance),
                    limits: [(WALLET, amount(allowance))].into(),
                },
            )]
            .into(),
            received: Instant::now(),
            max_age: Duration::from_secs(1),
        }
    }

    fn call(currency: Address, units: u64) -> PaymentCall {
        let value = if currency.is_zero() { amount(units) } else { Amount::ZERO };
        let (target, data) = (currency, Bytes::new());
        let (amount, through_spend_limiter) = (amount(units), false);
        PaymentCall { target, value, data, gas: 5, currency, amount, through_spend_limiter, relayer: None }
    }

    fn out(wallet: Address, currency: Address, units: u64) -> Outstanding {
        let value = if currency.is_zero() { amount(units) } else { Amount::ZERO };
        Outstanding { wallet, target: currency, value, currency, amount: amount(units), gas: 5, max_fee: 10 }
    }

    #[test]
    fn a_native_payment_needs_its_value_its_gas_and_the_outstanding_payments() {
        // 100 and gas of 5 units at 10 each.
        let native = call(Address::ZERO, 100);
        assert!(can_pay(WALLET, &native, FEES, 0, &snapshot(150, 0, 0), &[]));
        assert!(!can_pay(WALLET, &native, FEES, 0, &snapshot(149, 0, 0), &[]));
        let before = [out(WALLET, Address::ZERO, 20)];
        assert!(!can_pay(WALLET, &native, FEES, 0, &snapshot(219, 0, 0), &before));
        assert!(can_pay(WALLET, &native, FEES, 0, &snapshot(220, 0, 0), &before));
        assert!(!can_pay(WALLET, &native, FEES, 1, &snapshot(150, 0, 0), &[]), "the reserve stays");
        // Outstanding payments of another wallet do not touch this one's balance.
        assert!(can_pay(WALLET, &native, FEES, 0, &snapshot(150, 0, 0), &[out(OTHER, Address::ZERO, 1_000)]));
    }

    #[test]
    fn a_token_payment_shares_the_treasury_and_not_the_allowance() {
        let token = call(TOKEN, 100);
        assert!(can_pay(WALLET, &token, FEES, 0, &snapshot(50, 100, 100), &[]));
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(49, 100, 100), &[]), "no gas");
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(50, 100, 99), &[]), "no allowance");
        let elsewhere = [out(OTHER, TOKEN, 1)];
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(50, 100, 100), &elsewhere), "the treasury is promised");
        assert!(can_pay(WALLET, &token, FEES, 0, &snapshot(50, 101, 100), &elsewhere));
        let own = [out(WALLET, TOKEN, 1)];
        assert!(!can_pay(WALLET, &token, FEES, 0, &snapshot(100, 101, 100), &own), "the allowance is used");
        assert!(can_pay(WALLET, &token, FEES, 0, &snapshot(100, 101, 101), &own));
        assert!(
            !can_pay(WALLET, &call(OTHER, 1), FEES, 0, &snapshot(1_000, 1_000, 1_000), &[]),
            "not a currency of ours"
        );
    }

    #[test]
    fn a_payment_through_the_spend_limiter_needs_the_wallets_limit_there() {
        let spend_limiter = Address::repeat_byte(0xf0);
        let routed = PaymentCall { target: spend_limiter, through_spend_limiter: true, ..call(TOKEN, 100) };
        assert!(can_pay(WALLET, &routed, FEES, 0, &snapshot(50, 100, 100), &[]));
        assert!(!can_pay(OTHER, &routed, FEES, 0, &snapshot(50, 100, 100), &[]), "no limit");
        assert!(!can_pay(WALLET, &routed, FEES, 0, &snapshot(50, 100, 99), &[]), "not enough of it");
        // A transfer uses the allowance and not the limit; both use the treasury.
        let direct = [out(WALLET, TOKEN, 50)];
        assert!(can_pay(WALLET, &routed, FEES, 0, &snapshot(100, 150, 100), &direct));
        assert!(!can_pay(WALLET, &routed, FEES, 0, &snapshot(100, 149, 100), &direct));
        let through = [Outstanding { target: spend_limiter, ..out(OTHER, TOKEN, 1) }];
        assert!(
            !can_pay(WALLET, &routed, FEES, 0, &snapshot(100, 500, 100), &through),
            "the spend limiter is promised"
        );
        assert!(can_pay(WALLET, &call(TOKEN, 100), FEES, 0, &snapshot(100, 500, 100), &through));
    }

    #[test]
    fn native_currency_beside_tokens_comes_out_of_the_wallet() {
        let beside = PaymentCall { value: amount(10), ..call(TOKEN, 100) };
        assert!(can_pay(WALLET, &beside, FEES, 0, &snapshot(60, 100, 100), &[]));
        assert!(!can_pay(WALLET, &beside, FEES, 0, &snapshot(59, 100, 100), &[]));
    }

    #[test]
    fn the_data_of_a_long_fill_is_paid_for_as_well() {
        let mut rich = snapshot(10_000, 100, 100);
        rich.data_fee = amount(256);
        let fee = |call: &PaymentCall| rich.data_fee_of(call.data.len()).units().to::<u64>();
        let long = PaymentCall { data: vec![1; 5_000].into(), ..call(TOKEN, 100) };
        assert!(fee(&long) > 10 * fee(&call(TOKEN, 100)));
        let with = |native: u64| Snapshot { native: [(WALLET, amount(native))].into(), ..rich.clone() };
        assert!(can_pay(WALLET, &long, FEES, 0, &with(50 + fee(&long)), &[]));
        assert!(!can_pay(WALLET, &long, FEES, 0, &with(49 + fee(&long)), &[]));
    }

    #[test]
    fn an_unknown_wallet_has_no_funds() {
        assert!(!can_pay(Address::repeat_byte(7), &call(Address::ZERO, 0), FEES, 0, &snapshot(1_000, 0, 0), &[]));
    }
}
