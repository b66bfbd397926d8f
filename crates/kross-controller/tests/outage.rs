//! How definitions can handle unreachable clusters, against real control planes: degraded operation, deletion with a
//! timeout, backups in another region, retained objects. A hub and two remote clusters.
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

#[path = "outage/audited_world.rs"]
mod audited_world;
#[path = "outage/degradation.rs"]
mod degradation;
#[path = "outage/deletion.rs"]
mod deletion;
#[path = "outage/examples.rs"]
mod examples;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "outage/restart.rs"]
mod restart;
#[path = "outage/restore.rs"]
mod restore;
#[path = "support/setup.rs"]
mod setup;
#[path = "outage/slow_cluster.rs"]
mod slow_cluster;
#[path = "support/cluster_world.rs"]
mod world;
