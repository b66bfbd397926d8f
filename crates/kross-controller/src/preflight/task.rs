//! Asks one cluster once about one set of needs: the schemas of the kinds, and what we may do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kross_cluster::ClusterClient;

use super::Findings;
use super::documents::{ClusterSchemas, Documents};
use super::needs::Needs;
use super::permissions;
use super::site::{PreflightError, Site};
use crate::openapi::Index;

/// Asks one cluster about one set of needs.
pub(super) struct PreflightTask {
    site: Arc<Site>,
    needs: Arc<Needs>,
    documents: Arc<Documents>,
    /// Answers that others got are good for so long.
    age: Duration,
    schemas: Option<Arc<ClusterSchemas>>,
}

impl PreflightTask {
    pub(super) fn new(site: Arc<Site>, needs: Arc<Needs>, documents: Arc<Documents>, age: Duration) -> Self {
        Self { site, needs, documents, age, schemas: None }
    }

    pub(super) async fn preflight(&mut self, client: &ClusterClient) -> Result<Findings, PreflightError> {
        let schemas = self.schemas(client).await?;
        let denied = permissions::missing(client, &self.site, &self.needs, &*schemas, self.age).await?;
        let user = if denied.is_empty() { None } else { client.user().await };
        Ok(Findings { schemas, denied, user })
    }

    async fn schemas(&mut self, client: &ClusterClient) -> Result<Arc<ClusterSchemas>, PreflightError> {
        let index = self.site.index(client, self.age).await?;
        let mut documents = BTreeMap::new();
        for version in self.wanted(&index) {
            let Some(url) = index.url(&version) else { continue };
            let document = self.site.document(client, &self.documents, &version, url).await?;
            documents.insert(version, document);
        }
        let schemas = ClusterSchemas::new(documents, self.needs.kinds());
        let known = self.schemas.as_ref().filter(|known| known.fingerprint() == schemas.fingerprint());
        let schemas = known.cloned().unwrap_or_else(|| Arc::new(schemas));
        self.schemas = Some(Arc::clone(&schemas));
        Ok(schemas)
    }

    /// The versions to fetch: those that are needed, and of a group that lacks one all others, to say what is there instead.
    fn wanted(&self, index: &Index) -> BTreeSet<String> {
        let mut wanted = BTreeSet::new();
        for kind in self.needs.kinds() {
            let version = kind.api_version();
            if index.url(&version).is_none() {
                let group = format!("apis/{}/", kind.group);
                let others = index.paths.keys().filter(|path| path.starts_with(&group));
                wanted.extend(others.filter_map(|path| path.strip_prefix("apis/").map(str::to_owned)));
            }
            wanted.insert(version);
        }
        wanted
    }
}
