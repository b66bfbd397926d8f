//! What is remembered of instances between two passes: the digests of what was applied, what failed, what external objects
//! they look at and which clusters they use. Nothing of it is needed to be right, only to be quick.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kross_api::SecretAddress;
use kross_cluster::{Digest, Hold, ObjectKey, Watch, WatchKey};
use kross_plan::{ExternalRead, Failure, KindKey, ReferenceKey};
use kross_value::Text;

use super::children::Child;

/// What is remembered of one instance.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The fields that we owned right after an apply: whoever changes one of them changes the digest.
    pub(super) digests: HashMap<ObjectKey, Digest>,
    /// What went wrong the last time.
    pub(super) failures: BTreeMap<ObjectKey, Failure>,
    /// When the removal of objects was first attempted.
    pub(super) attempts: BTreeMap<ObjectKey, Timestamp>,
    /// The watches on external objects.
    pub(super) externals: HashMap<ExternalRead, Vec<Watch>>,
    /// The remote clusters that the instance uses.
    pub(super) holds: HashMap<ReferenceKey, Hold>,
    /// The copies of its objects in remote clusters.
    pub(super) children: HashMap<KindKey, Child>,
    /// Kinds in remote clusters that could not be read the last time.
    pub(super) blind: HashMap<KindKey, Failure>,
    /// External references that could not be read the last time.
    pub(super) unreadable: HashMap<ExternalRead, Failure>,
    /// UIDs of objects that were let go without deleting them, as everybody was told.
    pub(super) told: HashSet<Text>,
    /// Nodes that are left out and failed before, and the generation of the instance in which they did: they are tried again
    /// when somebody changes it.
    pub(super) left_out: (Option<i64>, HashSet<Text>),
    /// When a status that has only details to add may be written next, and how long the wait was.
    pub(super) detail: Option<(Instant, Duration)>,
    /// How often in a row the API server kept less of a status than it was given.
    pub(super) dropped: u32,
    /// The instance of this UID was let go. The copy says so a moment later; until then nothing is done again.
    pub(super) released: Option<Text>,
}

/// What is remembered of all instances.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    memories: HashMap<ObjectKey, Memory>,
    /// Who looks at what a watch is about.
    interests: HashMap<WatchKey, HashSet<ObjectKey>>,
    /// Who uses the cluster of a Secret.
    users: HashMap<SecretAddress, HashSet<ObjectKey>>,
    /// Who wants an object that another instance has.
    rivals: HashMap<ObjectKey, HashSet<ObjectKey>>,
    /// Who is about to write an object: siblings share one field manager, so the cluster would not notice.
    claims: HashMap<ObjectKey, Text>,
}

impl Instances {
    /// Takes the memory of an instance out; only one worker has it.
    pub(super) fn take(&self, instance: &ObjectKey) -> Memory {
        self.lock().memories.remove(instance).unwrap_or_default()
    }

    /// Puts it back.
    pub(super) fn keep(&self, instance: &ObjectKey, memory: Memory) {
        self.lock().memories.insert(instance.clone(), memory);
    }

    /// Forgets an instance that is gone.
    pub(super) fn forget(&self, instance: &ObjectKey) {
        let mut state = self.lock();
        state.want(instance, HashSet::new());
        let Some(memory) = state.memories.remove(instance) else { return };
        state.release(instance, &memory);
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
    pub(super) fn look_away(&self, instance: &ObjectKey, watch: &WatchKey) {
        self.lock().look_away(instance, watch);
    }

    /// The instance wants to know about a watch from now on.
    pub(super) fn look_at(&self, instance: &ObjectKey, watch: &WatchKey) {
        self.lock().interests.entry(watch.clone()).or_default().insert(instance.clone());
    }

    /// Who looks at what a watch is about.
    pub(crate) fn looking_at(&self, watch: &WatchKey) -> Vec<ObjectKey> {
        self.lock().interests.get(watch).into_iter().flatten().cloned().collect()
    }

    /// Whether an instance looks at what a watch is about.
    pub(crate) fn looks_at(&self, instance: &ObjectKey, watch: &WatchKey) -> bool {
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

    /// Claims an object for an apply set while it is being written. Gives the one that was faster, if there is one.
    pub(super) fn claim(&self, object: &ObjectKey, applyset: &Text) -> Option<Text> {
        let mut state = self.lock();
        let holder = state.claims.entry(object.clone()).or_insert_with(|| applyset.clone());
        (holder != applyset).then(|| holder.clone())
    }

    /// The object was written.
    pub(super) fn unclaim(&self, object: &ObjectKey) {
        self.lock().claims.remove(object);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn look_away(&mut self, instance: &ObjectKey, watch: &WatchKey) {
        if let Some(instances) = self.interests.get_mut(watch) {
            instances.remove(instance);
            if instances.is_empty() {
                self.interests.remove(watch);
            }
        }
    }
}
