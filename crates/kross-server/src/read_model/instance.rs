//! An instance as commands see it: its state and conditions, its resources and its clusters. The only place that knows
//! where they are.

use kross_api::{ClusterStatus, ManagedResource, annotations, labels};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// What an instance says that was never reconciled.
const NOT_RECONCILED: &str = "not reconciled yet";

/// The groups whose kinds need no group on a command line.
const OWN_GROUPS: [&str; 3] = [kross_api::DEFAULT_GROUP, kross_api::WORKLOAD_GROUP, kross_api::COMPUTE_GROUP];

/// A string field of an object.
pub fn text<'a>(object: &'a Json, path: &str) -> Option<&'a str> {
    object.pointer(path).and_then(Json::as_str)
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Json, kind: &str) -> Option<&'a Json> {
    conditions(object).iter().find(|condition| condition["type"] == kind)
}

/// The condition that says why an object is not ready: the first that is not true. `Ready` only repeats others, so it is last.
pub fn failed_condition(object: &Json) -> Option<&Json> {
    let is_open = |condition: &&Json| condition["status"] != "True";
    let (ready, others): (Vec<_>, Vec<_>) =
        conditions(object).iter().filter(is_open).partition(|condition| condition["type"] == "Ready");
    let is_false = |condition: &&&Json| condition["status"] == "False";
    others.iter().find(is_false).or(others.first()).or(ready.first()).copied()
}

fn conditions(object: &Json) -> &[Json] {
    object.pointer("/status/conditions").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The instance that an object belongs to, as its labels say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// API group of the instance.
    pub group: String,
    /// API version of the instance.
    pub version: String,
    /// Kind of the instance.
    pub kind: String,
    /// Namespace of the instance; none if it is cluster-scoped.
    pub namespace: Option<String>,
    /// Name of the instance.
    pub name: String,
    /// The id of the resource in the definition.
    pub node: String,
    /// The name of the definition.
    pub definition: Option<String>,
    /// UID of the instance.
    pub uid: Option<String>,
}

impl Owner {
    /// The owner of an object; none if it is no resource of an instance.
    pub fn of(object: &Json) -> Option<Self> {
        let all = object.pointer("/metadata/labels")?;
        let label = |key: &str| all.get(key).and_then(Json::as_str).map(str::to_owned);
        // A name that is too long for a label is in an annotation.
        let all_annotations = object.pointer("/metadata/annotations");
        let long_name =
            all_annotations.and_then(|all| all.get(annotations::INSTANCE_NAME)).and_then(Json::as_str);
        Some(Self {
            kind: label(labels::INSTANCE_KIND)?,
            name: long_name.map(str::to_owned).or_else(|| label(labels::INSTANCE_NAME))?,
            group: label(labels::INSTANCE_GROUP).unwrap_or_else(|| kross_api::DEFAULT_GROUP.to_owned()),
            version: label(labels::INSTANCE_VERSION).unwrap_or_default(),
            namespace: label(labels::INSTANCE_NAMESPACE),
            node: label(labels::NODE_ID).unwrap_or_default(),
            definition: label(labels::DEFINITION_NAME),
            uid: label(labels::INSTANCE_ID),
        })
    }

    /// The `apiVersion` of the instance.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// An instance, or another object that kross reconciles.
#[derive(Clone, Copy, Debug)]
pub struct InstanceView<'a>(pub &'a Json);

impl<'a> InstanceView<'a> {
    /// `kind`.
    #[must_use]
    pub fn kind(self) -> &'a str {
        text(self.0, "/kind").unwrap_or_default()
    }

    /// `metadata.namespace`.
    #[must_use]
    pub fn namespace(self) -> Option<&'a str> {
        text(self.0, "/metadata/namespace")
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(self) -> &'a str {
        text(self.0, "/metadata/name").unwrap_or_default()
    }

    /// `Shop team/web`.
    pub fn title(self) -> String {
        match self.namespace() {
            Some(namespace) => format!("{} {namespace}/{}", self.kind(), self.name()),
            None => format!("{} {}", self.kind(), self.name()),
        }
    }

    /// `shop/web -n team`, for a command line. The group is named unless it is one of kross: other groups may have a kind of the
    /// same name.
    pub fn argument(self) -> String {
        let namespace = self.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        let version = text(self.0, "/apiVersion").unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let is_other = group.contains('.') && !OWN_GROUPS.contains(&group);
        let group = if is_other { format!(".{group}") } else { String::new() };
        format!("{}{group}/{}{namespace}", self.kind().to_lowercase(), self.name())
    }

    /// The status of an existing kind belongs to another controller, so kross writes annotations instead.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.0.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    /// Its state, in the words of its status.
    #[must_use]
    pub fn state(self) -> &'a str {
        let reported = self.annotation(annotations::STATE).or(text(self.0, "/status/state"));
        match reported {
            // The controller may not have noticed yet, or may not be running.
            _ if self.is_deleting() => "DELETING",
            Some(state) => state,
            None => text(self.0, "/status/bindingPhase").unwrap_or(NOT_RECONCILED),
        }
    }

    /// Whether its deletion was requested.
    #[must_use]
    pub fn is_deleting(self) -> bool {
        text(self.0, "/metadata/deletionTimestamp").is_some()
    }

    /// Whether the annotation that suspends it is set.
    pub fn is_suspended(self) -> bool {
        let value = self.annotation(annotations::RECONCILE).unwrap_or_default();
        annotations::RECONCILE_PAUSED.iter().any(|word| value.eq_ignore_ascii_case(word))
    }

    /// Whether its status is about its current spec. An object without conditions or without generations cannot tell.
    pub fn is_current(self) -> bool {
        let generation = self.0.pointer("/metadata/generation").and_then(Json::as_i64);
        let observed = |condition: &Json| condition["observedGeneration"].as_i64();
        let newest = conditions(self.0).iter().filter_map(observed).max();
        match (generation, newest) {
            (Some(generation), Some(observed)) => observed >= generation,
            _ => true,
        }
    }

    /// Whether everything about it is as desired.
    pub fn is_ready(self) -> bool {
        if self.is_deleting() || self.is_suspended() || !self.is_current() {
            return false;
        }
        if let Some(state) = self.annotation(annotations::STATE) {
            return state == "ACTIVE";
        }
        match condition(self.0, "Ready") {
            Some(ready) => ready["status"] == "True",
            None => matches!(self.state(), "ACTIVE" | "Submitted" | "Bound"),
        }
    }

    /// Why it is not ready: the message of `Ready`, or the annotation of an existing kind.
    pub fn message(self) -> Option<&'a str> {
        let message = self.annotation(annotations::MESSAGE).filter(|message| !message.is_empty());
        message.or_else(|| {
            let ready = condition(self.0, "Ready").filter(|ready| ready["status"] != "True")?;
            ready["message"].as_str().filter(|message| !message.is_empty())
        })
    }

    /// The entries of `status.managedResources`.
    pub fn resources(self) -> Vec<ManagedResource> {
        self.entries("managedResources")
    }

    /// The entries of `status.clusters`.
    pub fn clusters(self) -> Vec<ClusterStatus> {
        self.entries("clusters")
    }

    /// The entries of a list in the status. Skips what does not parse: an author may define a field of the same name.
    fn entries<T: DeserializeOwned>(self, field: &str) -> Vec<T> {
        let list = self.0.get("status").and_then(|status| status.get(field)).and_then(Json::as_array);
        list.into_iter().flatten().filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_owner_of_an_object_is_in_its_labels() {
        let owned = json!({"metadata": {"labels": {
            "kro.run/instance-kind": "App", "kro.run/instance-name": "web", "kro.run/instance-namespace": "shop",
            "kro.run/instance-group": "kro.run", "kro.run/instance-version": "v1", "kro.run/node-id": "note",
        }}});
        let owner = Owner::of(&owned).unwrap();
        assert_eq!((owner.api_version().as_str(), owner.node.as_str()), ("kro.run/v1", "note"));
        assert_eq!(Owner::of(&json!({"metadata": {}})), None);
    }

    #[test]
    fn an_instance_is_ready_only_in_its_current_generation() {
        let mut instance = json!({"kind": "App", "metadata": {"name": "web", "generation": 2}, "status": {"state": "ACTIVE",
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}});
        assert!(!InstanceView(&instance).is_ready());
        instance["status"]["conditions"][0]["observedGeneration"] = json!(2);
        assert!(InstanceView(&instance).is_ready());
        instance["metadata"]["annotations"] = json!({"kro.run/reconcile": "Suspended"});
        assert!(!InstanceView(&instance).is_ready());
    }

    #[test]
    fn a_kind_of_another_group_is_named_with_it() {
        let site = |version: &str| json!({"apiVersion": version, "kind": "Site", "metadata": {"name": "a", "namespace": "b"}});
        for (version, argument) in [
            ("kro.run/v1alpha1", "site/a -n b"),
            ("apps/v1", "site/a -n b"),
            ("example.com/v1", "site.example.com/a -n b"),
        ] {
            assert_eq!(InstanceView(&site(version)).argument(), argument);
        }
    }

    #[test]
    fn the_condition_that_failed_is_not_the_one_that_repeats_it() {
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False"}, {"type": "A", "status": "True"},
            {"type": "B", "status": "Unknown"}, {"type": "C", "status": "False"},
        ]}});
        assert_eq!(failed_condition(&object).unwrap()["type"], "C");
    }
}
