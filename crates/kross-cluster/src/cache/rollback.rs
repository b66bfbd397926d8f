//! Notices that the storage of a cluster was restored from an older state.
//!
//! The API server tells nobody: it accepts a watch from a resource version that is in its future, and then withholds every
//! event until its own versions have caught up. So after each interruption of a watch, which a restore always causes, the
//! reflector asks for the version of the list and for the newest object that it knows, in one small request. A watch that
//! ends when its time is over is resumed without that.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Change;
use super::metadata::{MetadataPage, ObjectVersion};
use super::reflector::Reflector;
use super::store::Store;
use crate::client::PageSize;
use crate::error::ApiError;
use crate::object::StoredObject;

/// A watch that ends this much earlier or later than requested was interrupted.
const TOLERANCE: Duration = Duration::from_secs(5);
/// How soon an open watch reports what happened before.
const REPORTED_WITHIN: Duration = Duration::from_secs(10);
/// The status code of a server that does not support metadata lists.
const NOT_ACCEPTABLE: u16 = 406;

/// Whether a watch ended before or after the time that was requested.
pub(super) fn is_interruption(requested: Duration, elapsed: Duration) -> bool {
    elapsed.abs_diff(requested) > TOLERANCE
}

/// What a cache knows about the versions of its objects.
#[derive(Debug)]
struct Known {
    /// Everything up to this resource version is known.
    progress: u64,
    /// The highest resource version that was seen.
    highest: u64,
    /// The object that changed last.
    newest: Option<Arc<StoredObject>>,
}

/// What a list says about what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It continues the same history.
    Consistent,
    /// It lacks the newest object: that was deleted, or the list is of a state before it.
    Doubtful,
    /// It is of another history.
    RolledBack,
}

impl Known {
    fn of(store: &Store) -> Self {
        Self { progress: store.progress(), highest: store.highest(), newest: store.newest().cloned() }
    }

    /// Compares a list with what is known. It has the newest object, if that exists.
    fn compare(&self, page: &MetadataPage) -> Verdict {
        if page.version.parse::<u64>().is_ok_and(|version| version < self.highest) {
            return Verdict::RolledBack;
        }
        let Some(newest) = &self.newest else { return Verdict::Consistent };
        let is_newest = |listed: &&ObjectVersion| {
            *listed.name == **newest.name()
                && listed.namespace.as_deref() == newest.namespace().map(|name| &**name)
        };
        match page.items.iter().find(is_newest) {
            Some(listed) if listed.is(newest) => Verdict::Consistent,
            Some(listed) => match listed.resource_version.parse::<u64>() {
                // A version that is not newer than all that is known would be known.
                Ok(version) if version <= self.progress => Verdict::RolledBack,
                _ => Verdict::Consistent,
            },
            None => Verdict::Doubtful,
        }
    }
}

/// An object that the API server does not have any more. In the same history a watch reports its deletion at once.
#[derive(Debug)]
pub(super) struct MissingObject {
    object: Arc<StoredObject>,
    /// When its deletion should have been reported.
    until: Instant,
}

impl Reflector {
    /// Whether the objects have to be listed again, because the cluster was restored from an older state.
    ///
    /// # Errors
    /// The request fails.
    pub(super) async fn has_rolled_back(&mut self) -> Result<bool, ApiError> {
        let known = self.writer.read(Known::of);
        let page = match &known.newest {
            Some(newest) => self.metadata_of(newest).await,
            None => {
                let mut progress = self.client.list_progress();
                self.metadata_page(None, &mut PageSize::ONE.clone(), &mut progress).await
            }
        };
        let page = match page {
            Err(error) if error.code() == Some(NOT_ACCEPTABLE) => return Ok(false),
            page => page?,
        };
        let verdict = known.compare(&page);
        let missing = known.newest.filter(|_| verdict == Verdict::Doubtful);
        let until = Instant::now() + REPORTED_WITHIN;
        self.missing_object = missing.map(|object| MissingObject { object, until });
        if verdict == Verdict::RolledBack {
            self.roll_back();
        }
        Ok(verdict == Verdict::RolledBack)
    }

    /// Waits until a watch should have reported the deletion of an object, and has not.
    pub(super) async fn unreported_deletion(&self) {
        let Some(MissingObject { object, until }) = &self.missing_object else {
            return std::future::pending().await;
        };
        sleep_until(*until).await;
        let is_cached = |store: &Store| {
            let namespace = object.namespace().map(|namespace| &**namespace);
            store.get(namespace, object.name()).is_some_and(|cached| Arc::ptr_eq(cached, object))
        };
        if !self.writer.read(is_cached) {
            std::future::pending::<()>().await;
        }
    }

    /// The next list is right about everything.
    pub(super) fn roll_back(&self) {
        self.writer.change(|store| {
            store.roll_back();
            None::<Change>
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::read_object;

    fn known(progress: u64, highest: u64, newest: Option<u64>) -> Known {
        let object = |version: u64| {
            let json = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "a", "namespace": "shop", "uid": "1", "resourceVersion": version.to_string()}});
            Arc::new(read_object(json.to_string().as_bytes()).unwrap())
        };
        Known { progress, highest, newest: newest.map(object) }
    }

    fn page(version: &str, listed: Option<(&str, u64)>) -> MetadataPage {
        let items: Vec<_> = listed
            .iter()
            .map(|(uid, version)| {
                serde_json::json!({"metadata": {"name": "a", "namespace": "shop", "uid": uid,
                    "resourceVersion": version.to_string()}})
            })
            .collect();
        let json = serde_json::json!({"metadata": {"resourceVersion": version}, "items": items});
        MetadataPage::read(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_older_list_is_a_rollback() {
        let known = known(10, 12, None);
        assert_eq!(known.compare(&page("11", None)), Verdict::RolledBack);
        assert_eq!(known.compare(&page("12", None)), Verdict::Consistent);
        assert_eq!(known.compare(&page("none", None)), Verdict::Consistent, "not comparable");
    }

    #[test]
    fn an_older_or_unknown_version_of_the_newest_object_is_a_rollback_although_the_list_is_newer() {
        let known = known(10, 10, Some(8));
        for (listed, verdict) in [
            (Some(("1", 8)), Verdict::Consistent),
            (Some(("1", 20)), Verdict::Consistent),
            (Some(("1", 5)), Verdict::RolledBack),
            (Some(("1", 9)), Verdict::RolledBack),
            (Some(("2", 8)), Verdict::RolledBack),
            (Some(("2", 20)), Verdict::Consistent),
            (None, Verdict::Doubtful),
        ] {
            assert_eq!(known.compare(&page("30", listed)), verdict, "{listed:?}");
        }
    }

    #[test]
    fn a_watch_that_ends_in_time_was_not_interrupted() {
        let seconds = Duration::from_secs;
        assert!(!is_interruption(seconds(300), seconds(300)) && !is_interruption(seconds(300), seconds(301)));
        assert!(is_interruption(seconds(300), seconds(20)) && is_interruption(seconds(300), seconds(330)));
    }
}
