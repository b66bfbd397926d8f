//! Writes what a plan wants, layer by layer: each answer is seen by the next plan, so that a chain takes one pass.

use std::collections::HashSet;
use std::sync::Arc;

use kross_api::{ClusterId, Inventory, LifecyclePhase};
use kross_cluster::ObjectKey;
use kross_plan::{ApplyAction, Plan};

use super::Pass;
use crate::instance::admit::Visitor;
use crate::instance::clusters::Asker;
use crate::instance::error::InstanceError;
use crate::instance::observe::Sight;
use crate::instance::reach::Reach;
use crate::instance::{apply, children, clusters, external};

impl Pass<'_> {
    /// Plans and writes until nothing is left to write.
    ///
    /// # Errors
    /// The cluster of the instance refuses or does not answer.
    pub(in crate::instance) async fn waves(
        &mut self,
        reach: &mut Reach<'_>,
        sight: &mut Sight,
    ) -> Result<Plan, InstanceError> {
        let mut tried: HashSet<ObjectKey> = HashSet::new();
        let (instance, recorded) = (Arc::clone(&self.instance), self.record.remote.clone());
        let asker = Asker { hub: self.hub, key: self.key, instance: &instance, recorded: &recorded };
        if self.phase == LifecyclePhase::Active {
            asker.recall(reach, sight, self.memory);
        }
        clusters::rename(&mut self.record.remote, sight);
        let owned = children::recorded(&clusters::contents(&self.record.remote), Some(self.graph));
        for (kind, _) in &owned {
            if reach.client(&kind.0).is_err() {
                children::remember(instance.uid(), &kind.0, sight, self.memory);
            }
        }
        // Each round writes a layer, meets a cluster, reads a reference, or is the last one.
        let limit = 8 * self.graph.nodes.len() + 16;
        let mut plan = self.plan(sight);
        for _ in 0..limit {
            let mut news = asker.meet_all(&plan, reach, sight, self.memory);
            news |= children::find_scopes(&plan, reach, sight, self.memory).await;
            let wanted = owned.iter().cloned().chain(children::planned(&plan)).collect();
            let known = (self.key, instance.uid().as_str());
            news |= children::see(self.hub, known, wanted, reach, sight, self.memory).await;
            let visitor = Visitor { hub: self.hub, served: self.served, instance: self.key };
            news |= external::answer(&visitor, reach, &plan, sight, self.memory).await;
            news |= sight.meet_others((self.hub, self.key), &plan, reach, self.memory);
            if news | sight.compare(&plan, self.memory) {
                plan = self.plan(sight);
                continue;
            }
            if sight.connecting {
                break;
            }
            let actions: Vec<&ApplyAction> = plan
                .apply
                .iter()
                .filter(|action| plan.object(action).is_some_and(|object| !tried.contains(&object.key)))
                .collect();
            if actions.is_empty() && self.phase == LifecyclePhase::Deletion {
                break;
            }
            self.expand(&plan, sight);
            self.keep_record().await?;
            if actions.is_empty() {
                break;
            }
            tried.extend(
                actions.iter().filter_map(|action| plan.object(action)).map(|object| object.key.clone()),
            );
            let actions = visitor.admitted(&plan, actions, reach, sight, self.memory);
            apply::wave((self.hub, self.key), reach, &plan, &actions, sight, self.memory).await;
            plan = self.plan(sight);
        }
        Ok(plan)
    }

    /// Adds what a plan is about to make to what the instance says it owns.
    fn expand(&mut self, plan: &Plan, sight: &mut Sight) {
        self.record.local.extend(plan.inventory.get(&ClusterId::local()).unwrap_or(&Inventory::default()));
        clusters::give_up(self.hub, &self.instance, &mut self.record.remote, sight);
        for cluster in clusters::needed(plan) {
            self.record.remote.add(cluster);
        }
    }
}
