//! Reads what a cluster serves: two requests with aggregated discovery, otherwise one per group and version.

use std::collections::HashSet;

use http::StatusCode;
use kross_api::{FailureReason, Operation};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::kind::{ApiKind, is_path_name, version_path};
use super::{Table, add};
use crate::client::{ApiRequest, ClusterClient, JSON};
use crate::error::{ApiError, Attempt};
use crate::offload;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// A cluster that serves more kinds, in all versions together, is not read. Large installations have about 5,000.
const MAX_KINDS: usize = 50_000;
/// The same for groups and versions of legacy discovery, each of which takes a request.
const MAX_LEGACY_VERSIONS: usize = 1000;
/// Legacy discovery may take this many times as long as one of its requests.
const MAX_LEGACY_TIMES: u32 = 10;

/// Where an API server says whether it has read everything that it serves.
const READINESS: &str = "/readyz";

/// The kind of an aggregated document.
const AGGREGATED_KIND: &str = "APIGroupDiscoveryList";

/// Aggregated or legacy discovery: a server that does not support the former returns the latter.
#[derive(Deserialize)]
struct Root {
    #[serde(default)]
    kind: String,
    /// Aggregated: groups with all their versions and resources.
    #[serde(default)]
    items: Vec<Group>,
    /// Legacy: the versions of the core group.
    #[serde(default)]
    versions: Vec<String>,
    /// Legacy: the other groups.
    #[serde(default)]
    groups: Vec<LegacyGroup>,
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
struct LegacyGroup {
    name: String,
    #[serde(default)]
    versions: Vec<LegacyVersion>,
    #[serde(default, rename = "preferredVersion")]
    preferred: Option<LegacyVersion>,
}

#[derive(Deserialize)]
struct LegacyVersion {
    version: String,
}

#[derive(Deserialize)]
struct LegacyResources {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize)]
struct LegacyResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

pub(super) async fn table(client: &ClusterClient) -> Result<Table, ApiError> {
    let (core, groups) = futures::try_join!(fetch_root(client, "/api"), fetch_root(client, "/apis"))?;
    let mut table = Table::default();
    for root in [core, groups] {
        if root.kind == AGGREGATED_KIND {
            root.items.into_iter().for_each(|group| add_group(&mut table, group));
        } else {
            add_legacy_groups(client, &mut table, root).await?;
        }
        check_kinds(client, &table)?;
    }
    Ok(table)
}

/// Fails if the cluster serves too many kinds.
fn check_kinds(client: &ClusterClient, table: &Table) -> Result<(), ApiError> {
    let kinds: usize = table.kinds.values().chain(table.stale.values()).map(Vec::len).sum();
    if kinds > MAX_KINDS {
        return Err(too_many(client, &format!("the cluster serves more than {MAX_KINDS} kinds")));
    }
    Ok(())
}

fn too_many(client: &ClusterClient, problem: &str) -> ApiError {
    ApiError::over_limit(attempt(client, "/apis"), problem)
}

/// A document that lists nothing, or is of another kind, is not that of an API server: every one of them serves something.
fn is_complete(root: &Root, path: &str) -> bool {
    match (root.kind.as_str(), path) {
        (AGGREGATED_KIND, _) => !root.items.is_empty(),
        ("APIVersions", "/api") => !root.versions.is_empty(),
        ("APIGroupList", "/apis") => !root.groups.is_empty(),
        _ => false,
    }
}

async fn fetch_root(client: &ClusterClient, path: &str) -> Result<Root, ApiError> {
    let root: Root = fetch(client, path).await?;
    if is_complete(&root, path) {
        return Ok(root);
    }
    Err(ApiError::unexpected_response(attempt(client, path), "the discovery document lists nothing"))
}

fn add_group(table: &mut Table, group: Group) {
    let name = group.metadata.name;
    if !(name.is_empty() || is_path_name(&name)) {
        return;
    }
    for version in group.versions {
        let is_stale = version.freshness == "Stale";
        // A version without any kind is one whose kinds the aggregator has not read yet.
        if is_stale || version.resources.is_empty() {
            table.unavailable.insert(name.as_str().into());
        }
        let kinds = if is_stale { &mut table.stale } else { &mut table.kinds };
        for resource in version.resources {
            let Some(kind) = resource.response_kind.filter(|kind| !kind.kind.is_empty()) else { continue };
            let kind = ApiKind {
                group: name.as_str().into(),
                version: version.version.as_str().into(),
                kind: kind.kind.into(),
                plural: resource.resource.into(),
                namespaced: resource.scope == "Namespaced",
                has_status: resource.subresources.iter().any(|sub| sub.subresource == "status"),
            };
            add(kinds, kind);
        }
    }
}

async fn add_legacy_groups(client: &ClusterClient, table: &mut Table, root: Root) -> Result<(), ApiError> {
    let core = root.versions.into_iter().map(|version| (String::new(), version));
    let others = root.groups.into_iter().flat_map(|group| {
        let LegacyGroup { name, mut versions, preferred } = group;
        // A stable sort: the preferred version first, the others in the order of the server.
        versions
            .sort_by_key(|one| preferred.as_ref().is_none_or(|preferred| preferred.version != one.version));
        versions.into_iter().map(move |one| (name.clone(), one.version))
    });
    let versions: Vec<(String, String)> = core
        .chain(others)
        .filter(|(group, version)| (group.is_empty() || is_path_name(group)) && is_path_name(version))
        .take(MAX_LEGACY_VERSIONS + 1)
        .collect();
    if versions.len() > MAX_LEGACY_VERSIONS {
        let problem = format!("the cluster serves more than {MAX_LEGACY_VERSIONS} groups and versions");
        return Err(too_many(client, &problem));
    }
    let longest = client.options().list_timeout.saturating_mul(MAX_LEGACY_TIMES);
    let began = Instant::now();
    for (group, version) in versions {
        if began.elapsed() > longest {
            let problem = format!("discovery takes longer than {}s", longest.as_secs());
            return Err(too_many(client, &problem));
        }
        check_kinds(client, table)?;
        let path = version_path(&group, &version);
        match fetch::<LegacyResources>(client, &path).await {
            Ok(list) if list.kind == "APIResourceList" && !list.resources.is_empty() => {
                add_legacy_resources(table, &group, &version, list);
            }
            Ok(_) | Err(_) => drop(table.unavailable.insert(group.into())),
        }
    }
    Ok(())
}

fn add_legacy_resources(table: &mut Table, group: &str, version: &str, list: LegacyResources) {
    let statuses: HashSet<String> = list
        .resources
        .iter()
        .filter_map(|resource| resource.name.strip_suffix("/status").map(str::to_owned))
        .collect();
    for resource in list.resources {
        let kind = ApiKind {
            group: group.into(),
            version: version.into(),
            kind: resource.kind.into(),
            has_status: statuses.contains(&resource.name),
            plural: resource.name.into(),
            namespaced: resource.namespaced,
        };
        add(&mut table.kinds, kind);
    }
}

/// Fails if an API server says that it is not ready. One that does not tell counts as ready: the credential may not ask.
pub(super) async fn readiness(client: &ClusterClient) -> Result<(), ApiError> {
    let attempt = || Attempt { target: format!("`{READINESS}`"), ..attempt(client, READINESS) };
    let response = client.exchange(ApiRequest::get(READINESS.to_owned())).await;
    let response = response.map_err(|error| ApiError::from_transport(attempt(), &error))?;
    if response.status.is_server_error() || response.status == StatusCode::TOO_MANY_REQUESTS {
        let code = response.status.as_u16();
        let problem = format!(
            "the API server is not ready (`{READINESS}` answers {code}), and may serve kinds that it does not list yet"
        );
        return Err(ApiError::new(attempt(), FailureReason::ServerError, &problem));
    }
    Ok(())
}

fn attempt(client: &ClusterClient, path: &str) -> Attempt {
    Attempt {
        cluster: client.cluster().clone(),
        operation: Operation::Get,
        target: format!("discovery document `{path}`"),
    }
}

async fn fetch<T: DeserializeOwned + Send + 'static>(
    client: &ClusterClient,
    path: &str,
) -> Result<T, ApiError> {
    let accept = if matches!(path, "/api" | "/apis") { AGGREGATED } else { JSON };
    let request = ApiRequest { accept, ..ApiRequest::list(path.to_owned()) };
    // Everybody shares the result, so it must not depend on whom the client impersonates.
    let response = client
        .as_itself()
        .exchange(request)
        .await
        .map_err(|error| ApiError::from_transport(attempt(client, path), &error))?;
    if response.status != StatusCode::OK {
        return Err(ApiError::from_response(attempt(client, path), &response));
    }
    let parsed = offload::parse(response.body, |bytes| serde_json::from_slice(bytes).ok()).await;
    parsed.ok().flatten().ok_or_else(|| {
        ApiError::unexpected_response(attempt(client, path), "cannot parse the discovery document")
    })
}
