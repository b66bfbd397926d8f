//! Reconciles definitions: turns a definition into a served API.
//!
//! | step | file |
//! |---|---|
//! | the list of the steps | `reconcile.rs` |
//! | compile a spec | `compile.rs` |
//! | check the clusters that a spec names | `cluster_checks.rs` |
//! | issue, adopt and delete revisions | `revisions.rs` |
//! | create or update the CRD, publish the graph | `serve.rs`, `crd.rs` |
//! | back off if another client changes the CRD again and again | `crd_repairs.rs` |
//! | keep the ServiceAccount of instances that outlive the definition | `access.rs` |
//! | find the revision that instances stay on while the CRD of the latest is refused | `refused.rs` |
//! | write the status | `status.rs` |
//! | validate a definition that is not stored yet, for the admission webhook | `validation.rs` |
//! | delete a definition | `deletion.rs` |
//! | serve the instances of a definition that was deleted | `orphan.rs` |

mod access;
mod cluster_checks;
mod compile;
mod crd;
mod crd_repairs;
mod deletion;
mod error;
mod object;
mod orphan;
mod reconcile;
mod refused;
mod revisions;
mod serve;
mod status;
mod validation;

pub(crate) use cluster_checks::ClusterHandles;
pub(crate) use compile::{NotCompiled, Resolvers, compile_single, deferred_warnings};
pub(crate) use crd_repairs::CrdRepairs;
pub(crate) use reconcile::{reconcile, release_revision};
pub use validation::Validation;
pub(crate) use validation::validate;
