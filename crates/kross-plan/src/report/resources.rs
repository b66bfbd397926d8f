//! Entries of `status.managedResources`: every object; a large collection is summarized, with its first unready items, so that the
//! status stays small.

use std::collections::{HashMap, HashSet};

use kross_api::{FailureReason, ManagedResource, ObjectKey, Operation, ResourceState, whole_seconds};
use kross_graph::Node;

use super::{bounded, since};
use crate::deletion::{DeletionPlan, PendingDeletion, Wait};
use crate::plan::{NodePlan, PlannedObject};
use crate::progress::{Progress, ResourceFailure};
use crate::walk::Walk;

/// The longest message of an entry.
const MESSAGE: usize = 1_024;
/// The longest total of all messages.
const ALL_MESSAGES: usize = 32 * 1_024;
/// The longest message where the total is longer.
const SHORT_MESSAGE: usize = 120;
/// The longest message of an item of a collection.
const ITEM_MESSAGE: usize = 400;

/// All entries, in the order of the graph; those that are being deleted come last.
pub(super) fn entries(walk: &Walk<'_>, prune: &DeletionPlan) -> Vec<ManagedResource> {
    let mut entries = Vec::new();
    for (node, plan) in walk.input.graph.nodes.iter().zip(&walk.nodes) {
        of_node(walk, node, plan, &mut entries);
    }
    let display = |key: &ObjectKey| walk.display_of(key).map(str::to_owned);
    entries.extend(deletion_entries(prune, walk.input.settings.listed_items, &display));
    shortened(with_times(entries, walk.input.previous, &whole_seconds(walk.input.now)))
}

/// Shortens messages where there are so many that the instance would get too large.
pub(super) fn shortened(mut entries: Vec<ManagedResource>) -> Vec<ManagedResource> {
    let length = |entry: &ManagedResource| entry.message.as_ref().map_or(0, String::len);
    if entries.iter().map(length).sum::<usize>() > ALL_MESSAGES {
        for entry in &mut entries {
            entry.message = entry.message.as_deref().map(|message| bounded(message, SHORT_MESSAGE));
        }
    }
    entries
}

/// Since when a node, or one of its objects, has its state.
pub(super) fn time(walk: &Walk<'_>, plan: &NodePlan, object: Option<&PlannedObject>) -> Option<String> {
    let (_, node) = walk.input.graph.find(&plan.id)?;
    let mut entries = Vec::new();
    of_node(walk, node, plan, &mut entries);
    let name = object.map(|object| &*object.key.name);
    let entries = with_times(entries, walk.input.previous, &whole_seconds(walk.input.now));
    let found = entries.iter().find(|entry| entry.name.as_deref() == name).or(entries.first());
    found.and_then(|entry| entry.last_update_time.clone())
}

/// Sets the time of each entry: that of the previous entry, unless it changed.
pub(super) fn with_times(
    entries: Vec<ManagedResource>,
    previous: &[ManagedResource],
    now: &str,
) -> Vec<ManagedResource> {
    let before: HashMap<_, &ManagedResource> =
        previous.iter().map(|entry| (identity(entry), entry)).collect();
    let with_time = |entry: ManagedResource| {
        let known = before.get(&identity(&entry)).copied();
        entry.since(known, now)
    };
    entries.into_iter().map(with_time).collect()
}

type Identity = (String, Option<String>, Option<String>, Option<String>, Option<String>);

fn identity(entry: &ManagedResource) -> Identity {
    let ManagedResource { id, cluster, kind, namespace, name, .. } = entry;
    (id.clone(), cluster.clone(), kind.clone(), namespace.clone(), name.clone())
}

fn of_node(walk: &Walk<'_>, node: &Node, plan: &NodePlan, entries: &mut Vec<ManagedResource>) {
    let listed = walk.input.settings.listed_items;
    if plan.objects.is_empty() {
        return observed_entries(walk, node, plan, entries);
    }
    if !node.is_list() || plan.objects.len() <= listed {
        let limit = if node.is_list() { ITEM_MESSAGE } else { MESSAGE };
        entries.extend(plan.objects.iter().map(|object| of_object(walk, plan, object, limit)));
        return;
    }
    let ready = plan.objects.iter().filter(|object| object.progress.is_ready()).count();
    let mut summary = node_entry(node, &plan.progress);
    summary.cluster = cluster_of(walk, plan).or_else(|| cluster_count(plan));
    let message = format!("{ready} of {} items are ready", plan.objects.len());
    summary.message = Some(match plan.progress.message() {
        Some(first) => bounded(&format!("{message}; {first}"), MESSAGE),
        None => message,
    });
    entries.push(summary);
    let unready = plan.objects.iter().filter(|object| !object.progress.is_ready());
    entries.extend(unready.take(listed).map(|object| of_object(walk, plan, object, ITEM_MESSAGE)));
}

/// A node whose desired objects are not known: its observed objects, or the node alone.
fn observed_entries(walk: &Walk<'_>, node: &Node, plan: &NodePlan, entries: &mut Vec<ManagedResource>) {
    let observed = walk.objects_of(&node.id);
    if observed.is_empty() || plan.progress.is_complete() {
        let mut entry = node_entry(node, &plan.progress);
        entry.cluster = cluster_of(walk, plan);
        entries.push(entry);
        return;
    }
    for (key, object) in observed.iter().take(walk.input.settings.listed_items) {
        let mut entry = node_entry(node, &plan.progress);
        identify(&mut entry, key, walk.display_of(key));
        entry.uid = Some(object.uid().to_owned()).filter(|uid| !uid.is_empty());
        entry.observed_generation = object.generation();
        entries.push(entry);
    }
}

/// The name of a node's cluster, if it is one remote cluster.
fn cluster_of(walk: &Walk<'_>, plan: &NodePlan) -> Option<String> {
    let used = walk.used_by(walk.access_paths.to_node(&plan.id), plan.cluster.as_ref()?)?;
    Some(used.reference.display.clone())
}

/// The number of clusters of a collection, if there are several.
fn cluster_count(plan: &NodePlan) -> Option<String> {
    let clusters: HashSet<_> = plan.objects.iter().map(|object| &object.key.cluster).collect();
    (clusters.len() > 1).then(|| format!("{} clusters", clusters.len()))
}

fn of_object(walk: &Walk<'_>, plan: &NodePlan, object: &PlannedObject, limit: usize) -> ManagedResource {
    let mut entry = described(&plan.id, &object.api_version, &object.progress, limit);
    identify(&mut entry, &object.key, walk.display_of(&object.key));
    entry.uid = object.uid.as_ref().map(ToString::to_string).filter(|uid| !uid.is_empty());
    entry.observed_generation = object.generation;
    // Keep what was last known of it, such as after a restart while its cluster is not connected.
    if object.uid.is_none() && object.progress.is_unreachable() {
        let this = identity(&entry);
        if let Some(before) = walk.input.previous.iter().find(|before| identity(before) == this) {
            entry.uid.clone_from(&before.uid);
            entry.observed_generation = before.observed_generation;
        }
    }
    if object.progress == Progress::Applying {
        entry.operation = Some(if object.uid.is_some() { Operation::Update } else { Operation::Create });
    }
    entry
}

/// The entry of a node without an object.
fn node_entry(node: &Node, progress: &Progress) -> ManagedResource {
    let mut entry = described(&node.id, &node.kind.api_version(), progress, MESSAGE);
    entry.kind = Some(node.kind.kind.to_string());
    entry
}

fn described(id: &str, api_version: &str, progress: &Progress, limit: usize) -> ManagedResource {
    let failure = progress.failure();
    let message = match failure {
        Some(failure) => Some(since(failure)),
        None => progress.message().map(|message| message.to_string()),
    };
    let is_contested = matches!(progress, Progress::Contested(_));
    ManagedResource {
        id: id.to_owned(),
        cluster: None,
        api_version: Some(api_version.to_owned()),
        kind: None,
        namespace: None,
        name: None,
        uid: None,
        state: progress.state(),
        reason: failure.map(|failure| failure.reason).or(is_contested.then_some(FailureReason::Conflict)),
        message: message.map(|message| bounded(&message, limit)),
        operation: failure
            .and_then(|failure| failure.operation)
            .or(is_contested.then_some(Operation::Update)),
        observed_generation: None,
        last_update_time: None,
    }
}

fn identify(entry: &mut ManagedResource, key: &ObjectKey, cluster: Option<&str>) {
    entry.cluster = cluster.map(str::to_owned);
    entry.kind = Some(key.kind.to_string());
    entry.namespace = key.namespace.as_ref().map(ToString::to_string);
    entry.name = Some(key.name.to_string());
}

/// The entries of objects that are being deleted, released or orphaned.
pub(super) fn deletion_entries(
    plan: &DeletionPlan,
    listed: usize,
    display: &dyn Fn(&ObjectKey) -> Option<String>,
) -> Vec<ManagedResource> {
    let entry = |pending: &PendingDeletion, state: ResourceState, message: Option<String>| {
        deletion_entry(pending, state, message, display)
    };
    let mut entries: Vec<ManagedResource> = Vec::new();
    for pending in &plan.orphaned {
        let why = pending.why.as_deref().unwrap_or("it was not deleted in time");
        let message = bounded(&format!("orphaned: {why}"), ITEM_MESSAGE);
        entries.push(entry(pending, ResourceState::Retained, Some(message)));
    }
    for pending in plan.release.iter().filter(|pending| !plan.orphaned.contains(pending)) {
        let message = "retained; ownership labels removed".to_owned();
        entries.push(entry(pending, ResourceState::Retained, Some(message)));
    }
    let failed: HashSet<&ObjectKey> = plan.waiting.iter().map(|(pending, _)| &pending.key).collect();
    for pending in plan.delete.iter().filter(|pending| !failed.contains(&pending.key)) {
        entries.push(entry(pending, ResourceState::Deleting, None));
    }
    for (pending, wait) in &plan.waiting {
        let state = match wait {
            // Its deletion has not begun: `forceAfter` does not count yet.
            Wait::Until(_) => ResourceState::Blocked,
            _ if pending.retained => ResourceState::Retained,
            _ => ResourceState::Deleting,
        };
        let message = wait_message(pending, wait, ITEM_MESSAGE);
        entries.push(ManagedResource { reason: wait.reason(), ..entry(pending, state, Some(message)) });
    }
    entries.sort_by_key(|entry| (entry.reason.is_none(), entry.state != ResourceState::Retained));
    // Enough to see the progress; the others are listed as these are deleted.
    entries.truncate(listed.max(1) * 4);
    entries
}

/// What a deletion waits for, since when, and until when.
pub(super) fn wait_message(pending: &PendingDeletion, wait: &Wait, limit: usize) -> String {
    let mut times = String::new();
    if let Wait::Connection(ResourceFailure { since: Some(since), .. })
    | Wait::Failed(ResourceFailure { since: Some(since), .. }) = wait
    {
        times.push_str(&format!(" (since {})", whole_seconds(*since)));
    }
    if let Some(until) = pending.until {
        let end = match wait {
            Wait::Hook(_) if pending.hook => "deleted anyway",
            _ => "orphaned",
        };
        times.push_str(&format!("; {end} at {} unless that changes", whole_seconds(until)));
    }
    let retained =
        if pending.retained { "retained; ownership labels are removed once possible: " } else { "" };
    let message = bounded(&format!("{retained}{}", wait.message()), limit.saturating_sub(times.len()));
    format!("{message}{times}")
}

fn deletion_entry(
    pending: &PendingDeletion,
    state: ResourceState,
    message: Option<String>,
    display: &dyn Fn(&ObjectKey) -> Option<String>,
) -> ManagedResource {
    let mut entry = described(&pending.node, &pending.api_version, &Progress::Ready, ITEM_MESSAGE);
    identify(&mut entry, &pending.key, display(&pending.key).as_deref());
    entry.uid = Some(pending.uid.to_string()).filter(|uid| !uid.is_empty());
    entry.observed_generation = pending.generation;
    entry.operation = (state == ResourceState::Deleting).then_some(Operation::Delete);
    entry.state = state;
    entry.message = message;
    entry
}
