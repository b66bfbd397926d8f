//! What one cluster costs all others: the bytes that are cached of it, and its events that wait to be received. Both are
//! bounded, so that a cluster that floods its watches slows down itself alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Events of one cluster that may wait to be received. Its watches are not read while more wait.
const MAX_PENDING: usize = 10_000;
/// The time that one event takes of a cluster's share, and the same for each [`UNIT`] bytes of it.
const EVENT_COST: Duration = Duration::from_micros(500);
const UNIT: usize = 4096;
/// How much of its share a cluster may use at once: 20,000 small events.
const BURST: Duration = Duration::from_secs(10);

/// The load of one cluster, shared by its caches.
#[derive(Debug)]
pub(super) struct ClusterLoad {
    /// The bytes that may be cached; none for no limit.
    max_bytes: Option<usize>,
    /// Whether events beyond the burst wait. Those of the local cluster do not.
    is_paced: bool,
    bytes: AtomicUsize,
    pending: AtomicUsize,
    received: Notify,
    /// When the share that was used so far is over.
    used_until: Mutex<Option<Instant>>,
}

impl ClusterLoad {
    pub(super) fn remote(max_bytes: Option<usize>) -> Arc<Self> {
        Self::new(max_bytes, true)
    }

    /// The load of the local cluster, which has no bounds but that of waiting events.
    pub(super) fn local() -> Arc<Self> {
        Self::new(None, false)
    }

    fn new(max_bytes: Option<usize>, is_paced: bool) -> Arc<Self> {
        Arc::new(Self {
            max_bytes,
            is_paced,
            bytes: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            received: Notify::new(),
            used_until: Mutex::default(),
        })
    }

    /// A cache has grown or shrunk.
    pub(super) fn resize(&self, before: usize, after: usize) {
        if after > before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// The limit, if the caches of the cluster exceed it.
    pub(super) fn exceeded(&self) -> Option<usize> {
        self.max_bytes.filter(|max| self.bytes.load(Ordering::Relaxed) > *max)
    }

    /// Waits until the next event of a watch, of this length, may be read.
    pub(super) async fn admit(&self, length: usize) {
        self.wait_until_received().await;
        if !self.is_paced {
            return;
        }
        if let Some(wait) = self.take(length, Instant::now()) {
            sleep_until(wait).await;
        }
    }

    /// Waits while too many events wait to be received.
    pub(super) async fn wait_until_received(&self) {
        loop {
            let received = self.received.notified();
            tokio::pin!(received);
            received.as_mut().enable();
            if self.pending.load(Ordering::Acquire) < MAX_PENDING {
                return;
            }
            received.await;
        }
    }

    /// Takes the cost of an event. Returns until when to wait if the share is used up.
    fn take(&self, length: usize, now: Instant) -> Option<Instant> {
        let units = u32::try_from(1 + length / UNIT).unwrap_or(u32::MAX);
        let mut used_until = self.used_until.lock();
        let until = used_until.filter(|until| *until > now).unwrap_or(now) + EVENT_COST.saturating_mul(units);
        *used_until = Some(until);
        until.checked_sub(BURST).filter(|wait| *wait > now)
    }
}

/// An event that was not received yet, or is being handled.
#[derive(Debug)]
pub(super) struct PendingEvent(Arc<ClusterLoad>);

impl PendingEvent {
    pub(super) fn new(load: &Arc<ClusterLoad>) -> Self {
        load.pending.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(load))
    }
}

impl Clone for PendingEvent {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for PendingEvent {
    fn drop(&mut self) {
        if self.0.pending.fetch_sub(1, Ordering::AcqRel) <= MAX_PENDING {
            self.0.received.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_beyond_the_burst_are_admitted_at_a_fixed_rate() {
        let load = ClusterLoad::remote(None);
        let began = Instant::now();
        for _ in 0..20_000 {
            load.admit(100).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..4000 {
            load.admit(100).await;
        }
        assert!(began.elapsed() >= Duration::from_millis(1900), "{:?}", began.elapsed());
        // A large event costs more.
        let began = Instant::now();
        load.admit(UNIT * 2000).await;
        assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
        tokio::time::advance(2 * BURST).await;
        let began = Instant::now();
        load.admit(100).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "a quiet cluster gets its burst back");
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_the_local_cluster_are_not_paced() {
        let load = ClusterLoad::local();
        let began = Instant::now();
        for _ in 0..100_000 {
            load.admit(UNIT).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn no_event_is_admitted_while_too_many_wait_to_be_received() {
        let load = ClusterLoad::remote(None);
        let mut pending: Vec<_> = (0..MAX_PENDING).map(|_| PendingEvent::new(&load)).collect();
        let admitted = tokio::time::timeout(Duration::from_secs(60), load.admit(1));
        assert!(admitted.await.is_err());
        let waiting = tokio::spawn({
            let load = Arc::clone(&load);
            async move { load.admit(1).await }
        });
        tokio::task::yield_now().await;
        pending.truncate(MAX_PENDING - 1);
        waiting.await.unwrap();
    }

    #[test]
    fn the_bytes_of_all_caches_of_a_cluster_count() {
        let load = ClusterLoad::remote(Some(100));
        load.resize(0, 60);
        assert_eq!(load.exceeded(), None);
        load.resize(0, 50);
        assert_eq!(load.exceeded(), Some(100));
        load.resize(60, 40);
        assert_eq!(load.exceeded(), None);
    }
}
