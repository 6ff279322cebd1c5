//! Deposit addresses, the transfers to them and their sweeps, as the database keeps them.

use alloy_primitives::{Address, B256, Bytes, U256};
use domain::deposit_address::{Derivation, Kind, RouteKey};
use domain::fail::FailReason;
use domain::ids::{ChainId, OrderId, RequestId, SweepId};
use domain::money::Amount;
use domain::payment::State;
use domain::sweep;
use domain::time::Timestamp;
use store::arrivals::{self, Arrival, BehindDeposit, Place};
use store::blocks::{self, Cursor};
use store::deposit_addresses::{self, DepositAddress, Ends, Search};
use store::payments::{self, Fees, Mined, Payment, Subject};
use store::sweeps::{self, Sweep};
use store::{QuoteRow, Store, StoreError, lanes};

use crate::database::Database;

crate::on_both_engines! {
    an_address_is_found_among_many_and_on_its_chain_only
    a_transfer_is_kept_once_and_swept_once
    a_transfer_that_stands_behind_its_sweep_waits_again
    a_balance_is_looked_at_when_it_is_ripe_and_not_postponed
    an_address_is_searched_again_after_a_while
    an_address_that_was_never_paid_is_forgotten_with_its_request
    a_forgotten_address_is_remembered_as_it_was
    senders_are_found_behind_a_deposit
}

const CHAIN: ChainId = ChainId(1);
const USDC: Address = Address::repeat_byte(0x0c);
const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn at(number: u64) -> Cursor {
    Cursor { number, hash: B256::left_padding_from(&number.to_be_bytes()) }
}

fn address(n: u8, currency: Address) -> (QuoteRow, DepositAddress) {
    let (request, order) = (B256::repeat_byte(n), B256::repeat_byte(n ^ 0xff));
    let quote = QuoteRow {
        request_id: request,
        order_id: Some(order),
        created_at: NOW.millis(),
        expires_at: NOW.millis(),
        body: "{}".to_owned(),
    };
    let derivation = match n % 2 {
        0 => Derivation::Open(RouteKey(order)),
        _ => Derivation::Strict { order: OrderId(order), depositor: Address::repeat_byte(0xde) },
    };
    let given = DepositAddress {
        address: Address::repeat_byte(n),
        request: RequestId(request),
        order: OrderId(order),
        kind: if n.is_multiple_of(2) { Kind::Open } else { Kind::Strict },
        derivation,
        chain: CHAIN,
        currency,
        created_at: NOW,
    };
    (quote, given)
}

fn arrival(to: u8, tx: u8, units: u64, block: u64) -> Arrival {
    Arrival {
        chain: CHAIN,
        address: Address::repeat_byte(to),
        currency: USDC,
        amount: Amount::new(U256::from(units)),
        tx: Some(B256::repeat_byte(tx)),
        log_index: 3,
        sender: Some(Address::repeat_byte(0x5e)),
        direct: true,
        block_number: block,
        block_hash: at(block).hash,
        ripe_at: block + 2,
        created_at: NOW,
    }
}

/// Addresses 1 to 8; the even ones expect native currency.
async fn given(database: &Database) -> anyhow::Result<Store> {
    let store = database.open().await?;
    let unit = move |tx: &mut store::Tx<'_>| {
        blocks::advance(tx, CHAIN, at(7), NOW, 10)?;
        for n in 1..=8 {
            let (quote, given) = address(n, if n % 2 == 0 { Address::ZERO } else { USDC });
            let until = Timestamp::from_millis(NOW.millis() + i64::from(n));
            // The quote is no quote: this is about the address.
            let read =
                deposit_addresses::give_out(tx, &quote, &given, Ends { watched_until: until, forgotten_at: until });
            assert!(!matches!(read, Ok(None)), "the chain is known");
        }
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    Ok(store)
}

async fn an_address_is_found_among_many_and_on_its_chain_only(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let asked: Vec<Address> = (0..=250).map(Address::repeat_byte).collect();
    let (there, elsewhere) = store
        .read(move |tx| {
            let found = deposit_addresses::among(tx, CHAIN, &asked)?;
            Ok::<_, StoreError>((found, deposit_addresses::among(tx, ChainId(2), &asked)?))
        })
        .await?;
    let mut found: Vec<_> = there.iter().map(|given| given.address).collect();
    found.sort();
    assert_eq!(found, (1..=8).map(Address::repeat_byte).collect::<Vec<_>>());
    assert!(elsewhere.is_empty());
    assert_eq!(there.iter().find(|it| it.address == Address::repeat_byte(3)), Some(&address(3, USDC).1));
    // In turn, and none whose time is over.
    let native = |after: u8, now: i64| {
        store.read(move |tx| {
            let now = Timestamp::from_millis(NOW.millis() + now);
            let found = deposit_addresses::expecting_native(tx, CHAIN, Address::repeat_byte(after), now, 2)?;
            Ok::<_, StoreError>(found.iter().map(|given| given.address[0]).collect::<Vec<_>>())
        })
    };
    assert_eq!(native(0, 0).await?, [2, 4]);
    assert_eq!(native(4, 0).await?, [6, 8]);
    assert_eq!(native(0, 6).await?, [8]);
    let cursor = store.read(|tx| deposit_addresses::cursor(tx, CHAIN)).await?;
    assert_eq!(cursor, Some(at(7)), "it is searched from where it was given out");
    assert_eq!(store.read(|tx| deposit_addresses::cursor(tx, ChainId(2))).await?, None);
    store.close().await;
    Ok(())
}

async fn a_transfer_is_kept_once_and_swept_once(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let place = Place { address: Address::repeat_byte(1), currency: USDC };
    let unit = move |tx: &mut store::Tx<'_>| {
        assert!(arrivals::put(tx, &arrival(1, 0xa1, 5, 8))?);
        assert!(arrivals::put(tx, &arrival(1, 0xa1, 5, 9))?, "in another block");
        assert!(arrivals::put(tx, &arrival(1, 0xa2, 6, 9))?);
        // A balance that no transfer explains has no transaction.
        assert!(arrivals::put(tx, &Arrival { tx: None, sender: None, ..arrival(1, 0, 7, 9) })?);
        let waiting = arrivals::waiting_at(tx, CHAIN, place.address, USDC)?;
        let amounts: Vec<_> = waiting.iter().map(|it| (it.amount.to_string(), it.block_number)).collect();
        assert_eq!(amounts, [("7".to_owned(), 9), ("6".to_owned(), 9), ("5".to_owned(), 9)]);
        let sweep = |n: u8, reason| Sweep {
            id: SweepId(B256::repeat_byte(n)),
            chain: CHAIN,
            address: place.address,
            currency: USDC,
            order: OrderId(B256::repeat_byte(n)),
            request: RequestId(B256::repeat_byte(1)),
            reason,
            expected: None,
        };
        assert!(sweeps::begin(tx, &sweep(0x51, None), NOW)?);
        arrivals::swept(tx, CHAIN, place, SweepId(B256::repeat_byte(0x51)))?;
        assert!(!sweeps::begin(tx, &sweep(0x52, None), NOW)?, "one at a time");
        assert!(sweeps::is_live(tx, CHAIN, place.address, USDC)?);
        assert!(!arrivals::put(tx, &arrival(1, 0xa1, 5, 10))?, "what is swept does not come again");
        sweeps::apply(tx, SweepId(B256::repeat_byte(0x51)), sweep::Event::Failed)?;
        arrivals::unswept(tx, SweepId(B256::repeat_byte(0x51)))?;
        assert_eq!(arrivals::waiting_at(tx, CHAIN, place.address, USDC)?.len(), 3);
        assert_eq!(
            (sweeps::voids(tx, CHAIN, place.address, USDC)?, sweeps::count(tx, CHAIN, place.address, USDC)?),
            (1, 1)
        );
        let later = Timestamp::from_millis(NOW.millis() + 1);
        assert!(sweeps::begin(tx, &sweep(0x53, Some(FailReason::NoQuotes)), later)?);
        sweeps::apply(tx, SweepId(B256::repeat_byte(0x53)), sweep::Event::Mined)?;
        assert_eq!(sweeps::voids(tx, CHAIN, place.address, USDC)?, 0);
        let back = sweeps::returned(tx, OrderId(B256::repeat_byte(0x53)))?;
        assert_eq!(back, Some((RequestId(B256::repeat_byte(1)), FailReason::NoQuotes)));
        assert_eq!(sweeps::returned(tx, OrderId(B256::repeat_byte(0x51)))?, None);
        // A reorg takes the blocks away.
        arrivals::forget_above(tx, CHAIN, 8)?;
        assert!(arrivals::waiting_at(tx, CHAIN, place.address, USDC)?.is_empty());
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

/// A reorg puts the sweep of a transfer into block 9: it has taken what stands before it, and nothing else.
async fn a_transfer_that_stands_behind_its_sweep_waits_again(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let unit = move |tx: &mut store::Tx<'_>| {
        let (id, wallet) = (SweepId(B256::repeat_byte(0x51)), Address::repeat_byte(0xf1));
        let (address, place) = (Address::repeat_byte(1), Place { address: Address::repeat_byte(1), currency: USDC });
        let (order, request) = (OrderId(B256::repeat_byte(0x52)), RequestId(B256::ZERO));
        for transfer in [0xa1, 0xa2] {
            assert!(arrivals::put(tx, &arrival(1, transfer, 5, 8))?);
        }
        let expected = Some(Amount::new(U256::from(10)));
        let sweep = Sweep { id, chain: CHAIN, address, currency: USDC, order, request, reason: None, expected };
        assert!(sweeps::begin(tx, &sweep, NOW)?);
        arrivals::swept(tx, CHAIN, place, id)?;
        assert_eq!(sweeps::expected(tx, id, order)?, expected);
        assert_eq!(sweeps::expected(tx, id, OrderId(B256::ZERO))?, None, "another order's");
        lanes::register(tx, CHAIN, wallet)?;
        let payment = Payment {
            subject: Subject::Sweep(id),
            request: None,
            chain: CHAIN,
            wallet,
            nonce: 0,
            target: Address::ZERO,
            value: Amount::ZERO,
            data: Bytes::new(),
            gas: 21_000,
            recipient: Address::ZERO,
            currency: Address::ZERO,
            amount: Amount::ZERO,
        };
        let payment = payments::assign(tx, payment, Fees { max_fee: 7, max_tip: 1 }, NOW)?.unwrap().id;
        assert!(!arrivals::put(tx, &arrival(1, 0xa1, 5, 10))?, "the sweep is not mined");
        payments::set_state(tx, payment, State::Mined, NOW)?;
        let mined = Mined { tx: B256::repeat_byte(0x5e), block_number: 9, block_hash: at(9).hash, fee: None };
        payments::set_mined(tx, payment, Some(mined))?;
        assert!(!arrivals::put(tx, &arrival(1, 0xa1, 5, 8))?, "before it");
        assert!(!arrivals::put(tx, &arrival(1, 0xa1, 5, 9))?, "in its block, and nothing tells");
        assert!(arrivals::put(tx, &arrival(1, 0xa1, 5, 10))?, "behind it");
        let waiting = arrivals::waiting_at(tx, CHAIN, address, USDC)?;
        assert_eq!(
            waiting.iter().map(|it| (it.tx, it.block_number)).collect::<Vec<_>>(),
            [(Some(B256::repeat_byte(0xa1)), 10)]
        );
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

async fn a_balance_is_looked_at_when_it_is_ripe_and_not_postponed(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let (first, second) = (Address::repeat_byte(1), Address::repeat_byte(2));
    let unit = move |tx: &mut store::Tx<'_>| {
        arrivals::put(tx, &arrival(1, 0xa1, 5, 8))?;
        arrivals::put(tx, &arrival(2, 0xa2, 5, 9))?;
        let mut ripe = |block| -> Result<Vec<Address>, StoreError> {
            Ok(arrivals::ripe(tx, CHAIN, block, NOW, 10)?.iter().map(|place| place.address).collect())
        };
        assert!(ripe(9)?.is_empty());
        assert_eq!(ripe(10)?, [first]);
        assert_eq!(ripe(11)?.len(), 2);
        let place = Place { address: first, currency: USDC };
        arrivals::postpone(tx, CHAIN, place, Timestamp::from_millis(NOW.millis() + 1))?;
        let only: Vec<_> = arrivals::ripe(tx, CHAIN, 11, NOW, 10)?.iter().map(|place| place.address).collect();
        assert_eq!(only, [second]);
        // Another transfer is looked at all the same.
        arrivals::put(tx, &arrival(1, 0xa3, 5, 9))?;
        assert_eq!(arrivals::ripe(tx, CHAIN, 11, NOW, 10)?.len(), 2);
        // One whose sweep is under way takes no turn; the same address in another currency, or on another chain, does.
        let id = SweepId(B256::repeat_byte(0x51));
        let (order, request) = (OrderId(B256::repeat_byte(0x52)), RequestId(B256::repeat_byte(1)));
        let live =
            Sweep { id, chain: CHAIN, address: first, currency: USDC, order, request, reason: None, expected: None };
        let elsewhere = [
            Sweep { id: SweepId(B256::repeat_byte(0x53)), chain: ChainId(2), address: second, ..live },
            Sweep { id: SweepId(B256::repeat_byte(0x54)), currency: Address::ZERO, address: second, ..live },
        ];
        for sweep in [live, elsewhere[0], elsewhere[1]] {
            assert!(sweeps::begin(tx, &sweep, NOW)?);
        }
        assert_eq!(arrivals::ripe(tx, CHAIN, 11, NOW, 1)?, [Place { address: second, currency: USDC }]);
        assert_eq!(arrivals::ripe(tx, CHAIN, 11, NOW, 10)?.len(), 1);
        sweeps::apply(tx, id, sweep::Event::Mined)?;
        assert_eq!(arrivals::ripe(tx, CHAIN, 11, NOW, 10)?.len(), 2, "what came since is looked at when it has ended");
        arrivals::left(tx, CHAIN, place)?;
        assert_eq!(arrivals::ripe(tx, CHAIN, 11, NOW, 10)?.len(), 1);
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

async fn an_address_is_searched_again_after_a_while(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let (address, later) = (Address::repeat_byte(1), Timestamp::from_millis(NOW.millis() + 60_000));
    let unit = move |tx: &mut store::Tx<'_>| {
        let search = Search { address, chain: CHAIN, caller: B256::repeat_byte(1) };
        assert!(deposit_addresses::reindex(tx, search, NOW, 60_000)?);
        assert!(!deposit_addresses::reindex(tx, search, NOW, 60_000)?);
        // Somebody else's search, or one on another chain, uses up nobody's turn.
        for other in [Search { caller: B256::repeat_byte(2), ..search }, Search { chain: ChainId(2), ..search }] {
            assert!(deposit_addresses::reindex(tx, other, NOW, 60_000)?);
            assert!(!deposit_addresses::reindex(tx, other, NOW, 60_000)?);
        }
        assert!(deposit_addresses::reindex(tx, search, later, 60_000)?);
        deposit_addresses::supersede(tx, address, RequestId(B256::repeat_byte(9)))?;
        deposit_addresses::watch_until(tx, address, later)?;
        deposit_addresses::set_cursor(tx, CHAIN, at(8))?;
        assert_eq!(deposit_addresses::cursor(tx, CHAIN)?, Some(at(8)));
        let given = deposit_addresses::of_request(tx, RequestId(B256::repeat_byte(1)))?;
        assert_eq!(given.map(|given| given.address), Some(address));
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

async fn an_address_that_was_never_paid_is_forgotten_with_its_request(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let unit = move |tx: &mut store::Tx<'_>| {
        let after = |millis: i64| Timestamp::from_millis(NOW.millis() + millis);
        // The first was paid at, somebody has asked for the third, and the fourth is not old enough.
        arrivals::put(tx, &arrival(1, 0xa1, 5, 8))?;
        deposit_addresses::watch_until(tx, Address::repeat_byte(3), after(9))?;
        let old = deposit_addresses::forgettable(tx, CHAIN, after(4), 10)?;
        assert_eq!(old.iter().map(|given| given.address[0]).collect::<Vec<_>>(), [1, 2]);
        assert!(deposit_addresses::forgettable(tx, ChainId(2), after(4), 10)?.is_empty());
        // Both have a webhook under way.
        for given in &old {
            tx.execute(
                "insert into webhook_delivery (endpoint_id, key_id, endpoint, event, request_id, ordinal, status,
                 text_hash, state, due_at, created_at, queued_at)
                 values (1, 'a key', 'default', 1, $1, 1, 'waiting', $1, 'due', 1, 1, 1)",
                &[given.request.into()],
            )?;
        }
        assert!(!deposit_addresses::forget(tx, &old[0], NOW)?, "something arrived");
        assert!(deposit_addresses::forget(tx, &old[1], NOW)?);
        let hooks = tx.rows("select state, ended_because from webhook_delivery order by delivery_id", &[])?;
        let hooks: Vec<_> =
            hooks.iter().map(|row| Ok((row.text(0)?, row.opt_text(1)?))).collect::<Result<_, StoreError>>()?;
        assert_eq!(hooks, [("due", None), ("failed", Some("its event is gone"))]);
        assert!(deposit_addresses::forgettable(tx, CHAIN, after(4), 10)?.is_empty(), "each is asked about once");
        assert!(deposit_addresses::find(tx, Address::repeat_byte(1))?.is_some());
        assert!(deposit_addresses::find(tx, Address::repeat_byte(2))?.is_none());
        // The body of these requests is no quote: one that is there cannot be read, and one that is gone is not found.
        assert!(store::requests::find(tx, RequestId(B256::repeat_byte(1))).is_err());
        assert!(matches!(store::requests::find(tx, RequestId(B256::repeat_byte(2))), Ok(None)));
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

async fn a_forgotten_address_is_remembered_as_it_was(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let unit = move |tx: &mut store::Tx<'_>| {
        let until = Timestamp::from_millis(NOW.millis() + 100);
        let ends = Ends { watched_until: until, forgotten_at: until };
        // An open address of native currency, and a strict one of a token.
        for (n, currency) in [(2, Address::ZERO), (3, USDC)] {
            let (_, given) = address(n, currency);
            assert_eq!(deposit_addresses::forgotten(tx, given.address)?, None);
            assert!(deposit_addresses::remember(tx, given.address, ends, NOW)?.is_none(), "it is known");
            assert!(deposit_addresses::forget(tx, &given, NOW)?);
            assert_eq!(deposit_addresses::find(tx, given.address)?, None);
            assert_eq!(deposit_addresses::forgotten(tx, given.address)?, Some(given.clone()), "with its derivation");
            let asked = [Address::repeat_byte(9), given.address];
            assert_eq!(
                deposit_addresses::among(tx, CHAIN, &asked)?,
                std::slice::from_ref(&given),
                "it is found all the same"
            );
            assert!(deposit_addresses::among(tx, ChainId(2), &asked)?.is_empty());
            assert_eq!(deposit_addresses::forgotten_with(tx, given.order)?, Some(given.address));
            // The body of these requests is no quote, and cannot be read.
            assert!(deposit_addresses::remember(tx, given.address, ends, NOW).is_err());
            assert_eq!(deposit_addresses::find(tx, given.address)?, Some(given.clone()));
            assert_eq!(deposit_addresses::among(tx, CHAIN, &asked)?, std::slice::from_ref(&given), "once");
            assert_eq!(deposit_addresses::forgotten(tx, given.address)?, None);
            assert_eq!(deposit_addresses::forgotten_with(tx, given.order)?, None);
            assert!(store::requests::find(tx, given.request).is_err(), "the request is there");
            assert!(deposit_addresses::remember(tx, given.address, ends, NOW)?.is_none(), "once");
        }
        let later = Timestamp::from_millis(NOW.millis() + 50);
        let native = deposit_addresses::expecting_native(tx, CHAIN, Address::ZERO, later, 10)?;
        let native: Vec<u8> = native.iter().map(|given| given.address[0]).collect();
        assert_eq!(native, [2], "its balance is looked at again");
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}

async fn senders_are_found_behind_a_deposit(database: Database) -> anyhow::Result<()> {
    let store = given(&database).await?;
    let unit = move |tx: &mut store::Tx<'_>| {
        let from = |to: u8, sender: u8, block| Arrival {
            sender: Some(Address::repeat_byte(sender)),
            ..arrival(to, sender, 5, block)
        };
        let order = |n: u8| OrderId(B256::repeat_byte(n ^ 0xff));
        let behind = |tx: &mut store::Tx<'_>, order, units: u64, block| -> Result<_, StoreError> {
            let amount = Amount::new(U256::from(units));
            let found = arrivals::behind(tx, &BehindDeposit { chain: CHAIN, order, currency: USDC, amount, block })?;
            Ok(found.map(|it| (it.senders.iter().map(|who| who[0]).collect::<Vec<_>>(), it.is_explained)))
        };
        let place = |n: u8| Place { address: Address::repeat_byte(n), currency: USDC };
        // A strict address that a stranger sweeps, and what came after that.
        for (sender, block) in [(0xa1, 8), (0xa2, 9), (0xa3, 11)] {
            arrivals::put(tx, &from(1, sender, block))?;
        }
        assert_eq!(behind(tx, order(1), 10, 10)?, Some((vec![0xa1, 0xa2], true)));
        assert_eq!(behind(tx, order(1), 11, 10)?, Some((vec![0xa1, 0xa2], false)), "somebody else sent the rest");
        arrivals::left(tx, CHAIN, place(1))?;
        assert_eq!(behind(tx, order(1), 10, 10)?, Some((vec![0xa1, 0xa2], true)));
        // An open one: what another order's sweep took, or has left before, is not behind this one.
        for (sweep, sender, own) in [(0x51, 0xb1, order(2)), (0x52, 0xb2, OrderId(B256::repeat_byte(0x77)))] {
            arrivals::put(tx, &from(2, sender, 8))?;
            let id = SweepId(B256::repeat_byte(sweep));
            let request = RequestId(B256::repeat_byte(2));
            let address = place(2).address;
            let sweep =
                Sweep { id, chain: CHAIN, address, currency: USDC, order: own, request, reason: None, expected: None };
            assert!(sweeps::begin(tx, &sweep, NOW)?);
            arrivals::swept(tx, CHAIN, place(2), id)?;
            sweeps::apply(tx, id, sweep::Event::Mined)?;
        }
        arrivals::put(tx, &from(2, 0xb3, 9))?;
        assert_eq!(behind(tx, order(2), 10, 9)?, Some((vec![0xb1, 0xb3], true)), "it joined the sweep");
        arrivals::left(tx, CHAIN, place(2))?;
        assert_eq!(behind(tx, OrderId(B256::repeat_byte(0x77)), 5, 9)?, Some((vec![0xb2], true)));
        assert_eq!(behind(tx, OrderId(B256::repeat_byte(0x78)), 5, 9)?, None, "no address");
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}
