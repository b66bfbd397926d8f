//! Finds the object that a command is about. An object that the hub does not have may be one that an instance has in a remote
//! cluster: its status says so, whatever the caller may read there.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use kross_cluster::ApiKind;
use serde_json::Value as Json;

use super::get::listable_instances;
use crate::hub::{Hub, InstanceView, ObjectReference, Owner, text};

/// An object of the hub, or the instance that has the object elsewhere.
pub(super) struct Found {
    pub(super) kind: Arc<ApiKind>,
    pub(super) object: Json,
    /// Says so if it is not the object that was named.
    pub(super) note: Option<String>,
}

/// An object that the status of an instance names.
pub(super) struct Recorded {
    /// `Deployment team/web`.
    pub(super) title: String,
    /// The name of its cluster; none for the hub.
    pub(super) cluster: Option<String>,
    /// The kubeconfig Secret of the cluster.
    pub(super) secret: Option<String>,
    /// The instance.
    pub(super) owner: Owner,
}

/// Finds an object on the hub, or else the instance that has it in a remote cluster.
///
/// # Errors
/// There is none, several instances have one, or the hub does not answer.
pub(super) async fn find(hub: &Hub, reference: &ObjectReference) -> anyhow::Result<Found> {
    let kind = hub.kind(&reference.kind);
    if let Ok(kind) = &kind {
        match hub.get(kind, None, &reference.name).await {
            Ok(object) => return Ok(Found { kind: Arc::clone(kind), object, note: None }),
            Err(error) if !error.is_object_not_found() => return Err(error.into()),
            Err(_) => {}
        }
    }
    // Only remote clusters may serve the kind.
    let name = kind.as_ref().map_or(reference.kind.as_str(), |kind| kind.kind.as_str());
    let (mut found, _) = recorded(hub, name, &reference.name).await?;
    let first = found.pop();
    let is_other =
        |other: &Recorded| first.as_ref().is_some_and(|first| first.owner_key() != other.owner_key());
    if let (Some(first), true) = (&first, found.iter().any(is_other)) {
        let mut owners: Vec<String> =
            found.iter().chain([first]).map(|found| format!("`{}`", argument(&found.owner))).collect();
        owners.sort();
        owners.dedup();
        bail!("several instances have {name} `{}`: name one of them ({})", reference.name, owners.join(", "));
    }
    let Some(first) = first else {
        let kind = kind?;
        let place =
            if kind.namespaced { format!(" in namespace `{}`", hub.namespace) } else { String::new() };
        bail!("{} `{}` does not exist{place}", kind.kind, reference.name);
    };
    let owner = &first.owner;
    let Some(kind) = hub.kind_of(&owner.api_version(), &owner.kind) else {
        bail!(
            "{} belongs to {} `{}`, a kind that the hub does not serve",
            first.title,
            owner.kind,
            owner.name
        );
    };
    let object = hub.get(&kind, owner.namespace.as_deref(), &owner.name).await?;
    let place = first.cluster.as_deref().map(|cluster| format!(" in cluster {cluster}")).unwrap_or_default();
    let note =
        format!("{}{place} is resource `{}` of {}", first.title, owner.node, InstanceView(&object).title());
    Ok(Found { kind, object, note: Some(note) })
}

/// Reads an object of the hub, for commands that change it.
///
/// # Errors
/// It does not exist, or may not be read.
pub(super) async fn on_hub(hub: &Hub, reference: &ObjectReference) -> anyhow::Result<(Arc<ApiKind>, Json)> {
    let kind = hub.kind(&reference.kind)?;
    match hub.get(&kind, None, &reference.name).await {
        Ok(object) => Ok((kind, object)),
        Err(error) if error.is_object_not_found() => Err(missing(hub, &kind, &reference.name)),
        Err(error) => Err(error.into()),
    }
}

fn missing(hub: &Hub, kind: &ApiKind, name: &str) -> anyhow::Error {
    let place = if kind.namespaced { format!(" in namespace `{}`", hub.namespace) } else { String::new() };
    anyhow!("{} `{name}` does not exist{place}", kind.kind)
}

/// The objects with this kind and name, in the namespace of the command, that statuses name; and what may not be listed. Instances of
/// that namespace come before all others: whoever may list only these finds theirs.
pub(super) async fn recorded(
    hub: &Hub,
    kind: &str,
    name: &str,
) -> anyhow::Result<(Vec<Recorded>, Vec<String>)> {
    let mut problems = Vec::new();
    for namespace in [Some(hub.namespace.as_str()), None] {
        let (instances, unlisted) = listable_instances(hub, namespace).await?;
        let found: Vec<Recorded> =
            instances.iter().flat_map(|instance| entries(hub, instance, kind, name)).collect();
        problems = unlisted;
        if !found.is_empty() {
            return Ok((found, problems));
        }
    }
    Ok((Vec::new(), problems))
}

/// The entries of a status that are about an object.
fn entries(hub: &Hub, instance: &Json, kind: &str, name: &str) -> Vec<Recorded> {
    let view = InstanceView(instance);
    let clusters = view.clusters();
    let is_meant = |entry: &kross_api::ManagedResource| {
        entry.kind.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(kind))
            && entry.namespace.as_deref().is_none_or(|namespace| namespace == hub.namespace)
            && entry.name.as_deref() == Some(name)
    };
    let entries = view.resources().into_iter().filter(is_meant);
    let recorded = entries.map(|entry| {
        let cluster = clusters.iter().find(|known| Some(&known.name) == entry.cluster.as_ref());
        let namespace =
            entry.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        Recorded {
            title: format!("{} {namespace}{name}", entry.kind.as_deref().unwrap_or_default()),
            secret: cluster.and_then(|cluster| cluster.secret.clone()),
            cluster: entry.cluster,
            owner: owner(instance, entry.id),
        }
    });
    recorded.collect()
}

/// An instance as the owner of a resource.
fn owner(instance: &Json, node: String) -> Owner {
    let view = InstanceView(instance);
    let version = text(instance, "/apiVersion").unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Owner {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: view.kind().to_owned(),
        namespace: view.namespace().map(str::to_owned),
        name: view.name().to_owned(),
        node,
        definition: None,
        uid: None,
    }
}

impl Recorded {
    /// What tells one instance from another.
    fn owner_key(&self) -> (&str, &str, Option<&str>, &str) {
        let Owner { group, kind, namespace, name, .. } = &self.owner;
        (group, kind, namespace.as_deref(), name)
    }
}

/// `shop/web -n team`, for a command line.
fn argument(owner: &Owner) -> String {
    let namespace =
        owner.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("{}/{}{namespace}", owner.kind.to_lowercase(), owner.name)
}
