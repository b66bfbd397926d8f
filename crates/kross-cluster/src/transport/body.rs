//! The body of an answer: holds its stream until it is read or dropped, and ends when its time is up.

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

/// The body of an answer.
pub struct ResponseBody {
    incoming: Incoming,
    started: Instant,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Ends it early, for instance since the cluster was lost.
    end: Option<BoxFuture<'static, TransportError>>,
    counters: Arc<Counters>,
    _stream: Stream,
    _permit: OwnedSemaphorePermit,
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
        }
    }

    /// Ends the body when `end` is done, with its error.
    pub(crate) fn until(mut self, end: impl Future<Output = TransportError> + Send + 'static) -> Self {
        self.end = Some(Box::pin(end));
        self
    }

    /// The next piece, or nothing at the end.
    ///
    /// # Errors
    /// The connection broke, or the time is up.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, TransportError> {
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

    /// The next piece, if it comes within this time.
    async fn piece_within(&mut self, silence: Duration) -> Result<Option<Bytes>, TransportError> {
        match timeout(silence, self.piece()).await {
            Ok(piece) => piece,
            Err(_) => Err(TransportError::Timeout { after: silence }),
        }
    }

    /// All of it, if it is not more than `limit` and the server is never silent for longer than `silence`.
    ///
    /// # Errors
    /// The connection broke, the time is up, or it is too large.
    pub async fn all(mut self, limit: usize, silence: Duration) -> Result<Bytes, TransportError> {
        let Some(first) = self.piece_within(silence).await? else { return Ok(Bytes::new()) };
        let mut whole = BytesMut::new();
        let mut last = first;
        loop {
            if whole.len() + last.len() > limit {
                return Err(TransportError::TooLarge { limit });
            }
            match self.piece_within(silence).await? {
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

    /// How long ago the answer began.
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
