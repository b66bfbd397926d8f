//! ClusterConnections against real control planes: what the controller publishes of the clusters that it uses. Every test has a hub
//! of its own, since the objects have no namespace.
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

#[path = "connections/lifecycle.rs"]
mod lifecycle;
#[path = "connections/permissions.rs"]
mod permissions;
#[path = "support/setup.rs"]
mod setup;
#[path = "connections/world.rs"]
mod world;
