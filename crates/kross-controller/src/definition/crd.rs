//! Compares the CRD that a graph desires with the one that exists, and decides whether to create or update it.

use kross_api::labels;
use kross_cluster::StoredObject;
use kross_schema::compatibility::compare_crds;
use kross_value::{Object, Value};

use super::error::{DefinitionError, Followed};

/// What to do with a CRD.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// It does not exist.
    Create(Value),
    /// It differs: a merge patch for exactly the version that was compared.
    Update(Value),
    /// It is up to date.
    Keep,
}

/// The CRD of a graph with the labels of its owner.
pub(super) fn desired(crd: &Value, ownership: &Object, definition: &StoredObject) -> Value {
    let mut crd = crd.clone();
    let mut own_labels =
        crd.at(&["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in ownership.iter() {
        own_labels.insert(key.as_str(), value.clone());
    }
    own_labels.insert(labels::DEFINITION_ID, definition.uid().clone().into());
    own_labels.insert(labels::DEFINITION_NAME, definition.name().clone().into());
    if let Some(metadata) = crd.as_object_mut().and_then(|crd| crd.get_mut("metadata")?.as_object_mut()) {
        metadata.insert("labels", own_labels.into());
    }
    crd
}

/// Whether a CRD belongs to the definition of this name.
pub(super) fn is_owned_by(crd: &StoredObject, definition: &str) -> bool {
    crd.label(labels::OWNED) == Some(labels::OWNED_TRUE)
        && crd.label(labels::DEFINITION_NAME) == Some(definition)
}

/// Decides what to do with a CRD.
///
/// # Errors
/// The CRD has another owner, is being deleted, or has a breaking change that is not allowed.
pub(super) fn decide(
    existing: Option<&StoredObject>,
    desired: &Value,
    definition: &str,
    allow_breaking: bool,
) -> Result<Action, DefinitionError> {
    let Some(existing) = existing else { return Ok(Action::Create(desired.clone())) };
    let crd = existing.name().to_string();
    if existing.label(labels::OWNED) != Some(labels::OWNED_TRUE) {
        return Err(DefinitionError::ForeignCrd { crd });
    }
    if !is_owned_by(existing, definition) {
        let owner = existing.label(labels::DEFINITION_NAME).unwrap_or_default().to_owned();
        return Err(DefinitionError::OtherOwner { crd, owner });
    }
    if existing.deletion_timestamp().is_some() {
        return Err(DefinitionError::CrdDeleting { crd });
    }
    let report = compare_crds(existing.value(), desired);
    if report.is_empty() {
        return Ok(Action::Keep);
    }
    if !report.is_compatible() && !allow_breaking {
        let (report, followed) = (report.to_string(), Followed::default());
        return Err(DefinitionError::Breaking { crd, report, followed });
    }
    Ok(Action::Update(merge_patch(existing, desired)))
}

/// Whether a desired CRD is the one that exists, without breaking changes.
pub(super) fn fits(existing: &StoredObject, desired: &Value) -> bool {
    desired.at(&["metadata", "name"]).and_then(Value::as_str) == Some(existing.name())
        && compare_crds(existing.value(), desired).is_compatible()
}

/// Replaces the schema of the status in a desired CRD by that of the one that exists. If the schemas of a cluster are
/// unknown, the types of status fields are unknown, and that is no reason to change them. Nothing else depends on clusters.
pub(super) fn keep_status(desired: &mut Value, existing: &Value) {
    const PROPERTIES: [&str; 3] = ["schema", "openAPIV3Schema", "properties"];
    let existing = existing.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    let Some(spec) = desired.as_object_mut().and_then(|crd| crd.get_mut("spec")?.as_object_mut()) else {
        return;
    };
    let mut versions = spec.get("versions").and_then(Value::as_list).unwrap_or_default().to_vec();
    for version in &mut versions {
        let Some(same) = existing.iter().find(|existing| existing.get("name") == version.get("name")) else {
            continue;
        };
        let mut properties = version.as_object_mut();
        for field in PROPERTIES {
            properties = properties.and_then(|object| object.get_mut(field)?.as_object_mut());
        }
        let Some(properties) = properties else { continue };
        match same.at(&PROPERTIES).and_then(|all| all.get("status")) {
            Some(status) => properties.insert("status", status.clone()),
            None => properties.remove("status"),
        };
    }
    spec.insert("versions", versions.into());
}

/// A merge patch of all fields that a graph sets. Names that it does not set are removed.
fn merge_patch(existing: &StoredObject, desired: &Value) -> Value {
    let mut metadata = Object::new();
    metadata.insert("resourceVersion", existing.resource_version().clone().into());
    for map in ["labels", "annotations"] {
        if let Some(entries) = desired.at(&["metadata", map]) {
            metadata.insert(map, entries.clone());
        }
    }
    let mut spec = desired.get("spec").cloned().unwrap_or(Value::Null);
    if let Some(names) = spec.as_object_mut().and_then(|spec| spec.get_mut("names")?.as_object_mut()) {
        for name in ["shortNames", "categories"] {
            if !names.contains_key(name) {
                names.insert(name, Value::Null);
            }
        }
    }
    Value::object([("metadata", metadata.into()), ("spec", spec)])
}

#[cfg(test)]
mod tests {
    use kross_cluster::read_object;
    use serde_json::{Value as Json, json};

    use super::*;

    fn wanted(fields: &Json) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "webs.kro.run"},
            "spec": {
                "group": "kro.run", "scope": "Namespaced",
                "names": {"kind": "Web", "plural": "webs", "singular": "web", "listKind": "WebList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": fields}}}}}],
            },
        })
        .into()
    }

    fn stored(crd: &Value, changes: impl FnOnce(&mut Json)) -> StoredObject {
        let mut crd = Json::from(crd);
        crd["metadata"]["uid"] = json!("crd");
        crd["metadata"]["resourceVersion"] = json!("5");
        changes(&mut crd);
        read_object(crd.to_string().as_bytes()).unwrap()
    }

    fn owner(name: &str) -> StoredObject {
        let owner = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": name, "uid": "rgd", "resourceVersion": "1"}});
        read_object(owner.to_string().as_bytes()).unwrap()
    }

    fn labelled(fields: &Json) -> Value {
        let ownership: Object = [("kro.run/owned", Value::from("true"))].into_iter().collect();
        desired(&wanted(fields), &ownership, &owner("web"))
    }

    #[test]
    fn a_missing_crd_is_created_with_its_owners_labels() {
        let desired = labelled(&json!({}));
        assert_eq!(decide(None, &desired, "web", false).unwrap(), Action::Create(desired.clone()));
        let label = |name: &str| desired.at(&["metadata", "labels", name]).and_then(Value::as_str);
        assert_eq!(label("kro.run/resource-graph-definition-name"), Some("web"));
        assert_eq!(label("kro.run/resource-graph-definition-id"), Some("rgd"));
    }

    #[test]
    fn fields_that_the_server_adds_are_no_change() {
        let desired = labelled(&json!({"size": {"type": "integer"}}));
        let existing = stored(&desired, |crd| {
            crd["spec"]["conversion"] = json!({"strategy": "None"});
            crd["status"] = json!({"storedVersions": ["v1"]});
            crd["metadata"]["generation"] = json!(1);
        });
        assert_eq!(decide(Some(&existing), &desired, "web", false).unwrap(), Action::Keep);
    }

    #[test]
    fn a_crd_of_another_owner_is_not_updated() {
        let desired = labelled(&json!({}));
        let foreign = stored(&desired, |crd| crd["metadata"]["labels"] = json!({}));
        assert_eq!(
            decide(Some(&foreign), &desired, "web", true).unwrap_err().to_string(),
            "failed to update CRD webs.kro.run: CRD already exists and is not owned by KRO"
        );
        let other = stored(&desired, |crd| {
            crd["metadata"]["labels"]["kro.run/resource-graph-definition-name"] = json!("shop");
        });
        assert_eq!(
            decide(Some(&other), &desired, "web", true).unwrap_err().to_string(),
            "failed to update CRD webs.kro.run: CRD is owned by another ResourceGraphDefinition shop"
        );
    }

    #[test]
    fn breaking_changes_need_the_annotation() {
        let existing = stored(&labelled(&json!({"size": {"type": "integer"}})), |_| {});
        let desired = labelled(&json!({"size": {"type": "string"}}));
        let error = decide(Some(&existing), &desired, "web", false).unwrap_err().to_string();
        assert!(error.starts_with("cannot update CRD webs.kro.run: breaking changes detected: "), "{error}");
        let Action::Update(patch) = decide(Some(&existing), &desired, "web", true).unwrap() else { panic!() };
        assert_eq!(patch.at(&["metadata", "resourceVersion"]), Some(&"5".into()));
        assert_eq!(patch.at(&["spec", "names", "shortNames"]), Some(&Value::Null));
    }

    #[test]
    fn an_unknown_status_is_no_breaking_change_but_a_removed_field_is() {
        let status = |crd: &mut Json, schema: Json| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = schema;
        };
        let existing = stored(&labelled(&json!({"size": {"type": "integer"}})), |crd| {
            status(crd, json!({"type": "object", "properties": {"ready": {"type": "boolean"}}}));
        });
        let unknown = |fields: Json| {
            let mut crd = Json::from(&labelled(&fields));
            status(&mut crd, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
            Value::from(crd)
        };
        let mut same = unknown(json!({"size": {"type": "integer"}}));
        assert!(matches!(decide(Some(&existing), &same, "web", false), Ok(Action::Update(_))));
        keep_status(&mut same, existing.value());
        assert_eq!(decide(Some(&existing), &same, "web", false).unwrap(), Action::Keep);
        let mut renamed = unknown(json!({"width": {"type": "integer"}}));
        keep_status(&mut renamed, existing.value());
        assert!(!fits(&existing, &renamed));
    }

    #[test]
    fn a_definition_with_a_new_uid_takes_over_its_crd() {
        let desired = labelled(&json!({}));
        let existing = stored(&desired, |crd| {
            crd["metadata"]["labels"]["kro.run/resource-graph-definition-id"] = json!("before");
        });
        assert!(matches!(decide(Some(&existing), &desired, "web", false), Ok(Action::Update(_))));
    }
}
