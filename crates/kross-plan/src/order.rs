//! Order and conflicts without an edge in the graph: two nodes may not desire the same object, a namespace is created before the
//! objects in it, and a CustomResourceDefinition before its custom resources.

use std::collections::{HashMap, HashSet};

use kross_api::{ClusterId, FailureReason, ObjectKey, Operation};
use kross_value::{Text, Value};

use crate::observed::ObservedObject;
use crate::progress::{Progress, ResourceFailure};
use crate::walk::Walk;

/// Marks objects that two nodes desire as conflicts. Neither is applied.
pub(crate) fn mark_conflicts(walk: &mut Walk<'_>) {
    let mut claims: HashMap<ObjectKey, Vec<usize>> = HashMap::new();
    for (at, node) in walk.nodes.iter().enumerate().filter(|(_, node)| !node.external) {
        for object in &node.objects {
            claims.entry(object.key.clone()).or_default().push(at);
        }
    }
    claims.retain(|_, nodes| nodes.len() > 1);
    let mut claims: Vec<(ObjectKey, Vec<usize>)> = claims.into_iter().collect();
    claims.sort();
    for (key, nodes) in claims {
        let ids: Vec<Text> =
            nodes.iter().filter_map(|at| walk.nodes.get(*at)).map(|node| node.id.clone()).collect();
        let message = format!(
            "found resources with conflicts: {} is desired by {}",
            walk.describe(&key),
            crate::progress::quoted(&ids)
        );
        let failed = Progress::Failed(ResourceFailure::conflict(message));
        for at in nodes {
            let Some(node) = walk.nodes.get_mut(at) else { continue };
            node.progress = failed.clone();
            for object in node.objects.iter_mut().filter(|object| object.key == key) {
                object.progress = failed.clone();
            }
        }
    }
}

/// Holds back objects whose namespace or CustomResourceDefinition the graph is about to create.
pub(crate) fn hold_back(walk: &mut Walk<'_>) {
    let missing = Missing::of(walk);
    if missing.namespaces.is_empty() && missing.kinds.is_empty() {
        return;
    }
    for node in &mut walk.nodes {
        let due = node.objects.iter_mut().filter(|object| is_due(&object.progress));
        let mut held = None;
        for object in due {
            if let Some(message) = missing.needed_by(&object.key) {
                object.progress = Progress::Held(message);
                held = Some(object.progress.clone());
            }
        }
        let busy = node.objects.iter().any(|object| object.progress == Progress::Applying);
        if let (Some(held), true, false) = (held, is_due(&node.progress), busy) {
            node.progress = held;
        }
    }
}

/// Whether an object is to be applied now, or would be if its kind were known.
fn is_due(progress: &Progress) -> bool {
    let unknown = |failure: &ResourceFailure| {
        matches!(failure.operation, Some(Operation::Get | Operation::Watch))
            && failure.reason == FailureReason::NotFound
    };
    match progress {
        Progress::Applying => true,
        Progress::Failed(failure) => unknown(failure),
        _ => false,
    }
}

/// The namespaces and kinds that the graph is about to create.
#[derive(Default)]
struct Missing {
    namespaces: HashSet<(ClusterId, Text)>,
    kinds: HashSet<(ClusterId, Text, Text)>,
}

impl Missing {
    fn of(walk: &Walk<'_>) -> Self {
        let mut missing = Self::default();
        for object in walk.nodes.iter().flat_map(|node| &node.objects) {
            let Some(desired) = &object.desired else { continue };
            let found = walk.input.observed.objects.get(&object.key);
            let key = &object.key;
            if key.group.is_empty() && key.kind == *"Namespace" {
                if found.is_none_or(ObservedObject::terminating) {
                    missing.namespaces.insert((key.cluster.clone(), key.name.clone()));
                }
            } else if key.kind == *"CustomResourceDefinition" && !found.is_some_and(is_established) {
                let text = |path: &[&str]| desired.at(path).and_then(Value::as_str).map(Text::from);
                if let Some((group, kind)) = text(&["spec", "group"]).zip(text(&["spec", "names", "kind"])) {
                    missing.kinds.insert((key.cluster.clone(), group, kind));
                }
            }
        }
        missing
    }

    /// What an object waits for, if one of them is missing.
    fn needed_by(&self, key: &ObjectKey) -> Option<Text> {
        if let Some(namespace) = &key.namespace
            && self.namespaces.contains(&(key.cluster.clone(), namespace.clone()))
        {
            return Some(format!("waiting for its namespace `{namespace}` to be created").into());
        }
        let kind = (key.cluster.clone(), key.group.clone(), key.kind.clone());
        self.kinds
            .contains(&kind)
            .then(|| format!("waiting for the CustomResourceDefinition of its kind `{}`", key.kind).into())
    }
}

/// Whether the API server serves the kind.
fn is_established(definition: &ObservedObject) -> bool {
    let conditions =
        definition.value.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let says =
        |condition: &Value, key: &str, word: &str| condition.get(key).and_then(Value::as_str) == Some(word);
    conditions
        .iter()
        .any(|condition| says(condition, "type", "Established") && says(condition, "status", "True"))
}
