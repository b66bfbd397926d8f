//! Finds the objects of an instance in every cluster, by its inventory, as its deletion does: with the labels of the instance, and
//! with what the caller may read.

use std::collections::BTreeSet;

use kross_api::{ClusterId, ClusterStatus, GroupKind, annotations, labels};
use kross_cluster::{ApiKind, ClusterClient, ObjectKey};
use kross_plan::{ObservedObject, OwnedObject};
use serde_json::Value as Json;

use crate::hub::{Hub, InstanceView, RemoteClusters, text};

/// The objects of an instance.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) objects: Vec<OwnedObject>,
    /// What could not be looked into, and why.
    pub(super) unknown: Vec<String>,
    /// Clusters that are not connected, which would block the deletion.
    pub(super) unreachable: Vec<ClusterStatus>,
}

/// Finds the objects.
pub(super) async fn objects(hub: &Hub, instance: &Json) -> anyhow::Result<Found> {
    let view = InstanceView(instance);
    let mut found = Found::default();
    let listed = annotation_list(view, annotations::APPLYSET_GROUP_KINDS);
    let mut namespaces: BTreeSet<String> =
        annotation_list(view, annotations::APPLYSET_NAMESPACES).into_iter().collect();
    namespaces.extend(view.namespace().map(str::to_owned));
    let kinds: BTreeSet<GroupKind> = listed.iter().filter_map(|kind| GroupKind::parse(kind)).collect();
    list(&hub.client, ClusterId::local(), &kinds, &namespaces, instance, &mut found).await;
    let remotes = RemoteClusters::new(hub);
    for cluster in view.clusters() {
        let resources = view.resources();
        let here = || resources.iter().filter(|entry| entry.cluster.as_deref() == Some(&cluster.name));
        if cluster.total == 0 && here().next().is_none() {
            continue;
        }
        if !cluster.connected {
            found.unreachable.push(cluster);
            continue;
        }
        match remotes.client(&cluster).await {
            Ok(client) => {
                let kinds: BTreeSet<GroupKind> = here()
                    .filter_map(|entry| {
                        let version = entry.api_version.as_deref()?;
                        let group = version.split_once('/').map_or("", |(group, _)| group);
                        Some(GroupKind::new(group, entry.kind.as_deref()?))
                    })
                    .collect();
                let mut namespaces: BTreeSet<String> =
                    here().filter_map(|entry| entry.namespace.clone()).collect();
                namespaces.extend(view.namespace().map(str::to_owned));
                list(&client, ClusterId::new(&cluster.name), &kinds, &namespaces, instance, &mut found).await;
            }
            Err(error) => found.unknown.push(error.to_string()),
        }
    }
    Ok(found)
}

/// Lists the objects of an instance in one cluster.
async fn list(
    client: &ClusterClient,
    cluster: ClusterId,
    kinds: &BTreeSet<GroupKind>,
    namespaces: &BTreeSet<String>,
    instance: &Json,
    found: &mut Found,
) {
    let uid = text(instance, "/metadata/uid").unwrap_or_default();
    let selector = format!("{}={uid}", labels::INSTANCE_ID);
    for kind in kinds {
        let served: std::sync::Arc<ApiKind> = match client.kind(&kind.group, None, &kind.kind).await {
            Ok(served) => served,
            // A kind that is not served has no objects.
            Err(error) if error.is_kind_not_served() => continue,
            Err(error) => {
                found.unknown.push(error.to_string());
                continue;
            }
        };
        let places: Vec<Option<&str>> = match served.namespaced {
            true => namespaces.iter().map(|namespace| Some(namespace.as_str())).collect(),
            false => vec![None],
        };
        for namespace in places {
            match client.list(&served, namespace, Some(&selector)).await {
                Ok(listed) => found.objects.extend(listed.iter().map(|object| {
                    let key: ObjectKey = object.key(&cluster);
                    OwnedObject::new(key, &ObservedObject::new(object.value().clone()))
                })),
                Err(error) => found.unknown.push(error.to_string()),
            }
        }
    }
}

/// The entries of an annotation with a list.
fn annotation_list(view: InstanceView<'_>, key: &str) -> Vec<String> {
    let text = view.annotation(key).unwrap_or_default();
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}
