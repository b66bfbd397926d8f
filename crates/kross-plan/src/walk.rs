//! Walks the nodes in topological order: who is left out, who must wait, what the others' objects are, and how far each of
//! them is. One walk reads only what was observed; it writes nothing and decides nothing about pruning.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use kross_api::{LifecyclePhase, ManagedResource, ObjectKey};
use kross_cel::Budget;
use kross_cel::error::EvalError;
use kross_cel::types::Type;
use kross_cel::value::Value as CelValue;
use kross_graph::{Expression, Graph, Node, NodeIndex, RenderError, Scope, Source};
use kross_value::{Text, Value};

use crate::access_paths::AccessPaths;
use crate::desired::Ownership;
use crate::instance::Instance;
use crate::lifecycle::{self, Answers};
use crate::observed::{KindKey, Observed, ObservedObject};
use crate::plan::{ExternalRead, NodePlan, PlannedObject, UsedCluster};
use crate::progress::{Progress, ResourceFailure, Skip};
use crate::settings::Settings;
use crate::tracked::TrackedSet;

mod collection;
mod external;
mod hook;
mod object;
mod place;
mod readiness;

/// How much more than a single object a collection may cost.
const COLLECTION_SHARE: u64 = 5;

/// What a walk starts from.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) instance: Instance<'a>,
    pub(crate) observed: &'a Observed,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Timestamp,
    /// Which nodes are planned: those of a living instance, or those that exist for its deletion.
    pub(crate) phase: LifecyclePhase,
    /// Nodes that exist for the deletion of others, and are there now since objects that wait for them are to go.
    pub(crate) awaited: &'a BTreeSet<Text>,
    pub(crate) previous: &'a [ManagedResource],
}

/// A walk and what it found.
pub(crate) struct Walk<'a> {
    pub(crate) input: Input<'a>,
    pub(crate) ownership: Ownership,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) clusters: Vec<UsedCluster>,
    pub(crate) reads: Vec<ExternalRead>,
    /// Kinds whose scope has to be found out.
    pub(crate) unscoped: RefCell<Vec<(KindKey, Text)>>,
    /// By which references objects are reached.
    pub(crate) access_paths: AccessPaths,
    /// The instance's objects by node, in the order of the collection.
    by_node: HashMap<&'a str, Vec<(&'a ObjectKey, &'a ObservedObject)>>,
    tracked: TrackedSet,
}

/// What a node comes to: how far it is, with its objects and the value that expressions see.
pub(super) struct Visit {
    progress: Progress,
    objects: Vec<PlannedObject>,
    value: Option<CelValue>,
}

impl From<Progress> for Visit {
    fn from(progress: Progress) -> Self {
        Self { progress, objects: Vec::new(), value: None }
    }
}

impl<'a> Walk<'a> {
    /// Walks all nodes. The scope holds what expressions of status and conditions may read afterwards.
    pub(crate) fn run(
        input: Input<'a>,
        tracked: TrackedSet,
        budget: &'a RefCell<Budget>,
    ) -> (Self, Scope<'a>) {
        let Input { graph, instance, observed, settings, now, .. } = input;
        let ownership = Ownership::new(graph, &instance, settings);
        let by_node = by_node(observed, &ownership);
        let mut scope = Scope::new(budget);
        let schema = instance.schema(graph.instance.external);
        scope.set("schema", CelValue::from_data(&schema, Some(&graph.schema_type)));
        scope.set("resources", tracked.value(graph, now));
        let unvisited = |node: &Node| NodePlan {
            id: node.id.clone(),
            progress: Progress::Blocked { by: Vec::new() },
            objects: Vec::new(),
            cluster: None,
            external: node.is_external(),
        };
        let nodes = graph.nodes.iter().map(unvisited).collect();
        let (clusters, reads) = (Vec::new(), Vec::new());
        let unscoped = RefCell::default();
        let access_paths = AccessPaths::default();
        let mut walk =
            Self { input, ownership, nodes, clusters, reads, unscoped, access_paths, by_node, tracked };
        for index in &graph.order {
            if let Some(node) = graph.node(*index) {
                // A collection does the same work many times over.
                let share = if node.is_list() { COLLECTION_SHARE } else { 1 };
                *budget.borrow_mut() = Budget::new(settings.budget.saturating_mul(share));
                walk.step(*index, node, &mut scope);
            }
        }
        *budget.borrow_mut() = Budget::new(settings.budget);
        walk.add_former_clusters();
        (walk, scope)
    }

    fn step(&mut self, index: NodeIndex, node: &'a Node, scope: &mut Scope<'a>) {
        let cluster = self.preview(node, scope);
        let visit = if lifecycle::is_hook(node) {
            self.hook(node, scope)
        } else {
            match self.gate(node, scope) {
                Some(progress) => Visit::from(progress),
                None => self.visit(node, scope).unwrap_or_else(Visit::from),
            }
        };
        if let Some(value) = visit.value {
            scope.set(node.id.clone(), value);
        }
        if !matches!(visit.progress, Progress::Skipped(_)) {
            self.mark_needed(cluster.as_ref(), &visit.objects);
        }
        let progress = match (visit.progress, self.tracked.awaited_by(node)) {
            (Progress::Unresolved(_), Some(cluster)) => Progress::Unresolved(
                format!("waits until it is known whether cluster `{cluster}` answers").into(),
            ),
            (progress, _) => progress,
        };
        if let Some(plan) = self.nodes.get_mut(index.0) {
            plan.progress = progress;
            plan.objects = visit.objects;
            plan.cluster = cluster;
        }
    }

    /// Why a node is not looked at any further, if so.
    fn gate(&self, node: &Node, scope: &Scope<'_>) -> Option<Progress> {
        if let Some(skip) = self.skipped_by_dependency(node) {
            return Some(skip);
        }
        self.excluded(node, scope, &[]).or_else(|| self.blocked(node, &[]))
    }

    /// Who must be ready first. Of those in `given` it is enough that they are there.
    fn blocked(&self, node: &Node, given: &[Text]) -> Option<Progress> {
        let waits_for = node.dependencies.iter().filter_map(|dependency| self.nodes.get(dependency.node.0));
        let unready = waits_for.filter(|needed| !needed.progress.is_ready() && !given.contains(&needed.id));
        let by: Vec<Text> = unready.map(|needed| needed.id.clone()).collect();
        (!by.is_empty()).then_some(Progress::Blocked { by })
    }

    fn skipped_by_dependency(&self, node: &Node) -> Option<Progress> {
        let mut needed = node.dependencies.iter().filter_map(|dependency| self.nodes.get(dependency.node.0));
        let skipped = needed.find(|needed| matches!(needed.progress, Progress::Skipped(_)))?;
        Some(Progress::Skipped(Skip::Dependency(skipped.id.clone())))
    }

    /// What `includeWhen` says. A false one counts even while others must wait for what they read.
    fn excluded(&self, node: &Node, scope: &Scope<'_>, given: &[Text]) -> Option<Progress> {
        let mut open = None;
        for condition in &node.include_when {
            let mut by = self.unready_reads(condition);
            by.retain(|id| !given.contains(id));
            if !by.is_empty() {
                open.get_or_insert(Progress::Blocked { by });
                continue;
            }
            match condition.evaluate_bool(scope) {
                Ok(true) => {}
                Ok(false) => return Some(Progress::Skipped(Skip::Condition(condition.source.clone()))),
                Err(error) => {
                    open.get_or_insert(not_evaluated(condition, &error));
                }
            }
        }
        open
    }

    /// The nodes that an expression reads and that are not ready.
    fn unready_reads(&self, expression: &Expression) -> Vec<Text> {
        let mut by: Vec<Text> = Vec::new();
        for read in &expression.references.reads {
            let node = self.nodes.iter().find(|node| node.id == read.variable);
            if let Some(node) = node.filter(|node| !node.progress.is_ready())
                && !by.contains(&node.id)
            {
                by.push(node.id.clone());
            }
        }
        by
    }

    fn visit(&mut self, node: &'a Node, scope: &Scope<'_>) -> Result<Visit, Progress> {
        if self.input.phase == LifecyclePhase::Deletion
            && node.lifecycle.phase == LifecyclePhase::Active
            && !node.is_external()
        {
            return Ok(self.as_it_is(node));
        }
        match &node.source {
            Source::Object(template) => self.single(node, template, scope),
            Source::Collection { axes, template } => self.collection(node, axes, template, scope),
            Source::External { name, namespace } => self.external(node, name, namespace.as_ref(), scope),
            Source::ExternalCollection { selector, namespace, namespace_selector } => {
                let namespaces = (namespace.as_ref(), namespace_selector.as_ref());
                self.external_collection(node, selector, namespaces, scope)
            }
        }
    }

    /// A node of a living instance, looked at from its deletion: whatever there is of it.
    fn as_it_is(&self, node: &Node) -> Visit {
        let objects = self.objects_of(&node.id);
        if objects.is_empty() && !node.is_list() {
            return Visit::from(Progress::Skipped(Skip::ActiveOnly));
        }
        let value = value_of(node, objects.iter().map(|(_, object)| *object));
        Visit { progress: Progress::Ready, objects: Vec::new(), value }
    }

    /// The instance's objects of a node.
    pub(crate) fn objects_of(&self, id: &str) -> &[(&'a ObjectKey, &'a ObservedObject)] {
        self.by_node.get(id).map_or(&[], Vec::as_slice)
    }

    /// Every object of the instance that is there.
    pub(crate) fn own_objects(&self) -> impl Iterator<Item = (&'a ObjectKey, &'a ObservedObject)> {
        self.by_node.values().flatten().copied()
    }

    /// How the objects of a node go.
    pub(crate) fn answers(&self, node: &Node, scope: &Scope<'_>) -> Answers {
        let kept = self.objects_of(&node.id).first().map(|(_, object)| Answers::of(object));
        let mut views = Scope::over(scope);
        let expressions = lifecycle::expressions(&node.lifecycle);
        for read in expressions.iter().flat_map(|expression| &expression.references.reads) {
            if let Some((index, other)) = self.input.graph.find(&read.variable) {
                let objects: Vec<&ObservedObject> =
                    self.objects_of(&other.id).iter().map(|(_, object)| *object).collect();
                views.set(read.variable.clone(), self.tracked.view(index, other, &objects, self.input.now));
            }
        }
        lifecycle::answer(self.input.graph, node, &views, kept.as_ref())
    }
}

fn by_node<'a>(
    observed: &'a Observed,
    ownership: &Ownership,
) -> HashMap<&'a str, Vec<(&'a ObjectKey, &'a ObservedObject)>> {
    let mut by_node: HashMap<&str, Vec<_>> = HashMap::new();
    for (key, object) in &observed.objects {
        if object.part_of() == Some(ownership.applyset(&key.cluster)) {
            by_node.entry(object.node().unwrap_or_default()).or_default().push((key, object));
        }
    }
    for objects in by_node.values_mut() {
        objects.sort_by_key(|(key, object)| (object.collection_index(), *key));
    }
    by_node
}

/// What expressions see of a node: its object, or the list of them. None for an object that is not there.
pub(super) fn value_of<'v>(
    node: &Node,
    objects: impl IntoIterator<Item = &'v ObservedObject>,
) -> Option<CelValue> {
    let mut objects = objects.into_iter();
    if node.is_list() {
        let items = Value::list(objects.map(|object| object.value.clone()));
        return Some(CelValue::from_data(&items, Some(&Type::list(node.object_type.clone()))));
    }
    objects.next().map(|object| CelValue::from_data(&object.value, Some(&node.object_type)))
}

/// How far a node is whose expression has no value.
pub(super) fn not_evaluated(expression: &Expression, error: &EvalError) -> Progress {
    let message = format!("{}: `{}`: {error}", expression.path, expression.source);
    if error.fault.is_pending() {
        Progress::Unresolved(message.into())
    } else {
        Progress::Failed(ResourceFailure::expression(message))
    }
}

/// How far a node is whose template cannot be rendered.
pub(super) fn not_rendered(error: &RenderError) -> Progress {
    if error.is_pending() {
        Progress::Unresolved(error.to_string().into())
    } else {
        Progress::Failed(ResourceFailure::expression(error.to_string()))
    }
}
