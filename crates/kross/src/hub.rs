//! Turns connection flags into the hub as a command reads it: kinds, objects and definitions, with the caller's own rights.

use std::sync::Arc;

use anyhow::Context;
use kross_cluster::{ApiError, ApiKind, ClusterClient};
use serde_json::Value as Json;

mod age;
mod connection;
mod definition;
mod instance;
mod kinds;
mod lease;
mod reference;
mod remote;

pub(crate) use age::{age, for_people, since};
pub(crate) use connection::ConnectionFlags;
pub(crate) use definition::{Definition, is_definition};
pub(crate) use instance::{InstanceView, Owner, condition, failed_condition, text};
pub(crate) use kinds::find as find_kind;
pub(crate) use lease::{ControllerLease, controller_lease};
pub(crate) use reference::ObjectReference;
pub(crate) use remote::{RemoteClusters, kubectl_in, read as read_object};

/// Runs a command that reads clusters.
///
/// # Errors
/// The command fails, or no runtime can be started.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Runtime::new().context("cannot start a runtime")?.block_on(command)
}

/// The kind of definitions, with its group.
pub(crate) const DEFINITIONS: &str = "resourcegraphdefinitions.kro.run";

/// The cluster that kross runs in, as the caller may read it.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    pub(crate) client: ClusterClient,
    /// The namespace of the command: `--namespace`, or the context's.
    pub(crate) namespace: String,
}

impl Hub {
    /// Connects, and discovers the kinds that the hub serves.
    ///
    /// # Errors
    /// There is no usable configuration, or the hub does not answer.
    pub(crate) async fn connect(flags: &ConnectionFlags) -> anyhow::Result<Self> {
        let client = flags.connect().await?;
        client.refresh_discovery().await.context("cannot discover the kinds that the cluster serves")?;
        let namespace = flags.namespace().unwrap_or_else(|| client.default_namespace()).to_owned();
        Ok(Self { client, namespace })
    }

    /// Finds a kind by what was typed.
    ///
    /// # Errors
    /// No kind has this name, or several have.
    pub(crate) fn kind(&self, typed: &str) -> anyhow::Result<Arc<ApiKind>> {
        find_kind(&self.client.discovery().kinds(), typed)
    }

    /// Finds a kind by the `apiVersion` and `kind` of an object.
    pub(crate) fn kind_of(&self, api_version: &str, kind: &str) -> Option<Arc<ApiKind>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kinds = self.client.discovery().kinds();
        kinds.iter().find(|known| *known.group == *group && *known.kind == *kind).map(Arc::clone)
    }

    /// The namespace of an object of a kind: none for cluster-scoped kinds.
    pub(crate) fn namespace_of<'a>(&'a self, kind: &ApiKind, given: Option<&'a str>) -> Option<&'a str> {
        kind.namespaced.then(|| given.unwrap_or(&self.namespace))
    }

    /// Reads an object.
    ///
    /// # Errors
    /// It does not exist, or may not be read.
    pub(crate) async fn get(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Json, ApiError> {
        let found = self.client.get(kind, self.namespace_of(kind, namespace), name).await?;
        Ok(serde_json::to_value(found.value()).unwrap_or_default())
    }

    /// Lists objects.
    ///
    /// # Errors
    /// They may not be listed, or the hub does not answer.
    pub(crate) async fn list(
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
    pub(crate) async fn definitions(&self) -> Option<Vec<Definition>> {
        let kind = self.kind(DEFINITIONS).ok()?;
        let listed = self.list(&kind, None, None).await.ok()?;
        Some(listed.into_iter().map(Definition::new).collect())
    }
}
