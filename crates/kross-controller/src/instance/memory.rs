//! What the controller remembers of instances between two reconciles: the digests of what was applied, what failed, which
//! caches and clusters they use. A restart loses it, which costs time and requests and nothing else.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kross_api::{ClusterId, Operation, SecretAddress};
use kross_cluster::{Cache, CacheKey, ClusterHandle, Digest, ObjectKey};
use kross_plan::{ExternalRead, KindKey, OperationFailure, ReferenceKey};
use kross_value::Text;
use parking_lot::{Mutex, MutexGuard};

use super::child_caches::ChildCache;
use super::claims::{Claim, Claims, PassGuard};
use super::recreations::Recreations;
use super::targets::TargetKey;
use super::throttle::Throttle;
use crate::planner::PlanLength;
use crate::repairs::Repairs;

/// An instance with at most this many clusters is reconciled at once on their events.
const UNBATCHED_CLUSTERS: u32 = 32;
/// How long an instance with more clusters waits, for each of them, and at most.
const WAIT_PER_CLUSTER: Duration = Duration::from_millis(1);
const MAX_BATCH_WAIT: Duration = Duration::from_secs(2);

/// What is remembered of one instance.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The UID of the instance: another one may have its name by now.
    pub(super) uid: Option<Text>,
    /// The digest of the fields that we owned right after an apply. It changes when somebody changes one of them.
    pub(super) digests: HashMap<ObjectKey, Digest>,
    /// The objects whose last operation failed.
    pub(super) failures: BTreeMap<ObjectKey, OperationFailure>,
    /// The objects in the hub that the instance's ServiceAccount may get, as far as this pass has reviewed it; none if the
    /// instance has no ServiceAccount. Expressions see no others.
    pub(super) readable: Option<HashSet<ObjectKey>>,
    /// The objects in the hub that it may not get, or of which that is not known.
    pub(super) denied: HashMap<ObjectKey, OperationFailure>,
    /// The objects that others changed or deleted, and that were applied again.
    pub(super) repairs: Repairs,
    /// What was written into the instance's own metadata: finalizer, labels and inventory.
    pub(super) metadata: OwnMetadata,
    /// The same for the state of an instance of an existing kind.
    pub(super) state_metadata: OwnMetadata,
    /// The objects that an API server asked to write later.
    pub(super) throttle: Throttle,
    /// The objects of deletion hooks that this process was about to create.
    pub(super) hook_creations: HashMap<ObjectKey, HookCreation>,
    /// When the deletion of an object was first attempted.
    pub(super) attempts: BTreeMap<ObjectKey, Timestamp>,
    /// How often a deletion found objects that others created again.
    pub(super) recreations: Recreations,
    /// The caches of external objects.
    pub(super) external_caches: HashMap<ExternalRead, Vec<Cache>>,
    /// The handles of the remote clusters that the instance uses.
    pub(super) cluster_handles: HashMap<ReferenceKey, ClusterHandle>,
    /// The clusters that the references led to when they were last connected.
    pub(super) cluster_ids: HashMap<ReferenceKey, ClusterId>,
    /// The targets whose changes concern the instance.
    pub(super) targets: HashSet<TargetKey>,
    /// The caches of the instance's objects in remote clusters.
    pub(super) child_caches: HashMap<KindKey, ChildCache>,
    /// The kinds that could not be listed the last time.
    pub(super) unlisted: HashMap<KindKey, OperationFailure>,
    /// The external references that could not be read the last time.
    pub(super) unreadable: HashMap<ExternalRead, OperationFailure>,
    /// UIDs of objects whose release was reported: each is reported once.
    pub(super) reported_releases: HashSet<Text>,
    /// Nodes that failed and are skipped now.
    pub(super) skipped: SkippedNodes,
    /// When a status that changes only in details may be written next, and how long the last wait was.
    pub(super) next_detail: Option<(Instant, Duration)>,
    /// How many statuses in a row the API server has stored without all of their fields.
    pub(super) pruned_statuses: u32,
    /// Objects that turned out to be another instance's when they were to be created: they are read before the next attempt.
    pub(super) contested: HashSet<ObjectKey>,
    /// Whether objects were pruned since the inventory of the hub last lost what was deleted.
    pub(super) can_shrink_inventory: bool,
    /// How long the last plan took.
    pub(super) plan_length: PlanLength,
    /// How many objects all instances had written when this pass began.
    pub(super) writes_before: u64,
    /// The instance of this UID has lost its finalizer. The cache will learn of it; until then nothing is done again.
    pub(super) released: Option<Text>,
}

/// The creation of an object of a deletion hook.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookCreation {
    /// When the resource version was read that the record has.
    pub(super) recorded: tokio::time::Instant,
    /// Whether the last attempt has certainly created nothing.
    pub(super) refused: bool,
}

/// What was written into the instance's own metadata, and how often others removed it.
#[derive(Debug, Default)]
pub(super) struct OwnMetadata {
    /// The digest of what was written last.
    pub(super) written: Option<Digest>,
    pub(super) repairs: Repairs,
}

/// Nodes that failed and whose `includeWhen` skips them now. They are retried only when somebody changes the instance:
/// otherwise a node that is skipped because it failed would be created, fail and be skipped for ever.
#[derive(Debug, Default)]
pub(super) struct SkippedNodes {
    /// The generation of the instance that they failed in.
    pub(super) generation: Option<i64>,
    pub(super) nodes: HashSet<Text>,
}

impl Memory {
    /// Remembers that an operation on an object failed. Returns the failure with the time since when the object has been
    /// failing: another reason does not change that, but a deletion begins anew.
    pub(super) fn fail(&mut self, key: &ObjectKey, failure: OperationFailure) -> OperationFailure {
        let deletes = |failure: &OperationFailure| failure.operation == Operation::Delete;
        let before = self.failures.get(key).filter(|before| deletes(before) == deletes(&failure));
        let since = before.map_or(failure.since, |before| before.since);
        let failure = OperationFailure { since, ..failure };
        self.failures.insert(key.clone(), failure.clone());
        failure
    }
}

/// What is remembered of all instances, and who is interested in what.
///
/// # Lock order
///
/// The lock is a leaf: nothing else is locked while it is held, and no [`Memory`] is dropped under it, since caches and
/// cluster handles take the locks of their registries when they are dropped.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    memories: HashMap<ObjectKey, Memory>,
    /// The instances that use a cache.
    watchers: HashMap<CacheKey, HashSet<ObjectKey>>,
    /// The instances that use the cluster of a Secret.
    cluster_users: HashMap<SecretAddress, HashSet<ObjectKey>>,
    /// The instances that use a target, or choose among the targets of a namespace.
    target_users: HashMap<TargetKey, HashSet<ObjectKey>>,
    /// The instances that want an object that another instance owns.
    contenders: HashMap<ObjectKey, HashSet<ObjectKey>>,
    /// How many clusters an instance uses.
    cluster_counts: HashMap<ObjectKey, u32>,
    /// The clusters that the instances of a namespace use.
    namespace_clusters: NamespaceClusters,
    pub(super) claims: Claims,
}

impl Instances {
    /// Begins a pass, before anything is observed.
    pub(super) fn begin_pass(&self) -> PassGuard<'_> {
        PassGuard::new(self)
    }

    /// Takes the memory of an instance out for a pass. Only one pass over an instance runs at a time.
    pub(super) fn take(&self, instance: &ObjectKey, uid: &Text, pass: &PassGuard<'_>) -> Memory {
        let mut state = self.lock();
        let mut memory = state.memories.remove(instance).unwrap_or_default();
        if memory.uid.as_ref().is_some_and(|known| known != uid) {
            // It is of another instance of the same name.
            state.unsubscribe(instance, &memory);
            drop(state);
            memory = Memory::default();
        }
        memory.uid = Some(uid.clone());
        memory.writes_before = pass.writes_before;
        memory
    }

    /// Puts the memory of an instance back.
    pub(super) fn keep(&self, instance: &ObjectKey, memory: Memory) {
        let before = self.lock().memories.insert(instance.clone(), memory);
        drop(before);
    }

    /// Forgets an instance that was deleted.
    pub(super) fn forget(&self, instance: &ObjectKey) {
        let mut state = self.lock();
        state.contend(instance, HashSet::new());
        let memory = state.memories.remove(instance);
        if let Some(memory) = &memory {
            state.unsubscribe(instance, memory);
        }
        drop(state);
        drop(memory);
    }

    /// No cache and no cluster in this memory concerns the instance any more.
    pub(super) fn unsubscribe(&self, instance: &ObjectKey, memory: &Memory) {
        self.lock().unsubscribe(instance, memory);
    }

    /// Whether the instances in the namespace of this one may use one more cluster, or use that of the Secret already.
    pub(super) fn has_room_for(&self, instance: &ObjectKey, secret: &SecretAddress, limit: usize) -> bool {
        let state = self.lock();
        let used = state.namespace_clusters.get(&instance.namespace);
        used.is_none_or(|used| used.len() < limit || used.contains_key(secret))
    }

    /// The instance uses the cluster of a Secret from now on.
    pub(super) fn use_cluster(&self, instance: &ObjectKey, secret: &SecretAddress) {
        let mut state = self.lock();
        if state.cluster_users.entry(secret.clone()).or_default().insert(instance.clone()) {
            *state.cluster_counts.entry(instance.clone()).or_default() += 1;
            let used = state.namespace_clusters.entry(instance.namespace.clone()).or_default();
            *used.entry(secret.clone()).or_default() += 1;
        }
    }

    /// The instance no longer uses the cluster of a Secret.
    pub(super) fn leave_cluster(&self, instance: &ObjectKey, secret: &SecretAddress) {
        self.lock().leave_cluster(instance, secret);
    }

    /// The instances that use the cluster of a Secret.
    pub(crate) fn cluster_users(&self, secret: &SecretAddress) -> Vec<ObjectKey> {
        self.lock().cluster_users.get(secret).into_iter().flatten().cloned().collect()
    }

    /// How many instances use the cluster of a Secret.
    pub(crate) fn count_cluster_users(&self, secret: &SecretAddress) -> usize {
        self.lock().cluster_users.get(secret).map_or(0, HashSet::len)
    }

    /// How long an instance waits after an event in one of its remote clusters: the more it uses, the longer, so that one pass
    /// serves the events of many.
    pub(crate) fn batch_wait(&self, instance: &ObjectKey) -> Duration {
        let count = self.lock().cluster_counts.get(instance).copied().unwrap_or_default();
        if count <= UNBATCHED_CLUSTERS {
            return Duration::ZERO;
        }
        (WAIT_PER_CLUSTER * count).min(MAX_BATCH_WAIT)
    }

    /// The instance is reconciled on changes of a target from now on.
    pub(super) fn use_target(&self, instance: &ObjectKey, target: &TargetKey) {
        self.lock().target_users.entry(target.clone()).or_default().insert(instance.clone());
    }

    /// The instance is no longer reconciled on changes of a target.
    pub(super) fn leave_target(&self, instance: &ObjectKey, target: &TargetKey) {
        self.lock().leave_target(instance, target);
    }

    /// The instances that use a target, or choose among the targets of its namespace.
    pub(crate) fn target_users(&self, namespace: &Text, name: &Text) -> HashSet<ObjectKey> {
        let state = self.lock();
        let own = TargetKey { namespace: namespace.clone(), name: Some(name.clone()) };
        let any = TargetKey { namespace: namespace.clone(), name: None };
        [own, any].iter().filter_map(|key| state.target_users.get(key)).flatten().cloned().collect()
    }

    /// The instances that use any target.
    pub(crate) fn all_target_users(&self) -> HashSet<ObjectKey> {
        self.lock().target_users.values().flatten().cloned().collect()
    }

    /// The instance is reconciled on events of a cache from now on.
    pub(super) fn watch(&self, instance: &ObjectKey, cache: &CacheKey) {
        self.lock().watchers.entry(cache.clone()).or_default().insert(instance.clone());
    }

    /// The instance is no longer reconciled on events of a cache.
    pub(super) fn unwatch(&self, instance: &ObjectKey, cache: &CacheKey) {
        self.lock().unwatch(instance, cache);
    }

    /// The instances that are reconciled on events of a cache.
    pub(crate) fn watchers(&self, cache: &CacheKey) -> Vec<ObjectKey> {
        self.lock().watchers.get(cache).into_iter().flatten().cloned().collect()
    }

    /// Whether an instance is reconciled on events of a cache.
    pub(crate) fn watches(&self, instance: &ObjectKey, cache: &CacheKey) -> bool {
        self.lock().watchers.get(cache).is_some_and(|instances| instances.contains(instance))
    }

    /// Sets the objects that the instance wants and others own.
    pub(super) fn contend(&self, instance: &ObjectKey, objects: HashSet<ObjectKey>) {
        self.lock().contend(instance, objects);
    }

    /// Adds an object that the instance wants and another one owns. Call it before the object is read: if it were deleted
    /// between a read and this call, the instance would not be requeued.
    pub(super) fn contend_for(&self, instance: &ObjectKey, object: &ObjectKey) {
        self.lock().contenders.entry(object.clone()).or_default().insert(instance.clone());
    }

    /// The instances that want an object that another one owns.
    pub(crate) fn contenders(&self, object: &ObjectKey) -> Vec<ObjectKey> {
        self.lock().contenders.get(object).into_iter().flatten().cloned().collect()
    }

    /// Claims an object for an apply set while it is being written; none if another apply set has claimed it.
    pub(super) fn claim<'a>(
        &'a self,
        object: &'a ObjectKey,
        applyset: &'a Text,
        writes_before: u64,
    ) -> Option<Claim<'a>> {
        Claim::new(self, object, applyset, writes_before)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn unsubscribe(&mut self, instance: &ObjectKey, memory: &Memory) {
        let children = memory.child_caches.values().map(|child| &*child.cache);
        for cache in memory.external_caches.values().flatten().chain(children) {
            self.unwatch(instance, cache.key());
        }
        for handle in memory.cluster_handles.values() {
            self.leave_cluster(instance, handle.secret());
        }
        for target in &memory.targets {
            self.leave_target(instance, target);
        }
    }

    fn leave_target(&mut self, instance: &ObjectKey, target: &TargetKey) {
        if let Some(instances) = self.target_users.get_mut(target) {
            instances.remove(instance);
            if instances.is_empty() {
                self.target_users.remove(target);
            }
        }
    }

    fn leave_cluster(&mut self, instance: &ObjectKey, secret: &SecretAddress) {
        let Some(instances) = self.cluster_users.get_mut(secret) else { return };
        if instances.remove(instance)
            && let Some(count) = self.cluster_counts.get_mut(instance)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.cluster_counts.remove(instance);
            }
            leave_namespace_cluster(&mut self.namespace_clusters, &instance.namespace, secret);
        }
        if instances.is_empty() {
            self.cluster_users.remove(secret);
        }
    }

    fn unwatch(&mut self, instance: &ObjectKey, cache: &CacheKey) {
        if let Some(instances) = self.watchers.get_mut(cache) {
            instances.remove(instance);
            if instances.is_empty() {
                self.watchers.remove(cache);
            }
        }
    }

    fn contend(&mut self, instance: &ObjectKey, objects: HashSet<ObjectKey>) {
        self.contenders.retain(|object, instances| {
            if !objects.contains(object) {
                instances.remove(instance);
            }
            !instances.is_empty()
        });
        for object in objects {
            self.contenders.entry(object).or_default().insert(instance.clone());
        }
    }
}

/// The instances of each namespace that use the cluster of a Secret, counted.
type NamespaceClusters = HashMap<Option<Text>, HashMap<SecretAddress, u32>>;

/// One instance of a namespace less uses the cluster of a Secret.
fn leave_namespace_cluster(all: &mut NamespaceClusters, namespace: &Option<Text>, secret: &SecretAddress) {
    let Some(used) = all.get_mut(namespace) else { return };
    if let Some(instances) = used.get_mut(secret) {
        *instances = instances.saturating_sub(1);
        if *instances == 0 {
            used.remove(secret);
        }
    }
    if used.is_empty() {
        all.remove(namespace);
    }
}

#[cfg(test)]
mod tests {
    use kross_api::FailureReason;

    use super::*;

    fn object(name: &str) -> ObjectKey {
        ObjectKey {
            cluster: ClusterId::local(),
            group: "".into(),
            kind: "ConfigMap".into(),
            namespace: Some("shop".into()),
            name: name.into(),
        }
    }

    #[test]
    fn the_memory_of_another_instance_of_the_same_name_is_not_used() {
        let (instances, key) = (Instances::default(), object("x"));
        let [first, second] = ["first", "second"].map(Text::from);
        let mut memory = instances.take(&key, &first, &instances.begin_pass());
        memory.reported_releases.insert("child".into());
        instances.keep(&key, memory);
        let memory = instances.take(&key, &first, &instances.begin_pass());
        assert!(memory.reported_releases.contains("child"));
        instances.keep(&key, memory);
        assert!(instances.take(&key, &second, &instances.begin_pass()).reported_releases.is_empty());
    }

    #[test]
    fn an_instance_with_many_clusters_waits_for_more_of_their_events() {
        let (instances, fleet, small) = (Instances::default(), object("fleet"), object("small"));
        let secret = |at: u32| SecretAddress {
            namespace: "fleet".to_owned(),
            name: format!("cluster-{at}"),
            key: "kubeconfig".to_owned(),
        };
        instances.use_cluster(&small, &secret(0));
        assert_eq!(instances.batch_wait(&small), Duration::ZERO);
        for at in 0..100 {
            // A second reference to the same Secret is the same cluster.
            instances.use_cluster(&fleet, &secret(at));
            instances.use_cluster(&fleet, &secret(at));
        }
        assert_eq!(instances.batch_wait(&fleet), Duration::from_millis(100));
        (0..90).for_each(|at| instances.leave_cluster(&fleet, &secret(at)));
        assert_eq!(instances.batch_wait(&fleet), Duration::ZERO);
        (0..10_000).for_each(|at| instances.use_cluster(&fleet, &secret(at)));
        assert_eq!(instances.batch_wait(&fleet), MAX_BATCH_WAIT);
        (0..10_000).for_each(|at| instances.leave_cluster(&fleet, &secret(at)));
        assert!(!instances.lock().cluster_counts.contains_key(&fleet));
    }

    #[test]
    fn a_deletion_that_fails_does_not_count_from_earlier_failures() {
        let mut memory = Memory::default();
        let key = object("a");
        let mut since = |operation, reason, second| {
            let since = Timestamp::from_second(second).unwrap();
            let failure = OperationFailure { node: "a".into(), operation, reason, message: "".into(), since };
            memory.fail(&key, failure).since.as_second()
        };
        assert_eq!(since(Operation::Update, FailureReason::Invalid, 1), 1);
        assert_eq!(since(Operation::Update, FailureReason::Timeout, 2), 1);
        assert_eq!(since(Operation::Delete, FailureReason::ServerError, 3), 3);
        assert_eq!(since(Operation::Delete, FailureReason::Forbidden, 4), 3);
    }
}
