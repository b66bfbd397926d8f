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
    /// Kinds from CustomResourceDefinitions, which discovery may show only later. They are no proof of anything.
    learned: Kinds,
}

impl Known {
    fn find(&self, group: &str, version: Option<&str>, kind: &str) -> Option<Arc<ApiKind>> {
        let Some(found) = self.table.find(group, version, kind) else {
            return find(&self.learned, group, version, kind);
        };
        // A kind that was learned since the last refresh may have another plural or scope.
        find(&self.learned, group, Some(&found.version), kind).or(Some(found))
    }
}

/// Kinds by group and name, the preferred version first.
type Kinds = HashMap<(Text, Text), Vec<Arc<ApiKind>>>;

/// What a refresh fetched.
#[derive(Clone, Debug, Default)]
struct Table {
    kinds: Kinds,
    /// Kinds of unavailable groups, as they were last known.
    stale: Kinds,
    /// Groups whose kinds are not known: their API server is unavailable, or is listed without any kind.
    unavailable: HashSet<Text>,
}

impl Table {
    fn find(&self, group: &str, version: Option<&str>, kind: &str) -> Option<Arc<ApiKind>> {
        find(&self.kinds, group, version, kind).or_else(|| find(&self.stale, group, version, kind))
    }
}

/// Adds a kind, unless its names cannot be those of an API.
fn add(kinds: &mut Kinds, kind: ApiKind) {
    let group_is_fine = kind.group.is_empty() || kind::is_path_name(&kind.group);
    let path_is_fine = kind::is_path_name(&kind.version) && kind::is_path_name(&kind.plural);
    if !group_is_fine || !path_is_fine || !kind::is_kind_name(&kind.kind) {
        return;
    }
    let versions = kinds.entry((kind.group.clone(), kind.kind.clone())).or_default();
    // Of several resources with the same kind, the first one is preferred by the API server.
    if versions.iter().all(|known| known.version != kind.version) {
        versions.push(Arc::new(kind));
    }
}

fn find(kinds: &Kinds, group: &str, version: Option<&str>, kind: &str) -> Option<Arc<ApiKind>> {
    let versions = kinds.get(&(group.into(), kind.into()))?;
    let found = match version {
        Some(version) => versions.iter().find(|known| known.version == version),
        None => versions.first(),
    };
    found.cloned()
}

/// What a refresh says about a kind.
enum Listed {
    Kind(Arc<ApiKind>),
    /// Its group is unavailable.
    Unknown,
    Nothing,
}

impl Discovery {
    /// A known kind. Without a version: in the preferred one.
    #[must_use]
    pub fn cached(&self, group: &str, version: Option<&str>, kind: &str) -> Option<Arc<ApiKind>> {
        self.known.read().find(group, version, kind)
    }

    /// All known kinds, each in its preferred version.
    #[must_use]
    pub fn kinds(&self) -> Vec<Arc<ApiKind>> {
        let known = self.known.read();
        let Known { table: Table { kinds, stale, .. }, learned, .. } = &*known;
        let names: HashSet<&(Text, Text)> = kinds.keys().chain(stale.keys()).chain(learned.keys()).collect();
        names.into_iter().filter_map(|(group, kind)| known.find(group, None, kind)).collect()
    }

    /// Adds a kind from its CustomResourceDefinition, which saves a refresh.
    pub fn learn(&self, kind: ApiKind) {
        let mut known = self.known.write();
        let versions = known.learned.entry((kind.group.clone(), kind.kind.clone())).or_default();
        versions.retain(|old| old.version != kind.version);
        versions.push(Arc::new(kind));
    }

    /// Removes a kind that turned out to be not served.
    pub fn forget(&self, group: &str, kind: &str) {
        let mut known = self.known.write();
        let key = (group.into(), kind.into());
        known.learned.remove(&key);
        known.table.kinds.remove(&key);
        known.table.stale.remove(&key);
    }

    /// Stores the result of a refresh that began at this time.
    fn replace(&self, began: Instant, table: Table) {
        let mut known = self.known.write();
        let before = std::mem::replace(&mut known.table, table);
        let Known { table, learned, refreshed } = &mut *known;
        // An unavailable group keeps the kinds that were known before.
        for (key, versions) in before.kinds.into_iter().chain(before.stale) {
            if table.unavailable.contains(&key.0) {
                table.stale.entry(key).or_insert(versions);
            }
        }
        // What discovery lists by now was learned.
        let is_listed =
            |kind: &ApiKind| find(&table.kinds, &kind.group, Some(&kind.version), &kind.kind).is_some();
        learned.retain(|_, versions| {
            versions.retain(|kind| !is_listed(kind));
            !versions.is_empty()
        });
        *refreshed = Some((began, Instant::now()));
    }

    /// A kind as the last refresh found it; none if that proves that the cluster does not serve it.
    fn listed(&self, group: &str, kind: &str) -> Listed {
        let table = &self.known.read().table;
        match find(&table.kinds, group, None, kind) {
            Some(found) => Listed::Kind(found),
            None if table.unavailable.contains(group) => Listed::Unknown,
            None => Listed::Nothing,
        }
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

    /// A kind in its preferred version, as a discovery lists it that began after `asked`; none if it is complete and does not
    /// list the kind. What is cached proves nothing, and neither does what an API server answers before it is ready: it begins
    /// with its built-in kinds, and lists those of CustomResourceDefinitions only once it has read them.
    ///
    /// # Errors
    /// Discovery fails, does not know the kinds of the group, or does not list the kind while the API server is not ready.
    pub async fn served_kind(
        &self,
        group: &str,
        kind: &str,
        asked: Instant,
    ) -> Result<Option<Arc<ApiKind>>, ApiError> {
        let (mut asked, mut is_ready) = (asked, false);
        loop {
            self.refresh_since(asked, Duration::ZERO).await?;
            match self.discovery().listed(group, kind) {
                Listed::Kind(found) => return Ok(Some(found)),
                Listed::Unknown => return Err(self.not_served(group, None, kind)),
                Listed::Nothing if is_ready => {
                    self.discovery().forget(group, kind);
                    return Ok(None);
                }
                Listed::Nothing => {
                    fetch::readiness(self).await?;
                    // The first discovery may have been answered before that.
                    (asked, is_ready) = (Instant::now(), true);
                }
            }
        }
    }

    /// Finds out what a 404 means that does not say what is missing: an API server sends it if it does not serve the kind,
    /// which discovery confirms then.
    pub(crate) async fn explain_not_found(&self, kind: &ApiKind, error: ApiError) -> ApiError {
        if !error.may_be_unserved() {
            return error.without_proof("the response does not name the requested object");
        }
        match self.served_kind(&kind.group, &kind.kind, Instant::now()).await {
            Ok(Some(served)) if served.version != kind.version => {
                let problem = format!("discovery lists the kind in version `{}`", served.version);
                error.without_proof(&problem)
            }
            Ok(Some(_)) => error.without_proof("that proves nothing, since discovery lists the kind"),
            Ok(None) => error.of_unserved_kind(),
            Err(unknown) => {
                let problem = format!("whether the kind is served is not known: {}", unknown.message());
                error.without_proof(&problem)
            }
        }
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
        self.refresh_since(Instant::now(), max_age).await
    }

    /// Refreshes, unless another refresh began after `asked` or ended up to `max_age` ago.
    async fn refresh_since(&self, asked: Instant, max_age: Duration) -> Result<(), ApiError> {
        let discovery = self.discovery();
        let _refreshing = discovery.refreshing.lock().await;
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
            let problem = format!(
                "discovery lists group `{group}` without its kinds; check the APIService of the group"
            );
            return ApiError::new(attempt, kross_api::FailureReason::ServerError, &problem);
        }
        ApiError::unknown_kind(
            attempt,
            "the cluster does not serve it; is its CustomResourceDefinition installed?",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_with_names_that_lead_to_another_path_are_ignored() {
        let mut kinds = Kinds::default();
        for (group, version, plural) in [
            ("..", "v1", "traps"),
            ("example.com", "..", "traps"),
            ("example.com", "v1", ".."),
            ("example.com", "v1", "traps/../../secrets"),
            ("example.com/v1", "v1", "traps"),
        ] {
            add(&mut kinds, ApiKind::custom(group, version, "Trap", plural, true));
        }
        assert!(kinds.is_empty());
        add(&mut kinds, ApiKind::custom("example.com", "v1", "Trap", "traps", true));
        add(&mut kinds, ApiKind::custom("", "v1", "Pod", "pods", true));
        assert_eq!(kinds.len(), 2);
    }
}
