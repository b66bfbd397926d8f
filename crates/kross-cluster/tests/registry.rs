//! The cluster registry against real control planes, with faults in between.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "registry/audit.rs"]
mod audit;
#[path = "registry/connection.rs"]
mod connection;
#[path = "registry/connection_secrets.rs"]
mod connection_secrets;
#[path = "registry/identity.rs"]
mod identity;
#[path = "registry/identity_claims.rs"]
mod identity_claims;
#[path = "registry/outages.rs"]
mod outages;
#[path = "registry/request_queue.rs"]
mod request_queue;
#[path = "registry/rotation.rs"]
mod rotation;
#[path = "registry/setup.rs"]
mod setup;
#[path = "registry/sharing.rs"]
mod sharing;
