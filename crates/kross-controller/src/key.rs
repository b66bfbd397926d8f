//! What is worked on.

use kross_cluster::{ObjectKey, QueueKey};
use kross_value::Text;

/// A definition or a revision to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A definition, by name.
    Definition(Text),
    /// A revision, by name.
    Revision(Text),
}

impl QueueKey for Key {
    type Lane = ();

    fn lane(&self) {}
}

/// An instance to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InstanceKey(pub(crate) ObjectKey);

impl QueueKey for InstanceKey {
    /// Instances of one kind take turns with those of other kinds as one.
    type Lane = (Text, Text);

    fn lane(&self) -> (Text, Text) {
        (self.0.group.clone(), self.0.kind.clone())
    }
}
