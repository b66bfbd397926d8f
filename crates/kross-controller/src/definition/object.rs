//! A definition as a reconcile uses it: the stored object, parsed once.

use std::sync::Arc;

use kross_api::{
    ResourceGraphDefinitionSpec, ResourceGraphDefinitionStatus, annotations, crd_name, spec_hash,
};
use kross_cluster::StoredObject;
use kross_schema::GroupVersionKind;
use kross_value::{Text, Value};
use serde::de::DeserializeOwned;

use crate::graphs::NamedKinds;

/// A definition, parsed.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) object: Arc<StoredObject>,
    /// Its spec, or why it cannot be parsed.
    pub(super) spec: Result<ResourceGraphDefinitionSpec, String>,
    pub(super) status: ResourceGraphDefinitionStatus,
}

impl Definition {
    pub(super) fn read(object: Arc<StoredObject>) -> Self {
        let spec = part(&object, "spec");
        // A status that cannot be parsed is not ours, and is overwritten.
        let status = part(&object, "status").unwrap_or_default();
        Self { object, spec, status }
    }

    pub(super) fn name(&self) -> &Text {
        self.object.name()
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.object.deletion_timestamp().is_some()
    }

    pub(super) fn allows_breaking_changes(&self) -> bool {
        self.object.annotation(annotations::ALLOW_BREAKING_CHANGES) == Some("true")
    }

    pub(super) fn deletes_instances(&self) -> bool {
        self.object.annotation(annotations::DELETE_INSTANCES) == Some("true")
    }
}

/// Parses a part of an object.
pub(super) fn part<T: DeserializeOwned>(object: &StoredObject, name: &str) -> Result<T, String> {
    let json = object.value().get(name).map(serde_json::Value::from).unwrap_or_default();
    let json = if json.is_null() { serde_json::json!({}) } else { json };
    serde_json::from_value(json).map_err(|error| format!("cannot read `{name}`: {error}"))
}

/// The kinds of a spec's resources, and of its instances if their kind exists already.
pub(super) fn named_kinds(spec: &ResourceGraphDefinitionSpec) -> Vec<GroupVersionKind> {
    let text = |template: &Value, field: &str| template.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut kinds: Vec<GroupVersionKind> = spec
        .resources
        .iter()
        .filter_map(|resource| match (&resource.template, &resource.external_ref) {
            (Some(template), _) => Some((text(template, "apiVersion")?, text(template, "kind")?)),
            (None, Some(reference)) => Some((reference.api_version.clone(), reference.kind.clone())),
            (None, None) => None,
        })
        .chain(
            spec.schema
                .external_ref
                .iter()
                .map(|instance| (instance.api_version.clone(), instance.kind.clone())),
        )
        .flat_map(|(api_version, kind)| {
            // A selector may name the kind of its list.
            let items = kind.strip_suffix("List").map(|items| GroupVersionKind::new(&api_version, items));
            [Some(GroupVersionKind::new(&api_version, &kind)), items]
        })
        .flatten()
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// The kinds whose CRDs concern a definition: those that it names, and its own.
pub(super) fn kinds_of(spec: &ResourceGraphDefinitionSpec, named: &[GroupVersionKind]) -> NamedKinds {
    let own = (Text::from(spec.schema.group()), Text::from(spec.schema.kind.as_str()));
    named.iter().map(|kind| (kind.group.clone(), kind.kind.clone())).chain([own]).collect()
}

/// The name of the CRD that a definition owns; none if its kind exists already.
pub(super) fn own_crd(spec: &ResourceGraphDefinitionSpec) -> Option<String> {
    spec.schema.external_ref.is_none().then(|| crd_name(&spec.schema.kind, spec.schema.group()))
}

/// The hash that changes with a spec.
pub(super) fn hash(spec: &ResourceGraphDefinitionSpec) -> Text {
    spec_hash(spec).into()
}
