//! A key that is rotated: no event is lost, because both of its texts sign for a while.

use anyhow::{Result, ensure};
use axum::http::StatusCode;
use domain::request::State;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::keys;
use webhooks::signature::verify;

use crate::receiver::{Received, Receiver};
use crate::world::{KEY, World, clock, eventually, hasty, on_both_engines, stored_text, text};

on_both_engines! {
    events_around_a_rotation_carry_both_signatures
    a_revoked_key_posts_nothing
}

fn is_by(it: &Received, header: &str, n: u8) -> bool {
    verify(text(n).expose(), it.header("x-signature-timestamp"), &it.body, it.header(header))
}

async fn events_around_a_rotation_carry_both_signatures(world: World) -> Result<()> {
    // Attempts fail until the key is rotated, so that the first event is on its way meanwhile.
    let is_rotated = Arc::new(AtomicBool::new(false));
    let accepts = is_rotated.clone();
    let answer = move || if accepts.load(Ordering::SeqCst) { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    let receiver = Receiver::start(move |_, _| answer()).await;
    world.endpoint("default", &receiver.url).await?;
    let order = world.request(1).await?;
    world.publish(order, State::Pending).await?;
    let slow = domain::webhook::Retries { most: 10, first_delay: Duration::from_millis(500) };
    let process = world.deliver("a", webhooks::Settings { retries: slow, ..hasty() }).await?;
    eventually("the first is tried", async || Ok(receiver.count() >= 1)).await?;
    let now = clock();
    let ends = now.plus(Duration::from_secs(3_600));
    ensure!(world.store.write(move |tx| keys::rotate(tx, KEY, &stored_text(2), ends, now)).await?);
    world.publish(order, State::Success).await?;
    is_rotated.store(true, Ordering::SeqCst);
    let has_second = || receiver.received().iter().any(|it| it.sequence() == 2);
    eventually("both arrive", async || Ok(has_second())).await?;
    process.stop().await?;
    let received = receiver.received();
    let [.., retry, later] = &received[..] else { anyhow::bail!("{received:?}") };
    let other = "x-signature-sha256-other";
    ensure!(is_by(&received[0], "x-signature-sha256", 1) && received[0].header(other).is_empty());
    // A retry is signed by the text of its event, and by the new one too.
    ensure!(retry.sequence() == 1 && is_by(retry, "x-signature-sha256", 1));
    ensure!(is_by(retry, other, 2));
    // A later event is signed by the new text, and by the old one for as long as that is good.
    ensure!(later.sequence() == 2 && is_by(later, "x-signature-sha256", 2));
    ensure!(is_by(later, other, 1));
    Ok(())
}

async fn a_revoked_key_posts_nothing(world: World) -> Result<()> {
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    let order = world.request(1).await?;
    world.publish(order, State::Pending).await?;
    let now = clock();
    ensure!(world.store.write(move |tx| keys::revoke(tx, KEY, now)).await?);
    world.publish(order, State::Success).await?;
    let process = world.deliver("a", hasty()).await?;
    let all = store::webhooks::Filter::default();
    eventually("it is given up", async || Ok(world.log(all.clone()).await?.iter().all(|it| it.ended_at.is_some())))
        .await?;
    process.stop().await?;
    let log = world.log(all).await?;
    ensure!(log.len() == 1 && receiver.count() == 0, "{log:?}");
    Ok(())
}
