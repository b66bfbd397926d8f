//! Turns what an object is into the names and hashes that it is found by again. Byte for byte as kro has them, so that
//! either can take over the other's objects.

mod applyset;
mod cluster_inventory;
mod object;
mod revision;

pub use applyset::{GroupKind, Inventory, InventoryError, applyset_id, remote_applyset_id};
pub use cluster_inventory::{ClusterInventory, RecordedCluster};
pub use object::{ClusterId, ObjectKey};
pub use revision::{revision_name, spec_hash};

/// The kro version that labels name when none is set.
pub const DEFAULT_KRO_VERSION: &str = "devel";

/// A version as a label value: `+` is not allowed there.
#[must_use]
pub fn label_version(version: &str) -> String {
    version.replace('+', "-")
}

/// What the apply set's tooling annotation begins with.
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
    fn versions_fit_into_labels_and_tooling_keeps_them() {
        assert_eq!(label_version("v0.9.4+dirty"), "v0.9.4-dirty");
        assert_eq!(label_version(DEFAULT_KRO_VERSION), "devel");
        assert_eq!(tooling("v0.9.4+dirty"), "kro/v0.9.4+dirty");
    }
}
