//! Turns a walk into the inventory: what the instance has or is about to have in each cluster. It is written before the first apply.

use std::collections::{BTreeMap, HashSet};

use kross_api::{ClusterId, GroupKind, Inventory};
use kross_graph::{Field, Node, NodeIndex, Placement, Source};
use kross_value::Text;

use crate::progress::Progress;
use crate::walk::Walk;

/// The inventory of each cluster.
pub(crate) fn inventory(walk: &Walk<'_>) -> BTreeMap<ClusterId, Inventory> {
    let home = walk.input.instance.namespace();
    let mut local = Inventory::default();
    let upcoming = upcoming(walk).map(|node| &node.kind);
    let upcoming = upcoming.filter(|kind| !is_unreadable(walk, &ClusterId::local(), &kind.group, &kind.kind));
    local.group_kinds.extend(upcoming.map(|kind| GroupKind::new(&kind.group, &kind.kind)));
    let mut inventories = BTreeMap::from([(ClusterId::local(), local)]);
    let planned = walk.nodes.iter().flat_map(|node| &node.objects);
    let written = planned.filter(|object| object.desired.is_some()).map(|object| &object.key);
    let written = written.filter(|key| !is_unreadable(walk, &key.cluster, &key.group, &key.kind));
    for key in written.chain(walk.own_objects().map(|(key, _)| key)) {
        let inventory = inventories.entry(key.cluster.clone()).or_default();
        inventory.group_kinds.insert(GroupKind::new(&key.group, &key.kind));
        if let Some(namespace) = key.namespace.as_deref().filter(|namespace| Some(*namespace) != home) {
            inventory.namespaces.insert(namespace.to_owned());
        }
    }
    inventories
}

/// Whether a kind of the local cluster cannot be listed. Nothing of it is applied then, and without it in the inventory the
/// instance can be deleted without listing it.
fn is_unreadable(walk: &Walk<'_>, cluster: &ClusterId, group: &Text, kind: &Text) -> bool {
    let unlisted = &walk.input.observed.unlisted;
    cluster.is_local() && unlisted.contains_key(&(cluster.clone(), group.clone(), kind.clone()))
}

/// The nodes that can follow in the same reconcile, since they only read fields that the templates of earlier nodes set. Their kinds
/// are recorded together with the others, so that a chain costs one write of the inventory and not one for each kind.
fn upcoming<'a>(walk: &Walk<'a>) -> impl Iterator<Item = &'a Node> + use<'a> {
    let graph = walk.input.graph;
    let namespaced = walk.input.instance.namespace().is_some();
    let mut applied: HashSet<NodeIndex> = HashSet::new();
    let mut next = Vec::new();
    for index in &graph.order {
        let (Some(node), Some(plan)) = (graph.node(*index), walk.nodes.get(index.0)) else { continue };
        let follows = || {
            let certain = |needed: NodeIndex, fields: &[String]| {
                let is_set = |field: &String| is_set_by_template(graph.node(needed), field);
                applied.contains(&needed) && fields.iter().all(is_set)
            };
            is_in_own_namespace(node, namespaced)
                && node.dependencies.iter().all(|edge| certain(edge.node, &edge.fields))
        };
        // A node with `readyWhen` may not be ready within this reconcile.
        let at_once = node.ready_when.is_empty();
        let is_applied = match plan.progress {
            Progress::Ready | Progress::Contested(_) => true,
            Progress::Applying => at_once,
            Progress::Blocked { .. } if follows() => {
                next.push(node);
                at_once
            }
            _ => false,
        };
        if is_applied {
            applied.insert(*index);
        }
    }
    next.into_iter()
}

/// Whether a node is certain to be one object in the instance's own namespace, or cluster-scoped.
fn is_in_own_namespace(node: &Node, instance_namespaced: bool) -> bool {
    let Source::Object(template) = &node.source else { return false };
    let elsewhere = template.get("metadata").and_then(|metadata| metadata.get("namespace")).is_some();
    let namespaced = node.kind.known.as_ref().map(|known| known.namespaced);
    let placed = namespaced == Some(false) || (namespaced == Some(true) && instance_namespaced && !elsewhere);
    placed && matches!(node.placement, Placement::Local) && node.include_when.is_empty()
}

/// Whether a node's template sets the field at this path.
fn is_set_by_template(node: Option<&Node>, path: &str) -> bool {
    let Some(Source::Object(template)) = node.map(|node| &node.source) else { return false };
    path.split('.').try_fold(Field::Template(template), Field::get).is_some()
}
