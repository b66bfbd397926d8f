//! What a simulated controller does with the objects of a deletion plan: deletes, releases and orphans them, as API servers do.

use std::collections::HashSet;

use kross_api::{ObjectKey, Operation};
use kross_value::Value;

use super::action::{Action, ActionKind};
use super::api_servers::{released, with_metadata};
use super::existing::{ExistingObject, Location};
use super::instance;
use super::simulator::Simulator;
use crate::deletion::{DeletionPlan, PendingDeletion};

impl Simulator {
    /// Deletes, releases and orphans what a plan says. Returns whether that changed anything.
    pub(super) fn delete_wave(&mut self, plan: &DeletionPlan) -> bool {
        if !plan.delete.is_empty() || !plan.release.is_empty() {
            self.wave += 1;
        }
        let mut changed = false;
        for pending in &plan.delete {
            changed |= self.delete_pending(pending);
        }
        for pending in &plan.release {
            changed |= self.release_pending(pending);
        }
        let released: HashSet<&ObjectKey> = plan.release.iter().map(|pending| &pending.key).collect();
        let left =
            plan.orphaned.iter().filter(|pending| !pending.reported && !released.contains(&pending.key));
        for pending in left {
            let is_known = |action: &Action| action.kind == ActionKind::Orphan && action.key == pending.key;
            if !self.actions.iter().any(is_known) {
                self.record(ActionKind::Orphan, &pending.node, &pending.key, pending.why.clone());
            }
        }
        changed
    }

    fn delete_pending(&mut self, pending: &PendingDeletion) -> bool {
        let PendingDeletion { key, node, .. } = pending;
        if let Some(refusal) = self.refusals.get(node).filter(|refusal| refusal.deletions).cloned() {
            let is_new = !self.observed.failures.contains_key(key);
            self.fail(node, key, Operation::Delete, &refusal);
            return is_new;
        }
        self.observed.failures.remove(key);
        let deleting = instance::is_deleting(&self.instance);
        let kind = if deleting { ActionKind::Delete } else { ActionKind::Prune };
        self.record(kind, node, key, None);
        self.delete_stored(key);
        true
    }

    fn release_pending(&mut self, pending: &PendingDeletion) -> bool {
        let PendingDeletion { key, node, why, .. } = pending;
        let location = match self.reference(&key.cluster) {
            Some(reference) => Location::Cluster(reference.display.clone()),
            None => Location::Local,
        };
        let kind = if why.is_some() { ActionKind::Orphan } else { ActionKind::Release };
        self.record(kind, node, key, why.clone());
        if let Some(object) = self.observed.objects.get(key) {
            self.existing.push(ExistingObject { location, value: released(&object.value) });
        }
        self.remove(key);
        true
    }

    /// Deletes an object as an API server does: one with finalizers is terminating until these are removed.
    pub(super) fn delete_stored(&mut self, key: &ObjectKey) {
        let now = Value::from(kross_api::whole_seconds(self.now));
        match self.observed.objects.get_mut(key) {
            Some(object) if !object.finalizers().is_empty() => {
                object.value = with_metadata(object.value.clone(), "deletionTimestamp", now);
            }
            _ => self.remove(key),
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.observed.objects.remove(key);
        self.observed.failures.remove(key);
        self.servers.forget(key);
    }
}
