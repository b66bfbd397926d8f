//! Parses YAML into values with the source position of every part. Errors become diagnostics; the other documents of
//! the file are still parsed.
//!
//! Plain scalars are parsed like kubectl does, so that a file that is checked here and applied there is the same object:
//! YAML 1.1 booleans (`yes`, `on`, `n`; with a warning), octal numbers with `0` or `0o`, hexadecimal and binary numbers,
//! underscores in numbers, timestamps as strings. Objects are sent as JSON, so a float without a fraction is an integer,
//! keys are strings (`8080:` is `"8080"`), and `.inf` and `.nan` are errors. Merge keys (`<<`) are applied; explicit
//! entries take precedence over merged ones.
//!
//! ```
//! use kross_api::yaml;
//! use kross_diagnostics::{Diagnostics, Sources};
//!
//! let mut sources = Sources::new();
//! let mut found = Diagnostics::new();
//! let text = "spec:\n  expression: |\n    a +\n    b\n";
//! let documents = yaml::parse(&mut sources, "rgd.yaml", text, &yaml::Limits::default(), &mut found);
//! let document = &documents[0];
//! assert_eq!(document.value().at(&["spec", "expression"]).unwrap().as_str(), Some("a +\nb\n"));
//! let span = document.span_within(&"spec.expression".parse().unwrap(), 4..5);
//! assert_eq!(sources.position(span).to_string(), "rgd.yaml:4:5");
//! ```

mod build;
mod collection;
mod document;
pub mod format;
mod node;
mod offsets;
mod scalar;
mod syntax;

use std::sync::Arc;

pub use document::{Document, attach, attach_all};
use granit_parser::{Event, Parser};
use kross_diagnostics::{Code, Diagnostic, Diagnostics, SourceId, Sources, Span};

/// Limits for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a file in bytes.
    pub bytes: usize,
    /// Maximum nesting depth of lists and mappings in one document, including aliases.
    pub depth: usize,
    /// Maximum number of values in one document; every use of an alias counts.
    pub nodes: usize,
    /// Maximum number of YAML errors; parsing stops after that many.
    pub errors: usize,
}

impl Default for Limits {
    /// Enough for the largest common CRD bundles, but too little to exhaust memory.
    fn default() -> Self {
        Self { bytes: 32 << 20, depth: 100, nodes: 2_000_000, errors: 100 }
    }
}

/// Parses every document of a text; empty documents are omitted. The text is added to `sources` under `name`.
///
/// A document with a syntax error is omitted; a document with an error in a single value, such as a duplicate key, is
/// returned without that value.
pub fn parse(
    sources: &mut Sources,
    name: impl Into<Arc<str>>,
    text: impl Into<Arc<str>>,
    limits: &Limits,
    found: &mut Diagnostics,
) -> Vec<Document> {
    let text: Arc<str> = text.into();
    let name: Arc<str> = name.into();
    if text.len() > limits.bytes.min(u32::MAX as usize) {
        let size = text.len();
        let source = sources.add(Arc::clone(&name), "");
        found.push(too_large(&name, size, limits, source));
        return Vec::new();
    }
    let source = sources.add(name, Arc::clone(&text));
    Reader { text, source, limits, found, errors: 0 }.documents()
}

/// Parses every document of a file whose encoding has not been checked.
pub fn parse_bytes(
    sources: &mut Sources,
    name: impl Into<Arc<str>>,
    bytes: &[u8],
    limits: &Limits,
    found: &mut Diagnostics,
) -> Vec<Document> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(sources, name, text, limits, found),
        Err(error) => {
            let kept = bytes.get(..bytes.len().min(limits.bytes)).unwrap_or_default();
            let source = sources.add(name, String::from_utf8_lossy(kept).into_owned());
            // Up to the first invalid byte, offsets are the same; the replacement character for that byte has three bytes.
            let start = offset(error.valid_up_to());
            let diagnostic = Diagnostic::new(Code::InvalidEncoding, "the file is not valid UTF-8")
                .labelled(Span::new(source, start, start.saturating_add(3)), "first invalid byte");
            found.push(diagnostic.help(encoding_help(bytes)));
            Vec::new()
        }
    }
}

fn encoding_help(bytes: &[u8]) -> &'static str {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "the file looks like UTF-16; save it as UTF-8",
        _ => "save the file as UTF-8",
    }
}

fn too_large(name: &str, size: usize, limits: &Limits, source: SourceId) -> Diagnostic {
    let message = format!("`{name}` has {size} bytes, but the limit is {}", limits.bytes);
    Diagnostic::new(Code::YamlTooLarge, message).at(Span::new(source, 0, 0)).help("split the file")
}

/// An offset into a text that is known to be shorter than 4 GiB.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Parses one text, document by document.
struct Reader<'a> {
    text: Arc<str>,
    source: SourceId,
    limits: &'a Limits,
    found: &'a mut Diagnostics,
    errors: usize,
}

impl Reader<'_> {
    fn documents(mut self) -> Vec<Document> {
        let text = Arc::clone(&self.text);
        let options = granit_parser::options! {
            emit_unresolved_aliases: true,
            emit_comments: false,
            flow_nesting_limit: self.limits.depth,
            block_nesting_limit: self.limits.depth,
        };
        let mut parser = Parser::new_from_str_with_options(&text, options);
        let mut documents = Vec::new();
        while self.errors < self.limits.errors {
            match parser.next() {
                Some(Ok((Event::DocumentStart(..), _))) => {
                    let mut builder = build::Builder::new(&text, self.source, self.limits);
                    let whole = self.document(&mut parser, &mut builder);
                    documents
                        .extend(whole.and_then(|built| Document::new(built, self.source, Arc::clone(&text))));
                }
                Some(Ok((Event::StreamEnd, _))) | None => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    let before = syntax::Before { bracket: None, end: 0 };
                    self.found.push(syntax::describe(&error, &text, self.source, &before));
                    self.errors += 1;
                    if !matches!(parser.proceed_next_document(), Ok(true)) {
                        break;
                    }
                }
            }
        }
        documents
    }

    /// Parses one document to its end; `None` if parsing it was aborted.
    fn document<'t>(
        &mut self,
        parser: &mut Parser<'t, granit_parser::StrInput<'t>>,
        builder: &mut build::Builder<'t>,
    ) -> Option<build::Built> {
        loop {
            let aborted = match parser.next()? {
                Ok((Event::DocumentEnd, _)) => {
                    let built = builder.finish();
                    self.report(builder);
                    return built;
                }
                Ok((event, span)) => !builder.event(event, &span),
                Err(error) => {
                    let before = builder.before();
                    builder.push(syntax::describe(&error, &self.text, self.source, &before));
                    true
                }
            };
            if aborted || self.errors + builder.errors >= self.limits.errors {
                self.report(builder);
                let _ = parser.proceed_next_document();
                return None;
            }
        }
    }

    fn report(&mut self, builder: &mut build::Builder<'_>) {
        self.errors += builder.errors;
        self.found.extend(builder.found.drain(..));
    }
}
