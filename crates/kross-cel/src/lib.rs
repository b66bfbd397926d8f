//! Turns an expression into a checked, compiled program, and values out of it.
//!
//! The walk inside: text → [`ast`] (syntax, macros) → types ([`types`]) → program → [`value`]. Each function of
//! the language is declared once, in [`library`], for the checker, the evaluator and the docs alike.

pub mod ast;
pub mod check;
pub mod checked;
pub mod env;
pub mod error;
pub mod eval;
pub mod library;
pub mod references;
pub mod syntax;
pub mod template;
pub mod types;
pub mod value;

mod span;

pub use checked::Checked;
pub use env::Env;
pub use eval::{Budget, Program};
pub use span::Span;
