//! Deletion hooks run once: the record of those that were created or have completed is written before anything is deleted, and
//! an object of a hook that is not observed any more is confirmed as deleted by its cluster, not by a cache.

use std::sync::Arc;

use kross_cluster::{Regarding, Report, Severity, StoredObject};
use kross_plan::{DeletionPlan, HookRecord, MissingCause, MissingHook, Plan};

use super::clients::{ClientError, InstanceClients};
use super::error::{InstanceError, SOON};
use super::observation::version_of;
use super::pass::Pass;

impl Pass<'_> {
    /// Reads the objects of deletion hooks that were created and are not observed any more. Returns whether the plan may
    /// change: an object exists, or its cluster confirms that it does not.
    pub(super) async fn confirm_missing_hooks(&mut self, plan: &Plan) -> bool {
        let mut learned = false;
        let is_unconfirmed = |missing: &&MissingHook| missing.cause == MissingCause::Unconfirmed;
        for missing in plan.missing_hooks.iter().filter(is_unconfirmed) {
            let key = &missing.key;
            let read = read_object(&self.clients, missing);
            match self.clients.request([&key.cluster], read).await {
                Ok(Some(object)) => self.observation.add(key.clone(), Arc::new(object), self.memory),
                Ok(None) => {
                    self.observation.observed.confirmed_missing.insert(key.clone());
                }
                Err(error) => {
                    tracing::debug!(object = %key, error = error.message(), "cannot read object of deletion hook");
                    self.requeue_after(SOON);
                    continue;
                }
            }
            learned = true;
        }
        learned
    }

    /// Writes which deletion hooks were created and which have completed, if that has changed. Until it is written, nothing
    /// that waits for them and none of their objects may be deleted: after a restart they would run again.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn write_hook_record(&mut self, plan: &DeletionPlan) -> Result<(), InstanceError> {
        if HookRecord::parse(self.inventory.attempts.as_deref()) == plan.hook_record {
            return Ok(());
        }
        self.inventory.attempts.clone_from(&plan.persisted);
        self.write_inventory().await
    }

    /// Reports the objects of deletion hooks that nothing waits for although they never were ready. Each is reported once.
    pub(super) fn report_missing_hooks(&mut self, plan: &Plan) {
        for MissingHook { node, key, cause, .. } in &plan.missing_hooks {
            let (reason, what) = match cause {
                MissingCause::Unconfirmed => continue,
                MissingCause::Deleted => {
                    ("HookDeleted", "was deleted before the deletion hook was ready; it is not created again")
                }
                MissingCause::NamespaceTerminating => {
                    ("HookSkipped", "is not created, because its namespace is being deleted")
                }
            };
            if !self.memory.reported_releases.insert(format!("hook/{key}").into()) {
                continue;
            }
            let instance = self.instance.key(self.context.client.cluster());
            tracing::warn!(%instance, %node, object = %key, reason, "deletion hook did not complete");
            if let Some(events) = &self.context.events {
                events.report(Report {
                    regarding: Regarding::from(&*self.instance),
                    severity: Severity::Warning,
                    reason: reason.to_owned(),
                    action: "Delete".to_owned(),
                    note: format!("{} {} of `{node}` {what}", key.kind, key.namespaced_name()),
                });
            }
        }
    }
}

/// Reads an object from its cluster; none if the cluster says that it does not exist.
async fn read_object(
    clients: &InstanceClients<'_>,
    MissingHook { key, api_version, .. }: &MissingHook,
) -> Result<Option<StoredObject>, ClientError> {
    let client = clients.client_for(&key.cluster, &key.group, &key.kind)?;
    let kind = client.kind(&key.group, Some(&version_of(api_version)), &key.kind).await?;
    match client.get(&kind, key.namespace.as_deref(), &key.name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_object_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
