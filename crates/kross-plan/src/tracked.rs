//! The tracked status of every node: expressions see it as `resources.<id>`, and in `lifecycle` over an object's own status. Facts
//! (what failed, which cluster is not connected) take precedence over decisions that followed from them, so that a graph that
//! reacts to a failure does not undo its reaction.

use jiff::Timestamp;
use kross_api::{
    ClusterId, FailureReason, LifecyclePhase, ManagedResource, ObjectKey, Operation, ResourceState,
};
use kross_cel::value::{Duration, Timestamp as CelTimestamp, Value as CelValue};
use kross_graph::{Expression, Graph, Node, NodeIndex, Placement, Scope, Source, TRACKED_FIELDS};
use kross_value::Text;

use crate::observed::{Observed, ObservedObject, ReferenceKey};
use crate::plan::{NodePlan, PlannedObject, UsedCluster};
use crate::progress::Progress;
use crate::walk::{Input, Walk};

const CLUSTER_CONNECTED: &str = "clusterConnected";

/// The tracked status of one object, or of a node without objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tracked {
    state: ResourceState,
    reason: Option<FailureReason>,
    error: Text,
    operation: Option<Operation>,
    cluster: Text,
    /// Whether the cluster is connected; none while that is unknown.
    connected: Option<bool>,
    generation: i64,
    updated: Timestamp,
    failing_since: Option<Timestamp>,
}

/// The tracked statuses of all nodes, in the order of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrackedSet {
    nodes: Vec<Vec<Tracked>>,
}

/// Whether any expression reads the tracked status, so that a second walk may be needed.
pub(crate) fn is_read(graph: &Graph) -> bool {
    expressions(graph).any(|expression| expression.uses("resources"))
}

/// Every expression of a graph that may read the tracked status.
pub(crate) fn expressions(graph: &Graph) -> impl Iterator<Item = &Expression> {
    let status = graph.status.expressions().into_iter().chain(&graph.conditions);
    graph.nodes.iter().flat_map(of_node).chain(status)
}

/// The expressions of a node.
pub(crate) fn of_node(node: &Node) -> Vec<&Expression> {
    let mut found = match &node.source {
        Source::Object(template) => template.expressions(),
        Source::Collection { axes, template } => {
            axes.iter().map(|axis| &axis.items).chain(template.expressions()).collect()
        }
        Source::External { name, namespace } => {
            name.expressions().into_iter().chain(namespace.iter().flat_map(|it| it.expressions())).collect()
        }
        Source::ExternalCollection { selector, .. } => selector.expressions(),
    };
    found.extend(&node.include_when);
    found.extend(crate::lifecycle::expressions(&node.lifecycle));
    found
}

impl TrackedSet {
    /// The statuses before a walk: from facts, and from what was last reported.
    pub(crate) fn from_facts(input: &Input<'_>, scope: &Scope<'_>) -> Self {
        let of_node = |node: &Node| {
            let mut entries: Vec<&ManagedResource> =
                input.previous.iter().filter(|entry| entry.id == node.id.as_str()).collect();
            if !node.is_list() {
                entries.truncate(1);
            }
            let mut tracked: Vec<Tracked> =
                entries.into_iter().map(|entry| Tracked::from_entry(entry, input.now)).collect();
            if tracked.is_empty() && !node.is_list() {
                tracked.push(Tracked::unknown(input.now));
            }
            let cluster = remote(input, node, scope);
            for status in &mut tracked {
                status.overlay_cluster(cluster.as_ref());
            }
            overlay_failure(&mut tracked, node, input.observed);
            tracked
        };
        Self { nodes: input.graph.nodes.iter().map(of_node).collect() }
    }

    /// The statuses after a walk.
    pub(crate) fn from_walk(walk: &Walk<'_>, scope: &Scope<'_>) -> Self {
        let input = &walk.input;
        let of_node = |(node, plan): (&Node, &NodePlan)| {
            let mut tracked: Vec<Tracked> = plan
                .objects
                .iter()
                .map(|object| Tracked::from_progress(&object.progress, object.generation, input.now))
                .collect();
            for (status, object) in tracked.iter_mut().zip(&plan.objects) {
                status.overlay_cluster(walk.used_by(walk.access_paths.to(&object.key), &object.key.cluster));
            }
            if tracked.is_empty() {
                tracked.extend(during_deletion(walk, node, scope));
            }
            if tracked.is_empty() && !node.is_list() {
                tracked.push(Tracked::from_progress(&plan.progress, None, input.now));
            }
            if let (Some(cluster), [status]) = (&plan.cluster, tracked.as_mut_slice()) {
                status.overlay_cluster(walk.used_by(walk.access_paths.to_node(&node.id), cluster));
            }
            overlay_failure(&mut tracked, node, input.observed);
            tracked
        };
        let mut set = Self { nodes: input.graph.nodes.iter().zip(&walk.nodes).map(of_node).collect() };
        for (statuses, plan) in set.nodes.iter_mut().zip(&walk.nodes) {
            for (at, status) in statuses.iter_mut().enumerate() {
                let object = plan.objects.get(at);
                let before = before(input.previous, plan, object);
                // An object that is applied again keeps its state: else a graph that reads the state would apply because it
                // applies.
                if status.state == ResourceState::Applying
                    && object.is_some_and(|object| object.uid.is_some())
                {
                    let pending = before.is_some_and(|before| before.state == ResourceState::Pending);
                    status.state = if pending { ResourceState::Pending } else { ResourceState::Ready };
                }
                status.take_times(before, input.now);
            }
        }
        set
    }

    /// The variable `resources`.
    pub(crate) fn value(&self, graph: &Graph, now: Timestamp) -> CelValue {
        let of_node = |(node, tracked): (&Node, &Vec<Tracked>)| {
            let mut values: Vec<CelValue> = tracked.iter().map(|status| status.value(now)).collect();
            let value = match (node.is_list(), values.pop()) {
                (false, Some(only)) => only,
                (_, last) => {
                    values.extend(last);
                    CelValue::list(values)
                }
            };
            (CelValue::String(node.id.clone()), value)
        };
        CelValue::map(graph.nodes.iter().zip(&self.nodes).map(of_node).collect())
    }

    /// A node as `lifecycle` sees it: its objects, with the tracked status merged over their own.
    pub(crate) fn view(
        &self,
        index: NodeIndex,
        node: &Node,
        objects: &[&ObservedObject],
        now: Timestamp,
    ) -> CelValue {
        let tracked = self.nodes.get(index.0).map_or(&[][..], Vec::as_slice);
        let view = |at: usize, object: Option<&&ObservedObject>| {
            let status = tracked.get(at).or(tracked.first());
            let fields = status.map_or_else(Vec::new, |status| status.fields(now));
            overlaid(node, object.copied(), fields)
        };
        if node.is_list() {
            return CelValue::list(
                objects.iter().enumerate().map(|(at, object)| view(at, Some(object))).collect(),
            );
        }
        view(0, objects.first())
    }

    /// A cluster whose connection state a node reads while it is unknown.
    pub(crate) fn awaited_by(&self, node: &Node) -> Option<&Text> {
        let reads = of_node(node).iter().any(|expression| expression.source.contains(CLUSTER_CONNECTED));
        let mut unknown = self.nodes.iter().flatten().filter(|status| reads && status.connected.is_none());
        unknown.next().map(|status| &status.cluster)
    }

    /// Since when each failing node fails.
    pub(crate) fn failing_since<'s>(
        &'s self,
        graph: &'s Graph,
    ) -> impl Iterator<Item = (&'s Text, Timestamp)> {
        let failing = |(node, tracked): (&'s Node, &'s Vec<Tracked>)| {
            tracked
                .iter()
                .filter_map(move |status| Some((&node.id, status.failing_since?)))
                .collect::<Vec<_>>()
        };
        graph.nodes.iter().zip(&self.nodes).flat_map(failing)
    }
}

/// The statuses of the remaining objects of a node that is no hook, while its instance is being deleted.
fn during_deletion(walk: &Walk<'_>, node: &Node, scope: &Scope<'_>) -> Vec<Tracked> {
    let applies = walk.input.phase == LifecyclePhase::Deletion && !crate::lifecycle::is_hook(node);
    let objects = if applies { walk.objects_of(&node.id) } else { &[] };
    let tracked = |(key, object): &(&ObjectKey, &ObservedObject)| {
        let progress = walk.readiness(node, object, scope);
        let mut status = Tracked::from_progress(&progress, object.generation(), walk.input.now);
        status.overlay_cluster(walk.used_by(walk.access_paths.to_node(&node.id), &key.cluster));
        status
    };
    objects.iter().map(tracked).collect()
}

/// The cluster of a node, with its observed state.
fn remote(input: &Input<'_>, node: &Node, scope: &Scope<'_>) -> Option<UsedCluster> {
    let Placement::Remote(remote) = &node.placement else {
        return None;
    };
    let resolved = remote.resolve(input.instance.namespace(), scope).ok()?;
    let (resolved, _) = input.observed.chosen(resolved);
    let key = ReferenceKey::of(&resolved);
    let state = input.observed.cluster(&key, resolved.authority).cloned();
    let id = state.as_ref().map_or_else(|| ClusterId::new(key.as_str()), |state| state.id.clone());
    Some(UsedCluster {
        reference: std::sync::Arc::new(resolved),
        key,
        id,
        state,
        needed: true,
        former: false,
    })
}

/// A failure of an object counts even while its node is skipped because of it.
fn overlay_failure(tracked: &mut [Tracked], node: &Node, observed: &Observed) {
    let [status] = tracked else {
        return;
    };
    let failure = observed.failures.values().find(|failure| failure.node == node.id);
    if let Some(failure) = failure.filter(|_| status.connected == Some(true)) {
        status.state = ResourceState::Error;
        status.reason = Some(failure.reason);
        status.error = failure.message.clone();
        status.operation = Some(failure.operation);
        status.failing_since = Some(failure.since);
    }
}

/// What was last reported about an object, or about its whole collection.
fn before<'p>(
    previous: &'p [ManagedResource],
    plan: &NodePlan,
    object: Option<&PlannedObject>,
) -> Option<&'p ManagedResource> {
    let of_node = || previous.iter().filter(|entry| entry.id == plan.id.as_str());
    let same = |entry: &&ManagedResource| {
        object.is_some_and(|object| {
            entry.name.as_deref() == Some(&*object.key.name)
                && entry.namespace.as_deref() == object.key.namespace.as_deref()
        })
    };
    of_node().find(same).or_else(|| of_node().find(|entry| entry.name.is_none()))
}

fn time(entry: &ManagedResource) -> Option<Timestamp> {
    entry.last_update_time.as_deref()?.parse().ok()
}

impl Tracked {
    fn unknown(now: Timestamp) -> Self {
        Self {
            state: ResourceState::Pending,
            reason: None,
            error: "".into(),
            operation: None,
            cluster: "".into(),
            connected: Some(true),
            generation: 0,
            updated: now,
            failing_since: None,
        }
    }

    fn from_entry(entry: &ManagedResource, now: Timestamp) -> Self {
        let updated = time(entry).unwrap_or(now);
        let failing = entry.state == ResourceState::Error;
        Self {
            state: entry.state,
            reason: entry.reason.filter(|_| failing),
            error: entry.message.as_deref().filter(|_| failing).unwrap_or_default().into(),
            operation: entry.operation,
            cluster: entry.cluster.as_deref().unwrap_or_default().into(),
            generation: entry.observed_generation.unwrap_or(0),
            updated,
            failing_since: failing.then_some(updated),
            ..Self::unknown(now)
        }
    }

    fn from_progress(progress: &Progress, generation: Option<i64>, now: Timestamp) -> Self {
        let failure = progress.failure();
        Self {
            state: progress.state(),
            reason: failure.map(|failure| failure.reason),
            error: failure.map_or_else(|| "".into(), |failure| failure.error.clone()),
            operation: failure.and_then(|failure| failure.operation),
            generation: generation.unwrap_or(0),
            failing_since: failure.map(|failure| failure.since.unwrap_or(now)),
            ..Self::unknown(now)
        }
    }

    /// Keeps the times while state and reason do not change.
    fn take_times(&mut self, before: Option<&ManagedResource>, now: Timestamp) {
        let same = before.filter(|before| (before.state, before.reason) == (self.state, self.reason));
        if let Some(time) = same.and_then(time) {
            self.updated = time;
            // A failure without a time of its own began when it was first reported.
            if self.failing_since == Some(now) {
                self.failing_since = Some(time);
            }
        }
    }

    /// Sets the cluster's name and connection, whatever the node's progress.
    fn overlay_cluster(&mut self, cluster: Option<&UsedCluster>) {
        let Some(cluster) = cluster else {
            return;
        };
        self.cluster = cluster.reference.display.as_str().into();
        self.connected = cluster.state.as_ref().map(|state| state.connection.is_connected());
        if let Some(failure) = cluster.unavailable().as_ref().and_then(Progress::failure)
            && let Some(since) = failure.since
        {
            self.state = ResourceState::Error;
            self.reason = Some(failure.reason);
            self.error = failure.error.clone();
            self.operation = failure.operation;
            self.failing_since = Some(since);
        }
    }

    /// The fields in the order of their declaration.
    fn fields(&self, now: Timestamp) -> Vec<(CelValue, CelValue)> {
        let word = |word: Option<&'static str>| CelValue::string(word.unwrap_or_default());
        let failing_for = self.failing_since.map_or(0, |since| now.as_nanosecond() - since.as_nanosecond());
        let failing_for = i64::try_from(failing_for.max(0)).unwrap_or(i64::MAX);
        let nanoseconds = u32::try_from(self.updated.subsec_nanosecond()).unwrap_or(0);
        let updated = CelTimestamp::new(self.updated.as_second(), nanoseconds);
        let values = [
            word(Some(self.state.as_str())),
            CelValue::Bool(self.state == ResourceState::Ready),
            word(self.reason.map(FailureReason::as_str)),
            CelValue::String(self.error.clone()),
            word(self.operation.map(Operation::as_str)),
            CelValue::String(self.cluster.clone()),
            CelValue::Bool(self.connected == Some(true)),
            CelValue::Int(self.generation),
            updated.map_or(CelValue::Null, CelValue::Timestamp),
            CelValue::Duration(Duration { nanoseconds: failing_for }),
        ];
        let fields = TRACKED_FIELDS.iter().map(|(name, _)| *name).zip(values);
        // An expression that reads it waits until it is known: a guess could create and delete objects for nothing.
        let known = fields.filter(|(name, _)| self.connected.is_some() || *name != CLUSTER_CONNECTED);
        known.map(|(name, value)| (CelValue::string(name), value)).collect()
    }

    fn value(&self, now: Timestamp) -> CelValue {
        CelValue::map(self.fields(now))
    }
}

/// An object with these fields merged over its own status.
fn overlaid(node: &Node, object: Option<&ObservedObject>, fields: Vec<(CelValue, CelValue)>) -> CelValue {
    let is_tracked = |key: &CelValue| matches!(key, CelValue::String(name) if TRACKED_FIELDS.iter().any(|(field, _)| *name == **field));
    let object = object.filter(|object| object.withheld.is_none());
    let value = object.map(|object| CelValue::from_data(&object.value, Some(&node.object_type)));
    let mut entries: Vec<(CelValue, CelValue)> = Vec::new();
    let mut status = fields;
    if let Some(CelValue::Map(map)) = &value {
        for (key, value) in map {
            match (&key, &value) {
                (CelValue::String(name), CelValue::Map(own)) if *name == *"status" => {
                    status.extend(own.into_iter().filter(|(key, _)| !is_tracked(key)));
                }
                (CelValue::String(name), _) if *name == *"status" => {}
                _ => entries.push((key, value)),
            }
        }
    }
    entries.push((CelValue::string("status"), CelValue::map(status)));
    CelValue::map(entries)
}
