//! The keys of the work queues.

use kross_cluster::{ObjectKey, QueueKey, SecretName};
use kross_value::Text;

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
