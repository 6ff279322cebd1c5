//! Crashes of the process, and the data left on disk then. The process that dies is this test binary, run again.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use store::{Options, Store, StoreError};

use crate::database::{Database, coins, jars};
use crate::outages::{HOLD, Proxy};

const ROLE: &str = "CAUSEWAY_STORE_TEST_ROLE";
const URL: &str = "CAUSEWAY_STORE_TEST_URL";
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

fn child(role: &str, database: &Database) -> Command {
    child_at(role, &database.options)
}

fn child_at(role: &str, options: &Options) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::when_run_as_a_child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(URL, options.url.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Plays the role the parent asks for. Run by itself there is none, and nothing to do.
#[test]
fn when_run_as_a_child() -> anyhow::Result<()> {
    let (Ok(role), Ok(url)) = (std::env::var(ROLE), std::env::var(URL)) else { return Ok(()) };
    let runtime = tokio::runtime::Runtime::new()?;
    let mut options = Options::new(url.parse()?);
    options.silence_limit = std::time::Duration::from_secs(2);
    let store = Store::open(&options)?;
    match role.as_str() {
        "write" => runtime.block_on(write_for_ever(&store)),
        "panic" => {
            let unit = |_: &mut store::Tx<'_>| -> Result<(), StoreError> { panic!("on purpose") };
            runtime.block_on(store.write(unit))?;
        }
        "nest" => {
            let inner = store.clone();
            let unit = move |_: &mut store::Tx<'_>| -> Result<(), StoreError> {
                drop(inner.write(|_| Ok::<_, StoreError>(())));
                Ok(())
            };
            runtime.block_on(store.write(unit))?;
        }
        other => anyhow::bail!("no part called {other}"),
    }
    Ok(())
}

/// Prints the answered ids on standard output, and nothing else.
async fn write_for_ever(store: &Store) {
    let writers = (0..32i64).map(|writer| async move {
        for number in 0.. {
            let id = number * 32 + writer;
            let answer = store
                .write(move |tx| -> Result<(), StoreError> {
                    tx.execute("insert into jar (id, coins) values ($1, $1)", &[id.into()])?;
                    Ok(())
                })
                .await;
            if answer.is_ok() {
                let _ = writeln!(std::io::stdout(), "answered {id}");
            }
        }
    });
    futures::future::join_all(writers).await;
}

#[tokio::test]
async fn nothing_answered_is_lost_when_the_process_is_killed() -> anyhow::Result<()> {
    let database = crate::database::sqlite().await?;
    database.open().await?.close().await;
    let mut process = child("write", &database).spawn()?;
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut answered = Vec::new();
    let mut killed = false;
    for line in lines {
        if let Some(id) = line?.strip_prefix("answered ") {
            answered.push(id.parse::<i64>()?);
        }
        if answered.len() == 500 {
            process.kill()?;
            killed = true;
        }
    }
    assert_eq!(process.wait()?.signal(), Some(SIGKILL));
    assert!(killed && answered.len() >= 500);
    let store = database.open().await?;
    for id in &answered {
        assert_eq!(coins(&store, *id).await?, Some(*id));
    }
    // Units that were committed and not yet answered may be there too: no more than were under way.
    let extra = jars(&store).await? - answered.len() as i64;
    assert!((0..=64).contains(&extra), "{extra}");
    Ok(())
}

#[tokio::test]
async fn a_panic_in_a_unit_ends_the_process() -> anyhow::Result<()> {
    let database = crate::database::sqlite().await?;
    database.open().await?.close().await;
    assert_eq!(child("panic", &database).status()?.signal(), Some(SIGABRT));
    Ok(())
}

/// The store's threads could wait for ever, and their callers with them.
#[tokio::test]
async fn a_database_that_no_longer_answers_ends_the_process() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    database.open().await?.close().await;
    let proxy = Proxy::new(&database)?;
    let mut process = child_at("write", &proxy.options).spawn()?;
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("answered "))));
    proxy.mode.store(HOLD, Ordering::SeqCst);
    lines.for_each(drop);
    assert_eq!(process.wait()?.signal(), Some(SIGABRT));
    Ok(())
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn a_write_inside_a_unit_panics() -> anyhow::Result<()> {
    let database = crate::database::sqlite().await?;
    database.open().await?.close().await;
    assert_eq!(child("nest", &database).status()?.signal(), Some(SIGABRT));
    Ok(())
}
