//! Reads an instance from the API server before anything is deleted on its behalf: the cached version may be older than what
//! was applied for it, or somebody may have changed their mind.

use kross_cluster::StoredObject;
use kross_value::Object;

use super::error::InstanceError;
use super::pass::Pass;

impl Pass<'_> {
    /// Reads the instance, with one request.
    ///
    /// # Errors
    /// [`InstanceError::Outdated`] if it is not the one that this pass works on any more: the next pass begins with what the
    /// API server has. Or the request fails.
    pub(super) async fn check_freshness(&self) -> Result<(), InstanceError> {
        let (kind, known) = (&self.served.kind, &*self.instance);
        let namespace = known.namespace().map(|namespace| &**namespace);
        let live = match self.context.client.get(kind, namespace, known.name()).await {
            Ok(live) => live,
            Err(error) if error.is_object_not_found() => return Err(InstanceError::Outdated),
            Err(error) => return Err(error.into()),
        };
        if live.resource_version() == known.resource_version() {
            return Ok(());
        }
        self.served.instances.observe(&live);
        if is_outdated(known, &live) {
            tracing::debug!(instance = %self.key, "the instance has changed; reconciling it again");
            return Err(InstanceError::Outdated);
        }
        Ok(())
    }
}

/// Whether a live instance differs from the known one in what a graph, or whoever suspends or releases it, may read. The
/// status is ours, or another controller's that changes it all the time.
fn is_outdated(known: &StoredObject, live: &StoredObject) -> bool {
    let metadata = |object: &StoredObject, name| object.value().at(&["metadata", name]).cloned();
    let has_changed = |name| metadata(known, name) != metadata(live, name);
    known.uid() != live.uid()
        || known.generation() != live.generation()
        || known.deletion_timestamp() != live.deletion_timestamp()
        || has_changed("labels")
        || has_changed("annotations")
        // Not every kind has a generation.
        || (live.generation().is_none() && content(known) != content(live))
}

/// An object without its metadata and status.
fn content(object: &StoredObject) -> Object {
    let mut content = object.value().as_object().cloned().unwrap_or_default();
    for field in ["metadata", "status"] {
        content.remove(field);
    }
    content
}
