//! A fast fill's hold: an integrator's balance stands for a deposit until the deposit is there.
//!
//! A fast fill touches a request at five moments, all of them in [`touch`]. The order's input is an empty slot from the
//! fill on (`orders/losses.rs`): the deposit that takes it ends the hold, and if none has by the order's deadline the
//! hold is spent. The integrator bears the difference between the deposit and the amount that was counted on.

use alloy::primitives::U256;
use domain::fail::FailReason;
use domain::hold::State as HoldState;
use domain::ids::OrderId;
use domain::ledger::{Cause, Entry, HoldKind, UsdcMicros};
use domain::money::{Amount, OutOfRange, Price, Ratio, UsdMicros};
use domain::quote::OrderTerms;
use domain::time::Timestamp;
use store::deposits::DepositRow;
use store::fast_fills::FastFill;
use store::losses::Loss;
use store::requests::Request;
use store::{Tx, deposits, dues, fast_fills, ledger, losses, settlements};

use crate::context::PayContext;
use crate::error::SolverError;

/// Moments of an order at which its fast fill, if it has one, is touched.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// The fill is paid.
    Paid { terms: &'a OrderTerms },
    /// Nothing was paid ahead of the deposit, and nothing will be.
    GivenUp,
    /// A deposit has taken the order's slot; `filled` where the fill is mined already.
    Landed { deposit: &'a DepositRow, filled: bool },
    /// The fill is mined.
    Filled,
    /// The order has ended for good and its deposit never came.
    Lost,
}

/// Updates an order's fast fill at a moment. `false` if there is none, or if no hold was left to spend.
pub fn touch(tx: &mut Tx<'_>, order: OrderId, moment: Moment<'_>, context: &PayContext) -> Result<bool, SolverError> {
    let Some(fast) = fast_fills::of_order(tx, order)? else { return Ok(false) };
    match moment {
        Moment::Paid { terms } => expect_deposit(tx, &fast, terms, context)?,
        Moment::GivenUp => give_up(tx, &fast, context)?,
        Moment::Landed { deposit, filled } => land(tx, &fast, deposit, filled, context)?,
        Moment::Filled => {
            // If the deposit came before the fill was mined, the difference is known now.
            if let Some(deposit) = deposits::of_order(tx, order)? {
                book_difference(tx, &fast, &deposit, context)?;
            }
        }
        Moment::Lost => return lose(tx, &fast, context),
    }
    Ok(true)
}

/// Opens a loss for the amount that was counted on, unless the deposit is there already.
fn expect_deposit(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    terms: &OrderTerms,
    context: &PayContext,
) -> Result<(), SolverError> {
    if deposits::of_order(tx, fast.order)?.is_some() {
        return Ok(());
    }
    let loss = Loss {
        order: fast.order,
        request: fast.request,
        chain: terms.deposit.chain,
        currency: terms.deposit.address.evm().unwrap_or_default(),
        amount: fast.amount,
        usd: dollars(fast.held),
        deadline: Timestamp::from_secs(i64::from(terms.deadline)),
    };
    Ok(losses::open(tx, &loss, context.now)?)
}

/// Voids the hold: the balance is free again.
fn give_up(tx: &mut Tx<'_>, fast: &FastFill, context: &PayContext) -> Result<(), SolverError> {
    if let Some(open) = ledger::open_hold_of(tx, HoldKind::FastFill, fast.request.0)? {
        ledger::void_hold(tx, open.hold.id, context.now)?;
        fast_fills::void(tx, fast.order)?;
    }
    Ok(())
}

/// Ends the hold. If nothing was paid yet, the deposit pays for the order like any other.
fn land(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    deposit: &DepositRow,
    filled: bool,
    context: &PayContext,
) -> Result<(), SolverError> {
    if settlements::outcome(tx, fast.order)?.is_none() {
        dues::withdraw(tx, fast.request)?;
        return give_up(tx, fast, context);
    }
    let Some(hold) = ledger::find_hold(tx, fast.hold())? else { return Ok(()) };
    let ends_here = match hold.state {
        HoldState::Open => ledger::void_hold(tx, fast.hold(), context.now)?,
        HoldState::Posted => {
            let cause = Cause::FastFillReturn { hold: fast.hold() };
            ledger::post(tx, &Entry::new(cause, fast.wallet, fast.held, Some(fast.request))?, context.now)?
        }
        // An earlier deposit had ended the hold, and a reorg took that deposit away.
        HoldState::Voided => false,
    };
    if ends_here && filled {
        book_difference(tx, fast, deposit, context)?;
    }
    Ok(())
}

/// Spends the hold. `false` if none was open.
fn lose(tx: &mut Tx<'_>, fast: &FastFill, context: &PayContext) -> Result<bool, SolverError> {
    let open = ledger::find_hold(tx, fast.hold())?.is_some_and(|hold| hold.state == HoldState::Open);
    if !open {
        return Ok(false);
    }
    let cause = Cause::FastFillLoss { hold: fast.hold() };
    let entry = Entry::new(cause, fast.wallet, fast.held.negated(), Some(fast.request))?;
    ledger::post_hold(tx, fast.hold(), &[entry], context.now)?;
    Ok(true)
}

/// True if an order was filled ahead of its deposit, which is still to come.
pub fn is_ahead(tx: &mut Tx<'_>, request: &Request) -> Result<bool, SolverError> {
    Ok(fast_fills::of_order(tx, request.order_id)?.is_some()
        && settlements::outcome(tx, request.order_id)?.is_some()
        && deposits::of_order(tx, request.order_id)?.is_none())
}

/// True if the integrator's hold was spent in place of the deposit.
pub fn was_lost(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, SolverError> {
    let Some(fast) = fast_fills::of_order(tx, order)? else { return Ok(false) };
    Ok(ledger::find_hold(tx, fast.hold())?.is_some_and(|hold| hold.state == HoldState::Posted))
}

/// A USDC of the ledger counts as a dollar here.
pub fn dollars(usdc: UsdcMicros) -> UsdMicros {
    UsdMicros(usdc.0)
}

/// True if an unrecognized deposit still belongs to an order that was filled ahead of it: only another chain or another
/// currency excludes it. Its amount is measured by the amount that was counted on.
pub const fn is_of_the_order(reason: FailReason) -> bool {
    matches!(reason, FailReason::DepositedAmountTooLowToFill)
}

/// Books the difference between the deposit and the amount that was counted on.
fn book_difference(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    deposit: &DepositRow,
    context: &PayContext,
) -> Result<(), SolverError> {
    let price = context.price_now(deposit.deposit.chain, deposit.deposit.currency);
    let delta = difference(fast, deposit.deposit.amount, price)?;
    let deposit = deposit.id.0;
    let cause = match delta {
        UsdcMicros::ZERO => return Ok(()),
        more if more > UsdcMicros::ZERO => Cause::FastFillSurplus { deposit },
        _ => Cause::FastFillShortage { deposit },
    };
    ledger::post(tx, &Entry::new(cause, fast.wallet, delta, Some(fast.request))?, context.now)?;
    Ok(())
}

/// The difference at the price when the fill was asked for or at today's, whichever is worse for the integrator:
/// otherwise a depositor, who chooses the time and the amount, could sell us a currency at an outdated price. If
/// today's price is unknown, no more is credited than was held.
fn difference(fast: &FastFill, deposited: Amount, now: Option<(Price, u8)>) -> Result<UsdcMicros, OutOfRange> {
    let held = Amount::new(U256::from(fast.held.0.unsigned_abs()));
    let micros = |amount: Amount| i64::try_from(amount.units()).map_err(|_| OutOfRange);
    if deposited >= fast.amount {
        let more = deposited.checked_sub(fast.amount)?;
        let then = micros(held.mul_floor(Ratio::new(more.units(), fast.amount.units())?)?)?;
        let bound =
            now.map_or(Ok(fast.held.0), |(price, decimals)| price.usd_floor(more, decimals).map(|usd| usd.0))?;
        return Ok(UsdcMicros(then.min(bound)));
    }
    let less = fast.amount.checked_sub(deposited)?;
    let then = micros(held.mul_ceil(Ratio::new(less.units(), fast.amount.units())?)?)?;
    let bound = now.map_or(Ok(0), |(price, decimals)| price.usd_ceil(less, decimals).map(|usd| usd.0))?;
    Ok(UsdcMicros(then.max(bound)).negated())
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256};
    use domain::api_key::ApiKeyId;
    use domain::ids::RequestId;

    use super::*;

    #[test]
    fn a_difference_has_the_price_that_is_worse_for_the_integrator() {
        let amount = |units: u64| Amount::new(U256::from(units));
        // Three units are worth a thousandth of a dollar.
        let fast = FastFill {
            order: OrderId(B256::ZERO),
            request: RequestId(B256::ZERO),
            attempt: 0,
            key: ApiKeyId::new([0; 10]),
            wallet: Address::ZERO,
            amount: amount(3_000),
            held: UsdcMicros(1_000_000),
        };
        for (deposited, micros) in [
            (3_000, 0),
            (3_001, 333),
            (2_999, -334),
            (2_700, -100_000),
            (6_000, 1_000_000),
            // Without a price, the hold bounds the credit.
            (30_000_000, 1_000_000),
        ] {
            assert_eq!(difference(&fast, amount(deposited), None), Ok(UsdcMicros(micros)), "{deposited}");
        }
        let at = |tenths: u128| Some((Price::new(tenths, 1).unwrap(), 3));
        for (deposited, price, micros) in [
            // The market fell: a surplus has today's price, a shortage the old one.
            (6_000, 1, 300_000),
            (30_000_000, 1, 2_999_700_000),
            (2_700, 1, -100_000),
            // The market rose: the other way round.
            (6_000, 10, 1_000_000),
            (2_700, 10, -300_000),
        ] {
            assert_eq!(difference(&fast, amount(deposited), at(price)), Ok(UsdcMicros(micros)), "{deposited} {price}");
        }
    }
}
