//! The keys of the work queues.

use std::fmt;

use kross_cluster::{ObjectKey, QueueKey, SecretName, StoredObject};
use kross_value::Text;

use crate::workload::WorkloadKind;

/// A definition, a revision or a Secret to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A definition, by name.
    Definition(Text),
    /// A revision, by name.
    Revision(Text),
    /// A kubeconfig Secret that is protected, or that asks for it.
    Secret(SecretName),
}

impl QueueKey for Key {
    type Lane = ();

    fn lane(&self) {}
}

/// An instance to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InstanceKey(pub(crate) ObjectKey);

impl QueueKey for InstanceKey {
    /// All instances of a kind share a lane, so that a kind with many instances does not delay the others.
    type Lane = (Text, Text);

    fn lane(&self) -> (Text, Text) {
        (self.0.group.clone(), self.0.kind.clone())
    }
}

/// A target, an application or a claim to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkloadKey {
    pub(crate) kind: WorkloadKind,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
}

impl WorkloadKey {
    /// The key of an object that is reconciled as one of these kinds; none for other kinds.
    pub(crate) fn of(kind: WorkloadKind, object: &StoredObject) -> Option<Self> {
        match kind {
            WorkloadKind::Target | WorkloadKind::Application | WorkloadKind::Claim => {
                Some(Self { kind, namespace: object.namespace()?.clone(), name: object.name().clone() })
            }
            WorkloadKind::ApplicationResource | WorkloadKind::Class => None,
        }
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.names().1, self.namespace, self.name)
    }
}

impl QueueKey for WorkloadKey {
    /// Many applications do not delay targets and claims.
    type Lane = WorkloadKind;

    fn lane(&self) -> WorkloadKind {
        self.kind
    }
}
