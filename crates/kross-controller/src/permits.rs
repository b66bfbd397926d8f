//! Who may work at once. A pass that waits for another cluster gives its turn to somebody else meanwhile, so that a cluster
//! that does not answer holds nobody but those who need it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of turns. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Semaphore>);

/// The right to work.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Permits,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count.max(1))))
    }

    /// Waits for a turn.
    pub(crate) async fn take(&self) -> Permit {
        Permit { permits: self.clone(), permit: Mutex::new(self.permit().await) }
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

impl Permit {
    /// Does something that may take long without help of this process, and goes on when it is our turn again.
    pub(crate) async fn away<T>(&self, work: impl Future<Output = T>) -> T {
        drop(self.hold(None));
        let result = work.await;
        let permit = self.permits.permit().await;
        drop(self.hold(permit));
        result
    }

    fn hold(&self, permit: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        std::mem::replace(&mut *self.permit.lock(), permit)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn whoever_is_away_lets_others_work() {
        let permits = Permits::new(1);
        let first = permits.take().await;
        // Were the first not away, the second would never get its turn, and this never end.
        first.away(async { drop(permits.take().await) }).await;
        let second = tokio::time::timeout(Duration::from_millis(20), permits.take()).await;
        assert!(second.is_err(), "the first works again");
        drop(first);
        permits.take().await;
    }
}
