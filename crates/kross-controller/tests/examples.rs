//! The definitions in `examples/` that have no test about faults, applied as they are, with an instance each, to a hub and two
//! remote control planes that all tests of this program share. Only poll intervals are shortened.
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

#[path = "examples/application_target.rs"]
mod application_target;
#[path = "examples/cluster_provisioning.rs"]
mod cluster_provisioning;
#[path = "examples/deployed_example.rs"]
mod deployed_example;
#[path = "examples/edge_fleet.rs"]
mod edge_fleet;
#[path = "examples/environment_promotion.rs"]
mod environment_promotion;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "examples/local_resources.rs"]
mod local_resources;
#[path = "examples/remote_resources.rs"]
mod remote_resources;
#[path = "support/setup.rs"]
mod setup;
#[path = "support/cluster_world.rs"]
mod world;
