//! Turns the text of a type, such as `[]map[string]Person`, into its shape, with the place of each part.

use std::ops::Range;

use kross_diagnostics::Code;
use kross_value::Text;

use crate::openapi::Kind;
use kross_diagnostics::{Path, Place, Problem};

/// How deep lists and maps may nest in one type.
const MAX_DEPTH: usize = 16;

/// A type and where its text stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypeText {
    pub(super) shape: Shape,
    pub(super) range: Range<usize>,
}

/// What a type's text says.
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
    /// A name that may be one of the custom types.
    Custom(Text),
}

/// The type that a word means by itself.
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

/// The words that [`builtin`] knows.
pub(super) const BUILTIN: &[&str] = &["string", "integer", "boolean", "float", "object"];

/// What other languages call a type that this one has.
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

/// Parses the part of a field before the first `|`. The text begins the field, so offsets are offsets in the field.
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

type Failure = (Code, Range<usize>, String, Option<String>);

fn parse_range(text: &str, range: Range<usize>, depth: usize) -> Result<TypeText, Failure> {
    let range = trimmed(text, range);
    let word = text.get(range.clone()).unwrap_or("");
    if depth > MAX_DEPTH {
        let message = format!("the type nests more than {MAX_DEPTH} lists and maps");
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
) -> Result<TypeText, Failure> {
    if trimmed(text, inside.clone()).is_empty() {
        let word = text.get(whole.clone()).unwrap_or("");
        let message = format!("`{word}` does not say what the {what} holds");
        let help = format!("add the type, as in `{word}string`").replace("<>string", "<string>");
        return Err((Code::IncompleteType, whole.clone(), message, Some(help)));
    }
    parse_range(text, inside, depth + 1)
}

/// How long `map[string]` is in a word that begins with `map[`.
fn map_prefix(word: &str) -> Result<usize, (Code, String, String)> {
    let help = "write `map[string]T`".to_owned();
    let Some(close) = word.find(']') else {
        return Err((Code::IncompleteType, format!("`{word}` has no closing `]`"), help));
    };
    match word.get(4..close).map(str::trim) {
        Some("string") => Ok(close + 1),
        Some("") | None => Err((Code::IncompleteType, format!("`{word}` has no type for its keys"), help)),
        Some(key) => Err((Code::MapKeyNotString, format!("keys of maps are strings, not `{key}`"), help)),
    }
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = text.get(range.clone()).unwrap_or("");
    let start = range.start + (part.len() - part.trim_start().len());
    let end = range.end - (part.len() - part.trim_end().len());
    start..end.max(start)
}
