//! Generates the CustomResourceDefinitions of the wire types, and their YAML files.

mod reference;
mod structural;
mod text;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value as Json, json};

pub use reference::api_markdown;
pub(crate) use structural::structural_schema;
pub use text::to_yaml;

use crate::workload::first_version;
use crate::{
    ClusterConnection, ClusterConnectionSpec, ClusterConnectionStatus, GraphRevision, GraphRevisionSpec,
    GraphRevisionStatus, KubernetesApplication, KubernetesApplicationResource,
    KubernetesApplicationResourceSpec, KubernetesApplicationResourceStatus, KubernetesApplicationSpec,
    KubernetesApplicationStatus, KubernetesCluster, KubernetesClusterClass, KubernetesClusterClassSpec,
    KubernetesClusterSpec, KubernetesClusterStatus, KubernetesTarget, KubernetesTargetSpec,
    KubernetesTargetStatus, ResourceGraphDefinition, ResourceGraphDefinitionSpec,
    ResourceGraphDefinitionStatus,
};

/// Every CustomResourceDefinition of this project, in installation order.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut all = graph_crds();
    all.push(connection_crd());
    all.extend(target_crds());
    all
}

/// The CustomResourceDefinitions that graphs need.
#[must_use]
pub fn graph_crds() -> Vec<CustomResourceDefinition> {
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

/// The CustomResourceDefinition of the state of clusters. The controller runs without it, and then publishes none.
#[must_use]
pub fn connection_crd() -> CustomResourceDefinition {
    let connection = root_schema::<ClusterConnectionSpec, ClusterConnectionStatus>(
        "The connection of the controller to a remote cluster. The controller writes it; nobody else needs to.",
    );
    with_schema(ClusterConnection::crd(), &connection)
}

/// The CustomResourceDefinitions of published and claimed clusters and of applications, which can be left out.
#[must_use]
pub fn target_crds() -> Vec<CustomResourceDefinition> {
    let target = root_schema::<KubernetesTargetSpec, KubernetesTargetStatus>(
        "A Kubernetes cluster that is published into a namespace, where applications and graphs can use it.",
    );
    let resource = root_schema::<KubernetesApplicationResourceSpec, KubernetesApplicationResourceStatus>(
        "An object in the cluster of a KubernetesTarget.",
    );
    let claim = root_schema::<KubernetesClusterSpec, KubernetesClusterStatus>(
        "A claim of a Kubernetes cluster. Once it is bound, the cluster is published into its namespace.",
    );
    let mut class = root_schema::<KubernetesClusterClassSpec, KubernetesClusterClassSpec>(
        "A template of managed resources that KubernetesCluster claims provision.",
    );
    // A class has no status.
    class.get_mut("properties").and_then(Json::as_object_mut).and_then(|fields| fields.remove("status"));
    vec![
        with_schema(KubernetesTarget::crd(), &target),
        application_crd(),
        with_schema(KubernetesApplicationResource::crd(), &resource),
        with_schema(KubernetesCluster::crd(), &claim),
        with_schema(KubernetesClusterClass::crd(), &class),
    ]
}

/// Applications are stored as `v1alpha2`. `v1alpha1` is served too, to refuse the field that was renamed.
fn application_crd() -> CustomResourceDefinition {
    let schema = root_schema::<KubernetesApplicationSpec, KubernetesApplicationStatus>(
        "A set of Kubernetes objects that are scheduled to a KubernetesTarget of the same namespace.",
    );
    let mut crd = with_schema(KubernetesApplication::crd(), &schema);
    let mut first = schema;
    if let Some(spec) = first.pointer_mut("/properties/spec") {
        *spec = first_version(spec.take());
    }
    let mut older = with_schema(KubernetesApplication::crd(), &first);
    if let Some(mut version) = older.spec.versions.pop() {
        version.name = "v1alpha1".to_owned();
        version.storage = false;
        crd.spec.versions.push(version);
    }
    crd
}

/// The YAML text of one CustomResourceDefinition, with sorted keys.
#[must_use]
pub fn crd_yaml(crd: &CustomResourceDefinition) -> String {
    serde_json::to_value(crd).map(|crd| to_yaml(&crd)).unwrap_or_default()
}

/// CustomResourceDefinitions as one YAML stream.
#[must_use]
pub fn crds_yaml(crds: &[CustomResourceDefinition]) -> String {
    crds.iter().map(|crd| format!("---\n{}", crd_yaml(crd))).collect()
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
