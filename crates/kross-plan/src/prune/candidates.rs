//! What an unresolved node or item may still turn out to be: an object of the same kind, namespace and name is not pruned.

use std::collections::HashSet;

use kross_api::ClusterId;
use kross_graph::{Expression, Field, Node, NodeIndex, Part, Placement, Scope, Source, Template};
use kross_value::Text;

use super::{Decision, is_computed, is_managed};
use crate::plan::{NodePlan, PlannedObject, UsedCluster};
use crate::walk::Walk;

/// A node whose objects are not known, and what is known of their names.
pub(super) struct Unresolved<'a> {
    node: &'a Node,
    index: NodeIndex,
    name: Pattern,
    namespace: Pattern,
}

/// The nodes whose objects are not known.
pub(super) fn unresolved<'a>(walk: &Walk<'a>, scope: &Scope<'_>) -> Vec<Unresolved<'a>> {
    let home =
        walk.input.instance.namespace().map_or_else(Pattern::any, |home| Pattern::Exactly(home.into()));
    let nodes = walk.input.graph.nodes.iter().zip(&walk.nodes).enumerate();
    let open = nodes.filter(|(_, (node, plan))| is_managed(node) && !is_computed(node, plan));
    let unresolved = |(at, (node, _)): (usize, (&'a Node, &NodePlan))| {
        let (Source::Object(template) | Source::Collection { template, .. }) = &node.source else {
            return None;
        };
        let metadata = template.get("metadata");
        let pattern = |field: &str, default: Pattern| {
            let field = metadata.and_then(|metadata| metadata.get(field));
            field.map_or(default, |field| Pattern::of(field, scope))
        };
        let (name, namespace) = (pattern("name", Pattern::any()), pattern("namespace", home.clone()));
        Some(Unresolved { node, index: NodeIndex(at), name, namespace })
    };
    open.filter_map(unresolved).collect()
}

/// What is known of a name before all of its expressions have a value.
#[derive(Clone)]
enum Pattern {
    Exactly(Text),
    /// The part before the first unknown expression, and the part after the last one.
    Between(String, String),
}

impl Pattern {
    fn any() -> Self {
        Self::Between(String::new(), String::new())
    }

    fn of(field: Field<'_>, scope: &Scope<'_>) -> Self {
        // Only what is read from the instance does not change any more.
        let is_known = |expression: &Expression| {
            expression.references.reads.iter().all(|read| read.variable == *"schema")
        };
        let known = |expression: &Expression| {
            Some(expression).filter(|it| is_known(it)).and_then(|it| it.evaluate_string(scope).ok())
        };
        match field {
            Field::Literal(value) => value.as_str().map_or_else(Self::any, |name| Self::Exactly(name.into())),
            Field::Template(Template::Expression(expression)) => {
                known(expression).map_or_else(Self::any, |name| Self::Exactly(name.as_ref().into()))
            }
            Field::Template(Template::Text(parts)) => {
                let part = |part: &Part| match part {
                    Part::Literal(text) => Some(text.to_string()),
                    Part::Expression(expression) => known(expression).map(|text| text.to_string()),
                };
                let parts: Vec<Option<String>> = parts.iter().map(part).collect();
                let prefix: Vec<String> = parts.iter().map_while(Clone::clone).collect();
                if prefix.len() == parts.len() {
                    return Self::Exactly(prefix.concat().into());
                }
                let mut suffix: Vec<String> = parts.iter().rev().map_while(Clone::clone).collect();
                suffix.reverse();
                Self::Between(prefix.concat(), suffix.concat())
            }
            Field::Template(_) => Self::any(),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exactly(known) => *known == *name,
            Self::Between(prefix, suffix) => {
                name.len() >= prefix.len() + suffix.len()
                    && name.starts_with(prefix)
                    && name.ends_with(suffix)
            }
        }
    }
}

impl Decision<'_, '_> {
    /// What must be known first, if a desired object may turn out to be this one.
    pub(super) fn candidate(&self) -> Option<Text> {
        let unresolved = self.unresolved.iter().find(|unresolved| self.may_be(unresolved));
        match unresolved {
            Some(unresolved) => Some(format!("the objects of `{}` are known", unresolved.node.id).into()),
            None => self.managed().find_map(|(_, node, plan)| self.candidate_item(node, plan)),
        }
    }

    /// Whether an object of an unresolved node may be this one.
    fn may_be(&self, unresolved: &Unresolved<'_>) -> bool {
        let Unresolved { node, index, name, namespace } = unresolved;
        node.kind.group == self.key.group
            && node.kind.kind == self.key.kind
            && name.matches(&self.key.name)
            && self.key.namespace.as_ref().is_none_or(|own| namespace.matches(own))
            && self.walk.nodes.get(index.0).is_some_and(|plan| self.may_be_in(node, plan))
    }

    /// The same for the items of a node: one in a cluster that was never identified, one that was not observed yet in a cluster that
    /// claims to be the same one, or one of a kind whose scope is unknown.
    fn candidate_item(&self, node: &Node, plan: &NodePlan) -> Option<Text> {
        if node.kind.group != self.key.group || node.kind.kind != self.key.kind {
            return None;
        }
        let is_same = |object: &PlannedObject| {
            let key = &object.key;
            if key.name != self.key.name {
                return false;
            }
            // Such as while the certificate authority in one of two Secrets is rotated. Its UID will tell whether it is this one.
            let may_be_here = object.uid.is_none() && key.cluster.claim() == self.key.cluster.claim();
            let is_unscoped = self.is_unscoped(node, &key.cluster);
            let is_here = key.cluster == self.key.cluster;
            (is_unscoped || key.namespace == self.key.namespace)
                && if is_here { is_unscoped } else { may_be_here || self.unidentified.contains(&key.cluster) }
        };
        let mut managed = plan.objects.iter().filter(|object| object.desired.is_some());
        let found = managed.find(|object| is_same(object))?;
        let cluster = self.walk.display_of(&found.key).unwrap_or_default();
        let is_claimed = found.key.cluster.claim() == self.key.cluster.claim();
        let what = if is_claimed && found.key.cluster != self.key.cluster {
            format!("`{}` is applied in cluster `{cluster}` (it may be this object)", node.id)
        } else {
            format!("cluster `{cluster}` is connected (it may be the cluster that this object is in)")
        };
        Some(what.into())
    }

    /// Whether it is unknown if a node's kind is namespaced in a cluster.
    fn is_unscoped(&self, node: &Node, cluster: &ClusterId) -> bool {
        let input = &self.walk.input;
        let key = (cluster.clone(), node.kind.group.clone(), node.kind.kind.clone());
        node.kind.known.is_none()
            && !input.settings.assume_namespaced
            && !input.observed.scopes.contains_key(&key)
    }

    /// Whether the objects of a node may be in this object's cluster.
    pub(super) fn may_be_in(&self, node: &Node, plan: &NodePlan) -> bool {
        let is_there =
            |id: &ClusterId| id.claim() == self.key.cluster.claim() || self.unidentified.contains(id);
        if !plan.objects.is_empty() {
            return plan.objects.iter().any(|object| is_there(&object.key.cluster));
        }
        match (&node.placement, &plan.cluster) {
            (Placement::Local, _) => self.key.cluster.is_local(),
            (Placement::Remote(_), Some(id)) => is_there(id),
            (Placement::Remote(_), None) => true,
        }
    }
}

/// The references of which it is unknown where they lead: each may lead to any cluster.
pub(super) fn unidentified<'w>(walk: &'w Walk<'_>) -> HashSet<&'w ClusterId> {
    let is_identified = |used: &UsedCluster| used.state.as_ref().is_some_and(|state| state.uid.is_some());
    let identified: HashSet<&ClusterId> =
        walk.clusters.iter().filter(|used| is_identified(used)).map(|used| &used.id).collect();
    walk.clusters.iter().map(|used| &used.id).filter(|id| !identified.contains(id)).collect()
}
