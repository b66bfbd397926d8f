//! The kinds that the controller itself uses. They are constants, so that it starts without discovery.

use std::sync::Arc;

use kross_cluster::ApiKind;
use kross_value::Value;

/// Group and kind of definitions.
pub(crate) const DEFINITION: (&str, &str) = ("kro.run", "ResourceGraphDefinition");
/// Group and kind of revisions.
pub(crate) const REVISION: (&str, &str) = ("internal.kro.run", "GraphRevision");
/// Group and kind of CRDs.
pub(crate) const CRD: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// Group and kind of published clusters.
pub(crate) const TARGET: (&str, &str) = (kross_api::WORKLOAD_GROUP, "KubernetesTarget");
/// Group and kind of applications.
pub(crate) const APPLICATION: (&str, &str) = (kross_api::WORKLOAD_GROUP, "KubernetesApplication");
/// Group and kind of the resources of applications.
pub(crate) const APPLICATION_RESOURCE: (&str, &str) =
    (kross_api::WORKLOAD_GROUP, "KubernetesApplicationResource");
/// Group and kind of claims.
pub(crate) const CLAIM: (&str, &str) = (kross_api::COMPUTE_GROUP, "KubernetesCluster");
/// Group and kind of classes.
pub(crate) const CLASS: (&str, &str) = (kross_api::COMPUTE_GROUP, "KubernetesClusterClass");

pub(crate) fn definition() -> Arc<ApiKind> {
    let (group, kind) = DEFINITION;
    Arc::new(ApiKind::custom(group, "v1alpha1", kind, "resourcegraphdefinitions", false))
}

pub(crate) fn revision() -> Arc<ApiKind> {
    let (group, kind) = REVISION;
    Arc::new(ApiKind::custom(group, "v1alpha1", kind, "graphrevisions", false))
}

pub(crate) fn cluster_connection() -> Arc<ApiKind> {
    Arc::new(ApiKind::custom("kro.run", "v1alpha1", "ClusterConnection", "clusterconnections", false))
}

pub(crate) fn namespace() -> Arc<ApiKind> {
    Arc::new(ApiKind::custom("", "v1", "Namespace", "namespaces", false))
}

pub(crate) fn service_account() -> Arc<ApiKind> {
    Arc::new(ApiKind::custom("", "v1", "ServiceAccount", "serviceaccounts", true))
}

pub(crate) fn crd() -> Arc<ApiKind> {
    let (group, kind) = CRD;
    Arc::new(ApiKind::custom(group, "v1", kind, "customresourcedefinitions", false))
}

/// Group and version of an `apiVersion`. The group is empty for the core group.
pub(crate) fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// The group of an `apiVersion`; empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    group_and_version(api_version).0
}

/// The kind that a CRD serves, in its storage version.
pub(crate) fn served_by(crd: &Value) -> Option<ApiKind> {
    let text = |path: &[&str]| crd.at(path).and_then(Value::as_str);
    let versions = crd.at(&["spec", "versions"])?.as_list()?;
    let stored = |version: &&Value| version.get("storage").and_then(Value::as_bool) == Some(true);
    let version = versions.iter().find(stored).or_else(|| versions.first())?.get("name")?.as_str()?;
    Some(ApiKind::custom(
        text(&["spec", "group"])?,
        version,
        text(&["spec", "names", "kind"])?,
        text(&["spec", "names", "plural"])?,
        text(&["spec", "scope"]) != Some("Cluster"),
    ))
}

/// A CRD without its schemas, which are most of its size: enough for the CRDs of others.
pub(crate) fn outline(crd: &Value) -> Value {
    let mut outline = crd.clone();
    let versions = crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    let versions = Value::list(versions.iter().map(|version| {
        let mut version = version.clone();
        version.as_object_mut().and_then(|version| version.remove("schema"));
        version
    }));
    if let Some(spec) = outline.as_object_mut().and_then(|crd| crd.get_mut("spec")?.as_object_mut()) {
        spec.insert("versions", versions);
    }
    outline
}

/// Whether a CRD is established: the API server serves its kind.
pub(crate) fn is_established(crd: &Value) -> bool {
    condition(crd, "Established") == Some("True")
}

/// The status of one of a CRD's conditions.
pub(crate) fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a str> {
    find_condition(crd, kind)?.get("status")?.as_str()
}

/// One of a CRD's conditions.
pub(crate) fn find_condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = crd.at(&["status", "conditions"])?.as_list()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_has_the_served_kind_and_no_schema() {
        let crd = serde_json::json!({"metadata": {"name": "webs.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Web", "plural": "webs"},
            "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]}});
        let crd: Value = serde_json::from_value(crd).unwrap();
        let outline = outline(&crd);
        assert!(!outline.to_string().contains("openAPIV3Schema"), "{outline}");
        let served = |crd: &Value| format!("{:?} {}", served_by(crd), is_established(crd));
        assert_eq!(served(&outline), served(&crd));
    }
}
