//! Graphs that use published clusters, against real control planes: a hub and two remote clusters. Targets name connection Secrets
//! that the tests create.
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

#[path = "graph_targets/deletion.rs"]
mod deletion;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "graph_targets/published.rs"]
mod published;
#[path = "graph_targets/references.rs"]
mod references;
#[path = "graph_targets/selectors.rs"]
mod selectors;
#[path = "support/setup.rs"]
mod setup;
#[path = "graph_targets/unusable.rs"]
mod unusable;
#[path = "support/cluster_world.rs"]
mod world;
