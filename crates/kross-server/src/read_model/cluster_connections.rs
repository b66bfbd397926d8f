//! The ClusterConnections of the hub as people see them: what the controller knows of each remote cluster.

use std::sync::Arc;

use kross_api::{ClusterConnectionSpec, ClusterConnectionStatus, ClusterState, SecretAddress};
use kross_cluster::{ApiError, ApiKind};
use serde_json::Value as Json;

use super::{Hub, text};

/// The kind, with its group.
pub const CONNECTIONS: &str = "clusterconnections.kro.run";

/// A ClusterConnection.
#[derive(Clone, Debug)]
pub struct ClusterConnectionView {
    /// The object.
    pub object: Json,
    /// Its name.
    pub name: String,
    /// The Secret with the kubeconfig of the cluster.
    pub secret: SecretAddress,
    /// What is known of the cluster.
    pub status: ClusterConnectionStatus,
}

impl ClusterConnectionView {
    /// None if it cannot be read: a later version may have written it.
    #[must_use]
    pub fn new(object: Json) -> Option<Self> {
        let field =
            |name: &str| object.get(name).cloned().unwrap_or_else(|| Json::Object(Default::default()));
        let spec: ClusterConnectionSpec = serde_json::from_value(field("spec")).ok()?;
        let status: ClusterConnectionStatus = serde_json::from_value(field("status")).ok()?;
        let name = text(&object, "/metadata/name")?.to_owned();
        Some(Self { name, secret: SecretAddress::from(&spec.secret_ref), status, object })
    }

    /// Whether the cluster is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.status.state == Some(ClusterState::Connected)
    }

    /// Whether a person means it by this name: the Secret's, with or without its namespace, or its own.
    #[must_use]
    pub fn is_named(&self, typed: &str, namespace: &str) -> bool {
        typed == self.name
            || typed == self.secret.status_text()
            || typed == self.secret.to_string()
            || (typed == self.secret.name && self.secret.namespace == namespace)
    }
}

/// What the hub answers when it is asked for its ClusterConnections.
#[derive(Clone, Debug)]
pub enum ClusterConnections {
    /// All of them, sorted by Secret.
    Listed(Arc<ApiKind>, Vec<ClusterConnectionView>),
    /// The hub does not serve the kind.
    NotServed,
    /// The caller may not list them.
    Forbidden,
}

impl ClusterConnections {
    /// Lists them with the caller's rights.
    ///
    /// # Errors
    /// The hub does not answer.
    pub async fn list(hub: &Hub) -> Result<Self, ApiError> {
        let Ok(kind) = hub.kind(CONNECTIONS) else { return Ok(Self::NotServed) };
        match hub.list(&kind, None, None).await {
            Ok(listed) => {
                let mut views: Vec<_> = listed.into_iter().filter_map(ClusterConnectionView::new).collect();
                views.sort_by(|a, b| a.secret.cmp(&b.secret));
                Ok(Self::Listed(kind, views))
            }
            Err(error) if error.code() == Some(403) => Ok(Self::Forbidden),
            Err(error) => Err(error),
        }
    }
}
