//! How many spans of traces were exported, dropped or lost: counted by whoever exports them, read by the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of spans by what became of them. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SpanCounts(Arc<[AtomicU64; 3]>);

impl SpanCounts {
    /// What may become of a span, in the order of [`SpanCounts::read`].
    pub(super) const RESULTS: [&'static str; 3] = ["exported", "dropped", "failed"];

    /// Counts spans that a collector has accepted.
    pub fn exported(&self, spans: usize) {
        self.add(0, spans);
    }

    /// Counts spans that did not fit into the queue.
    pub fn dropped(&self, spans: usize) {
        self.add(1, spans);
    }

    /// Counts spans that could not be sent.
    pub fn failed(&self, spans: usize) {
        self.add(2, spans);
    }

    /// The numbers of exported, dropped and failed spans.
    #[must_use]
    pub fn read(&self) -> [u64; 3] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    fn add(&self, result: usize, spans: usize) {
        if let Some(count) = self.0.get(result) {
            count.fetch_add(u64::try_from(spans).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}
