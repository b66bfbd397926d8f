//! Begins a simulation with what clusters have: the objects of an instance, as they were read.

use std::sync::Arc;

use kross_api::{ClusterId, ObjectKey, ResolvedCluster};
use kross_value::Value;

use super::clusters::{Connection, restored};
use super::simulator::Simulator;
use crate::observed::{ObservedObject, ReferenceKey};

impl Simulator {
    /// A cluster in which the instance has objects, with its connection. Returns its id for [`Simulator::restore`].
    pub fn restore_cluster(&mut self, reference: ResolvedCluster, connection: &Connection) -> ClusterId {
        let key = ReferenceKey::of(&reference);
        let id = ClusterId::new(key.as_str());
        let state = restored(&id, &reference, connection.since(self.now));
        self.observed.clusters_by_owner.insert(key.clone(), state.clone());
        self.observed.clusters.insert(key.clone(), state);
        self.references.insert(id.clone(), (key, Arc::new(reference)));
        id
    }

    /// An object of the instance.
    pub fn restore(&mut self, cluster: &ClusterId, object: &Value) {
        let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
        let group = text(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
        let key = ObjectKey {
            cluster: cluster.clone(),
            group: group.into(),
            kind: text(&["kind"]).into(),
            namespace: Some(text(&["metadata", "namespace"])).filter(|it| !it.is_empty()).map(Into::into),
            name: text(&["metadata", "name"]).into(),
        };
        self.observed.objects.insert(key, ObservedObject::new(object.clone()));
    }
}
