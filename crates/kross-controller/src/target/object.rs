//! A target as a reconcile uses it: the stored object, parsed once, and the writes to it.

use std::sync::Arc;

use kross_api::{KubernetesTargetSpec, KubernetesTargetStatus, annotations, managers};
use kross_cluster::{ApiError, StoredObject};
use kross_value::Value;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::workload::WorkloadKind;

/// A target.
pub(super) struct Target {
    pub(super) object: Arc<StoredObject>,
    pub(super) spec: KubernetesTargetSpec,
    pub(super) status: KubernetesTargetStatus,
}

impl Target {
    pub(super) fn read(object: Arc<StoredObject>) -> Result<Self, String> {
        Ok(Self { spec: part(&object, "spec")?, status: part(&object, "status")?, object })
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.object.deletion_timestamp().is_some()
    }

    /// Whether its deletion does not wait for users.
    pub(super) fn is_forced(&self) -> bool {
        self.object.annotation(annotations::FORCE_DELETE) == Some("true")
    }

    pub(super) fn namespace(&self) -> &str {
        self.object.namespace().map(|namespace| &**namespace).unwrap_or_default()
    }

    /// Changes exactly this version of the target.
    ///
    /// # Errors
    /// The request fails, or the target was changed meanwhile.
    pub(super) async fn patch(&mut self, context: &Context, patch: &Value) -> Result<(), ApiError> {
        let kind = WorkloadKind::Target.api_kind();
        let (namespace, name) = (Some(self.namespace()), self.object.name());
        let written =
            context.client.merge_patch(&kind, namespace, name, None, managers::WORKLOAD, patch).await?;
        if let Some(cache) = context.workload.cache(WorkloadKind::Target) {
            cache.observe(&written);
        }
        if let Ok(target) = Self::read(Arc::new(written)) {
            *self = target;
        }
        Ok(())
    }
}

fn part<T: DeserializeOwned>(object: &StoredObject, name: &str) -> Result<T, String> {
    let json = object.value().get(name).map(serde_json::Value::from).unwrap_or_default();
    let json = if json.is_null() { serde_json::json!({}) } else { json };
    serde_json::from_value(json).map_err(|error| format!("cannot read `{name}`: {error}"))
}
