//! The result of planning: every node with its objects, what to apply, read and prune next, and what to report.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{
    ClusterId, Condition, InstanceState, Inventory, ManagedResource, ObjectKey, ResolvedCluster,
};
use kross_graph::NodeIndex;
use kross_value::{Text, Value};

use crate::access_paths::AccessPaths;
use crate::deletion::{DeletionPlan, Hook};
use crate::lifecycle::EvaluatedLifecycle;
use crate::observed::{CollectionQuery, KindKey, ObservedCluster, ReferenceKey};
use crate::progress::Progress;

/// What to do for an instance, and what to report.
#[derive(Debug)]
pub struct Plan {
    /// The nodes, in the order of the definition.
    pub nodes: Vec<NodePlan>,
    /// What to apply now, in order. All dependencies are met, so they may be applied concurrently.
    pub apply: Vec<ApplyAction>,
    /// What to prune, and what must not be pruned yet.
    pub prune: DeletionPlan,
    /// What to read and watch for external references.
    pub reads: Vec<ExternalRead>,
    /// Kinds whose scope has to be discovered, with their version.
    pub unscoped: Vec<(KindKey, Text)>,
    /// The remote clusters of the instance, connected or not: also those of skipped nodes, since a graph may react to their
    /// connection, and those that only have objects of an earlier spec.
    pub clusters: Vec<UsedCluster>,
    /// References by selector, with those of the targets that were chosen for them. To be written to the inventory with the
    /// clusters.
    pub choices: BTreeMap<ReferenceKey, ReferenceKey>,
    /// What may exist in which cluster after `apply`. To be written to the inventory before the first apply.
    pub inventory: BTreeMap<ClusterId, Inventory>,
    /// Which reference is used for each object.
    pub access_paths: AccessPaths,
    /// The apply set in each cluster.
    pub applysets: BTreeMap<ClusterId, Text>,
    /// The state of the instance.
    pub state: InstanceState,
    /// The built-in conditions, which author-defined ones can read.
    pub conditions: Vec<Condition>,
    /// The message of `Ready`.
    pub message: Text,
    /// Entries of `status.managedResources`.
    pub resources: Vec<ManagedResource>,
    /// The whole status to write.
    pub status: Value,
    /// The lifecycle of each node, newer than what its objects' annotations say.
    pub lifecycles: BTreeMap<Text, EvaluatedLifecycle>,
    /// Deletion hooks that are due and not ready. Objects may wait for them.
    pub hooks: Vec<Hook>,
    /// Objects of deletion hooks that do not exist and are not created, or not created again.
    pub missing_hooks: Vec<MissingHook>,
    /// When time alone may change the plan.
    pub recheck_at: Option<Timestamp>,
}

impl Plan {
    /// Whether there is nothing to apply or to prune.
    #[must_use]
    pub fn is_noop(&self) -> bool {
        self.apply.is_empty() && self.prune.is_done()
    }

    /// Whether every desired object is known and applied: then the inventory can lose what the plan does not have.
    #[must_use]
    pub fn is_fully_applied(&self) -> bool {
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
    /// Its progress: that of its worst object.
    pub progress: Progress,
    /// Its objects, in the order of the collection.
    pub objects: Vec<PlannedObject>,
    /// Its cluster, if that is one remote cluster.
    pub cluster: Option<ClusterId>,
    /// Whether everything that it was computed from is in sync with the clusters.
    pub live: bool,
    /// Whether it is an external reference.
    pub external: bool,
    /// Whether its objects may have values of a Secret: they are Secrets, or depend on one.
    pub secret: bool,
}

/// An object of a node. Its `Debug` output does not show what is in it: that may be a Secret.
pub struct PlannedObject {
    /// Its identity.
    pub key: ObjectKey,
    /// Its API version, such as `apps/v1`.
    pub api_version: Text,
    /// The object to apply; none for an external one.
    pub desired: Option<Value>,
    /// The hash in the object's annotation; empty for an external one.
    pub hash: Text,
    /// The UID of the observed object.
    pub uid: Option<Text>,
    /// The generation of the observed object.
    pub generation: Option<i64>,
    /// Its progress.
    pub progress: Progress,
    /// Whether an apply would change it.
    pub differs: bool,
    /// Whether an existing object must not be adopted.
    pub exclusive: bool,
}

impl fmt::Debug for PlannedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, api_version, desired: _, hash, uid, generation, progress, differs, exclusive } = self;
        f.debug_struct("PlannedObject")
            .field("key", key)
            .field("api_version", api_version)
            .field("hash", hash)
            .field("uid", uid)
            .field("generation", generation)
            .field("progress", progress)
            .field("differs", differs)
            .field("exclusive", exclusive)
            .finish_non_exhaustive()
    }
}

/// An object of a deletion hook that does not exist and is not created, or not created again. Once the cause is known, nothing waits
/// for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHook {
    /// The hook.
    pub node: Text,
    /// The object.
    pub key: ObjectKey,
    /// Its API version.
    pub api_version: Text,
    /// Why it does not exist.
    pub cause: MissingCause,
    /// If it is not known whether it was created: the resource version before that; empty if that is not known either.
    pub since: Option<Text>,
}

/// Why an object of a deletion hook does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCause {
    /// It was created, or about to be created, and is not observed. Its cluster has to confirm that it was deleted, see
    /// [`crate::Observed::confirmed_missing`], or that it was not created, see [`crate::Observed::never_created`].
    Unconfirmed,
    /// It was deleted before it was ready.
    Deleted,
    /// It cannot be created because its namespace is being deleted.
    NamespaceTerminating,
    /// Its cluster does not serve its kind, see [`crate::Observed::unserved`].
    KindNotServed,
}

/// One object to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyAction {
    /// The node.
    pub node: NodeIndex,
    /// Position in the node's objects.
    pub object: usize,
    /// Whether no object was observed: then it is created, without force.
    pub create: bool,
    /// Whether the last attempt failed: not to be retried in the same reconcile.
    pub retry: bool,
}

/// What to read for an external reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExternalRead {
    /// One object by name.
    Object {
        /// Its identity.
        key: ObjectKey,
        /// The version to read it in.
        version: Text,
    },
    /// The objects that a selector matches.
    Collection(CollectionQuery),
}

impl ExternalRead {
    /// The cluster to read from.
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
    /// Its id in object keys.
    pub id: ClusterId,
    /// Its observed state; none before the first attempt to connect.
    pub state: Option<ObservedCluster>,
    /// Whether a node that is not skipped uses it.
    pub needed: bool,
    /// Whether no node uses it any more: it is listed for the objects that may be left there.
    pub former: bool,
}
