//! The part of a deletion plan that survives a restart, as text: when the deletion of objects was first attempted, since `forceAfter`
//! counts from there, which objects were reported as orphaned, and the record of deletion hooks. It has only objects with a limit, by
//! UID, grouped by time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kross_api::{ClusterId, ObjectKey};
use kross_value::Text;

use super::{Deletion, DeletionPlan, HookRecord, Hooks};

mod packed;
mod replacements;

pub(crate) use replacements::Replacements;

/// UIDs by time.
pub(super) type Moments = BTreeMap<String, Vec<String>>;

/// In place of a time: the objects that were reported as orphaned.
const ORPHANED: &str = "left";

/// In place of a time: the deletion hooks that were created and are not ready.
const HOOKS_CREATED: &str = "hooksCreated";

/// In place of a time: the deletion hooks that were about to be created, each after the resource version of that time.
const HOOKS_CREATING: &str = "hooksCreating";

/// In place of a time: the deletion hooks that have completed.
const HOOKS_COMPLETED: &str = "hooksCompleted";

/// Ends the resource version before a deletion hook that was about to be created.
const VERSION_END: char = '@';

/// In place of a time: the nodes that may replace the objects of others, which are not pruned before these are applied.
const REPLACEMENTS: &str = "replacements";

/// The key of a hook without objects: no object has an empty kind.
pub(super) fn key_of_hook(id: &Text) -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::local(),
        group: "".into(),
        kind: "".into(),
        namespace: None,
        name: id.clone(),
    }
}

/// The first attempts that are known, in memory or from the text: the earlier one counts.
pub(super) fn merged(deletion: &Deletion<'_>) -> BTreeMap<ObjectKey, Timestamp> {
    let mut attempts = deletion.attempts.clone();
    let Some(text) = deletion.persisted else { return attempts };
    let moments: Moments = packed::read(text);
    let mut by_name: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for (moment, names) in &moments {
        let Ok(moment) = moment.parse::<Timestamp>() else { continue };
        by_name.extend(names.iter().map(|name| (name.as_str(), moment)));
    }
    for (key, name) in limited(deletion) {
        if let Some(moment) = by_name.get(name.as_str()) {
            let known = attempts.entry(key).or_insert(*moment);
            *known = (*known).min(*moment);
        }
    }
    attempts
}

/// The UIDs of objects that were reported as orphaned, from [`DeletionPlan::persisted`] of an earlier plan.
#[must_use]
pub fn reported_orphans(persisted: Option<&str>) -> BTreeSet<Text> {
    let moments: Moments = persisted.map(packed::read).unwrap_or_default();
    moments.get(ORPHANED).into_iter().flatten().map(|uid| Text::from(uid.as_str())).collect()
}

/// The record of deletion hooks, from [`DeletionPlan::persisted`] of an earlier plan.
pub(super) fn hook_record(persisted: Option<&str>) -> HookRecord {
    let Some(text) = persisted else { return HookRecord::default() };
    let mut moments: Moments = packed::read(text);
    let mut entries = |part: &str| moments.remove(part).into_iter().flatten();
    let creating = entries(HOOKS_CREATING).filter_map(|entry| {
        let (version, entry) = entry.split_once(VERSION_END)?;
        Some((entry.to_owned(), version.to_owned()))
    });
    HookRecord {
        creating: creating.collect(),
        created: entries(HOOKS_CREATED).collect(),
        completed: entries(HOOKS_COMPLETED).collect(),
    }
}

/// The nodes that may replace the objects of others, from [`DeletionPlan::persisted`] of an earlier plan.
pub(crate) fn replacements(persisted: Option<&str>) -> Replacements {
    let moments: Moments = persisted.map(packed::read).unwrap_or_default();
    Replacements::read(moments.get(REPLACEMENTS).into_iter().flatten())
}

/// The text with the nodes that may replace the objects of others.
pub(crate) fn with_replacements(persisted: Option<Text>, pairs: &BTreeSet<(Text, Text)>) -> Option<Text> {
    if pairs.is_empty() {
        return persisted;
    }
    let mut moments: Moments = persisted.as_deref().map(packed::read).unwrap_or_default();
    moments.insert(REPLACEMENTS.to_owned(), replacements::write(pairs));
    packed::write(moments).map(Text::from)
}

/// The text that survives a restart; none where nothing has a limit and no hook is recorded.
pub(super) fn persisted(plan: &DeletionPlan, deletion: &Deletion<'_>) -> Option<Text> {
    let mut moments = Moments::new();
    let is_pending = |name: &str| !plan.reported_orphans.contains(&Text::from(name));
    for (key, name) in limited(deletion).into_iter().filter(|(_, name)| is_pending(name)) {
        if let Some(moment) = plan.attempts.get(&key) {
            moments.entry(kross_api::whole_seconds(*moment)).or_default().push(name);
        }
    }
    text(moments, plan)
}

/// Adds to the times what has none.
pub(super) fn text(mut moments: Moments, plan: &DeletionPlan) -> Option<Text> {
    if !plan.reported_orphans.is_empty() {
        moments.insert(ORPHANED.to_owned(), plan.reported_orphans.iter().map(ToString::to_string).collect());
    }
    insert_hook_record(&mut moments, &plan.hook_record);
    if moments.is_empty() {
        return None;
    }
    packed::write(moments).map(Text::from)
}

/// The text with another record of deletion hooks.
pub(super) fn with_hook_record(persisted: Option<&str>, record: &HookRecord) -> Option<Text> {
    let mut moments: Moments = persisted.map(packed::read).unwrap_or_default();
    insert_hook_record(&mut moments, record);
    packed::write(moments).map(Text::from)
}

fn insert_hook_record(moments: &mut Moments, HookRecord { created, creating, completed }: &HookRecord) {
    let creating = creating.iter().map(|(entry, version)| format!("{version}{VERSION_END}{entry}")).collect();
    let lists: [(&str, Vec<String>); 3] = [
        (HOOKS_CREATING, creating),
        (HOOKS_CREATED, created.iter().cloned().collect()),
        (HOOKS_COMPLETED, completed.iter().cloned().collect()),
    ];
    for (part, entries) in lists {
        match entries.is_empty() {
            true => moments.remove(part),
            false => moments.insert(part.to_owned(), entries),
        };
    }
}

/// The objects and hooks with a limit, with their names in the text.
fn limited(deletion: &Deletion<'_>) -> Vec<(ObjectKey, String)> {
    let objects = deletion.objects.iter().filter(|object| object.lifecycle.force_after().is_some());
    let mut limited: Vec<(ObjectKey, String)> =
        objects.map(|object| (object.key.clone(), object.uid.to_string())).collect();
    if let Hooks::Planned(hooks) = deletion.hooks {
        let hooks = hooks.iter().filter(|hook| !hook.created && hook.lifecycle.force_after().is_some());
        limited.extend(hooks.map(|hook| (key_of_hook(&hook.id), format!("hook/{}", hook.id))));
    }
    limited
}
