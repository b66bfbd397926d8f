//! Keeps a cache in sync by polling: a metadata list shows which objects have changed, and only those are read. No
//! watch is opened.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use kross_api::FailureReason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::metadata::{MetadataPage, ObjectVersion};
use super::reflector::Reflector;
use super::store::{NamespacedName, Store};
use super::sync_policy::PollInterval;
use crate::audit::AuditVerb;
use crate::client::PageSize;
use crate::error::ApiError;
use crate::object::StoredObject;

/// Objects that are read at once.
const CONCURRENT_READS: usize = 8;
/// Up to this many changed objects are always read one by one.
const ALWAYS_READ_ONE_BY_ONE: usize = 8;
/// The status code of a server that does not support metadata lists.
const NOT_ACCEPTABLE: u16 = 406;

/// The result of a poll.
pub(super) struct PollResult {
    /// The resource version of the list.
    pub(super) version: String,
    /// Objects that are cached in the same version.
    pub(super) unchanged: Vec<NamespacedName>,
    /// Objects that were added or changed.
    pub(super) changed: Vec<StoredObject>,
    /// How many objects were left out because not even their names can be read.
    pub(super) dropped: usize,
}

/// Polls until the budget has a permit for a watch. Returns the resource version to watch from, and the permit.
pub(super) async fn poll(
    reflector: &mut Reflector,
    interval: PollInterval,
    permits: Option<Arc<Semaphore>>,
) -> (String, OwnedSemaphorePermit) {
    let mut poller = Poller { reflector, full_lists: false };
    loop {
        match poller.poll_once().await {
            Ok((started, version)) => {
                poller.reflector.recovered();
                let next = started + interval.next(fastrand::f64());
                if let Some(permit) = wait(next, permits.as_ref()).await {
                    return (version, permit);
                }
            }
            // The list took so long that the API server has compacted the version of its first pages.
            Err(error) if error.is_expired() => {
                poller.reflector.pause_interrupted(interval.next(1.0)).await;
            }
            Err(error) => poller.reflector.back_off(&error).await,
        }
    }
}

/// Waits until the given time, or until there is a permit for a watch.
async fn wait(until: Instant, permits: Option<&Arc<Semaphore>>) -> Option<OwnedSemaphorePermit> {
    let Some(permits) = permits else {
        sleep_until(until).await;
        return None;
    };
    tokio::select! {
        permit = Arc::clone(permits).acquire_owned() => permit.ok(),
        () = sleep_until(until) => None,
    }
}

struct Poller<'f> {
    reflector: &'f mut Reflector,
    /// Whether this cluster is polled with full lists.
    full_lists: bool,
}

impl Poller<'_> {
    /// Polls once. Returns when the poll began, and the resource version of the list.
    async fn poll_once(&mut self) -> Result<(Instant, String), ApiError> {
        let lists = Arc::clone(&self.reflector.lists);
        // The semaphore is never closed.
        let _permit = lists.acquire().await;
        let started = Instant::now();
        self.reflector.writer.begin_poll();
        let synced = self.reflector.writer.read(Store::has_synced);
        let result = if !synced {
            let pending = self.reflector.begin_audit(AuditVerb::List);
            let result = self.list_all().await;
            pending.finish(&result);
            result?
        } else if self.full_lists || self.reflector.writer.relist().is_due() {
            self.list_all().await?
        } else {
            self.list_changed().await?
        };
        let version = result.version.clone();
        self.reflector.writer.load().wait_until_received().await;
        self.reflector.writer.polled(result);
        self.reflector.check_load()?;
        Ok((started, version))
    }

    async fn list_all(&self) -> Result<PollResult, ApiError> {
        let (mut changed, mut version, mut next, mut dropped) = (Vec::new(), None, None, 0);
        let mut size = PageSize::of(&self.reflector.kind);
        let mut progress = self.reflector.client.list_progress();
        loop {
            let page = self.reflector.page(next.as_deref(), &mut size, &mut progress).await?;
            changed.extend(page.items);
            dropped += page.dropped;
            let version = version.get_or_insert(page.resource_version);
            next = page.next;
            if next.is_none() {
                let version = std::mem::take(version);
                return Ok(PollResult { version, unchanged: Vec::new(), changed, dropped });
            }
        }
    }

    async fn list_changed(&mut self) -> Result<PollResult, ApiError> {
        let MetadataPage { version, items: listed, dropped, .. } = match self.metadata().await {
            Err(error) if error.code() == Some(NOT_ACCEPTABLE) => {
                self.full_lists = true;
                return self.list_all().await;
            }
            listed => listed?,
        };
        if self.reflector.writer.read(|store| store.is_rollback(version.parse().ok())) {
            // The same version may have another content.
            return self.list_all().await;
        }
        let all = listed.len();
        let (unchanged, changed) = self.reflector.writer.compare(listed);
        if changed.len() > ALWAYS_READ_ONE_BY_ONE && changed.len() > all / 2 {
            return self.list_all().await;
        }
        match self.read(changed).await {
            Ok((stale, changed)) => {
                Ok(PollResult { version, unchanged: [unchanged, stale].concat(), changed, dropped })
            }
            // A credential that may list but not get can read the same objects with a full list.
            Err(error) if error.reason() == FailureReason::Forbidden => {
                self.full_lists = true;
                self.list_all().await
            }
            Err(error) => Err(error),
        }
    }

    /// All pages of the metadata list, as one.
    async fn metadata(&self) -> Result<MetadataPage, ApiError> {
        let mut size = PageSize::of(&self.reflector.kind);
        let mut progress = self.reflector.client.list_progress();
        let mut all = self.reflector.metadata_page(None, &mut size, &mut progress).await?;
        loop {
            let Some(next) = all.next.take() else { return Ok(all) };
            let page = self.reflector.metadata_page(Some(&next), &mut size, &mut progress).await?;
            all.items.extend(page.items);
            all.dropped += page.dropped;
            all.next = page.next;
        }
    }

    /// Reads the changed objects. One whose labels changed since the list was taken may no longer match the selector:
    /// it counts as unchanged until the next poll. One that was deleted since is left out.
    async fn read(
        &self,
        changed: Vec<ObjectVersion>,
    ) -> Result<(Vec<NamespacedName>, Vec<StoredObject>), ApiError> {
        let reflector = &*self.reflector;
        let read = stream::iter(changed)
            .map(|listed| async move {
                let (client, namespace) = (&reflector.client, listed.namespace.as_deref());
                match client.get_or_outline(&reflector.kind, namespace, &listed.name).await {
                    Ok(object) => Ok(Some((listed, object))),
                    Err(error) if error.is_object_not_found() => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .buffered(CONCURRENT_READS)
            .try_collect::<Vec<_>>()
            .await?;
        let (mut stale, mut objects) = (Vec::new(), Vec::new());
        for (listed, object) in read.into_iter().flatten() {
            if listed.is(&object) || listed.has_labels_of(&object) {
                objects.push(object);
            } else {
                stale.push(listed.namespaced_name());
            }
        }
        Ok((stale, objects))
    }
}
