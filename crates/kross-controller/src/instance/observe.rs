//! Observe: what is known of an instance's objects, from the copies. No request is sent for what a watch answers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_api::{ClusterId, Operation, SyncMode, labels};
use kross_cluster::{CacheKey, Lookup, ObjectKey, StoredObject};
use kross_plan::{KindKey, Observed, ObservedObject, Plan, ReferenceKey};
use kross_value::Text;

use super::children;
use super::memory::Memory;
use super::reach::Reach;
use crate::context::Context;

/// What is known of the objects of an instance.
#[derive(Debug, Default)]
pub(super) struct Observation {
    pub(super) observed: Observed,
    /// The same objects with what they say about ownership of fields.
    pub(super) stored: HashMap<ObjectKey, Arc<StoredObject>>,
    /// The references that were asked for.
    pub(super) met: HashSet<ReferenceKey>,
    /// The kinds in remote clusters that were looked at.
    pub(super) looked: HashSet<KindKey>,
    /// Whether a cluster where the instance has been is just being connected.
    pub(super) connecting: bool,
    /// Whether a copy is just being filled.
    pub(super) listing: bool,
    /// What the instance had in clusters that its references no longer lead to, and that it gives up: reference and UID.
    pub(super) abandoned: Vec<(String, String)>,
    /// Clusters that were known by their URL and now say who they are: reference, URL and UID.
    pub(super) renamed: Vec<(String, String, Text)>,
}

/// Reads the copies of an instance's objects in its own cluster; none while one of them is being filled. Of a kind that
/// cannot be read nothing is known, which concerns the nodes of that kind alone.
pub(super) fn own(reach: &Reach<'_>, uid: &str, memory: &mut Memory) -> Option<Observation> {
    let mut observation = Observation::default();
    for watch in reach.local_children() {
        let Some(objects) = watch.list_by_label(labels::INSTANCE_ID, uid) else {
            let error = watch.failure()?;
            let CacheKey { cluster, group, kind, .. } = &**watch.key();
            let kind = (cluster.clone(), group.clone(), kind.clone());
            let failure = children::failed(&kind, Operation::Watch, &error, memory);
            observation.observed.unlisted.insert(kind, Some(failure));
            continue;
        };
        for object in objects {
            observation.see(object.key(&watch.key().cluster), object, memory);
        }
    }
    observation.observed.failures.clone_from(&memory.failures);
    observation.observed.attempts.clone_from(&memory.attempts);
    Some(observation)
}

impl Observation {
    /// Takes in an object as it is now.
    pub(super) fn see(&mut self, key: ObjectKey, object: Arc<StoredObject>, memory: &Memory) {
        let remembered = memory.digests.get(&key);
        let drifted = remembered.is_some() && remembered.copied() != object.owned_digest();
        let observed = ObservedObject { value: object.value().clone(), drifted };
        self.observed.objects.insert(key.clone(), observed);
        self.stored.insert(key, object);
    }

    /// Takes in what was seen elsewhere.
    pub(super) fn extend(&mut self, other: Self) {
        self.observed.objects.extend(other.observed.objects);
        self.stored.extend(other.stored);
    }

    /// A cluster is polled. Gives whether that is news.
    pub(super) fn polls(&mut self, cluster: &ClusterId) -> bool {
        let mut news = false;
        for state in self.observed.clusters.values_mut().filter(|state| state.id == *cluster) {
            news |= std::mem::replace(&mut state.mode, SyncMode::Poll) != SyncMode::Poll;
        }
        news
    }

    /// An object is gone.
    pub(super) fn lose(&mut self, key: &ObjectKey) {
        self.observed.objects.remove(key);
        self.stored.remove(key);
    }

    /// Decides for objects without a digest in memory, as after a restart, whether they are as we left them. Gives whether
    /// one of them may not be: then it is applied once more, which settles it.
    pub(super) fn compare(&mut self, plan: &Plan, memory: &mut Memory) -> bool {
        let mut news = false;
        for object in plan.nodes.iter().flat_map(|node| &node.objects) {
            let (Some(desired), Some(stored)) = (&object.desired, self.stored.get(&object.key)) else {
                continue;
            };
            if object.differs || memory.digests.contains_key(&object.key) {
                continue;
            }
            match stored.owned_digest() {
                Some(digest) if stored.is_applied(desired) => {
                    memory.digests.insert(object.key.clone(), digest);
                }
                _ => {
                    if let Some(observed) = self.observed.objects.get_mut(&object.key) {
                        news |= !std::mem::replace(&mut observed.drifted, true);
                    }
                }
            }
        }
        news
    }

    /// Looks for objects at the places of new ones that belong to somebody else. Gives whether there are any.
    pub(super) fn meet_others(
        &mut self,
        (context, instance): (&Context, &ObjectKey),
        plan: &Plan,
        reach: &Reach<'_>,
        memory: &Memory,
    ) -> bool {
        let mut news = false;
        for object in plan.nodes.iter().flat_map(|node| &node.objects) {
            if object.desired.is_none() || self.stored.contains_key(&object.key) {
                continue;
            }
            let key = &object.key;
            let Some(watch) = reach.child(&key.cluster, &key.group, &key.kind) else { continue };
            let find = || match watch.get(key.namespace.as_deref(), &key.name) {
                Lookup::Found(other) => Some(other),
                Lookup::Absent | Lookup::Unknown => None,
            };
            if find().is_none() {
                continue;
            }
            // Once more: from now on it is told when it goes, and it may have gone just before.
            context.instances.want_too(instance, key);
            if let Some(other) = find() {
                self.see(key.clone(), other, memory);
                news = true;
            }
        }
        news
    }
}

/// The version in an `apiVersion`.
pub(super) fn version_of(api_version: &str) -> Text {
    api_version.rsplit_once('/').map_or(api_version, |(_, version)| version).into()
}
