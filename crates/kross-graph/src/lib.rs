//! Compiles a ResourceGraphDefinition into a typed, ordered, immutable graph.

mod compile;
mod deferred;
mod expression;
mod format;
mod graph;
mod load;
mod names;
mod order;
mod template;
mod tracked;

pub use compile::{Definition, Options, ReportAs, Resolvers, compile, compile_access};
pub use deferred::check_deferred;
pub use expression::{Expression, Outcome, Scope};
pub use format::format_text;
pub use graph::{
    AccountTemplate, Axis, Dependency, Graph, InstanceKind, KnownKind, Lifecycle, Node, NodeIndex,
    ObjectKind, Order, Placement, Policy, RemotePlacement, Source,
};
pub use load::{API_VERSION, KIND, Validation, is_definition, load, validate};
pub use template::{Field, Part, RenderError, Template};
pub use tracked::FIELDS as TRACKED_FIELDS;
