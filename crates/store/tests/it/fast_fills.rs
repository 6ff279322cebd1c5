//! Fast fills that failed on the chain: their hold waits for the cause, and then no more.

use alloy_primitives::{Address, B256, U256};
use domain::api_key::ApiKeyId;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::ledger::{Cause, Entry, Hold, UsdcMicros};
use domain::money::Amount;
use domain::time::Timestamp;
use store::fast_fills::{self, FastFill};
use store::payments::{self, PaymentId, Subject};
use store::{StoreError, audit, ledger};

use crate::database::Database;

crate::on_both_engines! {
    a_failed_fast_fill_waits_for_its_cause_and_is_audited
    a_payment_that_is_not_there_has_wasted_nothing
}

const NOW: Timestamp = Timestamp::from_millis(1_000);
const CHAIN: ChainId = ChainId(10);
const ORDER: OrderId = OrderId(B256::repeat_byte(1));
const WALLET: Address = Address::repeat_byte(2);

fn fast_fill() -> FastFill {
    FastFill {
        order: ORDER,
        request: RequestId(B256::repeat_byte(3)),
        attempt: 0,
        key: ApiKeyId::new([0; 10]),
        wallet: WALLET,
        amount: Amount::new(U256::from(100)),
        held: UsdcMicros(100),
        window_ends: NOW,
    }
}

async fn a_failed_fast_fill_waits_for_its_cause_and_is_audited(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let unit = |tx: &mut store::Tx<'_>| {
        let fast = fast_fill();
        ledger::post(tx, &Entry::new(Cause::Funding { transfer: 1 }, WALLET, UsdcMicros(500), None).unwrap(), NOW)?;
        ledger::open_hold(tx, &Hold { id: fast.hold(), wallet: WALLET, amount: fast.held, request: None }, NOW)?;
        fast_fills::put(tx, &fast, NOW)?;
        assert_eq!(fast_fills::failed(tx, ORDER)?, None);

        fast_fills::fail(tx, ORDER, PaymentId(7), CHAIN)?;
        assert_eq!(fast_fills::failed(tx, ORDER)?, Some((fast.clone(), PaymentId(7))));
        assert_eq!(fast_fills::failed_on(tx, CHAIN, 10)?, [ORDER]);
        assert_eq!(fast_fills::failed_on(tx, ChainId(11), 10)?, []);
        assert_eq!(fast_fills::of_order(tx, ORDER)?, None, "nobody was paid by it");
        assert!(fast_fills::was_voided(tx, ORDER)?);
        assert_eq!(audit::fast_fill_contradictions(tx, 10)?, []);

        fast_fills::end_failed(tx, ORDER)?;
        assert_eq!((fast_fills::failed(tx, ORDER)?, fast_fills::failed_on(tx, CHAIN, 10)?), (None, vec![]));
        let found = audit::fast_fill_contradictions(tx, 10)?;
        let orders: Vec<OrderId> = found.iter().map(|(order, _)| *order).collect();
        assert_eq!(orders, [ORDER], "its hold is open, and waits for nothing: {found:?}");
        let gas = Entry::new(Cause::FastFillGas { hold: fast.hold() }, WALLET, UsdcMicros(-40), None).unwrap();
        ledger::post_hold(tx, fast.hold(), &[gas], NOW)?;
        assert_eq!(audit::fast_fill_contradictions(tx, 10)?, []);
        let account = ledger::account(tx, WALLET)?;
        assert_eq!((account.balance.0, account.held.0), (460, 0));
        Ok::<_, StoreError>(())
    };
    Ok(store.write(unit).await?)
}

async fn a_payment_that_is_not_there_has_wasted_nothing(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let read = |tx: &mut store::Tx<'_>| {
        let subject = Subject::Fill(ORDER);
        assert_eq!((payments::wasted(tx, &subject)?, payments::is_unexplained(tx, &subject)?), (vec![], false));
        let id = PaymentId(7);
        assert_eq!((payments::wasted_by(tx, id)?, payments::is_cause_unknown(tx, id)?), (None, false));
        assert_eq!(payments::block_of(tx, id)?, None);
        Ok::<_, StoreError>(())
    };
    Ok(store.read(read).await?)
}
