//! Reads an application, a claim or a target from the hub, with the objects that are shown with it. What the caller may not read
//! is left out.

use std::sync::Arc;

use kross_api::{COMPUTE_GROUP, WORKLOAD_GROUP};
use kross_cluster::{ApiKind, ClusterClient};
use serde_json::Value as Json;

use super::workload::Workload;
use crate::hub::find_kind;

/// Whether objects of a kind are drawn with the objects around them. Resources of applications are drawn as instances.
pub(super) fn is_workload(kind: &ApiKind) -> bool {
    matches!(
        (&*kind.group, &*kind.kind),
        (WORKLOAD_GROUP, "KubernetesTarget" | "KubernetesApplication") | (COMPUTE_GROUP, "KubernetesCluster")
    )
}

/// The kinds of the objects that are shown with an object of a kind.
pub(super) fn related_kinds(client: &ClusterClient, kind: &ApiKind) -> Vec<Arc<ApiKind>> {
    let names: &[&str] = match &*kind.kind {
        "KubernetesApplication" => &["kubernetestargets", "kubernetesapplicationresources"],
        "KubernetesCluster" => &["kubernetestargets"],
        _ => &["kubernetesapplications", "kubernetesapplicationresources"],
    };
    let kinds = client.discovery().kinds();
    names.iter().filter_map(|name| find_kind(&kinds, &format!("{name}.{WORKLOAD_GROUP}")).ok()).collect()
}

/// Reads what is shown with an object.
pub(super) async fn load(client: &ClusterClient, kind: &ApiKind, object: Json) -> Workload {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str).unwrap_or_default().to_owned();
    let (namespace, name, uid) = (text("/metadata/namespace"), text("/metadata/name"), text("/metadata/uid"));
    let mut workload = Workload::default();
    for related in related_kinds(client, kind) {
        let objects = list(client, &related, &namespace).await;
        let uses = |object: &Json| target_of(object) == Some(name.as_str());
        match (&*related.kind, &*kind.kind) {
            ("KubernetesTarget", _) => workload.targets = objects,
            ("KubernetesApplication", _) => {
                workload.applications = objects.into_iter().filter(uses).collect();
            }
            (_, "KubernetesApplication") => {
                let is_owned = |object: &Json| owners(object).any(|owner| owner == uid);
                workload.resources = objects.into_iter().filter(is_owned).collect();
            }
            // The resources of applications stand for their applications.
            _ => {
                let is_alone = |object: &Json| uses(object) && owners(object).next().is_none();
                workload.resources = objects.into_iter().filter(is_alone).collect();
            }
        }
    }
    let path = if *kind.kind == *"KubernetesCluster" { "/spec/resourceRef" } else { "/spec/clusterRef" };
    workload.managed = managed(client, object.pointer(path)).await;
    workload.object = object;
    workload
}

async fn list(client: &ClusterClient, kind: &ApiKind, namespace: &str) -> Vec<Json> {
    let listed = client.list(kind, Some(namespace), None).await.unwrap_or_default();
    listed.iter().filter_map(|object| serde_json::to_value(object.value()).ok()).collect()
}

/// The managed resource that a reference names.
async fn managed(client: &ClusterClient, reference: Option<&Json>) -> Option<Json> {
    let text = |field: &str| reference?.get(field)?.as_str();
    let group = text("apiVersion")?.split_once('/').map_or("", |(group, _)| group);
    let kind = client.kind(group, None, text("kind")?).await.ok()?;
    let found = client.get(&kind, None, text("name")?).await.ok()?;
    serde_json::to_value(found.value()).ok()
}

fn target_of(object: &Json) -> Option<&str> {
    object.pointer("/spec/targetRef/name")?.as_str()
}

fn owners(object: &Json) -> impl Iterator<Item = &str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Json::as_array);
    owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
}
