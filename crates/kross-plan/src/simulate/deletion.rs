//! The deletion of a simulated instance: deletion hooks, then the objects, wave by wave, as the controller does it.

use std::collections::HashSet;

use kross_api::ClusterId;
use kross_graph::Graph;
use kross_value::Text;

use super::instance::persisted;
use super::simulator::{Reconcile, Simulator};
use crate::deletion::{Deletion, DeletionPlan, Hooks, OwnedObject, plan_deletion, reported_orphans};
use crate::observed::AccessObjects;
use crate::plan::{Plan, UsedCluster};
use crate::report::{DeletionProgress, deletion_status};

impl Simulator {
    /// Deletes the instance as far as possible now.
    pub(super) fn delete_instance(&mut self, graph: &Graph) -> Reconcile {
        let mut orphaned: HashSet<Text> = HashSet::new();
        loop {
            let (hooks, _) = self.apply_all(graph);
            let plan = self.plan_deletion(&hooks, &orphaned);
            self.observed.attempts.clone_from(&plan.attempts);
            self.instance = persisted(&self.instance, plan.persisted.as_deref());
            let clusters: Vec<UsedCluster> = self.deletion_clusters(&hooks);
            let progress = DeletionProgress { plan: &plan, hooks: Some(&hooks), clusters: &clusters };
            self.status = deletion_status(Some(graph), &self.instance, &progress, self.now);
            let changed = self.delete_wave(&plan);
            orphaned.extend(plan.orphaned.iter().map(|pending| pending.uid.clone()));
            if !changed {
                self.deleted = plan.is_done();
                return Reconcile { plan: hooks, deletion: Some(plan) };
            }
        }
    }

    /// The remote clusters of the plan, and those that have objects.
    fn deletion_clusters(&self, hooks: &Plan) -> Vec<UsedCluster> {
        let holding: HashSet<&ClusterId> = self.observed.objects.keys().map(|key| &key.cluster).collect();
        hooks.clusters.iter().filter(|used| holding.contains(&used.id)).cloned().collect()
    }

    fn plan_deletion(&self, hooks: &Plan, orphaned: &HashSet<Text>) -> DeletionPlan {
        let secrets = AccessObjects::of(&self.observed.recorded);
        let mut objects: Vec<OwnedObject> = Vec::new();
        for (key, _, object) in self.objects() {
            if orphaned.contains(object.uid()) {
                continue;
            }
            let mut owned = OwnedObject::new(key.clone(), object).with_credentials_for(&secrets);
            if let Some(lifecycle) = hooks.lifecycles.get(&owned.node) {
                owned = owned.with_lifecycle(lifecycle.clone());
            }
            let used = hooks.clusters.iter().find(|used| used.id == key.cluster);
            owned.unavailable = used.and_then(UsedCluster::unavailable).and_then(|it| it.failure().cloned());
            owned.failure = self.observed.failures.get(key).cloned();
            objects.push(owned);
        }
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        let instance = crate::Instance::of(&self.instance);
        let persisted = instance.annotation(kross_api::annotations::DELETE_ATTEMPTS);
        plan_deletion(Deletion {
            objects: &objects,
            hooks: Hooks::Planned(&hooks.hooks),
            hook_record: &hooks.prune.hook_record,
            attempts: &self.observed.attempts,
            persisted,
            reported_orphans: &reported_orphans(persisted),
            reports_orphans: false,
            now: self.now,
        })
    }
}
