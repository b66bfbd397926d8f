//! Instances against a real control plane, with one controller for all tests of this program and a proxy that counts what
//! it sends.
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

#[path = "instances/change.rs"]
mod change;
#[path = "instances/create.rs"]
mod create;
#[path = "instances/defects.rs"]
mod defects;
#[path = "instances/deletion.rs"]
mod deletion;
#[path = "instances/events.rs"]
mod events;
#[path = "instances/external_references.rs"]
mod external_references;
#[path = "instances/heels.rs"]
mod heels;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "instances/kinds.rs"]
mod kinds;
#[path = "instances/pitfalls.rs"]
mod pitfalls;
#[path = "instances/scale.rs"]
mod scale;
#[path = "support/setup.rs"]
mod setup;
#[path = "instances/unreadable_kinds.rs"]
mod unreadable_kinds;
#[path = "support/hub_world.rs"]
mod world;
