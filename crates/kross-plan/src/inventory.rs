//! Turns a walk into what the instance has or is about to have, by cluster: what must be written down before it is made.

use std::collections::{BTreeMap, HashSet};

use kross_api::{ClusterId, GroupKind, Inventory};
use kross_graph::{Field, Node, NodeIndex, Placement, Source};
use kross_value::Text;

use crate::progress::Progress;
use crate::walk::Walk;

/// What is there or about to be, by cluster.
pub(crate) fn inventory(walk: &Walk<'_>) -> BTreeMap<ClusterId, Inventory> {
    let home = walk.input.instance.namespace();
    let mut local = Inventory::default();
    let coming = coming(walk).map(|node| &node.kind);
    let coming = coming.filter(|kind| !is_hidden(walk, &ClusterId::local(), &kind.group, &kind.kind));
    local.group_kinds.extend(coming.map(|kind| GroupKind::new(&kind.group, &kind.kind)));
    let mut inventories = BTreeMap::from([(ClusterId::local(), local)]);
    let planned = walk.nodes.iter().flat_map(|node| &node.objects);
    let written = planned.filter(|object| object.desired.is_some()).map(|object| &object.key);
    let written = written.filter(|key| !is_hidden(walk, &key.cluster, &key.group, &key.kind));
    for key in written.chain(walk.own_objects().map(|(key, _)| key)) {
        let inventory = inventories.entry(key.cluster.clone()).or_default();
        inventory.group_kinds.insert(GroupKind::new(&key.group, &key.kind));
        if let Some(namespace) = key.namespace.as_deref().filter(|namespace| Some(*namespace) != home) {
            inventory.namespaces.insert(namespace.to_owned());
        }
    }
    inventories
}

/// Whether nothing is made of a kind of the local cluster, since it cannot be read. An instance that has nothing of it can
/// then be deleted without looking for it.
fn is_hidden(walk: &Walk<'_>, cluster: &ClusterId, group: &Text, kind: &Text) -> bool {
    let unlisted = &walk.input.observed.unlisted;
    cluster.is_local() && unlisted.contains_key(&(cluster.clone(), group.clone(), kind.clone()))
}

/// The nodes that follow in the same pass, since all they read is what the ones before them are written with. Their kinds
/// are written down together with the others', so that a chain of kinds costs one write and not one for each.
fn coming<'a>(walk: &Walk<'a>) -> impl Iterator<Item = &'a Node> + use<'a> {
    let graph = walk.input.graph;
    let at_home = walk.input.instance.namespace().is_some();
    let mut now: HashSet<NodeIndex> = HashSet::new();
    let mut next = Vec::new();
    for index in &graph.order {
        let (Some(node), Some(plan)) = (graph.node(*index), walk.nodes.get(index.0)) else { continue };
        let follows = || {
            let certain = |needed: NodeIndex, fields: &[String]| {
                let is_written_with = |field: &String| is_written_with(graph.node(needed), field);
                now.contains(&needed) && fields.iter().all(is_written_with)
            };
            stays_home(node, at_home) && node.dependencies.iter().all(|edge| certain(edge.node, &edge.fields))
        };
        // What must become ready first may take its time.
        let at_once = node.ready_when.is_empty();
        let here = match plan.progress {
            Progress::Ready => true,
            Progress::Applying => at_once,
            Progress::Blocked { .. } if follows() => {
                next.push(node);
                at_once
            }
            _ => false,
        };
        if here {
            now.insert(*index);
        }
    }
    next.into_iter()
}

/// Whether a node is one object in the instance's own namespace, whatever happens.
fn stays_home(node: &Node, at_home: bool) -> bool {
    let Source::Object(template) = &node.source else { return false };
    let elsewhere = template.get("metadata").and_then(|metadata| metadata.get("namespace")).is_some();
    let namespaced = node.kind.known.as_ref().map(|known| known.namespaced);
    let placed = namespaced == Some(false) || (namespaced == Some(true) && at_home && !elsewhere);
    placed && matches!(node.placement, Placement::Local) && node.include_when.is_empty()
}

/// Whether a node's template gives the field at this path.
fn is_written_with(node: Option<&Node>, path: &str) -> bool {
    let Some(Source::Object(template)) = node.map(|node| &node.source) else { return false };
    path.split('.').try_fold(Field::Template(template), Field::get).is_some()
}
