//! Observe: what is known of an instance's objects, from the caches. No request is sent for what a cache has.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kross_api::{Authority, ClusterId, GroupKind, Operation, RecordedCluster, SyncMode, labels};
use kross_cluster::{Cache, CacheKey, ObjectKey, StoredObject};
use kross_plan::{KindKey, Observed, ObservedObject, Plan, ReferenceKey, Withheld};
use kross_value::Text;

use super::awaited_deletions::cached;
use super::error::InstanceError;
use super::member_lists::Proof;
use super::memory::Memory;
use super::pass::Pass;
use crate::kinds;

/// What is known of the objects of an instance.
#[derive(Debug, Default)]
pub(super) struct Observation {
    /// What the planner sees.
    pub(super) observed: Observed,
    /// The same objects with their managed fields.
    pub(super) stored: HashMap<ObjectKey, Arc<StoredObject>>,
    /// The objects whose repair is held back in this pass.
    pub(super) held: HashSet<ObjectKey>,
    /// The cluster references that were resolved, by the authority that they have.
    pub(super) resolved: HashSet<(ReferenceKey, Authority)>,
    /// The kinds in remote clusters that were observed.
    pub(super) kinds: HashSet<KindKey>,
    /// Whether a cluster in the inventory is being connected.
    pub(super) connecting: bool,
    /// Whether it could not be found out what became of an object of a deletion hook.
    pub(super) unconfirmed_hooks: bool,
    /// Whether a cluster is not connected because the instances of the namespace use too many.
    pub(super) too_many_clusters: bool,
    /// The kinds of deletion hooks that were looked up because their objects cannot be written.
    pub(super) checked_hook_kinds: HashSet<KindKey>,
    /// Whether a cache has not synced yet.
    pub(super) listing: bool,
    /// Clusters in the inventory that their references no longer resolve to, and whose objects are orphaned: reference and
    /// UID.
    pub(super) abandoned: Vec<(String, String)>,
    /// Clusters that the inventory has under their URL, and whose UID can be read now: reference, URL and UID.
    pub(super) renamed: Vec<(String, String, Text)>,
}

impl Observation {
    /// The id of a cluster in the inventory. Its UID alone does not tell which one it is, since another server may claim that: its
    /// reference does.
    pub(super) fn id_of(&self, recorded: &RecordedCluster) -> ClusterId {
        let key = ReferenceKey::parse(&recorded.reference);
        match key.and_then(|key| self.observed.clusters.get(&key)) {
            Some(state) if state.uid.as_deref() == Some(recorded.uid.as_str()) => state.id.clone(),
            _ => unproven_id(recorded),
        }
    }

    /// Adds an object as it is now.
    pub(super) fn add(&mut self, key: ObjectKey, object: Arc<StoredObject>, memory: &Memory) {
        let remembered = memory.digests.get(&key);
        let drifted = remembered.is_some() && remembered.copied() != object.owned_digest();
        // Nothing is shown before it was reviewed.
        let readable = memory.readable.as_ref().filter(|_| key.cluster.is_local());
        let withheld = readable.is_some_and(|readable| !readable.contains(&key));
        let withheld = withheld.then_some(Withheld::Unreviewed);
        let observed = ObservedObject { value: object.value().clone(), drifted, withheld };
        self.observed.objects.insert(key.clone(), observed);
        self.stored.insert(key, object);
    }

    /// Removes an object that was deleted or released.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.observed.objects.remove(key);
        self.stored.remove(key);
    }

    /// The same observation without the objects of these UIDs.
    pub(super) fn without(mut self, uids: &BTreeSet<Text>) -> Self {
        self.stored.retain(|_, object| !uids.contains(object.uid()));
        self.observed.objects.retain(|_, object| !uids.contains(object.uid()));
        self
    }

    /// Adds the objects of another observation.
    pub(super) fn extend(&mut self, other: Self) {
        self.observed.objects.extend(other.observed.objects);
        self.stored.extend(other.stored);
    }

    /// Reports the cluster of these references as polled. Returns whether that is new.
    pub(super) fn set_polled<'r>(&mut self, references: impl Iterator<Item = &'r ReferenceKey>) -> bool {
        let mut changed = false;
        for reference in references {
            let Observed { clusters, clusters_by_owner, .. } = &mut self.observed;
            for state in
                [clusters.get_mut(reference), clusters_by_owner.get_mut(reference)].into_iter().flatten()
            {
                changed |= std::mem::replace(&mut state.mode, SyncMode::Poll) != SyncMode::Poll;
            }
        }
        changed
    }
}

impl Pass<'_> {
    /// Observes the instance's objects in the hub. Returns false while one of the caches has not synced.
    #[tracing::instrument(level = "debug", skip_all)]
    pub(super) async fn observe(&mut self) -> Result<bool, InstanceError> {
        if !self.observe_local() {
            return Ok(false);
        }
        self.observe_leftovers().await?;
        Ok(true)
    }

    /// Observes the instance's objects in the hub, from the caches of the graph's kinds. Returns false while one of the
    /// caches has not synced. Where a kind cannot be listed only the nodes of that kind fail.
    pub(super) fn observe_local(&mut self) -> bool {
        for cache in self.clients.local_caches() {
            let uid = self.instance.uid();
            let Some(objects) = cache.list_by_label(labels::INSTANCE_ID, uid) else {
                let Some(error) = cache.failure_by_label(labels::INSTANCE_ID, uid) else { return false };
                let CacheKey { cluster, group, kind, .. } = &**cache.key();
                let kind = (cluster.clone(), group.clone(), kind.clone());
                let failure = self.unlisted(&kind, Operation::Watch, &error);
                self.observation.observed.unlisted.insert(kind, Some(failure));
                continue;
            };
            for object in objects {
                self.observation.add(object.key(&cache.key().cluster), object, self.memory);
            }
        }
        self.observation.observed.failures.clone_from(&self.memory.failures);
        self.observation.observed.attempts.clone_from(&self.memory.attempts);
        true
    }

    /// Observes the instance's objects of kinds that are in the inventory and no longer in the graph. Nothing caches them,
    /// so the hub is asked for them.
    pub(super) async fn observe_leftovers(&mut self) -> Result<(), InstanceError> {
        let mut inventory = self.inventory.local.clone();
        inventory.group_kinds.retain(|kind| !self.served.children.iter().any(|cache| is_of(cache, kind)));
        if inventory.group_kinds.is_empty() {
            return Ok(());
        }
        let kinds = inventory.group_kinds.iter().map(|kind| (kind, &self.context.client)).collect();
        let leftovers = self.list_members(kinds, &self.applyset_id(), &inventory, Proof::Presence).await?;
        self.observation.extend(leftovers);
        Ok(())
    }

    /// Finds objects of others under the names of objects that are to be created. Returns whether there are any.
    pub(super) fn find_contenders(&mut self, plan: &Plan) -> bool {
        let mut found = false;
        for object in plan.nodes.iter().flat_map(|node| &node.objects) {
            if object.desired.is_none() || self.observation.stored.contains_key(&object.key) {
                continue;
            }
            let key = &object.key;
            let Some(cache) = self.clients.cache_of(&key.cluster, &key.group, &key.kind) else { continue };
            if cached(cache, key).is_none() {
                continue;
            }
            // Read it again after the instance is registered: it may have been deleted just before.
            self.context.instances.contend_for(self.key, key);
            if let Some(other) = cached(cache, key) {
                self.observation.add(key.clone(), other, self.memory);
                found = true;
            }
        }
        found
    }

    /// Compares objects without a digest in memory, as after a restart, with what the plan desires. Returns whether one of
    /// them may have drifted: it is applied once more then.
    pub(super) fn detect_drift(&mut self, plan: &Plan) -> bool {
        let Observation { observed, stored, .. } = &mut self.observation;
        let mut drifted = false;
        for object in plan.nodes.iter().flat_map(|node| &node.objects) {
            let (Some(desired), Some(stored)) = (&object.desired, stored.get(&object.key)) else {
                continue;
            };
            if object.differs || self.memory.digests.contains_key(&object.key) {
                continue;
            }
            match stored.owned_digest() {
                Some(digest) if stored.is_applied(desired) => {
                    self.memory.digests.insert(object.key.clone(), digest);
                }
                _ => {
                    if let Some(observed) = observed.objects.get_mut(&object.key) {
                        drifted |= !std::mem::replace(&mut observed.drifted, true);
                    }
                }
            }
        }
        drifted
    }
}

/// The id of a cluster that nothing proves to be the same as that of another reference.
pub(super) fn unproven_id(recorded: &RecordedCluster) -> ClusterId {
    ClusterId::proven(&recorded.uid, &recorded.reference)
}

/// Whether a cache is of a kind.
fn is_of(cache: &Cache, kind: &GroupKind) -> bool {
    cache.key().group == *kind.group.as_str() && cache.key().kind == *kind.kind.as_str()
}

/// The version in an `apiVersion`.
pub(super) fn version_of(api_version: &str) -> Text {
    kinds::group_and_version(api_version).1.into()
}
