//! Panics in the tasks of the controller: the task starts again, those who wait for it go on, and nothing else is affected.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub,
    dead_code
)]

#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "supervision/panicking_log.rs"]
mod panicking_log;
#[path = "support/setup.rs"]
mod setup;
#[path = "supervision/tasks.rs"]
mod tasks;
#[path = "support/cluster_world.rs"]
mod world;
