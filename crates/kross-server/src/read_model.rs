//! Turns the objects of a hub into what people see of them: instances, definitions, clusters, and why something is not ready.
//! The commands and the dashboard share it. Everything is read with the caller's own rights.

use std::sync::Arc;

use kross_cluster::{ApiError, ApiKind, ClusterClient};
use serde_json::Value as Json;

mod age;
mod cluster_connections;
mod definition;
mod fleet;
mod instance;
mod kinds;
mod lease;
mod remote;
mod tone;
pub mod why;

pub use age::{age, for_people, since};
pub use cluster_connections::{CONNECTIONS, ClusterConnectionView, ClusterConnections};
pub use definition::{Definition, is_definition};
pub use fleet::{Fleet, FleetCluster};
pub use instance::{InstanceView, Owner, condition, failed_condition, text};
pub use kinds::{UnknownKind, find as find_kind};
pub use lease::{ControllerLease, controller_lease};
pub use remote::{RemoteClusters, RemoteOptions, Unreadable, kubectl_in, read as read_object};
pub use tone::Tone;

/// The kind of definitions, with its group.
pub const DEFINITIONS: &str = "resourcegraphdefinitions.kro.run";

/// The cluster that kross runs in, as the caller may read it.
#[derive(Clone, Debug)]
pub struct Hub {
    /// Its client.
    pub client: ClusterClient,
    /// The namespace of the command: `--namespace`, or the context's.
    pub namespace: String,
    /// How remote clusters are read.
    pub remotes: RemoteOptions,
}

impl Hub {
    /// Discovers the kinds that the hub serves. `namespace` is used where an object has none.
    ///
    /// # Errors
    /// The hub does not answer.
    pub async fn discover(client: ClusterClient, namespace: String) -> Result<Self, ApiError> {
        client.refresh_discovery().await?;
        Ok(Self { client, namespace, remotes: RemoteOptions::default() })
    }

    /// Finds a kind by what was typed.
    ///
    /// # Errors
    /// No kind has this name, or several have.
    pub fn kind(&self, typed: &str) -> Result<Arc<ApiKind>, UnknownKind> {
        find_kind(&self.client.discovery().kinds(), typed)
    }

    /// Finds a kind by the `apiVersion` and `kind` of an object.
    pub fn kind_of(&self, api_version: &str, kind: &str) -> Option<Arc<ApiKind>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kinds = self.client.discovery().kinds();
        kinds.iter().find(|known| *known.group == *group && *known.kind == *kind).map(Arc::clone)
    }

    /// The namespace of an object of a kind: none for cluster-scoped kinds.
    pub fn namespace_of<'a>(&'a self, kind: &ApiKind, given: Option<&'a str>) -> Option<&'a str> {
        kind.namespaced.then(|| given.unwrap_or(&self.namespace))
    }

    /// Reads an object.
    ///
    /// # Errors
    /// It does not exist, or may not be read.
    pub async fn get(&self, kind: &ApiKind, namespace: Option<&str>, name: &str) -> Result<Json, ApiError> {
        let found = self.client.get(kind, self.namespace_of(kind, namespace), name).await?;
        Ok(serde_json::to_value(found.value()).unwrap_or_default())
    }

    /// Lists objects.
    ///
    /// # Errors
    /// They may not be listed, or the hub does not answer.
    pub async fn list(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<Json>, ApiError> {
        let namespace = namespace.filter(|_| kind.namespaced);
        let listed = self.client.list(kind, namespace, selector).await?;
        Ok(listed.iter().filter_map(|object| serde_json::to_value(object.value()).ok()).collect())
    }

    /// The definitions. None if they cannot be listed: users of instances may not read definitions.
    pub async fn definitions(&self) -> Option<Vec<Definition>> {
        let kind = self.kind(DEFINITIONS).ok()?;
        let listed = self.list(&kind, None, None).await.ok()?;
        Some(listed.into_iter().map(Definition::new).collect())
    }
}
