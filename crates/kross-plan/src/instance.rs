//! An instance as plans read it.

use jiff::Timestamp;
use kross_api::{Condition, ConditionType, ManagedResource, ObjectFacts};
use kross_graph::Graph;
use kross_value::{Object, Value};
use serde::de::DeserializeOwned;

/// An instance as plans read it: the whole object, status included.
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

    /// An object of any kind; in a namespace if it has one.
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

    /// Its namespace, if its kind is in namespaces.
    #[must_use]
    pub fn namespace(self) -> Option<&'a str> {
        Some(self.text("namespace")).filter(|namespace| self.namespaced && !namespace.is_empty())
    }

    /// One of its annotations.
    pub(crate) fn annotation(self, key: &str) -> Option<&'a str> {
        self.value.at(&["metadata", "annotations"])?.get(key)?.as_str()
    }

    /// What conditions need to know.
    #[must_use]
    pub fn facts(self) -> ObjectFacts {
        ObjectFacts {
            generation: self.value.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0),
            created: self.text("creationTimestamp").parse::<Timestamp>().ok(),
            deleting: !self.text("deletionTimestamp").is_empty(),
        }
    }

    /// What expressions see as `schema`: the object without its status, which belongs to nobody's input.
    pub(crate) fn schema(self, with_status: bool) -> Value {
        let mut object = self.value.as_object().cloned().unwrap_or_default();
        if !with_status {
            object.remove("status");
        }
        Value::Object(object)
    }

    /// What its status says under a key, where it can be read.
    fn status<T: DeserializeOwned + Default>(self, key: &str) -> T {
        let value = self.value.at(&["status", key]);
        value
            .and_then(|value| serde_json::from_value(serde_json::Value::from(value)).ok())
            .unwrap_or_default()
    }

    /// The conditions that its status has.
    #[must_use]
    pub fn conditions(self) -> Vec<Condition> {
        self.status("conditions")
    }

    /// Those of them that are ours: conditions that an author once defined go with their definition.
    pub(crate) fn built_in(self) -> Vec<Condition> {
        let ours =
            [ConditionType::INSTANCE, ConditionType::INSTANCE_CLUSTERS, &[ConditionType::Ready]].concat();
        let mut conditions = self.conditions();
        conditions.retain(|condition| ours.iter().any(|kind| kind.as_str() == condition.type_));
        conditions
    }

    /// The resources that its status has.
    #[must_use]
    pub fn resources(self) -> Vec<ManagedResource> {
        self.status("managedResources")
    }

    /// The clusters that its status has.
    #[must_use]
    pub fn clusters(self) -> Vec<kross_api::ClusterStatus> {
        self.status("clusters")
    }

    /// Its status as it is.
    pub(crate) fn raw_status(self) -> Object {
        self.value.get("status").and_then(Value::as_object).cloned().unwrap_or_default()
    }
}
