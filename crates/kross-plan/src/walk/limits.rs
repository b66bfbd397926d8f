//! What an instance may have: how large its objects are, and how many clusters it uses.

use kross_api::ResolvedCluster;

use super::Walk;
use super::object::unusable;
use crate::observed::ReferenceKey;
use crate::progress::Progress;

impl Walk<'_> {
    /// Fails if an object, or all of them so far, are larger than the settings allow.
    pub(super) fn check_size(&self, object: &str, size: usize) -> Result<(), Progress> {
        let limits = self.input.settings.limits;
        if size > limits.object_size {
            return Err(unusable(&format!(
                "{object} has {size} bytes, and at most {} are allowed (`--instance-max-object-size`)",
                limits.object_size
            )));
        }
        let total = self.rendered_size.get().saturating_add(size);
        self.rendered_size.set(total);
        if total > limits.total_size {
            return Err(unusable(&format!(
                "{object}: with it the objects of the instance have {total} bytes, and at most {} are allowed \
                 (`--instance-max-total-size`)",
                limits.total_size
            )));
        }
        Ok(())
    }

    /// Fails if a reference leads to one more cluster than the settings allow.
    pub(super) fn check_clusters(
        &self,
        resolved: &ResolvedCluster,
        key: &ReferenceKey,
    ) -> Result<(), Progress> {
        let limit = self.input.settings.limits.clusters;
        if self.clusters_by_key.len() < limit || self.clusters_by_key.contains_key(key) {
            return Ok(());
        }
        Err(unusable(&format!(
            "cluster `{}`: the instance uses more than {limit} clusters, which is the limit (`--instance-max-clusters`)",
            resolved.display
        )))
    }
}
