//! Deliveries: signed, numbered, in order, retried, shared, and each event once.

use std::collections::BTreeMap;
use std::time::Duration;

use ::webhooks::signature::verify;
use anyhow::{Result, ensure};
use axum::http::StatusCode;
use domain::request::State;
use domain::webhook::{DeliveryState, Retries};
use store::StoreError;
use store::requests::{self, Request};
use store::webhooks::{self, Claim, EndpointId, Filter, SwitchOff};

use crate::receiver::Receiver;
use crate::world::{KEY, World, clock, eventually, hasty, on_both_engines, text};

on_both_engines! {
    events_arrive_signed_numbered_and_in_order
    details_that_the_unit_has_set_are_told
    headers_of_the_owner_are_sent_beside_ours
    a_receiver_that_fails_ten_times_gets_the_event_and_eleven_times_not
    a_later_event_waits_while_an_earlier_one_is_retried
    a_later_event_goes_ahead_when_the_hold_is_over
    a_dead_endpoint_delays_nobody_else
    a_claim_of_a_dead_process_is_taken_over
    a_receiver_that_is_gone_is_switched_off
    an_endpoint_that_was_changed_meanwhile_stays_on
    a_filter_and_an_end_of_the_endpoint_are_obeyed
}

const STEPS: [State; 3] = [State::Pending, State::Submitted, State::Success];

async fn events_arrive_signed_numbered_and_in_order(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    let (one, two) = (world.request(1).await?, world.request(2).await?);
    for step in STEPS {
        world.publish(one, step).await?;
        world.publish(two, step).await?;
    }
    let process = world.deliver("a", hasty()).await?;
    eventually("all six arrive", async || Ok(receiver.count() >= 6)).await?;
    process.stop().await?;
    let received = receiver.received();
    ensure!(received.len() == 6, "each once: {}", received.len());
    let mut by_request: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for it in &received {
        let (time, signature) = (it.header("x-signature-timestamp"), it.header("x-signature-sha256"));
        ensure!(verify(text(1).expose(), time, &it.body, signature), "{:?}", it.headers);
        ensure!(it.header("content-type") == "application/json" && it.header("x-signature-sha256-other").is_empty());
        let body = it.json();
        // Compact to the byte: written again it is as long, in whatever order its members come.
        ensure!(body.to_string().len() == it.body.len(), "{:?}", it.body);
        ensure!(body["event"] == "request.status.updated", "{body}");
        ensure!(body["data"]["referrer"] == "ref \"ü\" " && body["timestamp"] == body["data"]["updatedAt"], "{body}");
        let status = body["data"]["status"].as_str().unwrap().to_owned();
        by_request.entry(it.request()).or_default().push((it.sequence(), status));
    }
    let expected: Vec<_> = (1..).zip(["pending", "submitted", "success"].map(str::to_owned)).collect();
    ensure!(by_request.len() == 2 && by_request.values().all(|told| *told == expected), "{by_request:?}");
    Ok(())
}

async fn details_that_the_unit_has_set_are_told(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    let (order, now) = (world.request(1).await?, clock());
    let unit = move |tx: &mut store::Tx<'_>| {
        let request = requests::lock_order(tx, order)?.ok_or(StoreError::ManyRows(0))?;
        // As a failed transaction does it: the details first, then the step of the request that was read before.
        requests::set_details(tx, request.id, "it reverted")?;
        webhooks::publish(tx, &Request { state: State::Failed, ..request }, "a-rule", &serde_json::Value::Null, now)
    };
    world.store.write::<_, StoreError>(unit).await?;
    let process = world.deliver("a", hasty()).await?;
    eventually("it arrives", async || Ok(receiver.count() >= 1)).await?;
    process.stop().await?;
    let body = receiver.received()[0].json();
    ensure!(body["data"]["details"] == "it reverted" && body["data"]["status"] == "failure", "{body}");
    Ok(())
}

async fn headers_of_the_owner_are_sent_beside_ours(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    let name = world.endpoint("default", &receiver.url).await?;
    let headers = [("X-Tenant", "a b"), ("Authorization", "Bearer hunter2")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let change = ::webhooks::endpoints::Change { headers: Some(headers), ..Default::default() };
    world.endpoints.put(KEY, &name, change).await?;
    let order = world.request(1).await?;
    world.publish(order, State::Pending).await?;
    let process = world.deliver("a", hasty()).await?;
    eventually("it arrives", async || Ok(receiver.count() >= 1)).await?;
    process.stop().await?;
    let it = &receiver.received()[0];
    ensure!(it.header("x-tenant") == "a b" && it.header("authorization") == "Bearer hunter2", "{:?}", it.headers);
    let (time, signature) = (it.header("x-signature-timestamp"), it.header("x-signature-sha256"));
    ensure!(verify(text(1).expose(), time, &it.body, signature), "{:?}", it.headers);
    Ok(())
}

async fn a_receiver_that_fails_ten_times_gets_the_event_and_eleven_times_not(world: World) -> Result<()> {
    let fails = |times: usize| move |n: usize, _: &_| if n < times { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
    let (ten, eleven) = (Receiver::start(fails(10)).await, Receiver::start(fails(11)).await);
    let process = world.deliver("a", hasty()).await?;
    world.endpoint("ten", &ten.url).await?;
    world.endpoint("eleven", &eleven.url).await?;
    let order = world.request(1).await?;
    world.publish(order, State::Success).await?;
    eventually("both have ended", async || {
        let log = world.log(Filter::default()).await?;
        Ok(log.len() == 2 && log.iter().all(|it| it.state != DeliveryState::Due))
    })
    .await?;
    process.stop().await?;
    for it in world.log(Filter::default()).await? {
        let delivered = it.endpoint == "ten";
        ensure!((it.state == DeliveryState::Delivered) == delivered, "{it:?}");
        ensure!(it.ended_because.as_deref() == (!delivered).then_some("every attempt failed"), "{it:?}");
        ensure!(it.attempts.len() == 11, "{it:?}");
        ensure!(it.attempts.iter().all(|attempt| attempt.duration_millis.is_some()), "{it:?}");
        ensure!(it.attempts[0].code == Some(502) && it.attempts[0].body.as_deref() == Some("thank you"), "{it:?}");
        ensure!(it.attempts[10].code == Some(if delivered { 200 } else { 502 }), "{it:?}");
    }
    let received = eleven.received();
    ensure!(received.len() == 11, "{}", received.len());
    // The same event in every attempt, signed anew.
    ensure!(received.iter().all(|it| it.body == received[0].body));
    ensure!(received.iter().all(|it| it.header("x-webhook-id") == received[0].header("x-webhook-id")));
    for it in &received {
        let (time, signature) = (it.header("x-signature-timestamp"), it.header("x-signature-sha256"));
        ensure!(verify(text(1).expose(), time, &it.body, signature), "{:?}", it.headers);
    }
    let times: Vec<u64> =
        received.iter().map(|it| it.header("x-signature-timestamp").parse::<u64>()).collect::<Result<_, _>>()?;
    ensure!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    Ok(())
}

async fn a_later_event_waits_while_an_earlier_one_is_retried(world: World) -> Result<()> {
    let receiver = Receiver::start(|n, _| if n < 3 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }).await;
    world.endpoint("default", &receiver.url).await?;
    let order = world.request(1).await?;
    for step in STEPS {
        world.publish(order, step).await?;
    }
    let process = world.deliver("a", hasty()).await?;
    eventually("all arrive", async || Ok(receiver.count() >= 6)).await?;
    process.stop().await?;
    let told: Vec<_> = receiver.received().iter().map(|it| it.sequence()).collect();
    ensure!(told == [1, 1, 1, 1, 2, 3], "{told:?}");
    Ok(())
}

async fn a_later_event_goes_ahead_when_the_hold_is_over(world: World) -> Result<()> {
    let refuse_first =
        |_, it: &crate::receiver::Received| if it.sequence() == 1 { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let receiver = Receiver::start(refuse_first).await;
    world.endpoint("default", &receiver.url).await?;
    let order = world.request(1).await?;
    for step in STEPS {
        world.publish(order, step).await?;
    }
    let retries = Retries { most: 10, first_delay: Duration::from_secs(60) };
    let settings = ::webhooks::Settings { retries, order_hold: Duration::from_secs(3), ..hasty() };
    let process = world.deliver("a", settings).await?;
    eventually("the others go ahead", async || Ok(receiver.count() >= 3)).await?;
    process.stop().await?;
    let received = receiver.received();
    let told: Vec<_> = received.iter().map(|it| it.sequence()).collect();
    // The hold begins when the first is sent, which may be a while before it arrives.
    let waited = received[1].at.duration_since(received[0].at);
    ensure!(told == [1, 2, 3] && waited >= Duration::from_secs(1), "{told:?} after {waited:?}");
    let log = world.log(Filter { state: Some(DeliveryState::Due), ..Filter::default() }).await?;
    ensure!(log.len() == 1 && log[0].ordinal == 1 && log[0].due_at > clock(), "{log:?}");
    Ok(())
}

async fn a_dead_endpoint_delays_nobody_else(world: World) -> Result<()> {
    // It takes connections and never answers.
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let dead_url = format!("http://{}/", dead.local_addr()?);
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = dead.accept().await {
            held.push(stream);
        }
    });
    let good = Receiver::good().await;
    world.endpoint("dead", &dead_url).await?;
    world.endpoint("good", &good.url).await?;
    let settings = ::webhooks::Settings { attempt_timeout: Duration::from_secs(20), ..hasty() };
    let process = world.deliver("a", settings).await?;
    let began = clock();
    for n in 1..=20 {
        let order = world.request(n).await?;
        world.publish(order, State::Success).await?;
    }
    eventually("the good one has them all", async || Ok(good.count() >= 20)).await?;
    // The dead one has not even answered once by then, or the machine is very slow.
    let log = world.log(Filter { endpoint: Some("dead".parse()?), ..Filter::default() }).await?;
    let answered = log.iter().filter(|it| it.attempts.iter().any(|attempt| attempt.duration_millis.is_some())).count();
    ensure!(answered == 0 || clock().millis() - began.millis() > 20_000, "{answered}");
    ensure!(good.count() == 20, "{}", good.count());
    held.abort();
    drop(process);
    Ok(())
}

async fn a_claim_of_a_dead_process_is_taken_over(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    let order = world.request(1).await?;
    world.publish(order, State::Pending).await?;
    // A process that nobody has heard of claims it for an hour and is never heard of again.
    let now = clock();
    let due = move |tx: &mut store::Tx<'_>| webhooks::due(tx, EndpointId(0), 10, Duration::from_secs(60), now, |_| 10);
    let candidates = world.store.read(due).await?.candidates;
    ensure!(candidates.len() == 1);
    let claims = [Claim { id: candidates[0].id, seen: candidates[0].claim }];
    let claim = move |tx: &mut store::Tx<'_>| webhooks::claim(tx, &claims, "dead", Duration::from_secs(3_600), now);
    let claimed = world.store.write(claim).await?;
    ensure!(claimed.len() == 1);
    // One that is being posted is not made due again.
    ensure!(world.endpoints.replay(KEY, candidates[0].id).await? == 0);
    // Whoever saw it before cannot claim it any more.
    let again = move |tx: &mut store::Tx<'_>| webhooks::claim(tx, &claims, "b", Duration::from_secs(3_600), now);
    ensure!(world.store.write(again).await?.is_empty());

    let process = world.deliver("a", hasty()).await?;
    eventually("it arrives", async || Ok(receiver.count() >= 1)).await?;
    process.stop().await?;
    // The dead process comes back with its result: too late to change anything.
    let done = webhooks::Done {
        claimed: claimed[0],
        endpoint: candidates[0].endpoint,
        duration: Duration::from_secs(1),
        code: Some(410),
        error: None,
        body: None,
        after: domain::webhook::AfterAttempt::GivenUp,
        switch_off: Some(SwitchOff { because: "late", seen: candidates[0].sealed.clone() }),
    };
    world.store.write(move |tx| webhooks::record(tx, &done, now)).await?;
    let log = world.log(Filter::default()).await?;
    ensure!(log.len() == 1 && log[0].state == DeliveryState::Delivered && log[0].attempts.len() == 2, "{log:?}");
    ensure!(world.endpoints.list(KEY).await?[0].enabled);
    ensure!(receiver.count() == 1);
    Ok(())
}

async fn a_receiver_that_is_gone_is_switched_off(world: World) -> Result<()> {
    let receiver = Receiver::start(|_, _| StatusCode::GONE).await;
    let name = world.endpoint("default", &receiver.url).await?;
    let process = world.deliver("a", hasty()).await?;
    let order = world.request(1).await?;
    world.publish(order, State::Pending).await?;
    eventually("it is switched off", async || Ok(!world.endpoints.get(KEY, &name).await?.enabled)).await?;
    let view = world.endpoints.get(KEY, &name).await?;
    ensure!(view.disabled_because.as_deref() == Some("the receiver answered 410"), "{view:?}");
    // Nothing more is queued for it.
    world.publish(order, State::Success).await?;
    let log = world.log(Filter::default()).await?;
    ensure!(log.len() == 1 && log[0].state == DeliveryState::Failed && log[0].attempts.len() == 1, "{log:?}");
    process.stop().await?;
    ensure!(receiver.count() == 1);
    Ok(())
}

async fn an_endpoint_that_was_changed_meanwhile_stays_on(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    world.endpoint("default", "http://127.0.0.1:9/").await?;
    let order = world.request(1).await?;
    world.publish(order, State::Pending).await?;
    let now = clock();
    let due = move |tx: &mut store::Tx<'_>| webhooks::due(tx, EndpointId(0), 10, Duration::from_secs(60), now, |_| 10);
    let seen = world.store.read(due).await?.candidates.remove(0);
    let claims = [Claim { id: seen.id, seen: seen.claim }];
    let claim = move |tx: &mut store::Tx<'_>| webhooks::claim(tx, &claims, "x", Duration::from_secs(3_600), now);
    let claimed = world.store.write(claim).await?;
    // While the old target answers, the owner sets another one.
    world.endpoint("default", &receiver.url).await?;
    let done = webhooks::Done {
        claimed: claimed[0],
        endpoint: seen.endpoint,
        duration: Duration::from_secs(1),
        code: Some(410),
        error: None,
        body: None,
        after: domain::webhook::AfterAttempt::GivenUp,
        switch_off: Some(SwitchOff { because: "gone", seen: seen.sealed }),
    };
    world.store.write(move |tx| webhooks::record(tx, &done, now)).await?;
    ensure!(world.endpoints.list(KEY).await?[0].enabled);
    let process = world.deliver("a", hasty()).await?;
    eventually("it arrives at the new target", async || Ok(receiver.count() >= 1)).await?;
    process.stop().await?;
    let log = world.log(Filter::default()).await?;
    ensure!(log.len() == 1 && log[0].state == DeliveryState::Delivered && log[0].attempts.len() == 2, "{log:?}");
    Ok(())
}

async fn a_filter_and_an_end_of_the_endpoint_are_obeyed(world: World) -> Result<()> {
    let (some, gone) = (Receiver::good().await, Receiver::good().await);
    let name = world.endpoint("some", &some.url).await?;
    let statuses = Some(vec![domain::webhook::Status::Success]);
    world.endpoints.put(KEY, &name, ::webhooks::endpoints::Change { statuses, ..Default::default() }).await?;
    let ended = world.endpoint("gone", &gone.url).await?;
    let order = world.request(1).await?;
    for step in STEPS {
        world.publish(order, step).await?;
    }
    world.endpoints.delete(KEY, &ended).await?;
    let process = world.deliver("a", hasty()).await?;
    eventually("all have ended", async || {
        Ok(world.log(Filter { state: Some(DeliveryState::Due), ..Filter::default() }).await?.is_empty())
    })
    .await?;
    process.stop().await?;
    let received = some.received();
    ensure!(received.len() == 1 && received[0].sequence() == 3 && gone.count() == 0, "{}", received.len());
    let dropped = world.log(Filter { endpoint: Some(ended), ..Filter::default() }).await?;
    ensure!(dropped.len() == 3 && dropped.iter().all(|it| it.state == DeliveryState::Failed), "{dropped:?}");
    Ok(())
}

/// Two processes on one database: every event arrives once, those of a request in order.
#[tokio::test]
async fn several_processes_share_the_work() -> Result<()> {
    let world = World::postgres().await?;
    let receiver = Receiver::good().await;
    for name in ["a", "b", "c"] {
        world.endpoint(name, &receiver.url.replace("/hook", &format!("/{name}"))).await?;
    }
    let (first, second) = (world.deliver("one", hasty()).await?, world.deliver("two", hasty()).await?);
    let mut orders = Vec::new();
    for n in 1..=10 {
        orders.push(world.request(n).await?);
    }
    for step in STEPS {
        futures::future::try_join_all(orders.iter().map(|order| world.publish(*order, step))).await?;
    }
    eventually("all ninety arrive", async || Ok(receiver.count() >= 90)).await?;
    first.stop().await?;
    second.stop().await?;
    let received = receiver.received();
    let mut ids: Vec<_> = received.iter().map(|it| it.header("x-webhook-id").to_owned()).collect();
    ids.sort();
    ids.dedup();
    ensure!((received.len(), ids.len()) == (90, 90), "{} posts of {} events", received.len(), ids.len());
    let mut told: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for it in &received {
        told.entry((it.path.clone(), it.request())).or_default().push(it.sequence());
    }
    ensure!(told.len() == 30 && told.values().all(|numbers| *numbers == [1, 2, 3]), "{told:?}");
    let unfinished = world.log(Filter { state: Some(DeliveryState::Due), ..Filter::default() }).await?;
    ensure!(unfinished.is_empty(), "{unfinished:?}");
    Ok(())
}

/// A process that ends in order finishes what it has begun; the next one goes on with the rest.
#[tokio::test]
async fn a_restart_neither_loses_nor_repeats_an_event() -> Result<()> {
    let world = World::sqlite().await?;
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    for n in 1..=40 {
        let order = world.request(n).await?;
        world.publish(order, State::Success).await?;
    }
    let mut lives = 0;
    while receiver.count() < 40 {
        let process = world.deliver(&format!("life-{lives}"), hasty()).await?;
        let (before, began) = (receiver.count(), clock());
        eventually("some more arrive", async || {
            Ok(receiver.count() > before || receiver.count() >= 40 || clock().millis() - began.millis() > 30_000)
        })
        .await?;
        process.stop().await?;
        lives += 1;
    }
    let left: i64 = world
        .store
        .read(|tx| webhooks::backlog(tx).map(|(due, _)| i64::try_from(due).unwrap_or(i64::MAX)))
        .await
        .map_err(|error: StoreError| error)?;
    ensure!(receiver.count() == 40 && left == 0, "{} posts, {left} due, {lives} lives", receiver.count());
    Ok(())
}
