//! Instances over many clusters, against real control planes: a hub and two regions with one controller for all tests of this
//! program, and for each test a proxy in front of each region.
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

#[path = "clusters/apply.rs"]
mod apply;
#[path = "clusters/dark.rs"]
mod dark;
#[path = "clusters/delete.rs"]
mod delete;
#[path = "clusters/doubles.rs"]
mod doubles;
#[path = "clusters/hubs.rs"]
mod hubs;
#[path = "clusters/moving.rs"]
mod moving;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "clusters/poll.rs"]
mod poll;
#[path = "clusters/references.rs"]
mod references;
#[path = "support/setup.rs"]
mod setup;
#[path = "support/cluster_world.rs"]
mod world;
