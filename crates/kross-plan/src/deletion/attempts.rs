//! When the removal of objects was first attempted, as a text that outlives the process: `forceAfter` counts from there, also
//! when another process goes on. Only objects with a limit are in it, by UID, those of one moment together; and those that
//! people were told are left behind.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kross_api::{ClusterId, ObjectKey};
use kross_value::Text;

use super::{Deletion, DeletionPlan, Hooks};

/// UIDs by moment.
type Moments = BTreeMap<String, Vec<String>>;

/// In place of a moment: objects that are left behind, as people were told.
const LEFT: &str = "left";

/// What a node without objects is found under: no object has an empty kind.
pub(super) fn of_hook(id: &Text) -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::local(),
        group: "".into(),
        kind: "".into(),
        namespace: None,
        name: id.clone(),
    }
}

/// What is known of attempts: in memory, else from the text.
pub(super) fn remembered(deletion: &Deletion<'_>) -> BTreeMap<ObjectKey, Timestamp> {
    let mut attempts = deletion.attempts.clone();
    let Some(text) = deletion.kept else { return attempts };
    let moments: Moments = serde_json::from_str(text).unwrap_or_default();
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

/// UIDs of objects that people were told are left behind, from [`DeletionPlan::kept`] of an earlier plan.
#[must_use]
pub fn promised(kept: Option<&str>) -> BTreeSet<Text> {
    let moments: Moments = kept.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    moments.get(LEFT).into_iter().flatten().map(|uid| Text::from(uid.as_str())).collect()
}

/// The text for the next process; none where nothing has a limit.
pub(super) fn text(plan: &DeletionPlan, deletion: &Deletion<'_>) -> Option<Text> {
    let mut moments = Moments::new();
    let waited = |name: &str| !plan.promised.iter().any(|uid| *uid == *name);
    for (key, name) in limited(deletion).into_iter().filter(|(_, name)| waited(name)) {
        if let Some(moment) = plan.attempts.get(&key) {
            moments.entry(kross_api::whole_seconds(*moment)).or_default().push(name);
        }
    }
    if !plan.promised.is_empty() {
        moments.insert(LEFT.to_owned(), plan.promised.iter().map(ToString::to_string).collect());
    }
    if moments.is_empty() {
        return None;
    }
    serde_json::to_string(&moments).ok().map(Text::from)
}

/// Everything with a limit, and what it is called in the text.
fn limited(deletion: &Deletion<'_>) -> Vec<(ObjectKey, String)> {
    let objects = deletion.objects.iter().filter(|object| object.answers.force_after().is_some());
    let mut limited: Vec<(ObjectKey, String)> =
        objects.map(|object| (object.key.clone(), object.uid.to_string())).collect();
    if let Hooks::Planned(hooks) = deletion.hooks {
        let hooks = hooks.iter().filter(|hook| !hook.made && hook.answers.force_after().is_some());
        limited.extend(hooks.map(|hook| (of_hook(&hook.id), format!("hook/{}", hook.id))));
    }
    limited
}
