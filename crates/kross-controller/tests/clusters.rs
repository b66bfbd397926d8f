//! Instances with resources in other clusters, against real control planes: a hub and two remote clusters. All tests of this
//! program share one controller; each test has its own fault proxy in front of each remote cluster.
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

#[path = "clusters/address_changes.rs"]
mod address_changes;
#[path = "clusters/authority.rs"]
mod authority;
#[path = "clusters/claimed_uid.rs"]
mod claimed_uid;
#[path = "clusters/cluster_references.rs"]
mod cluster_references;
#[path = "clusters/credential_changes.rs"]
mod credential_changes;
#[path = "clusters/deletion.rs"]
mod deletion;
#[path = "clusters/existing_types.rs"]
mod existing_types;
#[path = "clusters/fleet.rs"]
mod fleet;
#[path = "clusters/hooks.rs"]
mod hooks;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "clusters/kubeconfig_secret_ref.rs"]
mod kubeconfig_secret_ref;
#[path = "clusters/moving.rs"]
mod moving;
#[path = "clusters/polling.rs"]
mod polling;
#[path = "clusters/proof_of_absence.rs"]
mod proof_of_absence;
#[path = "clusters/protected_namespace.rs"]
mod protected_namespace;
#[path = "clusters/protected_secrets.rs"]
mod protected_secrets;
#[path = "clusters/prune.rs"]
mod prune;
#[path = "clusters/prune_held_back.rs"]
mod prune_held_back;
#[path = "clusters/prune_restart.rs"]
mod prune_restart;
#[path = "clusters/remote_objects.rs"]
mod remote_objects;
#[path = "clusters/removed_inventory.rs"]
mod removed_inventory;
#[path = "clusters/repairs.rs"]
mod repairs;
#[path = "clusters/second_hub.rs"]
mod second_hub;
#[path = "clusters/secrets_of_one_cluster.rs"]
mod secrets_of_one_cluster;
#[path = "support/setup.rs"]
mod setup;
#[path = "clusters/target_references.rs"]
mod target_references;
#[path = "clusters/token_renewal.rs"]
mod token_renewal;
#[path = "clusters/unreachable.rs"]
mod unreachable;
#[path = "support/cluster_world.rs"]
mod world;
