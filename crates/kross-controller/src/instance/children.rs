//! Turns the kinds that an instance has in remote clusters into watches that live as long as the instance needs them, and
//! their copies into what a pass sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{ClusterId, FailureReason, Inventory, Operation, SyncMode, labels};
use kross_cluster::{ApiError, Cache, ClusterClient, ObjectKey, Selection};
use kross_graph::Graph;
use kross_plan::{KindKey, OperationFailure, Plan};
use kross_value::Text;

use super::memory::Memory;
use super::observe::{Observation, version_of};
use super::reach::Reach;
use crate::context::Context;

/// A kind in a remote cluster, and the version to read it in; none for the one that the cluster prefers.
pub(super) type Wanted = (KindKey, Option<Text>);

/// The copy of a kind in a remote cluster.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) watch: Arc<Cache>,
    /// The one before it, which is read until the new one is complete: a new credential is no reason to be blind.
    before: Option<Arc<Cache>>,
}

impl Child {
    /// The copy that knows most.
    fn best(&mut self) -> &Arc<Cache> {
        if self.watch.has_synced() {
            self.before = None;
        }
        self.before.as_ref().unwrap_or(&self.watch)
    }
}

/// The kinds that an inventory names.
pub(super) fn recorded(
    contents: &BTreeMap<ClusterId, (Text, Inventory)>,
    graph: Option<&Graph>,
) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for (cluster, (_, inventory)) in contents {
        for kind in &inventory.group_kinds {
            let used = graph.into_iter().flat_map(|graph| &graph.nodes);
            let version = used
                .map(|node| &node.kind)
                .find(|used| used.group == *kind.group.as_str() && used.kind == *kind.kind.as_str());
            let key = (cluster.clone(), kind.group.as_str().into(), kind.kind.as_str().into());
            wanted.push((key, version.map(|used| used.version.clone())));
        }
    }
    wanted
}

/// The kinds that a plan makes objects of.
pub(super) fn planned(plan: &Plan) -> Vec<Wanted> {
    let objects = plan.nodes.iter().flat_map(|node| &node.objects);
    let remote = objects.filter(|object| object.desired.is_some() && !object.key.cluster.is_local());
    let mut wanted: Vec<Wanted> = remote
        .map(|object| {
            let ObjectKey { cluster, group, kind, .. } = &object.key;
            ((cluster.clone(), group.clone(), kind.clone()), Some(version_of(&object.api_version)))
        })
        .collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

/// Sees what an instance has of some kinds, in the clusters that are connected. Gives whether there was anything new.
pub(super) async fn see(
    context: &Context,
    instance: (&ObjectKey, &str),
    wanted: Vec<Wanted>,
    reach: &mut Reach<'_>,
    observation: &mut Observation,
    memory: &mut Memory,
) -> bool {
    let mut news = false;
    for (key, version) in wanted {
        let Ok(client) = reach.connection_for(&key.0, &key.1, &key.2).cloned() else { continue };
        if !observation.looked.insert(key.clone()) {
            continue;
        }
        news = true;
        let opened = open(context, instance.0, &client, &key, version.as_ref(), reach, memory).await;
        if let Err(error) = opened {
            // A kind that nobody wants any more and that is gone took its objects with it.
            if version.is_some() || error.missing().is_none() {
                observation
                    .observed
                    .unlisted
                    .insert(key.clone(), Some(failed(&key, Operation::Get, &error, memory)));
            }
            continue;
        }
        let Some(child) = memory.children.get_mut(&key) else { continue };
        let watch = Arc::clone(child.best());
        reach.attach(&key.0, &watch);
        if !Arc::ptr_eq(&watch, &child.watch) {
            // It is read from soon, and has to know what was written meanwhile.
            reach.attach(&key.0, &child.watch);
        }
        if watch.mode() == SyncMode::Poll {
            observation.polls(&key.0);
        }
        match watch.list_by_label(labels::INSTANCE_ID, instance.1) {
            Some(objects) => {
                memory.unlisted.remove(&key);
                for object in objects {
                    observation.see(object.key(&key.0), object, memory);
                }
            }
            None => {
                let failure = watch.failure().map(|error| failed(&key, Operation::Watch, &error, memory));
                observation.listing |= failure.is_none();
                observation.observed.unlisted.insert(key, failure);
            }
        }
    }
    news
}

/// Sees what was last known of a cluster.
pub(super) fn remember(uid: &str, cluster: &ClusterId, observation: &mut Observation, memory: &mut Memory) {
    let mut known = Vec::new();
    for ((..), child) in memory.children.iter_mut().filter(|((there, ..), _)| there == cluster) {
        let objects = child.best().known_by_label(labels::INSTANCE_ID, uid);
        known.extend(objects.into_iter().map(|object| (object.key(cluster), object)));
    }
    for (key, object) in known {
        observation.see(key, object, memory);
    }
}

/// Finds out the scopes that a plan lacks. Gives whether there was anything new.
pub(super) async fn find_scopes(
    plan: &Plan,
    reach: &Reach<'_>,
    observation: &mut Observation,
    memory: &mut Memory,
) -> bool {
    let mut news = false;
    for (key, version) in &plan.unscoped {
        if observation.observed.scopes.contains_key(key) || observation.observed.unlisted.contains_key(key) {
            continue;
        }
        let Ok(client) = reach.client(&key.0) else { continue };
        news = true;
        match reach.wait([&key.0], client.kind(&key.1, Some(version), &key.2)).await {
            Ok(kind) => {
                memory.unlisted.remove(key);
                observation.observed.scopes.insert(key.clone(), kind.namespaced);
            }
            Err(error) => {
                let failure = failed(key, Operation::Get, &error, memory);
                observation.observed.unlisted.insert(key.clone(), Some(failure));
            }
        }
    }
    news
}

/// Makes sure that a kind is being watched by the credential that counts now.
async fn open(
    context: &Context,
    instance: &ObjectKey,
    client: &ClusterClient,
    key: &KindKey,
    version: Option<&Text>,
    reach: &Reach<'_>,
    memory: &mut Memory,
) -> Result<(), ApiError> {
    let good = memory.children.get(key).is_some_and(|child| {
        let watch = child.watch.key();
        watch.access == *client.access()
            && watch.sync == reach.sync(&key.0)
            && version.is_none_or(|version| watch.version == *version)
    });
    if good {
        return Ok(());
    }
    let kind = client.kind(&key.1, version.map(Text::as_str), &key.2);
    let kind = reach.wait([&key.0], kind).await?;
    let watch = Arc::new(reach.follow(context, client, &kind, Selection::Managed));
    context.instances.look_at(instance, watch.key());
    let before = memory.children.remove(key).map(|child| child.watch);
    if let Some(before) = &before {
        context.instances.look_away(instance, before.key());
    }
    memory.children.insert(key.clone(), Child { watch, before });
    Ok(())
}

/// The failure of a kind, with the time it began.
pub(super) fn failed(
    key: &KindKey,
    operation: Operation,
    error: &ApiError,
    memory: &mut Memory,
) -> OperationFailure {
    let before = memory.unlisted.get(key).filter(|before| before.reason == error.reason());
    let failure = failure(&key.0, operation, error, before.map(|before| before.since));
    memory.unlisted.insert(key.clone(), failure.clone());
    failure
}

/// A failure that is of no object.
pub(super) fn failure(
    cluster: &ClusterId,
    operation: Operation,
    error: &ApiError,
    since: Option<Timestamp>,
) -> OperationFailure {
    let advice = match error.reason() {
        FailureReason::Forbidden if cluster.is_local() => {
            "; `kross rbac FILE` prints what the controller must be allowed"
        }
        FailureReason::Forbidden => "; `kross rbac FILE --remote` prints what the credential must be allowed",
        _ => "",
    };
    OperationFailure {
        node: "".into(),
        operation,
        reason: error.reason(),
        message: format!("{}{advice}", error.message()).into(),
        since: since.unwrap_or_else(Timestamp::now),
    }
}
