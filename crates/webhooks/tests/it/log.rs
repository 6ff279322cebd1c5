//! The log of deliveries, tests, replays and their end.

use std::time::Duration;

use anyhow::{Result, ensure};
use axum::http::StatusCode;
use domain::request::State;
use domain::time::Timestamp;
use domain::webhook::{DeliveryState, Status};
use store::webhooks::{self, Filter};

use crate::receiver::Receiver;
use crate::world::{KEY, World, clock, eventually, hasty, on_both_engines, text};
use ::webhooks::endpoints::{Change, EndpointError};
use ::webhooks::signature::verify;

on_both_engines! {
    a_test_is_posted_once_and_logged
    failed_deliveries_are_replayed_under_their_id
    the_log_is_filtered_paged_and_pruned
    a_process_prunes_the_old_log_and_keeps_the_rest
    endpoints_are_kept_secret_and_bounded
}

async fn a_test_is_posted_once_and_logged(world: World) -> Result<()> {
    let receiver = Receiver::start(|_, _| StatusCode::IM_A_TEAPOT).await;
    let name = world.endpoint("default", &receiver.url).await?;
    let process = world.deliver("a", hasty()).await?;
    let id = world.endpoints.test(KEY, &name).await?;
    let filter = Filter { id: Some(id), ..Filter::default() };
    eventually("it has ended", async || Ok(world.log(filter.clone()).await?[0].state == DeliveryState::Failed)).await?;
    process.stop().await?;
    let (log, received) = (world.log(filter).await?, receiver.received());
    ensure!(log[0].attempts.len() == 1 && log[0].attempts[0].code == Some(418) && log[0].request.is_none(), "{log:?}");
    ensure!(received.len() == 1 && received[0].header("x-webhook-test") == "true");
    let (time, signature) = (received[0].header("x-signature-timestamp"), received[0].header("x-signature-sha256"));
    ensure!(verify(text(1).expose(), time, &received[0].body, signature));
    ensure!(received[0].request() == format!("0x{}", "00".repeat(32)));
    let nobody = "nobody".parse()?;
    ensure!(matches!(world.endpoints.test(KEY, &nobody).await, Err(EndpointError::NotFound)));
    world.endpoints.put(KEY, &name, Change { enabled: Some(false), ..Change::default() }).await?;
    ensure!(matches!(world.endpoints.test(KEY, &name).await, Err(EndpointError::SwitchedOff)));
    Ok(())
}

async fn failed_deliveries_are_replayed_under_their_id(world: World) -> Result<()> {
    // Eleven failures for each of two events, then all is well.
    let receiver = Receiver::start(|n, _| if n < 22 { StatusCode::BAD_GATEWAY } else { StatusCode::OK }).await;
    world.endpoint("default", &receiver.url).await?;
    let process = world.deliver("a", hasty()).await?;
    let began = clock();
    for n in 1..=2 {
        let order = world.request(n).await?;
        world.publish(order, State::Success).await?;
    }
    let failed = Filter { state: Some(DeliveryState::Failed), ..Filter::default() };
    eventually("both are given up", async || Ok(world.log(failed.clone()).await?.len() == 2)).await?;
    let ids: Vec<_> = world.log(failed.clone()).await?.iter().map(|it| it.id).collect();
    ensure!(world.log(failed.clone()).await?[0].ended_because.as_deref() == Some("every attempt failed"));
    let later = Timestamp::from_millis(clock().millis() + 60_000);
    ensure!(world.endpoints.replay_failed(KEY, None, later).await? == (0, false));
    ensure!(world.endpoints.replay_failed(KEY, Some("other".parse()?), began).await? == (0, false));
    ensure!(world.endpoints.replay_failed(KEY, None, began).await? == (2, false));
    let delivered = Filter { state: Some(DeliveryState::Delivered), ..Filter::default() };
    eventually("both are delivered", async || Ok(world.log(delivered.clone()).await?.len() == 2)).await?;
    // One that was delivered may be asked for again.
    ensure!(world.endpoints.replay(KEY, ids[0]).await? == 1);
    eventually("it comes again", async || Ok(receiver.count() == 25)).await?;
    process.stop().await?;
    let replayed = receiver.received();
    let mut told: Vec<_> = replayed[22..].iter().map(|it| it.header("x-webhook-id").to_owned()).collect();
    told.sort();
    let mut expected = vec![ids[0].to_string(), ids[0].to_string(), ids[1].to_string()];
    expected.sort();
    ensure!(told == expected, "{told:?}");
    ensure!(matches!(world.endpoints.replay(KEY, 9_999).await, Err(EndpointError::NoDelivery)));
    let stranger = domain::api_key::ApiKeyId::new([9; 10]);
    ensure!(matches!(world.endpoints.replay(stranger, ids[0]).await, Err(EndpointError::NoDelivery)));
    Ok(())
}

async fn the_log_is_filtered_paged_and_pruned(world: World) -> Result<()> {
    world.endpoint("default", "http://127.0.0.1:9/").await?;
    let (one, two) = (world.request(1).await?, world.request(2).await?);
    let began = clock();
    let request = world.publish(one, State::Pending).await?;
    world.publish(one, State::Success).await?;
    world.publish(two, State::Success).await?;
    for (filter, count) in [
        (Filter::default(), 3),
        (Filter { request: Some(request), ..Filter::default() }, 2),
        (Filter { status: Some(Status::Success), ..Filter::default() }, 2),
        (Filter { status: Some(Status::Success), request: Some(request), ..Filter::default() }, 1),
        (Filter { state: Some(DeliveryState::Delivered), ..Filter::default() }, 0),
        (Filter { since: Some(began), ..Filter::default() }, 3),
        (Filter { since: Some(Timestamp::from_millis(clock().millis() + 60_000)), ..Filter::default() }, 0),
        (Filter { until: Some(Timestamp::from_millis(began.millis() - 1)), ..Filter::default() }, 0),
        (Filter { until: Some(clock()), ..Filter::default() }, 3),
        (Filter { endpoint: Some("other".parse()?), ..Filter::default() }, 0),
    ] {
        let found = world.log(filter.clone()).await?.len();
        ensure!(found == count, "{filter:?}: {found}");
    }
    let first = world.endpoints.deliveries(KEY, Filter::default(), 2).await?;
    let rest = Filter { before: first.last().map(|it| it.id), ..Filter::default() };
    let second = world.endpoints.deliveries(KEY, rest, 2).await?;
    ensure!((first.len(), second.len()) == (2, 1) && first[0].id > first[1].id && first[1].id > second[0].id);
    let stranger = domain::api_key::ApiKeyId::new([9; 10]);
    ensure!(world.endpoints.deliveries(stranger, Filter::default(), 50).await?.is_empty());

    // What is too old is given up, and what ended long ago is deleted.
    let now = clock();
    let soon = now.plus(Duration::from_secs(1));
    ensure!(!world.store.write(move |tx| webhooks::drop_old(tx, soon, now)).await?);
    let log = world.log(Filter::default()).await?;
    ensure!(log.iter().all(|it| it.ended_because.as_deref() == Some("too old")), "{log:?}");
    ensure!(!world.store.write(move |tx| webhooks::prune(tx, now)).await?);
    ensure!(world.log(Filter::default()).await?.len() == 3);
    ensure!(!world.store.write(move |tx| webhooks::prune(tx, soon)).await?);
    ensure!(world.log(Filter::default()).await?.is_empty());
    Ok(())
}

async fn a_process_prunes_the_old_log_and_keeps_the_rest(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    let order = world.request(1).await?;
    world.publish(order, State::Success).await?;
    let delivered = Filter { state: Some(DeliveryState::Delivered), ..Filter::default() };
    let process = world.deliver("a", hasty()).await?;
    eventually("it is delivered", async || Ok(world.log(delivered.clone()).await?.len() == 1)).await?;
    process.stop().await?;
    // Whoever keeps nothing prunes in the first round, without anybody who asks for it, and only what has ended.
    let off = Change { enabled: Some(false), ..Change::default() };
    let order = world.request(2).await?;
    world.publish(order, State::Success).await?;
    world.endpoints.put(KEY, &"default".parse()?, off).await?;
    let settings = ::webhooks::Settings { kept_for: Duration::ZERO, ..hasty() };
    let process = world.deliver("b", settings).await?;
    eventually("it is pruned", async || Ok(world.log(delivered.clone()).await?.is_empty())).await?;
    process.stop().await?;
    let left = world.log(Filter::default()).await?;
    ensure!(left.len() == 1 && left[0].state == DeliveryState::Due, "{left:?}");
    Ok(())
}

async fn endpoints_are_kept_secret_and_bounded(world: World) -> Result<()> {
    let headers = Some(vec![("X-Token".to_owned(), "hunter2".to_owned())]);
    let name = "default".parse()?;
    let change = Change { url: Some("https://example.com/a?b=hunter3".to_owned()), headers, ..Change::default() };
    let view = world.endpoints.put(KEY, &name, change).await?;
    ensure!(view.header_names == ["x-token"] && view.enabled, "{view:?}");
    // Members that are left out stay.
    let off = world.endpoints.put(KEY, &name, Change { enabled: Some(false), ..Change::default() }).await?;
    ensure!(off.header_names == ["x-token"] && !off.enabled && off.url == view.url, "{off:?}");
    let dump = world.store.read(move |tx| webhooks::find(tx, KEY, &"default".parse().unwrap())).await?.unwrap();
    ensure!(!dump.sealed.windows(6).any(|window| window == b"hunter"));
    for n in 1..10 {
        world.endpoint(&format!("e-{n}"), "https://example.com").await?;
    }
    let tenth = "e-10".parse()?;
    let change = Change { url: Some("https://example.com".to_owned()), ..Change::default() };
    ensure!(matches!(world.endpoints.put(KEY, &tenth, change).await, Err(EndpointError::TooMany)));
    ensure!(world.endpoints.list(KEY).await?.len() == 10);
    world.endpoints.delete(KEY, &name).await?;
    ensure!(matches!(world.endpoints.delete(KEY, &name).await, Err(EndpointError::NotFound)));
    ensure!(matches!(world.endpoints.put(KEY, &name, Change::default()).await, Err(EndpointError::Target(_))));
    // A key that has ended is told from one that has enough.
    let now = clock();
    world.store.write(move |tx| store::keys::revoke(tx, KEY, now)).await?;
    let change = Change { url: Some("https://example.com".to_owned()), ..Change::default() };
    ensure!(matches!(world.endpoints.put(KEY, &name, change).await, Err(EndpointError::KeyEnded)));
    Ok(())
}
