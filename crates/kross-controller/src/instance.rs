//! Reconciles instances: turns an instance into the objects of its graph. The planner decides; here are the requests around
//! it.
//!
//! | step | file |
//! |---|---|
//! | find the instance, choose the kind of reconcile | `reconcile.rs` |
//! | reconcile a living instance: the list of its steps | `pass.rs` |
//! | reconcile an instance that is being deleted | `deletion.rs`, with `inventory_scan.rs` and `recalled_objects.rs` |
//! | list what clusters have of an instance, as proof | `member_lists.rs` |
//! | observe from caches | `observation.rs` |
//! | plan and apply in waves: the list of the discovery steps | `converge.rs` |
//! | resolve cluster references | `cluster_resolver.rs`, with `targets.rs`, into `clients.rs` |
//! | watch kinds in remote clusters, read external references | `child_caches.rs`, `external_reads.rs` |
//! | check schemas and permissions before the first write | `admission.rs` |
//! | act as the ServiceAccount of the instance, and review what it may read | `account.rs` |
//! | write finalizer, labels and inventory | `inventory.rs` |
//! | apply; delete and release | `apply.rs`; `delete.rs`, with `release_report.rs` |
//! | back off where others undo repairs; honour `Retry-After` | `repair_backoff.rs`, with `repairs.rs`; `throttle.rs` |
//! | wait for objects that are being deleted | `awaited_deletions.rs` |
//! | prune; report prunes, moves and repairs | `prune.rs`; `change_report.rs` |
//! | write the status | `status.rs` |
//! | remember between reconciles | `memory.rs` |
//! | make the graph of a KubernetesApplicationResource from its spec | `own_graph.rs` |
//! | keep instances from taking each other's objects | `claims.rs` |

mod account;
mod admission;
mod apply;
mod awaited_deletions;
mod change_report;
mod child_caches;
mod claims;
mod clients;
mod cluster_inventory;
mod cluster_resolver;
mod converge;
mod delete;
mod deletion;
mod error;
mod external_reads;
mod freshness;
mod hooks;
mod inventory;
mod inventory_scan;
mod member_lists;
mod memory;
mod observation;
mod own_graph;
mod pass;
mod prune;
mod recalled_objects;
mod reconcile;
mod recreations;
mod release_report;
mod repair_backoff;
mod restored_inventory;
mod selection;
mod status;
mod targets;
mod throttle;

pub(crate) use cluster_inventory::GivenUp;
pub(crate) use memory::Instances;
pub(crate) use own_graph::{OwnGraphs, names_secret, serve_resources, withdraw_resources};
pub(crate) use pass::is_suspended;
pub(crate) use reconcile::{instance_of, reconcile};
pub(crate) use targets::concerns_users;
