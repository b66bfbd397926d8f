//! Decides when the objects of a kind are listed again because its schema has changed.
//!
//! The API server reads custom objects from its storage by the schema of their CRD: it removes unknown fields and adds
//! defaults. After a change of the CRD the same version of an object has another content, and no event says so. Until the
//! API server closes the watches of the old schema, about a second later, they even lack the new fields of objects that
//! were written meanwhile.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Objects are listed again after this, if the API server has not closed the watch.
const LIST_AFTER: Duration = Duration::from_secs(3);
/// Other replicas of the API server may be this late: until then a watch that ends is not resumed.
const SETTLED_AFTER: Duration = Duration::from_secs(30);
/// The most lists for one change, should the API server close every watch at once.
const MAX_LISTS: u8 = 3;

/// Whether a cache has to be listed again. Its lock is a leaf.
#[derive(Default)]
pub(super) struct Relist {
    change: Mutex<Option<SchemaChange>>,
    /// Wakes the reflector while it watches.
    changed: Notify,
}

struct SchemaChange {
    at: Instant,
    /// How many lists have begun and ended since.
    lists: u8,
    /// Whether a list has begun since.
    listing: bool,
}

impl SchemaChange {
    /// Whether another list is needed because of it.
    fn needs_list(&self) -> bool {
        self.lists == 0 || (self.lists < MAX_LISTS && self.at.elapsed() < SETTLED_AFTER)
    }
}

impl Relist {
    /// The schema of the kind has changed.
    pub(super) fn schema_changed(&self) {
        *self.change.lock() = Some(SchemaChange { at: Instant::now(), lists: 0, listing: false });
        self.changed.notify_one();
    }

    /// Whether to list instead of to resume a watch that has ended.
    pub(super) fn is_due(&self) -> bool {
        self.change.lock().as_ref().is_some_and(SchemaChange::needs_list)
    }

    /// When to end a watch that the API server does not close, in order to list.
    fn deadline(&self) -> Option<Instant> {
        let change = self.change.lock();
        change.as_ref().filter(|change| change.lists == 0).map(|change| change.at + LIST_AFTER)
    }

    /// Waits until the objects have to be listed again although the API server has not closed the watch.
    pub(super) async fn overdue(&self) {
        loop {
            match self.deadline() {
                Some(deadline) => return sleep_until(deadline).await,
                None => self.changed.notified().await,
            }
        }
    }

    /// A list begins.
    pub(super) fn begin(&self) {
        let mut change = self.change.lock();
        // A list for another reason, much later, must not requeue all instances of the kind.
        change.take_if(|change| !change.needs_list());
        if let Some(change) = change.as_mut() {
            change.listing = true;
        }
    }

    /// A list is complete. Returns whether it has the objects as the changed schema reads them.
    pub(super) fn end(&self) -> bool {
        let mut change = self.change.lock();
        let Some(change) = change.as_mut().filter(|change| change.listing) else { return false };
        change.lists = change.lists.saturating_add(1);
        change.listing = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_causes_a_list_and_a_few_more_while_watches_end() {
        let relist = Relist::default();
        assert!(!relist.is_due() && relist.deadline().is_none());
        relist.begin();
        relist.schema_changed();
        assert!(!relist.end(), "this list began before the change");
        assert!(relist.is_due() && relist.deadline().is_some());
        relist.begin();
        assert!(relist.end());
        assert!(relist.is_due() && relist.deadline().is_none());
        for _ in 1..MAX_LISTS {
            relist.begin();
            assert!(relist.end());
        }
        assert!(!relist.is_due());
        relist.schema_changed();
        relist.begin();
        assert!(relist.end() && relist.is_due());
        tokio::time::advance(SETTLED_AFTER).await;
        assert!(!relist.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn later_lists_are_not_attributed_to_a_change() {
        let relist = Relist::default();
        relist.schema_changed();
        for _ in 0..MAX_LISTS {
            relist.begin();
            assert!(relist.end());
        }
        relist.begin();
        assert!(!relist.end(), "the lists for the change are done");

        relist.schema_changed();
        relist.begin();
        assert!(relist.end());
        relist.begin();
        tokio::time::advance(SETTLED_AFTER).await;
        assert!(relist.end(), "this list began before the API server had settled");
        relist.begin();
        assert!(!relist.end(), "the API server has settled");

        relist.schema_changed();
        tokio::time::advance(SETTLED_AFTER).await;
        relist.begin();
        assert!(relist.end(), "no list had begun since the change");
    }
}
