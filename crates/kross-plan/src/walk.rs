//! Walks the nodes in topological order: which are skipped, which must wait, what the desired objects of the others are, and the
//! progress of each. A walk reads only the observed state and decides nothing about pruning.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use kross_api::{ClusterId, LifecyclePhase, ManagedResource, ObjectKey};
use kross_cel::Budget;
use kross_cel::error::EvalError;
use kross_cel::types::Type;
use kross_cel::value::Value as CelValue;
use kross_graph::{Expression, Graph, Node, NodeIndex, RenderError, Scope, Source};
use kross_value::{Text, Value};

use crate::access_paths::AccessPaths;
use crate::deletion::HookRecord;
use crate::desired::Ownership;
use crate::instance::Instance;
use crate::lifecycle::{self, EvaluatedLifecycle};
use crate::observed::{KindKey, Observed, ObservedObject, ReferenceKey};
use crate::plan::{ExternalRead, MissingHook, NodePlan, PlannedObject, UsedCluster};
use crate::progress::{Progress, ResourceFailure, Skip};
use crate::secrets;
use crate::settings::Settings;
use crate::tracked::TrackedSet;

mod collection;
mod external;
mod hook;
mod limits;
mod namespaces;
mod object;
mod placement;
mod readiness;
mod reserved;

/// How much more than a single object a collection may cost to evaluate.
const COLLECTION_SHARE: u64 = 5;

/// The input of a walk.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) instance: Instance<'a>,
    pub(crate) observed: &'a Observed,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Timestamp,
    /// Which nodes are planned: the deletion hooks, or the others.
    pub(crate) phase: LifecyclePhase,
    /// Deletion hooks that are planned as well, since objects to prune wait for them.
    pub(crate) due_hooks: &'a BTreeSet<Text>,
    /// Which deletion hooks were created and which have completed.
    pub(crate) hook_record: &'a HookRecord,
    pub(crate) previous: &'a [ManagedResource],
}

/// A walk and its results.
pub(crate) struct Walk<'a> {
    pub(crate) input: Input<'a>,
    pub(crate) ownership: Ownership,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) clusters: Vec<UsedCluster>,
    /// Where the references with a key are in `clusters`.
    clusters_by_key: HashMap<ReferenceKey, Vec<usize>>,
    clusters_by_id: HashMap<ClusterId, Vec<usize>>,
    /// References by selector, with those of the targets that were chosen for them.
    pub(crate) choices: BTreeMap<ReferenceKey, ReferenceKey>,
    pub(crate) reads: Vec<ExternalRead>,
    /// Kinds whose scope has to be discovered.
    pub(crate) unscoped: RefCell<Vec<(KindKey, Text)>>,
    /// Which reference is used for each object.
    pub(crate) access_paths: AccessPaths,
    /// Objects of deletion hooks that do not exist and are not created, or not created again.
    pub(crate) missing_hooks: Vec<MissingHook>,
    /// The instance's objects by node, in the order of the collection.
    by_node: HashMap<&'a str, Vec<(&'a ObjectKey, &'a ObservedObject)>>,
    tracked: TrackedSet,
    /// The size of all rendered objects.
    rendered_size: Cell<usize>,
    /// Reserved labels, annotations and finalizers of observed objects, once they are needed.
    reserved_entries: OnceCell<reserved::ReservedEntries>,
}

/// The result of visiting a node: its progress, its objects and the value that expressions see.
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
        secrets::hide_keys(graph, &mut scope);
        let unvisited = |node: &Node| NodePlan {
            id: node.id.clone(),
            progress: Progress::Blocked { by: Vec::new() },
            objects: Vec::new(),
            cluster: None,
            live: true,
            external: node.is_external(),
            secret: scope.hides_keys(&node.id),
        };
        let nodes = graph.nodes.iter().map(unvisited).collect();
        let (clusters, reads) = (Vec::new(), Vec::new());
        let unscoped = RefCell::default();
        let access_paths = AccessPaths::default();
        let mut walk = Self {
            input,
            ownership,
            nodes,
            clusters,
            clusters_by_key: HashMap::new(),
            clusters_by_id: HashMap::new(),
            choices: BTreeMap::new(),
            reads,
            unscoped,
            access_paths,
            missing_hooks: Vec::new(),
            by_node,
            tracked,
            rendered_size: Cell::new(0),
            reserved_entries: OnceCell::new(),
        };
        for index in &graph.order {
            if let Some(node) = graph.node(*index) {
                // A collection evaluates the same expressions for each item.
                let share = if node.is_list() { COLLECTION_SHARE } else { 1 };
                *budget.borrow_mut() = settings.budget(share);
                walk.step(*index, node, &mut scope);
            }
        }
        *budget.borrow_mut() = settings.budget(1);
        walk.add_former_clusters();
        (walk, scope)
    }

    fn step(&mut self, index: NodeIndex, node: &'a Node, scope: &mut Scope<'a>) {
        let cluster = self.preview(node, scope);
        let reads_before = self.reads.len();
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
                format!("waiting for the connection state of cluster `{cluster}`").into(),
            ),
            (progress, _) => progress,
        };
        let live = self.is_live(node, reads_before);
        if let Some(plan) = self.nodes.get_mut(index.0) {
            plan.live = live;
            plan.progress = progress;
            plan.objects = visit.objects;
            plan.cluster = cluster;
        }
    }

    /// Whether what a node was computed from is in sync: its dependencies, and what it reads itself.
    fn is_live(&self, node: &Node, reads_before: usize) -> bool {
        let mut dependencies = node.dependencies.iter().filter_map(|needed| self.nodes.get(needed.node.0));
        let mut own = self.reads.iter().skip(reads_before);
        dependencies.all(|needed| needed.live) && !own.any(|read| self.input.observed.stale.contains(read))
    }

    /// Why a node is not evaluated, if it is not.
    fn gate(&self, node: &Node, scope: &Scope<'_>) -> Option<Progress> {
        if let Some(skip) = self.skipped_by_dependency(node) {
            return Some(skip);
        }
        self.excluded(node, scope, &[]).or_else(|| self.blocked(node, &[]))
    }

    /// The dependencies that must be ready first. Those in `given` only have to exist.
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

    /// Evaluates `includeWhen`. A false condition counts even while others wait for the nodes that they read.
    fn excluded(&self, node: &Node, scope: &Scope<'_>, given: &[Text]) -> Option<Progress> {
        let mut open = None;
        for condition in &node.include_when {
            let mut by = self.unready_reads(condition);
            by.retain(|id| !given.contains(id));
            if !by.is_empty() {
                open.get_or_insert(Progress::Blocked { by });
                continue;
            }
            let outcome = condition.evaluate_bool(scope);
            if let Ok(outcome) = outcome {
                self.input.settings.record(&condition.path, outcome);
            }
            match outcome {
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
            return Ok(self.observed_node(node));
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

    /// A node that is no hook, during the deletion of the instance: its observed objects.
    fn observed_node(&self, node: &Node) -> Visit {
        let objects = self.objects_of(&node.id);
        if objects.is_empty() && !node.is_list() {
            return Visit::from(Progress::Skipped(Skip::ActiveOnly));
        }
        let value = value_of(node, objects.iter().map(|(_, object)| *object));
        Visit { progress: Progress::Ready, objects: Vec::new(), value }
    }

    /// The observed objects of a node.
    pub(crate) fn objects_of(&self, id: &str) -> &[(&'a ObjectKey, &'a ObservedObject)] {
        self.by_node.get(id).map_or(&[], Vec::as_slice)
    }

    /// Every observed object of the instance.
    pub(crate) fn own_objects(&self) -> impl Iterator<Item = (&'a ObjectKey, &'a ObservedObject)> {
        self.by_node.values().flatten().copied()
    }

    /// The lifecycle of a node's objects.
    pub(crate) fn lifecycle(&self, node: &Node, scope: &Scope<'_>) -> EvaluatedLifecycle {
        let kept = self.objects_of(&node.id).first().map(|(_, object)| EvaluatedLifecycle::of(object));
        let mut views = Scope::over(scope);
        let expressions = lifecycle::expressions(&node.lifecycle);
        for read in expressions.iter().flat_map(|expression| &expression.references.reads) {
            if let Some((index, other)) = self.input.graph.find(&read.variable) {
                let objects: Vec<&ObservedObject> =
                    self.objects_of(&other.id).iter().map(|(_, object)| *object).collect();
                views.set(read.variable.clone(), self.tracked.view(index, other, &objects, self.input.now));
            }
        }
        lifecycle::evaluate(self.input.graph, node, &views, kept.as_ref())
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

/// What expressions see of a node: its object, or the list of them. None if the object does not exist, or if it or an item of
/// the list is withheld.
pub(super) fn value_of<'v>(
    node: &Node,
    objects: impl IntoIterator<Item = &'v ObservedObject>,
) -> Option<CelValue> {
    let objects: Vec<&ObservedObject> = objects.into_iter().collect();
    if objects.iter().any(|object| object.withheld.is_some()) {
        return None;
    }
    let mut objects = objects.into_iter();
    if node.is_list() {
        let items = Value::list(objects.map(|object| object.value.clone()));
        return Some(CelValue::from_data(&items, Some(&Type::list(node.object_type.clone()))));
    }
    objects.next().map(|object| CelValue::from_data(&object.value, Some(&node.object_type)))
}

/// The progress of a node whose expression has no value.
pub(super) fn not_evaluated(expression: &Expression, error: &EvalError) -> Progress {
    let message = format!("{}: `{}`: {error}", expression.path, expression.source);
    if error.fault.is_pending() {
        Progress::Unresolved(message.into())
    } else {
        Progress::Failed(ResourceFailure::expression(message))
    }
}

/// The progress of a node whose template cannot be rendered.
pub(super) fn not_rendered(error: &RenderError) -> Progress {
    if error.is_pending() {
        Progress::Unresolved(error.to_string().into())
    } else {
        Progress::Failed(ResourceFailure::expression(error.to_string()))
    }
}
