//! Definitions that name other clusters: each step on the way to them, what they say to the graph, and what happens when
//! they change or are lost, against real control planes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "clusters_definitions/analysis.rs"]
mod analysis;
#[path = "clusters_definitions/instances.rs"]
mod instances;
#[path = "clusters_definitions/loss.rs"]
mod loss;
#[allow(dead_code, reason = "shared with the tests of definitions")]
#[path = "support/setup.rs"]
mod setup;
#[path = "clusters_definitions/steps.rs"]
mod steps;
#[path = "clusters_definitions/world.rs"]
mod world;
