//! By which reference each object is reached: several of them may lead to one cluster, each with a credential of its own.

use std::collections::HashMap;
use std::sync::Arc;

use kross_api::{ObjectKey, ResolvedCluster};
use kross_value::Text;

use crate::observed::ReferenceKey;
use crate::plan::ExternalRead;

/// A way into a remote cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The reference with its values.
    pub reference: Arc<ResolvedCluster>,
    /// Its key in [`crate::Observed::clusters`].
    pub key: ReferenceKey,
}

/// The ways that a plan takes. What is in the local cluster has none.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    objects: HashMap<ObjectKey, Way>,
    nodes: HashMap<Text, Way>,
    /// With the node that reads.
    reads: HashMap<ExternalRead, (Text, Way)>,
}

impl Ways {
    /// The way to an object of the plan.
    #[must_use]
    pub fn to(&self, object: &ObjectKey) -> Option<&Way> {
        self.objects.get(object)
    }

    /// The way to what an external reference reads, and the node that it is of.
    #[must_use]
    pub fn to_read(&self, read: &ExternalRead) -> Option<(&Text, &Way)> {
        self.reads.get(read).map(|(node, way)| (node, way))
    }

    /// The way to the objects of a node, if all of them have one.
    pub(crate) fn to_node(&self, id: &Text) -> Option<&Way> {
        self.nodes.get(id)
    }

    pub(crate) fn add(&mut self, object: &ObjectKey, way: Option<&Way>) {
        if let Some(way) = way {
            self.objects.entry(object.clone()).or_insert_with(|| way.clone());
        }
    }

    pub(crate) fn add_node(&mut self, id: &Text, way: Option<Way>) {
        if let Some(way) = way {
            self.nodes.insert(id.clone(), way);
        }
    }

    pub(crate) fn add_read(&mut self, read: &ExternalRead, node: &Text, way: Option<&Way>) {
        if let Some(way) = way {
            self.reads.entry(read.clone()).or_insert_with(|| (node.clone(), way.clone()));
        }
    }
}
