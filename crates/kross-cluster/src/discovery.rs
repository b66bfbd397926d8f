//! Turns a kind into where the cluster serves it: plural, scope, verbs, versions. What is not known is asked for, never
//! guessed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use kross_api::Operation;
use kross_value::Text;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::error::{ApiError, Attempt};

mod fetch;
mod kind;

pub use kind::ApiKind;

pub(crate) use kind::push_encoded;

/// How long after one refresh the next miss may cause another.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

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
    refreshed: Option<Instant>,
}

/// Kinds by group and name, the preferred version first.
#[derive(Clone, Debug, Default)]
struct Table {
    kinds: HashMap<(Text, Text), Vec<Arc<ApiKind>>>,
    /// Groups whose server did not answer: nothing can be said about what they serve.
    silent: HashSet<Text>,
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
        self.known.read().unwrap_or_else(PoisonError::into_inner).table.find(group, version, kind)
    }

    /// Every kind that is known, in its preferred version.
    #[must_use]
    pub fn kinds(&self) -> Vec<Arc<ApiKind>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.table.kinds.values().filter_map(|versions| versions.first().cloned()).collect()
    }

    /// Adds a kind that is known from its own definition, which spares a question.
    pub fn learn(&self, kind: ApiKind) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(versions) = known.table.kinds.get_mut(&(kind.group.clone(), kind.kind.clone())) {
            versions.retain(|old| old.version != kind.version);
        }
        known.table.add(kind);
    }

    /// Forgets a kind that turned out to be gone.
    pub fn forget(&self, group: &str, kind: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.table.kinds.remove(&(group.into(), kind.into()));
    }

    fn refreshed(&self) -> Option<Instant> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).refreshed
    }

    fn is_silent(&self, group: &str) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).table.silent.contains(group)
    }
}

impl Connection {
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
        let discovery = self.discovery();
        if let Some(found) = discovery.cached(group, version, kind) {
            return Ok(found);
        }
        self.refresh(discovery.refreshed(), LEAST_INTERVAL).await?;
        discovery.cached(group, version, kind).ok_or_else(|| self.not_served(group, version, kind))
    }

    /// Asks the cluster what it serves, whatever is known.
    ///
    /// # Errors
    /// The cluster cannot be asked.
    pub async fn refresh_discovery(&self) -> Result<(), ApiError> {
        self.refresh(self.discovery().refreshed(), Duration::ZERO).await
    }

    /// Refreshes, unless somebody did after `seen`, or within the interval.
    async fn refresh(&self, seen: Option<Instant>, interval: Duration) -> Result<(), ApiError> {
        let discovery = self.discovery();
        let _turn = discovery.refreshing.lock().await;
        let last = discovery.refreshed();
        if last != seen || last.is_some_and(|last| last.elapsed() < interval) {
            return Ok(());
        }
        let table = fetch::table(self).await?;
        let mut known = discovery.known.write().unwrap_or_else(PoisonError::into_inner);
        // A group whose server is silent keeps what was known of it.
        let kept: Vec<_> = known
            .table
            .kinds
            .iter()
            .filter(|((group, _), _)| table.silent.contains(group))
            .map(|(key, versions)| (key.clone(), versions.clone()))
            .collect();
        known.table = table;
        for (key, versions) in kept {
            known.table.kinds.entry(key).or_insert(versions);
        }
        known.refreshed = Some(Instant::now());
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
        if self.discovery().is_silent(group) {
            let problem = format!("the server of group `{group}` does not answer");
            return ApiError::own(attempt, kross_api::FailureReason::ServerError, &problem);
        }
        ApiError::unknown_kind(
            attempt,
            "the cluster does not serve it; is its CustomResourceDefinition installed?",
        )
    }
}
