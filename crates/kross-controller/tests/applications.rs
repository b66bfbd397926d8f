//! Applications and their resources against real control planes: a hub and two remote clusters, which are published as targets.
//! All tests of this program share one controller; each test has its own fault proxy in front of each remote cluster.
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

#[path = "applications/connection_secrets.rs"]
mod connection_secrets;
#[path = "applications/deletion.rs"]
mod deletion;
#[path = "applications/fleet.rs"]
mod fleet;
#[path = "support/killable.rs"]
mod killable;
#[path = "applications/kills.rs"]
mod kills;
#[path = "applications/outage.rs"]
mod outage;
#[path = "applications/remote_objects.rs"]
mod remote_objects;
#[path = "applications/scheduling.rs"]
mod scheduling;
#[path = "applications/secrets.rs"]
mod secrets;
#[path = "support/setup.rs"]
mod setup;
#[path = "applications/states.rs"]
mod states;
#[path = "applications/world.rs"]
mod world;
