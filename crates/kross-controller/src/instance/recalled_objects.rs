//! What was last known of the objects in clusters that cannot be listed, so that the order of deletion is kept and the status
//! can name what the deletion waits for: from caches, else from the status, else from the graph.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use kross_api::{ClusterId, GroupKind, Inventory, ManagedResource, ResourceState, annotations, labels};
use kross_cluster::ObjectKey;
use kross_graph::{Graph, Node, Placement};
use kross_plan::{EvaluatedLifecycle, Instance, ObservedObject, OwnedObject, ResourceFailure, Settings};
use kross_value::{Object, Text, Value};

use super::cluster_inventory::RemoteInventory;
use super::pass::Pass;
use crate::kinds;

/// What was recalled, beside the objects in the observation.
#[derive(Default)]
pub(super) struct Recalled {
    /// Whether the observation has objects that only the status tells of.
    pub(super) from_status: bool,
    /// Objects of which only the kind is known.
    pub(super) unnamed: Vec<OwnedObject>,
}

/// A cluster that cannot be listed, and the collections that may have items there.
type OpenCollections<'e> = (ClusterId, Vec<&'e ManagedResource>);

impl Pass<'_> {
    /// Observes what was last known of clusters that cannot be listed: from their caches, else from the status, else that
    /// there may be objects of each kind.
    pub(super) fn recall_objects(
        &mut self,
        remotes: &[&RemoteInventory],
        graph: Option<&Graph>,
        blocked: &BTreeMap<ClusterId, ResourceFailure>,
    ) -> Recalled {
        let mut all = Recalled::default();
        if remotes.is_empty() {
            return all;
        }
        let applyset = self.remote_applyset_id();
        let entries = Instance::of(self.instance.value()).resources();
        let known = self.observe_last_known(remotes.iter().map(|remote| &remote.cluster));
        let mut open: Vec<OpenCollections<'_>> = Vec::new();
        for RemoteInventory { cluster, name, contents, .. } in remotes {
            if known.contains(cluster) {
                continue;
            }
            let there = entries.iter().filter(|entry| entry.cluster.as_deref() == Some(name.as_str()));
            let recalled: Vec<_> =
                there.filter_map(|entry| from_entry(cluster, entry, graph, &applyset)).collect();
            let is_unknown = recalled.is_empty();
            all.from_status |= !is_unknown;
            self.observation.observed.objects.extend(recalled);
            let collections: Vec<&ManagedResource> =
                entries.iter().filter(|entry| is_collection(entry, name, contents, graph)).collect();
            if is_unknown && collections.is_empty() {
                let kinds = contents.group_kinds.iter();
                all.unnamed.extend(kinds.map(|kind| any_of_kind(cluster, kind, "", blocked.get(cluster))));
            }
            open.push((cluster.clone(), collections));
        }
        open.retain(|(_, collections)| !collections.is_empty());
        self.recall_collections(&open, graph, blocked, &mut all);
        all
    }

    /// Observes the items of collections, of which the status has only a summary. The graph knows the items, unless it
    /// depends on what cannot be read now. It is evaluated once, however many clusters there are.
    fn recall_collections(
        &mut self,
        open: &[OpenCollections<'_>],
        graph: Option<&Graph>,
        blocked: &BTreeMap<ClusterId, ResourceFailure>,
        all: &mut Recalled,
    ) {
        let applyset = self.remote_applyset_id();
        let plan = graph.filter(|_| !open.is_empty()).and_then(|graph| {
            let (instance, now) = (self.instance.value(), Timestamp::now());
            let observed = &self.observation.observed;
            let plan = |settings: &Settings| kross_plan::plan(graph, instance, observed, settings, now);
            self.context.planner.make(&self.memory.plan_length, plan).ok()
        });
        let nodes = plan.iter().flat_map(|plan| &plan.nodes);
        let mut items: HashMap<(&str, &ClusterId), Vec<&ObjectKey>> = HashMap::new();
        for (node, object) in nodes.flat_map(|node| node.objects.iter().map(move |object| (node, object))) {
            items.entry((node.id.as_str(), &object.key.cluster)).or_default().push(&object.key);
        }
        for (cluster, entry) in open.iter().flat_map(|(at, all)| all.iter().map(move |entry| (at, *entry))) {
            let Some(keys) = items.get(&(entry.id.as_str(), cluster)) else {
                let unnamed =
                    kind_of(entry).map(|kind| any_of_kind(cluster, &kind, &entry.id, blocked.get(cluster)));
                all.unnamed.extend(unnamed);
                continue;
            };
            for key in keys {
                all.from_status = true;
                let object = || placeholder(key, entry, graph, &applyset);
                self.observation.observed.objects.entry((*key).clone()).or_insert_with(object);
            }
        }
    }
}

/// Whether an entry of the status summarizes a collection that may have items in a cluster.
fn is_collection(
    entry: &ManagedResource,
    cluster: &str,
    contents: &Inventory,
    graph: Option<&Graph>,
) -> bool {
    let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
    let remote = |node: &Node| matches!(node.placement, Placement::Remote(_));
    entry.name.is_none()
        && entry.state != ResourceState::Skipped
        // Items may be in several clusters.
        && entry.cluster.as_deref().is_none_or(|named| named == cluster)
        && kind_of(entry).is_some_and(|kind| contents.group_kinds.contains(&kind))
        && node.is_none_or(|node| node.is_list() && !node.is_external() && remote(node))
}

pub(super) fn kind_of(entry: &ManagedResource) -> Option<GroupKind> {
    let api_version = entry.api_version.as_deref().unwrap_or_default();
    Some(GroupKind::new(kinds::group_of(api_version), entry.kind.as_deref()?))
}

/// An object as far as an entry of the status describes it.
fn from_entry(
    cluster: &ClusterId,
    entry: &ManagedResource,
    graph: Option<&Graph>,
    applyset: &str,
) -> Option<(ObjectKey, ObservedObject)> {
    // External objects are not deleted.
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
    let object = placeholder(&key, entry, graph, applyset);
    Some((key, object))
}

/// An object of which only the key is known and what the status has of its node.
fn placeholder(
    key: &ObjectKey,
    entry: &ManagedResource,
    graph: Option<&Graph>,
    applyset: &str,
) -> ObservedObject {
    // An object whose place in the order is unknown is deleted first.
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

/// Stands for all objects of a kind. It is deleted first, since its place in the order is unknown.
fn any_of_kind(
    cluster: &ClusterId,
    kind: &GroupKind,
    node: &str,
    blocked: Option<&ResourceFailure>,
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
        unavailable: blocked.cloned(),
        failure: None,
        blocks: true,
        key,
    }
}
