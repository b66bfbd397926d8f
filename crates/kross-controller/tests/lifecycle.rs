//! The `lifecycle` of resources, and `includeWhen` that reacts to failures, against a real control plane.
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

#[path = "lifecycle/deleted_definitions.rs"]
mod deleted_definitions;
#[path = "lifecycle/deletion_hooks.rs"]
mod deletion_hooks;
#[path = "lifecycle/failure_reactions.rs"]
mod failure_reactions;
#[path = "lifecycle/force_after.rs"]
mod force_after;
#[path = "lifecycle/hook_collections.rs"]
mod hook_collections;
#[path = "lifecycle/hook_kills.rs"]
mod hook_kills;
#[path = "lifecycle/hook_kinds.rs"]
mod hook_kinds;
#[path = "lifecycle/hook_restart.rs"]
mod hook_restart;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "lifecycle/large_collection.rs"]
mod large_collection;
#[path = "lifecycle/retain_and_adopt.rs"]
mod retain_and_adopt;
#[path = "support/setup.rs"]
mod setup;
#[path = "support/hub_world.rs"]
mod world;
