//! Which cluster reference is used for each object: several references may give access to one cluster, each with its own credential.

use std::collections::HashMap;
use std::sync::Arc;

use kross_api::{ObjectKey, ResolvedCluster};
use kross_value::Text;

use crate::observed::ReferenceKey;
use crate::plan::ExternalRead;

/// The access path to a remote cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPath {
    /// The reference with its values.
    pub reference: Arc<ResolvedCluster>,
    /// Its key in [`crate::Observed::clusters`].
    pub key: ReferenceKey,
}

/// The access paths of a plan. Objects in the local cluster have none.
#[derive(Clone, Debug, Default)]
pub struct AccessPaths {
    objects: HashMap<ObjectKey, AccessPath>,
    nodes: HashMap<Text, AccessPath>,
    /// With the node of the external reference.
    reads: HashMap<ExternalRead, (Text, AccessPath)>,
}

impl AccessPaths {
    /// The access path of an object of the plan.
    #[must_use]
    pub fn to(&self, object: &ObjectKey) -> Option<&AccessPath> {
        self.objects.get(object)
    }

    /// The access path of an external read, and the node that needs it.
    #[must_use]
    pub fn to_read(&self, read: &ExternalRead) -> Option<(&Text, &AccessPath)> {
        self.reads.get(read).map(|(node, access_path)| (node, access_path))
    }

    /// The access path of a node, if all of its objects have the same.
    pub(crate) fn to_node(&self, id: &Text) -> Option<&AccessPath> {
        self.nodes.get(id)
    }

    pub(crate) fn add(&mut self, object: &ObjectKey, access_path: Option<&AccessPath>) {
        if let Some(access_path) = access_path {
            self.objects.entry(object.clone()).or_insert_with(|| access_path.clone());
        }
    }

    pub(crate) fn add_node(&mut self, id: &Text, access_path: Option<AccessPath>) {
        if let Some(access_path) = access_path {
            self.nodes.insert(id.clone(), access_path);
        }
    }

    pub(crate) fn add_read(&mut self, read: &ExternalRead, node: &Text, access_path: Option<&AccessPath>) {
        if let Some(access_path) = access_path {
            self.reads.entry(read.clone()).or_insert_with(|| (node.clone(), access_path.clone()));
        }
    }
}
