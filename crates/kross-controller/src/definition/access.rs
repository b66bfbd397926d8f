//! Keeps `spec.access` of a definition on its CRD, which instances cannot outlive and their users cannot edit: an instance that
//! outlives its definition is deleted as the same ServiceAccount.

use std::sync::Arc;

use kross_api::{Access, Scope, annotations};
use kross_cluster::{ApiKind, Lookup, StoredObject};
use kross_graph::{Resolvers, compile_access};
use kross_schema::SchemaResolver;
use kross_value::{Object, Value};

use super::object::Definition;
use crate::context::Context;
use crate::graphs::DefinedAccess;
use crate::hub_schemas::HubSchemas;

/// Writes the `access` of a definition into the CRD that it desires.
pub(super) fn record(crd: &mut Value, definition: &Definition) {
    let access = definition.spec.as_ref().ok().and_then(|spec| spec.access.as_ref());
    if let Some(text) = access.and_then(|access| serde_json::to_string(access).ok()) {
        annotate(crd, text.into());
    }
}

/// Empties the record of a CRD that exists, where the definition has no `access` any more.
pub(super) fn keep_key(desired: &mut Value, existing: &StoredObject) {
    let is_set = desired.at(&["metadata", "annotations", annotations::ACCESS]).is_some();
    if existing.annotation(annotations::ACCESS).is_some() && !is_set {
        annotate(desired, "".into());
    }
}

fn annotate(crd: &mut Value, text: Value) {
    let Some(metadata) = crd.as_object_mut().and_then(|crd| crd.get_mut("metadata")?.as_object_mut()) else {
        return;
    };
    let mut all: Object = metadata.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    all.insert(annotations::ACCESS, text);
    metadata.insert("annotations", all.into());
}

/// What a definition asks for whose graph is not known: as it is written, else as it was last served.
pub(super) fn defined(context: &Context, definition: &Definition, kind: &ApiKind) -> DefinedAccess {
    match &definition.spec {
        Ok(spec) => compiled(context, spec.access.as_ref(), kind.namespaced),
        Err(_) => match context.crds.get(None, &format!("{}.{}", kind.plural, kind.group)) {
            Lookup::Found(crd) => recorded(context, &crd),
            Lookup::Absent => DefinedAccess::Nothing,
            Lookup::Unknown => DefinedAccess::Invalid,
        },
    }
}

/// What a definition asked for when its CRD was written.
pub(super) fn recorded(context: &Context, crd: &StoredObject) -> DefinedAccess {
    let Some(text) = crd.annotation(annotations::ACCESS).filter(|text| !text.is_empty()) else {
        return DefinedAccess::Nothing;
    };
    let namespaced = crd.value().at(&["spec", "scope"]).and_then(Value::as_str) != Some("Cluster");
    match serde_json::from_str::<Access>(text) {
        Ok(access) => compiled(context, Some(&access), namespaced),
        Err(_) => DefinedAccess::Invalid,
    }
}

fn compiled(context: &Context, access: Option<&Access>, namespaced: bool) -> DefinedAccess {
    let Some(access) = access else { return DefinedAccess::Nothing };
    let scope = if namespaced { Scope::Namespaced } else { Scope::Cluster };
    match compile_access(access, scope, &Local(&context.schemas)) {
        Some(template) => DefinedAccess::Account(Arc::new(template)),
        None => DefinedAccess::Invalid,
    }
}

/// The schemas of the hub, though an account needs none.
struct Local<'a>(&'a HubSchemas);

impl Resolvers for Local<'_> {
    fn local(&self) -> &dyn SchemaResolver {
        self.0
    }
}
