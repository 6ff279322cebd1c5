//! A minimal subscription: a websocket, one call, and the arrival time of each message.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use url::Url;

/// Longer than any block takes.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Subscription(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Subscription {
    /// Subscribes to `newHeads` or `newPendingTransactions`.
    pub(crate) async fn to(url: &Url, what: &str) -> Result<Self> {
        let (mut socket, _) = tokio_tungstenite::connect_async(url.as_str()).await?;
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_nodelay(true)?;
        }
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": [what]});
        socket.send(Message::text(call.to_string())).await?;
        Ok(Self(socket))
    }

    /// The next notification, and its arrival time.
    pub(crate) async fn next(&mut self) -> Result<(Instant, Value)> {
        let next = async {
            loop {
                let message = self.0.next().await.context("the node has closed the socket")??;
                let at = Instant::now();
                let Message::Text(text) = message else { continue };
                let mut message: Value = serde_json::from_str(&text)?;
                if message["method"] == "eth_subscription" {
                    return Ok((at, message["params"]["result"].take()));
                }
            }
        };
        tokio::time::timeout(READ_TIMEOUT, next).await.context("nothing came")?
    }

    /// Discards everything received so far.
    pub(crate) async fn forget(&mut self) {
        while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(1), self.0.next()).await {}
    }
}
