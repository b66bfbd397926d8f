//! Turns a connection into one that can be held up at run time: nothing passes while it hangs, and only so much per second
//! under a bandwidth limit. Everything above it, TLS included, takes it for a slow network.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use super::Fault;

/// How often a held-up direction looks whether it may go on, and how much of a second's bandwidth goes out in one piece.
const TICK: Duration = Duration::from_millis(20);

/// One direction of a connection.
struct Valve {
    faults: watch::Receiver<Fault>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Bytes that may pass; what passes beyond is paid back before more does.
    balance: f64,
    counted: Instant,
}

impl Valve {
    fn new(faults: watch::Receiver<Fault>) -> Self {
        Self { faults, waiting: None, balance: 0.0, counted: Instant::now() }
    }

    /// Ready with how many bytes may pass now.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            let fault = *self.faults.borrow();
            match fault {
                Fault::Hang | Fault::Drop => {
                    let mut faults = self.faults.clone();
                    self.waiting = Some(Box::pin(async move {
                        // The proxy that is gone closes the connection anyway.
                        let _ = faults.wait_for(|fault| !matches!(fault, Fault::Hang | Fault::Drop)).await;
                    }));
                }
                Fault::Bandwidth(rate) => {
                    let rate = f64::from(rate.max(1));
                    let earned = self.counted.elapsed().as_secs_f64() * rate;
                    self.counted = Instant::now();
                    self.balance = (self.balance + earned).min(rate * TICK.as_secs_f64() + 1.0);
                    if self.balance >= 1.0 {
                        #[expect(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "at least 1"
                        )]
                        return Poll::Ready(self.balance as usize);
                    }
                    self.waiting = Some(Box::pin(tokio::time::sleep(TICK)));
                }
                _ => return Poll::Ready(usize::MAX),
            }
        }
    }

    fn passed(&mut self, bytes: usize) {
        if matches!(*self.faults.borrow(), Fault::Bandwidth(_)) {
            #[expect(clippy::cast_precision_loss, reason = "a buffer is far smaller than 2^52 bytes")]
            let bytes = bytes as f64;
            self.balance -= bytes;
        }
    }
}

/// A connection whose two directions can be held up.
pub(super) struct Gate<S> {
    inner: S,
    reading: Valve,
    writing: Valve,
}

impl<S> Gate<S> {
    pub(super) fn new(inner: S, faults: &watch::Receiver<Fault>) -> Self {
        Self { inner, reading: Valve::new(faults.clone()), writing: Valve::new(faults.clone()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gate<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        // A read takes what is there, and the next one waits until that is paid for.
        ready!(self.reading.poll(context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.reading.passed(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gate<S> {
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
