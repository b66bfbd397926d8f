//! What the status says about the clusters of the instance: one entry each, and the three conditions about them.

use std::collections::{HashMap, HashSet};

use kross_api::{
    ClusterId, ClusterStatus, ConditionSet, ConditionType, ConnectStep, ConnectionFailure, FailureReason,
    ObjectKey, Reason, ResolvedCredentials, SyncMode, whole_seconds,
};
use kross_graph::Placement;

use super::{cause, set_unknown, since};
use crate::access_paths::AccessPath;
use crate::deletion::{DeletionPlan, PendingDeletion};
use crate::plan::{NodePlan, UsedCluster};
use crate::progress::Progress;
use crate::walk::Walk;

/// The message of `ClusterResolved` when it is True.
pub(super) const RESOLVED: &str = "every cluster reference is resolved";

/// Entries of `status.clusters`, in the order of their first use.
pub(super) fn entries(walk: &Walk<'_>, prune: &DeletionPlan) -> Vec<ClusterStatus> {
    let before = walk.input.instance.clusters();
    let unplanned = unplanned(walk, prune);
    let first = |used: &UsedCluster| walk.clusters.iter().find(|other| other.id == used.id);
    let counts = |used: &UsedCluster| {
        let objects = walk.nodes.iter().flat_map(|node| &node.objects);
        let by = |access_path: &AccessPath| access_path.reference == used.reference;
        let planned: Vec<_> = objects
            .filter(|object| {
                let access_path = walk.access_paths.to(&object.key);
                object.key.cluster == used.id && access_path.map_or(!used.former, by)
            })
            .collect();
        let is_first = first(used).is_some_and(|first| first.key == used.key);
        let more = unplanned.get(&used.id).filter(|_| is_first).copied().unwrap_or_default();
        (planned.iter().filter(|object| object.progress.is_ready()).count(), planned.len() + more)
    };
    stable(walk.clusters.iter().map(|used| entry(used, counts(used))), &before)
}

/// How many observed objects the plan does not have, by cluster: those of nodes that wait, and those to delete in clusters that are
/// no longer used.
fn unplanned(walk: &Walk<'_>, prune: &DeletionPlan) -> HashMap<ClusterId, usize> {
    let waits = |node: &&NodePlan| node.objects.is_empty() && !node.progress.is_complete();
    let waiting = walk.nodes.iter().filter(waits).flat_map(|node| walk.objects_of(&node.id));
    let mut observed: HashSet<&ObjectKey> = waiting.map(|(key, _)| *key).collect();
    let awaited = prune.waiting.iter().map(|(pending, _)| pending);
    let deleted = prune.delete.iter().chain(&prune.release).chain(awaited).map(|pending| &pending.key);
    let former = |key: &&ObjectKey| walk.clusters.iter().any(|used| used.former && used.id == key.cluster);
    observed.extend(deleted.filter(former));
    let mut counts = HashMap::new();
    for key in observed {
        *counts.entry(key.cluster.clone()).or_default() += 1;
    }
    counts
}

/// One entry for each name. An entry that differs only in its last contact is not changed.
pub(super) fn stable(
    found: impl Iterator<Item = ClusterStatus>,
    before: &[ClusterStatus],
) -> Vec<ClusterStatus> {
    let mut entries: Vec<ClusterStatus> = Vec::new();
    for entry in found {
        if entries.iter().any(|known| known.name == entry.name) {
            continue;
        }
        let known = before.iter().find(|known| {
            ClusterStatus { last_contact: entry.last_contact.clone(), ..(*known).clone() } == entry
        });
        entries.push(known.cloned().unwrap_or(entry));
    }
    entries
}

/// The entry of a cluster, with how many objects are ready and how many there are.
pub(super) fn entry(used: &UsedCluster, (ready, total): (usize, usize)) -> ClusterStatus {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let secret = match &used.reference.credentials {
        ResolvedCredentials::Secret(secret) => Some(secret.to_string()),
        _ => None,
    };
    let state = used.state.as_ref();
    ClusterStatus {
        name: used.reference.display.clone(),
        secret,
        uid: state.and_then(|state| state.uid.as_ref()).map(ToString::to_string),
        unverified: state.and_then(|state| state.unverified.then_some(true)),
        mode: state.map_or(SyncMode::Watch, |state| state.mode),
        connected: state.is_some_and(|state| state.connection.is_connected()),
        since: state.map(|state| whole_seconds(state.connection.since())),
        last_contact: state.and_then(|state| state.connection.last_contact()).map(whole_seconds),
        ready: count(ready),
        total: count(total),
    }
}

/// The conditions of an instance with remote resources.
pub(super) fn conditions(walk: &Walk<'_>, prune: &DeletionPlan, set: &mut ConditionSet) {
    let now = walk.input.now;
    let remote = |node: &NodePlan| {
        let (_, compiled) = walk.input.graph.find(&node.id).unzip();
        compiled.is_some_and(|node| matches!(node.placement, Placement::Remote(_)))
    };
    let in_use =
        || walk.nodes.iter().filter(|node| remote(node) && !matches!(node.progress, Progress::Skipped(_)));
    let unplaced = |node: &&NodePlan| node.cluster.is_none() && node.objects.is_empty();
    let missing = walk.clusters.iter().find_map(|used| without_credentials(walk, used));
    let resolved = match in_use().find(unplaced) {
        None if let Some((step, message)) = &missing => {
            set.set_false(ConditionType::ClusterResolved, *step, message.clone(), now);
            true
        }
        None => {
            set.set_true(ConditionType::ClusterResolved, Reason::Resolved, RESOLVED, now);
            true
        }
        Some(node) => unplaced_condition(set, node, now),
    };
    let unusable = |used: &UsedCluster| used.unavailable().or_else(|| used.deletions_only());
    let unavailable =
        walk.clusters.iter().filter(|used| used.needed).find_map(|used| Some((used, unusable(used)?)));
    match unavailable {
        _ if !resolved => {
            set_unknown(
                set,
                ConditionType::RemoteClusterConnected,
                Reason::NotReached,
                "waiting for the cluster references",
                now,
            );
        }
        None => {
            set.set_true(
                ConditionType::RemoteClusterConnected,
                Reason::Connected,
                connected_message(walk, prune),
                now,
            );
        }
        Some((used, progress)) => {
            let message = progress.failure().map_or_else(String::new, since);
            set.set_false(ConditionType::RemoteClusterConnected, reason(used), message, now);
        }
    }
    match cause::nodes(walk, &remote) {
        None => set.set_true(
            ConditionType::RemoteResourcesReady,
            Reason::AllResourcesReady,
            "all remote resources are ready",
            now,
        ),
        Some((_, message)) => {
            set.set_false(ConditionType::RemoteResourcesReady, Reason::NotReady, message, now)
        }
    };
}

/// Why a reference is not resolved although it has a value: its Secret is missing or cannot be used. A reference that the definition
/// fixes was resolved when the definition was accepted.
fn without_credentials(walk: &Walk<'_>, used: &UsedCluster) -> Option<(Reason, String)> {
    let fixed = |placement: &Placement| matches!(placement, Placement::Remote(remote) if remote.fixed.as_ref() == Some(&*used.reference));
    if !used.needed || walk.input.graph.nodes.iter().any(|node| fixed(&node.placement)) {
        return None;
    }
    let failure = used.failure()?;
    if !matches!(failure.step, ConnectStep::Secret | ConnectStep::Key | ConnectStep::Parse) {
        return None;
    }
    let unusable = used.unavailable().or_else(|| used.deletions_only())?;
    unusable.failure().map(|reported| (failure.condition_reason(), since(reported)))
}

/// The message when every cluster in use is connected: with pending cleanup in others, or with one that is not in use.
fn connected_message(walk: &Walk<'_>, prune: &DeletionPlan) -> String {
    let all = "every cluster is connected";
    let mut unavailable = walk.clusters.iter().filter_map(|used| Some((used, used.unavailable()?)));
    // A cluster that was not tried yet is not worth a message.
    let Some((used, unavailable)) = unavailable.find(|(used, _)| used.state.is_some()) else {
        return all.to_owned();
    };
    let why = unavailable.failure().map_or_else(String::new, since);
    let name = &used.reference.display;
    let there = |pending: &PendingDeletion| pending.key.cluster == used.id;
    let awaited = prune.waiting.iter().map(|(pending, _)| pending).chain(&prune.delete).any(there);
    if !awaited && prune.orphaned.iter().any(there) {
        return format!(
            "{all}; orphaned objects in cluster `{name}` keep their ownership labels until it is reachable: {why}"
        );
    }
    if used.former {
        return format!("{all}; cleanup pending in cluster `{name}`: {why}");
    }
    format!("every cluster in use is connected; cluster `{name}` is not in use: {why}")
}

/// Sets `ClusterResolved` for a node without a cluster. Returns whether it counts as resolved.
fn unplaced_condition(set: &mut ConditionSet, node: &NodePlan, now: jiff::Timestamp) -> bool {
    let kind = ConditionType::ClusterResolved;
    let message = node.progress.message().unwrap_or_else(|| "waiting for its objects".into());
    let message = format!("the cluster of `{}` is not resolved: {message}", node.id);
    match &node.progress {
        // A collection without items uses no cluster.
        Progress::Ready => set.set_true(kind, Reason::Resolved, RESOLVED, now),
        Progress::Failed(failure) if failure.reason == FailureReason::Expression => {
            set.set_false(kind, Reason::ResolutionFailed, message, now)
        }
        _ => set.set_unknown(kind, Reason::AwaitingReconciliation, message, now),
    };
    node.progress.is_ready()
}

/// The condition reason of a cluster that is not connected.
pub(super) fn reason(used: &UsedCluster) -> Reason {
    used.failure().map_or(Reason::NotConnected, ConnectionFailure::condition_reason)
}
