//! The examples of published, claimed and consumed clusters, step by step, each step by its own user with the roles of
//! `deploy/target-roles.yaml`, on a hub with RBAC and two remote control planes.
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

#[path = "scenarios/deletion.rs"]
mod deletion;
#[path = "scenarios/isolation.rs"]
mod isolation;
#[path = "scenarios/on_premises.rs"]
mod on_premises;
#[path = "scenarios/published.rs"]
mod published;
#[path = "scenarios/self_service.rs"]
mod self_service;
#[path = "support/setup.rs"]
mod setup;
#[path = "scenarios/world.rs"]
mod world;
