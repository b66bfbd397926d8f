//! Targets against real control planes: a hub and a remote cluster. All tests of this program but those with a control plane of
//! their own share one controller, whose requests go through a proxy.
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

#[path = "targets/connection.rs"]
mod connection;
#[path = "targets/deletion.rs"]
mod deletion;
#[path = "targets/kept_copies.rs"]
mod kept_copies;
#[path = "support/killable.rs"]
mod killable;
#[path = "targets/kills.rs"]
mod kills;
#[path = "targets/namespace_deletion.rs"]
mod namespace_deletion;
#[path = "targets/propagation.rs"]
mod propagation;
#[path = "targets/refusals.rs"]
mod refusals;
#[path = "targets/restart.rs"]
mod restart;
#[path = "targets/seed_examples.rs"]
mod seed_examples;
#[path = "support/setup.rs"]
mod setup;
#[path = "targets/unreadable.rs"]
mod unreadable;
#[path = "targets/world.rs"]
mod world;
