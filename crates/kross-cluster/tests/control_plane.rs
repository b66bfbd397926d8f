//! Clients, discovery, the REST verbs, caches, leader election and events against a real control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "control_plane/cache.rs"]
mod cache;
#[path = "control_plane/cache_poll.rs"]
mod cache_poll;
#[path = "control_plane/credentials.rs"]
mod credentials;
#[path = "control_plane/discovery.rs"]
mod discovery;
#[path = "control_plane/events.rs"]
mod events;
#[path = "control_plane/kubeconfigs.rs"]
mod kubeconfigs;
#[path = "control_plane/leader_election.rs"]
mod leader_election;
#[path = "control_plane/rest.rs"]
mod rest;
#[path = "control_plane/restore.rs"]
mod restore;
#[path = "control_plane/server_side_apply.rs"]
mod server_side_apply;
#[path = "control_plane/setup.rs"]
mod setup;
