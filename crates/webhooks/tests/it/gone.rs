//! Deliveries that cannot be posted, and those beside them, which can.

use anyhow::{Result, ensure};
use domain::ids::RequestId;
use domain::request::State;
use domain::webhook::DeliveryState;
use store::StoreError;
use store::webhooks::Filter;

use ::webhooks::endpoints::EndpointError;

use crate::receiver::Receiver;
use crate::world::{KEY, World, clock, eventually, hasty, on_both_engines};

on_both_engines! {
    an_event_that_is_gone_stops_no_other
    an_event_of_a_newer_build_is_left_to_it_and_stops_no_other
}

fn of(request: RequestId) -> Filter {
    Filter { request: Some(request), ..Filter::default() }
}

async fn an_event_that_is_gone_stops_no_other(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    let began = clock();
    world.endpoint("first", &receiver.url).await?;
    // The oldest, in front of everything else.
    let gone = world.request(1).await?;
    let gone = world.publish(gone, State::Waiting).await?;
    let delete =
        move |tx: &mut store::Tx<'_>| tx.execute("delete from request_event where request_id = $1", &[gone.into()]);
    let deleted = world.store.write::<_, StoreError>(delete).await?;
    ensure!(deleted == 1, "{deleted}");
    world.endpoint("second", &receiver.url).await?;
    let order = world.request(2).await?;
    world.publish(order, State::Success).await?;

    let process = world.deliver("a", hasty()).await?;
    eventually("the other event arrives at both", async || Ok(receiver.count() >= 2)).await?;
    eventually("the one that is gone has ended", async || {
        Ok(world.log(of(gone)).await?[0].state == DeliveryState::Failed)
    })
    .await?;
    let log = world.log(of(gone)).await?;
    ensure!(log.len() == 1 && log[0].attempts.is_empty(), "{log:?}");
    ensure!(log[0].ended_because.as_deref() == Some("its event is gone"), "{log:?}");
    // There is nothing to post again, and nothing is.
    ensure!(matches!(world.endpoints.replay(KEY, log[0].id).await, Err(EndpointError::NoEvent)));
    ensure!(world.endpoints.replay_failed(KEY, None, began).await? == (0, false));
    process.stop().await?;
    ensure!(receiver.count() == 2, "{}", receiver.count());
    Ok(())
}

async fn an_event_of_a_newer_build_is_left_to_it_and_stops_no_other(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    let newer = world.request(1).await?;
    let newer = world.publish(newer, State::Pending).await?;
    let change = move |tx: &mut store::Tx<'_>| {
        tx.execute(
            "update request_event set posted = replace(posted, $2, $3) where request_id = $1",
            &[newer.into(), "\"v\":1,".into(), "\"v\":99,".into()],
        )
    };
    let changed = world.store.write::<_, StoreError>(change).await?;
    ensure!(changed == 1, "{changed}");
    let order = world.request(2).await?;
    let known = world.publish(order, State::Success).await?;

    let process = world.deliver("a", hasty()).await?;
    eventually("the other event is delivered", async || {
        Ok(world.log(of(known)).await?[0].state == DeliveryState::Delivered)
    })
    .await?;
    process.stop().await?;
    let log = world.log(of(newer)).await?;
    ensure!(log[0].state == DeliveryState::Due && log[0].attempts.is_empty(), "{log:?}");
    ensure!(receiver.count() == 1, "{}", receiver.count());
    Ok(())
}
