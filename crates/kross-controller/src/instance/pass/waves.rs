//! Writes what a plan wants, layer by layer: each answer is seen by the next plan, so that a chain takes one pass.

use std::collections::HashSet;
use std::sync::Arc;

use kross_api::{ClusterId, Inventory, LifecyclePhase};
use kross_cluster::ObjectKey;
use kross_plan::{ApplyAction, Plan};

use super::Pass;
use crate::instance::admit::Visitor;
use crate::instance::cluster_resolver::ClusterResolver;
use crate::instance::error::InstanceError;
use crate::instance::observe::Observation;
use crate::instance::reach::Reach;
use crate::instance::{apply, children, cluster_inventory, external};

impl Pass<'_> {
    /// Plans and writes until nothing is left to write.
    ///
    /// # Errors
    /// The cluster of the instance refuses or does not answer.
    pub(in crate::instance) async fn waves(
        &mut self,
        reach: &mut Reach<'_>,
        observation: &mut Observation,
    ) -> Result<Plan, InstanceError> {
        let mut tried: HashSet<ObjectKey> = HashSet::new();
        let (instance, recorded) = (Arc::clone(&self.instance), self.record.remote.clone());
        let resolver = ClusterResolver {
            context: self.context,
            key: self.key,
            instance: &instance,
            recorded: &recorded,
        };
        if self.phase == LifecyclePhase::Active {
            resolver.resolve_recorded(reach, observation, self.memory);
        }
        cluster_inventory::record_uids(&mut self.record.remote, observation);
        let owned = children::recorded(
            &cluster_inventory::contents_by_cluster(&self.record.remote),
            Some(self.graph),
        );
        for (kind, _) in &owned {
            if reach.client(&kind.0).is_err() {
                children::remember(instance.uid(), &kind.0, observation, self.memory);
            }
        }
        // Each round writes a layer, meets a cluster, reads a reference, or is the last one.
        let limit = 8 * self.graph.nodes.len() + 16;
        let mut plan = self.plan(observation);
        for _ in 0..limit {
            let mut news = resolver.resolve_planned(&plan, reach, observation, self.memory);
            news |= children::find_scopes(&plan, reach, observation, self.memory).await;
            let wanted = owned.iter().cloned().chain(children::planned(&plan)).collect();
            let known = (self.key, instance.uid().as_str());
            news |= children::see(self.context, known, wanted, reach, observation, self.memory).await;
            let visitor = Visitor { context: self.context, served: self.served, instance: self.key };
            news |= external::answer(&visitor, reach, &plan, observation, self.memory).await;
            news |= observation.meet_others((self.context, self.key), &plan, reach, self.memory);
            if news | observation.compare(&plan, self.memory) {
                plan = self.plan(observation);
                continue;
            }
            if observation.connecting {
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
            self.expand(&plan, observation);
            self.keep_record().await?;
            if actions.is_empty() {
                break;
            }
            tried.extend(
                actions.iter().filter_map(|action| plan.object(action)).map(|object| object.key.clone()),
            );
            let actions = visitor.admitted(&plan, actions, reach, observation, self.memory);
            apply::wave((self.context, self.key), reach, &plan, &actions, observation, self.memory).await;
            plan = self.plan(observation);
        }
        Ok(plan)
    }

    /// Adds what a plan is about to make to what the instance says it owns.
    fn expand(&mut self, plan: &Plan, observation: &mut Observation) {
        self.record.local.extend(plan.inventory.get(&ClusterId::local()).unwrap_or(&Inventory::default()));
        cluster_inventory::remove_abandoned(
            self.context,
            &self.instance,
            &mut self.record.remote,
            observation,
        );
        for cluster in cluster_inventory::required_entries(plan) {
            self.record.remote.add(cluster);
        }
    }
}
