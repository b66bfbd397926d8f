//! What is remembered of instances between two reconciles: the digests of what was applied, what failed, which caches and
//! clusters they use. All of it can be lost at a restart, which costs time and requests, with one exception: while the
//! controller runs, claims keep two instances from writing the same object at the same time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kross_api::SecretAddress;
use kross_cluster::{Cache, CacheKey, ClusterHandle, Digest, ObjectKey};
use kross_plan::{ExternalRead, KindKey, OperationFailure, ReferenceKey};
use kross_value::Text;
use parking_lot::{Mutex, MutexGuard};

use super::children::Child;

/// What is remembered of one instance.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Of which instance it is: another one may have its name by now.
    pub(super) uid: Option<Text>,
    /// The fields that we owned right after an apply: whoever changes one of them changes the digest.
    pub(super) digests: HashMap<ObjectKey, Digest>,
    /// What went wrong the last time.
    pub(super) failures: BTreeMap<ObjectKey, OperationFailure>,
    /// When the removal of objects was first attempted.
    pub(super) attempts: BTreeMap<ObjectKey, Timestamp>,
    /// The watches on external objects.
    pub(super) externals: HashMap<ExternalRead, Vec<Cache>>,
    /// The remote clusters that the instance uses.
    pub(super) holds: HashMap<ReferenceKey, ClusterHandle>,
    /// The copies of its objects in remote clusters.
    pub(super) children: HashMap<KindKey, Child>,
    /// Kinds in remote clusters that could not be read the last time.
    pub(super) unlisted: HashMap<KindKey, OperationFailure>,
    /// External references that could not be read the last time.
    pub(super) unreadable: HashMap<ExternalRead, OperationFailure>,
    /// UIDs of objects that were let go without deleting them, as everybody was told.
    pub(super) told: HashSet<Text>,
    /// Nodes that are left out and failed before, and the generation of the instance in which they did: they are tried again
    /// when somebody changes it.
    pub(super) left_out: (Option<i64>, HashSet<Text>),
    /// When a status that has only details to add may be written next, and how long the wait was.
    pub(super) detail: Option<(Instant, Duration)>,
    /// How often in a row the API server kept less of a status than it was given.
    pub(super) dropped: u32,
    /// Objects that turned out to be another instance's when we were about to make them: they are looked for before that is
    /// tried again.
    pub(super) contested: HashSet<ObjectKey>,
    /// How many objects had been written, by anybody here, when this pass began.
    pub(super) since: u64,
    /// The instance of this UID was let go. The copy says so a moment later; until then nothing is done again.
    pub(super) released: Option<Text>,
}

/// What is remembered of all instances.
///
/// # Lock order
///
/// The lock of `state` is a leaf: nothing is locked while it is held, and no [`Memory`] is dropped under it, since caches and
/// cluster handles take the locks of their registries when they are dropped.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    memories: HashMap<ObjectKey, Memory>,
    /// Who looks at what a watch is about.
    interests: HashMap<CacheKey, HashSet<ObjectKey>>,
    /// Who uses the cluster of a Secret.
    users: HashMap<SecretAddress, HashSet<ObjectKey>>,
    /// Who wants an object that another instance has.
    rivals: HashMap<ObjectKey, HashSet<ObjectKey>>,
    /// Who is about to write an object: siblings share one field manager, so the cluster would not notice.
    claims: HashMap<ObjectKey, Text>,
    writes: Writes,
}

impl Instances {
    /// Takes the memory of an instance out; only one worker has it.
    pub(super) fn take(&self, instance: &ObjectKey, uid: &Text, visit: &Visit<'_>) -> Memory {
        let mut state = self.lock();
        let mut memory = state.memories.remove(instance).unwrap_or_default();
        if memory.uid.as_ref().is_some_and(|known| known != uid) {
            // Nothing of it holds for another one of its name.
            state.release(instance, &memory);
            drop(state);
            memory = Memory::default();
        }
        memory.uid = Some(uid.clone());
        memory.since = visit.since;
        memory
    }

    /// Begins a pass, before anything is looked at.
    pub(super) fn visit(&self) -> Visit<'_> {
        Visit { instances: self, since: self.lock().writes.begin() }
    }

    /// Puts it back.
    pub(super) fn keep(&self, instance: &ObjectKey, memory: Memory) {
        let before = self.lock().memories.insert(instance.clone(), memory);
        // Outside the lock, as in `forget`.
        drop(before);
    }

    /// Forgets an instance that is gone.
    pub(super) fn forget(&self, instance: &ObjectKey) {
        let mut state = self.lock();
        state.want(instance, HashSet::new());
        let memory = state.memories.remove(instance);
        if let Some(memory) = &memory {
            state.release(instance, memory);
        }
        drop(state);
        // Outside the lock: its caches and cluster handles take the locks of their registries when they are dropped.
        drop(memory);
    }

    /// The instance wants to know nothing any more.
    pub(super) fn release(&self, instance: &ObjectKey, memory: &Memory) {
        self.lock().release(instance, memory);
    }

    /// The instance uses the cluster of a Secret from now on.
    pub(super) fn use_cluster(&self, instance: &ObjectKey, secret: &SecretAddress) {
        self.lock().users.entry(secret.clone()).or_default().insert(instance.clone());
    }

    /// The instance no longer uses the cluster of a Secret.
    pub(super) fn leave_cluster(&self, instance: &ObjectKey, secret: &SecretAddress) {
        self.lock().leave_cluster(instance, secret);
    }

    /// Who uses the cluster of a Secret.
    pub(crate) fn using(&self, secret: &SecretAddress) -> Vec<ObjectKey> {
        self.lock().users.get(secret).into_iter().flatten().cloned().collect()
    }

    /// The instance no longer wants to know about a watch.
    pub(super) fn look_away(&self, instance: &ObjectKey, watch: &CacheKey) {
        self.lock().look_away(instance, watch);
    }

    /// The instance wants to know about a watch from now on.
    pub(super) fn look_at(&self, instance: &ObjectKey, watch: &CacheKey) {
        self.lock().interests.entry(watch.clone()).or_default().insert(instance.clone());
    }

    /// Who looks at what a watch is about.
    pub(crate) fn looking_at(&self, watch: &CacheKey) -> Vec<ObjectKey> {
        self.lock().interests.get(watch).into_iter().flatten().cloned().collect()
    }

    /// Whether an instance looks at what a watch is about.
    pub(crate) fn looks_at(&self, instance: &ObjectKey, watch: &CacheKey) -> bool {
        self.lock().interests.get(watch).is_some_and(|instances| instances.contains(instance))
    }

    /// These are the objects that an instance wants and another one has.
    pub(super) fn want(&self, instance: &ObjectKey, objects: HashSet<ObjectKey>) {
        self.lock().want(instance, objects);
    }

    /// Who wants an object that another instance has.
    pub(crate) fn rivals(&self, object: &ObjectKey) -> Vec<ObjectKey> {
        self.lock().rivals.get(object).into_iter().flatten().cloned().collect()
    }

    /// These are not the only objects that an instance wants and another one has. Before the object is looked at, or nobody
    /// would tell if it went between the two.
    pub(super) fn want_too(&self, instance: &ObjectKey, object: &ObjectKey) {
        self.lock().rivals.entry(object.clone()).or_default().insert(instance.clone());
    }

    /// Claims an object for an apply set while it is being written; none if another one was faster.
    pub(super) fn claim<'a>(
        &'a self,
        object: &'a ObjectKey,
        applyset: &'a Text,
        since: u64,
    ) -> Option<Claim<'a>> {
        let mut state = self.lock();
        let holder = state.claims.entry(object.clone()).or_insert_with(|| applyset.clone());
        if holder != applyset {
            return None;
        }
        let contested = state.writes.by_another(object, applyset, since);
        Some(Claim { instances: self, object, applyset, contested, written: false })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A pass that is under way.
pub(super) struct Visit<'a> {
    instances: &'a Instances,
    /// How many objects had been written when it began.
    since: u64,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.instances.lock().writes.end(self.since);
    }
}

/// An object that is being written.
pub(super) struct Claim<'a> {
    instances: &'a Instances,
    object: &'a ObjectKey,
    applyset: &'a Text,
    /// Whether another apply set has written it since the pass began, which therefore may not know.
    pub(super) contested: bool,
    written: bool,
}

impl Claim<'_> {
    /// The object was written, and the copies know.
    pub(super) fn written(&mut self) {
        self.written = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.instances.lock();
        state.claims.remove(self.object);
        if self.written {
            state.writes.add(self.object, self.applyset);
        }
    }
}

/// Who wrote what, as far as there are passes that began before.
#[derive(Debug, Default)]
struct Writes {
    count: u64,
    /// When the passes began that are under way, and how many did at once.
    passes: BTreeMap<u64, usize>,
    last: HashMap<ObjectKey, (u64, Text)>,
    /// How many are kept before it is looked which of them are still needed.
    room: usize,
}

/// So many writes are kept in any case.
const LEAST_ROOM: usize = 256;

impl Writes {
    fn begin(&mut self) -> u64 {
        *self.passes.entry(self.count).or_default() += 1;
        self.count
    }

    fn end(&mut self, since: u64) {
        if let Some(passes) = self.passes.get_mut(&since) {
            *passes -= 1;
            if *passes == 0 {
                self.passes.remove(&since);
            }
        }
        match self.passes.keys().next() {
            None => self.last.clear(),
            Some(first) if self.last.len() > self.room.max(LEAST_ROOM) => {
                self.last.retain(|_, (number, _)| *number > *first);
                self.room = 2 * self.last.len();
            }
            Some(_) => {}
        }
    }

    fn add(&mut self, object: &ObjectKey, applyset: &Text) {
        self.count += 1;
        self.last.insert(object.clone(), (self.count, applyset.clone()));
    }

    fn by_another(&self, object: &ObjectKey, applyset: &Text, since: u64) -> bool {
        self.last.get(object).is_some_and(|(number, writer)| *number > since && writer != applyset)
    }
}

impl State {
    fn release(&mut self, instance: &ObjectKey, memory: &Memory) {
        let children = memory.children.values().map(|child| &*child.watch);
        for watch in memory.externals.values().flatten().chain(children) {
            self.look_away(instance, watch.key());
        }
        for hold in memory.holds.values() {
            self.leave_cluster(instance, hold.secret());
        }
    }

    fn leave_cluster(&mut self, instance: &ObjectKey, secret: &SecretAddress) {
        if let Some(instances) = self.users.get_mut(secret) {
            instances.remove(instance);
            if instances.is_empty() {
                self.users.remove(secret);
            }
        }
    }

    fn want(&mut self, instance: &ObjectKey, objects: HashSet<ObjectKey>) {
        self.rivals.retain(|object, instances| {
            if !objects.contains(object) {
                instances.remove(instance);
            }
            !instances.is_empty()
        });
        for object in objects {
            self.rivals.entry(object).or_default().insert(instance.clone());
        }
    }

    fn look_away(&mut self, instance: &ObjectKey, watch: &CacheKey) {
        if let Some(instances) = self.interests.get_mut(watch) {
            instances.remove(instance);
            if instances.is_empty() {
                self.interests.remove(watch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kross_api::ClusterId;

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
    fn what_another_wrote_since_a_pass_began_is_looked_at_before_it_is_written() {
        let (instances, shared) = (Instances::default(), object("shared"));
        let [one, other] = ["one", "other"].map(Text::from);
        let (first, second) = (instances.visit(), instances.visit());
        let mut claim = instances.claim(&shared, &one, first.since).unwrap();
        assert!(!claim.contested);
        assert!(instances.claim(&shared, &other, second.since).is_none(), "it is being written");
        claim.written();
        drop(claim);
        assert!(instances.claim(&shared, &other, second.since).unwrap().contested);
        assert!(!instances.claim(&shared, &one, second.since).unwrap().contested, "it is its own");
        // Who begins later reads it from the copies.
        let third = instances.visit();
        assert!(!instances.claim(&shared, &other, third.since).unwrap().contested);
        // A write that failed, or whose pass was cut off, is none.
        drop(instances.claim(&object("failed"), &one, first.since).unwrap());
        assert!(!instances.claim(&object("failed"), &other, second.since).unwrap().contested);
        drop((first, second, third));
        assert!(instances.lock().writes.last.is_empty() && instances.lock().writes.passes.is_empty());
    }

    #[test]
    fn nothing_is_remembered_of_another_instance_of_the_same_name() {
        let (instances, key) = (Instances::default(), object("x"));
        let [first, second] = ["first", "second"].map(Text::from);
        let mut memory = instances.take(&key, &first, &instances.visit());
        memory.told.insert("child".into());
        instances.keep(&key, memory);
        let memory = instances.take(&key, &first, &instances.visit());
        assert!(memory.told.contains("child"));
        instances.keep(&key, memory);
        assert!(instances.take(&key, &second, &instances.visit()).told.is_empty());
    }

    #[test]
    fn writes_that_no_pass_can_have_missed_are_forgotten() {
        let instances = Instances::default();
        let applyset = Text::from("one");
        let mut visit = instances.visit();
        for number in 0..10_000 {
            let key = object(&number.to_string());
            instances.claim(&key, &applyset, visit.since).unwrap().written();
            let next = instances.visit();
            drop(std::mem::replace(&mut visit, next));
        }
        assert!(instances.lock().writes.last.len() <= 2 * LEAST_ROOM);
    }
}
