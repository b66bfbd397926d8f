//! The status that every instance has in addition to the author's fields: its resources and clusters, in graph order.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::crds::structural_schema;
use crate::vocabulary::{FailureReason, Operation, ResourceState, SyncMode};

/// A time as Kubernetes writes it: in whole seconds, in UTC.
#[must_use]
pub fn whole_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An entry of `status.managedResources`: one object of the graph, or the summary of a large collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedResource {
    /// Id of the resource in the definition.
    pub id: String,
    /// Name of the cluster; not set for the local cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// API version of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// `Ready`, `Pending`, `Blocked`, `Applying`, `Skipped`, `Deleting`, `Retained` or `Error`.
    #[schemars(with = "String")]
    pub state: ResourceState,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<FailureReason>,
    /// What the resource is waiting for, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The operation that failed: `connect`, `get`, `create`, `update`, `delete` or `watch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub operation: Option<Operation>,
    /// The last observed generation of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When state, reason or observed generation last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
}

impl ManagedResource {
    /// Keeps the time of the previous entry, unless state, reason or observed generation changed.
    #[must_use]
    pub fn since(mut self, before: Option<&Self>, now: &str) -> Self {
        let unchanged = before.filter(|before| {
            (before.state, before.reason, before.observed_generation)
                == (self.state, self.reason, self.observed_generation)
        });
        self.last_update_time =
            unchanged.and_then(|before| before.last_update_time.clone()).or_else(|| Some(now.to_owned()));
        self
    }
}

/// The end of the name of the entry of `status.clusters` that sums up the clusters that are not listed: `1900 more clusters`.
pub const MORE_CLUSTERS: &str = " more clusters";

/// An entry of `status.clusters`: one cluster of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Name of the cluster in messages.
    pub name: String,
    /// The kubeconfig Secret, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The KubernetesTarget that names the Secret, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// UID of the cluster's `kube-system` namespace, or the server URL if that namespace cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Whether `uid` is only the server URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<bool>,
    /// `Watch` or `Poll`.
    #[schemars(with = "String")]
    pub mode: SyncMode,
    /// Whether the cluster is connected.
    pub connected: bool,
    /// When `connected` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When the cluster last responded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<String>,
    /// Number of the instance's resources in this cluster that are ready.
    pub ready: i64,
    /// Number of the instance's resources in this cluster.
    pub total: i64,
}

/// Schemas of the status fields of every generated CustomResourceDefinition: `state`, `conditions`, `managedResources`,
/// `clusters`. A field of the author with the same name takes precedence.
#[must_use]
pub fn instance_status_schemas() -> Vec<(&'static str, Json)> {
    let list = |items: Json| json!({"type": "array", "items": items});
    vec![
        ("state", json!({"type": "string"})),
        ("conditions", list(instance_condition_schema())),
        ("managedResources", list(structural_schema::<ManagedResource>())),
        ("clusters", list(structural_schema::<ClusterStatus>())),
    ]
}

/// The schema that kro generates: nothing is required, and times are plain strings.
fn instance_condition_schema() -> Json {
    json!({
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string"},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "lastTransitionTime": {"type": "string"},
            "observedGeneration": {"type": "integer"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(state: ResourceState) -> ManagedResource {
        serde_json::from_value(json!({"id": "a", "state": state})).unwrap()
    }

    #[test]
    fn the_update_time_changes_only_with_state_reason_or_generation() {
        let before = resource(ResourceState::Pending).since(None, "one");
        assert_eq!(before.last_update_time.as_deref(), Some("one"));
        let mut same = resource(ResourceState::Pending);
        same.message = Some("another message".to_owned());
        assert_eq!(same.since(Some(&before), "two").last_update_time.as_deref(), Some("one"));
        let ready = resource(ResourceState::Ready).since(Some(&before), "two");
        assert_eq!(ready.last_update_time.as_deref(), Some("two"));
        let mut failed = resource(ResourceState::Pending);
        failed.reason = Some(FailureReason::Unreachable);
        assert_eq!(failed.since(Some(&before), "two").last_update_time.as_deref(), Some("two"));
    }

    #[test]
    fn status_entries_have_a_schema() {
        let schemas = serde_json::to_value(instance_status_schemas()).unwrap();
        insta::assert_snapshot!(crate::to_yaml(&schemas));
    }
}
