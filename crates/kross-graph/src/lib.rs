//! Compiles a ResourceGraphDefinition into a typed, ordered, immutable graph.

mod compile;
mod deferred;
mod expression;
mod format;
mod graph;
mod load;
mod names;
mod offline;
mod order;
mod template;
mod tracked;

pub use compile::{
    Analysis, AnalyzedResource, Definition, FieldScope, Options, ReportAs, Resolvers, analyze, compile,
    compile_access,
};
pub use deferred::check_deferred;
pub use expression::{Expression, Outcome, Scope};
pub use format::format_text;
pub use graph::{
    AccountTemplate, Axis, Dependency, Graph, InstanceKind, KnownKind, Lifecycle, Node, NodeIndex,
    ObjectKind, Order, Placement, Policy, RemotePlacement, Source,
};
pub use load::{
    API_VERSION, KIND, Validation, definition_crd, is_definition, load, load_partially, near_miss, validate,
};
pub use names::{NameError, fix as fix_name, validate as validate_name};
pub use offline::{OfflineSchemas, check_instance, generated_crd, is_crd};
pub use template::{Field, Part, RenderError, Template};
pub use tracked::FIELDS as TRACKED_FIELDS;
