//! Alarms: rows that wait for a person are counted by kind and chain.

use std::time::Duration;

use alloy_primitives::{Address, B256};
use domain::alarm::Alarm;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::{Amount, UsdMicros};
use domain::time::Timestamp;
use store::alarms::{self, Counted};
use store::dues::Due;
use store::losses::Loss;
use store::payments::Subject;
use store::{StoreError, dues, lanes, losses, payouts};

use crate::database::Database;

const CHAIN: ChainId = ChainId(10);
const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

crate::on_both_engines! {
    rows_that_wait_for_a_person_are_counted
}

fn due(order: u8) -> Due {
    Due {
        subject: Subject::Fill(OrderId(B256::repeat_byte(order))),
        request: Some(RequestId(B256::repeat_byte(order))),
        chain: CHAIN,
        currency: Address::ZERO,
        recipient: Address::repeat_byte(1),
        amount: Amount::ZERO,
        since: NOW,
    }
}

fn loss(order: u8) -> Loss {
    Loss {
        order: OrderId(B256::repeat_byte(order)),
        request: RequestId(B256::repeat_byte(order)),
        chain: CHAIN,
        currency: Address::ZERO,
        amount: Amount::ZERO,
        usd: UsdMicros(1),
        deadline: NOW,
    }
}

async fn rows_that_wait_for_a_person_are_counted(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let at = |seconds| NOW.plus(Duration::from_secs(seconds));
    let standing = async |now| store.read(move |tx| alarms::standing(tx, now)).await;
    assert_eq!(standing(NOW).await?, []);
    let unit = |tx: &mut store::Tx<'_>| {
        for wallet in [2, 3, 4] {
            lanes::register(tx, CHAIN, Address::repeat_byte(wallet))?;
        }
        lanes::quarantine(tx, CHAIN, Address::repeat_byte(3), Some("not ours"))?;
        for order in [5, 6, 7] {
            dues::put(tx, &due(order), "no funds", NOW)?;
        }
        dues::park(tx, &due(5).subject)?;
        losses::open(tx, &loss(8), NOW)?;
        losses::open(tx, &loss(9), NOW)?;
        losses::book(tx, OrderId(B256::repeat_byte(9)), NOW)?;
        payouts::unrecognized(tx, ChainId(11), B256::repeat_byte(1), B256::repeat_byte(2), 7)
    };
    store.write::<_, StoreError>(unit).await?;
    let of = |alarm, rows| Counted { alarm, chain: CHAIN, rows };
    let unrecognized = Counted { alarm: Alarm::PayoutUnrecognized, chain: ChainId(11), rows: 1 };
    let always = [of(Alarm::LaneQuarantined, 1), of(Alarm::PaymentParked, 1)];
    let (waits, missing, booked) = (of(Alarm::PaymentWaits, 2), of(Alarm::DepositMissing, 1), of(Alarm::LossBooked, 1));
    assert_eq!(standing(at(1)).await?, [always[0], always[1], missing, booked, unrecognized], "at once");
    assert_eq!(standing(at(601)).await?, [always[0], always[1], waits, missing, booked, unrecognized], "after a while");
    assert_eq!(standing(at(90_000)).await?, [always[0], always[1], waits, missing, unrecognized], "a day later");
    Ok(())
}
