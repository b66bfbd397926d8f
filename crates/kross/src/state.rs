//! The state of clusters that previews begin with: definitions, instances, and the objects of instances in every cluster. Read with
//! the caller's rights, or from a folder to which it was saved.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use kross_api::{
    Authority, ClusterStatus, GroupKind, ResolvedCluster, ResolvedCredentials, SecretAddress, SyncMode,
    annotations, labels,
};
use kross_cluster::ClusterClient;
use kross_value::Value;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::hub::{Definition, Hub, InstanceView, RemoteClusters, read_object, text};

/// The file of a saved state.
const FILE: &str = "state.json";
/// What a file says that this version can read.
const FORMAT: &str = "kross-state/v1";

/// The state of clusters.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedState {
    format: String,
    /// The UID of the hub, which is part of labels of objects in remote clusters.
    pub(crate) hub_uid: String,
    /// The definitions.
    pub(crate) definitions: Vec<Json>,
    /// The instances, with their objects.
    pub(crate) instances: Vec<InstanceState>,
    /// Objects that are read: those of external references, and those that exist in the place of desired ones. By cluster.
    pub(crate) read: Vec<ReadObject>,
}

/// An instance with its objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InstanceState {
    pub(crate) instance: Json,
    /// The objects in the cluster of the instance.
    pub(crate) local: Vec<Json>,
    pub(crate) clusters: Vec<ClusterObjects>,
    /// What could not be read, and why.
    pub(crate) unknown: Vec<String>,
}

/// The objects of an instance in a remote cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterObjects {
    /// The name that status and messages show.
    pub(crate) name: String,
    /// `namespace/name` or `namespace/name/key`.
    pub(crate) secret: String,
    /// The target that leads to the Secret, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    pub(crate) connected: bool,
    pub(crate) objects: Vec<Json>,
}

/// An object that was looked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadObject {
    /// The Secret of the cluster; none for the local one.
    pub(crate) secret: Option<String>,
    pub(crate) object: Json,
}

impl ClusterObjects {
    /// The reference to the cluster.
    pub(crate) fn reference(&self) -> Option<ResolvedCluster> {
        let credentials = match self.target.as_deref().and_then(|target| target.split_once('/')) {
            Some((namespace, name)) => {
                ResolvedCredentials::Target { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => ResolvedCredentials::Secret(SecretAddress::from_status(&self.secret)?),
        };
        Some(ResolvedCluster {
            display: self.name.clone(),
            credentials,
            authority: Authority::Granted,
            poll: None,
        })
    }
}

/// Where the state is read from.
pub(crate) enum StateSource<'s> {
    /// Clusters.
    Live { hub: &'s Hub, remotes: RemoteClusters<'s> },
    /// A folder.
    Saved(&'s SavedState),
}

impl SavedState {
    /// Reads a folder.
    ///
    /// # Errors
    /// It has no state that this version can read.
    pub(crate) fn load(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let state: Self = serde_json::from_str(&text).with_context(|| {
            format!("{} is no state that `kross diff --save-state` wrote", path.display())
        })?;
        if state.format != FORMAT {
            bail!("{} has the format `{}`; save the state again", path.display(), state.format);
        }
        Ok(state)
    }

    /// Writes a folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn save(&mut self, folder: &Path) -> anyhow::Result<()> {
        FORMAT.clone_into(&mut self.format);
        let path = folder.join(FILE);
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let text = serde_json::to_string_pretty(self)? + "\n";
        // It may have Secrets.
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

impl<'s> StateSource<'s> {
    pub(crate) fn live(hub: &'s Hub) -> Self {
        Self::Live { hub, remotes: RemoteClusters::new(hub) }
    }

    /// The UID of the hub.
    ///
    /// # Errors
    /// The namespace `kube-system` may not be read.
    pub(crate) async fn hub_uid(&self) -> anyhow::Result<String> {
        match self {
            Self::Saved(state) => Ok(state.hub_uid.clone()),
            Self::Live { hub, .. } => {
                let found = read_object(&hub.client, "v1", "Namespace", None, "kube-system").await;
                let found =
                    found.context("cannot read the namespace `kube-system`, whose UID identifies the hub")?;
                let uid = found.as_ref().and_then(|object| text(object, "/metadata/uid"));
                uid.map(str::to_owned).context("the hub has no namespace `kube-system`")
            }
        }
    }

    /// The definition of this name; none if it does not exist.
    ///
    /// # Errors
    /// Definitions may not be read.
    pub(crate) async fn definition(&self, name: &str) -> anyhow::Result<Option<Json>> {
        match self {
            Self::Saved(state) => {
                Ok(state.definitions.iter().find(|it| text(it, "/metadata/name") == Some(name)).cloned())
            }
            Self::Live { hub, .. } => {
                let kind = hub.kind(crate::hub::DEFINITIONS)?;
                match hub.get(&kind, None, name).await {
                    Ok(found) => Ok(Some(found)),
                    Err(error) if error.is_object_not_found() => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// The instances of a definition, with their objects.
    ///
    /// # Errors
    /// The instances cannot be listed.
    pub(crate) async fn instances(&self, definition: &Definition) -> anyhow::Result<Vec<InstanceState>> {
        let (group, kind) = definition.served_kind();
        match self {
            Self::Saved(state) => {
                let is_own = |state: &&InstanceState| {
                    let version = text(&state.instance, "/apiVersion").unwrap_or_default();
                    definition.serves(version, InstanceView(&state.instance).kind())
                };
                Ok(state.instances.iter().filter(is_own).cloned().collect())
            }
            Self::Live { hub, remotes } => {
                let Some(served) = hub.kind_of(&format!("{group}/"), kind) else { return Ok(Vec::new()) };
                let listed = hub.list(&served, None, None).await?;
                let mut found = Vec::new();
                for instance in listed.into_iter().filter(|instance| definition.has_instance(instance)) {
                    found.push(objects(hub, remotes, instance).await);
                }
                Ok(found)
            }
        }
    }

    /// An instance with its objects.
    pub(crate) async fn instance(&self, instance: Json) -> InstanceState {
        match self {
            Self::Live { hub, remotes } => objects(hub, remotes, instance).await,
            Self::Saved(state) => {
                let uid = |object: &Json| text(object, "/metadata/uid").map(str::to_owned);
                let saved = state.instances.iter().find(|saved| uid(&saved.instance) == uid(&instance));
                saved.cloned().unwrap_or_else(|| InstanceState {
                    instance,
                    local: Vec::new(),
                    clusters: Vec::new(),
                    unknown: Vec::new(),
                })
            }
        }
    }

    /// An object in a cluster; none is the local one. Not found where the caller may not read it.
    pub(crate) async fn read(
        &self,
        cluster: Option<&ResolvedCluster>,
        (api_version, kind): (&str, &str),
        namespace: Option<&str>,
        name: &str,
    ) -> anyhow::Result<Option<Json>> {
        let secret = cluster.map(secret_of);
        match self {
            Self::Saved(state) => {
                let is_it = |read: &&ReadObject| {
                    let at = |path: &str| text(&read.object, path);
                    read.secret == secret.clone().flatten()
                        && at("/apiVersion") == Some(api_version)
                        && at("/kind") == Some(kind)
                        && at("/metadata/namespace") == namespace
                        && at("/metadata/name") == Some(name)
                };
                Ok(state.read.iter().find(is_it).map(|read| read.object.clone()))
            }
            Self::Live { hub, remotes } => {
                let client = match cluster {
                    None => hub.client.clone(),
                    Some(cluster) => remotes.client(&status_of(cluster)).await?,
                };
                Ok(read_object(&client, api_version, kind, namespace, name).await?)
            }
        }
    }

    /// The objects of a kind in a cluster, of one namespace or all.
    pub(crate) async fn list(
        &self,
        cluster: Option<&ResolvedCluster>,
        (group, version, kind): (&str, &str, &str),
        namespace: Option<&str>,
    ) -> anyhow::Result<Vec<Json>> {
        let secret = cluster.and_then(secret_of);
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        match self {
            Self::Saved(state) => {
                let is_it = |read: &&ReadObject| {
                    let at = |path: &str| text(&read.object, path);
                    read.secret == secret
                        && at("/apiVersion") == Some(&api_version)
                        && at("/kind") == Some(kind)
                        && (namespace.is_none() || at("/metadata/namespace") == namespace)
                };
                Ok(state.read.iter().filter(is_it).map(|read| read.object.clone()).collect())
            }
            Self::Live { hub, remotes } => {
                let client = match cluster {
                    None => hub.client.clone(),
                    Some(cluster) => remotes.client(&status_of(cluster)).await?,
                };
                let served = client.kind(group, Some(version), kind).await?;
                let namespace = namespace.filter(|_| served.namespaced);
                let listed = client.list(&served, namespace, None).await?;
                Ok(listed.iter().filter_map(|it| serde_json::to_value(it.value()).ok()).collect())
            }
        }
    }
}

/// The Secret of a cluster, as statuses show it.
pub(crate) fn secret_of(cluster: &ResolvedCluster) -> Option<String> {
    match &cluster.credentials {
        ResolvedCredentials::Secret(secret) => Some(secret.status_text()),
        ResolvedCredentials::Target { .. } | ResolvedCredentials::TargetSelector { .. } => None,
    }
}

fn status_of(cluster: &ResolvedCluster) -> ClusterStatus {
    ClusterStatus {
        name: cluster.display.clone(),
        secret: secret_of(cluster),
        target: None,
        uid: None,
        unverified: None,
        mode: SyncMode::Watch,
        connected: true,
        since: None,
        last_contact: None,
        ready: 0,
        total: 0,
    }
}

/// The objects of an instance in every cluster, by its inventory and its status.
async fn objects(hub: &Hub, remotes: &RemoteClusters<'_>, instance: Json) -> InstanceState {
    let view = InstanceView(&instance);
    let mut unknown = Vec::new();
    let listed = annotation_list(view, annotations::APPLYSET_GROUP_KINDS);
    let mut namespaces: BTreeSet<String> =
        annotation_list(view, annotations::APPLYSET_NAMESPACES).into_iter().collect();
    namespaces.extend(view.namespace().map(str::to_owned));
    let kinds: BTreeSet<GroupKind> = listed.iter().filter_map(|kind| GroupKind::parse(kind)).collect();
    let local = members(&hub.client, &kinds, &namespaces, &instance, &mut unknown).await;
    let mut clusters = Vec::new();
    let resources = view.resources();
    let mut kinds_by_cluster: BTreeMap<&str, (BTreeSet<GroupKind>, BTreeSet<String>)> = BTreeMap::new();
    for entry in &resources {
        let (Some(cluster), Some(version), Some(kind)) =
            (entry.cluster.as_deref(), entry.api_version.as_deref(), entry.kind.as_deref())
        else {
            continue;
        };
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let known = kinds_by_cluster.entry(cluster).or_default();
        known.0.insert(GroupKind::new(group, kind));
        known.1.extend(entry.namespace.clone().or_else(|| view.namespace().map(str::to_owned)));
    }
    for cluster in view.clusters() {
        let Some(secret) = cluster.secret.clone() else { continue };
        let (kinds, namespaces) = kinds_by_cluster.remove(cluster.name.as_str()).unwrap_or_default();
        let mut found = Vec::new();
        let mut connected = cluster.connected;
        if connected {
            match remotes.client(&cluster).await {
                Ok(client) => found = members(&client, &kinds, &namespaces, &instance, &mut unknown).await,
                Err(error) => {
                    connected = false;
                    unknown.push(error.to_string());
                }
            }
        }
        let (name, target) = (cluster.name, cluster.target);
        clusters.push(ClusterObjects { name, secret, target, connected, objects: found });
    }
    InstanceState { local, clusters, unknown, instance }
}

/// The objects of an instance in one cluster.
async fn members(
    client: &ClusterClient,
    kinds: &BTreeSet<GroupKind>,
    namespaces: &BTreeSet<String>,
    instance: &Json,
    unknown: &mut Vec<String>,
) -> Vec<Json> {
    let uid = text(instance, "/metadata/uid").unwrap_or_default();
    let selector = format!("{}={uid}", labels::INSTANCE_ID);
    let mut found = Vec::new();
    for kind in kinds {
        let served = match client.kind(&kind.group, None, &kind.kind).await {
            Ok(served) => served,
            // A kind that is not served has no objects.
            Err(error) if error.is_kind_not_served() => continue,
            Err(error) => {
                unknown.push(error.to_string());
                continue;
            }
        };
        let places: Vec<Option<&str>> = match served.namespaced {
            true => namespaces.iter().map(|namespace| Some(namespace.as_str())).collect(),
            false => vec![None],
        };
        for namespace in places {
            match client.list(&served, namespace, Some(&selector)).await {
                Ok(listed) => {
                    found.extend(listed.iter().filter_map(|it| serde_json::to_value(it.value()).ok()));
                }
                Err(error) => unknown.push(error.to_string()),
            }
        }
    }
    found
}

/// The entries of an annotation with a list.
fn annotation_list(view: InstanceView<'_>, key: &str) -> Vec<String> {
    let text = view.annotation(key).unwrap_or_default();
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// A JSON value in the form that plans use.
pub(crate) fn value(json: &Json) -> Value {
    serde_json::from_value(json.clone()).unwrap_or_default()
}
