use std::time::Instant;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use futures::stream;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::error::ApiError;
use crate::json::{ApiJson, MAX_BODY};

const LONG_TIMEOUT: Duration = Duration::from_secs(30);
const BRIEF: Duration = Duration::from_millis(50);

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn limits(most: usize, most_per_address: usize) -> ConnectionLimits {
    let (header_timeout, idle_timeout, write_timeout) = (LONG_TIMEOUT, LONG_TIMEOUT, LONG_TIMEOUT);
    let trusted_proxies = Vec::new();
    ConnectionLimits { most, most_per_address, trusted_proxies, header_timeout, idle_timeout, write_timeout }
}

async fn server(most: usize, most_per_address: usize) -> Server {
    server_with(limits(most, most_per_address)).await
}

async fn server_with(limits: ConnectionLimits) -> Server {
    let echo = async |ApiJson(body): ApiJson<std::collections::BTreeMap<String, Value>>| axum::Json(body);
    let router = Router::new()
        .route("/echo", post(echo))
        .route("/refuse", post(async || ApiError::NoKey))
        .layer(DefaultBodyLimit::max(MAX_BODY));
    serve_routes(router, limits).await
}

async fn serve_routes(router: Router, limits: ConnectionLimits) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    tokio::spawn(serve(listener, router, limits, stop.clone()));
    Server { address, stop }
}

/// One answer: the head, and as much of a body as it promises.
async fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse::<usize>().unwrap() {
                return (head.to_owned(), body.to_owned());
            }
        }
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        assert!(count > 0, "the connection ended: {text}");
        read.extend_from_slice(&part[..count]);
    }
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 16]).await, Ok(0) | Err(_))
}

fn head(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test]
async fn an_early_answer_leaves_the_connection_whole() {
    let server = server(16, 16).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(100_000));
    for _ in 0..3 {
        // The body follows its header after a while, as some clients send it.
        stream.write_all(head("/refuse", body.len()).as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
        stream.write_all(body.as_bytes()).await.unwrap();
        let (head, answer) = read_answer(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 401") && !head.contains("connection: close"), "{head}");
        assert!(answer.contains("UNAUTHORIZED"), "{answer}");
    }
    stream.write_all(head("/echo", 7).as_bytes()).await.unwrap();
    stream.write_all(b"{\"a\":1}").await.unwrap();
    let (_, answer) = read_answer(&mut stream).await;
    assert_eq!(answer, "{\"a\":1}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_before_the_connection_ends() {
    let server = server(16, 16).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let length = 8 * MAX_BODY;
    stream.write_all(head("/echo", length).as_bytes()).await.unwrap();
    // The client goes on sending while it is answered.
    for _ in 0..length / 4096 {
        if stream.write_all(&[b' '; 4096]).await.is_err() {
            break;
        }
    }
    let (head, answer) = read_answer(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 413") && head.contains("connection: close"), "{head}");
    assert!(answer.contains("PAYLOAD_TOO_LARGE"), "{answer}");
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn requests_that_are_never_routed_have_the_body_of_errors_too() {
    let server = server(16, 16).await;
    for (line, status, code) in [
        (format!("GET /echo?{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000)), 414, "URI_TOO_LONG"),
        (format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(200_000)), 431, "HEADERS_TOO_LARGE"),
        ("no request\r\n\r\n".to_owned(), 400, "INVALID_PARAMETERS"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(line.as_bytes()).await.unwrap();
        let (head, answer) = read_answer(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["errorCode"], &answer["statusCode"]), (&code.into(), &status.into()));
        assert!(is_closed(&mut stream).await);
    }
}

#[tokio::test]
async fn an_address_with_too_many_connections_gets_no_more() {
    let server = server(16, 2).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    let mut second = TcpStream::connect(server.address).await.unwrap();
    for stream in [&mut first, &mut second] {
        stream.write_all(head("/echo", 2).as_bytes()).await.unwrap();
        stream.write_all(b"{}").await.unwrap();
        read_answer(stream).await;
    }
    let mut third = TcpStream::connect(server.address).await.unwrap();
    assert!(is_closed(&mut third).await);
    drop(first);
    // The place is free once the server has seen the end of it.
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.write_all((head("/echo", 2) + "{}").as_bytes()).await;
        if stream.read(&mut [0; 16]).await.is_ok_and(|count| count > 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the place was not given back");
}

#[tokio::test]
async fn half_a_header_is_not_waited_for() {
    let server = server_with(ConnectionLimits { header_timeout: BRIEF, ..limits(16, 16) }).await;
    for sent in ["", "POST /echo HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        assert!(is_closed(&mut stream).await, "{sent}");
    }
    // One byte after another does not make the time begin anew.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut sent = 0;
    while sent < 10_000 && stream.write_all(b"x").await.is_ok() {
        sent += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(sent < 10_000 && is_closed(&mut stream).await, "{sent}");
}

#[tokio::test]
async fn a_stopped_server_ends_when_its_connections_do() {
    let server = server(16, 16).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all((head("/echo", 2) + "{}").as_bytes()).await.unwrap();
    read_answer(&mut idle).await;
    let began = Instant::now();
    server.stop.cancel();
    assert!(is_closed(&mut idle).await);
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// Its answer has been sent, and our side is closed: it is waited for a moment, not for ever.
#[tokio::test]
async fn a_client_that_leaves_its_side_open_does_not_keep_its_place() {
    let server = server(1, 1).await;
    let mut stays = TcpStream::connect(server.address).await.unwrap();
    let last = head("/refuse", 0).replace("host: x", "host: x\r\nconnection: close");
    stays.write_all(last.as_bytes()).await.unwrap();
    read_answer(&mut stays).await;
    assert!(is_closed(&mut stays).await);
    let another = async {
        loop {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let asked = stream.write_all(head("/refuse", 0).as_bytes()).await;
            if asked.is_ok() && !is_closed(&mut stream).await {
                break;
            }
            tokio::time::sleep(BRIEF).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT / 3, another).await.expect("its place is free");
}

/// A part of a body for each step, made by `part`.
fn streamed<F: Future<Output = Bytes> + Send + 'static>(parts: u32, part: impl Fn(u32) -> F + Send + 'static) -> Body {
    Body::from_stream(stream::unfold((0, part), move |(at, part)| async move {
        if at == parts {
            return None;
        }
        let bytes = part(at).await;
        Some((Ok::<_, Infallible>(bytes), (at + 1, part)))
    }))
}

#[tokio::test]
async fn an_answer_may_take_longer_than_a_connection_may_idle() {
    let slow = async || {
        streamed(6, |at| async move {
            tokio::time::sleep(BRIEF).await;
            Bytes::from(format!("part {at};"))
        })
    };
    let limits = ConnectionLimits { idle_timeout: BRIEF, ..limits(16, 16) };
    let server = serve_routes(Router::new().route("/slow", get(slow)), limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // The connection idles once the answer has ended, and is closed then.
    let mut read = Vec::new();
    let closed = tokio::time::timeout(LONG_TIMEOUT / 2, stream.read_to_end(&mut read)).await;
    let text = String::from_utf8(read).unwrap();
    assert!(text.contains("part 5;") && text.ends_with("\r\n0\r\n\r\n"), "{text}");
    assert!(closed.is_ok(), "it idles for ever");
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_answer_is_left() {
    let ended = CancellationToken::new();
    let told = ended.clone();
    let endless = move || {
        let guard = Arc::new(told.clone().drop_guard());
        let body = streamed(u32::MAX, move |_| {
            let guard = guard.clone();
            async move {
                let part = Bytes::from(vec![b'x'; 65_536]);
                drop(guard);
                part
            }
        });
        async move { body }
    };
    let limits = ConnectionLimits { write_timeout: BRIEF, ..limits(16, 16) };
    let server = serve_routes(Router::new().route("/endless", get(endless)), limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::timeout(LONG_TIMEOUT / 2, ended.cancelled()).await.expect("the answer is still being sent");
}
