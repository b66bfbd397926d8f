//! A byte stream that can be stalled or limited in bandwidth at run time. It wraps the TCP stream below TLS, so that clients
//! observe a slow network.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use super::Fault;

/// How often a limited direction gets new budget, and the largest burst as a part of a second's bandwidth.
const TICK: Duration = Duration::from_millis(20);

/// One direction of a stream.
struct Throttle {
    faults: watch::Receiver<Fault>,
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Bytes that may pass. Negative after a read of more than that; nothing passes until it is positive again.
    budget: f64,
    refilled: Instant,
}

impl Throttle {
    fn new(faults: watch::Receiver<Fault>) -> Self {
        Self { faults, wait: None, budget: 0.0, refilled: Instant::now() }
    }

    /// Ready with the number of bytes that may pass now.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(context));
                self.wait = None;
            }
            let fault = *self.faults.borrow();
            match fault {
                Fault::Hang | Fault::Drop => {
                    let mut faults = self.faults.clone();
                    self.wait = Some(Box::pin(async move {
                        // Fails when the proxy is dropped, which closes the connection anyway.
                        let _ = faults.wait_for(|fault| !matches!(fault, Fault::Hang | Fault::Drop)).await;
                    }));
                }
                Fault::Bandwidth(rate) => {
                    let rate = f64::from(rate.max(1));
                    let earned = self.refilled.elapsed().as_secs_f64() * rate;
                    self.refilled = Instant::now();
                    self.budget = (self.budget + earned).min(rate * TICK.as_secs_f64() + 1.0);
                    if self.budget >= 1.0 {
                        #[expect(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "not less than 1"
                        )]
                        return Poll::Ready(self.budget as usize);
                    }
                    self.wait = Some(Box::pin(tokio::time::sleep(TICK)));
                }
                _ => return Poll::Ready(usize::MAX),
            }
        }
    }

    fn passed(&mut self, bytes: usize) {
        if matches!(*self.faults.borrow(), Fault::Bandwidth(_)) {
            #[expect(clippy::cast_precision_loss, reason = "a buffer is far smaller than 2^52 bytes")]
            let bytes = bytes as f64;
            self.budget -= bytes;
        }
    }
}

/// A stream whose two directions are throttled.
pub(super) struct ThrottledStream<S> {
    inner: S,
    reading: Throttle,
    writing: Throttle,
}

impl<S> ThrottledStream<S> {
    pub(super) fn new(inner: S, faults: &watch::Receiver<Fault>) -> Self {
        Self { inner, reading: Throttle::new(faults.clone()), writing: Throttle::new(faults.clone()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ThrottledStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        // The size of a read is not limited: the next one waits until the budget is positive again.
        ready!(self.reading.poll(context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.reading.passed(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ThrottledStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let allowed = ready!(self.writing.poll(context)).min(bytes.len());
        let bytes = bytes.get(..allowed).unwrap_or(bytes);
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.writing.passed(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
