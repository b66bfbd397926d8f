//! What the status says about the clusters of the instance: one entry each, and the three conditions about them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_api::{
    ClusterId, ClusterStatus, ConditionSet, ConditionType, ConnectStep, ConnectionFailure, FailureReason,
    MORE_CLUSTERS, ObjectKey, Reason, ResolvedCluster, ResolvedCredentials, SecretAddress, SyncMode,
    whole_seconds,
};
use kross_graph::Placement;

use super::{cause, set_unknown, since};
use crate::deletion::{DeletionPlan, PendingDeletion};
use crate::observed::ReferenceKey;
use crate::plan::{NodePlan, PlannedObject, UsedCluster};
use crate::progress::Progress;
use crate::walk::Walk;

/// The message of `ClusterResolved` when it is True.
pub(super) const RESOLVED: &str = "every cluster reference is resolved";

/// The message of `RemoteResourcesReady` where `ResourcesReady` has the same cause.
const SAME_CAUSE: &str = "remote resources are not ready: `ResourcesReady` says why";

/// How many clusters are listed before the rest is summed up.
const LISTED: usize = 100;

/// Entries of `status.clusters`, in the order of their first use.
pub(super) fn entries(walk: &Walk<'_>, prune: &DeletionPlan) -> Vec<ClusterStatus> {
    let before = walk.input.instance.clusters();
    let mut counts = planned(walk);
    // Counted once, however many references a cluster has.
    let mut unplanned = unplanned(walk, prune);
    for used in &walk.clusters {
        if let Some(more) = unplanned.remove(&used.id) {
            counts.entry((&used.id, &used.reference.display)).or_default().1 += more;
        }
    }
    let count = |used: &UsedCluster| {
        counts.get(&(&used.id, used.reference.display.as_str())).copied().unwrap_or_default()
    };
    let recorded: HashSet<&ReferenceKey> =
        walk.input.observed.recorded.iter().map(|recorded| &recorded.key).collect();
    let entries = walk.clusters.iter().map(|used| {
        let mut entry = entry(used, count(used));
        // A removed inventory is restored from the UIDs here. Nothing was ever applied in a cluster like this.
        let is_unusable = used.deletions_only().is_some() || used.unavailable().is_some();
        if is_unusable && !recorded.contains(&used.key) {
            entry.uid = None;
        }
        (entry, used.former)
    });
    stable(entries, &before)
}

/// How many of the planned objects are ready and how many there are, by cluster and name.
fn planned<'w>(walk: &'w Walk<'_>) -> HashMap<(&'w ClusterId, &'w str), (usize, usize)> {
    let mut counts: HashMap<_, (usize, usize)> = HashMap::new();
    let in_use = walk.clusters.iter().filter(|used| !used.former);
    let mut by_cluster: HashMap<&ClusterId, Vec<&UsedCluster>> = HashMap::new();
    for used in in_use {
        by_cluster.entry(&used.id).or_default().push(used);
    }
    for object in walk.nodes.iter().flat_map(|node| &node.objects) {
        let cluster = &object.key.cluster;
        let mut count = |reference: &'w Arc<ResolvedCluster>| {
            let (ready, total) = counts.entry((cluster, reference.display.as_str())).or_default();
            *ready += usize::from(object.progress.is_ready());
            *total += 1;
        };
        match walk.access_paths.to(&object.key) {
            Some(access_path) => count(&access_path.reference),
            None => by_cluster.get(cluster).into_iter().flatten().for_each(|used| count(&used.reference)),
        }
    }
    counts
}

/// How many observed objects the plan does not have, by cluster: those of nodes that wait, and those to delete in clusters that are
/// no longer used.
fn unplanned(walk: &Walk<'_>, prune: &DeletionPlan) -> HashMap<ClusterId, usize> {
    let waits = |node: &&NodePlan| node.objects.is_empty() && !node.progress.is_complete();
    let waiting = walk.nodes.iter().filter(waits).flat_map(|node| walk.objects_of(&node.id));
    let mut observed: HashSet<&ObjectKey> = waiting.map(|(key, _)| *key).collect();
    let awaited = prune.waiting.iter().map(|(pending, _)| pending);
    let deleted = prune.delete.iter().chain(&prune.release).chain(awaited).map(|pending| &pending.key);
    let former = walk.clusters.iter().filter(|used| used.former).map(|used| &used.id);
    let former: HashSet<&ClusterId> = former.collect();
    observed.extend(deleted.filter(|key| former.contains(&key.cluster)));
    let mut counts = HashMap::new();
    for key in observed {
        *counts.entry(key.cluster.clone()).or_default() += 1;
    }
    counts
}

/// One entry for each name. An entry that differs only in its last contact is not changed. Where there are too many, those that are
/// connected and ready are summed up in the last entry, and so are all that are still too many. An entry of a cluster that is not used
/// any more comes with `true`: these are summed up last.
pub(super) fn stable(
    found: impl Iterator<Item = (ClusterStatus, bool)>,
    before: &[ClusterStatus],
) -> Vec<ClusterStatus> {
    let before: HashMap<&str, &ClusterStatus> =
        before.iter().map(|known| (known.name.as_str(), known)).collect();
    let mut names = HashSet::new();
    let mut entries: Vec<(ClusterStatus, bool)> = Vec::new();
    for (entry, former) in found {
        if !names.insert(entry.name.clone()) {
            continue;
        }
        let known = before.get(entry.name.as_str()).filter(|known| {
            ClusterStatus { last_contact: entry.last_contact.clone(), ..(**known).clone() } == entry
        });
        entries.push((known.map_or(entry, |known| (*known).clone()), former));
    }
    bounded(entries)
}

/// At most [`LISTED`] entries, and one that sums up the others.
fn bounded(mut entries: Vec<(ClusterStatus, bool)>) -> Vec<ClusterStatus> {
    if entries.len() <= LISTED {
        return entries.into_iter().map(|(entry, _)| entry).collect();
    }
    let weight = |(entry, former): &(ClusterStatus, bool)| {
        let is_ready = entry.connected && entry.ready == entry.total;
        (!former, entry.connected, is_ready)
    };
    let unready = entries.iter().filter(|entry| weight(entry) != (true, true, true)).count();
    entries.sort_by_key(weight);
    let others = entries.split_off(unready.min(LISTED));
    let mut listed: Vec<ClusterStatus> = entries.into_iter().map(|(entry, _)| entry).collect();
    let others: Vec<ClusterStatus> = others.into_iter().map(|(entry, _)| entry).collect();
    listed.extend(summary(&others));
    listed
}

/// The entry that stands for clusters that are not listed.
fn summary(others: &[ClusterStatus]) -> Option<ClusterStatus> {
    let first = others.first()?;
    let sum = |count: fn(&ClusterStatus) -> i64| others.iter().map(count).sum();
    Some(ClusterStatus {
        name: format!("{}{MORE_CLUSTERS}", others.len()),
        secret: None,
        target: None,
        uid: None,
        unverified: None,
        mode: first.mode,
        connected: others.iter().all(|entry| entry.connected),
        since: None,
        last_contact: None,
        ready: sum(|entry| entry.ready),
        total: sum(|entry| entry.total),
    })
}

/// The entry of a cluster, with how many objects are ready and how many there are.
pub(super) fn entry(used: &UsedCluster, (ready, total): (usize, usize)) -> ClusterStatus {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let state = used.state.as_ref();
    let behind_target = || state.and_then(|state| state.secret.as_ref()).map(SecretAddress::status_text);
    let (secret, target) = match &used.reference.credentials {
        ResolvedCredentials::Secret(secret) => (Some(secret.status_text()), None),
        ResolvedCredentials::Target { namespace, name } if !namespace.is_empty() => {
            (behind_target(), Some(format!("{namespace}/{name}")))
        }
        ResolvedCredentials::Target { .. } | ResolvedCredentials::TargetSelector { .. } => (None, None),
    };
    ClusterStatus {
        name: used.reference.display.clone(),
        secret,
        target,
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
                format!("{}{}", connected_message(walk, prune), warnings(walk)),
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
            // Where the first cause is a remote one, it is in `ResourcesReady` and in `Ready` already.
            let is_same = cause::of_resources(walk, prune).is_some_and(|(_, cause)| cause == message);
            let message = if is_same { SAME_CAUSE.to_owned() } else { message };
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
    let is_without = matches!(
        failure.step,
        ConnectStep::Target
            | ConnectStep::TargetReady
            | ConnectStep::Secret
            | ConnectStep::Key
            | ConnectStep::Parse
    );
    if !is_without {
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
        return unproven_cleanup(walk).unwrap_or_else(|| all.to_owned());
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

/// The warnings about connected clusters, to be appended to a message.
fn warnings(walk: &Walk<'_>) -> String {
    let warned = walk.clusters.iter().find_map(|used| {
        let state = used.state.as_ref().filter(|state| state.connection.is_connected())?;
        Some((used, state.warning.as_ref()?))
    });
    let Some((used, warning)) = warned else { return String::new() };
    format!("; warning about cluster `{}`: {warning}", used.reference.display)
}

/// The message when a connected cluster does not prove that objects were deleted: no node has objects of their kind there.
fn unproven_cleanup(walk: &Walk<'_>) -> Option<String> {
    let unlisted = walk.input.observed.unlisted.iter();
    let failed = unlisted.filter_map(|(kind, failure)| Some((kind, failure.as_ref()?)));
    let mut unproven: Vec<_> = failed.filter(|(kind, _)| !kind.0.is_local()).collect();
    if unproven.is_empty() {
        return None;
    }
    let objects = walk.nodes.iter().flat_map(|node| &node.objects);
    let planned: HashSet<(&ClusterId, &str, &str)> = objects
        .map(|PlannedObject { key, .. }| (&key.cluster, key.group.as_str(), key.kind.as_str()))
        .collect();
    unproven
        .retain(|((cluster, group, kind), _)| !planned.contains(&(cluster, group.as_str(), kind.as_str())));
    unproven.sort_by_key(|(kind, _)| *kind);
    unproven.into_iter().find_map(|(kind, failure)| {
        let (name, why) = (walk.display(&kind.0)?, &failure.message);
        Some(format!("every cluster is connected; cleanup pending in cluster `{name}`: {why}"))
    })
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
