//! Turns a mistake in the user's text into a code, a span, a help text and every output format.
//!
//! A [`Diagnostic`] is plain data: stages collect them in a [`Diagnostics`], and renderers in [`render`] turn
//! the collection into what a terminal, a pull request, a machine or a status condition shows.
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
