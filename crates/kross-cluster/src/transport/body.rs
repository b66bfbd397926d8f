//! The body of a response: holds its stream until it is read completely or dropped, and fails when its deadline has
//! passed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::TransportError;
use super::pool::Stream;
use super::stats::Counters;

/// The body of a response.
pub struct ResponseBody {
    incoming: Incoming,
    started: Instant,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Ends the body early, for example because the circuit breaker opens.
    end: Option<BoxFuture<'static, TransportError>>,
    counters: Arc<Counters>,
    _stream: Stream,
    _permit: OwnedSemaphorePermit,
    /// Released with the body.
    held: Option<Box<dyn Send>>,
}

impl ResponseBody {
    pub(super) fn new(
        incoming: Incoming,
        stream: Stream,
        permit: OwnedSemaphorePermit,
        deadline: Option<Instant>,
        counters: Arc<Counters>,
    ) -> Self {
        let deadline = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
        Self {
            incoming,
            started: Instant::now(),
            deadline,
            end: None,
            counters,
            _stream: stream,
            _permit: permit,
            held: None,
        }
    }

    /// Keeps something until the body is dropped.
    pub(crate) fn holding(mut self, held: Option<impl Send + 'static>) -> Self {
        self.held = held.map(|held| Box::new(held) as Box<dyn Send>);
        self
    }

    /// Ends the body with the error of `end` when that resolves.
    pub(crate) fn until(mut self, end: impl Future<Output = TransportError> + Send + 'static) -> Self {
        self.end = Some(Box::pin(end));
        self
    }

    /// The next chunk, or `None` at the end.
    ///
    /// # Errors
    /// The connection broke, or the deadline has passed.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        loop {
            match self.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The next chunk, if it arrives within this time.
    async fn chunk_within(&mut self, read_timeout: Duration) -> Result<Option<Bytes>, TransportError> {
        match timeout(read_timeout, self.chunk()).await {
            Ok(chunk) => chunk,
            Err(_) => Err(TransportError::Timeout { after: read_timeout }),
        }
    }

    /// The whole body, if it is not larger than `limit` and the server never sends nothing for longer than
    /// `read_timeout`.
    ///
    /// # Errors
    /// The connection broke, a timeout has passed, or the body is too large.
    pub async fn read_all(mut self, limit: usize, read_timeout: Duration) -> Result<Bytes, TransportError> {
        let Some(first) = self.chunk_within(read_timeout).await? else { return Ok(Bytes::new()) };
        let mut whole = BytesMut::new();
        let mut last = first;
        loop {
            if whole.len() + last.len() > limit {
                return Err(TransportError::TooLarge { limit });
            }
            match self.chunk_within(read_timeout).await? {
                None if whole.is_empty() => return Ok(last),
                None => {
                    whole.extend_from_slice(&last);
                    return Ok(whole.freeze());
                }
                Some(next) => {
                    whole.extend_from_slice(&last);
                    last = next;
                }
            }
        }
    }

    /// How long ago the response began.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                self.counters.received(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(TransportError::broken(&error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                if let Some(end) = &mut self.end
                    && let Poll::Ready(error) = end.as_mut().poll(context)
                {
                    self.end = None;
                    return Poll::Ready(Some(Err(error)));
                }
                let after = self.started.elapsed();
                match &mut self.deadline {
                    Some(deadline) => {
                        deadline.as_mut().poll(context).map(|()| Some(Err(TransportError::Timeout { after })))
                    }
                    None => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
