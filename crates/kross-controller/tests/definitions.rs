//! Definitions, revisions and CRDs against a real control plane. All tests of this program share one controller, except
//! those that need a control plane to themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "definitions/acceptance.rs"]
mod acceptance;
#[path = "definitions/crd_deletion.rs"]
mod crd_deletion;
#[path = "definitions/crds.rs"]
mod crds;
#[path = "definitions/deletion.rs"]
mod deletion;
#[path = "definitions/exclusive_plane.rs"]
mod exclusive_plane;
#[path = "definitions/leadership.rs"]
mod leadership;
#[path = "definitions/proof_of_absence.rs"]
mod proof_of_absence;
#[path = "definitions/reconcile_metrics.rs"]
mod reconcile_metrics;
#[path = "definitions/refused_changes.rs"]
mod refused_changes;
#[path = "definitions/restart.rs"]
mod restart;
#[path = "definitions/revisions.rs"]
mod revisions;
#[path = "support/setup.rs"]
mod setup;
#[path = "definitions/unreadable.rs"]
mod unreadable;
