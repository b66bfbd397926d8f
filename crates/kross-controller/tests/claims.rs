//! Claims and classes against a real control plane, with stand-ins for the kinds of providers.
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

#[path = "claims/binding.rs"]
mod binding;
#[path = "claims/deletion.rs"]
mod deletion;
#[path = "claims/end_to_end.rs"]
mod end_to_end;
#[path = "claims/garbage_collector.rs"]
mod garbage_collector;
#[path = "claims/graph_provider.rs"]
mod graph_provider;
#[path = "support/killable.rs"]
mod killable;
#[path = "claims/kills.rs"]
mod kills;
#[path = "claims/provision.rs"]
mod provision;
#[path = "claims/publish.rs"]
mod publish;
#[path = "support/setup.rs"]
mod setup;
#[path = "claims/world.rs"]
mod world;
