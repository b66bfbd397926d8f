//! Limits the threads on which calls for Secrets wait: name lookups and commands. Such a call cannot be interrupted, so whoever
//! waits for it may give up, but its thread is taken until it returns. Without a limit, host names that never resolve would take
//! every thread of the process, and everything else that needs one would wait.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use kross_value::Text;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::supervisor::{Panicked, Task, catch_blocking};

/// Lookups of the host names of kubeconfigs. A lookup that fails takes up to half a minute.
pub(crate) static NAME_LOOKUPS: LazyLock<BlockingCalls> = LazyLock::new(|| BlockingCalls::new(64, 8));
/// Commands of kubeconfigs, which have a timeout.
pub(crate) static COMMANDS: LazyLock<BlockingCalls> = LazyLock::new(|| BlockingCalls::new(32, 16));

/// Calls of one kind: how many run at once, and how many of them for the Secrets of one namespace.
///
/// # Lock order
///
/// The lock is a leaf.
pub(crate) struct BlockingCalls {
    all: Arc<Semaphore>,
    share: usize,
    /// By the namespace; only those with calls.
    shares: Mutex<HashMap<Text, Weak<Semaphore>>>,
}

impl BlockingCalls {
    fn new(all: usize, share: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), share, shares: Mutex::default() }
    }

    /// Calls a function on a thread of its own as soon as there is room for one of this namespace. The room is taken until the
    /// function returns, even if nobody waits for it any more.
    ///
    /// # Errors
    /// The function panics, or the runtime shuts down.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        namespace: Text,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        // The semaphores are never closed. First its share: calls that wait for that must not hold up others.
        let share = self.share_of(namespace).acquire_owned().await;
        let permits = (share, Arc::clone(&self.all).acquire_owned().await);
        catch_blocking(Task::Cluster, move || {
            let _permits = permits;
            function()
        })
        .await
    }

    fn share_of(&self, namespace: Text) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(&namespace).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share));
        shares.insert(namespace, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use kross_testing::wait::until_true;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn calls_that_nobody_waits_for_keep_their_room_and_other_namespaces_have_theirs() {
        let calls = BlockingCalls::new(5, 2);
        let started = Arc::new(AtomicUsize::new(0));
        let mut ends = Vec::new();
        for namespace in ["tenant", "tenant", "tenant", "tenant", "second", "second"] {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let started = Arc::clone(&started);
            let call = calls.call(namespace.into(), move || {
                started.fetch_add(1, Ordering::SeqCst);
                // Until the end is dropped.
                let _ = ended.recv();
            });
            // It gives up.
            assert!(timeout(Duration::from_millis(10), call).await.is_err());
        }
        until_true("the calls to start", || started.load(Ordering::SeqCst) == 4).await;
        assert_eq!(calls.call("shop".into(), || 1).await, Ok(1));
        assert_eq!(started.load(Ordering::SeqCst), 4, "two of each namespace");
        let more = calls.call("tenant".into(), || 2);
        tokio::pin!(more);
        assert!(timeout(Duration::from_millis(10), &mut more).await.is_err());
        ends.clear();
        assert_eq!(more.await, Ok(2));
        until_true("the calls to end", || calls.all.available_permits() == 5).await;
        assert_eq!(calls.call("last".into(), || 3).await, Ok(3));
        assert_eq!(calls.shares.lock().len(), 1, "namespaces without calls are forgotten");
    }

    #[tokio::test]
    async fn no_more_calls_run_at_once_than_there_is_room_for_all() {
        let calls = BlockingCalls::new(2, 2);
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for namespace in ["a", "b"] {
            let ended = Arc::clone(&ended);
            let call = calls.call(namespace.into(), move || {
                let _ = ended.lock().recv();
            });
            assert!(timeout(Duration::from_millis(10), call).await.is_err());
        }
        let third = calls.call("c".into(), || 3);
        tokio::pin!(third);
        assert!(timeout(Duration::from_millis(10), &mut third).await.is_err());
        drop(end);
        assert_eq!(third.await, Ok(3));
    }
}
