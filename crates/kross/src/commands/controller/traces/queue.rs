//! Takes spans that have ended, and exports them in batches on a thread of its own. Reconciles never wait for it: spans that do
//! not fit into the queue are dropped and counted.
//!
//! The SDK has such a queue. It does not tell how many spans it drops, and needs an exporter without a runtime.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use kross_controller::SpanCounts;
use opentelemetry::Context;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::runtime::Runtime;

use super::client::Failure;

/// How many spans may wait, some megabytes.
const CAPACITY: usize = 8192;
/// How many spans are sent at once, and how long the first one of a batch waits for others: those of the specification of
/// OpenTelemetry.
const BATCH: usize = 512;
const DELAY: Duration = Duration::from_secs(5);

/// Where spans go when they end.
pub(super) struct SpanQueue {
    sender: SyncSender<Item>,
    counts: SpanCounts,
}

enum Item {
    Span(Box<SpanData>),
    /// Acknowledged when everything before it is exported.
    Flush(SyncSender<()>),
}

impl SpanQueue {
    /// Starts the thread.
    pub(super) fn start(
        exporter: impl SpanExporter + 'static,
        counts: SpanCounts,
        failure: Failure,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, receiver) = sync_channel(CAPACITY);
        let mut worker = Worker { runtime, exporter, counts: counts.clone(), failure, failing: false };
        thread::Builder::new().name("traces".to_owned()).spawn(move || worker.run(&receiver))?;
        Ok(Self { sender, counts })
    }
}

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanQueue").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        match self.sender.try_send(Item::Span(Box::new(span))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.counts.dropped(1),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.shutdown()
    }

    /// Waits for the spans so far. There is nothing to stop: the thread ends with the process.
    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        let (done, exported) = sync_channel(1);
        // A full queue has a collector that does not answer in time: then there is nothing to wait for.
        self.sender.try_send(Item::Flush(done)).map_err(|_| OTelSdkError::Timeout(timeout))?;
        exported.recv_timeout(timeout).map_err(|_| OTelSdkError::Timeout(timeout))
    }
}

/// The thread that exports.
struct Worker<E> {
    runtime: Runtime,
    exporter: E,
    counts: SpanCounts,
    failure: Failure,
    /// Whether the last batch was not accepted.
    failing: bool,
}

impl<E: SpanExporter> Worker<E> {
    /// Runs until the queue is dropped.
    fn run(&mut self, receiver: &Receiver<Item>) {
        while let Ok(item) = receiver.recv() {
            let (batch, flushed) = next_batch(item, receiver);
            if !batch.is_empty() {
                self.export(batch);
            }
            // Whoever flushes may have stopped waiting.
            if let Some(done) = flushed {
                let _ = done.try_send(());
            }
        }
    }

    fn export(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        match self.runtime.block_on(self.exporter.export(batch)) {
            Ok(()) => {
                self.counts.exported(spans);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("exporting traces again");
                }
            }
            Err(error) => {
                self.counts.failed(spans);
                let cause = self.failure.lock().take().unwrap_or_else(|| error.to_string());
                // Once: the next batches will most likely fail as well, and the metric counts them.
                if std::mem::replace(&mut self.failing, true) {
                    tracing::debug!(spans, error = cause, "still cannot export traces");
                } else {
                    tracing::warn!(spans, error = cause, "cannot export traces");
                }
            }
        }
    }
}

/// The next spans to export, and who waits for them.
fn next_batch(first: Item, receiver: &Receiver<Item>) -> (Vec<SpanData>, Option<SyncSender<()>>) {
    let (mut batch, mut next) = (Vec::new(), first);
    let due = Instant::now() + DELAY;
    loop {
        match next {
            Item::Span(span) => batch.push(*span),
            Item::Flush(done) => return (batch, Some(done)),
        }
        if batch.len() >= BATCH {
            return (batch, None);
        }
        next = match receiver.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(item) => item,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return (batch, None),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Condvar, Mutex};

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    /// An exporter that answers only once it is told to.
    #[derive(Clone, Debug, Default)]
    struct Held {
        open: Arc<(Mutex<bool>, Condvar)>,
        batches: Arc<Mutex<Vec<usize>>>,
    }

    impl Held {
        fn open(&self) {
            *self.open.0.lock().unwrap() = true;
            self.open.1.notify_all();
        }
    }

    impl SpanExporter for Held {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            drop(self.open.1.wait_while(self.open.0.lock().unwrap(), |open| !*open).unwrap());
            self.batches.lock().unwrap().push(batch.len());
            Ok(())
        }
    }

    #[test]
    fn spans_never_wait_for_a_collector_that_does_not_answer() {
        let (held, counts) = (Held::default(), SpanCounts::default());
        let queue = SpanQueue::start(held.clone(), counts.clone(), Failure::default()).unwrap();
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        let tracer = provider.tracer("test");
        let (total, started) = (3 * CAPACITY, Instant::now());
        for _ in 0..total {
            drop(tracer.start("span"));
        }
        let took = started.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
        let [exported, dropped, failed] = counts.read();
        // One batch is with the exporter, and as many spans as fit are in the queue.
        assert_eq!((exported, failed), (0, 0));
        assert!(dropped as usize >= total - CAPACITY - BATCH, "{dropped} dropped");
        assert!(provider.force_flush().is_err(), "a full queue is not waited for");

        held.open();
        while provider.force_flush().is_err() {
            thread::yield_now();
        }
        let [exported, dropped, _] = counts.read();
        assert_eq!(exported + dropped, total as u64);
        assert!(held.batches.lock().unwrap().iter().all(|batch| *batch <= BATCH));
    }
}
