//! `causeway webhook-listen`: a receiver for developers. It verifies every event and prints it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use webhooks::signature::{
    DELIVERY_HEADER, OTHER_SIGNATURE_HEADER, SEQUENCE_HEADER, SIGNATURE_HEADER, TEST_HEADER, TIMESTAMP_HEADER, verify,
};

use crate::cli::ListenArgs;
use crate::env::clock;
use crate::signals::Signals;

/// The largest body that is read: an event has about one KB.
const MAX_BODY: usize = 64 * 1024;
/// An event whose signature is older, or that is from the future, may be somebody's recording.
const MAX_SKEW_MILLIS: i64 = 300_000;

struct Listener {
    keys: Vec<String>,
    answer: StatusCode,
    /// Events after which it ends.
    most: Option<u64>,
    seen: AtomicU64,
    enough: Notify,
}

pub(super) async fn run(args: ListenArgs) -> Result<()> {
    ensure!(!args.keys.is_empty(), "--key: the text of the API key (cwk_…)");
    let answer = StatusCode::from_u16(args.answer).context("--answer: not an HTTP status")?;
    let mut signals = Signals::listen()?;
    let socket = TcpListener::bind(("127.0.0.1", args.port)).await;
    let socket = socket.with_context(|| format!("cannot listen on port {}: choose another with --port", args.port))?;
    println!("listening on http://{}", socket.local_addr()?);
    let listener = Arc::new(Listener {
        keys: args.keys,
        answer,
        most: args.events,
        seen: AtomicU64::new(0),
        enough: Notify::new(),
    });
    let router = Router::new().fallback(receive).layer(DefaultBodyLimit::max(MAX_BODY)).with_state(listener.clone());
    let end = async move {
        tokio::select! {
            () = signals.heard() => {}
            () = listener.enough.notified() => {}
        }
    };
    axum::serve(socket, router).with_graceful_shutdown(end).await.context("the listener failed")
}

async fn receive(State(listener): State<Arc<Listener>>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    match check(&listener.keys, &headers, &body, clock().millis()) {
        Ok(()) => {
            println!("{}", describe(&headers, &body));
            let seen = listener.seen.fetch_add(1, Ordering::Relaxed) + 1;
            if listener.most.is_some_and(|most| seen >= most) {
                listener.enough.notify_one();
            }
            (listener.answer, String::new())
        }
        Err(why) => {
            println!("refused: {why}");
            (StatusCode::UNAUTHORIZED, why.to_owned())
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Either signature by any of the keys is good: while a key is rotated there are two.
fn check(keys: &[String], headers: &HeaderMap, body: &[u8], now: i64) -> Result<(), &'static str> {
    let timestamp = header(headers, TIMESTAMP_HEADER).ok_or("no X-Signature-Timestamp")?;
    let sent: i64 = timestamp.parse().map_err(|_| "X-Signature-Timestamp is not a time")?;
    let names = [SIGNATURE_HEADER, OTHER_SIGNATURE_HEADER];
    let signatures: Vec<_> = names.into_iter().filter_map(|name| header(headers, name)).collect();
    if signatures.is_empty() {
        return Err("no X-Signature-SHA256");
    }
    let by = |key: &String| signatures.iter().any(|signature| verify(key, timestamp, body, signature));
    if !keys.iter().any(by) {
        return Err("the signature is not by this key");
    }
    if now.abs_diff(sent) > MAX_SKEW_MILLIS.unsigned_abs() {
        return Err("the signature is older than five minutes");
    }
    Ok(())
}

/// One line about the event, and its body in full.
fn describe(headers: &HeaderMap, body: &[u8]) -> String {
    let event: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| header(headers, name).unwrap_or("-");
    let status = event["data"]["status"].as_str().unwrap_or("-");
    let test = if headers.contains_key(TEST_HEADER) { " (test)" } else { "" };
    let (id, sequence) = (text(DELIVERY_HEADER), text(SEQUENCE_HEADER));
    let pretty = serde_json::to_string_pretty(&event).unwrap_or_default();
    format!("{status}{test}: event {sequence} of its request, delivery {id}, signature good\n{pretty}")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use webhooks::signature::sign;

    use super::*;

    fn signed(key: &str, header: &'static str, sent: i64) -> HeaderMap {
        let (time, mut headers) = (sent.to_string(), HeaderMap::new());
        headers.insert(TIMESTAMP_HEADER, HeaderValue::from_str(&time).unwrap());
        headers.insert(header, HeaderValue::from_str(&sign(key, &time, b"{}")).unwrap());
        headers
    }

    #[test]
    fn a_receiver_accepts_either_signature_by_either_key_in_time() {
        let keys = ["new".to_owned(), "old".to_owned()];
        for (headers, body, now, good) in [
            (signed("new", SIGNATURE_HEADER, 1_000), "{}", 1_000, true),
            (signed("old", SIGNATURE_HEADER, 1_000), "{}", 301_000, true),
            (signed("old", OTHER_SIGNATURE_HEADER, 1_000), "{}", 1_000, true),
            (signed("old", SIGNATURE_HEADER, 1_000), "{}", 301_001, false),
            (signed("old", SIGNATURE_HEADER, 400_000), "{}", 1_000, false),
            (signed("else", SIGNATURE_HEADER, 1_000), "{}", 1_000, false),
            (signed("new", SIGNATURE_HEADER, 1_000), "{ }", 1_000, false),
            (HeaderMap::new(), "{}", 1_000, false),
        ] {
            assert_eq!(check(&keys, &headers, body.as_bytes(), now).is_ok(), good, "{headers:?}");
        }
    }
}
