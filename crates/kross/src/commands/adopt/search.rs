//! Finds the objects in remote clusters that belong to instances on the other hub, by their labels, with the kubeconfig Secrets
//! that the caller may read on this hub.

use std::sync::Arc;

use anyhow::bail;
use kross_api::{ClusterStatus, labels};
use kross_cluster::{ApiError, ApiKind, ClusterClient, StoredObject};
use tokio::task::JoinSet;

use super::decision::{Finding, Place, applysets, decide, part_of};
use super::instances::Instances;
use super::{Hubs, cluster_uid, count};
use crate::hub::{Hub, Owner, RemoteClusters};

/// What was found in all clusters.
#[derive(Debug, Default)]
pub(super) struct Searched {
    /// In the order of clusters, kinds and names.
    pub(super) findings: Vec<Finding>,
    /// How many clusters were searched.
    pub(super) clusters: usize,
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<String>,
}

/// Searches the clusters of the instances.
///
/// # Errors
/// One of the clusters is the other hub: it is not gone.
pub(super) async fn search(hub: &Hub, hubs: &Hubs, instances: &Instances) -> anyhow::Result<Searched> {
    let clusters = instances.clusters();
    if clusters.is_empty() {
        bail!("no instance uses a remote cluster; create the instances and their kubeconfig Secrets first");
    }
    let remotes = RemoteClusters::new(hub);
    let mut searched = Searched::default();
    for cluster in &clusters {
        let client = match remotes.client(cluster).await {
            Ok(client) => client,
            Err(error) => {
                searched.problems.push(error.to_string());
                continue;
            }
        };
        let uid = cluster_uid(&client).await;
        if uid.as_deref() == Some(hubs.from.as_str()) {
            bail!(
                "cluster `{}` is hub `{}` itself, and it answers; uninstall kross there first, and delete what its instances must not own",
                cluster.name,
                hubs.from
            );
        }
        search_cluster(&client, uid.as_deref(), cluster, hubs, instances, &mut searched).await;
    }
    Ok(searched)
}

async fn search_cluster(
    client: &ClusterClient,
    uid: Option<&str>,
    cluster: &ClusterStatus,
    hubs: &Hubs,
    instances: &Instances,
    searched: &mut Searched,
) {
    if let Err(error) = client.refresh_discovery().await {
        searched.problems.push(error.to_string());
        return;
    }
    searched.clusters += 1;
    let place = Place { secret: &cluster.name, uid };
    let mut lists = lists(client);
    let (mut findings, mut denied, wanted) = (Vec::new(), 0, instances.kinds());
    while let Some(ended) = lists.join_next().await {
        let Ok((kind, listed)) = ended else { continue };
        match listed {
            Ok(objects) => {
                let found = objects
                    .iter()
                    .filter_map(|object| finding(client, &kind, object, place, hubs, instances));
                findings.extend(found);
            }
            Err(error) if wanted.contains(&(kind.group.to_string(), kind.kind.to_string())) => {
                searched.problems.push(error.to_string());
            }
            // A kind that nobody can list has no objects of ours.
            Err(error) if matches!(error.code(), Some(404 | 405)) => {}
            Err(error) if error.code() == Some(403) => denied += 1,
            // Such as that of an extension API server which does not answer.
            Err(error) => searched.notes.push(format!("{} were not searched: {error}", kind.plural)),
        }
    }
    if denied > 0 {
        searched.notes.push(format!(
            "Secret `{}` may not list {} in its cluster, which were not searched",
            cluster.name,
            count(denied, "kind")
        ));
    }
    findings.sort_by_key(Finding::title);
    searched.findings.extend(findings);
}

/// What the list of a kind answered.
type List = (Arc<ApiKind>, Result<Vec<StoredObject>, ApiError>);

/// Lists the objects of all kinds that some instance owns.
fn lists(client: &ClusterClient) -> JoinSet<List> {
    let mut lists = JoinSet::new();
    // Its API server answers with lists that have no version.
    let is_listed = |kind: &Arc<ApiKind>| !(kind.group.is_empty() && *kind.kind == *"ComponentStatus");
    for kind in client.discovery().kinds().into_iter().filter(is_listed) {
        let client = client.clone();
        lists.spawn(async move {
            let selector = format!("{}={}", labels::OWNED, labels::OWNED_TRUE);
            let listed = client.list_with_outlines(&kind, None, Some(&selector)).await;
            (kind, listed)
        });
    }
    lists
}

/// What to do about an object, if it belongs to an instance on the other hub.
fn finding(
    client: &ClusterClient,
    kind: &Arc<ApiKind>,
    object: &StoredObject,
    place: Place<'_>,
    hubs: &Hubs,
    instances: &Instances,
) -> Option<Finding> {
    let json = serde_json::to_value(object.value()).ok()?;
    let owner = Owner::of(&json)?;
    let (from, to) = applysets(&owner, part_of(object.value()), hubs)?;
    let decision = decide(instances, &owner, &json, place)?;
    let (client, kind, cluster) = (client.clone(), Arc::clone(kind), place.secret.to_owned());
    Some(Finding { cluster, client, kind, object: json, owner, decision, from, to })
}
