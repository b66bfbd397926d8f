//! Decides which objects of another hub an instance of this hub takes over: those that it wants, by its status. All others are
//! left as they are, since an instance deletes what it owns and does not want.

use std::sync::Arc;

use kross_api::{ManagedResource, ResourceState, labels, remote_applyset_id};
use kross_cluster::{ApiKind, ClusterClient};
use kross_value::Value;
use serde::Serialize;
use serde_json::Value as Json;

use super::Hubs;
use super::instances::Instances;
use crate::hub::{InstanceView, Owner, text};

/// An object that belongs to the other hub, in a remote cluster.
#[derive(Debug)]
pub(super) struct Finding {
    /// Secret of the cluster, as `namespace/name`.
    pub(super) cluster: String,
    pub(super) client: ClusterClient,
    pub(super) kind: Arc<ApiKind>,
    pub(super) object: Json,
    /// The instance, by its labels.
    pub(super) owner: Owner,
    pub(super) decision: Decision,
    /// The apply set that it belongs to, and the one of the instance on this hub.
    pub(super) from: String,
    pub(super) to: String,
}

/// What happens to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The instance takes it over.
    Adopt {
        /// `Shop team/web`.
        instance: String,
    },
    /// It stays as it is.
    Leave {
        /// Why.
        reason: String,
    },
}

/// A finding as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row<'a> {
    cluster: &'a str,
    object: String,
    uid: &'a str,
    /// `adopt`, `adopted` or `leave`.
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Where an object was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// Secret of the cluster.
    pub(super) secret: &'a str,
    /// UID of the cluster, if it may be read.
    pub(super) uid: Option<&'a str>,
}

/// The apply sets of the instance of an object on both hubs, if the object belongs to the first one.
pub(super) fn applysets(owner: &Owner, part_of: Option<&str>, hubs: &Hubs) -> Option<(String, String)> {
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let id = |hub: &str| remote_applyset_id(&owner.name, namespace, &owner.kind, &owner.group, hub);
    let from = id(&hubs.from);
    (part_of == Some(from.as_str())).then(|| (from, id(&hubs.to)))
}

/// The apply set that an object says it belongs to.
pub(super) fn part_of(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("labels")?.get(labels::APPLYSET_PART_OF)?.as_str()
}

/// Decides about an object of the other hub. None if its instance is not meant.
pub(super) fn decide(
    instances: &Instances,
    owner: &Owner,
    object: &Json,
    place: Place<'_>,
) -> Option<Decision> {
    let leave = |reason: String| Some(Decision::Leave { reason });
    let Some(instance) = instances.of(owner)? else {
        let namespace = owner.namespace.as_deref().map(|it| format!("{it}/")).unwrap_or_default();
        return leave(format!("{} {namespace}{} does not exist on this hub", owner.kind, owner.name));
    };
    let title = instance.title();
    let resources = instance.resources();
    if instance.is_deleting() {
        return leave(format!("{title} is being deleted"));
    }
    if resources.is_empty() || !instance.is_current() {
        return leave(format!("{title} was not reconciled yet; run it again when it was"));
    }
    match wants(instance, &resources, owner, object, place) {
        true => Some(Decision::Adopt { instance: title }),
        false => leave(format!("{title} does not want it")),
    }
}

/// Whether an instance wants an object: its status lists it, or has an entry that may stand for it, which is the summary of a
/// large collection, or a resource whose names are not known yet.
fn wants(
    instance: InstanceView<'_>,
    resources: &[ManagedResource],
    owner: &Owner,
    object: &Json,
    place: Place<'_>,
) -> bool {
    let clusters = instance.clusters();
    let is_here = |entry: &ManagedResource| {
        let Some(name) = &entry.cluster else { return false };
        match clusters.iter().find(|cluster| cluster.name == *name) {
            Some(cluster) => {
                cluster.secret.as_deref() == Some(place.secret)
                    || (place.uid.is_some() && cluster.uid.as_deref() == place.uid)
            }
            // The status does not list all clusters of a fleet.
            None => clusters.iter().any(|cluster| cluster.name.ends_with(kross_api::MORE_CLUSTERS)),
        }
    };
    let is_same = |entry: &ManagedResource| {
        entry.kind.as_deref() == text(object, "/kind")
            && entry.name.as_deref() == text(object, "/metadata/name")
            && entry.namespace.as_deref() == text(object, "/metadata/namespace")
            && is_here(entry)
    };
    let mut entries =
        resources.iter().filter(|entry| entry.id == owner.node && entry.state != ResourceState::Skipped);
    entries.any(|entry| entry.name.is_none() || is_same(entry))
}

impl Finding {
    /// `Deployment team/web`.
    pub(super) fn title(&self) -> String {
        InstanceView(&self.object).title()
    }

    /// As JSON.
    pub(super) fn row(&self, adopted: bool) -> Row<'_> {
        let (action, instance, reason) = match &self.decision {
            Decision::Adopt { instance } if adopted => ("adopted", Some(instance.as_str()), None),
            Decision::Adopt { instance } => ("adopt", Some(instance.as_str()), None),
            Decision::Leave { reason } => ("leave", None, Some(reason.as_str())),
        };
        Row {
            cluster: &self.cluster,
            object: self.title(),
            uid: text(&self.object, "/metadata/uid").unwrap_or_default(),
            action,
            instance,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EU: Place<'_> = Place { secret: "team/eu", uid: Some("uid-of-eu") };

    fn owner(node: &str) -> Owner {
        let object = json!({"metadata": {"labels": {"kro.run/instance-kind": "App", "kro.run/instance-name": "web",
            "kro.run/instance-namespace": "team", "kro.run/instance-group": "kro.run", "kro.run/node-id": node}}});
        Owner::of(&object).unwrap()
    }

    fn config_map(name: &str) -> Json {
        json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}})
    }

    fn instance() -> Json {
        let entry = |id: &str, state: &str, name: &str, cluster: &str| json!({"id": id, "state": state, "kind": "ConfigMap", "namespace": "team", "name": name, "cluster": cluster});
        json!({"apiVersion": "kro.run/v1", "kind": "App", "metadata": {"name": "web", "namespace": "team"},
            "status": {"clusters": [
                {"name": "eu", "secret": "team/eu", "mode": "Watch", "connected": true, "ready": 0, "total": 1},
                {"name": "copy", "secret": "team/eu2", "uid": "uid-of-eu", "mode": "Watch", "connected": true, "ready": 0, "total": 1},
                {"name": "us", "secret": "team/us", "uid": "uid-of-us", "mode": "Watch", "connected": true, "ready": 0, "total": 1}],
            "managedResources": [
                entry("one", "Error", "web-one", "eu"), entry("two", "Error", "web-two", "us"),
                entry("three", "Skipped", "web-three", "eu"), entry("four", "Error", "web-four", "copy"),
                {"id": "many", "state": "Error", "cluster": "2 clusters"}, {"id": "blocked", "state": "Blocked"}]}})
    }

    fn is_wanted(node: &str, name: &str) -> bool {
        let instance = instance();
        let view = InstanceView(&instance);
        wants(view, &view.resources(), &owner(node), &config_map(name), EU)
    }

    #[test]
    fn an_instance_wants_what_its_status_lists_in_the_same_cluster() {
        assert!(is_wanted("one", "web-one"));
        assert!(!is_wanted("one", "renamed"), "another name");
        assert!(!is_wanted("two", "web-two"), "it is in another cluster now");
        assert!(!is_wanted("three", "web-three"), "it is excluded");
        assert!(is_wanted("four", "web-four"), "another Secret of the same cluster");
        assert!(!is_wanted("removed", "web"), "the resource is not in the graph any more");
    }

    #[test]
    fn an_entry_without_a_name_may_stand_for_any_object_of_its_resource() {
        assert!(is_wanted("many", "web-17") && is_wanted("blocked", "web"));
    }

    #[test]
    fn only_objects_of_the_named_hub_are_found() {
        let hubs = Hubs { from: "old".to_owned(), to: "new".to_owned() };
        let id = |hub: &str| remote_applyset_id("web", "team", "App", "kro.run", hub);
        let found = |part_of: Option<&str>| applysets(&owner("one"), part_of, &hubs);
        assert_eq!(found(Some(&id("old"))), Some((id("old"), id("new"))));
        for other in [
            Some(id("new")),
            Some(id("third")),
            Some(kross_api::applyset_id("web", "team", "App", "kro.run")),
            None,
        ] {
            assert_eq!(found(other.as_deref()), None, "{other:?}");
        }
    }
}
