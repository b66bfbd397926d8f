//! Plans for published clusters, claims and applications. Like the plan of an instance, each is a pure function of what was
//! observed.

mod application;
mod application_resource;
mod claim;
mod connection;
mod managed;
mod schedule;
mod target;

pub use application::{
    ApplicationReport, ResourceAnnotation, ResourceDeletion, ResourcePlan, controls, plan_resources,
    resource_state,
};
pub use application_resource::{SecretMarks, resource_definition, resource_status};
pub use claim::{
    BindingFields, Claim, ClaimAction, ClaimClass, ClaimCondition, ClaimObservation, ClaimPlan, ClaimReport,
    ManagedObject, ObservedManaged, ObservedTarget, ObservedUsers, managed_for, plan_claim,
};
pub use connection::{
    CopyOwner, CopyPlan, SourceSecret, check_source, copy_name, is_controlled_by, plan_copy,
};
pub use managed::{
    ClaimReference, PropagationRefusal, SecretReference, allows_namespace, binding_phase, check_bound,
    claim_of, is_bound, is_ready, source_secret,
};
pub use schedule::{PublishedTarget, Scheduling, Surroundings, schedule};
pub use target::{
    TargetConnection, TargetDeletion, TargetObservation, TargetPropagation, TargetSecret, plan_target_status,
    target_secret,
};
