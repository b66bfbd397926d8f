//! The positions of a document as a tree of the same shape as its value. A scalar keeps how it was written, so that
//! a place inside its text can be found later.

use std::sync::Arc;

use granit_parser::ScalarStyle;
use kross_diagnostics::PathSegment;
use kross_value::Key;

/// A range of bytes in the document's text.
pub(super) type Bytes = std::ops::Range<u32>;

/// Where a value stands, and where its parts do. Aliases share the node of what they repeat.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) bytes: Bytes,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A scalar: how it is written, and the indentation of a block scalar's lines.
    Scalar { style: ScalarStyle, indent: u32 },
    /// The items of a list.
    List(Vec<Arc<Node>>),
    /// The entries of a mapping, sorted by key.
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) key_bytes: Bytes,
    pub(super) value: Arc<Node>,
}

impl Node {
    /// One segment down: the part's node, and where its key stands if it has one.
    pub(super) fn child(&self, segment: &PathSegment) -> Option<(&Self, Option<&Bytes>)> {
        match (&self.kind, segment) {
            (Kind::List(items), PathSegment::Index(index)) => Some((items.get(*index)?, None)),
            (Kind::Map(entries), PathSegment::Key(key)) => {
                let at = entries.binary_search_by(|entry| entry.key.as_str().cmp(key)).ok()?;
                entries.get(at).map(|entry| (&*entry.value, Some(&entry.key_bytes)))
            }
            _ => None,
        }
    }

    pub(super) fn is_collection(&self) -> bool {
        !matches!(self.kind, Kind::Scalar { .. })
    }
}
