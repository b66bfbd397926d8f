//! The instance that a plan is for.

use jiff::Timestamp;
use kross_api::{Condition, ConditionType, ManagedResource, ObjectFacts};
use kross_graph::Graph;
use kross_value::{Object, Value};
use serde::de::DeserializeOwned;

/// The instance that a plan is for: the whole object, including its status.
#[derive(Clone, Copy, Debug)]
pub struct Instance<'a> {
    value: &'a Value,
    namespaced: bool,
}

impl<'a> Instance<'a> {
    /// An object of the graph's instance kind.
    #[must_use]
    pub fn new(graph: &Graph, value: &'a Value) -> Self {
        Self { value, namespaced: graph.instance.namespaced }
    }

    /// An object of any kind; namespaced if it has a namespace.
    #[must_use]
    pub fn of(value: &'a Value) -> Self {
        Self { value, namespaced: true }
    }

    fn text(self, field: &str) -> &'a str {
        self.value.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// Its UID.
    #[must_use]
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// Its namespace, if its kind is namespaced.
    #[must_use]
    pub fn namespace(self) -> Option<&'a str> {
        Some(self.text("namespace")).filter(|namespace| self.namespaced && !namespace.is_empty())
    }

    /// Its metadata.
    pub(crate) fn metadata(self) -> Option<&'a Value> {
        self.value.get("metadata")
    }

    /// One of its annotations.
    pub(crate) fn annotation(self, key: &str) -> Option<&'a str> {
        self.value.at(&["metadata", "annotations"])?.get(key)?.as_str()
    }

    /// The facts that conditions depend on.
    #[must_use]
    pub fn facts(self) -> ObjectFacts {
        ObjectFacts {
            generation: self.value.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0),
            created: self.text("creationTimestamp").parse::<Timestamp>().ok(),
            deleting: !self.text("deletionTimestamp").is_empty(),
        }
    }

    /// What expressions see as `schema`: the object, without its status unless that is an input.
    pub(crate) fn schema(self, with_status: bool) -> Value {
        let mut object = self.value.as_object().cloned().unwrap_or_default();
        if !with_status {
            object.remove("status");
        }
        Value::Object(object)
    }

    /// A field of its status; the default where it cannot be read.
    fn status<T: DeserializeOwned + Default>(self, key: &str) -> T {
        let value = self.value.at(&["status", key]);
        value
            .and_then(|value| serde_json::from_value(serde_json::Value::from(value)).ok())
            .unwrap_or_default()
    }

    /// The conditions in its status.
    #[must_use]
    pub fn conditions(self) -> Vec<Condition> {
        self.status("conditions")
    }

    /// The built-in conditions in its status; those of an author are left out.
    pub(crate) fn built_in(self) -> Vec<Condition> {
        let built_in =
            [ConditionType::INSTANCE, ConditionType::INSTANCE_CLUSTERS, &[ConditionType::Ready]].concat();
        let mut conditions = self.conditions();
        conditions.retain(|condition| built_in.iter().any(|kind| kind.as_str() == condition.type_));
        conditions
    }

    /// The resources in its status.
    #[must_use]
    pub fn resources(self) -> Vec<ManagedResource> {
        self.status("managedResources")
    }

    /// The clusters in its status.
    #[must_use]
    pub fn clusters(self) -> Vec<kross_api::ClusterStatus> {
        self.status("clusters")
    }

    /// Its status as written.
    pub(crate) fn raw_status(self) -> Object {
        self.value.get("status").and_then(Value::as_object).cloned().unwrap_or_default()
    }
}
