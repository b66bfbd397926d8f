//! Turns a kind into where the cluster serves it: plural, scope, verbs, versions. What is not known is asked for, never
//! guessed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kross_api::Operation;
use kross_value::Text;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::client::ClusterClient;
use crate::error::{ApiError, Attempt};

mod fetch;
mod kind;

pub use kind::ApiKind;

pub(crate) use kind::push_encoded;

/// How long after one refresh the next miss may cause another.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// What a cluster serves, as far as it is known.
#[derive(Debug, Default)]
pub struct Discovery {
    known: RwLock<Known>,
    /// Held by whoever asks the cluster.
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    table: Table,
    /// When the cluster was last asked and has answered: when that began, and when it ended.
    refreshed: Option<(Instant, Instant)>,
    /// Kinds that are known from their own definitions. What the cluster says of itself may be from before, or come later.
    learned: HashMap<(Text, Text), Vec<ApiKind>>,
}

/// Kinds by group and name, the preferred version first.
#[derive(Clone, Debug, Default)]
struct Table {
    kinds: HashMap<(Text, Text), Vec<Arc<ApiKind>>>,
    /// Groups whose server did not answer: nothing can be said about what they serve.
    unavailable: HashSet<Text>,
}

impl Table {
    fn add(&mut self, kind: ApiKind) {
        let versions = self.kinds.entry((kind.group.clone(), kind.kind.clone())).or_default();
        // Of several resources with one kind the first is the one that the cluster itself would choose.
        if versions.iter().all(|known| known.version != kind.version) {
            versions.push(Arc::new(kind));
        }
    }

    fn find(&self, group: &str, version: Option<&str>, kind: &str) -> Option<Arc<ApiKind>> {
        let versions = self.kinds.get(&(group.into(), kind.into()))?;
        let found = match version {
            Some(version) => versions.iter().find(|known| known.version == version),
            None => versions.first(),
        };
        found.cloned()
    }
}

impl Discovery {
    /// A kind that is known already. Without a version: in the one that the cluster prefers.
    #[must_use]
    pub fn cached(&self, group: &str, version: Option<&str>, kind: &str) -> Option<Arc<ApiKind>> {
        self.known.read().table.find(group, version, kind)
    }

    /// Every kind that is known, in its preferred version.
    #[must_use]
    pub fn kinds(&self) -> Vec<Arc<ApiKind>> {
        let known = self.known.read();
        known.table.kinds.values().filter_map(|versions| versions.first().cloned()).collect()
    }

    /// Adds a kind that is known from its own definition, which spares a question.
    pub fn learn(&self, kind: ApiKind) {
        let mut known = self.known.write();
        let Known { table, learned, .. } = &mut *known;
        let key = (kind.group.clone(), kind.kind.clone());
        if let Some(versions) = table.kinds.get_mut(&key) {
            versions.retain(|old| old.version != kind.version);
        }
        let versions = learned.entry(key).or_default();
        versions.retain(|old| old.version != kind.version);
        versions.push(kind.clone());
        table.add(kind);
    }

    /// Forgets a kind that turned out to be gone.
    pub fn forget(&self, group: &str, kind: &str) {
        let mut known = self.known.write();
        let key = (group.into(), kind.into());
        known.learned.remove(&key);
        known.table.kinds.remove(&key);
    }

    /// The cluster has answered a question from this time.
    fn replace(&self, began: Instant, table: Table) {
        let mut known = self.known.write();
        let before = std::mem::replace(&mut known.table, table);
        let Known { table, learned, refreshed } = &mut *known;
        // A group whose server is silent keeps what was known of it.
        for (key, versions) in before.kinds {
            if table.unavailable.contains(&key.0) {
                table.kinds.entry(key).or_insert(versions);
            }
        }
        learned.values().flatten().for_each(|kind| table.add(kind.clone()));
        *refreshed = Some((began, Instant::now()));
    }

    fn refreshed(&self) -> Option<(Instant, Instant)> {
        self.known.read().refreshed
    }

    fn is_unavailable(&self, group: &str) -> bool {
        self.known.read().table.unavailable.contains(group)
    }
}

impl ClusterClient {
    /// Where the cluster serves a kind. Asks the cluster if it is not known and was not asked just now. Without a version:
    /// in the one that the cluster prefers.
    ///
    /// # Errors
    /// The cluster does not serve it (`NotFound`, [`Missing::Kind`](crate::Missing::Kind)) or cannot be asked.
    pub async fn kind(
        &self,
        group: &str,
        version: Option<&str>,
        kind: &str,
    ) -> Result<Arc<ApiKind>, ApiError> {
        self.find_kind(MIN_REFRESH_INTERVAL, group, version, kind).await
    }

    /// Like [`ClusterClient::kind`], where something is lost if the kind is there after all: that it is not is never taken from
    /// an answer of before the question.
    ///
    /// # Errors
    /// As [`ClusterClient::kind`].
    pub async fn discover_kind(
        &self,
        group: &str,
        version: Option<&str>,
        kind: &str,
    ) -> Result<Arc<ApiKind>, ApiError> {
        self.find_kind(Duration::ZERO, group, version, kind).await
    }

    /// Where a kind is served. That it is not may be taken from an answer that is no older than the interval.
    async fn find_kind(
        &self,
        max_age: Duration,
        group: &str,
        version: Option<&str>,
        kind: &str,
    ) -> Result<Arc<ApiKind>, ApiError> {
        let discovery = self.discovery();
        if let Some(found) = discovery.cached(group, version, kind) {
            return Ok(found);
        }
        self.refresh(max_age).await?;
        discovery.cached(group, version, kind).ok_or_else(|| self.not_served(group, version, kind))
    }

    /// Asks the cluster what it serves, whatever is known.
    ///
    /// # Errors
    /// The cluster cannot be asked.
    pub async fn refresh_discovery(&self) -> Result<(), ApiError> {
        self.refresh(Duration::ZERO).await
    }

    /// Refreshes, unless somebody began to after this was called, or did within the interval.
    async fn refresh(&self, max_age: Duration) -> Result<(), ApiError> {
        let asked = Instant::now();
        let discovery = self.discovery();
        let _permit = discovery.refreshing.lock().await;
        if discovery.refreshed().is_some_and(|(began, ended)| began >= asked || ended.elapsed() < max_age) {
            return Ok(());
        }
        let began = Instant::now();
        discovery.replace(began, fetch::table(self).await?);
        Ok(())
    }

    fn not_served(&self, group: &str, version: Option<&str>, kind: &str) -> ApiError {
        let name = match (group, version) {
            ("", None) => kind.to_owned(),
            ("", Some(version)) => format!("{kind} {version}"),
            (group, None) => format!("{kind} {group}"),
            (group, Some(version)) => format!("{kind} {group}/{version}"),
        };
        let attempt = Attempt {
            cluster: self.cluster().clone(),
            operation: Operation::Get,
            target: format!("kind `{name}`"),
        };
        if self.discovery().is_unavailable(group) {
            let problem = format!("the server of group `{group}` does not answer");
            return ApiError::new(attempt, kross_api::FailureReason::ServerError, &problem);
        }
        ApiError::unknown_kind(
            attempt,
            "the cluster does not serve it; is its CustomResourceDefinition installed?",
        )
    }
}
