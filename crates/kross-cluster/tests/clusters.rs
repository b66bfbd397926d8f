//! The registry of clusters against real control planes, with faults on the way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "clusters/audit.rs"]
mod audit;
#[path = "clusters/connect.rs"]
mod connect;
#[path = "clusters/faults.rs"]
mod faults;
#[path = "clusters/rotation.rs"]
mod rotation;
#[path = "clusters/setup.rs"]
mod setup;
#[path = "clusters/sharing.rs"]
mod sharing;
