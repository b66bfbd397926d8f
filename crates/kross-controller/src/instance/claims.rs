//! Keeps instances from taking each other's objects: all of them apply with one field manager, so the API server does not
//! notice a conflict between two of them.
//!
//! While an instance writes an object it holds a claim, and no other instance can write it. After that, an instance whose
//! pass began before the write, and whose caches therefore may lack the object, is told to read it first.

use std::collections::{BTreeMap, HashMap};

use kross_cluster::ObjectKey;
use kross_value::Text;

use super::memory::Instances;

/// The claims and recent writes of all instances. Part of the state of [`Instances`], under its lock.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The apply set that is writing an object.
    holders: HashMap<ObjectKey, Text>,
    writes: RecentWrites,
}

/// A pass that runs.
pub(super) struct PassGuard<'a> {
    instances: &'a Instances,
    /// How many objects had been written when it began.
    pub(super) writes_before: u64,
}

impl<'a> PassGuard<'a> {
    pub(super) fn new(instances: &'a Instances) -> Self {
        Self { instances, writes_before: instances.lock().claims.writes.begin_pass() }
    }
}

impl Drop for PassGuard<'_> {
    fn drop(&mut self) {
        self.instances.lock().claims.writes.end_pass(self.writes_before);
    }
}

/// The claim of an apply set on an object that it writes.
pub(super) struct Claim<'a> {
    instances: &'a Instances,
    object: &'a ObjectKey,
    applyset: &'a Text,
    /// Whether another apply set has written the object since the pass began, whose caches may therefore lack it.
    pub(super) contested: bool,
    written: bool,
}

impl<'a> Claim<'a> {
    /// Claims an object; none if another apply set has claimed it.
    pub(super) fn new(
        instances: &'a Instances,
        object: &'a ObjectKey,
        applyset: &'a Text,
        writes_before: u64,
    ) -> Option<Self> {
        let claims = &mut instances.lock().claims;
        let holder = claims.holders.entry(object.clone()).or_insert_with(|| applyset.clone());
        if holder != applyset {
            return None;
        }
        let contested = claims.writes.by_another(object, applyset, writes_before);
        Some(Self { instances, object, applyset, contested, written: false })
    }

    /// The object was written and stored in the caches.
    pub(super) fn written(&mut self) {
        self.written = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let claims = &mut self.instances.lock().claims;
        claims.holders.remove(self.object);
        if self.written {
            claims.writes.add(self.object, self.applyset);
        }
    }
}

/// The writes that a running pass may have missed: those after it began.
#[derive(Debug, Default)]
struct RecentWrites {
    count: u64,
    /// How many running passes began at each count.
    passes: BTreeMap<u64, usize>,
    /// The last write of an object: its number and the apply set.
    last: HashMap<ObjectKey, (u64, Text)>,
    /// How many are kept until those that no running pass can have missed are removed.
    capacity: usize,
}

/// This many writes are kept in any case.
const MIN_CAPACITY: usize = 256;

impl RecentWrites {
    fn begin_pass(&mut self) -> u64 {
        *self.passes.entry(self.count).or_default() += 1;
        self.count
    }

    fn end_pass(&mut self, writes_before: u64) {
        if let Some(passes) = self.passes.get_mut(&writes_before) {
            *passes -= 1;
            if *passes == 0 {
                self.passes.remove(&writes_before);
            }
        }
        match self.passes.keys().next() {
            None => self.last.clear(),
            Some(first) if self.last.len() > self.capacity.max(MIN_CAPACITY) => {
                self.last.retain(|_, (number, _)| *number > *first);
                self.capacity = 2 * self.last.len();
            }
            Some(_) => {}
        }
    }

    fn add(&mut self, object: &ObjectKey, applyset: &Text) {
        self.count += 1;
        self.last.insert(object.clone(), (self.count, applyset.clone()));
    }

    fn by_another(&self, object: &ObjectKey, applyset: &Text, writes_before: u64) -> bool {
        let last = self.last.get(object);
        last.is_some_and(|(number, writer)| *number > writes_before && writer != applyset)
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
    fn an_object_that_another_instance_wrote_since_the_pass_began_is_contested() {
        let (instances, shared) = (Instances::default(), object("shared"));
        let [one, other] = ["one", "other"].map(Text::from);
        let (first, second) = (instances.begin_pass(), instances.begin_pass());
        let mut claim = instances.claim(&shared, &one, first.writes_before).unwrap();
        assert!(!claim.contested);
        assert!(instances.claim(&shared, &other, second.writes_before).is_none(), "it is being written");
        claim.written();
        drop(claim);
        assert!(instances.claim(&shared, &other, second.writes_before).unwrap().contested);
        assert!(!instances.claim(&shared, &one, second.writes_before).unwrap().contested, "it is its own");
        // The caches of a later pass have the object.
        let third = instances.begin_pass();
        assert!(!instances.claim(&shared, &other, third.writes_before).unwrap().contested);
        // A write that failed, or whose pass was cancelled, does not count.
        drop(instances.claim(&object("failed"), &one, first.writes_before).unwrap());
        assert!(!instances.claim(&object("failed"), &other, second.writes_before).unwrap().contested);
        drop((first, second, third));
        let state = instances.lock();
        assert!(state.claims.writes.last.is_empty() && state.claims.writes.passes.is_empty());
    }

    #[test]
    fn writes_that_no_running_pass_can_have_missed_are_removed() {
        let instances = Instances::default();
        let applyset = Text::from("one");
        let mut pass = instances.begin_pass();
        for number in 0..10_000 {
            let key = object(&number.to_string());
            instances.claim(&key, &applyset, pass.writes_before).unwrap().written();
            let next = instances.begin_pass();
            drop(std::mem::replace(&mut pass, next));
        }
        assert!(instances.lock().claims.writes.last.len() <= 2 * MIN_CAPACITY);
    }
}
