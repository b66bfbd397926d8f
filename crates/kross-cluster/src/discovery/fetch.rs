//! Turns the cluster's answers to "what do you serve" into a table: two requests where the server sums it up itself, one per
//! group and version where it does not.

use http::StatusCode;
use kross_api::Operation;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Table;
use super::kind::ApiKind;
use crate::client::{ApiRequest, ClusterClient, JSON};
use crate::error::{ApiError, Attempt};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Either form of the answer, since a server that does not know the first gives the second.
#[derive(Deserialize)]
struct Root {
    #[serde(default)]
    kind: String,
    /// Aggregated: groups with all their versions and resources.
    #[serde(default)]
    items: Vec<Group>,
    /// The core group: versions.
    #[serde(default)]
    versions: Vec<String>,
    /// The other groups.
    #[serde(default)]
    groups: Vec<OldGroup>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Default, Deserialize)]
struct GroupMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
    #[serde(default)]
    resources: Vec<GroupResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
struct GroupResource {
    resource: String,
    #[serde(default, rename = "responseKind")]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Subresource {
    #[serde(default)]
    subresource: String,
}

#[derive(Deserialize)]
struct OldGroup {
    name: String,
    #[serde(default)]
    versions: Vec<OldVersion>,
    #[serde(default, rename = "preferredVersion")]
    preferred: Option<OldVersion>,
}

#[derive(Deserialize)]
struct OldVersion {
    version: String,
}

#[derive(Deserialize)]
struct OldResources {
    #[serde(default)]
    resources: Vec<OldResource>,
}

#[derive(Deserialize)]
struct OldResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

pub(super) async fn table(client: &ClusterClient) -> Result<Table, ApiError> {
    let (core, groups) = futures::try_join!(fetch::<Root>(client, "/api"), fetch::<Root>(client, "/apis"))?;
    let mut table = Table::default();
    for root in [core, groups] {
        if root.kind == "APIGroupDiscoveryList" {
            root.items.into_iter().for_each(|group| add_group(&mut table, group));
        } else {
            add_old_groups(client, &mut table, root).await;
        }
    }
    Ok(table)
}

fn add_group(table: &mut Table, group: Group) {
    let name = group.metadata.name;
    for version in group.versions {
        if version.freshness == "Stale" {
            table.unavailable.insert(name.as_str().into());
        }
        for resource in version.resources {
            let Some(kind) = resource.response_kind.filter(|kind| !kind.kind.is_empty()) else { continue };
            table.add(ApiKind {
                group: name.as_str().into(),
                version: version.version.as_str().into(),
                kind: kind.kind.into(),
                plural: resource.resource.into(),
                namespaced: resource.scope == "Namespaced",
                has_status: resource.subresources.iter().any(|sub| sub.subresource == "status"),
                verbs: resource.verbs.into_iter().map(Into::into).collect(),
            });
        }
    }
}

async fn add_old_groups(client: &ClusterClient, table: &mut Table, root: Root) {
    let core = root.versions.into_iter().map(|version| (String::new(), version));
    let others = root.groups.into_iter().flat_map(|group| {
        let OldGroup { name, mut versions, preferred } = group;
        // Sorting is stable: the preferred version goes first, the others keep the server's order.
        versions
            .sort_by_key(|one| preferred.as_ref().is_none_or(|preferred| preferred.version != one.version));
        versions.into_iter().map(move |one| (name.clone(), one.version))
    });
    for (group, version) in core.chain(others) {
        let path =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match fetch::<OldResources>(client, &path).await {
            Ok(list) => add_old_resources(table, &group, &version, list),
            Err(_) => drop(table.unavailable.insert(group.into())),
        }
    }
}

fn add_old_resources(table: &mut Table, group: &str, version: &str, list: OldResources) {
    let statuses: Vec<String> = list
        .resources
        .iter()
        .filter_map(|resource| resource.name.strip_suffix("/status").map(str::to_owned))
        .collect();
    for resource in list.resources {
        if resource.name.contains('/') {
            continue;
        }
        table.add(ApiKind {
            group: group.into(),
            version: version.into(),
            kind: resource.kind.into(),
            has_status: statuses.contains(&resource.name),
            plural: resource.name.into(),
            namespaced: resource.namespaced,
            verbs: resource.verbs.into_iter().map(Into::into).collect(),
        });
    }
}

async fn fetch<T: DeserializeOwned>(client: &ClusterClient, path: &str) -> Result<T, ApiError> {
    let attempt = || Attempt {
        cluster: client.cluster().clone(),
        operation: Operation::Get,
        target: format!("the list of kinds at `{path}`"),
    };
    let accept = if matches!(path, "/api" | "/apis") { AGGREGATED } else { JSON };
    let request = ApiRequest { accept, ..ApiRequest::list(path.to_owned()) };
    let response =
        client.exchange(request).await.map_err(|error| ApiError::from_transport(attempt(), &error))?;
    if response.status != StatusCode::OK {
        return Err(ApiError::from_response(attempt(), &response));
    }
    serde_json::from_slice(&response.body).map_err(|_| {
        ApiError::new(attempt(), kross_api::FailureReason::ServerError, "the answer is no list of kinds")
    })
}
