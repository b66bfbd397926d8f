//! The value of a document together with its source positions. Converts a path, or a range of the string at a path,
//! to a span.

use std::ops::Range;
use std::sync::Arc;

use kross_diagnostics::{Diagnostic, Diagnostics, Locate, Part, Path, Place, SourceId, Span};
use kross_value::Value;

use super::build::Built;
use super::node::{Bytes, Kind, Node};
use super::offset;
use super::offsets::Offsets;

/// A document of a YAML file.
#[derive(Clone, Debug)]
pub struct Document {
    value: Value,
    root: Arc<Node>,
    source: SourceId,
    text: Arc<str>,
}

impl Document {
    /// `None` for an empty document.
    pub(super) fn new(built: Built, source: SourceId, text: Arc<str>) -> Option<Self> {
        let Built { value, node: root, .. } = built;
        (!value.is_null()).then_some(Self { value, root, source, text })
    }

    /// The value of the document.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Converts to the value of the document.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The source that contains the document.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// The span of the whole document.
    #[must_use]
    pub fn span(&self) -> Span {
        self.at(&self.root.bytes)
    }

    /// The exact span of the value at a path, including all its lines; `None` if there is no such value.
    #[must_use]
    pub fn exact_span(&self, path: &Path) -> Option<Span> {
        let found = self.walk(path);
        found.complete.then(|| self.at(&found.node.bytes))
    }

    /// The span of the key of the value at a path; `None` if there is no such value, or if it is a list item.
    #[must_use]
    pub fn key_span(&self, path: &Path) -> Option<Span> {
        let found = self.walk(path);
        found.key.filter(|_| found.complete).map(|key| self.at(key))
    }

    /// The span to show for a value: the value itself if it is a scalar or fits on one line, otherwise its key (or its
    /// first line if it has no key). If there is no such value, the span of the closest enclosing value.
    #[must_use]
    pub fn span_of(&self, path: &Path) -> Span {
        let Found { node, key, complete, last_key } = self.walk(path);
        let one_line = !self.slice(&node.bytes).contains('\n');
        match (key, last_key) {
            _ if complete && (!node.is_collection() || one_line) => self.at(&node.bytes),
            (Some(key), _) => self.at(key),
            (None, _) if !one_line || node.is_collection() => self.at(&self.first_line(&node.bytes)),
            (None, Some(key)) => self.at(key),
            (None, None) => self.at(&node.bytes),
        }
    }

    /// The span of a byte range of the decoded string at a path, taking quotes, escapes, folding and indentation into
    /// account. Falls back to [`Document::span_of`] if there is no string at the path.
    #[must_use]
    pub fn span_within(&self, path: &Path, range: Range<usize>) -> Span {
        let found = self.walk(path);
        let (Some(decoded), Kind::Scalar { style, indent }) = (self.string_at(path), &found.node.kind) else {
            return self.span_of(path);
        };
        if !found.complete {
            return self.span_of(path);
        }
        let bytes = &found.node.bytes;
        let offsets = Offsets::new(*style, *indent as usize, self.slice(bytes), decoded);
        let mapped = offsets.map(range);
        let base = bytes.start;
        Span::new(self.source, base + offset(mapped.start), base + offset(mapped.end))
    }

    fn string_at(&self, path: &Path) -> Option<&str> {
        use kross_diagnostics::PathSegment;
        path.segments()
            .iter()
            .try_fold(&self.value, |value, segment| match segment {
                PathSegment::Key(key) => value.get(key),
                PathSegment::Index(index) => value.as_list()?.get(*index),
            })?
            .as_str()
    }

    fn walk(&self, path: &Path) -> Found<'_> {
        let mut found = Found { node: &self.root, key: None, complete: true, last_key: None };
        for segment in path.segments() {
            let Some((node, key)) = found.node.child(segment) else {
                found.complete = false;
                break;
            };
            found = Found { node, key, complete: true, last_key: key.or(found.last_key) };
        }
        found
    }

    fn first_line(&self, bytes: &Bytes) -> Bytes {
        let length = self.slice(bytes).lines().next().map_or(0, |line| line.trim_end().len());
        bytes.start..bytes.start + offset(length)
    }

    fn slice(&self, bytes: &Bytes) -> &str {
        self.text.get(bytes.start as usize..bytes.end as usize).unwrap_or_default()
    }

    fn at(&self, bytes: &Bytes) -> Span {
        Span::new(self.source, bytes.start, bytes.end)
    }
}

/// The deepest node that a path could be resolved to.
struct Found<'a> {
    node: &'a Node,
    /// The key of `node`.
    key: Option<&'a Bytes>,
    /// Whether the whole path was resolved.
    complete: bool,
    /// The last key on the path.
    last_key: Option<&'a Bytes>,
}

impl Locate for Document {
    fn locate(&self, place: &Place) -> Option<Span> {
        Some(match &place.part {
            Part::Value => self.span_of(&place.path),
            Part::Key => self.key_span(&place.path).unwrap_or_else(|| self.span_of(&place.path)),
            Part::Within(range) => self.span_within(&place.path, range.clone()),
        })
    }
}

/// Adds the span in the document to a diagnostic that has only a path.
#[must_use]
pub fn attach(diagnostic: Diagnostic, document: &Document) -> Diagnostic {
    let path = diagnostic.path.as_deref().and_then(|path| path.parse::<Path>().ok());
    match path {
        Some(path) if diagnostic.primary.is_none() => diagnostic.at(document.span_of(&path)),
        _ => diagnostic,
    }
}

/// [`attach`] for a whole collection.
#[must_use]
pub fn attach_all(found: Diagnostics, document: &Document) -> Diagnostics {
    let mut attached = Diagnostics::new();
    attached.extend(found.into_iter().map(|diagnostic| attach(diagnostic, document)));
    attached
}
