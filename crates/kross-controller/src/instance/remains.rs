//! Everything that an instance has, wherever it is, from what is persisted alone: what clusters answer, and of those that do
//! not answer what was last known, so that the order is kept and people can see what is waited for.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use kross_api::{
    ClusterId, ClusterInventory, GroupKind, Inventory, ManagedResource, Operation, ResourceState, SyncMode,
    annotations, labels,
};
use kross_cluster::{ApiError, ApiKind, Connection, ObjectKey, StoredObject};
use kross_graph::Graph;
use kross_plan::{Answers, DoomedObject, Instance, ObservedObject, ReferenceKey, Trouble, UsedCluster};
use kross_value::{Object, Text, Value};

use super::children;
use super::clusters::{self, Asker};
use super::error::InstanceError;
use super::manage::{self, Record};
use super::memory::Memory;
use super::observe::Sight;
use super::reach::Reach;
use crate::graphs::Served;

/// Lists of one instance that run at once.
const AT_ONCE: usize = 8;

/// What an instance has.
pub(super) struct Remains {
    pub(super) sight: Sight,
    /// Why nothing can be done in a cluster.
    closed: BTreeMap<ClusterId, Trouble>,
    /// Objects in such clusters of which only the inventory tells.
    reported: Vec<DoomedObject>,
    /// Whether the sight has objects of which only the status tells: how they are to go is not kept there.
    pub(super) remembered: bool,
    /// The remote clusters.
    pub(super) clusters: Vec<UsedCluster>,
}

impl Remains {
    /// Everything that is to go.
    pub(super) fn doomed(&self, memory: &Memory) -> Vec<DoomedObject> {
        let seen = self.sight.observed.objects.iter().map(|(key, object)| {
            let mut doomed = DoomedObject::new(key.clone(), object);
            doomed.closed = self.closed.get(&key.cluster).cloned();
            doomed.failure = memory.failures.get(key).cloned();
            doomed
        });
        let mut objects: Vec<DoomedObject> = seen.chain(self.reported.iter().cloned()).collect();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects
    }
}

/// Finds everything.
///
/// # Errors
/// The local cluster refuses or does not answer.
pub(super) async fn gather(
    asker: &Asker<'_>,
    served: &Served,
    record: &Record,
    reach: &mut Reach<'_>,
    memory: &mut Memory,
) -> Result<Remains, InstanceError> {
    let (hub, instance) = (asker.hub, asker.instance);
    let applyset = manage::applyset(served, instance);
    let sight = members(&hub.connection, instance, &applyset, &record.local, memory).await?;
    let mut remains = Remains {
        sight,
        closed: BTreeMap::new(),
        reported: Vec::new(),
        remembered: false,
        clusters: Vec::new(),
    };
    asker.recall(reach, &mut remains.sight, memory);
    let mut owed = record.remote.clone();
    clusters::rename(&mut owed, &remains.sight);
    for (reference, uid) in &remains.sight.abandoned {
        owed.retain(|cluster| cluster.reference != *reference || cluster.uid != *uid);
    }
    let applyset = manage::remote_applyset(hub, served, instance);
    let graph = served.leaving_graph();
    for (cluster, (name, contents)) in clusters::contents(&owed) {
        remains.clusters.extend(used(&remains.sight, &owed, &cluster));
        let found = match reach.connection(&cluster) {
            Ok(connection) => {
                let found = members(connection, instance, &applyset, &contents, memory);
                reach.wait([&cluster], found).await.map_err(|error| unlisted(&name, &error))
            }
            Err(_) => Err(dark(&remains.sight, &owed, &cluster, &name)),
        };
        match found {
            Ok(found) => {
                follow(asker, &cluster, &contents, graph, reach, memory).await;
                remains.sight.extend(found);
            }
            Err(trouble) => {
                remains.closed.insert(cluster.clone(), trouble.clone());
                remember(asker, (&cluster, &name, &contents), (graph, &applyset), &mut remains, memory);
            }
        }
    }
    Ok(remains)
}

/// Has the end of objects told, unless their cluster is polled: then the deletion itself looks again.
async fn follow(
    asker: &Asker<'_>,
    cluster: &ClusterId,
    contents: &Inventory,
    graph: Option<&Graph>,
    reach: &mut Reach<'_>,
    memory: &mut Memory,
) {
    let polled = Instance::of(asker.instance.value()).clusters();
    if polled
        .iter()
        .any(|entry| entry.uid.as_deref() == Some(cluster.as_str()) && entry.mode == SyncMode::Poll)
    {
        return;
    }
    let contents = BTreeMap::from([(cluster.clone(), (Text::from(""), contents.clone()))]);
    let wanted = children::recorded(&contents, graph);
    let mut aside = Sight::default();
    let instance = (asker.key, asker.instance.uid().as_str());
    children::see(asker.hub, instance, wanted, reach, &mut aside, memory).await;
}

/// What was last known of a cluster that nothing can be asked of: from the copies, else from the status, else that there may
/// be something of each kind.
fn remember(
    asker: &Asker<'_>,
    (cluster, name, contents): (&ClusterId, &Text, &Inventory),
    (graph, applyset): (Option<&Graph>, &str),
    remains: &mut Remains,
    memory: &mut Memory,
) {
    let before = remains.sight.observed.objects.len();
    children::remember(asker.instance.uid(), cluster, &mut remains.sight, memory);
    if remains.sight.observed.objects.len() > before {
        return;
    }
    let entries = Instance::of(asker.instance.value()).resources();
    let there: Vec<&ManagedResource> =
        entries.iter().filter(|entry| entry.cluster.as_deref() == Some(name.as_str())).collect();
    for (key, object) in there.iter().filter_map(|entry| reported(cluster, entry, graph, applyset)) {
        remains.remembered = true;
        remains.sight.observed.objects.insert(key, object);
    }
    let unknown = |kind: &GroupKind| of_kind(cluster, kind, remains.closed.get(cluster));
    let doomed: Vec<DoomedObject> = if there.is_empty() {
        contents.group_kinds.iter().map(unknown).collect()
    } else {
        // A collection that was summed up: nobody knows its objects one by one.
        let summed =
            there.iter().filter(|entry| entry.name.is_none() && entry.state != ResourceState::Skipped);
        summed.filter_map(|entry| kind_of(entry)).map(|kind| unknown(&kind)).collect()
    };
    remains.reported.extend(doomed);
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
    if node.is_some_and(kross_graph::Node::is_external) {
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
    // Where nobody knows its place, it goes before everything else.
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
    let object = Value::object([
        ("apiVersion", Value::from(entry.api_version.as_deref().unwrap_or_default())),
        ("kind", Value::from(kind)),
        ("metadata", Value::Object(metadata)),
    ]);
    Some((key, ObservedObject::new(object)))
}

/// Any object of a kind. It goes before everything else, since nobody knows its place.
fn of_kind(cluster: &ClusterId, kind: &GroupKind, closed: Option<&Trouble>) -> DoomedObject {
    let key = ObjectKey {
        cluster: cluster.clone(),
        group: kind.group.as_str().into(),
        kind: kind.kind.as_str().into(),
        namespace: None,
        name: "(any)".into(),
    };
    DoomedObject {
        api_version: kind.group.as_str().into(),
        node: "".into(),
        uid: "".into(),
        generation: None,
        order: i64::MAX,
        apply_order: i64::MAX,
        terminating: false,
        finalizers: Vec::new(),
        defines: None,
        answers: Answers::default(),
        closed: closed.cloned(),
        failure: None,
        key,
    }
}

/// A cluster as the inventory names it, with what is known of it now.
fn used(sight: &Sight, owed: &ClusterInventory, cluster: &ClusterId) -> Option<UsedCluster> {
    let recorded = owed.clusters().iter().find(|owed| owed.uid == cluster.as_str())?;
    let key = ReferenceKey::parse(&recorded.reference)?;
    let mut reference = key.resolved()?;
    reference.display.clone_from(&recorded.name);
    let state = sight.observed.clusters.get(&key).cloned();
    let (id, reference) = (cluster.clone(), Arc::new(reference));
    Some(UsedCluster { reference, key, id, state, needed: true, former: false })
}

/// Why a cluster does not answer.
fn dark(sight: &Sight, owed: &ClusterInventory, cluster: &ClusterId, name: &Text) -> Trouble {
    let led = owed.clusters().iter().filter(|owed| owed.uid == cluster.as_str());
    let mut states = led.filter_map(|owed| {
        sight.observed.clusters.get(&ReferenceKey::parse(&owed.reference)?)?.trouble(name)
    });
    states.next().unwrap_or_else(|| Trouble {
        operation: Some(Operation::Connect),
        reason: kross_api::FailureReason::Unreachable,
        message: format!("cluster `{name}` is being connected").into(),
        error: "".into(),
        since: None,
    })
}

/// A cluster that is connected and does not tell what is there.
fn unlisted(name: &Text, error: &ApiError) -> Trouble {
    Trouble {
        operation: Some(Operation::Get),
        reason: error.reason(),
        message: format!("cannot list what is left in cluster `{name}`: {}", error.message()).into(),
        error: error.message().into(),
        since: None,
    }
}

/// Everything that the inventory of a cluster may contain, as that cluster has it.
pub(super) async fn members(
    connection: &Connection,
    instance: &StoredObject,
    applyset: &str,
    inventory: &Inventory,
    memory: &Memory,
) -> Result<Sight, ApiError> {
    let selector = format!("{}={applyset}", labels::APPLYSET_PART_OF);
    let home = instance.namespace().map(|namespace| &**namespace);
    let mut kinds: Vec<Arc<ApiKind>> = Vec::new();
    for kind in &inventory.group_kinds {
        match connection.kind(&kind.group, None, &kind.kind).await {
            Ok(kind) => kinds.push(kind),
            // The type is gone, and its objects with it.
            Err(error) if error.missing().is_some() => {}
            Err(error) => return Err(error),
        }
    }
    let mut places: Vec<(&ApiKind, Option<&str>)> = Vec::new();
    for kind in &kinds {
        if kind.namespaced {
            let namespaces = inventory.namespaces.iter().map(String::as_str).chain(home);
            places.extend(namespaces.map(|namespace| (&**kind, Some(namespace))));
        } else {
            places.push((kind, None));
        }
    }
    let mut sight = Sight::default();
    let lists: Vec<BoxFuture<'_, _>> = places
        .iter()
        .map(|(kind, namespace)| connection.list(kind, *namespace, Some(&selector)).boxed())
        .collect();
    let answers: Vec<_> = stream::iter(lists).buffer_unordered(AT_ONCE).collect().await;
    for listed in answers {
        for object in present(listed)? {
            let key: ObjectKey = object.key(connection.cluster());
            sight.see(key, Arc::new(object), memory);
        }
    }
    Ok(sight)
}

fn present(listed: Result<Vec<StoredObject>, ApiError>) -> Result<Vec<StoredObject>, ApiError> {
    match listed {
        Err(error) if error.missing().is_some() => Ok(Vec::new()),
        listed => listed,
    }
}
