//! Draws what a comparison found: a summary by cluster, and the objects of every instance that change.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::Value as Json;

use super::change::{Change, Effect};

/// What a changed definition would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionDiff {
    pub(super) definition: String,
    /// Whether the cluster has no definition of this name.
    pub(super) is_new: bool,
    /// Whether its spec differs from the one in the cluster.
    pub(super) is_changed: bool,
    /// The changes of its API that may break instances or clients.
    pub(super) breaking: Vec<String>,
    /// What follows from them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) consequence: Option<String>,
    /// The other changes of its API.
    pub(super) harmless: Vec<String>,
    pub(super) instances: Vec<InstanceDiff>,
}

/// What would happen to an instance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceDiff {
    pub(super) instance: String,
    pub(super) changes: Vec<Change>,
    /// Resources that would fail, and why.
    pub(super) failures: Vec<String>,
    /// Resources that would wait, and for what.
    pub(super) pending: Vec<String>,
    /// What could not be read.
    pub(super) unknown: Vec<String>,
}

impl DefinitionDiff {
    pub(super) fn new(definition: &str) -> Self {
        Self {
            definition: definition.to_owned(),
            is_new: false,
            is_changed: false,
            breaking: Vec::new(),
            consequence: None,
            harmless: Vec::new(),
            instances: Vec::new(),
        }
    }

    /// Whether nothing would change.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_new && !self.is_changed && self.instances.iter().all(|it| it.changes.is_empty())
    }
}

/// The text for people.
pub(super) fn text(diffs: &[DefinitionDiff], full: bool) -> String {
    let mut text = String::new();
    for diff in diffs {
        draw(diff, full, &mut text);
    }
    text
}

fn draw(diff: &DefinitionDiff, full: bool, text: &mut String) {
    let name = &diff.definition;
    if diff.is_new {
        let _ = writeln!(text, "definition `{name}` is new: its API is served, and it has no instances");
        return;
    }
    if !diff.is_changed {
        let _ = writeln!(text, "definition `{name}` is unchanged");
        return;
    }
    let changed = diff.instances.iter().filter(|it| !it.changes.is_empty() || !it.failures.is_empty());
    let (changed, all) = (changed.count(), diff.instances.len());
    let _ = writeln!(text, "definition `{name}`: {changed} of {all} instances change");
    for breaking in &diff.breaking {
        let _ = writeln!(text, "  breaking change of its API: {breaking}");
    }
    if let Some(consequence) = &diff.consequence {
        let _ = writeln!(text, "    {consequence}");
    }
    for harmless in &diff.harmless {
        let _ = writeln!(text, "  change of its API: {harmless}");
    }
    draw_summary(diff, text);
    for instance in &diff.instances {
        draw_instance(instance, full, text);
    }
}

/// How many objects change in each cluster, and how.
fn draw_summary(diff: &DefinitionDiff, text: &mut String) {
    let mut counts: BTreeMap<&str, BTreeMap<Effect, usize>> = BTreeMap::new();
    let changes = diff.instances.iter().flat_map(|instance| &instance.changes);
    for change in changes {
        let cluster = change.cluster.as_deref().unwrap_or("local");
        *counts.entry(cluster).or_default().entry(change.effect).or_default() += 1;
    }
    if counts.is_empty() {
        return;
    }
    let effects: Vec<Effect> =
        Effect::ALL.into_iter().filter(|effect| counts.values().any(|it| it.contains_key(effect))).collect();
    let width = counts.keys().map(|name| name.chars().count()).max().unwrap_or_default().max("CLUSTER".len());
    let _ = write!(text, "\n  {:width$}", "CLUSTER");
    for effect in &effects {
        let _ = write!(text, "  {:>8}", effect.verb().to_uppercase());
    }
    let _ = writeln!(text);
    for (cluster, own) in &counts {
        let _ = write!(text, "  {cluster:width$}");
        for effect in &effects {
            let _ = write!(text, "  {:>8}", own.get(effect).copied().unwrap_or_default());
        }
        let _ = writeln!(text);
    }
}

fn draw_instance(instance: &InstanceDiff, full: bool, text: &mut String) {
    let InstanceDiff { instance: title, changes, failures, pending, unknown: _ } = instance;
    if changes.is_empty() && failures.is_empty() && pending.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for change in changes {
        draw_change(change, full, text);
    }
    for failure in failures {
        let _ = writeln!(text, "  ! fails: {failure}");
    }
    for pending in pending {
        let _ = writeln!(text, "  … later: {pending}");
    }
}

pub(super) fn draw_change(change: &Change, full: bool, text: &mut String) {
    let Change { effect, kind, namespace, name, cluster, from, fields, why, resource } = change;
    let object = match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    };
    let place = cluster.as_ref().map_or_else(String::new, |cluster| format!(" in cluster `{cluster}`"));
    let origin = from.as_ref().map_or_else(String::new, |from| format!(", from `{from}`"));
    let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let names: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
    let listed = match (full, names.is_empty(), names.len() > 4) {
        (true, ..) | (_, true, _) => String::new(),
        (_, _, false) => format!(" ({})", names.join(", ")),
        (_, _, true) => format!(
            " ({} and {} more)",
            names.iter().take(3).copied().collect::<Vec<_>>().join(", "),
            names.len() - 3
        ),
    };
    let (mark, verb) = (effect.mark(), effect.verb());
    let _ = writeln!(text, "  {mark} {verb} {object}{place}{origin} by `{resource}`{why}{listed}");
    if full {
        for field in fields {
            let shown =
                |value: &Option<Json>| value.as_ref().map_or_else(|| "none".to_owned(), Json::to_string);
            let _ = writeln!(text, "      {}: {} -> {}", field.path, shown(&field.old), shown(&field.new));
        }
    }
}
