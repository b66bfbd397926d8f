//! Builds a value and the tree of its positions from the parser's events, without recursion. Errors in single values
//! are collected; exceeding a limit aborts the document.

mod values;

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, ScalarStyle, StructureStyle, Tag};
use kross_diagnostics::{Code, Diagnostic, Severity, SourceId, Span, suggest};
use kross_value::{Key, Value};

use super::collection::{Added, Collection};
use super::node::{Bytes, Kind, Node};
use super::syntax::{Before, NO_TEMPLATES};
use super::{Limits, offset};

/// A value with the positions of its parts.
#[derive(Clone)]
pub(super) struct Built {
    pub(super) value: Value,
    pub(super) node: Arc<Node>,
    /// Number of values in it, including itself; every use of an alias counts.
    pub(super) size: usize,
    /// Nesting depth of collections, including itself.
    pub(super) depth: usize,
}

/// Builds one document.
pub(super) struct Builder<'t> {
    text: &'t str,
    source: SourceId,
    limits: &'t Limits,
    open: Vec<Collection>,
    /// The values of anchors; `None` while a value is being parsed.
    anchors: HashMap<usize, Option<Built>>,
    names: Vec<&'t str>,
    root: Option<Built>,
    size: usize,
    /// The end of the last event.
    read: u32,
    warnings: usize,
    /// Number of errors in the document.
    pub(super) errors: usize,
    /// Diagnostics of the document.
    pub(super) found: Vec<Diagnostic>,
}

impl<'t> Builder<'t> {
    pub(super) fn new(text: &'t str, source: SourceId, limits: &'t Limits) -> Self {
        Self {
            text,
            source,
            limits,
            open: Vec::new(),
            anchors: HashMap::new(),
            names: Vec::new(),
            root: None,
            size: 0,
            read: 0,
            warnings: 0,
            errors: 0,
            found: Vec::new(),
        }
    }

    /// The document, after all of its events.
    pub(super) fn finish(&mut self) -> Option<Built> {
        self.root.take()
    }

    /// What was parsed so far, to describe a parser error.
    pub(super) fn before(&self) -> Before {
        let bracket = self.open.last().and_then(|collection| collection.bracket.clone());
        Before { bracket, end: self.read }
    }

    /// Processes an event; returns false if the document is aborted.
    pub(super) fn event(&mut self, event: Event<'t>, span: &granit_parser::Span) -> bool {
        let range = span.byte_range().unwrap_or_default();
        let bytes = offset(range.start)..offset(range.end);
        self.read = self.read.max(bytes.end);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = Scalar { text: &text, style, tag: tag.as_deref(), tag_bytes: tag_bytes(span) };
                let indent = offset(span.indent.unwrap_or(0));
                self.scalar(&scalar, bytes, indent, anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                let bracket = (style == StructureStyle::Flow).then(|| bytes.clone());
                self.check_tag(tag.as_deref(), tag_bytes(span), &["seq", "omap", "pairs"]);
                let start = if bracket.is_some() { bytes.start } else { self.dash(bytes.start) };
                self.begin(Collection::list(start, anchor, bracket))
            }
            Event::MappingStart(style, anchor, tag) => {
                let bracket = (style == StructureStyle::Flow).then(|| bytes.clone());
                self.check_tag(tag.as_deref(), tag_bytes(span), &["map", "set"]);
                self.begin(Collection::map(bytes.start, anchor, bracket))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(bytes.end),
            Event::Alias(id) => self.alias(id, bytes),
            Event::UnresolvedAlias(name) => {
                self.unknown_alias(&name, bytes.clone());
                self.add(null(bytes.clone()), bytes)
            }
            _ => true,
        }
    }

    fn begin(&mut self, collection: Collection) -> bool {
        if collection.anchor != 0 {
            self.anchors.insert(collection.anchor, None);
        }
        self.open.push(collection);
        true
    }

    fn end(&mut self, end: u32) -> bool {
        let Some(collection) = self.open.pop() else { return true };
        let anchor = collection.anchor;
        let closed = collection.bracket.as_ref().map(|_| end);
        let (built, invalid_merges) = collection.finish(closed);
        for bytes in invalid_merges {
            let diagnostic =
                Diagnostic::new(Code::InvalidMerge, "only a mapping or a list of mappings can be merged");
            self.push(diagnostic.at(self.span(bytes)).help("merge a mapping, such as `<<: *defaults`"));
        }
        self.define(anchor, &built);
        let bytes = built.node.bytes.clone();
        self.add(built, bytes)
    }

    fn define(&mut self, anchor: usize, built: &Built) {
        if anchor == 0 {
            return;
        }
        self.anchors.insert(anchor, Some(built.clone()));
        let before = self.text.get(..built.node.bytes.start as usize).unwrap_or_default();
        let name = before.rfind('&').and_then(|at| before.get(at + 1..)?.split_whitespace().next());
        self.names.extend(name);
    }

    /// Adds a value to the collection that is being parsed.
    fn add(&mut self, built: Built, bytes: Bytes) -> bool {
        // The values inside a collection have already been counted.
        self.size = self.size.saturating_add(if built.depth == 0 { built.size } else { 1 });
        if self.size > self.limits.nodes {
            return self.too_large(bytes);
        }
        if self.open.len() + built.depth > self.limits.depth {
            let diagnostic = Diagnostic::new(Code::YamlTooDeep, "the values are nested too deeply");
            self.push(diagnostic.at(self.span(bytes)).help("close the brackets where they belong"));
            return false;
        }
        let Some(collection) = self.open.last_mut() else {
            self.root = Some(built);
            return true;
        };
        if let Added::NotAKey = collection.add(built, bytes.end) {
            let diagnostic = Diagnostic::new(Code::InvalidKey, "a list or mapping cannot be a key");
            let start = bytes.start as usize;
            let nested = self.text.get(start.saturating_sub(1)..=start) == Some("{{");
            let help = if nested { NO_TEMPLATES } else { "quote it if it is a string" };
            self.push(diagnostic.at(self.span(bytes)).help(help));
        }
        true
    }

    fn too_large(&mut self, bytes: Bytes) -> bool {
        let message = format!("the document has more than {} values", self.limits.nodes);
        let diagnostic = Diagnostic::new(Code::YamlTooLarge, message).at(self.span(bytes));
        self.push(diagnostic.help("split the document, or write the values out instead of nesting aliases"));
        false
    }

    fn alias(&mut self, id: usize, bytes: Bytes) -> bool {
        match self.anchors.get(&id) {
            Some(Some(built)) => {
                let built = built.clone();
                // The value itself is counted when it is added.
                self.size = self.size.saturating_add(if built.depth == 0 { 0 } else { built.size - 1 });
                if self.open.last().is_some_and(Collection::wants_key) {
                    return self.alias_as_key(&built.value, bytes);
                }
                self.add(built, bytes)
            }
            _ => {
                let diagnostic =
                    Diagnostic::new(Code::UnknownAlias, "the alias refers to the value that contains it");
                self.push(
                    diagnostic
                        .at(self.span(bytes.clone()))
                        .help("write the value out instead of using an alias"),
                );
                self.add(null(bytes.clone()), bytes)
            }
        }
    }

    fn alias_as_key(&mut self, value: &Value, bytes: Bytes) -> bool {
        match key_of(value) {
            Some(key) => self.set_key(&key, bytes),
            None => self.invalid_key(bytes),
        }
        true
    }

    fn unknown_alias(&mut self, name: &str, bytes: Bytes) {
        let span = self.span(bytes);
        let diagnostic =
            Diagnostic::new(Code::UnknownAlias, format!("there is no anchor `&{name}` before this alias"))
                .at(span);
        let diagnostic = match suggest(name, self.names.iter().copied()) {
            Some(meant) => diagnostic.fix(format!("did you mean `*{meant}`?"), span, format!("*{meant}")),
            None => diagnostic.help(format!(
                "add the anchor `&{name}` to the first occurrence of the value; quote the text if `*` is part of it"
            )),
        };
        self.push(diagnostic);
    }

    fn scalar(&mut self, scalar: &Scalar<'_>, bytes: Bytes, indent: u32, anchor: usize) -> bool {
        let bytes = self.extent(scalar.style, bytes);
        let wants_key = self.open.last().is_some_and(Collection::wants_key);
        let value = if wants_key { Value::from(scalar.text) } else { self.value(scalar, &bytes) };
        let kind = Kind::Scalar { style: scalar.style, indent };
        let built = Built { value, node: Arc::new(Node { bytes: bytes.clone(), kind }), size: 1, depth: 0 };
        self.define(anchor, &built);
        if !wants_key {
            return self.add(built, bytes);
        }
        if scalar.style == ScalarStyle::Plain && scalar.tag.is_none() && scalar.text == "<<" {
            if let Some(collection) = self.open.last_mut() {
                collection.merge(bytes);
            }
            return true;
        }
        match key_of(&self.value(scalar, &bytes)) {
            Some(key) => self.set_key(&key, bytes),
            None => self.invalid_key(bytes),
        }
        true
    }

    fn set_key(&mut self, key: &str, bytes: Bytes) {
        let first = self.open.last_mut().and_then(|collection| collection.key(Key::new(key), bytes.clone()));
        if let Some(first) = first {
            let message = format!("duplicate key `{key}` in this mapping");
            let diagnostic = Diagnostic::new(Code::DuplicateKey, message)
                .labelled(self.span(bytes), "repeated here")
                .also(self.span(first), "first used here")
                .help("merge the values under one key");
            self.push(diagnostic);
        }
    }

    fn invalid_key(&mut self, bytes: Bytes) {
        if let Some(collection) = self.open.last_mut() {
            collection.omit_next();
        }
        let diagnostic =
            Diagnostic::new(Code::InvalidKey, "the key is not a valid field name").at(self.span(bytes));
        self.push(diagnostic.help("write a name before the `:`; quote it if it is empty or `null`"));
    }

    /// The exact position of a scalar: without the empty lines after a block, and after the colon if it is empty.
    fn extent(&self, style: ScalarStyle, bytes: Bytes) -> Bytes {
        let slice = self.text.get(bytes.start as usize..bytes.end as usize).unwrap_or_default();
        match style {
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let mut kept = slice;
                while let Some((before, last)) =
                    kept.rsplit_once(['\n', '\r']).filter(|(_, last)| last.trim().is_empty())
                {
                    debug_assert!(last.len() < kept.len());
                    kept = before;
                }
                bytes.start..bytes.start + offset(kept.len())
            }
            ScalarStyle::Plain if bytes.is_empty() => {
                let colon = self.text.get(bytes.start as usize..).is_some_and(|rest| rest.starts_with(':'));
                let at = bytes.start + u32::from(colon);
                at..at
            }
            _ => bytes,
        }
    }

    /// The position of the first dash of a list without indentation of its own: the parser reports the position after it.
    fn dash(&self, start: u32) -> u32 {
        let before = self.text.get(..start as usize).unwrap_or_default();
        let at_dash = self.text.get(start as usize..).is_some_and(|rest| rest.starts_with('-'));
        let trimmed = before.trim_end();
        if !at_dash && trimmed.ends_with('-') { offset(trimmed.len() - 1) } else { start }
    }

    /// Adds a diagnostic. Too many errors abort the document; further warnings are only dropped.
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count <= self.limits.errors {
            self.found.push(diagnostic);
        }
    }

    fn span(&self, bytes: Bytes) -> Span {
        Span::new(self.source, bytes.start, bytes.end)
    }
}

/// A scalar of the parser.
struct Scalar<'a> {
    text: &'a str,
    style: ScalarStyle,
    tag: Option<&'a Tag>,
    tag_bytes: Option<Bytes>,
}

fn tag_bytes(span: &granit_parser::Span) -> Option<Bytes> {
    let range = span.tag_span()?.byte_range()?;
    Some(offset(range.start)..offset(range.end))
}

fn null(bytes: Bytes) -> Built {
    let kind = Kind::Scalar { style: ScalarStyle::Plain, indent: 0 };
    Built { value: Value::Null, node: Arc::new(Node { bytes, kind }), size: 1, depth: 0 }
}

/// The field name for a value that is used as a key.
fn key_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Int(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Null | Value::List(_) | Value::Object(_) => None,
    }
}
