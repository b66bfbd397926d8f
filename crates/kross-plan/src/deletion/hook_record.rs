//! The record of deletion hooks: which of them were created and which have completed. It survives a restart, so that no hook runs
//! twice for the same deletion.

use std::collections::{BTreeMap, BTreeSet};

use kross_api::ObjectKey;
use kross_value::Text;

use super::attempts;

/// Which deletion hooks were created, and which have completed.
///
/// # Guarantees
///
/// - A hook that has completed is neither rendered nor created again.
/// - An object of a hook that was created is not created again when it is deleted before it is ready.
///
/// It is written before an object is created, with the resource version of that time. If the controller ends before it knows
/// whether the object was created, the object itself tells, or else the history of its cluster since that version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookRecord {
    /// The id of each hook that was created, with a hash of the object's identity for an item of a collection.
    pub(super) created: BTreeSet<String>,
    /// The same for objects that were about to be created, with the resource version before that; empty if it is not known.
    pub(super) creating: BTreeMap<String, String>,
    /// The id of each hook that has completed. If it ran because objects are pruned, with the UID of each of them, and with the
    /// UIDs of its own objects: the next run needs new ones.
    pub(super) completed: BTreeSet<String>,
}

impl HookRecord {
    /// The record in [`super::DeletionPlan::persisted`] of an earlier plan.
    #[must_use]
    pub fn parse(persisted: Option<&str>) -> Self {
        attempts::hook_record(persisted)
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.creating.is_empty() && self.completed.is_empty()
    }

    /// Whether a hook has completed for the deletion of the instance.
    #[must_use]
    pub fn is_completed(&self, hook: &str) -> bool {
        self.completed.contains(hook)
    }

    /// Whether a hook has completed for the deletion of an object with this UID.
    #[must_use]
    pub fn is_completed_for(&self, hook: &str, uid: &str) -> bool {
        self.is_completed(hook) || self.completed.contains(&format!("{hook}/{uid}"))
    }

    /// Whether an object of a hook was created. `item` is its identity in a collection.
    pub(crate) fn is_created(&self, hook: &str, item: Option<&ObjectKey>) -> bool {
        self.created.contains(&created(hook, item))
    }

    /// The resource version before an object of a hook was to be created, if it is not known whether it was. `item` is its
    /// identity in a collection.
    #[must_use]
    pub fn creating_since(&self, hook: &str, item: Option<&ObjectKey>) -> Option<Text> {
        self.creating.get(&created(hook, item)).map(|version| Text::from(version.as_str()))
    }

    /// The text of an earlier plan ([`super::DeletionPlan::persisted`]) with objects of hooks that are about to be created: the
    /// hook, the identity of an item of a collection, and the resource version of now.
    pub fn with_creating<'a>(
        persisted: Option<&str>,
        objects: impl IntoIterator<Item = (&'a str, Option<&'a ObjectKey>, &'a str)>,
    ) -> Option<Text> {
        let mut record = Self::parse(persisted);
        let entries =
            objects.into_iter().map(|(hook, item, version)| (created(hook, item), version.to_owned()));
        record.creating.extend(entries);
        attempts::with_hook_record(persisted, &record)
    }

    /// Records that an object of a hook was created.
    pub(crate) fn create(&mut self, hook: &str, item: Option<&ObjectKey>) {
        let entry = created(hook, item);
        self.creating.remove(&entry);
        self.created.insert(entry);
    }

    /// Records that a hook has completed for the deletion of the instance.
    pub(crate) fn complete(&mut self, hook: &str) {
        self.completed.insert(hook.to_owned());
    }

    /// Records that a hook has completed for the deletion of an object.
    pub(crate) fn complete_for(&mut self, hook: &str, uid: &str) {
        self.completed.insert(format!("{hook}/{uid}"));
    }

    /// Adds what another record has as created, or about to be created, of a hook.
    pub(crate) fn keep_created(&mut self, other: &Self, hook: &str) {
        let is_kept = |entry: &str| entry.split('/').next() == Some(hook);
        self.created.extend(other.created.iter().filter(|entry| is_kept(entry)).cloned());
        let creating = other.creating.iter().filter(|(entry, _)| is_kept(entry));
        self.creating.extend(creating.map(|(entry, version)| (entry.clone(), version.clone())));
    }

    /// Adds the completed hooks of another record whose objects are still to be deleted.
    pub(crate) fn keep_completed(&mut self, other: &Self, is_pending: impl Fn(&str) -> bool) {
        let is_kept = |entry: &&String| entry.split_once('/').is_none_or(|(_, uid)| is_pending(uid));
        self.completed.extend(other.completed.iter().filter(is_kept).cloned());
    }
}

fn created(hook: &str, item: Option<&ObjectKey>) -> String {
    match item {
        None => hook.to_owned(),
        Some(key) => format!("{hook}/{:016x}", fnv64a(&key.to_string())),
    }
}

/// A hash that never changes, since it is stored: 64-bit FNV-1a.
fn fnv64a(text: &str) -> u64 {
    let offset = 0xcbf2_9ce4_8422_2325;
    text.bytes().fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
