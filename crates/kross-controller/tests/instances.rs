//! Instances against a real control plane. All tests of this program share one controller, whose requests go through a fault
//! proxy that records them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub
)]

#[path = "instances/collections.rs"]
mod collections;
#[path = "instances/create.rs"]
mod create;
#[path = "instances/deletion.rs"]
mod deletion;
#[path = "instances/drift.rs"]
mod drift;
#[path = "instances/events.rs"]
mod events;
#[path = "instances/existing_objects.rs"]
mod existing_objects;
#[path = "instances/expressions.rs"]
mod expressions;
#[path = "instances/external_references.rs"]
mod external_references;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "instances/inventory.rs"]
mod inventory;
#[path = "instances/nested_instances.rs"]
mod nested_instances;
#[path = "instances/ownership_conflicts.rs"]
mod ownership_conflicts;
#[path = "instances/proof_of_absence.rs"]
mod proof_of_absence;
#[path = "instances/prune.rs"]
mod prune;
#[path = "instances/rejected_objects.rs"]
mod rejected_objects;
#[path = "instances/repairs.rs"]
mod repairs;
#[path = "instances/resync.rs"]
mod resync;
#[path = "instances/rollout.rs"]
mod rollout;
#[path = "instances/scale.rs"]
mod scale;
#[path = "instances/served_kinds.rs"]
mod served_kinds;
#[path = "support/setup.rs"]
mod setup;
#[path = "instances/suspension.rs"]
mod suspension;
#[path = "instances/unreadable_kinds.rs"]
mod unreadable_kinds;
#[path = "instances/unreadable_objects.rs"]
mod unreadable_objects;
#[path = "support/hub_world.rs"]
mod world;
