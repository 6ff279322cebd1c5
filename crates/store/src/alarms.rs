//! Alarms that the database tells of: rows that wait for a person.

use std::time::Duration;

use domain::alarm::Alarm;
use domain::ids::ChainId;
use domain::time::Timestamp;

use crate::{StoreError, Tx, Value};

/// Rows of one kind on one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub alarm: Alarm,
    pub chain: ChainId,
    pub rows: u64,
}

/// Time that a payment may wait before a person should know.
const MAX_PAYMENT_WAIT: Duration = Duration::from_secs(600);
/// Time for which a loss is told: it cannot be undone, and must not hide the next one.
const LOSS_ALARM_PERIOD: Duration = Duration::from_secs(86_400);

/// Every query gives chains and numbers of rows; `$1` is a time in the past. All of them read an index or a small
/// table.
const QUERIES: [(Alarm, Duration, &str); 7] = [
    (
        Alarm::LaneQuarantined,
        Duration::ZERO,
        "select chain_id, count(*) from lane where quarantined is not null group by chain_id",
    ),
    (Alarm::PaymentParked, Duration::ZERO, "select chain_id, count(*) from due where parked = 1 group by chain_id"),
    (
        Alarm::PaymentWaits,
        MAX_PAYMENT_WAIT,
        "select chain_id, count(*) from due where parked = 0 and created_at < $1 group by chain_id",
    ),
    // A fast fill is paid out before its deposit: that deposit is expected, not missing.
    (
        Alarm::DepositMissing,
        Duration::ZERO,
        "select chain_id, count(*) from loss l where l.state = 'missing'
         and not exists (select 1 from fast_fill f where f.order_id = l.order_id) group by chain_id",
    ),
    (
        Alarm::LossBooked,
        LOSS_ALARM_PERIOD,
        "select chain_id, count(*) from loss where state = 'booked' and booked_at > $1 group by chain_id",
    ),
    // Dust, which anyone can send, waits for nobody.
    (
        Alarm::DepositNotProven,
        Duration::ZERO,
        "select chain_id, count(*) from depository_deposit where settled = 2
         and refusal <> 'sending it costs more than it is' group by chain_id",
    ),
    (Alarm::PayoutUnrecognized, Duration::ZERO, "select chain_id, count(*) from unrecognized_payout group by chain_id"),
];

/// Everything that stands open, by kind and chain.
pub fn standing(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Counted>, StoreError> {
    let mut standing = Vec::new();
    for (alarm, age, sql) in QUERIES {
        let before = now.millis().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let args: &[Value] = if sql.contains("$1") { &[before.into()] } else { &[] };
        for row in tx.rows(sql, args)? {
            standing.push(Counted { alarm, chain: ChainId(row.uint(0)?), rows: row.uint(1)? });
        }
    }
    Ok(standing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depository_ledger::WORTHLESS;

    #[test]
    fn dust_is_left_out_by_the_words_of_its_refusal() {
        let query = QUERIES.iter().find(|(alarm, ..)| *alarm == Alarm::DepositNotProven);
        assert!(query.is_some_and(|(_, _, sql)| sql.contains(&format!("refusal <> '{WORTHLESS}'"))));
    }
}
