//! TCP connections that can be cut while they are open.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::faults::Fault;

/// Accepts connections that are reset once the fault says so, or once the proxy is gone.
#[derive(Debug)]
pub(crate) struct Cutting {
    pub listener: TcpListener,
    pub faults: watch::Receiver<Fault>,
    /// Its sender lives as long as the proxy.
    pub alive: watch::Receiver<()>,
}

impl Listener for Cutting {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                // Most likely out of file descriptors; accepting at once would spin.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // An answer in two segments must not wait for an acknowledgement.
            drop(stream.set_nodelay(true));
            let (mut faults, mut alive) = (self.faults.clone(), self.alive.clone());
            let cut = async move {
                tokio::select! {
                    _ = faults.wait_for(|fault| fault.reset) => (),
                    _ = alive.changed() => (),
                }
            };
            return (Connection { stream, cut: Box::pin(cut), is_cut: false }, peer);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

pub(crate) struct Connection {
    stream: TcpStream,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_cut: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stream.fmt(f)
    }
}

impl Connection {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.is_cut && self.cut.as_mut().poll(cx).is_ready() {
            self.is_cut = true;
            // Closing then sends a reset instead of an orderly end.
            self.stream.set_zero_linger()?;
        }
        if self.is_cut { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
