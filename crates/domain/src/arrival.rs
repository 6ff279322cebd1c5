//! Money at a deposit address: whether it is swept, and for which order.
//!
//! Nothing is paid by these rules. A sweep brings the balance into the depository, and there it is a deposit like every
//! other, judged by `deposit`.

use std::time::Duration;

use crate::deposit_address::Kind;
use crate::fail::FailReason;
use crate::loss;
use crate::money::{Amount, OutOfRange, Ratio};
use crate::time::Timestamp;

/// Less than this share of a strict order is dust until the order's time is over: anybody can send it.
const DUST_BPS: u16 = 1_000;

/// The share of a sum that one account must have sent to be taken for its sender.
const SENDER_BPS: u16 = 9_000;

/// True if an account that has sent so much of a sum is its sender: somebody else's dust makes nobody doubtful.
pub fn is_sender(sent: Amount, sum: Amount) -> Result<bool, OutOfRange> {
    Ok(sent >= sum.mul_ceil(Ratio::bps(SENDER_BPS))?)
}

/// The balance of one currency at an address, and the order that the address was given out for.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub kind: Kind,
    /// On the chain and in the currency of the quote.
    pub as_quoted: bool,
    pub balance: Amount,
    pub quoted: Amount,
    /// The order has its deposit, or has ended without one.
    pub order_paid: bool,
    /// The order was filled for a deposit of so much that is not there: ahead of it, or a reorg took it away.
    pub awaited: Option<Amount>,
    /// The order cannot be filled any more.
    pub late: bool,
    /// Since it is more than dust, by [`since`].
    pub age: Duration,
    /// It is worth more than sweeping it and sending it back costs.
    pub worth_returning: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It stays where it is.
    Wait,
    /// It is swept under the order that the address was given out for.
    Sweep,
    /// It is priced anew, and swept under the order of that quote. Where no quote can be given, it goes back.
    Requote,
}

pub fn plan(arrived: &Arrived, grace: Duration) -> Result<Plan, OutOfRange> {
    let back = if arrived.worth_returning { Plan::Sweep } else { Plan::Wait };
    let fits = arrived.as_quoted && !arrived.order_paid;
    if arrived.balance.is_zero() {
        return Ok(Plan::Wait);
    }
    if let (Some(paid_for), true) = (arrived.awaited, arrived.as_quoted)
        && loss::takes_place(paid_for, arrived.balance)?
    {
        return Ok(Plan::Sweep);
    }
    Ok(match arrived.kind {
        Kind::Open if fits && !arrived.late && arrived.balance == arrived.quoted => Plan::Sweep,
        Kind::Open => Plan::Requote,
        Kind::Strict if fits && !arrived.late && arrived.balance >= arrived.quoted => Plan::Sweep,
        // It pays for nothing any more, and goes back as a request of its own.
        Kind::Strict if !fits || arrived.late => back,
        // The rest may be on its way, and dust may be a stranger's: neither may fail the payment of somebody else.
        Kind::Strict => {
            let dust = arrived.balance < arrived.quoted.mul_ceil(Ratio::bps(DUST_BPS))?;
            if dust || arrived.age < grace { Plan::Wait } else { back }
        }
    })
}

/// The time from which a balance has waited: when the transfers behind it came to a tenth of the quoted amount or,
/// where all of them are less, to a tenth of the balance. Dust that a stranger sent before takes nothing of the time in
/// which the rest may come. None while the transfers that are known come to less.
pub fn since(
    mut transfers: Vec<(Timestamp, Amount)>,
    quoted: Amount,
    balance: Amount,
) -> Result<Option<Timestamp>, OutOfRange> {
    let dust = quoted.mul_ceil(Ratio::bps(DUST_BPS))?;
    let least = if balance >= dust { dust } else { balance.mul_ceil(Ratio::bps(DUST_BPS))? };
    transfers.sort_by_key(|(at, _)| *at);
    let mut sum = Amount::ZERO;
    for (at, amount) in transfers {
        sum = sum.checked_add(amount)?;
        if sum >= least {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The reason why a balance that no quote can be given for goes back. None while another try may help.
pub fn unquotable(too_low: bool, age: Duration, grace: Duration) -> Option<FailReason> {
    match (too_low, age >= grace) {
        (true, _) => Some(FailReason::DepositedAmountTooLowToFill),
        (false, true) => Some(FailReason::NoQuotes),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    const GRACE: Duration = Duration::from_secs(3_600);

    fn amount(units: u64) -> Amount {
        Amount::new(U256::from(units))
    }

    fn arrived(kind: Kind, balance: u64) -> Arrived {
        Arrived {
            kind,
            as_quoted: true,
            balance: amount(balance),
            quoted: amount(1_000),
            order_paid: false,
            awaited: None,
            late: false,
            age: Duration::ZERO,
            worth_returning: true,
        }
    }

    #[test]
    fn the_sender_of_nine_tenths_is_the_sender_of_all() {
        for (sent, sum, expected) in
            [(900, 1_000, true), (899, 1_000, false), (9, 10, true), (10, 11, true), (9, 11, false)]
        {
            assert_eq!(is_sender(amount(sent), amount(sum)), Ok(expected), "{sent} of {sum}");
        }
    }

    #[test]
    fn a_strict_address_waits_for_its_amount() {
        let strict = |balance| arrived(Kind::Strict, balance);
        let old = |balance| Arrived { age: GRACE, ..strict(balance) };
        let late = |balance| Arrived { late: true, ..strict(balance) };
        let paid = |balance| Arrived { order_paid: true, ..strict(balance) };
        let other = |balance| Arrived { as_quoted: false, ..strict(balance) };
        let cases = [
            ("nothing", strict(0), Plan::Wait),
            ("exactly", strict(1_000), Plan::Sweep),
            ("more", strict(1_001), Plan::Sweep),
            ("less", strict(999), Plan::Wait),
            ("less, for too long", old(999), Plan::Sweep),
            ("a tenth, for too long", old(100), Plan::Sweep),
            ("dust, for as long", old(99), Plan::Wait),
            ("dust, when the order is over", late(1), Plan::Sweep),
            ("a second deposit", paid(1_000), Plan::Sweep),
            ("another currency or chain", other(1), Plan::Sweep),
            ("what is worth nothing", Arrived { worth_returning: false, ..paid(5) }, Plan::Wait),
            ("the same, too late", Arrived { worth_returning: false, ..late(1_000) }, Plan::Wait),
            ("the same of the order", Arrived { worth_returning: false, ..strict(1_000) }, Plan::Sweep),
        ];
        for (name, arrived, expected) in cases {
            assert_eq!(plan(&arrived, GRACE), Ok(expected), "{name}");
        }
    }

    #[test]
    fn the_time_of_a_balance_begins_when_it_is_more_than_dust() {
        let at = Timestamp::from_secs;
        // Transfers by second and amount, the balance, and the second from which it has waited. 1,000 are quoted.
        type Case = (&'static str, &'static [(i64, u64)], u64, Option<i64>);
        let cases: [Case; 8] = [
            ("nothing is known", &[], 500, None),
            ("one transfer", &[(7, 500)], 500, Some(7)),
            ("a stranger's dust long before", &[(1, 99), (7, 500)], 599, Some(7)),
            ("a tenth in parts", &[(1, 60), (2, 40), (7, 500)], 600, Some(2)),
            ("more since, in any order", &[(9, 300), (7, 500)], 800, Some(7)),
            ("dust alone", &[(1, 1), (3, 49), (5, 1)], 51, Some(3)),
            ("most of it is not known yet", &[(1, 99)], 599, None),
            ("no dust", &[(1, 0), (2, 100)], 100, Some(2)),
        ];
        for (name, transfers, balance, expected) in cases {
            let transfers = transfers.iter().map(|&(second, units)| (at(second), amount(units))).collect();
            assert_eq!(since(transfers, amount(1_000), amount(balance)), Ok(expected.map(at)), "{name}");
        }
    }

    #[test]
    fn an_open_address_is_priced_for_whatever_arrives() {
        let open = |balance| arrived(Kind::Open, balance);
        let cases = [
            ("nothing", open(0), Plan::Wait),
            ("exactly", open(1_000), Plan::Sweep),
            ("more", open(1_001), Plan::Requote),
            ("less", open(999), Plan::Requote),
            ("dust", open(1), Plan::Requote),
            ("the same again", Arrived { order_paid: true, ..open(1_000) }, Plan::Requote),
            ("late", Arrived { late: true, ..open(1_000) }, Plan::Requote),
            ("filled before", Arrived { order_paid: true, awaited: Some(amount(1_000)), ..open(900) }, Plan::Sweep),
            ("far less", Arrived { order_paid: true, awaited: Some(amount(1_000)), ..open(899) }, Plan::Requote),
            ("another currency or chain", Arrived { as_quoted: false, ..open(1_000) }, Plan::Requote),
        ];
        for (name, arrived, expected) in cases {
            assert_eq!(plan(&arrived, GRACE), Ok(expected), "{name}");
        }
    }

    #[test]
    fn too_little_goes_back_at_once_and_everything_else_when_the_time_is_over() {
        assert_eq!(unquotable(true, Duration::ZERO, GRACE), Some(FailReason::DepositedAmountTooLowToFill));
        assert_eq!(unquotable(false, Duration::ZERO, GRACE), None);
        assert_eq!(unquotable(false, GRACE, GRACE), Some(FailReason::NoQuotes));
    }
}
