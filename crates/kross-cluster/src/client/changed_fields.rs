//! Reads who changed the fields of an object. Cached objects have no managed fields of others.

use kross_api::Operation;
use kross_value::Value;

use super::rest::Target;
use crate::audit::AuditVerb;
use crate::client::{ApiRequest, ClusterClient};
use crate::discovery::ApiKind;
use crate::error::ApiError;
use crate::object::{ChangedFields, changed_fields};

impl ClusterClient {
    /// Reads which fields of an object differ from those of `desired`, which `manager` applied, and who manages them now.
    ///
    /// # Errors
    /// The object is not found, or the cluster rejects the request or does not answer.
    pub async fn changed_fields(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        manager: &str,
        desired: &Value,
    ) -> Result<Vec<ChangedFields>, ApiError> {
        let target = Target { kind, namespace, name, operation: Operation::Get };
        let path = target.path(self, None)?;
        let pending = self.begin_audit(AuditVerb::Get, kind, namespace, name);
        let response = self.perform(&target, ApiRequest::get(path)).await;
        pending.finish(&response);
        Ok(changed_fields(&response?.body, manager, desired))
    }
}
