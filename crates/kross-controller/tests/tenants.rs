//! Two tenants of one hub, hostile to each other: each has a namespace, a cluster and the rights of an ordinary user. What `mallory`
//! tries must neither change what `bank` has nor show it to her. `docs/threat-model.md` lists the attempts.
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

#[path = "tenants/accounts.rs"]
mod accounts;
#[path = "tenants/credentials.rs"]
mod credentials;
#[path = "tenants/inventories.rs"]
mod inventories;
#[path = "tenants/objects.rs"]
mod objects;
#[path = "tenants/servers.rs"]
mod servers;
#[path = "support/setup.rs"]
mod setup;
#[path = "tenants/world.rs"]
mod world;
