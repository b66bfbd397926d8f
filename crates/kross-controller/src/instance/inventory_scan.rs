//! Everything that an instance has, wherever it is, from what is persisted alone: what clusters answer, and of those that do
//! not answer what was last known, so that the order is kept and people can see what is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kross_api::{
    ClusterId, ClusterInventory, GroupKind, Inventory, ManagedResource, Operation, ResourceState, SyncMode,
    annotations, labels,
};
use kross_cluster::{ApiError, ApiKind, ClusterClient, ObjectKey, StoredObject};
use kross_graph::{Graph, Node, Placement};
use kross_plan::{
    EvaluatedLifecycle, Instance, ObservedObject, OwnedObject, ReferenceKey, ResourceFailure, UsedCluster,
};
use kross_value::{Object, Text, Value};

use super::children;
use super::cluster_inventory;
use super::cluster_resolver::ClusterResolver;
use super::error::InstanceError;
use super::manage::{self, Record};
use super::memory::Memory;
use super::observe::Observation;
use super::reach::Reach;
use crate::graphs::Served;

/// Lists of one instance that run at once.
const AT_ONCE: usize = 8;

/// What an instance has.
pub(super) struct InventoryScan {
    pub(super) observation: Observation,
    /// Why nothing can be done in a cluster.
    closed: BTreeMap<ClusterId, ResourceFailure>,
    /// Objects in such clusters of which only the inventory tells.
    reported: Vec<OwnedObject>,
    /// Whether the sight has objects of which only the status tells: how they are to go is not kept there.
    pub(super) remembered: bool,
    /// The remote clusters.
    pub(super) clusters: Vec<UsedCluster>,
}

impl InventoryScan {
    /// Everything that is to go.
    pub(super) fn pending(&self, memory: &Memory) -> Vec<OwnedObject> {
        let seen = self.observation.observed.objects.iter().map(|(key, object)| {
            let mut pending = OwnedObject::new(key.clone(), object)
                .with_credentials_for(&self.observation.observed.recorded);
            pending.unavailable = self.closed.get(&key.cluster).cloned();
            pending.failure = memory.failures.get(key).cloned();
            pending
        });
        let mut objects: Vec<OwnedObject> = seen.chain(self.reported.iter().cloned()).collect();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects
    }
}

/// Finds everything.
///
/// # Errors
/// The local cluster refuses or does not answer.
pub(super) async fn gather(
    resolver: &ClusterResolver<'_>,
    served: &Served,
    record: &Record,
    reach: &mut Reach<'_>,
    memory: &mut Memory,
) -> Result<InventoryScan, InstanceError> {
    let (context, instance) = (resolver.context, resolver.instance);
    let applyset = manage::applyset(served, instance);
    let kinds = record.local.group_kinds.iter().map(|kind| (kind, &context.client)).collect();
    let observation = members(kinds, instance, &applyset, &record.local, memory).await?;
    let mut scan = InventoryScan {
        observation,
        closed: BTreeMap::new(),
        reported: Vec::new(),
        remembered: false,
        clusters: Vec::new(),
    };
    resolver.resolve_recorded(reach, &mut scan.observation, memory);
    let mut owed = record.remote.clone();
    cluster_inventory::record_uids(&mut owed, &scan.observation);
    for (reference, uid) in &scan.observation.abandoned {
        owed.retain(|cluster| cluster.reference != *reference || cluster.uid != *uid);
    }
    let applyset = manage::remote_applyset(context, served, instance);
    let graph = served.leaving_graph();
    for (cluster, (name, contents)) in cluster_inventory::contents_by_cluster(&owed) {
        scan.clusters.extend(used(&scan.observation, &owed, &cluster));
        let found = match reach.connections(&cluster, &contents) {
            Ok(kinds) => {
                let found = members(kinds, instance, &applyset, &contents, memory);
                reach.wait([&cluster], found).await.map_err(|error| unlisted(&name, &error))
            }
            Err(_) => Err(dark(&scan.observation, &owed, &cluster, &name)),
        };
        match found {
            Ok(found) => {
                follow(resolver, &cluster, &contents, graph, reach, memory).await;
                scan.observation.extend(found);
            }
            Err(failure) => {
                scan.closed.insert(cluster.clone(), failure.clone());
                remember(resolver, (&cluster, &name, &contents), (graph, &applyset), &mut scan, memory);
            }
        }
    }
    Ok(scan)
}

/// Has the end of objects told, unless their cluster is polled: then the deletion itself looks again.
async fn follow(
    resolver: &ClusterResolver<'_>,
    cluster: &ClusterId,
    contents: &Inventory,
    graph: Option<&Graph>,
    reach: &mut Reach<'_>,
    memory: &mut Memory,
) {
    let polled = Instance::of(resolver.instance.value()).clusters();
    if polled
        .iter()
        .any(|entry| entry.uid.as_deref() == Some(cluster.as_str()) && entry.mode == SyncMode::Poll)
    {
        return;
    }
    let contents = BTreeMap::from([(cluster.clone(), (Text::from(""), contents.clone()))]);
    let wanted = children::recorded(&contents, graph);
    let mut aside = Observation::default();
    let instance = (resolver.key, resolver.instance.uid().as_str());
    children::see(resolver.context, instance, wanted, reach, &mut aside, memory).await;
}

/// What was last known of a cluster that nothing can be asked of: from the copies, else from the status, else that there may
/// be something of each kind.
fn remember(
    resolver: &ClusterResolver<'_>,
    (cluster, name, contents): (&ClusterId, &Text, &Inventory),
    (graph, applyset): (Option<&Graph>, &str),
    scan: &mut InventoryScan,
    memory: &mut Memory,
) {
    let before = scan.observation.observed.objects.len();
    children::remember(resolver.instance.uid(), cluster, &mut scan.observation, memory);
    if scan.observation.observed.objects.len() > before {
        return;
    }
    let entries = Instance::of(resolver.instance.value()).resources();
    let there: Vec<&ManagedResource> =
        entries.iter().filter(|entry| entry.cluster.as_deref() == Some(name.as_str())).collect();
    for (key, object) in there.iter().filter_map(|entry| reported(cluster, entry, graph, applyset)) {
        scan.remembered = true;
        scan.observation.observed.objects.insert(key, object);
    }
    let summed: Vec<&ManagedResource> =
        entries.iter().filter(|entry| is_sum(entry, name, contents, graph)).collect();
    let closed = scan.closed.get(cluster).cloned();
    if there.is_empty() && summed.is_empty() {
        let of_kind = |kind: &GroupKind| of_kind(cluster, kind, "", closed.as_ref());
        scan.reported.extend(contents.group_kinds.iter().map(of_kind));
        return;
    }
    // The graph knows what a collection is made of, unless it reads what nobody can tell.
    let plan = graph.filter(|_| !summed.is_empty()).map(|graph| {
        let (context, instance, now) = (resolver.context, resolver.instance.value(), Timestamp::now());
        kross_plan::plan(graph, instance, &scan.observation.observed, &context.planning, now)
    });
    for entry in summed {
        let node = plan.as_ref().and_then(|plan| plan.node(&entry.id));
        let items = node.into_iter().flat_map(|node| &node.objects);
        let items: Vec<&ObjectKey> =
            items.map(|object| &object.key).filter(|key| key.cluster == *cluster).collect();
        if items.is_empty() {
            let unknown = kind_of(entry).map(|kind| of_kind(cluster, &kind, &entry.id, closed.as_ref()));
            scan.reported.extend(unknown);
        }
        for key in items {
            scan.remembered = true;
            let object = || remembered(key, entry, graph, applyset);
            scan.observation.observed.objects.entry(key.clone()).or_insert_with(object);
        }
    }
}

/// Whether an entry is the sum of a collection that may have items in a cluster.
fn is_sum(entry: &ManagedResource, cluster: &str, contents: &Inventory, graph: Option<&Graph>) -> bool {
    let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
    let remote = |node: &Node| matches!(node.placement, Placement::Remote(_));
    entry.name.is_none()
        && entry.state != ResourceState::Skipped
        // Items may be in several clusters.
        && entry.cluster.as_deref().is_none_or(|named| named == cluster)
        && kind_of(entry).is_some_and(|kind| contents.group_kinds.contains(&kind))
        && node.is_none_or(|node| node.is_list() && !node.is_external() && remote(node))
}

fn kind_of(entry: &ManagedResource) -> Option<GroupKind> {
    let api_version = entry.api_version.as_deref().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some(GroupKind::new(group, entry.kind.as_deref()?))
}

/// An object that the status tells of, as far as it does.
fn reported(
    cluster: &ClusterId,
    entry: &ManagedResource,
    graph: Option<&Graph>,
    applyset: &str,
) -> Option<(ObjectKey, ObservedObject)> {
    // What is only read does not go.
    let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
    if node.is_some_and(Node::is_external) {
        return None;
    }
    let GroupKind { group, kind } = kind_of(entry)?;
    let key = ObjectKey {
        cluster: cluster.clone(),
        group: group.as_str().into(),
        kind: kind.as_str().into(),
        namespace: entry.namespace.as_deref().map(Text::from),
        name: entry.name.as_deref()?.into(),
    };
    let object = remembered(&key, entry, graph, applyset);
    Some((key, object))
}

/// An object of which no more is known than its place and what the status says of its node.
fn remembered(
    key: &ObjectKey,
    entry: &ManagedResource,
    graph: Option<&Graph>,
    applyset: &str,
) -> ObservedObject {
    // Where nobody knows its place in the order, it goes before everything else.
    let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
    let order = node.map_or_else(|| i64::MAX.to_string(), |node| node.apply_order.to_string());
    let mut metadata = Object::new();
    metadata.insert("name", key.name.clone().into());
    if let Some(namespace) = &key.namespace {
        metadata.insert("namespace", namespace.clone().into());
    }
    metadata.insert("uid", Value::from(entry.uid.as_deref().unwrap_or_default()));
    metadata.insert(
        "labels",
        Value::object([
            (labels::NODE_ID, Value::from(entry.id.as_str())),
            (labels::APPLYSET_PART_OF, Value::from(applyset)),
        ]),
    );
    metadata.insert("annotations", Value::object([(annotations::APPLY_ORDER, Value::from(order))]));
    ObservedObject::new(Value::object([
        ("apiVersion", Value::from(entry.api_version.as_deref().unwrap_or_default())),
        ("kind", Value::from(key.kind.clone())),
        ("metadata", Value::Object(metadata)),
    ]))
}

/// Any object of a kind. It goes before everything else, since nobody knows its place.
fn of_kind(
    cluster: &ClusterId,
    kind: &GroupKind,
    node: &str,
    closed: Option<&ResourceFailure>,
) -> OwnedObject {
    let key = ObjectKey {
        cluster: cluster.clone(),
        group: kind.group.as_str().into(),
        kind: kind.kind.as_str().into(),
        namespace: None,
        name: "(any)".into(),
    };
    OwnedObject {
        api_version: kind.group.as_str().into(),
        node: node.into(),
        uid: "".into(),
        generation: None,
        order: i64::MAX,
        apply_order: i64::MAX,
        terminating: false,
        finalizers: Vec::new(),
        defines: None,
        credentials_for: BTreeSet::new(),
        held: None,
        lifecycle: EvaluatedLifecycle::default(),
        unavailable: closed.cloned(),
        failure: None,
        key,
    }
}

/// A cluster as the inventory names it, with what is known of it now.
fn used(observation: &Observation, owed: &ClusterInventory, cluster: &ClusterId) -> Option<UsedCluster> {
    let recorded = owed.clusters().iter().find(|owed| owed.uid == cluster.as_str())?;
    let key = ReferenceKey::parse(&recorded.reference)?;
    let mut reference = key.resolved()?;
    reference.display.clone_from(&recorded.name);
    let state = observation.observed.clusters.get(&key).cloned();
    let (id, reference) = (cluster.clone(), Arc::new(reference));
    Some(UsedCluster { reference, key, id, state, needed: true, former: false })
}

/// Why a cluster does not answer.
fn dark(
    observation: &Observation,
    owed: &ClusterInventory,
    cluster: &ClusterId,
    name: &Text,
) -> ResourceFailure {
    let led = owed.clusters().iter().filter(|owed| owed.uid == cluster.as_str());
    let mut states = led.filter_map(|owed| {
        observation.observed.clusters.get(&ReferenceKey::parse(&owed.reference)?)?.connection.failure()
    });
    match states.next() {
        Some(failure) => ResourceFailure::not_connected(name, failure),
        None => ResourceFailure::connecting(name),
    }
}

/// A cluster that is connected and does not tell what is there.
fn unlisted(name: &Text, error: &ApiError) -> ResourceFailure {
    ResourceFailure {
        operation: Some(Operation::Get),
        reason: error.reason(),
        message: format!("cannot list what is left in cluster `{name}`: {}", error.message()).into(),
        error: error.message().into(),
        since: None,
        connection: None,
    }
}

/// Everything that the inventory of a cluster may contain, as that cluster has it: each of its kinds by its connection.
pub(super) async fn members(
    wanted: Vec<(&GroupKind, &ClusterClient)>,
    instance: &StoredObject,
    applyset: &str,
    inventory: &Inventory,
    memory: &Memory,
) -> Result<Observation, ApiError> {
    let selector = format!("{}={applyset}", labels::APPLYSET_PART_OF);
    let home = instance.namespace().map(|namespace| &**namespace);
    let mut kinds: Vec<(Arc<ApiKind>, &ClusterClient)> = Vec::new();
    for (kind, client) in wanted {
        match client.discover_kind(&kind.group, None, &kind.kind).await {
            Ok(kind) => kinds.push((kind, client)),
            // The type is gone, and its objects with it.
            Err(error) if error.missing().is_some() => {}
            Err(error) => return Err(error),
        }
    }
    let mut places: Vec<(&ClusterClient, &ApiKind, Option<&str>)> = Vec::new();
    for (kind, client) in &kinds {
        if kind.namespaced {
            let namespaces = inventory.namespaces.iter().map(String::as_str).chain(home);
            places.extend(namespaces.map(|namespace| (*client, &**kind, Some(namespace))));
        } else {
            places.push((client, kind, None));
        }
    }
    let mut observation = Observation::default();
    let lists: Vec<BoxFuture<'_, _>> = places
        .iter()
        .map(|(client, kind, namespace)| {
            let listed = client.list(kind, *namespace, Some(&selector));
            async move { (client.cluster(), listed.await) }.boxed()
        })
        .collect();
    let answers: Vec<_> = stream::iter(lists).buffer_unordered(AT_ONCE).collect().await;
    for (cluster, listed) in answers {
        for object in present(listed)? {
            let key: ObjectKey = object.key(cluster);
            observation.see(key, Arc::new(object), memory);
        }
    }
    Ok(observation)
}

fn present(listed: Result<Vec<StoredObject>, ApiError>) -> Result<Vec<StoredObject>, ApiError> {
    match listed {
        Err(error) if error.missing().is_some() => Ok(Vec::new()),
        listed => listed,
    }
}
