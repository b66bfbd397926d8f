//! Connections, discovery, applies, watches and leases against a real control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "real/apply.rs"]
mod apply;
#[path = "real/credentials.rs"]
mod credentials;
#[path = "real/discovery.rs"]
mod discovery;
#[path = "real/events.rs"]
mod events;
#[path = "real/kubeconfigs.rs"]
mod kubeconfigs;
#[path = "real/lease.rs"]
mod lease;
#[path = "real/ownership.rs"]
mod ownership;
#[path = "real/poll.rs"]
mod poll;
#[path = "real/setup.rs"]
mod setup;
#[path = "real/watch.rs"]
mod watch;
