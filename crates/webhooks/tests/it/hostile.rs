//! Receivers that mean harm: every attempt ends in time, and reads no more than it keeps.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use webhooks::Settings;
use webhooks::address::Policy;
use webhooks::client::{Client, MAX_BODY, Reply};
use webhooks::target::Target;

const TIMEOUT: Duration = Duration::from_millis(1_500);
/// No attempt takes longer, even on a busy machine.
const IN_TIME: Duration = Duration::from_secs(20);
/// More than socket buffers hold, and less than a server could send.
const MAX_SENT: u64 = 64 << 20;

const LOCAL: Policy = Policy { allow_local: true };

fn settings() -> Settings {
    Settings { allow_local: true, attempt_timeout: TIMEOUT, connect_timeout: TIMEOUT, ..Settings::default() }
}

/// A server that treats every connection by a script, and counts connections and bytes.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    pub sent: Arc<AtomicU64>,
}

impl Server {
    /// Sends `head`, then `tail` for ever, or nothing more if that is empty.
    async fn start(head: &'static [u8], tail: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, connections: Arc::default(), sent: Arc::default() };
        let counts = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counts.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, head, tail, counts.sent.clone()));
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

async fn serve(mut stream: TcpStream, head: &'static [u8], tail: &'static [u8], sent: Arc<AtomicU64>) {
    let mut request = vec![0; 4_096];
    let _ = stream.read(&mut request).await;
    if stream.write_all(head).await.is_err() {
        return;
    }
    while !tail.is_empty() && sent.load(Ordering::SeqCst) < MAX_SENT {
        if stream.write_all(tail).await.is_err() {
            return;
        }
        sent.fetch_add(tail.len() as u64, Ordering::SeqCst);
    }
    // Hold the connection open.
    let _ = stream.read(&mut request).await;
    tokio::time::sleep(IN_TIME).await;
}

async fn post(client: &Client, url: &str) -> Reply {
    let target = Target::new(url, &[], LOCAL).unwrap();
    let began = Instant::now();
    let reply = client.post(&target, HeaderMap::new(), b"{}".to_vec()).await;
    assert!(began.elapsed() < IN_TIME, "{reply:?} took {:?}", began.elapsed());
    reply
}

const KB: [u8; 1_024] = [b'a'; 1_024];
const CHUNK: &[u8] =
    b"400\r\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[tokio::test]
async fn every_attempt_is_bounded_in_time_and_memory() -> Result<()> {
    let client = Client::new(&settings())?;
    for (what, head, tail, code) in [
        ("says nothing", &b""[..], &b""[..], None),
        ("talks nonsense", b"hello\r\n\r\n", b"", None),
        ("headers without end", b"HTTP/1.1 200 OK\r\n", b"x-a: bbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n", None),
        ("one header without end", b"HTTP/1.1 200 OK\r\nx-a: ", &KB, None),
        ("a status line without end", b"HTTP/1.1 200 ", &KB, None),
        ("interim answers without end", b"", b"HTTP/1.1 100 Continue\r\n\r\n", None),
        ("a body without end", b"HTTP/1.1 200 OK\r\n\r\n", &KB, Some(200)),
        ("gigabytes", b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", &KB, Some(200)),
        ("a failure of gigabytes", b"HTTP/1.1 500 No\r\ncontent-length: 99999999999\r\n\r\n", &KB, Some(500)),
        ("a body that never comes", b"HTTP/1.1 204 OK\r\n\r\n", b"", Some(204)),
        ("a body that stalls", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", b"", Some(200)),
        ("chunks that lie", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", CHUNK, Some(200)),
        ("two lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", b"", None),
        ("nul bytes", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na\0b", b"", Some(200)),
    ] {
        let server = Server::start(head, tail).await;
        let reply = post(&client, &server.url()).await;
        ensure!(reply.code == code, "{what}: {reply:?}");
        ensure!(reply.body.as_ref().is_none_or(|body| body.len() <= 3 * MAX_BODY && !body.contains('\0')), "{what}");
        ensure!(reply.code.is_some() || reply.error.is_some(), "{what}: {reply:?}");
        // The rest is not read: the server cannot get rid of it. Interim answers are read, and forgotten.
        let sent = server.sent.load(Ordering::SeqCst);
        ensure!(sent < MAX_SENT || what.starts_with("interim"), "{what}: took {sent} bytes");
    }
    Ok(())
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() -> Result<()> {
    let client = Client::new(&settings())?;
    let elsewhere = TcpListener::bind("127.0.0.1:0").await?;
    let address = elsewhere.local_addr()?;
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = hits.clone();
    tokio::spawn(async move {
        while elsewhere.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    for code in [301, 302, 303, 307, 308] {
        let head = format!("HTTP/1.1 {code} Go\r\nlocation: http://{address}/\r\ncontent-length: 0\r\n\r\n");
        let server = Server::start(Box::leak(head.into_bytes().into_boxed_slice()), b"").await;
        let reply = post(&client, &server.url()).await;
        ensure!(reply.code == Some(code) && !reply.is_accepted(), "{reply:?}");
    }
    ensure!(hits.load(Ordering::SeqCst) == 0, "a redirect was followed");
    Ok(())
}

/// Answers every name with the same addresses.
#[derive(Debug)]
pub struct Fixed(pub Vec<SocketAddr>);

impl Resolve for Fixed {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses = self.0.clone();
        Box::pin(async move { Ok(Box::new(addresses.into_iter()) as Addrs) })
    }
}

#[tokio::test]
async fn a_name_of_a_private_address_is_refused_before_anything_is_sent() -> Result<()> {
    let server = Server::start(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"").await;
    let public: SocketAddr = "192.0.9.9:1".parse()?;
    for (addresses, said) in [
        (vec![server.address], "loopback"),
        (vec![public, server.address], "loopback"),
        (vec!["[::ffff:127.0.0.1]:1".parse()?], "loopback"),
        (vec!["10.0.0.1:1".parse()?], "private"),
        (vec!["169.254.169.254:1".parse()?], "metadata"),
        (vec!["100.100.100.200:1".parse()?], "private"),
        (vec!["0.0.0.0:1".parse()?], "not a public host"),
        (vec!["[::1]:1".parse()?], "loopback"),
        (vec!["[::]:1".parse()?], "not a public host"),
        (vec!["[fd00:ec2::254]:1".parse()?], "private"),
        (vec!["[fe80::1]:1".parse()?], "link-local"),
        (vec!["[::ffff:169.254.169.254]:1".parse()?], "metadata"),
        (vec!["[64:ff9b::10.0.0.1]:1".parse()?], "private"),
        (vec!["[2002:7f00:1::]:1".parse()?], "loopback"),
        (vec![], "no address"),
    ] {
        let closed = Settings { allow_local: false, ..settings() };
        let client = Client::with(&closed, Arc::new(Fixed(addresses.clone())), &[])?;
        let url = format!("https://hooks.example.com:{}/", server.address.port());
        let target = Target::new(&url, &[], Policy::default())?;
        let reply = client.post(&target, HeaderMap::new(), b"{}".to_vec()).await;
        ensure!(reply.error.as_deref().is_some_and(|error| error.contains(said)), "{addresses:?}: {reply:?}");
    }
    ensure!(server.connections.load(Ordering::SeqCst) == 0, "a refused address was connected to");
    // With the switch the same name is reached.
    let client = Client::with(&settings(), Arc::new(Fixed(vec![server.address])), &[])?;
    let reply = post(&client, &format!("http://hooks.example.com:{}/", server.address.port())).await;
    ensure!(reply.code == Some(200) && server.connections.load(Ordering::SeqCst) == 1, "{reply:?}");
    Ok(())
}

/// Answers with one address after the other, the last of them for ever.
#[derive(Debug)]
struct Rebinding(Vec<SocketAddr>, AtomicUsize);

impl Resolve for Rebinding {
    fn resolve(&self, _: Name) -> Resolving {
        let turn = self.1.fetch_add(1, Ordering::SeqCst).min(self.0.len() - 1);
        let address = self.0[turn];
        Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Addrs) })
    }
}

/// A name is judged at every connection, and what was judged is what is connected to.
#[tokio::test]
async fn a_name_that_turns_private_is_refused_from_then_on() -> Result<()> {
    let server = Server::start(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", b"").await;
    let names = Arc::new(Rebinding(vec![server.address, "10.0.0.1:1".parse()?], AtomicUsize::default()));
    let client = Client::with(&settings(), names.clone(), &[])?;
    let url = format!("http://hooks.example.com:{}/", server.address.port());
    let first = post(&client, &url).await;
    ensure!(first.code == Some(200), "{first:?}");
    for _ in 0..2 {
        let reply = post(&client, &url).await;
        ensure!(reply.error.as_deref().is_some_and(|error| error.contains("private")), "{reply:?}");
    }
    ensure!(names.1.load(Ordering::SeqCst) == 3 && server.connections.load(Ordering::SeqCst) == 1);
    Ok(())
}

/// A server that sends one byte at a time never ends by itself.
#[tokio::test]
async fn an_answer_that_drips_is_cut_off() -> Result<()> {
    for (head, code) in [("HTTP/1.1 200 OK\r\nx-drip: ", None), ("HTTP/1.1 200 OK\r\n\r\n", Some(200))] {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            // An answer ahead of its request is another error.
            if stream.read(&mut [0; 1_024]).await? == 0 {
                return Ok(());
            }
            stream.write_all(head.as_bytes()).await?;
            while stream.write_all(b"a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<_, std::io::Error>(())
        });
        let reply = post(&Client::new(&settings())?, &url).await;
        ensure!(reply.code == code && reply.duration < IN_TIME, "{reply:?}");
    }
    Ok(())
}

/// A handshake that never ends, and one that is no handshake.
#[tokio::test]
async fn a_server_without_tls_costs_no_more_than_one_that_is_silent() -> Result<()> {
    for tail in [&b""[..], &KB] {
        let server = Server::start(b"", tail).await;
        let client = Client::with(&settings(), Arc::new(Fixed(vec![server.address])), &[])?;
        let reply = post(&client, &format!("https://hooks.example.com:{}/", server.address.port())).await;
        ensure!(reply.code.is_none() && reply.error.is_some(), "{reply:?}");
        ensure!(server.sent.load(Ordering::SeqCst) < MAX_SENT, "the rest was read");
    }
    Ok(())
}
