//! Parses, type-checks, compiles and evaluates CEL expressions.
//!
//! The stages: text → [`ast`] (syntax, macros) → types ([`types`]) → program → [`value`]. Each function of the
//! language is declared once, in [`library`], for the checker, the evaluator and the documentation.
//!
//! ```
//! use kross_cel::types::Type;
//! use kross_cel::value::{Value, to_data};
//! use kross_cel::{Budget, Env, Program};
//!
//! let env = Env::standard().with_variables([("schema", Type::Dyn)]);
//! let checked = env.compile("schema.spec.name + '-' + string(schema.spec.replicas)").unwrap();
//! let program = Program::new(&checked).unwrap();
//!
//! let schema: kross_value::Value = serde_json::from_str(r#"{"spec": {"name": "web", "replicas": 3}}"#).unwrap();
//! let value = program.evaluate(&[Some(Value::from(&schema))], &mut Budget::default()).unwrap();
//! assert_eq!(to_data(&value).unwrap(), Some("web-3".into()));
//!
//! let error = program.evaluate(&[None], &mut Budget::default()).unwrap_err();
//! assert!(error.fault.is_pending());
//! ```

// The examples of the README run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// So do those of the page that compares this crate with others.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cel-crate.md")]
struct Page;

pub mod ast;
pub mod checked;
pub mod env;
pub mod error;
pub mod eval;
pub mod format;
pub mod library;
pub mod references;
pub mod syntax;
pub mod template;
pub mod types;
pub mod value;

mod check;
mod span;

pub use checked::Checked;
pub use env::Env;
pub use eval::{Budget, Cancellation, Program};
pub use span::Span;
