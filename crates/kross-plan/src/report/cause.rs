//! The first cause why resources are not ready, in kro's opening words: which object, in which cluster, since when.

use kross_api::Reason;
use kross_value::Text;

use super::{bounded, resources, since};
use crate::deletion::{DeletionPlan, Wait};
use crate::plan::NodePlan;
use crate::progress::Progress;
use crate::walk::Walk;

/// The longest message of a condition.
const LIMIT: usize = 2_000;

/// Why not all resources are ready; none when they are.
pub(super) fn of_resources(walk: &Walk<'_>, prune: &DeletionPlan) -> Option<(Reason, String)> {
    let found = nodes(walk, &|_| true).or_else(|| undeletable(prune))?;
    Some((found.0, bounded(&found.1, LIMIT)))
}

fn undeletable(prune: &DeletionPlan) -> Option<(Reason, String)> {
    prune.waiting.iter().find_map(|(pending, wait)| match wait {
        Wait::Failed(failure) => {
            Some((Reason::NotReady, format!("resource error: `{}`: {}", pending.node, since(failure))))
        }
        _ => None,
    })
}

/// Why not all of the selected nodes are ready; none when they are.
pub(super) fn nodes(walk: &Walk<'_>, selected: &dyn Fn(&NodePlan) -> bool) -> Option<(Reason, String)> {
    let order = walk.input.graph.order.iter().filter_map(|index| walk.nodes.get(index.0));
    let open: Vec<&NodePlan> = order.filter(|node| selected(node) && !node.progress.is_complete()).collect();
    let failed: Vec<&&NodePlan> =
        open.iter().filter(|node| matches!(node.progress, Progress::Failed(_))).collect();
    if let Some(first) = failed.first() {
        let message = first.progress.failure().map_or_else(String::new, since);
        let more = if failed.len() > 1 { format!(" (and {} more)", failed.len() - 1) } else { String::new() };
        let also = contested(walk, selected).map_or_else(String::new, |contested| format!("; {contested}"));
        return Some((Reason::NotReady, format!("resource error: `{}`: {message}{more}{also}", first.id)));
    }
    let deleting = open.iter().find_map(|node| match &node.progress {
        Progress::Deleting(message) => Some(message.to_string()),
        _ => None,
    });
    if let Some(message) = deleting {
        return Some((Reason::ResourceDeleting, message));
    }
    if let Some(contested) = contested(walk, selected) {
        return Some((Reason::NotReady, format!("awaiting resource readiness: {contested}")));
    }
    if let Some(first) = open.iter().find(|node| node.progress.is_unresolved()) {
        let message = unresolved(walk, first);
        let opening = "resource reconciliation failed: waiting for unresolved resource:";
        return Some((Reason::NotReady, format!("{opening} {message}")));
    }
    let first = open.iter().max_by_key(|node| node.progress.weight())?;
    Some((
        Reason::NotReady,
        format!("awaiting resource readiness: `{}`: {}", first.id, described(walk, first)),
    ))
}

/// The first object of the selected nodes that another client changes again after every repair; none if there is none.
fn contested(walk: &Walk<'_>, selected: &dyn Fn(&NodePlan) -> bool) -> Option<String> {
    let contested = &walk.input.observed.contested;
    let nodes = walk.nodes.iter().filter(|node| selected(node) && !node.external);
    let objects = nodes.flat_map(|node| node.objects.iter().map(move |object| (node, object)));
    let open = objects.filter(|(_, object)| !object.progress.is_complete());
    let mut found = open.filter_map(|(node, object)| Some((node, object, contested.get(&object.key)?)));
    let (node, object, contest) = found.next()?;
    let more = match found.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Some(format!("`{}`: {}: {}{more}", node.id, walk.describe(&object.key), contest.message))
}

/// The chain from a blocked node to the one that blocks all of them.
fn unresolved(walk: &Walk<'_>, node: &NodePlan) -> String {
    let mut text = format!("`{}`", node.id);
    let mut at = node;
    // A chain is at most as long as the graph has nodes.
    for _ in 0..walk.nodes.len() {
        let Progress::Blocked { by } = &at.progress else {
            break;
        };
        let needed = by.first().and_then(|id: &Text| walk.nodes.iter().find(|node| node.id == *id));
        let Some(needed) = needed else {
            break;
        };
        text = format!("{text} waits for `{}`", needed.id);
        at = needed;
    }
    format!("{text}: {}", described(walk, at))
}

/// What a node waits for: which object, in which cluster, and since when.
fn described(walk: &Walk<'_>, node: &NodePlan) -> String {
    let message = match &node.progress {
        Progress::Applying => return "being applied".to_owned(),
        Progress::NotConnected(failure) | Progress::Failed(failure) => return since(failure),
        other => other.message().map_or_else(String::new, |message| message.to_string()),
    };
    let first = node.objects.iter().find(|object| !object.progress.is_ready());
    // The message about an external object names it already.
    let place = match (first, node.objects.as_slice()) {
        (Some(object), [_]) if !node.external => format!("{}: ", walk.describe(&object.key)),
        (Some(object), [_, _, ..]) => walk
            .display_of(&object.key)
            .map_or_else(String::new, |cluster| format!("in cluster `{cluster}` ")),
        _ => String::new(),
    };
    match resources::time(walk, node, first) {
        Some(time) => format!("{place}{message} (since {time})"),
        None => format!("{place}{message}"),
    }
}
