//! Discovery: the plural, scope and versions of the kinds that a cluster serves. An unknown kind is looked up in the cluster,
//! its plural is never guessed.

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

/// The minimum time between two refreshes that unknown kinds cause.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The kinds that a cluster serves, as far as they are known.
///
/// Lock order: `refreshing`, an async mutex that is held during a refresh, then `known`, which is a leaf and never held
/// across an await.
#[derive(Debug, Default)]
pub struct Discovery {
    known: RwLock<Known>,
    /// Held during a refresh.
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    table: Table,
    /// When the last successful refresh began and ended.
    refreshed: Option<(Instant, Instant)>,
    /// Kinds from CustomResourceDefinitions, which discovery may show only later.
    learned: HashMap<(Text, Text), Vec<ApiKind>>,
}

/// Kinds by group and name, the preferred version first.
#[derive(Clone, Debug, Default)]
struct Table {
    kinds: HashMap<(Text, Text), Vec<Arc<ApiKind>>>,
    /// Groups whose API server is unavailable, so that their kinds are not known.
    unavailable: HashSet<Text>,
}

impl Table {
    fn add(&mut self, kind: ApiKind) {
        let versions = self.kinds.entry((kind.group.clone(), kind.kind.clone())).or_default();
        // Of several resources with the same kind, the first one is preferred by the API server.
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
    /// A known kind. Without a version: in the preferred one.
    #[must_use]
    pub fn cached(&self, group: &str, version: Option<&str>, kind: &str) -> Option<Arc<ApiKind>> {
        self.known.read().table.find(group, version, kind)
    }

    /// All known kinds, each in its preferred version.
    #[must_use]
    pub fn kinds(&self) -> Vec<Arc<ApiKind>> {
        let known = self.known.read();
        known.table.kinds.values().filter_map(|versions| versions.first().cloned()).collect()
    }

    /// Adds a kind from its CustomResourceDefinition, which saves a refresh.
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

    /// Removes a kind that turned out to be not served.
    pub fn forget(&self, group: &str, kind: &str) {
        let mut known = self.known.write();
        let key = (group.into(), kind.into());
        known.learned.remove(&key);
        known.table.kinds.remove(&key);
    }

    /// Stores the result of a refresh that began at this time.
    fn replace(&self, began: Instant, table: Table) {
        let mut known = self.known.write();
        let before = std::mem::replace(&mut known.table, table);
        let Known { table, learned, refreshed } = &mut *known;
        // An unavailable group keeps the kinds that were known before.
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
    /// A kind. Refreshes if it is not known, unless that was done a moment ago. Without a version: in the preferred
    /// one.
    ///
    /// # Errors
    /// The cluster does not serve the kind (`NotFound`, [`Missing::Kind`](crate::Missing::Kind)), or discovery fails.
    pub async fn kind(
        &self,
        group: &str,
        version: Option<&str>,
        kind: &str,
    ) -> Result<Arc<ApiKind>, ApiError> {
        self.find_kind(MIN_REFRESH_INTERVAL, group, version, kind).await
    }

    /// Like [`ClusterClient::kind`], for callers that would lose something if the kind were served after all: a missing
    /// kind is only reported by a refresh that began after this call.
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

    /// A kind. A refresh that ended up to `max_age` ago is enough to report it as missing.
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

    /// Refreshes discovery.
    ///
    /// # Errors
    /// The cluster rejects the request or does not answer.
    pub async fn refresh_discovery(&self) -> Result<(), ApiError> {
        self.refresh(Duration::ZERO).await
    }

    /// Refreshes, unless another refresh began after this call or ended up to `max_age` ago.
    async fn refresh(&self, max_age: Duration) -> Result<(), ApiError> {
        let called = Instant::now();
        let discovery = self.discovery();
        let _refreshing = discovery.refreshing.lock().await;
        if discovery.refreshed().is_some_and(|(began, ended)| began >= called || ended.elapsed() < max_age) {
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
            let problem = format!("the API server of group `{group}` is unavailable");
            return ApiError::new(attempt, kross_api::FailureReason::ServerError, &problem);
        }
        ApiError::unknown_kind(
            attempt,
            "the cluster does not serve it; is its CustomResourceDefinition installed?",
        )
    }
}
