//! Reports problems in the user's text with a code, a span and a help text, in every output format.
//!
//! A [`Diagnostic`] is plain data: compiler stages collect them in a [`Diagnostics`], and the renderers in [`render`]
//! format the collection for terminals, pull requests, machines and status conditions.
//!
//! ```
//! use kross_diagnostics::{Code, Diagnostic, Sources, Span};
//!
//! let mut sources = Sources::new();
//! let file = sources.add("rgd.yaml", "kind: web\n");
//! let diagnostic = Diagnostic::new(Code::InvalidKind, "`web` is not a valid kind")
//!     .at(Span::new(file, 6, 9))
//!     .help("start the kind with a capital letter");
//! assert_eq!(sources.position(Span::new(file, 6, 9)).to_string(), "rgd.yaml:1:7");
//! assert_eq!(diagnostic.code.id(), "K0201");
//! ```

// The examples of the README run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod code;
mod diagnostic;
mod path;
mod problem;
pub mod render;
mod source;
mod suggest;

pub use code::Code;
pub use diagnostic::{Diagnostic, Diagnostics, Edit, Help, Label, Severity};
pub use path::{Path, PathError, PathSegment};
pub use problem::{Locate, Part, Place, Problem};
pub use source::{Position, SourceId, Sources, Span};
pub use suggest::suggest;
