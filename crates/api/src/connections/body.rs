//! Bodies: that of a call, kept when nobody reads it to its end, and that of an answer, which ends the call.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::stream::Phase;
use crate::json::MAX_BODY;

/// The most of an unread body that is read so that its connection can go on.
const MAX_UNREAD: u64 = 2 * MAX_BODY as u64;
/// The longest that is waited for it.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(2);

/// A body that leaves its unread part to whoever answers.
#[derive(Debug)]
pub(super) struct Kept {
    incoming: Option<Incoming>,
    rest: Rest,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rest(Arc<Mutex<Option<Incoming>>>);

/// The part of a body that nobody read.
#[derive(Debug)]
pub(super) struct Unread(Incoming);

impl Kept {
    pub(super) fn new(incoming: Incoming, rest: Rest) -> Self {
        Self { incoming: Some(incoming), rest }
    }
}

impl Rest {
    pub(super) fn take(self) -> Option<Unread> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(Unread)
    }
}

impl Unread {
    /// Reads it to its end. False if it is too long for that, or too slow.
    pub(super) async fn read(self) -> bool {
        if self.0.size_hint().lower() > MAX_UNREAD {
            return false;
        }
        tokio::time::timeout(UNREAD_TIMEOUT, to_end(self.0)).await.unwrap_or(false)
    }
}

async fn to_end(body: Incoming) -> bool {
    let (mut body, mut left) = (pin!(body), MAX_UNREAD);
    loop {
        match std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(less) = left.checked_sub(length) else { return false };
                left = less;
            }
        }
    }
}

impl Body for Kept {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut self.incoming {
            Some(incoming) => Pin::new(incoming).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take().filter(|incoming| !incoming.is_end_stream()) {
            *self.rest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(incoming);
        }
    }
}

/// The body of an answer. The call is under way until it has been sent, or given up.
#[derive(Debug)]
pub(super) struct Answering {
    body: axum::body::Body,
    phase: Arc<Phase>,
}

impl Answering {
    pub(super) fn new(body: axum::body::Body, phase: Arc<Phase>) -> Self {
        Self { body, phase }
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.phase.end();
    }
}
