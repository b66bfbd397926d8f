//! The source positions of a document, as a tree of the same shape as its value. A scalar keeps its style, so that an
//! offset in its string can be mapped to the source later.

use std::sync::Arc;

use granit_parser::ScalarStyle;
use kross_diagnostics::PathSegment;
use kross_value::Key;

/// A range of bytes in the document's text.
pub(super) type Bytes = std::ops::Range<u32>;

/// The positions of a value and of its parts. Aliases share the node of their anchor.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) bytes: Bytes,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A scalar: its style, and the indentation if it is a block scalar.
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
    /// The child node at a path segment, and the position of its key if it has one.
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
