//! The result of planning: every node with its objects, what to write, read and remove next, and what to report.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{
    ClusterId, Condition, InstanceState, Inventory, ManagedResource, ObjectKey, ResolvedCluster,
};
use kross_graph::NodeIndex;
use kross_value::{Text, Value};

use crate::access_paths::AccessPaths;
use crate::deletion::{DeletionPlan, Hook};
use crate::lifecycle::Answers;
use crate::observed::{CollectionQuery, KindKey, ObservedCluster, ReferenceKey};
use crate::progress::Progress;

/// What to do for an instance, and what to say of it.
#[derive(Debug)]
pub struct Plan {
    /// The nodes, as the author lists them.
    pub nodes: Vec<NodePlan>,
    /// What to write now, in order: everything it needs is there. Writing them at once is fine.
    pub apply: Vec<ApplyAction>,
    /// What to remove. Empty while anything is unresolved, failed or still to be written.
    pub prune: DeletionPlan,
    /// What to read and watch for external references.
    pub reads: Vec<ExternalRead>,
    /// Kinds whose scope has to be found out, with the version to ask for.
    pub unscoped: Vec<(KindKey, Text)>,
    /// The remote clusters of the instance, whether or not somebody dialled them: also those of nodes that are left out,
    /// whose return a graph may wait for, and those that still hold objects of an earlier day.
    pub clusters: Vec<UsedCluster>,
    /// What may exist in which cluster once `apply` is done. To be kept before the first write.
    pub inventory: BTreeMap<ClusterId, Inventory>,
    /// By which references objects are reached.
    pub access_paths: AccessPaths,
    /// The apply sets that objects belong to, by cluster.
    pub applysets: BTreeMap<ClusterId, Text>,
    /// The state of the instance.
    pub state: InstanceState,
    /// What the conditions of the instance are made of; also what author-defined ones see.
    pub conditions: Vec<Condition>,
    /// The message that goes with the state: that of `Ready`.
    pub message: Text,
    /// Entries of `status.managedResources`.
    pub resources: Vec<ManagedResource>,
    /// The whole status to be written.
    pub status: Value,
    /// How the objects of each node go, as the graph says now; newer than what is kept on them.
    pub answers: BTreeMap<Text, Answers>,
    /// Nodes that exist for the deletion, should be there now, and are not ready. Objects may wait for them.
    pub hooks: Vec<Hook>,
    /// When time alone may change the plan.
    pub recheck_at: Option<Timestamp>,
}

impl Plan {
    /// Whether there is nothing to write or to remove.
    #[must_use]
    pub fn is_noop(&self) -> bool {
        self.apply.is_empty() && self.prune.is_done()
    }

    /// Whether it is certain what is desired, and that it is there: then whatever else is ours can go.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.nodes.iter().all(|node| node.progress.is_applied())
    }

    /// A node by its id.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|node| node.id == *id)
    }

    /// An object of the plan.
    #[must_use]
    pub fn object(&self, action: &ApplyAction) -> Option<&PlannedObject> {
        self.nodes.get(action.node.0)?.objects.get(action.object)
    }
}

/// A node of the plan.
#[derive(Debug)]
pub struct NodePlan {
    /// The author's id.
    pub id: Text,
    /// How far it is: the worst of its objects.
    pub progress: Progress,
    /// Its objects, in the order of the collection.
    pub objects: Vec<PlannedObject>,
    /// Where it is, if that is one remote cluster.
    pub cluster: Option<ClusterId>,
    /// Whether the objects are only read.
    pub external: bool,
}

/// An object of a node.
#[derive(Debug)]
pub struct PlannedObject {
    /// What identifies it.
    pub key: ObjectKey,
    /// Its API version, such as `apps/v1`.
    pub api_version: Text,
    /// The object to apply; none for an external one.
    pub desired: Option<Value>,
    /// The hash kept on the object; empty for an external one.
    pub hash: Text,
    /// UID of what is there now.
    pub uid: Option<Text>,
    /// Generation of what is there now.
    pub generation: Option<i64>,
    /// How far it is.
    pub progress: Progress,
    /// Whether applying it would change something.
    pub differs: bool,
    /// Whether an object that is there already must not be taken over.
    pub exclusive: bool,
}

/// One object to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyAction {
    /// The node.
    pub node: NodeIndex,
    /// Position in the node's objects.
    pub object: usize,
    /// Whether nothing is known to be there, so that the first write goes without force.
    pub create: bool,
    /// Whether the last attempt failed: not to be tried again in the same pass.
    pub retry: bool,
}

/// What an external reference needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExternalRead {
    /// One object by name.
    Object {
        /// Which.
        key: ObjectKey,
        /// The version to read it in.
        version: Text,
    },
    /// The objects that a selector finds.
    Collection(CollectionQuery),
}

impl ExternalRead {
    /// Where.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        match self {
            Self::Object { key, .. } => &key.cluster,
            Self::Collection(query) => &query.cluster,
        }
    }
}

/// A remote cluster that the instance uses.
#[derive(Clone, Debug)]
pub struct UsedCluster {
    /// The reference with its values.
    pub reference: Arc<ResolvedCluster>,
    /// Its key in [`crate::Observed::clusters`].
    pub key: ReferenceKey,
    /// What its objects are found under.
    pub id: ClusterId,
    /// What is known of it; none where nobody dialled yet.
    pub state: Option<ObservedCluster>,
    /// Whether a node that is not skipped uses it.
    pub needed: bool,
    /// Whether no node names it any more: it is here for what may be left in it.
    pub former: bool,
}
