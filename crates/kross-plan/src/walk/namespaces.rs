//! The namespaces of the hub that an instance may use, where the controller limits it to its own.

use kross_api::{ClusterId, FailureReason};

use super::Walk;
use crate::progress::{Progress, ResourceFailure};

impl Walk<'_> {
    /// Fails if objects of a kind are outside the instance's namespace, and the settings forbid that. No namespace stands for
    /// objects without one, or in all of them. In other clusters the credential decides, and an instance without a namespace is
    /// not limited to one.
    pub(super) fn check_namespace(
        &self,
        cluster: &ClusterId,
        objects: &str,
        namespace: Option<&str>,
    ) -> Result<(), Progress> {
        let Some(own) = self.input.instance.namespace() else { return Ok(()) };
        if !self.input.settings.no_cross_namespace || !cluster.is_local() || namespace == Some(own) {
            return Ok(());
        }
        let place = match namespace {
            Some(namespace) => format!("in namespace `{namespace}`"),
            None => "not limited to a namespace".to_owned(),
        };
        let message = format!(
            "{objects}: {place}, but the controller allows only objects in the instance's namespace `{own}` \
             (`--no-cross-namespace`)"
        );
        let failure = ResourceFailure::expression(message);
        Err(Progress::Failed(ResourceFailure { reason: FailureReason::Forbidden, ..failure }))
    }
}
