//! Connections: accepted within bounds, watched while they idle or send a header, and closed so that the last answer
//! arrives. Nothing here costs a call more than one small allocation.

mod body;
mod seats;
mod stream;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, header};
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use metrics::counter;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error};

use self::body::{Answering, Kept, Rest};
use self::seats::Seats;
use self::stream::{Phase, Timeouts, Watched};
use crate::network::Network;

/// The longest header that is read, its first line included.
const MAX_HEADER: usize = 128 * 1024;
/// The pause after a failed `accept`, which fails at once again where there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How many connections there may be, and how slow they may be.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    pub most: usize,
    /// Of one address, or of one /64.
    pub most_per_address: usize,
    /// Proxies speak for many, so only the bound on all connections holds for them.
    pub trusted_proxies: Vec<Network>,
    /// The longest a header may take from its first byte, and a new connection for its first header.
    pub header_timeout: Duration,
    /// The longest between two calls.
    pub idle_timeout: Duration,
    /// The longest a client may take nothing of its answer.
    pub write_timeout: Duration,
}

/// Serves connections until it is stopped, and then until those that are open have their answers.
pub fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    async move {
        let timeouts =
            Timeouts { header: limits.header_timeout, idle: limits.idle_timeout, write: limits.write_timeout };
        let (seats, tasks) = (Seats::new(limits), TaskTracker::new());
        let service = TowerToHyperService::new(router);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause(&error).await;
                    continue;
                }
            };
            // Closed at once: whoever waits instead would keep a place in the queue that others need.
            let Some(seat) = seats.take(peer.ip()) else {
                counter!("causeway_connections_refused_total").increment(1);
                continue;
            };
            // Without it an answer is as good, and later.
            let _ = stream.set_nodelay(true);
            let phase = Arc::new(Phase::default());
            let stream = Watched::new(stream, phase.clone(), timeouts);
            let (service, stop) = (service.clone(), stop.clone());
            let answer = move |request| answer(service.clone(), peer, phase.clone(), request);
            tasks.spawn(async move {
                connection(stream, answer, stop).await;
                drop(seat);
            });
        }
        drop(listener);
        tasks.close();
        tasks.wait().await;
    }
    .boxed()
}

async fn pause(error: &std::io::Error) {
    let of_the_client = matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    );
    if !of_the_client {
        error!(%error, "a connection could not be accepted");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

async fn connection<A, F>(stream: Watched, answer: A, stop: CancellationToken)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response<Answering>, Infallible>>,
{
    let (stream, service) = (TokioIo::new(stream), service_fn(answer));
    let connection = http1::Builder::new().max_buf_size(MAX_HEADER).serve_connection(stream, service).with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

/// Answers one call. If the answer came before the body did, the body is read, within bounds: a client that is still
/// sending would find its connection broken and never see the answer. The call ends with the body of its answer.
async fn answer(
    service: TowerToHyperService<Router>,
    peer: SocketAddr,
    phase: Arc<Phase>,
    request: Request<Incoming>,
) -> Result<Response<Answering>, Infallible> {
    phase.begin();
    let waits_for_us = request.headers().contains_key(header::EXPECT);
    let rest = (!request.body().is_end_stream()).then(Rest::default);
    let mut request = request.map(|incoming| match &rest {
        Some(rest) => Body::new(Kept::new(incoming, rest.clone())),
        None => Body::empty(),
    });
    request.extensions_mut().insert(ConnectInfo(peer));
    let mut response = service.call(request).await?;
    if let Some(unread) = rest.and_then(|rest| rest.take())
        && (waits_for_us || !unread.read().await)
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Answering::new(body, phase)))
}
