//! Cases of fast fills whose deposit comes late, or never: each posting has the price of its own moment, whenever it is
//! made.

use std::time::Duration;

use market::PriceSpan;

use super::fast_fill::*;
use super::world::*;
use crate::chain::events::BlockEvent;
use crate::context::past_prices::Moment;

/// A moment of the origin, so many seconds after the fill was asked for.
fn moment(secs: u64) -> Moment {
    Moment::new((ORIGIN, ETH), NOW.plus(Duration::from_secs(secs)))
}

/// The feed remembers the price of such a moment.
pub(super) fn remember(world: &World, secs: u64, dollars: u32) {
    let price = dollar(dollars.into());
    world.context.past_prices.learn(moment(secs), PriceSpan { low: price, high: price });
}

/// The feed does not remember it.
fn forget(world: &World, secs: u64) {
    for _ in 0..u8::MAX {
        world.context.past_prices.failed(moment(secs));
    }
}

#[tokio::test]
async fn a_deposit_that_does_not_come_is_owed_at_the_price_at_the_end_of_its_window() {
    // At the last price the hold is too small for it, and the balance pays the rest.
    for (at_end, now) in [(1_000u32, 1_000), (3_000, 3_000), (3_000, 1_000), (3_000, 9_000), (1_000, 9_000), (4_000, 1)]
    {
        let mut world = world(|_| ()).await;
        let order = filled(&world).await;
        set_price(&mut world, now);
        miss(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS, HELD), "an unread price decides nothing");
        remember(&world, WINDOW_SECS, at_end);
        set_max_age(&mut world, Duration::ZERO);
        miss(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS, HELD), "nor does an unknown price of USDC");
        set_max_age(&mut world, Duration::from_secs(3_600));
        for _ in 0..2 {
            miss(&world, order).await;
            assert_eq!(books(&world).await, (FUNDS - charge(at_end.into()), 0), "{at_end}, and {now} now");
        }
    }
}

/// A feed that keeps no rounds: the integrator gains nothing by a price that fell while the service was away.
#[tokio::test]
async fn where_no_feed_remembers_the_worth_at_the_fill_is_the_least_that_is_owed() {
    for (now, charged) in [(1_000, 3_000 * DOLLAR), (3_000, charge(3_000)), (4_000, charge(4_000))] {
        let mut world = world(|_| ()).await;
        let order = filled(&world).await;
        set_price(&mut world, now);
        forget(&world, WINDOW_SECS);
        miss(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS - charged, 0), "{now}");
        forget(&world, WINDOW_SECS + 60);
        land(&world, order, ONE_ETHER, WINDOW_SECS + 60).await;
        make_final(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS - charged + credit(i64::try_from(now).unwrap()), 0), "{now}");
    }
}

#[tokio::test]
async fn a_late_deposit_is_credited_at_its_own_worth_and_never_beyond_what_was_charged() {
    for (at_end, landed, now) in [
        (1_000u32, 4_000, 4_000),
        (4_000, 1_000, 1_000),
        (3_000, 3_000, 3_000),
        (4_000, 2_000, 3_000),
        (4_000, 3_000, 2_000),
    ] {
        let mut world = world(|_| ()).await;
        let order = filled(&world).await;
        remember(&world, WINDOW_SECS, at_end);
        miss(&world, order).await;
        let charged = charge(at_end.into());
        set_price(&mut world, now);
        land(&world, order, ONE_ETHER, 86_400).await;
        assert_eq!(books(&world).await, (FUNDS - charged, 0), "a credit is for final blocks");
        make_final(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS - charged, 0), "an unread price credits nothing");
        remember(&world, 86_400, landed);
        set_max_age(&mut world, Duration::ZERO);
        apply_event(&world, BlockEvent::Unpriced(order)).await;
        assert_eq!(books(&world).await, (FUNDS - charged, 0), "nor does an unknown price");
        set_max_age(&mut world, Duration::from_secs(3_600));
        let back = charged.min(credit(landed.into())).min(credit(i64::try_from(now).unwrap()));
        for _ in 0..2 {
            apply_event(&world, BlockEvent::Unpriced(order)).await;
            assert_eq!(books(&world).await, (FUNDS - charged + back, 0), "{at_end} {landed} {now}");
        }
    }
}

/// The service comes back when the window has long ended and the deposit is final: both are posted at one moment, and
/// each has the price of its own. The price of the moment at which they are posted lets nobody gain.
#[tokio::test]
async fn while_the_service_is_away_the_window_is_not_open_longer() {
    let part = ONE_ETHER * 95 / 100;
    for (at_end, landed, now, amount) in [
        // Ether has fallen: the deposit was brought because of that.
        (3_000u32, 2_700, 2_700, ONE_ETHER),
        (3_300, 3_000, 2_700, ONE_ETHER),
        // It has risen again, or goes on rising, before anybody looks.
        (3_000, 2_700, 3_300, ONE_ETHER),
        (3_000, 3_100, 3_300, ONE_ETHER),
        // Nothing has moved: a late deposit costs the exchange.
        (3_000, 3_000, 3_000, ONE_ETHER),
        (3_000, 2_000, 3_000, part),
    ] {
        let mut world = world(|_| ()).await;
        let order = filled(&world).await;
        world.context.now = NOW.plus(Duration::from_secs(WINDOW_SECS + 3_600));
        set_price(&mut world, now);
        let late = WINDOW_SECS + 2;
        land(&world, order, amount, late).await;
        make_final(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS, HELD), "the moments are not read yet");
        remember(&world, WINDOW_SECS, at_end);
        remember(&world, late, landed);
        let in_parts = |dollars: i64| credit(dollars) / 100 * i64::try_from(amount * 100 / ONE_ETHER).unwrap();
        let back = in_parts(landed.into()).min(in_parts(i64::try_from(now).unwrap())).min(charge(at_end.into()));
        for _ in 0..2 {
            apply_event(&world, BlockEvent::Unpriced(order)).await;
            miss(&world, order).await;
            let (balance, held) = books(&world).await;
            assert_eq!((balance, held), (FUNDS - charge(at_end.into()) + back, 0), "{at_end} {landed} {now}");
            // Owed at the end of the window: the dollars of that moment. Given since: the deposit, and the difference.
            let worth = i64::from(landed) * DOLLAR / 100 * i64::try_from(amount * 100 / ONE_ETHER).unwrap();
            assert!(FUNDS - balance + worth >= i64::from(at_end) * DOLLAR, "{at_end} {landed} {now}: a gain");
        }
    }
}

/// A feed is behind the market: within its lag the price that suits the integrator least counts.
#[tokio::test]
async fn nobody_gains_by_a_feed_that_is_behind_the_market() {
    let mut world = world(|_| ()).await;
    let order = filled(&world).await;
    let span = |low, high| PriceSpan { low: dollar(low), high: dollar(high) };
    world.context.past_prices.learn(moment(WINDOW_SECS), span(2_900, 3_100));
    world.context.past_prices.learn(moment(WINDOW_SECS + 9), span(2_800, 3_000));
    set_price(&mut world, 3_200);
    land(&world, order, ONE_ETHER, WINDOW_SECS + 9).await;
    make_final(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS - charge(3_100) + credit(2_800), 0));
}

#[tokio::test]
async fn a_deposit_in_time_is_in_time_however_late_it_is_seen() {
    for dollars in [1_000, 9_000] {
        let mut world = world(|_| ()).await;
        let order = filled(&world).await;
        set_price(&mut world, dollars);
        world.context.now = NOW.plus(Duration::from_secs(WINDOW_SECS + 86_400));
        world.snapshot(ORIGIN, |snapshot| snapshot.time += WINDOW_SECS + 86_400);
        land(&world, order, ONE_ETHER, WINDOW_SECS).await;
        make_final(&world, order).await;
        miss(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS, 0), "{dollars}");
    }
}

/// The window has ended, and that is not final: the deposit is late all the same.
#[tokio::test]
async fn a_deposit_after_the_window_frees_no_hold_of_old_dollars() {
    for dollars in [1_000u32, 9_000] {
        let mut world = world(|_| ()).await;
        let order = filled(&world).await;
        set_price(&mut world, dollars.into());
        remember(&world, WINDOW_SECS, dollars);
        remember(&world, WINDOW_SECS + 1, dollars);
        land(&world, order, ONE_ETHER, WINDOW_SECS + 1).await;
        assert_eq!(books(&world).await, (FUNDS, HELD));
        make_final(&world, order).await;
        let cost = charge(dollars.into()) - credit(dollars.into());
        assert_eq!(books(&world).await, (FUNDS - cost, 0), "{dollars}");
    }
}
