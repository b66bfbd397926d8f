//! The instances of this hub that may take over objects, by their kind and name, and the clusters that they use.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use kross_api::{ClusterInventory, ClusterStatus, ResolvedCredentials, annotations};
use kross_plan::ReferenceKey;
use serde_json::{Value as Json, json};

use super::super::get::all_instances;
use crate::hub::{Hub, InstanceView, ObjectReference, Owner, text};

/// A kind whose objects are instances without a definition.
const APPLICATION_RESOURCES: &str = "kubernetesapplicationresources.workload.crossplane.io";

/// Group, kind, namespace (empty if it has none) and name of an instance.
type Key = (String, String, String, String);

/// Instances, and which others are meant: an object of an instance that is meant and does not exist is reported.
#[derive(Debug)]
pub(super) struct Instances {
    found: BTreeMap<Key, Json>,
    scope: Scope,
}

/// Which instances are meant.
#[derive(Debug, PartialEq, Eq)]
enum Scope {
    All,
    Namespace(String),
    One,
}

impl Instances {
    /// The instances of all definitions, and the resources of applications, in a namespace or in all.
    ///
    /// # Errors
    /// Not all of them may be listed: then nobody knows which objects belong to an instance.
    pub(super) async fn all(hub: &Hub, namespace: Option<&str>) -> anyhow::Result<Self> {
        if hub.definitions().await.is_none() {
            bail!("you may not list ResourceGraphDefinitions, so not all instances are known");
        }
        let mut objects = all_instances(hub, namespace).await?;
        if let Ok(kind) = hub.kind(APPLICATION_RESOURCES) {
            objects.extend(hub.list(&kind, namespace, None).await?);
        }
        let scope = namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.to_owned()));
        Ok(Self { found: objects.into_iter().map(|object| (key(&object), object)).collect(), scope })
    }

    /// One instance.
    ///
    /// # Errors
    /// It does not exist, or may not be read.
    pub(super) async fn one(hub: &Hub, reference: &ObjectReference) -> anyhow::Result<Self> {
        let kind = hub.kind(&reference.kind)?;
        let object = hub.get(&kind, None, &reference.name).await?;
        Ok(Self { found: BTreeMap::from([(key(&object), object)]), scope: Scope::One })
    }

    /// The instance that an object belongs to by its labels. `None` if it is not meant; `Some(None)` if it does not exist here.
    pub(super) fn of(&self, owner: &Owner) -> Option<Option<InstanceView<'_>>> {
        let namespace = owner.namespace.clone().unwrap_or_default();
        let is_meant = match &self.scope {
            Scope::All => true,
            Scope::Namespace(meant) => *meant == namespace,
            Scope::One => false,
        };
        let key = (owner.group.clone(), owner.kind.clone(), namespace, owner.name.clone());
        match self.found.get(&key) {
            Some(object) => Some(Some(InstanceView(object))),
            None => is_meant.then_some(None),
        }
    }

    /// The clusters in which an instance has or wants objects, by their Secrets.
    pub(super) fn clusters(&self) -> Vec<ClusterStatus> {
        let mut secrets = BTreeSet::new();
        for object in self.found.values() {
            let view = InstanceView(object);
            secrets.extend(view.clusters().into_iter().filter_map(|cluster| cluster.secret));
            secrets.extend(recorded_secrets(view));
        }
        secrets.iter().filter_map(|secret| cluster(secret)).collect()
    }

    /// Group and name of the kinds of objects that instances want.
    pub(super) fn kinds(&self) -> BTreeSet<(String, String)> {
        let resources = self.found.values().flat_map(|object| InstanceView(object).resources());
        let kind = |entry: kross_api::ManagedResource| {
            let version = entry.api_version?;
            let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
            Some((group, entry.kind?))
        };
        resources.filter_map(kind).collect()
    }
}

fn key(object: &Json) -> Key {
    let version = text(object, "/apiVersion").unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let view = InstanceView(object);
    (group, view.kind().to_owned(), view.namespace().unwrap_or_default().to_owned(), view.name().to_owned())
}

/// The Secrets in the inventory, since a status does not list all clusters of a fleet.
fn recorded_secrets(view: InstanceView<'_>) -> Vec<String> {
    let inventory = view.annotation(annotations::CLUSTER_INVENTORY).and_then(ClusterInventory::references);
    let secret = |(reference, _): (String, bool)| {
        let resolved = ReferenceKey::parse(&reference)?.resolved()?;
        let ResolvedCredentials::Secret(secret) = resolved.credentials else { return None };
        let key =
            if secret.key == kross_api::KUBECONFIG_KEY { String::new() } else { format!("/{}", secret.key) };
        Some(format!("{secret}{key}"))
    };
    inventory.into_iter().flatten().filter_map(secret).collect()
}

/// A cluster as its Secret names it.
fn cluster(secret: &str) -> Option<ClusterStatus> {
    let status =
        json!({"name": secret, "secret": secret, "mode": "Watch", "connected": true, "ready": 0, "total": 0});
    serde_json::from_value(status).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances(scope: Scope) -> Instances {
        let inventory = json!({"version": 1, "hash": "", "clusters": [
            {"reference": "secret/team/us/kubeconfig", "name": "us", "uid": "1", "kinds": "ConfigMap"},
            {"reference": "secret/team/asia/admin.conf", "name": "asia", "uid": "1", "kinds": "ConfigMap"}]});
        let object = json!({"apiVersion": "kro.run/v1", "kind": "App", "metadata": {"name": "a", "namespace": "team",
            "annotations": {annotations::CLUSTER_INVENTORY: inventory.to_string()}}, "status": {"clusters": [
            {"name": "eu", "secret": "team/eu", "mode": "Watch", "connected": true, "ready": 0, "total": 0}]}});
        Instances { found: BTreeMap::from([(key(&object), object)]), scope }
    }

    fn owner(namespace: &str, name: &str) -> Owner {
        Owner {
            group: "kro.run".to_owned(),
            version: "v1".to_owned(),
            kind: "App".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
            node: String::new(),
            definition: None,
            uid: None,
        }
    }

    #[test]
    fn clusters_are_those_of_the_status_and_of_the_inventory() {
        let secrets: Vec<_> =
            instances(Scope::All).clusters().into_iter().filter_map(|cluster| cluster.secret).collect();
        assert_eq!(secrets, ["team/asia/admin.conf", "team/eu", "team/us"]);
    }

    #[test]
    fn an_instance_that_does_not_exist_is_reported_only_where_it_is_meant() {
        let missing =
            |scope, namespace| instances(scope).of(&owner(namespace, "b")).map(|found| found.is_some());
        assert_eq!(missing(Scope::All, "other"), Some(false));
        assert_eq!(missing(Scope::Namespace("team".to_owned()), "team"), Some(false));
        assert_eq!(missing(Scope::Namespace("team".to_owned()), "other"), None);
        assert_eq!(missing(Scope::One, "team"), None);
        assert!(instances(Scope::One).of(&owner("team", "a")).flatten().is_some());
    }
}
