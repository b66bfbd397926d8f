//! Computes the names, ids and hashes that identify objects. They are byte for byte the same as kro's, so that kro and
//! kross can take over each other's objects.

mod applyset;
mod cluster_inventory;
mod compact_inventory;
mod names;
mod object;
mod revision;
mod service_account;
mod uids;

pub use applyset::{GroupKind, Inventory, InventoryError, applyset_id, remote_applyset_id};
pub use cluster_inventory::{ClusterInventory, RecordedCluster};
pub(crate) use names::{is_namespace, is_object_name};
pub use object::{ClusterId, ObjectKey};
pub use revision::{revision_name, spec_hash};
pub use service_account::ServiceAccount;
pub use uids::{pack_uid, unpack_uid, unpack_uids};

/// The kro version in labels, unless another one is set.
pub const DEFAULT_KRO_VERSION: &str = "devel";

/// A version as a label value, in which `+` is not allowed.
#[must_use]
pub fn label_version(version: &str) -> String {
    version.replace('+', "-")
}

/// The prefix of the apply set's tooling annotation.
const TOOLING_PREFIX: &str = "kro/";

/// The value of the apply set's tooling annotation, and the user agent.
#[must_use]
pub fn tooling(version: &str) -> String {
    format!("{TOOLING_PREFIX}{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_escaped_in_labels_but_not_in_the_tooling_annotation() {
        assert_eq!(label_version("v0.9.4+dirty"), "v0.9.4-dirty");
        assert_eq!(label_version(DEFAULT_KRO_VERSION), "devel");
        assert_eq!(tooling("v0.9.4+dirty"), "kro/v0.9.4+dirty");
    }
}
