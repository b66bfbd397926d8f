//! Limits how many instances are reconciled at once. A reconcile that awaits another cluster releases its permit meanwhile,
//! so that an unreachable cluster delays only the instances that use it; how many may write to one cluster is limited apart.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use kross_cluster::ClusterId;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of permits. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Semaphore>);

/// The permit to run a reconcile.
///
/// # Lock order
///
/// The lock is a leaf.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Permits,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count.max(1))))
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self) -> Permit {
        Permit { permits: self.clone(), permit: Mutex::new(self.permit().await) }
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

impl Permit {
    /// Awaits something without the permit, and acquires it again before it returns.
    pub(crate) async fn release_during<T>(&self, work: impl Future<Output = T>) -> T {
        drop(self.replace(None));
        let result = work.await;
        let permit = self.permits.permit().await;
        drop(self.replace(permit));
        result
    }

    fn replace(&self, permit: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        std::mem::replace(&mut *self.permit.lock(), permit)
    }
}

/// How many reconciles write to one remote cluster at once. Each has several requests in memory that wait for the cluster.
const WRITERS_PER_CLUSTER: usize = 256;

/// The permits to write to remote clusters, apart for each of them. Instances get them in the order in which they ask, and
/// each asks for one at a time. The lock is a leaf.
#[derive(Debug)]
pub(crate) struct ClusterPermits {
    per_cluster: usize,
    clusters: Mutex<HashMap<ClusterId, Weak<Semaphore>>>,
}

impl Default for ClusterPermits {
    fn default() -> Self {
        Self { per_cluster: WRITERS_PER_CLUSTER, clusters: Mutex::default() }
    }
}

impl ClusterPermits {
    /// Waits for a permit and then for the writes to a cluster. Writes to the hub need none: they hold the permit of their
    /// reconcile.
    pub(crate) async fn write<T>(&self, cluster: &ClusterId, writes: impl Future<Output = T>) -> T {
        if cluster.is_local() {
            return writes.await;
        }
        let permits = self.permits_of(cluster);
        // The semaphore is never closed.
        let _permit = permits.acquire().await;
        writes.await
    }

    fn permits_of(&self, cluster: &ClusterId) -> Arc<Semaphore> {
        let mut clusters = self.clusters.lock();
        if let Some(known) = clusters.get(cluster).and_then(Weak::upgrade) {
            return known;
        }
        clusters.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(self.per_cluster));
        clusters.insert(cluster.clone(), Arc::downgrade(&permits));
        permits
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_released_permit_can_be_acquired_by_others() {
        let permits = Permits::new(1);
        let first = permits.acquire().await;
        // This returns only if the first permit is released meanwhile.
        first.release_during(async { drop(permits.acquire().await) }).await;
        let second = tokio::time::timeout(Duration::from_millis(20), permits.acquire()).await;
        assert!(second.is_err(), "the first permit is held again");
        drop(first);
        permits.acquire().await;
    }

    #[tokio::test]
    async fn a_cluster_has_a_number_of_writers_at_once_and_delays_no_other_cluster() {
        let permits = ClusterPermits { per_cluster: 2, clusters: Mutex::default() };
        let (eu, us) = (ClusterId::new("eu"), ClusterId::new("us"));
        let (release, mut released) = tokio::sync::watch::channel(false);
        let slow = |mut released: tokio::sync::watch::Receiver<bool>| async move {
            drop(released.wait_for(|released| *released).await);
        };
        let mut writers: Vec<_> =
            (0..2).map(|_| Box::pin(permits.write(&eu, slow(released.clone())))).collect();
        for writer in &mut writers {
            assert!(writer.now_or_never().is_none());
        }
        let mut third = Box::pin(permits.write(&eu, async {}));
        assert!((&mut third).now_or_never().is_none(), "both permits are in use");
        assert!(permits.write(&us, async {}).now_or_never().is_some());
        assert!(permits.write(&ClusterId::local(), async {}).now_or_never().is_some());
        release.send_replace(true);
        drop(released.wait_for(|released| *released).await);
        futures::future::join_all(writers).await;
        third.await;
        permits.write(&us, async {}).await;
        assert_eq!(permits.clusters.lock().len(), 1, "clusters that nobody writes to are forgotten");
    }
}
