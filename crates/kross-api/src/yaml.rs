//! Turns YAML text into values that know where each of their parts stands in the text. Bad text becomes diagnostics;
//! the other documents of the file are read all the same.
//!
//! Plain scalars mean what kubectl takes them for, so that a file checked here and applied there is one object:
//! YAML 1.1 booleans (`yes`, `on`, `n`; with a warning), octal numbers with `0` or `0o`, hexadecimal and binary ones,
//! underscores in numbers, timestamps as text. Objects travel as JSON, so a float without fraction is a whole number,
//! keys are text (`8080:` is `"8080"`), and `.inf` and `.nan` are mistakes. Merge keys (`<<`) are applied; entries
//! written out win over merged ones.
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
mod node;
mod offsets;
mod scalar;
mod syntax;

use std::sync::Arc;

pub use document::{Document, attach, attach_all};
use granit_parser::{Event, Parser};
use kross_diagnostics::{Code, Diagnostic, Diagnostics, SourceId, Sources, Span};

/// What a file may hold at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file.
    pub bytes: usize,
    /// Lists and mappings inside of each other, in one document, aliases included.
    pub depth: usize,
    /// Values in one document, aliases counted as often as they are used.
    pub nodes: usize,
    /// Errors in the YAML itself after which the rest of the file is not read.
    pub mistakes: usize,
}

impl Default for Limits {
    /// Room for every bundle of CRDs in use, and for nothing that would exhaust memory.
    fn default() -> Self {
        Self { bytes: 32 << 20, depth: 100, nodes: 2_000_000, mistakes: 100 }
    }
}

/// Reads every document of a text; empty ones are left out. The text becomes part of `sources` under `name`.
///
/// A document with a mistake that leaves its structure in doubt is left out; one with a mistake in a single value,
/// such as a repeated key, is there without it.
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
    Reader { text, source, limits, found, mistakes: 0 }.documents()
}

/// Reads every document of a file whose encoding is not known to be right.
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
            // Up to the first bad byte the text is as long as the bytes; the sign for that byte takes three.
            let start = offset(error.valid_up_to());
            let diagnostic = Diagnostic::new(Code::InvalidEncoding, "the text is not UTF-8")
                .labelled(Span::new(source, start, start.saturating_add(3)), "not UTF-8 from here on");
            found.push(diagnostic.help(encoding_help(bytes)));
            Vec::new()
        }
    }
}

fn encoding_help(bytes: &[u8]) -> &'static str {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "this looks like UTF-16; save the file as UTF-8",
        _ => "save the file as UTF-8",
    }
}

fn too_large(name: &str, size: usize, limits: &Limits, source: SourceId) -> Diagnostic {
    let message = format!("`{name}` has {size} bytes; at most {} are read", limits.bytes);
    Diagnostic::new(Code::YamlTooLarge, message)
        .at(Span::new(source, 0, 0))
        .help("split it into several files")
}

/// An offset into a text that is known to be shorter than 4 GiB.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Reads one text, document by document.
struct Reader<'a> {
    text: Arc<str>,
    source: SourceId,
    limits: &'a Limits,
    found: &'a mut Diagnostics,
    mistakes: usize,
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
        while self.mistakes < self.limits.mistakes {
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
                    self.mistakes += 1;
                    if !matches!(parser.proceed_next_document(), Ok(true)) {
                        break;
                    }
                }
            }
        }
        documents
    }

    /// Reads one document up to its end; none when it is given up.
    fn document<'t>(
        &mut self,
        parser: &mut Parser<'t, granit_parser::StrInput<'t>>,
        builder: &mut build::Builder<'t>,
    ) -> Option<build::Built> {
        loop {
            let given_up = match parser.next()? {
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
            if given_up || self.mistakes + builder.errors >= self.limits.mistakes {
                self.report(builder);
                let _ = parser.proceed_next_document();
                return None;
            }
        }
    }

    fn report(&mut self, builder: &mut build::Builder<'_>) {
        self.mistakes += builder.errors;
        self.found.extend(builder.found.drain(..));
    }
}
