//! The changes of an instance's objects, by cluster: created, changed, refused, moved, pruned.

use kross_api::{INTERNAL_KEY_PREFIX, ObjectKey, annotations};
use kross_plan::simulate::{Action, ActionKind};
use kross_value::Value;
use serde::Serialize;

use super::immutable::immutable_field;
use super::preview::Preview;

/// What would happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect {
    Create,
    Change,
    /// The API server would refuse the change: it is of an immutable field.
    Refuse,
    Move,
    Prune,
    Release,
    Orphan,
}

impl Effect {
    /// Every effect, in the order in which they are listed.
    pub(super) const ALL: [Self; 7] =
        [Self::Create, Self::Change, Self::Refuse, Self::Move, Self::Prune, Self::Release, Self::Orphan];

    /// What would happen, such as `created`.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Change => "changed",
            Self::Refuse => "refused",
            Self::Move => "moved",
            Self::Prune => "pruned",
            Self::Release => "released",
            Self::Orphan => "orphaned",
        }
    }

    /// The mark before an object.
    pub(super) fn mark(self) -> char {
        match self {
            Self::Create => '+',
            Self::Change => '~',
            Self::Refuse => '!',
            Self::Move => '>',
            Self::Prune => '-',
            Self::Release | Self::Orphan => 'o',
        }
    }
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Change {
    pub(super) effect: Effect,
    /// The id of the resource.
    pub(super) resource: String,
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// The name of the cluster; none for that of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    /// Of an object that moves: the cluster where it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fields: Vec<FieldChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// A change of a field that is applied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FieldChange {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<serde_json::Value>,
}

/// The changes that a preview found. `old` is the preview with the definition that the cluster has, for fields that are not
/// applied any more.
pub(super) fn changes(preview: &Preview, old: Option<&Preview>) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut seen: Vec<(&ObjectKey, ActionKind)> = Vec::new();
    for action in &preview.actions {
        // An object that is applied twice, since another one became ready in between, changes once.
        if seen.contains(&(&action.key, action.kind)) {
            continue;
        }
        seen.push((&action.key, action.kind));
        let change = match action.kind {
            ActionKind::Create => change(action, Effect::Create),
            ActionKind::Update => match updated(action, preview, old) {
                Some(change) => change,
                None => continue,
            },
            ActionKind::Prune | ActionKind::Delete => change(action, Effect::Prune),
            ActionKind::Release => change(action, Effect::Release),
            ActionKind::Orphan => change(action, Effect::Orphan),
            ActionKind::Refused => continue,
        };
        changes.push(change);
    }
    let mut changes = with_moves(changes);
    changes.sort_by(|a, b| {
        (a.effect, &a.cluster, &a.kind, &a.name).cmp(&(b.effect, &b.cluster, &b.kind, &b.name))
    });
    changes
}

fn change(action: &Action, effect: Effect) -> Change {
    let ObjectKey { kind, namespace, name, .. } = &action.key;
    Change {
        effect,
        resource: action.node.to_string(),
        kind: kind.to_string(),
        namespace: namespace.as_ref().map(ToString::to_string),
        name: name.to_string(),
        cluster: action.cluster.as_ref().map(ToString::to_string),
        from: None,
        fields: Vec::new(),
        why: action.why.as_ref().map(ToString::to_string),
    }
}

/// An object that is created in one cluster and pruned in another one moves.
fn with_moves(changes: Vec<Change>) -> Vec<Change> {
    let same = |a: &Change, b: &Change| {
        (&a.resource, &a.kind, &a.namespace, &a.name) == (&b.resource, &b.kind, &b.namespace, &b.name)
            && a.cluster != b.cluster
    };
    let (mut pruned, mut kept): (Vec<Change>, Vec<Change>) =
        changes.into_iter().partition(|change| change.effect == Effect::Prune);
    for change in kept.iter_mut().filter(|change| change.effect == Effect::Create) {
        if let Some(at) = pruned.iter().position(|pruned| same(pruned, change)) {
            let from = pruned.remove(at);
            change.effect = Effect::Move;
            change.from = Some(from.cluster.unwrap_or_else(|| "local".to_owned()));
        }
    }
    kept.extend(pruned);
    kept
}

fn updated(action: &Action, preview: &Preview, old: Option<&Preview>) -> Option<Change> {
    let desired = preview.desired.get(&action.key)?;
    let before = preview.before.get(&action.key);
    let Some(before) = before else {
        // It exists, and belongs to nobody yet.
        let mut adopted = change(action, Effect::Change);
        adopted.why = Some("it exists already and is adopted".to_owned());
        return Some(adopted);
    };
    let mut fields = Vec::new();
    let last = old.and_then(|old| old.desired.get(&action.key));
    compare(String::new(), Some(before), last, Some(desired), &mut fields);
    let refused = fields.iter().find_map(|field| {
        let why = immutable_field(&action.key.group, &action.key.kind, &field.path, before)?;
        Some(format!("`{}` {why}", field.path))
    });
    let mut changed = change(action, if refused.is_some() { Effect::Refuse } else { Effect::Change });
    changed.fields = fields;
    changed.why = refused;
    Some(changed)
}

/// Collects the fields that would change: those that are applied and differ from what the cluster has, and those that were applied
/// last and are not any more.
fn compare(
    path: String,
    before: Option<&Value>,
    last: Option<&Value>,
    desired: Option<&Value>,
    fields: &mut Vec<FieldChange>,
) {
    if is_hidden(&path) {
        return;
    }
    let below = |key: &str| match (path.is_empty(), key.contains(['.', '/'])) {
        (true, _) => key.to_owned(),
        (false, false) => format!("{path}.{key}"),
        (false, true) => format!("{path}[{key:?}]"),
    };
    match (before, desired) {
        (Some(Value::Object(before)), Some(Value::Object(desired))) => {
            for (key, value) in desired.iter() {
                let last = last.and_then(|last| last.get(key.as_str()));
                compare(below(key.as_str()), before.get(key.as_str()), last, Some(value), fields);
            }
            let given_up = last.and_then(Value::as_object).into_iter().flat_map(kross_value::Object::iter);
            for (key, _) in given_up.filter(|(key, _)| !desired.contains_key(key.as_str())) {
                if let Some(value) = before.get(key.as_str()) {
                    compare(below(key.as_str()), Some(value), None, None, fields);
                }
            }
        }
        (Some(Value::List(old)), Some(Value::List(new))) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new.iter()).enumerate() {
                let last = last.and_then(Value::as_list).and_then(|last| last.get(at));
                compare(format!("{path}[{at}]"), Some(old), last, Some(new), fields);
            }
        }
        (Some(before), Some(desired)) if is_same(before, desired) => {}
        (None, None) => {}
        (before, desired) => fields.push(FieldChange {
            path,
            old: before.map(serde_json::Value::from),
            new: desired.map(serde_json::Value::from),
        }),
    }
}

/// What kross keeps on every object for itself.
fn is_hidden(path: &str) -> bool {
    path.contains(annotations::DESIRED_HASH)
        || path.contains(&format!("annotations[\"{INTERNAL_KEY_PREFIX}"))
        || path == "status"
}

/// API servers store numbers and quantities in their own form.
fn is_same(before: &Value, desired: &Value) -> bool {
    before == desired || before.to_string().trim_matches('"') == desired.to_string().trim_matches('"')
}
