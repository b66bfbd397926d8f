//! A list or mapping that is being parsed: collects values and positions, and builds the collection at its end.

use std::collections::HashMap;
use std::sync::Arc;

use kross_value::{Key, Object, Value};

use super::build::Built;
use super::node::{Bytes, Entry, Kind, Node};

/// A collection that is not complete yet.
pub(super) struct Collection {
    pub(super) anchor: usize,
    /// Its opening bracket, if it has one.
    pub(super) bracket: Option<Bytes>,
    start: u32,
    end: u32,
    size: usize,
    depth: usize,
    content: Content,
}

enum Content {
    List { values: Vec<Value>, nodes: Vec<Arc<Node>> },
    Map(Mapping),
}

/// What the next value of a mapping is.
enum Pending {
    /// The next value is a key.
    Nothing,
    Key(Key, Bytes),
    Merge(Bytes),
    /// The value of an invalid key, which is omitted.
    Omitted,
}

struct Mapping {
    values: Vec<(Key, Value)>,
    entries: Vec<Entry>,
    keys: HashMap<Key, Bytes>,
    merges: Vec<(Bytes, Built)>,
    pending: Pending,
}

/// The result of adding a value.
pub(super) enum Added {
    /// It was added.
    Ok,
    /// It is at the position of a key, but cannot be one.
    NotAKey,
}

impl Collection {
    pub(super) fn list(start: u32, anchor: usize, bracket: Option<Bytes>) -> Self {
        Self::new(start, anchor, bracket, Content::List { values: Vec::new(), nodes: Vec::new() })
    }

    pub(super) fn map(start: u32, anchor: usize, bracket: Option<Bytes>) -> Self {
        let mapping = Mapping {
            values: Vec::new(),
            entries: Vec::new(),
            keys: HashMap::new(),
            merges: Vec::new(),
            pending: Pending::Nothing,
        };
        Self::new(start, anchor, bracket, Content::Map(mapping))
    }

    fn new(start: u32, anchor: usize, bracket: Option<Bytes>, content: Content) -> Self {
        Self { anchor, bracket, start, end: start, size: 1, depth: 0, content }
    }

    /// Whether the next value is the key of an entry.
    pub(super) fn wants_key(&self) -> bool {
        matches!(&self.content, Content::Map(Mapping { pending: Pending::Nothing, .. }))
    }

    /// Sets the key of the next value; returns the position of an earlier key with the same name.
    pub(super) fn key(&mut self, key: Key, bytes: Bytes) -> Option<Bytes> {
        self.end = self.end.max(bytes.end);
        let Content::Map(mapping) = &mut self.content else { return None };
        mapping.pending = Pending::Key(key.clone(), bytes.clone());
        mapping.keys.insert(key, bytes)
    }

    /// Merges the next value into the mapping.
    pub(super) fn merge(&mut self, bytes: Bytes) {
        self.pending(Pending::Merge(bytes));
    }

    /// Omits the next value.
    pub(super) fn omit_next(&mut self) {
        self.pending(Pending::Omitted);
    }

    fn pending(&mut self, pending: Pending) {
        if let Content::Map(mapping) = &mut self.content {
            mapping.pending = pending;
        }
    }

    /// Adds a value whose text ends at `end`.
    pub(super) fn add(&mut self, built: Built, end: u32) -> Added {
        self.end = self.end.max(end);
        self.size = self.size.saturating_add(built.size);
        self.depth = self.depth.max(built.depth);
        match &mut self.content {
            Content::List { values, nodes } => {
                values.push(built.value);
                nodes.push(built.node);
            }
            Content::Map(mapping) => match std::mem::replace(&mut mapping.pending, Pending::Nothing) {
                Pending::Nothing => {
                    mapping.pending = Pending::Omitted;
                    return Added::NotAKey;
                }
                Pending::Key(key, key_bytes) => {
                    mapping.values.push((key.clone(), built.value));
                    mapping.entries.push(Entry { key, key_bytes, value: built.node });
                }
                Pending::Merge(bytes) => mapping.merges.push((bytes, built)),
                Pending::Omitted => {}
            },
        }
        Added::Ok
    }

    /// Builds the collection, and returns the positions of invalid merges. `end` is the position of its closing bracket.
    pub(super) fn finish(self, end: Option<u32>) -> (Built, Vec<Bytes>) {
        let mut invalid_merges = Vec::new();
        let (value, kind) = match self.content {
            Content::List { values, nodes } => (Value::from(values), Kind::List(nodes)),
            Content::Map(mapping) => mapping.finish(&mut invalid_merges),
        };
        let bytes = self.start..end.unwrap_or(self.end).max(self.start);
        let node = Arc::new(Node { bytes, kind });
        (Built { value, node, size: self.size, depth: self.depth + 1 }, invalid_merges)
    }
}

impl Mapping {
    fn finish(mut self, invalid_merges: &mut Vec<Bytes>) -> (Value, Kind) {
        for (bytes, merged) in std::mem::take(&mut self.merges) {
            if !self.merge(&merged.value, &merged.node) {
                invalid_merges.push(bytes);
            }
        }
        // The last of duplicate keys wins, for values and for positions.
        self.entries.sort_by(|a, b| a.key.cmp(&b.key));
        self.entries.dedup_by(|later, first| {
            let repeated = later.key == first.key;
            if repeated {
                std::mem::swap(later, first);
            }
            repeated
        });
        (Value::Object(self.values.into_iter().collect::<Object>()), Kind::Map(self.entries))
    }

    /// Adds the entries of a mapping, or of each mapping in a list, whose keys do not exist yet.
    fn merge(&mut self, value: &Value, node: &Node) -> bool {
        match (value, &node.kind) {
            (Value::Object(object), Kind::Map(entries)) => {
                for ((key, value), entry) in object.iter().zip(entries) {
                    if !self.keys.contains_key(key) {
                        self.keys.insert(key.clone(), entry.key_bytes.clone());
                        self.values.push((key.clone(), value.clone()));
                        self.entries.push(entry.clone());
                    }
                }
                true
            }
            (Value::List(items), Kind::List(nodes)) => items
                .iter()
                .zip(nodes)
                .all(|(item, node)| matches!(item, Value::Object(_)) && self.merge(item, node)),
            _ => false,
        }
    }
}
