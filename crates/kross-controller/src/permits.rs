//! Limits how many instances are reconciled at once. A reconcile that awaits another cluster releases its permit meanwhile,
//! so that an unreachable cluster delays only the instances that use it.

use std::sync::Arc;

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
