//! Clients and caches against servers that are old, slow, unresponsive or hostile.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "misbehaving_servers/discovery.rs"]
mod discovery;
#[path = "misbehaving_servers/faults.rs"]
mod faults;
#[path = "misbehaving_servers/history.rs"]
mod history;
#[path = "misbehaving_servers/items.rs"]
mod items;
#[path = "misbehaving_servers/lists.rs"]
mod lists;
#[path = "misbehaving_servers/load.rs"]
mod load;
#[path = "misbehaving_servers/server.rs"]
mod server;
