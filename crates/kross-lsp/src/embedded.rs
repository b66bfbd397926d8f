//! The expressions in a document: the text between `${` and `}` of every string, with its place.

use std::ops::Range;

use kross_api::yaml::Document;
use kross_cel::Span;
use kross_cel::ast::{Ast, Expr};
use kross_cel::syntax::{Limits, parse};
use kross_cel::template::scan;
use kross_diagnostics::{Path, PathSegment};
use kross_value::{Text, Value};

use crate::recovery::bytes;

/// An expression in a string.
#[derive(Clone, Debug)]
pub(crate) struct Embedded {
    /// The path of the string.
    pub(crate) path: Path,
    /// Where the expression begins in the string.
    pub(crate) start: usize,
    /// The expression, parsed as far as possible.
    pub(crate) ast: Ast,
}

impl Embedded {
    /// The bytes of a part of the expression in the file.
    pub(crate) fn bytes(&self, document: &Document, span: Span) -> Range<usize> {
        let range = span.range();
        bytes(document.span_within(&self.path, range.start + self.start..range.end + self.start))
    }

    /// The bytes of the whole expression.
    pub(crate) fn whole(&self, document: &Document) -> Range<usize> {
        let end = u32::try_from(self.ast.source.len()).unwrap_or(u32::MAX);
        self.bytes(document, Span::new(0, end))
    }

    /// The nodes that enclose an offset of the file, from the outermost to the innermost.
    pub(crate) fn nodes_at(&self, document: &Document, offset: usize) -> Vec<&Expr> {
        let mut found = Vec::new();
        let mut next = Some(&self.ast.root);
        while let Some(node) = next {
            found.push(node);
            let contains = |child: &&Expr| {
                let range = self.bytes(document, child.span);
                range.start <= offset && offset <= range.end
            };
            next = node.children().into_iter().find(contains);
        }
        found
    }
}

/// Parses an expression as far as possible.
pub(crate) fn parsed(text: impl Into<Text>) -> Ast {
    parse(text, &Limits::default()).ast
}

/// Every expression of a document, in the order of the value.
pub(crate) fn expressions(document: &Document) -> Vec<Embedded> {
    let mut found = Vec::new();
    strings(document.value(), &mut Path::root(), &mut |path, text| {
        for inner in scan(text).expressions() {
            let Some(source) = text.get(inner.clone()) else { continue };
            found.push(Embedded { path: path.clone(), start: inner.start, ast: parsed(source) });
        }
    });
    found
}

/// Calls `visit` for every string of a value.
pub(crate) fn strings(value: &Value, path: &mut Path, visit: &mut dyn FnMut(&Path, &Text)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(PathSegment::Index(index));
                strings(item, path, visit);
                path.pop();
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries.iter() {
                path.push(PathSegment::Key(key.to_string()));
                strings(value, path, visit);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The value at a path.
pub(crate) fn at<'v>(value: &'v Value, path: &Path) -> Option<&'v Value> {
    path.segments().iter().try_fold(value, |value, segment| match segment {
        PathSegment::Key(key) => value.get(key),
        PathSegment::Index(index) => value.as_list()?.get(*index),
    })
}

/// The text of the expression that is being typed at an offset of the file: from its `${` to the offset. None if the offset is not in
/// an expression.
pub(crate) fn typed(text: &str, offset: usize) -> Option<String> {
    /// Longer expressions are not completed.
    const MAX_LENGTH: usize = 16 * 1024;
    let before = text.get(..offset)?;
    let earliest = before.floor_char_boundary(before.len().saturating_sub(MAX_LENGTH));
    let start = before.get(earliest..)?.rfind("${")? + earliest + 2;
    let inside = before.get(start..)?;
    // A key or a new item on a later line ends a text that was never closed.
    let is_open = !closes(inside);
    is_open.then(|| inside.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// Whether the text of an expression contains the brace that closes it, or a line that cannot be a part of it.
fn closes(inside: &str) -> bool {
    let closed = scan(&format!("${{{inside}")).has_expressions();
    let is_key = |line: &str| {
        let line = line.trim_start();
        let word = line.trim_start_matches("- ");
        let key = word.split(':').next().unwrap_or_default();
        let is_name = !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric());
        line.starts_with("- ")
            || (is_name && word.get(key.len()..).is_some_and(|rest| rest == ":" || rest.starts_with(": ")))
    };
    closed || inside.lines().skip(1).any(is_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expression_being_typed_reaches_to_the_cursor() {
        let typed_at_end = |text: &str| typed(text, text.len());
        assert_eq!(typed_at_end("a: ${schema.sp").as_deref(), Some("schema.sp"));
        assert_eq!(typed_at_end("a: \"${x == \\\"b\\\" && ").as_deref(), Some("x == \"b\" && "));
        assert_eq!(typed_at_end("a: ${done} and ").as_deref(), None);
        assert_eq!(typed_at_end("a: ${done}-${ne").as_deref(), Some("ne"));
        assert_eq!(typed_at_end("a: ${ {'b': 1}.").as_deref(), Some(" {'b': 1}."));
        assert_eq!(typed_at_end("a: |\n  ${a &&\n   b.").as_deref(), Some("a &&\n   b."));
        assert_eq!(typed_at_end("a: ${open\nb: "), None);
        assert_eq!(typed_at_end("a: text"), None);
    }
}
