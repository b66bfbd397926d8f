//! Turns what external references ask for into watches, and their copies into what the plan sees.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{FailureReason, Operation};
use kross_cluster::{ApiError, Cache, CacheKey, ClusterClient, Lookup, ObjectKey, Selection};
use kross_plan::{CollectionQuery, ExternalRead, ObservedObject, OperationFailure, Plan};
use kross_value::Text;

use super::admit::Visitor;
use super::children::failure;
use super::memory::Memory;
use super::observe::Observation;
use super::reach::Reach;
use crate::analysis::Check;
use crate::context::Context;
use crate::selector::text;

/// Answers what a plan wants to read. Gives whether there was anything new.
pub(super) async fn answer(
    visitor: &Visitor<'_>,
    reach: &Reach<'_>,
    plan: &Plan,
    observation: &mut Observation,
    memory: &mut Memory,
) -> bool {
    let mut news = false;
    for read in &plan.reads {
        let access_path = plan.access_paths.to_read(read).map(|(_, access_path)| &access_path.key);
        // What is in a cluster that does not answer is read once it does.
        let client = reach.connection_by(read.cluster(), access_path).ok();
        if let Some(client) = client {
            match visitor.check_read(plan, read, client) {
                Check::Passed => {}
                // What is read already has been through this; only what is new waits.
                Check::Pending if memory.externals.contains_key(read) => {}
                Check::Pending => continue,
                Check::Failed { reason, message } => {
                    news |= refuse(read, (Operation::Get, reason, message), observation, memory);
                    continue;
                }
            }
        }
        if let Err(error) = open(visitor, reach, client, read, memory).await {
            news |= cannot_read(read, Operation::Get, &error, observation, memory);
            continue;
        }
        let Some(watches) = memory.externals.get(read) else { continue };
        news |= match read {
            ExternalRead::Object { key, .. } => see_object(key, watches, observation),
            ExternalRead::Collection(query) => see_collection(query, watches, observation),
        };
        let failure = watches.iter().filter(|watch| !watch.is_authoritative()).find_map(Cache::failure);
        observation.listing |= failure.is_none() && watches.iter().any(|watch| !watch.has_synced());
        match failure {
            Some(error) => news |= cannot_read(read, Operation::Watch, &error, observation, memory),
            None => {
                memory.unreadable.remove(read);
            }
        }
    }
    news
}

/// Makes sure that what a reference asks for is being watched, by the credential that counts now.
async fn open(
    visitor: &Visitor<'_>,
    reach: &Reach<'_>,
    client: Option<&ClusterClient>,
    read: &ExternalRead,
    memory: &mut Memory,
) -> Result<(), ApiError> {
    let Some(client) = client else { return Ok(()) };
    let Visitor { context, instance, .. } = visitor;
    let known = memory.externals.get(read);
    let sync = reach.sync(read.cluster());
    let good = |watch: &Cache| watch.key().access == *client.access() && watch.key().sync == sync;
    if known.is_some_and(|known| known.iter().all(good)) {
        return Ok(());
    }
    let watches = reach.wait([read.cluster()], watch(context, reach, client, read)).await?;
    watches.iter().for_each(|watch| context.instances.look_at(instance, watch.key()));
    for before in memory.externals.insert(read.clone(), watches).into_iter().flatten() {
        context.instances.look_away(instance, before.key());
    }
    Ok(())
}

/// Notes why a reference cannot be read. Gives whether that is new.
fn cannot_read(
    read: &ExternalRead,
    operation: Operation,
    error: &ApiError,
    observation: &mut Observation,
    memory: &mut Memory,
) -> bool {
    let OperationFailure { reason, message, .. } = failure(read.cluster(), operation, error, None);
    refuse(read, (operation, reason, message), observation, memory)
}

fn refuse(
    read: &ExternalRead,
    (operation, reason, message): (Operation, FailureReason, Text),
    observation: &mut Observation,
    memory: &mut Memory,
) -> bool {
    let before = memory.unreadable.get(read).filter(|before| before.reason == reason);
    let since = before.map_or_else(Timestamp::now, |before| before.since);
    let failure = OperationFailure { node: "".into(), operation, reason, message, since };
    memory.unreadable.insert(read.clone(), failure.clone());
    observation.observed.unreadable.insert(read.clone(), failure).is_none()
}

/// Lets go of watches that the last plan does not ask for.
pub(super) fn retain(context: &Context, instance: &ObjectKey, plan: &Plan, memory: &mut Memory) {
    let is_wanted = |read: &ExternalRead| plan.reads.contains(read);
    let wanted = memory.externals.iter().filter(|(read, _)| is_wanted(read));
    // Two references may look at the same, such as at the same namespaces.
    let kept: HashSet<Arc<CacheKey>> =
        wanted.flat_map(|(_, watches)| watches).map(|watch| Arc::clone(watch.key())).collect();
    memory.externals.retain(|read, watches| {
        let wanted = is_wanted(read);
        for watch in watches.iter().filter(|watch| !wanted && !kept.contains(watch.key())) {
            context.instances.look_away(instance, watch.key());
        }
        wanted
    });
    memory.unreadable.retain(|read, _| plan.reads.contains(read));
}

async fn watch(
    context: &Context,
    reach: &Reach<'_>,
    client: &ClusterClient,
    read: &ExternalRead,
) -> Result<Vec<Cache>, ApiError> {
    match read {
        ExternalRead::Object { key, version } => {
            let kind = client.kind(&key.group, Some(version), &key.kind).await?;
            let selection = Selection::Name { namespace: key.namespace.clone(), name: key.name.clone() };
            Ok(vec![reach.follow(context, client, &kind, selection)])
        }
        ExternalRead::Collection(query) => {
            let kind = client.kind(&query.group, Some(&query.version), &query.kind).await?;
            let selection =
                Selection::Labels { namespace: query.namespace.clone(), selector: text(&query.selector()) };
            let mut watches = vec![reach.follow(context, client, &kind, selection)];
            if let Some(namespaces) = query.namespace_selector() {
                let kind = client.kind("", Some("v1"), "Namespace").await?;
                let selection = Selection::Labels { namespace: None, selector: text(&namespaces) };
                watches.push(reach.follow(context, client, &kind, selection));
            }
            Ok(watches)
        }
    }
}

fn see_object(key: &ObjectKey, watches: &[Cache], observation: &mut Observation) -> bool {
    let Some(watch) = watches.first() else { return false };
    let found = match watch.get(key.namespace.as_deref(), &key.name) {
        Lookup::Found(object) => Some(ObservedObject::new(object.value().clone())),
        Lookup::Absent => None,
        Lookup::Unknown => return false,
    };
    let before = observation.observed.externals.insert(key.clone(), found.clone());
    before != Some(found)
}

fn see_collection(query: &CollectionQuery, watches: &[Cache], observation: &mut Observation) -> bool {
    let Some(mut objects) = watches.first().and_then(Cache::list) else { return false };
    if let Some(namespaces) = watches.get(1) {
        let Some(namespaces) = namespaces.list() else { return false };
        let chosen = |namespace: Option<&Text>| {
            namespace.is_some_and(|name| namespaces.iter().any(|chosen| chosen.name() == name))
        };
        objects.retain(|object| chosen(object.namespace()));
    }
    objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    let found: Vec<_> = objects.iter().map(|object| ObservedObject::new(object.value().clone())).collect();
    let before = observation.observed.collections.insert(query.clone(), found.clone());
    before != Some(found)
}
