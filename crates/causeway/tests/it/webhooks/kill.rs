//! A service that is killed again and again while it posts thousands of events: none is missing, and whatever comes
//! twice comes under the same id.

use std::time::Duration;

use ::webhooks::{MAX_POSTS_PER_ENDPOINT, Settings};
use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use devnet::Rng;
use domain::request::State;
use serde_json::json;

use super::call;
use crate::harness::{Engine, Harness, Receiver, ask, eventually, new_account, request_id};
use crate::keys::create;
use crate::process::serve;

const ENDPOINTS: usize = 10;
const STEPS: [State; 4] = [State::Waiting, State::Pending, State::Submitted, State::Success];

#[tokio::test]
async fn a_service_killed_at_random_loses_no_event_sqlite() -> Result<()> {
    killed_at_random(Engine::Sqlite, 125, 6).await
}

/// Fewer of them: what was claimed waits here for the end of the dead process's heartbeat.
#[tokio::test]
async fn a_service_killed_at_random_loses_no_event_postgres() -> Result<()> {
    killed_at_random(Engine::Postgres, 20, 3).await
}

async fn killed_at_random(engine: Engine, request_count: usize, kills: usize) -> Result<()> {
    let deliveries = ENDPOINTS * request_count * STEPS.len();
    let harness = Harness::with(engine, |config| config.webhooks.first_retry_millis = 100).await?;
    let mut seed = [0; 8];
    getrandom::fill(&mut seed)?;
    let seed = u64::from_be_bytes(seed);
    let mut rng = Rng::new(seed);
    // One delivery in sixteen is refused at first, so that retries are among those that are cut off.
    let receiver = Receiver::start(|post, before| {
        let unlucky = post.id().parse::<u64>().is_ok_and(|id| id.is_multiple_of(16));
        if unlucky && before == 0 { 503 } else { 204 }
    })
    .await?;
    let toml = harness.folder.path().join("dev.toml");
    let mut served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    let (_, key) = create(&harness, &["--elevated"])?;
    for n in 0..ENDPOINTS {
        let body = json!({ "url": receiver.url(&format!("/{n}")) });
        let (code, answer) = call(&harness, "PUT", &format!("/webhooks/endpoints/e-{n}"), &key, Some(&body)).await?;
        ensure!(code == 200, "{answer}");
    }
    let mut requests = Vec::with_capacity(request_count);
    for _ in 0..request_count {
        let user = new_account().address;
        let body = ask(user, user, (8453, Address::ZERO), (10, Address::ZERO), U256::from(10u64.pow(16)));
        let (code, quote) = call(&harness, "POST", "/quote/v2", &key, Some(&body)).await?;
        ensure!(code == 200, "{quote}");
        requests.push(request_id(&quote).to_owned());
    }
    served.kill()?;
    ::harness::publish(&harness.config, &requests, &STEPS).await?;

    let (fewest, most) = (u64::try_from(deliveries / 100)?, u64::try_from(deliveries / 7)?);
    for _ in 0..kills {
        served = serve(&toml, None)?;
        // Somewhere within the next deliveries, not at a point that anybody chose.
        let until = receiver.count() + usize::try_from(rng.between(fewest, most))?;
        eventually("some more arrive", || async { Ok(receiver.count() >= until) }).await?;
        tokio::time::sleep(Duration::from_micros(rng.roll(20_000))).await;
        served.kill()?;
    }
    served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    let all_ended = || async {
        let (code, due) = call(&harness, "GET", "/webhooks/deliveries?state=due&limit=1", &key, None).await?;
        anyhow::Ok(code == 200 && due["deliveries"] == json!([]))
    };
    // However long thousands of posts take, they go on.
    while !all_ended().await? {
        let before = receiver.count();
        eventually(&format!("every delivery ends, seed {seed}"), || async {
            Ok(receiver.count() > before + 500 || all_ended().await?)
        })
        .await?;
    }
    let (_, failed) = call(&harness, "GET", "/webhooks/deliveries?state=failed", &key, None).await?;
    ensure!(failed["deliveries"] == json!([]), "{failed}");
    ensure!(served.terminate().await?.success());

    let judged = ::harness::judge(&receiver.posts(), &key, Settings::default().order_hold);
    ensure!(judged.wrong.is_empty(), "seed {seed}: {} wrong: {:?}", judged.wrong.len(), judged.wrong.first());
    let arrived: usize = judged.events.values().map(std::collections::BTreeMap::len).sum();
    ensure!(arrived == deliveries, "seed {seed}: {arrived} of {deliveries}");
    let statuses: Vec<_> = STEPS.iter().map(|state| state.status()).collect();
    for n in 0..ENDPOINTS {
        for request in &requests {
            let told = judged.events.get(&(format!("/{n}"), request.clone()));
            let told: Vec<_> = told.into_iter().flat_map(|told| told.values().map(String::as_str)).collect();
            ensure!(told == statuses, "seed {seed}: {request} at {n}: {told:?}");
        }
    }
    // A kill cuts off what is under way, and no more than that is posted again.
    let most = kills * ENDPOINTS * MAX_POSTS_PER_ENDPOINT;
    ensure!(judged.repeats <= most, "seed {seed}: {} repeats, {most} at the most", judged.repeats);
    Ok(())
}
