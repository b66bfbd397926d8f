//! Limits how many instances are reconciled at once. A reconcile that awaits another cluster releases its permit meanwhile,
//! so that an unreachable cluster delays only the instances that use it; how many may write to one cluster is limited apart.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use kross_cluster::ClusterId;
use kross_value::Text;
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

/// How many reconciles write with one credential at once. Each has several requests in memory that wait for the cluster.
const WRITERS_PER_CREDENTIAL: usize = 256;

/// A cluster and the credential that is used there.
pub(crate) type WriteCredential = (ClusterId, Text);

/// The permits to write to remote clusters, apart for each credential: a server that somebody else put in front of a cluster may be
/// slow. Instances get them in the order in which they ask, and each asks for one at a time. The lock is a leaf.
#[derive(Debug)]
pub(crate) struct ClusterPermits {
    per_credential: usize,
    credentials: Mutex<HashMap<WriteCredential, Weak<Semaphore>>>,
}

impl Default for ClusterPermits {
    fn default() -> Self {
        Self { per_credential: WRITERS_PER_CREDENTIAL, credentials: Mutex::default() }
    }
}

impl ClusterPermits {
    /// Waits for a permit and then for the writes with a credential. Writes to the hub need none: they hold the permit of their
    /// reconcile.
    pub(crate) async fn write<T>(&self, credential: &WriteCredential, writes: impl Future<Output = T>) -> T {
        if credential.0.is_local() {
            return writes.await;
        }
        let permits = self.permits_of(credential);
        // The semaphore is never closed.
        let _permit = permits.acquire().await;
        writes.await
    }

    fn permits_of(&self, credential: &WriteCredential) -> Arc<Semaphore> {
        let mut credentials = self.credentials.lock();
        if let Some(known) = credentials.get(credential).and_then(Weak::upgrade) {
            return known;
        }
        credentials.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(self.per_credential));
        credentials.insert(credential.clone(), Arc::downgrade(&permits));
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
    async fn a_credential_has_a_number_of_writers_at_once_and_delays_no_other_one() {
        let permits = ClusterPermits { per_credential: 2, credentials: Mutex::default() };
        let [eu, us, other] = [("eu", "one"), ("us", "one"), ("eu", "other")]
            .map(|(cluster, access)| (ClusterId::new(cluster), Text::from(access)));
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
        let local = (ClusterId::local(), Text::from(""));
        for credential in [&us, &other, &local] {
            assert!(permits.write(credential, async {}).now_or_never().is_some());
        }
        release.send_replace(true);
        drop(released.wait_for(|released| *released).await);
        futures::future::join_all(writers).await;
        third.await;
        permits.write(&us, async {}).await;
        assert_eq!(permits.credentials.lock().len(), 1, "credentials that nobody writes with are forgotten");
    }
}
