//! What is worked on.

use kross_cluster::QueueKey;
use kross_value::Text;

/// One thing to look at.
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
