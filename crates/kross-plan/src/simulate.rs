//! Reconciles an instance without a cluster: plans, stores the applied objects as an API server would, and plans again until nothing
//! changes. The last plan says what is still pending, and why.

use std::collections::HashMap;

use jiff::Timestamp;
use kross_api::{ClusterId, ObjectKey, SyncMode, whole_seconds};
use kross_graph::Graph;
use kross_value::{Object, Text, Value};

use crate::observed::{ClusterConnection, Observed, ObservedCluster, ObservedObject};
use crate::plan::{ExternalRead, Plan, PlannedObject};
use crate::planner::plan;
use crate::settings::Settings;

mod defaults;
mod selector;

pub use defaults::admitted;
pub use selector::selects;

/// A reconcile without a cluster.
#[derive(Debug)]
pub struct Simulation {
    /// The objects in the order in which they were first applied.
    pub applied: Vec<Applied>,
    /// The last plan, with nothing left to apply.
    pub plan: Plan,
    /// The state of the simulated clusters.
    pub observed: Observed,
    /// How many plans were made.
    pub steps: usize,
}

/// An object that was applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// Its node.
    pub node: Text,
    /// Its identity.
    pub key: ObjectKey,
    /// The object as it was applied last.
    pub desired: Value,
    /// The step in which it was first applied.
    pub step: usize,
}

/// Reconciles an instance until nothing changes. `documents` are objects that the clusters have: external ones, and for objects of
/// the graph what their controllers would add, such as a status. Every cluster counts as connected.
#[must_use]
pub fn simulate(
    graph: &Graph,
    instance: &Value,
    documents: &[Value],
    settings: &Settings,
    now: Timestamp,
) -> Simulation {
    let settings = Settings { assume_namespaced: true, ..settings.clone() };
    let mut world = World::new(documents, now);
    let mut applied: Vec<Applied> = Vec::new();
    // Each step applies at least one layer, reads one reference or connects one cluster.
    let limit = 3 * graph.nodes.len() + 3;
    let mut steps = 0;
    loop {
        let plan = plan(graph, instance, &world.observed, &settings, now);
        steps += 1;
        let changed = world.answer(&plan) | world.apply(&plan, steps, &mut applied);
        if !changed || steps >= limit {
            return Simulation { applied, plan, observed: world.observed, steps };
        }
    }
}

struct World {
    observed: Observed,
    documents: HashMap<Identity, Value>,
    now: Timestamp,
    uids: u64,
}

/// An object in any cluster: documents do not say which one they are from.
type Identity = (String, String, String, String);

fn identity(key: &ObjectKey) -> Identity {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    (key.group.to_string(), key.kind.to_string(), namespace.to_owned(), key.name.to_string())
}

fn identity_of(document: &Value) -> Identity {
    let text = |path: &[&str]| document.at(path).and_then(Value::as_str).unwrap_or_default();
    let group = text(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let (namespace, name) = (text(&["metadata", "namespace"]), text(&["metadata", "name"]));
    (group.to_owned(), text(&["kind"]).to_owned(), namespace.to_owned(), name.to_owned())
}

impl World {
    fn new(documents: &[Value], now: Timestamp) -> Self {
        let documents = documents.iter().map(|document| (identity_of(document), document.clone())).collect();
        Self { observed: Observed::default(), documents, now, uids: 0 }
    }

    /// Connects clusters and answers reads. Returns whether anything was new.
    fn answer(&mut self, plan: &Plan) -> bool {
        let mut changed = false;
        for used in &plan.clusters {
            changed |= self
                .observed
                .clusters
                .insert(used.key.clone(), connected(used.id.clone(), self.now))
                .is_none();
        }
        for read in &plan.reads {
            match read {
                ExternalRead::Object { key, .. } => {
                    let document = self.documents.get(&identity(key)).cloned().map(ObservedObject::new);
                    changed |= self.observed.externals.insert(key.clone(), document).is_none();
                }
                ExternalRead::Collection(query) => {
                    let found = selector::find(query, &self.documents.values());
                    changed |= self.observed.collections.insert(query.clone(), found).is_none();
                }
            }
        }
        changed
    }

    /// Stores what the plan applies. Returns whether there was anything.
    fn apply(&mut self, plan: &Plan, step: usize, applied: &mut Vec<Applied>) -> bool {
        for action in &plan.apply {
            let (Some(node), Some(object)) = (plan.nodes.get(action.node.0), plan.object(action)) else {
                continue;
            };
            let Some(desired) = &object.desired else { continue };
            let stored = self.stored(object, desired);
            self.observed.objects.insert(object.key.clone(), ObservedObject::new(stored));
            match applied.iter_mut().find(|known| known.key == object.key) {
                Some(known) => known.desired = desired.clone(),
                None => applied.push(Applied {
                    node: node.id.clone(),
                    key: object.key.clone(),
                    desired: desired.clone(),
                    step,
                }),
            }
        }
        self.observed.previous.clone_from(&plan.resources);
        !plan.apply.is_empty()
    }

    /// The object as an API server would store it.
    fn stored(&mut self, object: &PlannedObject, desired: &Value) -> Value {
        let before = self.observed.objects.get(&object.key).map(|object| object.value.clone());
        let known = before.or_else(|| self.documents.get(&identity(&object.key)).cloned());
        let mut stored = known.map_or_else(|| desired.clone(), |known| merged(&known, desired));
        let mut metadata = stored.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        if metadata.get("uid").is_none() {
            self.uids += 1;
            metadata.insert("uid", Value::from(format!("00000000-0000-0000-0000-{:012}", self.uids)));
        }
        if metadata.get("generation").is_none() {
            metadata.insert("generation", Value::from(1));
        }
        if metadata.get("creationTimestamp").is_none() {
            metadata.insert("creationTimestamp", Value::from(whole_seconds(self.now)));
        }
        if let Some(fields) = stored.as_object_mut() {
            fields.insert("metadata", Value::Object(metadata));
            if object.key.kind == *"CustomResourceDefinition" && !fields.contains_key("status") {
                fields.insert("status", established());
            }
        }
        stored
    }
}

fn connected(id: ClusterId, now: Timestamp) -> ObservedCluster {
    ObservedCluster {
        id,
        uid: None,
        unverified: false,
        mode: SyncMode::Watch,
        connection: ClusterConnection::Connected { since: now, last_contact: None },
        succeeded: true,
        deletions_only: None,
        warning: None,
        secret: None,
    }
}

fn established() -> Value {
    let condition = Value::object([("type", Value::from("Established")), ("status", Value::from("True"))]);
    Value::object([("conditions", Value::list([condition]))])
}

/// Merges objects; everything else is replaced.
fn merged(below: &Value, above: &Value) -> Value {
    let (Value::Object(below), Value::Object(above)) = (below, above) else {
        return above.clone();
    };
    let mut both: Object = below.clone();
    for (key, value) in above.iter() {
        let value = below.get(key).map_or_else(|| value.clone(), |known| merged(known, value));
        both.insert(key.clone(), value);
    }
    Value::Object(both)
}
