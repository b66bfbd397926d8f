//! Plans what to do for an instance from its graph and what was observed.
//!
//! [`plan`] is a pure function: no network, no clock. The reconcile loop observes, plans, applies what the plan says, puts
//! the results into [`Observed`] and plans again, until nothing is left to apply; then it writes [`Plan::status`].
//! [`plan_deletion`] needs no graph. [`simulate`] runs the same loop without a cluster.
//!
//! ```
//! use jiff::Timestamp;
//! use kross_graph::{Definition, Options, Resolvers, compile};
//! use kross_plan::{Settings, simulate};
//! use kross_schema::{Bundle, SchemaResolver};
//! use kross_value::Value;
//!
//! struct Kubernetes(std::sync::Arc<Bundle>);
//! impl Resolvers for Kubernetes {
//!     fn local(&self) -> &dyn SchemaResolver {
//!         &*self.0
//!     }
//! }
//!
//! let spec = serde_json::from_str(r#"{
//!     "schema": {"apiVersion": "v1", "kind": "App", "spec": {"text": "string"}},
//!     "resources": [
//!         {"id": "note", "template": {"apiVersion": "v1", "kind": "ConfigMap",
//!             "metadata": {"name": "note"}, "data": {"text": "${schema.spec.text}"}}},
//!         {"id": "copy", "template": {"apiVersion": "v1", "kind": "ConfigMap",
//!             "metadata": {"name": "${note.metadata.name}-copy"}}}
//!     ]
//! }"#).unwrap();
//! let definition = Definition { name: "app", spec: &spec, document: None };
//! let graph = compile(definition, &Kubernetes(Bundle::latest()), &Options::default()).unwrap();
//! let instance: Value = serde_json::from_str(r#"{"apiVersion": "kro.run/v1", "kind": "App",
//!     "metadata": {"name": "one", "namespace": "shop"}, "spec": {"text": "hello"}}"#).unwrap();
//!
//! let simulation = simulate(&graph, &instance, &[], &Settings::default(), Timestamp::UNIX_EPOCH);
//! let names: Vec<&str> = simulation.applied.iter().map(|applied| &*applied.key.name).collect();
//! assert_eq!(names, ["note", "note-copy"]);
//! assert_eq!(simulation.plan.state.as_str(), "ACTIVE");
//! ```

mod access_paths;
mod account;
mod branches;
mod contest;
mod defaults;
mod deletion;
mod desired;
mod instance;
mod inventory;
mod lifecycle;
mod observed;
mod order;
mod plan;
mod planner;
mod progress;
mod prune;
mod recheck;
mod report;
mod secrets;
mod settings;
pub mod simulate;
mod tracked;
mod walk;
pub mod workload;

pub use access_paths::{AccessPath, AccessPaths};
pub use account::{AccountError, account, default_account};
pub use branches::{Branch, BranchKind, BranchRecord, Outcomes, branches};
pub use deletion::{
    Deletion, DeletionPlan, Hook, HookRecord, Hooks, OwnedObject, PendingDeletion, Wait, plan_deletion,
    reported_orphans,
};
pub use instance::Instance;
pub use kross_cel::Cancellation;
pub use lifecycle::EvaluatedLifecycle;
pub use observed::{
    AccessObjects, ClusterConnection, CollectionQuery, Contest, InventoryCluster, KindKey, Observed,
    ObservedCluster, ObservedObject, OperationFailure, ReferenceKey, Withheld,
};
pub use plan::{
    ApplyAction, ExternalRead, MissingCause, MissingHook, NodePlan, Plan, PlannedObject, UsedCluster,
};
pub use planner::{plan, plan_for_deletion};
pub use progress::{Progress, ResourceFailure, Skip};
pub use report::{
    DeletionProgress, blocked_deletion_status, deletion_status, failed_status, is_minor_change,
    suspended_status,
};
pub use settings::{Limits, Settings};
pub use simulate::{Simulation, Simulator, simulate};
