//! Formats YAML: two spaces of indentation, lists indented below their key, one order of keys, no superfluous spaces and
//! blank lines, quotes around strings that other YAML parsers would read as something else. Comments are kept.
//!
//! ```
//! use kross_api::yaml::format::{Plain, format};
//!
//! let text = "items:   # two\n- {a: 1,b:   yes}\n# second\n-   c:\n       2019-01-01\n";
//! let formatted = format("a.yaml", text, &Plain).unwrap();
//! assert_eq!(formatted, "items: # two\n  - {a: 1, b: true}\n  # second\n  - c: \"2019-01-01\"\n");
//! ```

mod comments;
mod print;
mod scalars;
mod tree;

use kross_diagnostics::{Code, Diagnostic, Diagnostics, PathSegment, Sources, Span};
use kross_value::Value;

use super::{Document, Limits, parse};

/// What is formatted beyond the YAML itself.
pub trait Style {
    /// The keys of a mapping that come first, in this order, and those that come last.
    fn keys(
        &self,
        document: &Value,
        path: &[PathSegment],
    ) -> (&'static [&'static str], &'static [&'static str]) {
        let _ = (document, path);
        (&[], &[])
    }

    /// A string with the same meaning; none if it stays as it is.
    fn text(&self, document: &Value, path: &[PathSegment], text: &str) -> Option<String> {
        let _ = (document, path, text);
        None
    }
}

/// YAML of any kind: keys and strings are kept.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Style for Plain {}

/// Why a text was not formatted.
#[derive(Debug)]
pub struct NotFormatted {
    /// The text under the name that it was given, for positions.
    pub sources: Sources,
    /// The errors in it.
    pub diagnostics: Diagnostics,
}

/// Formats a text of any number of documents.
///
/// # Errors
/// The text has errors, or uses YAML that is not formatted: directives, `...`, keys that are not on one line.
pub fn format(name: &str, text: &str, style: &dyn Style) -> Result<String, Box<NotFormatted>> {
    let (mut sources, mut diagnostics) = (Sources::new(), Diagnostics::new());
    let limits = Limits::default();
    let before = parse(&mut sources, name, text, &limits, &mut diagnostics);
    if diagnostics.has_errors() {
        return Err(Box::new(NotFormatted { sources, diagnostics }));
    }
    let refused = |sources: Sources, at: usize, why: &str, help: &str| {
        let mut diagnostics = Diagnostics::new();
        let at = super::offset(at);
        let source = before.first().map(Document::source);
        let diagnostic = Diagnostic::new(Code::NotFormatted, why).help(help);
        diagnostics.push(match source {
            Some(source) => diagnostic.at(Span::new(source, at, at.saturating_add(1))),
            None => diagnostic,
        });
        Err(Box::new(NotFormatted { sources, diagnostics }))
    };
    if before.is_empty() {
        return Ok(text.to_owned());
    }
    let mut tree = match tree::read(text) {
        Ok(tree) => tree,
        Err(unsupported) => {
            let help = "write it in another way, or leave the file out";
            return refused(sources, unsupported.at, unsupported.why, help);
        }
    };
    comments::attach(&mut tree, text);
    let formatted = print::print(&tree, text, &before, style);
    let after = parse(&mut Sources::new(), name, formatted.as_str(), &limits, &mut Diagnostics::new());
    let same = before.len() == after.len()
        && before.iter().zip(&after).all(|(old, new)| {
            normalized(old.value(), old.value(), &mut Vec::new(), style)
                == normalized(new.value(), new.value(), &mut Vec::new(), style)
        });
    if !same {
        // No input is known that leads here; a formatter must not be the one who finds it.
        let help = "please report the file as a bug; it was left as it is";
        return refused(sources, 0, "formatting would change the meaning of the file", help);
    }
    Ok(formatted)
}

/// The value with every string formatted: equal for texts with the same meaning.
fn normalized(document: &Value, value: &Value, path: &mut Vec<PathSegment>, style: &dyn Style) -> Value {
    match value {
        Value::String(text) => match style.text(document, path, text) {
            Some(formatted) => Value::from(formatted),
            None => value.clone(),
        },
        Value::List(items) => Value::list(items.iter().enumerate().map(|(at, item)| {
            path.push(PathSegment::Index(at));
            let item = normalized(document, item, path, style);
            path.pop();
            item
        })),
        Value::Object(object) => Value::object(object.iter().map(|(key, item)| {
            path.push(PathSegment::Key(key.as_str().into()));
            let item = normalized(document, item, path, style);
            path.pop();
            (key.as_str(), item)
        })),
        other => other.clone(),
    }
}
