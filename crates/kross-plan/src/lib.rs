//! Plans what to do for an instance from its graph and what was observed.
//!
//! [`plan`] is a pure function: no network, no clock. The reconcile loop observes, plans, applies what the plan says, puts
//! the answers into [`Observed`] and plans again, until nothing is left to write; then it reports [`Plan::status`].
//! [`plan_deletion`] needs no graph at all. [`simulate`] runs the same loop without a cluster.

mod deletion;
mod desired;
mod instance;
mod lifecycle;
mod observed;
mod order;
mod plan;
mod planner;
mod progress;
mod recheck;
mod report;
mod settings;
pub mod simulate;
mod tracked;
mod walk;

pub use deletion::{Deletion, DeletionPlan, Doom, DoomedObject, Wait, plan_deletion};
pub use instance::Instance;
pub use lifecycle::Answers;
pub use observed::{
    ClusterState, CollectionQuery, Connection, Failure, Observed, ObservedObject, ReferenceKey,
};
pub use plan::{ApplyAction, ExternalRead, NodePlan, Plan, PlannedObject, UsedCluster};
pub use planner::{plan, plan_for_deletion};
pub use progress::{Progress, Skip, Trouble};
pub use report::{blocked_deletion_status, deletion_status, failed_status, suspended_status};
pub use settings::Settings;
pub use simulate::{Simulation, simulate};
