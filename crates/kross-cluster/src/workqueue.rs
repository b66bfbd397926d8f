//! The work queue: hands out keys to workers, each key to one worker at a time. A key is never lost: one that failed,
//! or whose worker panicked, is requeued with exponential backoff, which ends early when the key is added again.
//!
//! The model is client-go's rate limiting queue. `kube::runtime::Controller` has no such queue of its own: it counts no
//! failures per key, does not reconcile deleted objects, and has no fairness between kinds.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

mod state;

pub use state::{Backoff, Outcome, QueueKey, QueueStats};

use state::State;

/// A work queue. Clones share it.
///
/// The caller decides how many workers there are: each of them loops over [`WorkQueue::next`].
///
/// ```
/// # use kross_cluster::{Backoff, WorkQueue, QueueKey};
/// #[derive(Clone, PartialEq, Eq, Hash, Debug)]
/// struct Instance(&'static str);
///
/// impl QueueKey for Instance {
///     type Lane = ();
///     fn lane(&self) {}
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let queue = WorkQueue::new(Backoff::default());
/// queue.add(&Instance("shop"));
/// let item = queue.next().await.unwrap();
/// assert_eq!(*item, Instance("shop"));
/// item.done();
/// # });
/// ```
pub struct WorkQueue<K: QueueKey> {
    shared: Arc<Shared<K>>,
}

/// The state of a queue. `inner` is a leaf lock: nothing else is locked while it is held, and it is not held across awaits.
struct Shared<K: QueueKey> {
    inner: Mutex<Inner<K>>,
    /// Wakes one waiting worker.
    work: Notify,
    /// Wakes everyone who waits for the queue to become idle.
    idle: Notify,
}

struct Inner<K: QueueKey> {
    state: State<K>,
    closed: bool,
}

impl<K: QueueKey> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: QueueKey> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        let inner = Inner { state: State::new(backoff, fastrand::Rng::new()), closed: false };
        Self {
            shared: Arc::new(Shared { inner: Mutex::new(inner), work: Notify::new(), idle: Notify::new() }),
        }
    }

    /// Adds a key: it is due now, and its failures are reset.
    pub fn add(&self, key: &K) {
        self.shared.lock().state.add(key, Instant::now());
        self.shared.work.notify_one();
    }

    /// Adds a key that is due after this time, or when it is already due earlier.
    pub fn add_after(&self, key: &K, wait: Duration) {
        let now = Instant::now();
        self.shared.lock().state.add_at(key, now + wait, now);
        self.shared.work.notify_one();
    }

    /// The next key to process, or `None` once the queue is closed. Cancel-safe.
    pub async fn next(&self) -> Option<WorkItem<K>> {
        loop {
            let woken = self.shared.work.notified();
            let due = {
                let mut inner = self.shared.lock();
                if inner.closed {
                    self.shared.work.notify_one();
                    return None;
                }
                if let Some((key, failures)) = inner.state.pop(Instant::now()) {
                    if inner.state.stats().ready > 0 {
                        self.shared.work.notify_one();
                    }
                    return Some(WorkItem { shared: Arc::clone(&self.shared), key: Some(key), failures });
                }
                inner.state.next_due()
            };
            match due {
                Some(due) => tokio::select! {
                    () = woken => {}
                    () = sleep_until(due) => {}
                },
                None => woken.await,
            }
        }
    }

    /// The number of keys in each phase.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.shared.lock().state.stats()
    }

    /// Hands out no more keys. Workers may finish those they have.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        self.shared.idle.notify_waiters();
    }

    /// Returns when no key is being processed. Call [`WorkQueue::close`] first, or it may never return.
    pub async fn idle(&self) {
        loop {
            let changed = self.shared.idle.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.stats().active == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl<K: QueueKey> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock()
    }

    fn finish(&self, key: &K, outcome: Outcome) {
        self.lock().state.finish(key, outcome, Instant::now());
        self.work.notify_one();
        self.idle.notify_waiters();
    }
}

/// A key that is being processed; no other worker gets it meanwhile. Dropping it without an outcome, as a panic does,
/// counts as a failure.
pub struct WorkItem<K: QueueKey> {
    shared: Arc<Shared<K>>,
    key: Option<K>,
    failures: u32,
}

impl<K: QueueKey> WorkItem<K> {
    /// How often in a row this key failed before.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Nothing is left to do until the key is added again.
    pub fn done(self) {
        self.finish(Outcome::Done);
    }

    /// Processing failed: the key is requeued with exponential backoff.
    pub fn retry(self) {
        self.finish(Outcome::Retry);
    }

    /// The key is requeued after this time.
    pub fn requeue_after(self, wait: Duration) {
        self.finish(Outcome::After(wait));
    }

    /// Ends processing.
    pub fn finish(mut self, outcome: Outcome) {
        if let Some(key) = self.key.take() {
            self.shared.finish(&key, outcome);
        }
    }
}

impl<K: QueueKey> Deref for WorkItem<K> {
    type Target = K;

    #[expect(clippy::expect_used, reason = "the key is taken only by methods that consume the item")]
    fn deref(&self) -> &K {
        self.key.as_ref().expect("an item has its key until it is finished")
    }
}

impl<K: QueueKey> Drop for WorkItem<K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.shared.finish(&key, Outcome::Retry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Key(u32);

    impl QueueKey for Key {
        type Lane = ();

        fn lane(&self) {}
    }

    fn queue() -> WorkQueue<Key> {
        WorkQueue::new(Backoff::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_key_is_handed_out_when_it_is_due() {
        let queue = queue();
        let started = Instant::now();
        queue.add_after(&Key(1), Duration::from_secs(30));
        queue.next().await.unwrap().done();
        assert_eq!(started.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_wakes_for_a_key_that_is_due_earlier() {
        let queue = queue();
        queue.add_after(&Key(1), Duration::from_secs(60));
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await.map(|item| item.0) }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let started = Instant::now();
        queue.add_after(&Key(2), Duration::from_secs(2));
        assert_eq!(waiting.await.unwrap(), Some(2));
        assert_eq!(started.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_worker_panics_is_requeued() {
        let queue = queue();
        queue.add(&Key(1));
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move {
                let _item = queue.next().await;
                panic!("the worker fails");
            }
        });
        assert!(worker.await.is_err());
        let item = queue.next().await.unwrap();
        assert_eq!((item.0, item.failures()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_workers_never_process_the_same_key() {
        let queue = queue();
        let active = Arc::new(Mutex::new(HashSet::new()));
        let mut seen = Vec::new();
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let (queue, active) = (queue.clone(), Arc::clone(&active));
                tokio::spawn(async move {
                    let mut mine = Vec::new();
                    while let Some(item) = queue.next().await {
                        assert!(active.lock().insert(item.0));
                        tokio::time::sleep(Duration::from_millis(u64::from(item.0 % 7))).await;
                        active.lock().remove(&item.0);
                        mine.push(item.0);
                        if item.failures() == 0 && item.0 % 3 == 0 { item.retry() } else { item.done() }
                    }
                    mine
                })
            })
            .collect();
        for round in 0..3 {
            (0..100).for_each(|key| queue.add(&Key(key)));
            tokio::time::sleep(Duration::from_millis(round * 20)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        queue.close();
        queue.idle().await;
        for worker in workers {
            seen.extend(worker.await.unwrap());
        }
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 100);
        assert_eq!(queue.stats(), QueueStats::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_lets_workers_finish() {
        let queue = queue();
        queue.add(&Key(1));
        let item = queue.next().await.unwrap();
        queue.close();
        assert!(queue.next().await.is_none());
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.idle().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        item.done();
        waiting.await.unwrap();
    }
}
