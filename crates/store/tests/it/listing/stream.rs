//! The stream of events: each once and in order, however often it is cut.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use domain::request::State;
use store::listing::{self, Batch, Column, Condition, Gap};
use store::{Store, StoreError};

use super::refresh;
use super::seeds::{self, Seed, id, sow, write};
use crate::database::Database;

crate::on_both_engines! {
    a_stream_cut_at_random_yields_each_event_once
    events_are_matched_by_their_own_state
    a_stream_waits_for_the_facts_of_a_request
}

async fn after(store: &Store, position: i64, condition: &Condition, gap: Option<Gap>) -> Result<Batch, StoreError> {
    let condition = condition.clone();
    store.list(move |tx| listing::after(tx, position, &condition, gap)).await
}

async fn events_are_matched_by_their_own_state(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    sow(&store, &[Seed::default().begun(), Seed::default().begun()]).await?;
    for state in [State::Pending, State::Submitted, State::Success] {
        seeds::step(&store, id(1), state, None).await?;
        seeds::step(&store, id(2), state, None).await?;
    }
    refresh(&store).await?;
    let submitted = Condition::is(Column::State, "submitted");
    let batch = after(&store, 0, &submitted, None).await?;
    let states: Vec<_> = batch.steps.iter().map(|step| (step.request, step.state)).collect();
    assert_eq!(states, [(id(1), State::Submitted), (id(2), State::Submitted)]);
    assert_eq!(batch.position, store.list(listing::newest).await?);
    let of_one = Condition::is(Column::Id, id(2));
    assert_eq!(after(&store, 0, &of_one, None).await?.steps.len(), 3);
    Ok(())
}

async fn a_stream_waits_for_the_facts_of_a_request(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    sow(&store, &[Seed::default().begun()]).await?;
    seeds::step(&store, id(1), State::Pending, None).await?;
    let batch = after(&store, 0, &Condition::ALWAYS, None).await?;
    assert_eq!((batch.steps.len(), batch.position), (0, 0));
    refresh(&store).await?;
    assert_eq!(after(&store, 0, &Condition::ALWAYS, None).await?.steps.len(), 1);
    Ok(())
}

/// Writers append, some of them roll back, and the reader begins anew at random from the last event it was given.
async fn a_stream_cut_at_random_yields_each_event_once(database: Database) -> anyhow::Result<()> {
    const WRITERS: u32 = 6;
    const STEPS: u32 = 60;
    let store = database.open().await?;
    let seeds: Vec<_> = (0..WRITERS).map(|_| Seed::default().begun()).collect();
    sow(&store, &seeds).await?;
    let writers: Vec<_> = (1..=WRITERS)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                for step in 0..STEPS {
                    let state = if step % 2 == 0 { State::Pending } else { State::Submitted };
                    seeds::step(&store, id(n), state, None).await?;
                    if step % 5 == 0 {
                        // A unit that fails leaves a hole in the numbers of Postgres.
                        let failed = write(&store, move |tx| {
                            seeds::set_state(tx, id(n), state, None, None, seeds::now())?;
                            Err::<(), _>(StoreError::Busy)
                        });
                        assert!(matches!(failed.await, Err(StoreError::Busy)));
                    }
                }
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    let mut random = devnet::Rng::new(7);
    let (mut given, mut position, mut gap) = (Vec::new(), 0, None);
    while given.len() < (WRITERS * STEPS) as usize {
        refresh(&store).await?;
        let batch = after(&store, position, &Condition::ALWAYS, gap).await?;
        // The connection ends after some of them: the client knows the last it got.
        let keep =
            if random.roll(3) == 0 { random.roll(batch.steps.len() as u64 + 1) as usize } else { batch.steps.len() };
        let cut = keep < batch.steps.len();
        given.extend(batch.steps.iter().take(keep).map(|step| step.sequence));
        position = if cut { given.last().copied().unwrap_or(0) } else { batch.position };
        gap = batch.gap.filter(|_| !cut && random.roll(4) > 0);
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await??;
    }
    refresh(&store).await?;
    assert!(given.windows(2).all(|pair| pair[0] < pair[1]), "in order, and none twice");
    let all = store.read(|tx| tx.rows("select sequence from request_event order by sequence", &[])).await?;
    let all = all.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
    assert_eq!(given, all);
    assert_eq!(after(&store, position, &Condition::ALWAYS, None).await?.steps, []);
    Ok(())
}

/// On Postgres a lower number may be committed after a higher one.
#[tokio::test]
async fn an_event_that_commits_late_is_not_skipped() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let store = database.open().await?;
    sow(&store, &[Seed::default().begun(), Seed::default().begun()]).await?;
    refresh(&store).await?;
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    let late = tokio::spawn({
        let store = store.clone();
        async move {
            write(&store, move |tx| {
                seeds::set_state(tx, id(1), State::Pending, None, None, seeds::now())?;
                let _ = begun.send(());
                let _ = may_go.lock().unwrap().recv();
                Ok(())
            })
            .await
        }
    });
    tokio::task::spawn_blocking(move || has_begun.recv()).await??;
    seeds::step(&store, id(2), State::Pending, None).await?;
    refresh(&store).await?;
    let mut gap = None;
    for _ in 0..3 {
        let batch = after(&store, 0, &Condition::ALWAYS, gap).await?;
        assert_eq!((batch.steps.len(), batch.position), (0, 0), "the lower number is still to come");
        gap = batch.gap;
    }
    go.send(())?;
    late.await??;
    refresh(&store).await?;
    let mut given = Vec::new();
    let mut position = 0;
    while given.len() < 2 {
        let batch = after(&store, position, &Condition::ALWAYS, gap).await?;
        given.extend(batch.steps.iter().map(|step| step.request));
        (position, gap) = (batch.position, batch.gap);
    }
    assert_eq!(given, [id(1), id(2)]);
    Ok(())
}
