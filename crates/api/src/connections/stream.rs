//! The stream under a connection. It ends a client that sends half a header, sends nothing, or does not read; it gives
//! the answers that the HTTP library makes by itself our body; and it reads on for a moment after the last answer, so
//! that the client sees it.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::error::Code;

/// The longest, and the most, that is read of a client that goes on sending after its last answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_LINGER_BYTES: usize = 4 * 1024 * 1024;

/// How long a client is waited for: for a header, between two calls, and while it takes nothing of its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub header: Duration,
    pub idle: Duration,
    pub write: Duration,
}

/// The phase of a connection, told by whoever answers its calls.
#[derive(Debug)]
pub(super) struct Phase {
    now: AtomicU8,
    /// The connection's task, where it has looked for bytes during a call. The HTTP library does not look again when the
    /// answer has ended, and nothing else would start the idle time.
    during_call: AtomicWaker,
}

const IDLE: u8 = 0;
/// A part of a header has come, or nothing at all yet.
const HEADER: u8 = 1;
/// A call is being answered; how long that may take is the router's rule.
const BUSY: u8 = 2;

impl Default for Phase {
    fn default() -> Self {
        Self { now: AtomicU8::new(HEADER), during_call: AtomicWaker::new() }
    }
}

impl Phase {
    pub(super) fn begin(&self) {
        self.set(BUSY);
    }

    pub(super) fn end(&self) {
        self.set(IDLE);
        self.during_call.wake();
    }

    fn set(&self, phase: u8) {
        self.now.store(phase, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.now.load(Ordering::Relaxed)
    }
}

/// Bytes that a client which is slow to read has to take within the time of a write.
const LEAST_PROGRESS: usize = 16 * 1024;

/// A timer that is made when it is first needed: most calls come in one piece and need none.
#[derive(Debug, Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// The phase it runs for.
    armed: Option<u8>,
}

impl Timer {
    fn poll(&mut self, cx: &mut Context<'_>, armed: u8, limit: Duration) -> Poll<()> {
        let running = self.armed.replace(armed) == Some(armed);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if !running {
            sleep.as_mut().reset(Instant::now() + limit);
        }
        sleep.as_mut().poll(cx)
    }
}

#[derive(Debug)]
pub(super) struct Watched {
    stream: TcpStream,
    phase: Arc<Phase>,
    timeouts: Timeouts,
    reading: Timer,
    writing: Timer,
    /// Not the one of writes: the HTTP library flushes whenever it looks, and that ends a write's time.
    lingering: Timer,
    /// Bytes written since a write stalled.
    written: usize,
    /// The answer that is written in place of one without a body, and how much of it has been.
    instead: Option<(Bytes, usize)>,
    /// How much has been read since the connection was closed for writing.
    lingered: Option<usize>,
}

impl Watched {
    pub(super) fn new(stream: TcpStream, phase: Arc<Phase>, timeouts: Timeouts) -> Self {
        let (reading, writing, lingering) = Default::default();
        Self { stream, phase, timeouts, reading, writing, lingering, written: 0, instead: None, lingered: None }
    }

    /// Notes progress. Whoever reads a few bytes now and then would keep an export, and its place, for ever.
    fn progressed(&mut self, written: &io::Result<usize>) {
        self.written = self.written.saturating_add(*written.as_ref().unwrap_or(&0));
        if self.written >= LEAST_PROGRESS {
            self.writing.armed = None;
        }
    }

    /// The stalled write, ended if it has taken too long.
    fn stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.writing.armed.is_none() {
            self.written = 0;
        }
        ready!(self.writing.poll(cx, BUSY, self.timeouts.write));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }

    /// Writes our refusal in place of the library's, which is done when all of ours is.
    fn poll_instead(&mut self, cx: &mut Context<'_>, length: usize) -> Poll<io::Result<usize>> {
        while let Some((answer, written)) = &mut self.instead {
            let Some(left) = answer.get(*written..).filter(|left| !left.is_empty()) else { break };
            match Pin::new(&mut self.stream).poll_write(cx, left)? {
                Poll::Ready(count) => *written += count,
                Poll::Pending => return self.stalled(cx),
            }
        }
        self.instead = None;
        Poll::Ready(Ok(length))
    }
}

/// Our answer, where these bytes are one that the HTTP library gives by itself: it has no body, and those of our routes
/// always have one.
fn refusal(data: &[u8]) -> Option<Bytes> {
    if !data.starts_with(b"HTTP/1.1 4") || !data.windows(19).any(|part| part == b"content-length: 0\r\n") {
        return None;
    }
    let (code, message) = match data.get(9..12)? {
        b"400" => (Code::InvalidParameters, "this is not an HTTP request that can be read"),
        b"414" => (Code::UriTooLong, "the address of the call is too long"),
        b"431" => (Code::HeadersTooLarge, "the headers are too many or too long"),
        _ => return None,
    };
    let (status, name) = (code.status(), code.as_str());
    let body = format!(r#"{{"message":"{message}","errorCode":"{name}","statusCode":{}}}"#, status.as_u16());
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\naccess-control-allow-origin: *\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    Some((head + &body).into())
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(cx, buf) {
            // The time of a header runs from its first byte, however many follow one by one.
            if this.phase.get() != HEADER {
                this.reading.armed = None;
            }
            if this.phase.get() == IDLE && buf.filled().len() > before {
                this.phase.set(HEADER);
            }
            return Poll::Ready(read);
        }
        let limit = match this.phase.get() {
            HEADER => this.timeouts.header,
            IDLE => this.timeouts.idle,
            _ => {
                this.reading.armed = None;
                this.phase.during_call.register(cx.waker());
                return Poll::Pending;
            }
        };
        ready!(this.reading.poll(cx, this.phase.get(), limit));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.instead.is_none() {
            this.instead = refusal(data).map(|answer| (answer, 0));
        }
        if this.instead.is_some() {
            return this.poll_instead(cx, data.len());
        }
        match Pin::new(&mut this.stream).poll_write(cx, data) {
            Poll::Ready(written) => {
                this.progressed(&written);
                Poll::Ready(written)
            }
            Poll::Pending => this.stalled(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        if self.instead.is_some() || refusal(first).is_some() {
            return self.poll_write(cx, first);
        }
        let this = &mut *self;
        match Pin::new(&mut this.stream).poll_write_vectored(cx, parts) {
            Poll::Ready(written) => {
                this.progressed(&written);
                Poll::Ready(written)
            }
            Poll::Pending => this.stalled(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All that was to be written has been.
        self.writing.armed = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Closing a socket with unread bytes resets the connection, and the client loses an answer it has not read. So our
    /// side is closed first, and what still comes is read and thrown away.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingered.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.lingered = Some(0);
        }
        let mut scratch = [0; 4096];
        while this.lingered.is_some_and(|lingered| lingered < MAX_LINGER_BYTES) {
            let mut read = ReadBuf::new(&mut scratch);
            match Pin::new(&mut this.stream).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    this.lingered = this.lingered.map(|lingered| lingered + read.filled().len());
                }
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(this.lingering.poll(cx, IDLE, LINGER_TIMEOUT));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
