//! Postgres outages, at every awkward moment.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use alloy_primitives::B256;
use store::{QuoteRow, Store, StoreError};
use url::Url;

use crate::database::{Database, coins, put};

const TERMINATE_OTHERS: &str = "select pg_terminate_backend(pid) from pg_stat_activity \
    where datname = current_database() and pid <> pg_backend_pid()";

/// Ends every session of the database except the caller's.
async fn hang_up(store: &Store) -> Result<(), StoreError> {
    store.write(|tx| tx.rows(TERMINATE_OTHERS, &[]).map(drop)).await
}

fn quote(byte: u8) -> QuoteRow {
    let id = B256::repeat_byte(byte);
    QuoteRow { request_id: id, order_id: Some(id), created_at: 1, expires_at: 2, body: "{}".into() }
}

#[tokio::test]
async fn lost_sessions_are_made_again() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let store = database.open().await?;
    // All threads get a session to lose.
    futures::future::join_all((100..140).map(|id| put(&store, id, 1)))
        .await
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    store.write_quote(quote(1)).await?;
    for round in 0..5 {
        hang_up(&store).await?;
        put(&store, round, 1).await?;
        store.write_quote(quote(10 + round as u8)).await?;
        assert_eq!(coins(&store, round).await?, Some(1));
    }
    Ok(())
}

#[tokio::test]
async fn a_unit_that_loses_its_session_runs_again() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let store = database.open().await?;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    store
        .write(move |tx| -> Result<(), StoreError> {
            tx.execute("insert into jar (id, coins) values (1, 10)", &[])?;
            if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                tx.rows("select pg_terminate_backend(pg_backend_pid())", &[])?;
            }
            Ok(())
        })
        .await?;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(coins(&store, 1).await?, Some(10));
    assert_eq!(store.stats().retries, 1);
    Ok(())
}

const PASS: u8 = 0;
const DROP_BEFORE: u8 = 1;
const DROP_AFTER: u8 = 2;
/// The connection stays open, and nothing goes through.
pub const HOLD: u8 = 3;

/// A proxy to the database that can be cut at the next commit: before the commit arrives, or before its answer does.
pub struct Proxy {
    pub mode: Arc<AtomicU8>,
    pub options: store::Options,
}

impl Proxy {
    pub fn new(database: &Database) -> anyhow::Result<Self> {
        let mut url = Url::parse(&database.url)?;
        let server = format!("{}:{}", url.host_str().unwrap_or("127.0.0.1"), url.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0")?;
        url.set_host(Some("127.0.0.1"))?;
        url.set_port(Some(listener.local_addr()?.port())).map_err(|()| anyhow::anyhow!("port"))?;
        let mode = Arc::new(AtomicU8::new(PASS));
        let cut = mode.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else { return };
                carry(client, server, cut.clone());
            }
        });
        let mut options = store::Options::new(url.as_str().parse()?);
        options.postgres_threads = 1;
        Ok(Self { mode, options })
    }
}

fn carry(client: TcpStream, server: TcpStream, mode: Arc<AtomicU8>) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (mut from_server, mut to_client) = (server, client);
    let silent = Arc::new(AtomicU8::new(0));
    let muted = silent.clone();
    std::thread::spawn(move || {
        let mut buffer = [0u8; 65536];
        while let Ok(read @ 1..) = from_client.read(&mut buffer) {
            let commit = buffer[..read].windows(6).any(|bytes| bytes == b"COMMIT");
            match mode.load(Ordering::SeqCst) {
                DROP_BEFORE if commit => break,
                HOLD => {}
                DROP_AFTER if commit => {
                    muted.store(1, Ordering::SeqCst);
                    let _ = to_server.write_all(&buffer[..read]);
                }
                _ => {
                    let _ = to_server.write_all(&buffer[..read]);
                }
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
        let _ = from_client.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut buffer = [0u8; 65536];
        while let Ok(read @ 1..) = from_server.read(&mut buffer) {
            // The server has answered the commit, so it has happened; the answer goes no further.
            if silent.load(Ordering::SeqCst) == 1 {
                break;
            }
            let _ = to_client.write_all(&buffer[..read]);
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
}

/// The caller cannot tell whether the commit happened, so both get the same answer, and neither is tried again.
#[tokio::test]
async fn a_commit_without_an_answer_is_unknown_and_not_repeated() -> anyhow::Result<()> {
    let database = crate::database::postgres().await?;
    let direct = database.open().await?;
    let proxy = Proxy::new(&database)?;
    let store = Store::open(&proxy.options)?;
    put(&store, 0, 1).await?;
    for (id, mode, there) in [(1, DROP_BEFORE, None), (2, DROP_AFTER, Some(10))] {
        proxy.mode.store(mode, Ordering::SeqCst);
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let result = store
            .write(move |tx| -> Result<(), StoreError> {
                counted.fetch_add(1, Ordering::SeqCst);
                tx.execute("insert into jar (id, coins) values ($1, 10)", &[id.into()])?;
                Ok(())
            })
            .await;
        assert!(matches!(result, Err(StoreError::CommitUnknown)), "{result:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        proxy.mode.store(PASS, Ordering::SeqCst);
        assert_eq!(coins(&direct, id).await?, there);
        // The thread has opened another session.
        put(&store, id + 10, 1).await?;

        proxy.mode.store(mode, Ordering::SeqCst);
        let result = store.write_quote(quote(id as u8)).await;
        assert!(matches!(result, Err(StoreError::CommitUnknown)), "{result:?}");
        proxy.mode.store(PASS, Ordering::SeqCst);
        store.write_quote(quote(id as u8 + 10)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_at_once() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let options = store::Options::new(format!("postgres://nobody@127.0.0.1:{port}/nothing").parse()?);
    let error = Store::open(&options).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    Ok(())
}
