//! What must be applied before an object is pruned: its successor, the nodes that read it, and the nodes that may replace it.

use std::collections::BTreeSet;

use kross_api::{ObjectKey, ResourceState, annotations};
use kross_cel::references::PathSegment;
use kross_graph::{Expression, Node, NodeIndex, Source};
use kross_value::Text;

use super::{Decision, applied, depends, is_computed, is_managed};
use crate::observed::ObservedObject;
use crate::plan::{NodePlan, PlannedObject};
use crate::progress::Progress;
use crate::walk::Walk;
use crate::{deletion, tracked};

impl Decision<'_, '_> {
    /// What must be applied first, if anything.
    pub(super) fn successor(&self) -> Option<Text> {
        let own = self.node();
        let is_included = |plan: &NodePlan| !matches!(plan.progress, Progress::Skipped(_));
        let mut awaited: Vec<&Text> = match own {
            Some((_, node, plan)) if is_included(plan) => {
                if matches!(node.source, Source::Collection { .. }) {
                    return self.item_successor(plan);
                }
                (!plan.progress.is_applied()).then_some(&node.id).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let others = self.managed().filter(|(index, _, plan)| {
            own.is_none_or(|(own, ..)| own != *index) && !plan.progress.is_applied()
        });
        let awaited_others = others.filter(|(_, node, plan)| match own {
            Some((index, own, _)) => {
                self.reads(node, index)
                    || reads_state(own.include_when.iter(), &node.id)
                    || self.may_replace(node, plan)
            }
            None => self.may_have_read(node, plan) || self.may_replace(node, plan),
        });
        awaited.extend(awaited_others.map(|(_, node, _)| &node.id));
        (!awaited.is_empty()).then(|| applied(&awaited))
    }

    /// Whether a node reads the objects or the state of another one, directly or through others.
    fn reads(&self, node: &Node, other: NodeIndex) -> bool {
        let id = self.walk.input.graph.node(other).map(|other| &other.id);
        depends(self.walk, node, other)
            || id.is_some_and(|id| reads_state(tracked::of_node(node).into_iter(), id))
    }

    /// Whether a node may replace this object.
    fn may_replace(&self, node: &Node, plan: &NodePlan) -> bool {
        self.replacements.contains(&(self.owned.node.clone(), node.id.clone())) && self.may_be_in(node, plan)
    }

    /// Whether an existing object of a node may still read this one, whose node is not in the graph any more: it was created after
    /// it, and is not as desired.
    fn may_have_read(&self, node: &Node, plan: &NodePlan) -> bool {
        let order = self.owned.apply_order;
        let is_later = |object: &ObservedObject| object.apply_order() > order;
        let graph_order = i64::try_from(node.apply_order).unwrap_or(i64::MAX);
        if !is_computed(node, plan) {
            let observed = self.walk.objects_of(&node.id);
            return observed.iter().any(|(_, object)| is_later(object))
                || (observed.is_empty() && graph_order > order);
        }
        plan.objects.iter().filter(|object| object.differs).any(|object| self.is_behind(object, graph_order))
    }

    fn is_behind(&self, object: &PlannedObject, graph_order: i64) -> bool {
        match self.walk.input.observed.objects.get(&object.key) {
            Some(found) => found.apply_order() > self.owned.apply_order,
            // Only its cluster knows whether it exists.
            None => object.progress.is_unreachable() && graph_order > self.owned.apply_order,
        }
    }
}

/// The nodes that may replace objects which are not desired: they have no objects yet, and were new, or newly included, when those
/// were still desired. The status tells which nodes were; an earlier plan keeps it from then on.
pub(super) fn replacements(
    walk: &Walk<'_>,
    unwanted: &[(&ObjectKey, &ObservedObject)],
) -> BTreeSet<(Text, Text)> {
    let input = &walk.input;
    let recorded = deletion::replacements(input.instance.annotation(annotations::DELETE_ATTEMPTS));
    let mut former: Vec<&str> = unwanted.iter().filter_map(|(_, object)| object.node()).collect();
    former.sort_unstable();
    former.dedup();
    let mut found = BTreeSet::new();
    for (node, plan) in input.graph.nodes.iter().zip(&walk.nodes) {
        let entries = || input.previous.iter().filter(|entry| entry.id == node.id.as_str());
        let has_objects =
            || !walk.objects_of(&node.id).is_empty() || entries().any(|entry| entry.uid.is_some());
        if !is_managed(node) || plan.progress.is_applied() || has_objects() {
            continue;
        }
        let is_new = !entries().any(|entry| entry.state != ResourceState::Skipped);
        let replaced = former.iter().filter(|former| is_new || recorded.contains(former, &node.id));
        found.extend(replaced.map(|former| (Text::from(*former), node.id.clone())));
    }
    found
}

/// Whether an expression reads the state of a node: `resources.<id>`.
fn reads_state<'e>(mut expressions: impl Iterator<Item = &'e Expression>, id: &Text) -> bool {
    expressions.any(|expression| {
        let mut reads = expression.references.reads.iter().filter(|read| read.variable == *"resources");
        reads.any(|read| match read.path.first() {
            Some(PathSegment::Field(field)) => field == id,
            _ => true,
        })
    })
}
