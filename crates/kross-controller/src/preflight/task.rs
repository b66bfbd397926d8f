//! One preflight: fetches the schemas that a graph needs from a cluster, and reviews our access to its resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kross_cluster::{ApiError, ClusterClient};
use tokio::time::timeout;

use super::Findings;
use super::cluster::ClusterPreflight;
use super::cluster_schemas::ClusterSchemas;
use super::needs::Needs;
use super::permissions;
use crate::openapi::{Index, SchemaError};

/// How long the documents of a cluster may take. Those that arrived are kept for the next run.
const SCHEMAS_TIMEOUT: Duration = Duration::from_secs(120);

/// A preflight that could not be completed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PreflightError {
    /// The schemas could not be fetched.
    #[error(transparent)]
    Schemas(#[from] SchemaError),
    /// Another request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Runs the preflight of one cluster for one set of needs, again and again.
pub(super) struct PreflightTask {
    cluster: Arc<ClusterPreflight>,
    needs: Arc<Needs>,
    /// How old responses may be that other preflights of the cluster got.
    max_age: Duration,
    /// Those of the last run.
    schemas: Option<Arc<ClusterSchemas>>,
}

/// The schemas, if they arrive in time: a server could let each of them arrive just before its own timeout.
async fn within<T>(
    limit: Duration,
    schemas: impl Future<Output = Result<T, SchemaError>>,
) -> Result<T, SchemaError> {
    timeout(limit, schemas).await.unwrap_or(Err(SchemaError::Late(limit)))
}

impl PreflightTask {
    pub(super) fn new(cluster: Arc<ClusterPreflight>, needs: Arc<Needs>, max_age: Duration) -> Self {
        Self { cluster, needs, max_age, schemas: None }
    }

    /// Runs the preflight once.
    pub(super) async fn run(&mut self, client: &ClusterClient) -> Result<Findings, PreflightError> {
        let schemas = within(SCHEMAS_TIMEOUT, self.schemas(client)).await?;
        let (needs, max_age) = (&self.needs, self.max_age);
        let denied = permissions::denied(client, &self.cluster, needs, &*schemas, max_age).await?;
        let user = if denied.is_empty() { None } else { client.user().await };
        Ok(Findings { schemas, denied, user })
    }

    async fn schemas(&mut self, client: &ClusterClient) -> Result<Arc<ClusterSchemas>, SchemaError> {
        let openapi = &self.cluster.openapi;
        let index = openapi.index(client, self.max_age).await?;
        let mut documents = BTreeMap::new();
        for version in self.wanted_versions(&index) {
            if let Some(document) = openapi.document(client, &index, &version).await? {
                documents.insert(version, document);
            }
        }
        let schemas = ClusterSchemas::new(documents, self.needs.kinds());
        let known = self.schemas.as_ref().filter(|known| known.fingerprint() == schemas.fingerprint());
        let schemas = known.cloned().unwrap_or_else(|| Arc::new(schemas));
        self.schemas = Some(Arc::clone(&schemas));
        Ok(schemas)
    }

    /// The groups and versions to fetch: those that are needed and, where one is missing, others of its group, so that
    /// the message can name what the cluster serves instead.
    fn wanted_versions(&self, index: &Index) -> BTreeSet<String> {
        let mut wanted = BTreeSet::new();
        for kind in self.needs.kinds() {
            let version = kind.api_version();
            if !index.lists(&version) {
                wanted.extend(index.versions_of(&kind.group));
            }
            wanted.insert(version);
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn documents_that_arrive_one_by_one_for_ever_are_given_up() {
        let schemas = async {
            // Each of them in time.
            for _ in 0..1000 {
                tokio::time::sleep(Duration::from_secs(25)).await;
            }
            Ok(())
        };
        let error = within(SCHEMAS_TIMEOUT, schemas).await.unwrap_err().to_string();
        assert_eq!(error, "cannot fetch the schemas: the API server did not send all of them within 120 s");
        assert!(within(SCHEMAS_TIMEOUT, async { Ok(1) }).await.is_ok());
    }
}
