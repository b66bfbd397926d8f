//! Turns the text of definitions and instances into answers for editors.
//!
//! [`Workspace`] is pure: texts and schemas in, answers out. [`server`] connects it to an editor over standard input and output, with
//! the language server protocol.
//!
//! ```
//! use gen_lsp_types::Position;
//! use kross_lsp::{Settings, Workspace};
//!
//! let text = "\
//! apiVersion: kro.run/v1alpha1
//! kind: ResourceGraphDefinition
//! metadata: {name: web}
//! spec:
//!   schema:
//!     kind: Web
//!     apiVersion: v1alpha1
//!     spec: {name: string}
//!   resources:
//!   - id: config
//!     template:
//!       apiVersion: v1
//!       kind: ConfigMap
//!       metadata: {name: '${schema.spec.nam}'}
//! ";
//! let mut workspace = Workspace::new(Settings::default());
//! workspace.set("file:///web.yaml", text);
//! let found = workspace.diagnostics("file:///web.yaml");
//! assert_eq!(found.len(), 1);
//! let names = workspace.completion("file:///web.yaml", Position { line: 13, character: 40 });
//! assert!(names.iter().any(|item| item.label == "name"));
//! ```

mod actions;
mod completion;
mod cursor;
mod diagnostics;
mod documentation;
mod embedded;
mod folding;
mod formatting;
mod hints;
mod hover;
mod instances;
mod navigation;
mod origin;
mod outline;
mod recovery;
mod rename;
mod schema_fields;
pub mod server;
mod settings;
mod symbols;
mod text;
mod tokens;
mod workspace;

pub use rename::RenameError;
pub use settings::Settings;
pub use tokens::{TOKEN_MODIFIERS, TOKEN_TYPES};
pub use workspace::Workspace;
