//! Keeps one copy up to date by looking each interval: a list of metadata tells what has changed, and only that is read. No
//! watch is opened.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use kross_api::FailureReason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::metadata::{ObjectVersion, MetadataPage};
use super::reflector::{Reflector, soon};
use super::store::NamespacedName;
use super::sync_policy::Pace;
use crate::audit::AuditVerb;
use crate::client::MOST_PAGES;
use crate::error::ApiError;
use crate::object::StoredObject;
use crate::workqueue::random;

/// Objects that are read at once.
const READS_AT_ONCE: usize = 8;
/// So few changed objects are always read one by one.
const FEW: usize = 8;
/// The status of a server that has no list of metadata.
const NOT_ACCEPTABLE: u16 = 406;

/// What a look at the cluster found.
pub(super) struct Found {
    /// The version of the list.
    pub(super) version: String,
    /// What is there as it was known.
    pub(super) same: Vec<NamespacedName>,
    /// What is new or has changed.
    pub(super) changed: Vec<StoredObject>,
}

/// Polls until there is room for a watch. Gives the version to watch from, and the room.
pub(super) async fn poll(
    reflector: &mut Reflector,
    pace: Pace,
    rooms: Option<Arc<Semaphore>>,
) -> (String, OwnedSemaphorePermit) {
    let mut poller = Poller { reflector, whole: false };
    loop {
        match poller.look().await {
            Ok((started, version)) => {
                poller.reflector.recovered();
                let next = started + pace.next(random());
                if let Some(room) = wait(next, rooms.as_ref()).await {
                    return (version, room);
                }
            }
            // The list took so long that its first pages are history.
            Err(error) if error.is_expired() => poller.reflector.pause(soon()).await,
            Err(error) => poller.reflector.fail(&error).await,
        }
    }
}

/// Waits until a time, or until there is room.
async fn wait(until: Instant, rooms: Option<&Arc<Semaphore>>) -> Option<OwnedSemaphorePermit> {
    let Some(rooms) = rooms else {
        sleep_until(until).await;
        return None;
    };
    tokio::select! {
        room = Arc::clone(rooms).acquire_owned() => room.ok(),
        () = sleep_until(until) => None,
    }
}

struct Poller<'f> {
    reflector: &'f mut Reflector,
    /// Whether this cluster only gives whole lists.
    whole: bool,
}

impl Poller<'_> {
    /// Looks once. Gives when that began and the version of the list.
    async fn look(&mut self) -> Result<(Instant, String), ApiError> {
        let lists = Arc::clone(&self.reflector.lists);
        // Closed never: the registry outlives its watches.
        let _turn = lists.acquire().await;
        let started = Instant::now();
        self.reflector.writer.looking();
        let begun = self.reflector.writer.has_synced();
        let found = if !begun {
            let pending = self.reflector.begin(AuditVerb::List);
            let found = self.everything().await;
            pending.finish(&found);
            found?
        } else if self.whole {
            self.everything().await?
        } else {
            self.differences().await?
        };
        let version = found.version.clone();
        self.reflector.writer.found(found);
        Ok((started, version))
    }

    async fn everything(&self) -> Result<Found, ApiError> {
        let (mut changed, mut version, mut next) = (Vec::new(), None, None);
        for _ in 0..MOST_PAGES {
            let page = self.reflector.page(next.as_deref()).await?;
            changed.extend(page.items);
            let version = version.get_or_insert(page.resource_version);
            next = page.next;
            if next.is_none() {
                return Ok(Found { version: std::mem::take(version), same: Vec::new(), changed });
            }
        }
        Err(self.reflector.endless())
    }

    async fn differences(&mut self) -> Result<Found, ApiError> {
        let (version, listed) = match self.metadata().await {
            Err(error) if error.code() == Some(NOT_ACCEPTABLE) => {
                self.whole = true;
                return self.everything().await;
            }
            listed => listed?,
        };
        let all = listed.len();
        let (same, changed) = self.reflector.writer.compare(listed);
        if changed.len() > FEW && changed.len() > all / 2 {
            return self.everything().await;
        }
        match self.read(changed).await {
            Ok((stale, changed)) => Ok(Found { version, same: [same, stale].concat(), changed }),
            // Whoever may list but not get sees the same.
            Err(error) if error.reason() == FailureReason::Forbidden => {
                self.whole = true;
                self.everything().await
            }
            Err(error) => Err(error),
        }
    }

    async fn metadata(&self) -> Result<(String, Vec<ObjectVersion>), ApiError> {
        let (mut entries, mut version, mut next) = (Vec::new(), None, None);
        for _ in 0..MOST_PAGES {
            let page: MetadataPage = self.reflector.metadata_page(next.as_deref()).await?;
            entries.extend(page.items);
            let version = version.get_or_insert(page.version);
            next = page.next;
            if next.is_none() {
                return Ok((std::mem::take(version), entries));
            }
        }
        Err(self.reflector.endless())
    }

    /// Reads what has changed. What changed its labels since the list was read may belong to it no more: it counts as
    /// unchanged, and the next look tells. What is gone since is left out.
    async fn read(&self, changed: Vec<ObjectVersion>) -> Result<(Vec<NamespacedName>, Vec<StoredObject>), ApiError> {
        let reflector = &*self.reflector;
        let read = stream::iter(changed)
            .map(|entry| async move {
                let object =
                    reflector.client.get(&reflector.kind, entry.namespace.as_deref(), &entry.name).await;
                match object {
                    Ok(object) => Ok(Some((entry, object))),
                    Err(error) if error.is_object_not_found() => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .buffered(READS_AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        let (mut stale, mut objects) = (Vec::new(), Vec::new());
        for (entry, object) in read.into_iter().flatten() {
            if entry.is(&object) || entry.has_labels_of(&object) {
                objects.push(object);
            } else {
                stale.push(entry.namespaced_name());
            }
        }
        Ok((stale, objects))
    }
}
