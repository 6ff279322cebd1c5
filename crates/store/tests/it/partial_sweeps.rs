//! Orders that were paid out and miss a deposit, and sweeps for a part of what is at an address.

use alloy_primitives::{Address, B256, U256};
use domain::ids::{ChainId, OrderId, RequestId, SweepId};
use domain::money::{Amount, UsdMicros};
use domain::sweep;
use domain::time::Timestamp;
use store::arrivals::{self, Arrival, Place};
use store::deposits::{self, Deposit, DepositId};
use store::losses::{self, Loss};
use store::sweeps::{self, Missing, Shortage, Sweep};
use store::{StoreError, Tx};

use crate::database::Database;

crate::on_both_engines! {
    an_order_misses_what_has_not_come_back_in_its_currency
    what_a_partial_sweep_leaves_is_one_transfer
    one_balance_has_one_live_sweep_whatever_a_reorg_takes_away
}

const CHAIN: ChainId = ChainId(1);
const USDC: Address = Address::repeat_byte(0x0c);
const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const PLACE: Place = Place { address: Address::repeat_byte(2), currency: USDC };
const ORDER: OrderId = OrderId(B256::repeat_byte(0x0a));
const REQUEST: RequestId = RequestId(B256::repeat_byte(0x0b));

fn units(units: u64) -> Amount {
    Amount::new(U256::from(units))
}

fn sweep(n: u8) -> Sweep {
    Sweep {
        id: SweepId(B256::repeat_byte(n)),
        chain: CHAIN,
        address: PLACE.address,
        currency: PLACE.currency,
        order: ORDER,
        request: REQUEST,
        reason: None,
        expected: None,
    }
}

fn deposit(tx: &mut Tx<'_>, n: u8, currency: Address, amount: Amount) -> Result<DepositId, StoreError> {
    let deposit = Deposit {
        chain: CHAIN,
        tx: B256::repeat_byte(n),
        ordinal: 0,
        log_index: 0,
        block_number: 9,
        block_hash: B256::repeat_byte(9),
        block_time: NOW,
        order_id: Some(ORDER),
        claim: Some(ORDER),
        depositor: Address::ZERO,
        payer: PLACE.address,
        sender: Address::repeat_byte(0xf1),
        currency,
        amount,
        ripe_at: 9,
    };
    Ok(deposits::insert(tx, &deposit, NOW)?.expect("it is new"))
}

async fn an_order_misses_what_has_not_come_back_in_its_currency(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let unit = move |tx: &mut Tx<'_>| {
        let missing = |tx: &mut Tx<'_>| sweeps::missing(tx, CHAIN, PLACE.address, PLACE.currency);
        let of = |amount| [Missing { order: ORDER, request: REQUEST, amount: units(amount), in_one: false }];
        assert!(sweeps::begin(tx, &sweep(0x51), NOW)?);
        assert_eq!(missing(tx)?, []);
        let loss = Loss {
            order: ORDER,
            request: REQUEST,
            chain: CHAIN,
            currency: USDC,
            amount: units(1_000),
            usd: UsdMicros(1),
            deadline: NOW,
        };
        losses::open(tx, &loss, NOW)?;
        assert_eq!(missing(tx)?, of(1_000));
        // Of other currencies there may be more than a sum holds.
        for n in [1, 2] {
            deposit(tx, n, Address::repeat_byte(0x99), Amount::new(U256::MAX))?;
        }
        assert_eq!(missing(tx)?, of(1_000));
        let nine_tenths = deposit(tx, 3, USDC, units(900))?;
        assert_eq!(missing(tx)?, of(1_000), "it is nobody's yet");
        assert!(deposits::use_as_input(tx, nine_tenths, ORDER)?);
        losses::recover(tx, ORDER, nine_tenths, NOW)?;
        assert_eq!(missing(tx)?, of(100));
        assert_eq!(sweeps::shortfall(tx, ORDER, Some(DepositId(0)))?, units(100), "the slot always counts");
        assert_eq!(sweeps::kept(tx, &loss)?, units(900));
        deposits::release(tx, nine_tenths)?;
        let all = deposit(tx, 4, USDC, units(995))?;
        assert!(deposits::use_as_input(tx, all, ORDER)?);
        assert_eq!(missing(tx)?, [], "to a hundredth");
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

async fn what_a_partial_sweep_leaves_is_one_transfer(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let unit = move |tx: &mut Tx<'_>| {
        let (payer, stranger) = (Address::repeat_byte(0x5e), Address::repeat_byte(0x5f));
        let arrival = |n: u8, sender, amount| Arrival {
            chain: CHAIN,
            address: PLACE.address,
            currency: PLACE.currency,
            amount: units(amount),
            tx: Some(B256::repeat_byte(n)),
            log_index: 3,
            sender: Some(sender),
            direct: true,
            block_number: 8,
            block_hash: B256::repeat_byte(8),
            ripe_at: 8,
            created_at: NOW,
        };
        let left = |tx: &mut Tx<'_>| -> Result<Vec<_>, StoreError> {
            let waiting = arrivals::waiting_at(tx, CHAIN, PLACE.address, PLACE.currency)?;
            Ok(waiting.iter().map(|it| (it.amount, it.sender, it.tx)).collect())
        };
        let later = |n| Timestamp::from_millis(NOW.millis() + n);
        arrivals::put(tx, &arrival(1, payer, 1_000))?;
        arrivals::put(tx, &arrival(2, stranger, 5))?;
        assert!(sweeps::begin(tx, &sweep(0x51), NOW)?);
        arrivals::swept(tx, CHAIN, PLACE, sweep(0x51).id)?;
        sweeps::apply(tx, sweep(0x51).id, sweep::Event::Mined)?;
        let short = sweeps::fell_short(tx, sweep(0x51).id)?;
        assert_eq!(short, Some(Shortage { brought: Amount::ZERO, rest: units(1_005) }));
        // A stranger's dust hides no sender.
        arrivals::keep_rest(tx, sweep(0x51).id, units(600), later(1))?;
        assert_eq!(left(tx)?, [(units(600), Some(payer), None)]);
        arrivals::keep_rest(tx, sweep(0x51).id, units(600), later(1))?;
        assert_eq!(left(tx)?.len(), 1, "it is known");
        arrivals::forget_above(tx, CHAIN, 5)?;
        assert_eq!(left(tx)?.len(), 1, "a reorg does not take it away");
        // Most of what is left may be the stranger's.
        assert!(sweeps::begin(tx, &sweep(0x52), later(2))?);
        arrivals::put(tx, &arrival(3, stranger, 500))?;
        arrivals::swept(tx, CHAIN, PLACE, sweep(0x52).id)?;
        sweeps::apply(tx, sweep(0x52).id, sweep::Event::Mined)?;
        arrivals::keep_rest(tx, sweep(0x52).id, units(600), later(3))?;
        assert_eq!(left(tx)?, [(units(600), None, None)]);
        // What is left of the first is the business of the second.
        arrivals::left(tx, CHAIN, PLACE)?;
        arrivals::keep_rest(tx, sweep(0x51).id, units(600), later(4))?;
        assert_eq!(left(tx)?, []);
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

async fn one_balance_has_one_live_sweep_whatever_a_reorg_takes_away(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let is_live = |tx: &mut Tx<'_>| sweeps::is_live(tx, CHAIN, PLACE.address, PLACE.currency);
    let unit = move |tx: &mut Tx<'_>| {
        assert!(sweeps::begin(tx, &sweep(0x51), NOW)?);
        sweeps::apply(tx, sweep(0x51).id, sweep::Event::Mined)?;
        assert!(!is_live(tx)?);
        sweeps::apply(tx, sweep(0x51).id, sweep::Event::Unmined)?;
        assert!(is_live(tx)?, "it is sent again");
        sweeps::apply(tx, sweep(0x51).id, sweep::Event::Mined)?;
        assert!(sweeps::begin(tx, &sweep(0x52), NOW)?);
        sweeps::apply(tx, sweep(0x51).id, sweep::Event::Unmined)?;
        sweeps::apply(tx, sweep(0x52).id, sweep::Event::Failed)?;
        assert!(!is_live(tx)?, "the first stayed as it was while the second was under way");
        sweeps::apply(tx, sweep(0x52).id, sweep::Event::Unmined)?;
        assert!(!is_live(tx)?, "void by proof");
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}
