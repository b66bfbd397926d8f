//! Plans of small graphs, compiled from text against Kubernetes' own schemas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "plan/world.rs"]
mod world;

#[path = "plan/collections.rs"]
mod collections;
#[path = "plan/deletion_hooks.rs"]
mod deletion_hooks;
#[path = "plan/externals.rs"]
mod externals;
#[path = "plan/inventory.rs"]
mod inventory;
#[path = "plan/lifecycle.rs"]
mod lifecycle;
#[path = "plan/limits.rs"]
mod limits;
#[path = "plan/namespaces.rs"]
mod namespaces;
#[path = "plan/objects.rs"]
mod objects;
#[path = "plan/order.rs"]
mod order;
#[path = "plan/properties.rs"]
mod properties;
#[path = "plan/prune_decisions.rs"]
mod prune_decisions;
#[path = "plan/prune_successors.rs"]
mod prune_successors;
#[path = "plan/pruning.rs"]
mod pruning;
#[path = "plan/remote_clusters.rs"]
mod remote_clusters;
#[path = "plan/reserved_keys.rs"]
mod reserved_keys;
#[path = "plan/secrets.rs"]
mod secrets;
#[path = "plan/status.rs"]
mod status;
