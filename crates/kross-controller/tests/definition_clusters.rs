//! Definitions that name other clusters, against real control planes: connection steps, static analysis against the schemas
//! and permissions of those clusters, and what happens when they change or become unreachable.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "definition_clusters/cluster_conditions.rs"]
mod cluster_conditions;
#[path = "definition_clusters/instance_analysis.rs"]
mod instance_analysis;
#[allow(dead_code, reason = "shared with the tests of definitions")]
#[path = "support/setup.rs"]
mod setup;
#[path = "definition_clusters/static_analysis.rs"]
mod static_analysis;
#[path = "definition_clusters/unreachable.rs"]
mod unreachable;
#[path = "definition_clusters/world.rs"]
mod world;
