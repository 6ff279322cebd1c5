//! The baseline that nothing here can beat: a bare route on the same HTTP stack with a constant answer.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server that stops when it is dropped.
pub(crate) struct Baseline {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Baseline {
    /// Reads each body, as the service has to, and answers with `body`.
    pub(crate) async fn start(body: Vec<u8>) -> Result<Self> {
        let body = Bytes::from(body);
        let answer = move |_: Bytes| async move { ([(header::CONTENT_TYPE, "application/json")], body) };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let serve = axum::serve(listener, Router::new().route("/quote/v2", post(answer)));
        let task = tokio::spawn(async move { drop(serve.await) });
        Ok(Self { address, task })
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        self.task.abort();
    }
}
