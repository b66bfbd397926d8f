//! Objects that are being deleted: whether an event will tell the instance when they are gone. Events are routed by the labels of
//! the object, which others may have changed or removed meanwhile, and which are not repaired on an object that is being deleted.

use std::sync::Arc;
use std::time::Duration;

use kross_api::labels;
use kross_cluster::{Cache, Lookup, ObjectKey, Selection, StoredObject};
use kross_value::Text;

use super::pass::Pass;
use super::reconcile::instance_of;

/// How often an instance is reconciled that waits for something of which no event tells, if no interval is set.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

impl Pass<'_> {
    /// Whether an event will requeue the instance when an object was deleted: its kind is watched, and the cache has the object
    /// with labels that lead to the instance.
    pub(super) fn will_report_deletion(&self, key: &ObjectKey, uid: &Text) -> bool {
        let cache = self.clients.cache_of(&key.cluster, &key.group, &key.kind);
        cache.is_some_and(|cache| {
            cache.key().selection == Selection::Managed
                && cache.will_report_deletion_of(key.namespace.as_deref(), &key.name, uid)
                && cached(cache, key).is_some_and(|object| instance_of(&object).as_ref() == Some(self.key))
        })
    }

    /// How often the instance is reconciled while it waits for something of which no event tells.
    pub(super) fn interval(&self) -> Duration {
        self.context.settings.instance_interval.unwrap_or(DEFAULT_INTERVAL)
    }

    /// Requeues the instance if one of its objects is being deleted and no event will tell when that is done.
    pub(super) fn requeue_for_deletions(&self) {
        let uid = self.instance.uid();
        let is_awaited = |(key, object): &(&ObjectKey, &Arc<StoredObject>)| {
            object.deletion_timestamp().is_some()
                && object.label(labels::INSTANCE_ID) == Some(uid.as_str())
                && self.clients.client(&key.cluster).is_ok()
        };
        let mut awaited = self.observation.stored.iter().filter(is_awaited);
        if awaited.any(|(key, object)| !self.will_report_deletion(key, object.uid())) {
            self.requeue_after(self.interval());
        }
    }
}

/// An object as a cache has it; an outline of one that cannot be read, with its metadata.
pub(super) fn cached(cache: &Cache, key: &ObjectKey) -> Option<Arc<StoredObject>> {
    let (namespace, name) = (key.namespace.as_deref(), &key.name);
    match cache.get(namespace, name) {
        Lookup::Found(object) => Some(object),
        Lookup::Absent => None,
        Lookup::Unknown => cache.unreadable(namespace, name),
    }
}
