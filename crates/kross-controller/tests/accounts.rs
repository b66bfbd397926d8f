//! Instances whose objects are read and written as a ServiceAccount, against real control planes that enforce RBAC. The
//! controller may impersonate only the accounts with the names that these tests use.
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

#[path = "accounts/default_account.rs"]
mod default_account;
#[path = "accounts/deletion.rs"]
mod deletion;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "accounts/names.rs"]
mod names;
#[path = "accounts/reads.rs"]
mod reads;
#[path = "support/setup.rs"]
mod setup;
#[path = "accounts/world.rs"]
mod world;
#[path = "accounts/writes.rs"]
mod writes;
