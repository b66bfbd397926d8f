//! How resources come and go as their authors say, against real control planes.
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

#[path = "lifecycle/force.rs"]
mod force;
#[path = "lifecycle/hooks.rs"]
mod hooks;
#[path = "lifecycle/orphans.rs"]
mod orphans;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "lifecycle/reacting.rs"]
mod reacting;
#[path = "lifecycle/retain.rs"]
mod retain;
#[path = "support/setup.rs"]
mod setup;
#[path = "lifecycle/size.rs"]
mod size;
#[path = "support/hub_world.rs"]
mod world;
