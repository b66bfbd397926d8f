//! Plans and applies until nothing is left to apply: evaluate the graph, learn what the plan asks for, write the inventory,
//! apply one wave of objects, and begin again with what that changed. A chain of nodes thus takes one reconcile.

use std::collections::HashSet;

use kross_api::{ClusterId, LifecyclePhase};
use kross_cluster::ObjectKey;
use kross_graph::Graph;
use kross_plan::{ApplyAction, Plan};
use tokio::time::Instant;

use super::child_caches::{WantedKind, inventory_kinds};
use super::cluster_inventory;
use super::cluster_resolver::ClusterResolver;
use super::error::InstanceError;
use super::pass::Pass;

impl Pass<'_> {
    /// Evaluates the graph and applies its objects until nothing is left to apply, or a cluster in the inventory is still
    /// being connected.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn converge(&mut self, graph: &Graph) -> Result<Plan, InstanceError> {
        let inventory = self.observe_inventory_clusters(graph);
        self.observe_contested();
        let mut attempted: HashSet<ObjectKey> = HashSet::new();
        self.review_objects().await;
        let mut plan = self.evaluate(graph)?;
        // Each round applies a wave, resolves a cluster, reads a reference, or is the last one.
        for _ in 0..8 * graph.nodes.len() + 16 {
            if self.discover(&inventory, &plan).await {
                self.review_objects().await;
                plan = self.evaluate(graph)?;
                continue;
            }
            if self.observation.connecting {
                break;
            }
            let wave = self.next_wave(&plan, &attempted);
            if wave.is_empty() && self.phase == LifecyclePhase::Deletion {
                break;
            }
            self.expand_inventory(&plan);
            if wave.is_empty() {
                self.write_inventory().await?;
                break;
            }
            let keys = wave.iter().filter_map(|action| plan.object(action)).map(|object| object.key.clone());
            attempted.extend(keys);
            let admitted = self.admit(&plan, wave);
            let admitted = self.expect_hooks(graph, &plan, admitted).await;
            self.write_inventory_before_apply().await?;
            self.apply(&plan, &admitted).await;
            self.review_objects().await;
            plan = self.evaluate(graph)?;
        }
        self.report_missing_hooks(&plan);
        Ok(plan)
    }

    /// Learns what a plan asks for, step by step. Returns whether a step learned something that may change the plan. All
    /// steps run, also after one that did: the next evaluation then has everything that could be learned.
    async fn discover(&mut self, inventory: &[WantedKind], plan: &Plan) -> bool {
        let learned = [
            self.resolve_clusters(plan),
            self.resolve_scopes(plan).await,
            self.watch_kinds(inventory, plan).await,
            self.read_externals(plan).await,
            self.find_contenders(plan),
            self.detect_drift(plan),
            self.confirm_missing_hooks(plan).await,
            self.hold_repairs(plan).await,
        ];
        learned.contains(&true)
    }

    /// Resolves the clusters of the inventory, and observes what the caches of those that are not connected had last.
    /// Returns the kinds that the inventory has in remote clusters.
    fn observe_inventory_clusters(&mut self, graph: &Graph) -> Vec<WantedKind> {
        if self.phase == LifecyclePhase::Active {
            self.resolve_inventory_clusters();
        }
        cluster_inventory::record_uids(&mut self.inventory.remote, &self.observation);
        let kinds = cluster_inventory::contents_by_cluster(&self.inventory.remote, &self.observation);
        let kinds = inventory_kinds(&kinds, Some(graph));
        let clusters = kinds.iter().map(|((cluster, ..), _)| cluster);
        let not_connected: Vec<&ClusterId> =
            clusters.filter(|cluster| self.clients.client(cluster).is_err()).collect();
        self.observe_last_known(not_connected.into_iter());
        kinds
    }

    /// Resolves the cluster references of the inventory, and adds the clients of those that are connected.
    pub(super) fn resolve_inventory_clusters(&mut self) {
        let resolver = ClusterResolver {
            context: self.context,
            served: self.served,
            key: self.key,
            instance: &self.instance,
            recorded: &self.inventory.remote,
        };
        resolver.resolve_recorded(&mut self.clients, &mut self.observation, self.memory);
    }

    /// Resolves the cluster references of a plan, and adds the clients of those that are connected. Returns whether there
    /// was a new one.
    fn resolve_clusters(&mut self, plan: &Plan) -> bool {
        let resolver = ClusterResolver {
            context: self.context,
            served: self.served,
            key: self.key,
            instance: &self.instance,
            recorded: &self.inventory.remote,
        };
        resolver.resolve_planned(plan, &mut self.clients, &mut self.observation, self.memory)
    }

    /// The objects to apply next: those that this pass has not attempted yet, and that their API server accepts writes of.
    fn next_wave<'p>(&self, plan: &'p Plan, attempted: &HashSet<ObjectKey>) -> Vec<&'p ApplyAction> {
        let now = Instant::now();
        let is_new = |key: &ObjectKey| !attempted.contains(key) && !self.memory.throttle.holds(key, now);
        let is_next = |action: &&ApplyAction| plan.object(action).is_some_and(|object| is_new(&object.key));
        plan.apply.iter().filter(is_next).collect()
    }
}
