//! Leases: held by one process at a time, and no write under a lost one.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use store::instances::{self, About};
use store::leases::{self, Kind};
use store::{Instance, Lease, Store, StoreError};

use crate::database::{Database, coins, put};

/// Short, so that the death of a process is soon noticed; not so short that a busy machine looks dead.
const TTL: Duration = Duration::from_secs(2);

struct Process {
    store: Store,
    instance: Instance,
}

async fn process(database: &Database, id: &str) -> anyhow::Result<Process> {
    let store = database.open().await?;
    let about = About { id: id.to_owned(), name: format!("process {id}"), role: "all", answers: true };
    let instance = Instance::join(&database.options, &store, about, TTL).await?;
    Ok(Process { store, instance })
}

fn answering(process: &Process) -> u32 {
    process.instance.answering().load(Ordering::Relaxed)
}

impl Process {
    async fn take(&self) -> Result<Option<Lease>, StoreError> {
        self.instance.take(&self.store, Kind::Worker).await
    }

    async fn acquire(&self) -> Lease {
        self.instance.acquire(&self.store, Kind::Worker).await
    }
}

crate::on_both_engines! {
    a_lease_has_an_epoch_of_its_own_each_time
}

async fn a_lease_has_an_epoch_of_its_own_each_time(database: Database) -> anyhow::Result<()> {
    let a = process(&database, "a").await?;
    let first = a.acquire().await;
    // The holder may take the lease again, as after a brief failure.
    let second = a.acquire().await;
    assert!(second.epoch() > first.epoch());
    put(&a.store.under(&second), 1, 10).await?;
    let seen = a.store.read(leases::all).await?;
    let worker = seen.iter().find(|lease| lease.kind == Kind::Worker).unwrap();
    assert_eq!((worker.epoch, worker.held, worker.expired_millis), (second.epoch(), true, None));
    assert_eq!(worker.name.as_deref(), Some("process a"));
    assert!(!seen.iter().find(|lease| lease.kind == Kind::Allocator).unwrap().held);
    assert_eq!(answering(&a), 1);
    a.instance.release(&a.store, Kind::Worker).await?;
    a.instance.leave(&a.store).await?;
    assert_eq!(a.store.read(instances::alive).await?, []);
    Ok(())
}

#[tokio::test]
async fn one_holds_it_and_the_other_stands_by() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let (a, b) = (process(&database, "a").await?, process(&database, "b").await?);
    let held = a.take().await?.unwrap();
    assert!(b.take().await?.is_none());
    // The other kind is another lease.
    assert!(b.instance.take(&b.store, Kind::Allocator).await?.is_some());
    put(&a.store.under(&held), 1, 10).await?;
    a.instance.release(&a.store, Kind::Worker).await?;
    let next = b.acquire().await;
    assert!(next.epoch() > held.epoch());
    // A write under the former lease is refused.
    let late = put(&a.store.under(&held), 2, 10).await;
    assert!(matches!(late, Err(StoreError::Fenced { lease: "worker" })), "{late:?}");
    held.lost().await;
    assert_eq!(coins(&b.store, 2).await?, None);
    put(&b.store.under(&next), 3, 10).await?;
    Ok(())
}

#[tokio::test]
async fn a_holder_without_a_heartbeat_is_replaced() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let (a, b) = (process(&database, "a").await?, process(&database, "b").await?);
    let held = a.take().await?.unwrap();
    let Process { store, instance } = a;
    // As if the process were dead: no heartbeat, and no lease released.
    drop(instance);
    let next = b.acquire().await;
    assert!(next.epoch() > held.epoch());
    // The former holder noticed by itself, for want of a heartbeat.
    held.lost().await;
    assert!(matches!(put(&store.under(&held), 1, 10).await, Err(StoreError::Fenced { .. })));
    assert_eq!(b.store.read(instances::alive).await?.len(), 1);
    Ok(())
}

/// A unit that has begun under the lease ends before anybody else can take it.
#[tokio::test]
async fn taking_over_waits_for_a_running_unit() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let (a, b) = (process(&database, "a").await?, process(&database, "b").await?);
    let held = a.take().await?.unwrap();
    let Process { store, instance } = a;
    let (began, has_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Arc::new(Mutex::new(may_go_on));
    let fenced = store.under(&held);
    let unit = tokio::spawn(async move {
        let unit = move |tx: &mut store::Tx<'_>| -> Result<(), StoreError> {
            tx.execute("insert into jar (id, coins) values (1, 10)", &[])?;
            let _ = began.send(());
            let _ = may_go_on.lock().unwrap().recv();
            Ok(())
        };
        fenced.write(unit).await
    });
    tokio::task::spawn_blocking(move || has_begun.recv()).await??;
    drop(instance);
    let standby = tokio::spawn(async move {
        let lease = b.acquire().await;
        (lease, coins(&b.store, 1).await)
    });
    // Waits until the other process is blocked on the lock.
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    loop {
        let waiting = store.read(move |tx| tx.row(waits, &[])?.ok_or(StoreError::ManyRows(0))?.int(0)).await?;
        if waiting > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!standby.is_finished());
    go_on.send(())?;
    unit.await??;
    let (lease, seen) = standby.await?;
    assert!(lease.epoch() > held.epoch());
    assert_eq!(seen?, Some(10));
    Ok(())
}

#[tokio::test]
async fn a_heartbeat_outlives_its_session() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let (a, b) = (process(&database, "a").await?, process(&database, "b").await?);
    let held = a.take().await?.unwrap();
    let expires = || {
        b.store.read(|tx| {
            let row = tx.row("select expires_at, {now_ms} from instance where instance_id = 'a'", &[])?;
            let row = row.ok_or(StoreError::ManyRows(0))?;
            Ok::<_, StoreError>((row.int(0)?, row.int(1)?))
        })
    };
    let terminate = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    b.store.write(move |tx| tx.rows(terminate, &[]).map(drop)).await?;
    let (_, then) = expires().await?;
    // Waits for a heartbeat that began after the sessions had ended.
    while expires().await?.0 <= then + i64::try_from(TTL.as_millis())? {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    put(&a.store.under(&held), 1, 10).await?;
    assert!(b.take().await?.is_none());
    Ok(())
}

#[tokio::test]
async fn processes_know_how_many_answer_and_hear_of_work() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let a = process(&database, "a").await?;
    assert_eq!(answering(&a), 1);
    let b = process(&database, "b").await?;
    while answering(&a) != 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut woken = a.store.woken();
    woken.mark_unchanged();
    b.store.wake().await?;
    woken.changed().await?;
    b.instance.leave(&b.store).await?;
    while answering(&a) != 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
