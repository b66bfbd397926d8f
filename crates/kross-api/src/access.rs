//! `spec.access` of a definition: the ServiceAccount that the objects of an instance are read and written as, in the local
//! cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ServiceAccount that kross acts as in the local cluster on behalf of an instance: when it reads external objects, and
/// when it reads and writes the objects of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// Name of a ServiceAccount in the namespace of the instance. May contain `${}` expressions that read `schema`.
    #[schemars(length(min = 1))]
    pub service_account_name: String,
    /// Namespace of the ServiceAccount. Required for cluster-scoped instances, and not allowed for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub service_account_namespace: Option<String>,
}
