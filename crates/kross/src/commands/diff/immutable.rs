//! The fields of Kubernetes' own kinds that cannot change after the object was created.

use kross_value::Value;

/// Kinds with the fields that API servers do not let change.
const FIXED: [(&str, &str, &[&str]); 13] = [
    ("apps", "Deployment", &["spec.selector"]),
    ("apps", "DaemonSet", &["spec.selector"]),
    ("apps", "ReplicaSet", &["spec.selector"]),
    (
        "apps",
        "StatefulSet",
        &["spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"],
    ),
    ("batch", "Job", &["spec.selector", "spec.template", "spec.completionMode"]),
    ("", "Service", &["spec.clusterIP"]),
    (
        "",
        "PersistentVolumeClaim",
        &["spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeMode", "spec.volumeName"],
    ),
    ("", "PersistentVolume", &["spec.csi", "spec.hostPath", "spec.nfs", "spec.local", "spec.volumeMode"]),
    ("", "Secret", &["type"]),
    ("rbac.authorization.k8s.io", "RoleBinding", &["roleRef"]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &["roleRef"]),
    ("storage.k8s.io", "StorageClass", &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"]),
    ("scheduling.k8s.io", "PriorityClass", &["value"]),
];

/// Why the API server refuses a change of a field, if it is known to.
pub(super) fn immutable_field(group: &str, kind: &str, path: &str, before: &Value) -> Option<&'static str> {
    let is_content = |fields: &[&str]| fields.iter().any(|field| is_at(path, field));
    let sealed = before.get("immutable").and_then(Value::as_bool) == Some(true);
    if group.is_empty()
        && ["ConfigMap", "Secret"].contains(&kind)
        && sealed
        && is_content(&["data", "stringData", "binaryData", "immutable"])
    {
        return Some("cannot change: the object is `immutable`");
    }
    let (_, _, fields) = FIXED.iter().find(|(own, name, _)| *own == group && *name == kind)?;
    let is_fixed = is_content(fields) && !(kind == "Service" && before.at(&["spec", "clusterIP"]).is_none());
    is_fixed
        .then_some("cannot change after the object was created; delete the object, and it is created again")
}

/// Whether a path is a field or something in it.
fn is_at(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_and_what_is_in_it_cannot_change() {
        let deployment = |path: &str| immutable_field("apps", "Deployment", path, &Value::Null).is_some();
        assert!(deployment("spec.selector.matchLabels.app") && deployment("spec.selector"));
        assert!(!deployment("spec.selectors") && !deployment("spec.replicas"));
        let sealed: Value = serde_json::from_str(r#"{"immutable": true}"#).unwrap();
        assert!(immutable_field("", "ConfigMap", "data.a", &sealed).is_some());
        assert!(immutable_field("", "ConfigMap", "data.a", &Value::Null).is_none());
    }
}
