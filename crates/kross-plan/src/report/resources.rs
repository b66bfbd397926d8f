//! Entries of `status.managedResources`: every object, and large collections as a sum with their unready items, so that
//! status stays small.

use std::collections::{HashMap, HashSet};

use kross_api::{ManagedResource, ObjectKey, Operation, ResourceState, whole_seconds};
use kross_graph::Node;

use super::{bounded, since};
use crate::deletion::{DeletionPlan, PendingDeletion, Wait};
use crate::plan::{NodePlan, PlannedObject};
use crate::progress::Progress;
use crate::walk::Walk;

/// The longest message of an entry.
const MESSAGE: usize = 1_024;
/// What all messages together may come to.
const ALL_MESSAGES: usize = 32 * 1_024;
/// The longest message where they come to more.
const SHORT_MESSAGE: usize = 120;
/// The longest message of one item of many.
const ITEM_MESSAGE: usize = 400;

/// All entries, in the order of the graph, those that go last.
pub(super) fn entries(walk: &Walk<'_>, prune: &DeletionPlan) -> Vec<ManagedResource> {
    let mut entries = Vec::new();
    for (node, plan) in walk.input.graph.nodes.iter().zip(&walk.nodes) {
        of_node(walk, node, plan, &mut entries);
    }
    let display = |key: &ObjectKey| walk.display_of(key).map(str::to_owned);
    entries.extend(leaving(prune, walk.input.settings.listed_items, &display));
    fitted(dated(entries, walk.input.previous, &whole_seconds(walk.input.now)))
}

/// Shortens messages where there are so many that the instance would get heavy.
pub(super) fn fitted(mut entries: Vec<ManagedResource>) -> Vec<ManagedResource> {
    let length = |entry: &ManagedResource| entry.message.as_ref().map_or(0, String::len);
    if entries.iter().map(length).sum::<usize>() > ALL_MESSAGES {
        for entry in &mut entries {
            entry.message = entry.message.as_deref().map(|message| bounded(message, SHORT_MESSAGE));
        }
    }
    entries
}

/// Since when a node, or one object of it, is as it is.
pub(super) fn time(walk: &Walk<'_>, plan: &NodePlan, object: Option<&PlannedObject>) -> Option<String> {
    let (_, node) = walk.input.graph.find(&plan.id)?;
    let mut entries = Vec::new();
    of_node(walk, node, plan, &mut entries);
    let name = object.map(|object| &*object.key.name);
    let entries = dated(entries, walk.input.previous, &whole_seconds(walk.input.now));
    let found = entries.iter().find(|entry| entry.name.as_deref() == name).or(entries.first());
    found.and_then(|entry| entry.last_update_time.clone())
}

/// Gives each entry its time: that of the entry before, unless it says something else now.
pub(super) fn dated(
    entries: Vec<ManagedResource>,
    previous: &[ManagedResource],
    now: &str,
) -> Vec<ManagedResource> {
    let before: HashMap<_, &ManagedResource> =
        previous.iter().map(|entry| (identity(entry), entry)).collect();
    let dated = |entry: ManagedResource| {
        let known = before.get(&identity(&entry)).copied();
        entry.since(known, now)
    };
    entries.into_iter().map(dated).collect()
}

type Identity = (String, Option<String>, Option<String>, Option<String>, Option<String>);

fn identity(entry: &ManagedResource) -> Identity {
    let ManagedResource { id, cluster, kind, namespace, name, .. } = entry;
    (id.clone(), cluster.clone(), kind.clone(), namespace.clone(), name.clone())
}

fn of_node(walk: &Walk<'_>, node: &Node, plan: &NodePlan, entries: &mut Vec<ManagedResource>) {
    let listed = walk.input.settings.listed_items;
    if plan.objects.is_empty() {
        return existing(walk, node, plan, entries);
    }
    if !node.is_list() || plan.objects.len() <= listed {
        let limit = if node.is_list() { ITEM_MESSAGE } else { MESSAGE };
        entries.extend(plan.objects.iter().map(|object| of_object(walk, plan, object, limit)));
        return;
    }
    let ready = plan.objects.iter().filter(|object| object.progress.is_ready()).count();
    let mut sum = bare(node, &plan.progress);
    sum.cluster = place(walk, plan).or_else(|| several(plan));
    let message = format!("{ready} of {} items are ready", plan.objects.len());
    sum.message = Some(match plan.progress.message() {
        Some(first) => bounded(&format!("{message}; {first}"), MESSAGE),
        None => message,
    });
    entries.push(sum);
    let unready = plan.objects.iter().filter(|object| !object.progress.is_ready());
    entries.extend(unready.take(listed).map(|object| of_object(walk, plan, object, ITEM_MESSAGE)));
}

/// A node whose objects are not known now: those that are there, else the node alone.
fn existing(walk: &Walk<'_>, node: &Node, plan: &NodePlan, entries: &mut Vec<ManagedResource>) {
    let there = walk.objects_of(&node.id);
    if there.is_empty() || plan.progress.is_settled() {
        let mut entry = bare(node, &plan.progress);
        entry.cluster = place(walk, plan);
        entries.push(entry);
        return;
    }
    for (key, object) in there.iter().take(walk.input.settings.listed_items) {
        let mut entry = bare(node, &plan.progress);
        identify(&mut entry, key, walk.display_of(key));
        entry.uid = Some(object.uid().to_owned()).filter(|uid| !uid.is_empty());
        entry.observed_generation = object.generation();
        entries.push(entry);
    }
}

/// The cluster of a node as people know it, if it is one remote cluster.
fn place(walk: &Walk<'_>, plan: &NodePlan) -> Option<String> {
    let used = walk.used_by(walk.access_paths.to_node(&plan.id), plan.cluster.as_ref()?)?;
    Some(used.reference.display.clone())
}

/// The clusters of a collection, if they are more than one: they are too many to be named.
fn several(plan: &NodePlan) -> Option<String> {
    let clusters: HashSet<_> = plan.objects.iter().map(|object| &object.key.cluster).collect();
    (clusters.len() > 1).then(|| format!("{} clusters", clusters.len()))
}

fn of_object(walk: &Walk<'_>, plan: &NodePlan, object: &PlannedObject, limit: usize) -> ManagedResource {
    let mut entry = described(&plan.id, &object.api_version, &object.progress, limit);
    identify(&mut entry, &object.key, walk.display_of(&object.key));
    entry.uid = object.uid.as_ref().map(ToString::to_string).filter(|uid| !uid.is_empty());
    entry.observed_generation = object.generation;
    // What is known of it from before stays, for instance after a restart while its cluster does not answer.
    if object.uid.is_none() && object.progress.is_dark() {
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

fn bare(node: &Node, progress: &Progress) -> ManagedResource {
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
    ManagedResource {
        id: id.to_owned(),
        cluster: None,
        api_version: Some(api_version.to_owned()),
        kind: None,
        namespace: None,
        name: None,
        uid: None,
        state: progress.state(),
        reason: failure.map(|failure| failure.reason),
        message: message.map(|message| bounded(&message, limit)),
        operation: failure.and_then(|failure| failure.operation),
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

/// Objects that are being removed, released or left behind.
pub(super) fn leaving(
    plan: &DeletionPlan,
    listed: usize,
    display: &dyn Fn(&ObjectKey) -> Option<String>,
) -> Vec<ManagedResource> {
    let mut entries: Vec<ManagedResource> = Vec::new();
    let left = |pending: &PendingDeletion| plan.orphaned.contains(pending);
    for pending in &plan.orphaned {
        let why = pending.why.as_deref().unwrap_or("it did not go in time");
        let message = bounded(&format!("left behind: {why}"), ITEM_MESSAGE);
        entries.push(gone(pending, ResourceState::Retained, Some(message), display));
    }
    for pending in plan.release.iter().filter(|pending| !left(pending)) {
        entries.push(gone(
            pending,
            ResourceState::Retained,
            Some("stays, without an owner".to_owned()),
            display,
        ));
    }
    let failed = |pending: &PendingDeletion| plan.waiting.iter().any(|(other, _)| other == pending);
    for pending in plan.delete.iter().filter(|pending| !failed(pending)) {
        entries.push(gone(pending, ResourceState::Deleting, None, display));
    }
    for (pending, wait) in &plan.waiting {
        let state = if pending.stays { ResourceState::Retained } else { ResourceState::Deleting };
        let mut entry = gone(pending, state, Some(awaited(pending, wait, ITEM_MESSAGE)), display);
        entry.reason = wait.reason();
        entries.push(entry);
    }
    entries.sort_by_key(|entry| (entry.reason.is_none(), entry.state != ResourceState::Retained));
    // Enough to see what is going on; the rest follows as these go.
    entries.truncate(listed.max(1) * 4);
    entries
}

/// What an object is waited for, since when, and until when.
pub(super) fn awaited(pending: &PendingDeletion, wait: &Wait, limit: usize) -> String {
    let mut times = String::new();
    let message = match wait {
        Wait::Connection(failure) | Wait::Failed(failure) => {
            if let Some(since) = failure.since {
                times.push_str(&format!(" (since {})", whole_seconds(since)));
            }
            failure.message.clone()
        }
        other => other.message(),
    };
    if let Some(until) = pending.until {
        let end = match wait {
            Wait::Hook(_) if pending.hook => "deleted all the same",
            _ => "left behind",
        };
        times.push_str(&format!("; {end} at {} if that does not change", whole_seconds(until)));
    }
    let stays = if pending.stays { "stays, and loses our labels once that is possible: " } else { "" };
    let message = bounded(&format!("{stays}{message}"), limit.saturating_sub(times.len()));
    format!("{message}{times}")
}

fn gone(
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
