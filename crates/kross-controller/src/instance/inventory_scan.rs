//! Inventory scan: everything that an instance owns, wherever it is. Clusters that are connected are listed. Of the others
//! the last known objects are used, so that the order of deletion is kept and the status can name what the deletion waits
//! for.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use kross_api::{ClusterId, SyncMode};
use kross_graph::Graph;
use kross_plan::{
    AccessObjects, DeletionPlan, Instance, InventoryCluster, OwnedObject, PendingDeletion, ResourceFailure,
    UsedCluster, Wait,
};
use kross_value::Text;

use super::child_caches::inventory_kinds;
use super::cluster_inventory::{self, RemoteInventory};
use super::error::InstanceError;
use super::member_lists::Proof;
use super::memory::Memory;
use super::observation::Observation;
use super::pass::Pass;

/// What an instance owns, beside the objects in the observation of its pass.
#[derive(Default)]
pub(super) struct InventoryScan {
    /// Why nothing can be deleted in a cluster.
    blocked: BTreeMap<ClusterId, ResourceFailure>,
    /// Objects in such clusters of which only the kind is known.
    unnamed: Vec<OwnedObject>,
    /// Whether the observation has objects that only the status tells of: their deletion policies are not known from them.
    pub(super) from_status: bool,
    /// The remote clusters.
    pub(super) clusters: Vec<UsedCluster>,
    /// UIDs of objects that are left where they are, as their lifecycle says.
    pub(super) orphaned: BTreeSet<Text>,
}

impl InventoryScan {
    /// Whether nothing can be deleted in a cluster. What is observed of it is what was last known.
    pub(super) fn is_blocked(&self, cluster: &ClusterId) -> bool {
        self.blocked.contains_key(cluster)
    }

    /// Everything that is to be deleted.
    pub(super) fn objects(&self, observation: &Observation, memory: &Memory) -> Vec<OwnedObject> {
        let secrets = AccessObjects::of(&observation.observed.recorded);
        let observed = observation.observed.objects.iter().map(|(key, object)| {
            let mut owned = OwnedObject::new(key.clone(), object).with_credentials_for(&secrets);
            owned.unavailable = self.blocked.get(&key.cluster).cloned();
            owned.failure = memory.failures.get(key).cloned();
            owned
        });
        let mut objects: Vec<OwnedObject> = observed.chain(self.unnamed.iter().cloned()).collect();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects
    }
}

impl Pass<'_> {
    /// Finds everything that the instance owns.
    ///
    /// # Errors
    /// The hub refuses or does not answer. A remote cluster that does so blocks the deletion there alone.
    pub(super) async fn scan_inventory(
        &mut self,
        graph: Option<&Graph>,
    ) -> Result<InventoryScan, InstanceError> {
        self.observation = self.list_local(Proof::Presence).await?;
        self.resolve_inventory_clusters();
        let mut remaining = self.inventory.remote.clone();
        cluster_inventory::record_uids(&mut remaining, &self.observation);
        for (reference, uid) in &self.observation.abandoned {
            remaining.retain(|cluster| cluster.reference != *reference || cluster.uid != *uid);
        }
        let mut scan = InventoryScan::default();
        if self.observation.connecting {
            // The pass ends here: the lists would be repeated in a moment.
            return Ok(scan);
        }
        let remotes = cluster_inventory::remote_inventories(&remaining, &self.observation);
        scan.clusters.extend(remotes.iter().filter_map(|remote| used_cluster(&self.observation, remote)));
        let (mut listed, mut blocked) = (Vec::new(), Vec::new());
        for (remote, found) in self.list_remotes(&remotes, Proof::Presence).await {
            match found {
                Ok(found) => {
                    self.observation.extend(found);
                    listed.push(remote);
                }
                Err(failure) => blocked.push((remote, failure)),
            }
        }
        self.watch_deletions(&listed, graph).await;
        self.block(blocked, graph, &mut scan);
        Ok(scan)
    }

    /// Nothing can be deleted in these clusters. What was last known of them is observed.
    fn block(
        &mut self,
        blocked: Vec<(&RemoteInventory, ResourceFailure)>,
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) {
        let remotes: Vec<&RemoteInventory> = blocked.iter().map(|(remote, _)| *remote).collect();
        scan.blocked.extend(blocked.into_iter().map(|(remote, failure)| (remote.cluster.clone(), failure)));
        let recalled = self.recall_objects(&remotes, graph, &scan.blocked);
        scan.from_status |= recalled.from_status;
        scan.unnamed.extend(recalled.unnamed);
    }

    /// Lists once more what the instance owns, as proof that nothing else exists. What is found is observed. A cluster that
    /// proves nothing is blocked; one that was blocked before is not listed, since its objects are known to be left there.
    ///
    /// # Errors
    /// As [`Pass::scan_inventory`].
    pub(super) async fn prove_absence(
        &mut self,
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) -> Result<(), InstanceError> {
        let found = self.list_local(Proof::Absence).await?;
        self.observation.extend(found.without(&scan.orphaned));
        let remotes = cluster_inventory::remote_inventories(&self.inventory.remote, &self.observation);
        self.prove_absence_in(remotes.iter(), graph, scan).await;
        Ok(())
    }

    /// Proves that remote clusters have nothing else. Returns whether none of them has anything at all.
    async fn prove_absence_in<'r>(
        &mut self,
        remotes: impl Iterator<Item = &'r RemoteInventory>,
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) -> bool {
        let (blocked, open): (Vec<_>, Vec<_>) = remotes.partition(|remote| scan.is_blocked(&remote.cluster));
        let (mut is_empty, mut unproven) = (blocked.is_empty(), Vec::new());
        for (remote, found) in self.list_remotes(open, Proof::Absence).await {
            match found {
                Ok(found) => {
                    let found = found.without(&scan.orphaned);
                    is_empty &= found.stored.is_empty();
                    self.observation.extend(found);
                }
                Err(failure) => unproven.push((remote, failure)),
            }
        }
        is_empty &= unproven.is_empty();
        self.block(unproven, graph, scan);
        is_empty
    }

    /// Removes the clusters from the inventory whose kubeconfigs are in Secrets that a plan deletes, or that wait for their
    /// finalizers: a protected Secret exists as long as an inventory names it. The clusters have to prove before that they have
    /// nothing else, unless their objects are orphaned. Returns false if one of them has objects, or does not prove that it
    /// has none.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn release_clusters(
        &mut self,
        plan: &DeletionPlan,
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) -> Result<bool, InstanceError> {
        let terminating = plan.waiting.iter().filter(|(_, wait)| matches!(wait, Wait::Deletion(_)));
        let deleted = plan.delete.iter().chain(terminating.map(|(pending, _)| pending));
        let secrets = AccessObjects::of(&self.observation.observed.recorded);
        let closing = deleted.flat_map(|pending| secrets.opened_by(&pending.key));
        let closing: Vec<InventoryCluster> = closing.cloned().collect();
        if closing.is_empty() {
            return Ok(true);
        }
        let holding = closing.iter().filter(|closing| closing.holds_objects && !scan.is_blocked(&closing.id));
        let holding: HashSet<&ClusterId> = holding.map(|closing| &closing.id).collect();
        let remotes = cluster_inventory::remote_inventories(&self.inventory.remote, &self.observation);
        let remotes = remotes.iter().filter(|remote| holding.contains(&remote.cluster));
        if !self.prove_absence_in(remotes, graph, scan).await {
            return Ok(false);
        }
        let awaited: HashSet<&ClusterId> =
            plan.waiting.iter().map(|(pending, _)| &pending.key.cluster).collect();
        let is_left = |closing: &InventoryCluster| closing.holds_objects && scan.is_blocked(&closing.id);
        let closed = closing.iter().filter(|closing| !is_left(closing) || !awaited.contains(&closing.id));
        let closed: Vec<&InventoryCluster> = closed.collect();
        // All of their objects are orphaned, as their lifecycle says.
        let left: HashSet<&ClusterId> =
            closed.iter().filter(|closed| is_left(closed)).map(|closed| &closed.id).collect();
        let orphaned = plan.orphaned.iter().filter(|pending| left.contains(&pending.key.cluster));
        let orphaned: Vec<PendingDeletion> = orphaned.cloned().collect();
        let closed: HashSet<(&str, &str)> =
            closed.iter().map(|closed| (closed.key.as_str(), closed.id.claim())).collect();
        let is_closed = |reference: &str, uid: &str| closed.contains(&(reference, uid));
        self.inventory.remote.retain(|cluster| !is_closed(&cluster.reference, &cluster.uid));
        let recorded = &mut self.observation.observed.recorded;
        recorded.retain(|cluster| !is_closed(cluster.key.as_str(), cluster.id.claim()));
        self.write_inventory().await?;
        // No later pass knows of them.
        self.report_orphaned(&orphaned, &scan.clusters);
        Ok(true)
    }

    /// Watches the kinds of remote clusters, so that the instance is requeued when an object is deleted. Not if a cluster is
    /// polled: then the deletion itself checks again.
    async fn watch_deletions(&mut self, remotes: &[&RemoteInventory], graph: Option<&Graph>) {
        let entries = Instance::of(self.instance.value()).clusters();
        let polled = entries.iter().filter(|entry| entry.mode == SyncMode::Poll);
        let polled: HashSet<&str> = polled.filter_map(|entry| entry.uid.as_deref()).collect();
        let watched = remotes.iter().filter(|remote| !polled.contains(remote.cluster.claim()));
        let contents = watched
            .map(|remote| (remote.cluster.clone(), (Text::from(""), remote.contents.clone())))
            .collect();
        // What the caches have is not observed: the lists are newer.
        let observation = std::mem::take(&mut self.observation);
        self.watch_and_observe(inventory_kinds(&contents, graph)).await;
        self.observation = observation;
    }
}

/// A cluster of the inventory, with its state as it was observed.
fn used_cluster(observation: &Observation, remote: &RemoteInventory) -> Option<UsedCluster> {
    let (key, name) = remote.references.first()?;
    let mut reference = key.resolved()?;
    reference.display = name.to_string();
    let state = observation.observed.clusters.get(key).cloned();
    let (id, reference) = (remote.cluster.clone(), Arc::new(reference));
    Some(UsedCluster { reference, key: key.clone(), id, state, needed: true, former: false })
}
