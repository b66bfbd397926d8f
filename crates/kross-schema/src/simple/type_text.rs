//! Parses a type, such as `[]map[string]Person`, with the range of each part.

use std::ops::Range;

use kross_diagnostics::Code;
use kross_value::Text;

use crate::openapi::Kind;
use kross_diagnostics::{Path, Place, Problem};

/// Maximum nesting depth of lists and maps in one type.
const MAX_DEPTH: usize = 16;

/// A type and its range in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypeText {
    pub(super) shape: Shape,
    pub(super) range: Range<usize>,
}

/// The structure of a type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// `string`, `integer`, `boolean`, `float`
    Atomic(Kind),
    /// `object`, `map`
    Free,
    /// `[]T`, `list<T>`
    List(Box<TypeText>),
    /// `map[string]T`
    Map(Box<TypeText>),
    /// The name of a custom type.
    Custom(Text),
}

/// The built-in type with a name.
pub(super) fn builtin(word: &str) -> Option<Shape> {
    match word {
        "string" => Some(Shape::Atomic(Kind::String)),
        "integer" => Some(Shape::Atomic(Kind::Integer)),
        "boolean" => Some(Shape::Atomic(Kind::Boolean)),
        "float" => Some(Shape::Atomic(Kind::Number)),
        "object" | "map" => Some(Shape::Free),
        _ => None,
    }
}

/// The names of the built-in types, for suggestions.
pub(super) const BUILTIN: &[&str] = &["string", "integer", "boolean", "float", "object"];

/// The built-in type for a name that other languages use.
pub(super) fn translated(word: &str) -> Option<&'static str> {
    match word {
        "int" | "int32" | "int64" | "uint" | "long" => Some("integer"),
        "bool" => Some("boolean"),
        "number" | "double" | "float32" | "float64" => Some("float"),
        "str" | "text" | "String" => Some("string"),
        "any" | "dict" | "json" | "struct" => Some("object"),
        _ => None,
    }
}

/// Parses the part of a field before the first `|`. Offsets are relative to the start of the field.
pub(super) fn parse(text: &str, path: &Path, problems: &mut Vec<Problem>) -> Option<TypeText> {
    let range = trimmed(text, 0..text.len());
    if range.is_empty() {
        let problem =
            Problem::new(Code::TypeMissing, Place::value(path), "the type is missing").within(range);
        problems.push(problem.help("write a type such as `string` before the markers"));
        return None;
    }
    match parse_range(text, range, 0) {
        Ok(parsed) => Some(parsed),
        Err((code, range, message, help)) => {
            let problem = Problem::new(code, Place::value(path), message).within(range);
            problems.push(match help {
                Some(help) => problem.help(help),
                None => problem,
            });
            None
        }
    }
}

type ParseFailure = (Code, Range<usize>, String, Option<String>);

fn parse_range(text: &str, range: Range<usize>, depth: usize) -> Result<TypeText, ParseFailure> {
    let range = trimmed(text, range);
    let word = text.get(range.clone()).unwrap_or("");
    if depth > MAX_DEPTH {
        let message = format!("the type nests lists and maps more than {MAX_DEPTH} levels deep");
        return Err((Code::TypeTooDeep, range, message, None));
    }
    if let Some(shape) = builtin(word) {
        return Ok(TypeText { shape, range });
    }
    if word.starts_with("[]") {
        let item = inner(text, range.start + 2..range.end, &range, "list", depth)?;
        return Ok(TypeText { shape: Shape::List(Box::new(item)), range });
    }
    if word.starts_with("list<") {
        if !word.ends_with('>') {
            let message = format!("`{word}` has no closing `>`");
            return Err((Code::IncompleteType, range, message, Some("write `list<T>` or `[]T`".into())));
        }
        let item = inner(text, range.start + 5..range.end - 1, &range, "list", depth)?;
        return Ok(TypeText { shape: Shape::List(Box::new(item)), range });
    }
    if word.starts_with("map[") {
        let prefix =
            map_prefix(word).map_err(|(code, message, help)| (code, range.clone(), message, Some(help)))?;
        let value = inner(text, range.start + prefix..range.end, &range, "map", depth)?;
        return Ok(TypeText { shape: Shape::Map(Box::new(value)), range });
    }
    Ok(TypeText { shape: Shape::Custom(word.into()), range })
}

fn inner(
    text: &str,
    inside: Range<usize>,
    whole: &Range<usize>,
    what: &str,
    depth: usize,
) -> Result<TypeText, ParseFailure> {
    if trimmed(text, inside.clone()).is_empty() {
        let word = text.get(whole.clone()).unwrap_or("");
        let message = format!("the {what} type `{word}` has no element type");
        let help =
            format!("add the element type, for example `{word}string`").replace("<>string", "<string>");
        return Err((Code::IncompleteType, whole.clone(), message, Some(help)));
    }
    parse_range(text, inside, depth + 1)
}

/// The length of the prefix `map[string]` of a word that starts with `map[`.
fn map_prefix(word: &str) -> Result<usize, (Code, String, String)> {
    let help = "write `map[string]T`".to_owned();
    let Some(close) = word.find(']') else {
        return Err((Code::IncompleteType, format!("`{word}` has no closing `]`"), help));
    };
    match word.get(4..close).map(str::trim) {
        Some("string") => Ok(close + 1),
        Some("") | None => Err((Code::IncompleteType, format!("`{word}` has no key type"), help)),
        Some(key) => Err((Code::MapKeyNotString, format!("map keys must be strings, not `{key}`"), help)),
    }
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = text.get(range.clone()).unwrap_or("");
    let start = range.start + (part.len() - part.trim_start().len());
    let end = range.end - (part.len() - part.trim_end().len());
    start..end.max(start)
}
