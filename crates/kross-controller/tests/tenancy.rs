//! Instances that are limited to their own namespace, against a real control plane. All tests of this program share one
//! controller, whose requests go through a fault proxy that records them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    unused_imports,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub
)]

#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "tenancy/namespaces.rs"]
mod namespaces;
#[path = "support/setup.rs"]
mod setup;
#[path = "support/hub_world.rs"]
mod world;
