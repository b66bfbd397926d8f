//! Generates the CustomResourceDefinitions of the wire types, and their YAML files.

mod structural;
mod text;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value as Json, json};

pub(crate) use structural::structural_schema;
pub use text::to_yaml;

use crate::{
    GraphRevision, GraphRevisionSpec, GraphRevisionStatus, ResourceGraphDefinition,
    ResourceGraphDefinitionSpec, ResourceGraphDefinitionStatus,
};

/// Every CustomResourceDefinition of this project, in installation order.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let definition = root_schema::<ResourceGraphDefinitionSpec, ResourceGraphDefinitionStatus>(
        "A graph of objects over any number of clusters, and the API whose instances create it.",
    );
    let revision = root_schema::<GraphRevisionSpec, GraphRevisionStatus>(
        "An immutable snapshot of one revision of a ResourceGraphDefinition.",
    );
    [(ResourceGraphDefinition::crd(), definition), (GraphRevision::crd(), revision)]
        .into_iter()
        .map(|(crd, schema)| with_schema(crd, &schema))
        .collect()
}

/// The YAML text of one CustomResourceDefinition, with sorted keys.
#[must_use]
pub fn crd_yaml(crd: &CustomResourceDefinition) -> String {
    serde_json::to_value(crd).map(|crd| to_yaml(&crd)).unwrap_or_default()
}

/// All CustomResourceDefinitions as one YAML stream.
#[must_use]
pub fn crds_yaml() -> String {
    crds().iter().map(|crd| format!("---\n{}", crd_yaml(crd))).collect()
}

/// Files of the repository that are generated from the types: path from the root, and contents.
#[must_use]
pub fn generated_files() -> Vec<(String, String)> {
    let path =
        |crd: &CustomResourceDefinition| format!("crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
    crds().iter().map(|crd| (path(crd), crd_yaml(crd))).collect()
}

fn root_schema<Spec: JsonSchema, Status: JsonSchema>(description: &str) -> Json {
    json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "API version of the object."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": structural_schema::<Spec>(),
            "status": structural_schema::<Status>(),
        },
    })
}

/// The derive macro generates everything but the schema: it does not support schemas with `anyOf`.
fn with_schema(mut crd: CustomResourceDefinition, schema: &Json) -> CustomResourceDefinition {
    let schema = serde_json::from_value(json!({"openAPIV3Schema": schema})).ok();
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for version in &mut crd.spec.versions {
        version.schema.clone_from(&schema);
    }
    crd
}
