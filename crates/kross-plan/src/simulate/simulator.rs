//! A controller and its clusters, simulated: plans, applies what a plan says, stores it as an API server would, and plans again. The
//! planner is the controller's, and so is the order of what happens in a reconcile.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kross_api::{
    ClusterId, FailureReason, ObjectKey, Operation, ResolvedCluster, ResolvedCredentials, labels,
};
use kross_graph::Graph;
use kross_value::{Text, Value};

use super::action::{Action, ActionKind};
use super::api_servers::ApiServers;
use super::clusters::{self, Connection, is_named};
use super::existing::{ExistingObject, Location, is_same};
use super::{instance, selector};
use crate::deletion::DeletionPlan;
use crate::observed::{InventoryCluster, Observed, ObservedObject, OperationFailure, ReferenceKey};
use crate::plan::{ExternalRead, MissingCause, Plan, PlannedObject, UsedCluster};
use crate::planner::{plan, plan_for_deletion};
use crate::settings::Settings;

/// How often time alone may make the controller reconcile while a simulation waits.
const MAX_RECHECKS: usize = 1_000;

/// A controller with one instance, and its clusters.
#[derive(Debug)]
pub struct Simulator {
    pub(super) instance: Value,
    pub(super) observed: Observed,
    pub(super) settings: Settings,
    pub(super) now: Timestamp,
    /// Whether the instance was deleted.
    pub(super) deleted: bool,
    pub(super) wave: usize,
    pub(super) actions: Vec<Action>,
    pub(super) status: Value,
    pub(super) references: BTreeMap<ClusterId, (ReferenceKey, Arc<ResolvedCluster>)>,
    next: Option<Timestamp>,
    pub(super) existing: Vec<ExistingObject>,
    connections: BTreeMap<String, (Connection, Timestamp)>,
    pub(super) refusals: BTreeMap<Text, Refusal>,
    statuses: Vec<GivenStatus>,
    pub(super) servers: ApiServers,
}

/// What an API server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whether deletions are refused, and not writes.
    pub deletions: bool,
    /// The class of the failure.
    pub reason: FailureReason,
    /// The message of the API server.
    pub message: Text,
}

/// The last plans of a reconcile.
#[derive(Debug)]
pub struct Reconcile {
    /// The plan; while the instance is being deleted, that of the deletion hooks.
    pub plan: Plan,
    /// The plan of the deletion of the instance, if it was requested.
    pub deletion: Option<DeletionPlan>,
}

/// A status that the controllers of a node's objects write.
#[derive(Clone, Debug)]
struct GivenStatus {
    node: Text,
    /// One status for each object, or a list with one for each item.
    status: Value,
    given: HashSet<ObjectKey>,
}

impl Simulator {
    /// A controller that has not reconciled the instance yet.
    #[must_use]
    pub fn new(instance: Value, settings: &Settings, now: Timestamp) -> Self {
        Self {
            status: instance.get("status").cloned().unwrap_or_default(),
            instance,
            observed: Observed::default(),
            settings: Settings { assume_namespaced: true, ..settings.clone() },
            now,
            deleted: false,
            wave: 0,
            actions: Vec::new(),
            references: BTreeMap::new(),
            next: None,
            existing: Vec::new(),
            connections: BTreeMap::new(),
            refusals: BTreeMap::new(),
            statuses: Vec::new(),
            servers: ApiServers::default(),
        }
    }

    /// The instance, with its status.
    #[must_use]
    pub fn instance(&self) -> &Value {
        &self.instance
    }

    /// The status that the controller reports.
    #[must_use]
    pub fn status(&self) -> &Value {
        &self.status
    }

    /// Whether the instance was deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The objects of the instance, sorted, with the names of their clusters.
    #[must_use]
    pub fn objects(&self) -> Vec<(&ObjectKey, Option<&ResolvedCluster>, &ObservedObject)> {
        let uid = self.instance.at(&["metadata", "uid"]).and_then(Value::as_str);
        let own =
            |object: &ObservedObject| object.part_of().is_some() && object.label(labels::INSTANCE_ID) == uid;
        let mut objects: Vec<_> = self
            .observed
            .objects
            .iter()
            .filter(|(_, object)| own(object))
            .map(|(key, object)| (key, self.reference(&key.cluster), object))
            .collect();
        objects.sort_by_key(|(key, reference, _)| (reference.map(|it| it.display.as_str()), *key));
        objects
    }

    /// What the controller did since this was last called, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The clusters that the controller knows.
    pub fn clusters(&self) -> impl Iterator<Item = &ResolvedCluster> {
        self.references.values().map(|(_, reference)| &**reference)
    }

    /// What was last applied of an object.
    #[must_use]
    pub fn desired(&self, key: &ObjectKey) -> Option<&Value> {
        self.servers.applied(key)
    }

    pub(super) fn into_observed(self) -> Observed {
        self.observed
    }

    /// Edits the instance, with a merge patch.
    pub fn edit(&mut self, graph: &Graph, patch: &Value) {
        self.instance = instance::edited(graph, &self.instance, patch);
    }

    /// Requests the deletion of the instance.
    pub fn request_deletion(&mut self) {
        if !instance::is_deleting(&self.instance) {
            self.instance = instance::deleting(&self.instance, self.now);
        }
    }

    /// Connects or disconnects the cluster with this name, now and whenever it is used.
    pub fn set_connection(&mut self, name: &str, connection: Connection) {
        let since = connection.since(self.now);
        for (key, reference) in self.references.values() {
            if !is_named(reference, name) {
                continue;
            }
            for clusters in [&mut self.observed.clusters, &mut self.observed.clusters_by_owner] {
                if let Some(state) = clusters.get_mut(key)
                    && state.connection.is_connected() != since.is_connected()
                {
                    state.connection = since.clone();
                    if since.is_connected() {
                        state.uid = Some(clusters::uid_of(reference));
                    }
                }
            }
        }
        self.connections.insert(name.to_owned(), (connection, self.now));
    }

    /// Refuses writes or deletions of a node's objects; none ends that.
    pub fn refuse(&mut self, node: &str, refusal: Option<Refusal>) {
        match refusal {
            Some(refusal) => drop(self.refusals.insert(node.into(), refusal)),
            None => drop(self.refusals.remove(node)),
        }
        self.observed.failures.retain(|_, failure| failure.node != *node);
    }

    /// Creates an object, or changes it with a merge patch, as another client.
    pub fn add_object(&mut self, location: &Location, object: &Value) {
        let references = &self.references;
        let is_here = |key: &ObjectKey| {
            location.is_in(references.get(&key.cluster).map(|(_, reference)| &**reference))
                && is_same(key, object)
        };
        let known = self.observed.objects.iter_mut().find(|(key, _)| is_here(key));
        if let Some((key, known)) = known {
            known.value = self.servers.patch(&known.value, object);
            known.drifted = !self.servers.has_applied(key, &known.value);
            if known.terminating() && known.finalizers().is_empty() {
                let key = key.clone();
                self.remove(&key);
            }
            return;
        }
        let same = |known: &&mut ExistingObject| {
            known.location == *location && metadata_of(&known.value) == metadata_of(object)
        };
        match self.existing.iter_mut().find(same) {
            Some(known) => known.value = self.servers.patch(&known.value, object),
            None => {
                self.existing.push(ExistingObject { location: location.clone(), value: object.clone() });
            }
        }
    }

    /// Deletes an object, as another client. Returns whether it existed.
    pub fn delete_object(&mut self, location: &Location, object: &Value) -> bool {
        let before = self.existing.len();
        self.existing
            .retain(|known| known.location != *location || metadata_of(&known.value) != metadata_of(object));
        let is_here = |key: &&ObjectKey| location.is_in(self.reference(&key.cluster)) && is_same(key, object);
        let key = self.observed.objects.keys().find(is_here).cloned();
        let existed = key.is_some() || self.existing.len() < before;
        if let Some(key) = key {
            self.delete_stored(&key);
        }
        existed
    }

    /// The controllers of a node's objects write this status as soon as an object exists. A list has one for each item of a
    /// collection.
    pub fn set_status(&mut self, node: &str, status: Value) {
        self.statuses.retain(|known| known.node != *node);
        self.statuses.push(GivenStatus { node: node.into(), status, given: HashSet::new() });
    }

    /// The nodes with a status that no object exists for, since this was last called.
    pub fn take_unused_statuses(&mut self) -> Vec<Text> {
        let unused = std::mem::take(&mut self.statuses);
        unused.into_iter().filter(|status| status.given.is_empty()).map(|status| status.node).collect()
    }

    /// Lets time pass. The controller reconciles whenever time alone changes something.
    pub fn advance(&mut self, graph: &Graph, by: SignedDuration) {
        let Ok(end) = self.now.checked_add(by) else { return };
        for _ in 0..MAX_RECHECKS {
            match self.next.filter(|next| *next > self.now && *next <= end && !self.deleted) {
                Some(next) => {
                    self.now = next;
                    self.reconcile(graph);
                }
                None => break,
            }
        }
        self.now = end;
    }

    /// Reconciles the instance until nothing changes, and writes its status.
    pub fn reconcile(&mut self, graph: &Graph) -> Reconcile {
        self.observed.externals.clear();
        self.observed.collections.clear();
        let reconcile = if instance::is_deleting(&self.instance) {
            self.delete_instance(graph)
        } else {
            let (plan, _) = self.apply_all(graph);
            let plan = self.prune_all(graph, plan);
            self.status = plan.status.clone();
            Reconcile { plan, deletion: None }
        };
        let Reconcile { plan, deletion } = &reconcile;
        let due = deletion.as_ref().and_then(|deletion| deletion.recheck_at);
        self.next = plan.recheck_at.into_iter().chain(due).min();
        if !graph.instance.external
            && let Some(fields) = self.instance.as_object_mut()
        {
            fields.insert("status", self.status.clone());
        }
        reconcile
    }

    /// Plans and applies until nothing is left to apply. Returns the last plan, and how many there were.
    pub(super) fn apply_all(&mut self, graph: &Graph) -> (Plan, usize) {
        let mut attempted: HashSet<ObjectKey> = HashSet::new();
        // Each round applies a wave, resolves a cluster, reads a reference, or is the last one.
        let limit = 8 * graph.nodes.len() + 16;
        let mut plan = self.plan(graph);
        for count in 1.. {
            let changed =
                self.answer(&plan) || self.apply(&plan, &mut attempted) || self.write_statuses(graph);
            if !changed || count >= limit {
                return (plan, count);
            }
            plan = self.plan(graph);
        }
        (plan, limit)
    }

    fn prune_all(&mut self, graph: &Graph, mut plan: Plan) -> Plan {
        for _ in 0..self.observed.objects.len() + graph.nodes.len() + 1 {
            let done = self.delete_wave(&plan.prune);
            // What was deleted may let something be applied, as the event of the deletion would.
            plan = self.apply_all(graph).0;
            if !done {
                break;
            }
        }
        plan
    }

    pub(super) fn plan(&mut self, graph: &Graph) -> Plan {
        self.record_clusters();
        let planner = if instance::is_deleting(&self.instance) { plan_for_deletion } else { plan };
        let planned = planner(graph, &self.instance, &self.observed, &self.settings, self.now);
        self.observed.previous.clone_from(&planned.resources);
        if !instance::is_deleting(&self.instance) {
            self.observed.attempts.clone_from(&planned.prune.attempts);
            self.instance = instance::persisted(&self.instance, planned.prune.persisted.as_deref());
        }
        planned
    }

    /// The clusters in the inventory: those in which something was applied.
    fn record_clusters(&mut self) {
        let holding: HashSet<&ClusterId> = self.observed.objects.keys().map(|key| &key.cluster).collect();
        let recorded = self.references.iter().map(|(id, (key, reference))| InventoryCluster {
            key: key.clone(),
            display: reference.display.as_str().into(),
            id: id.clone(),
            holds_objects: holding.contains(id),
            listed: true,
            secret: None,
        });
        self.observed.recorded = recorded.filter(|cluster| cluster.holds_objects).collect();
    }

    /// The reference to a cluster; none for the local one.
    #[must_use]
    pub fn reference(&self, cluster: &ClusterId) -> Option<&ResolvedCluster> {
        self.references.get(cluster).map(|(_, reference)| &**reference)
    }

    /// Connects clusters, answers reads and finds objects that exist already. Returns whether anything was new.
    fn answer(&mut self, plan: &Plan) -> bool {
        let mut changed = false;
        for used in &plan.clusters {
            changed |= self.choose_target(used);
            changed |= self.resolve(used);
        }
        for read in &plan.reads {
            changed |= self.read(read);
        }
        for missing in plan.missing_hooks.iter().filter(|it| it.cause == MissingCause::Unconfirmed) {
            changed |= self.observed.confirmed_missing.insert(missing.key.clone());
        }
        let planned = plan.nodes.iter().filter(|node| !node.external).flat_map(|node| &node.objects);
        for object in planned.filter(|object| object.uid.is_none()) {
            changed |= self.find_existing(&object.key);
        }
        changed
    }

    /// Chooses a target for a reference by selector. Returns whether there was one to choose.
    fn choose_target(&mut self, used: &UsedCluster) -> bool {
        let ResolvedCredentials::TargetSelector { namespace, selector } = &used.reference.credentials else {
            return false;
        };
        if self.observed.targets.contains_key(&used.key) {
            return false;
        }
        let text = |value: &Value, path: &[&str]| value.at(path).and_then(Value::as_str).map(str::to_owned);
        let targets = self.existing.iter().map(|existing| &existing.value).filter(|value| {
            text(value, &["kind"]).as_deref() == Some("KubernetesTarget")
                && text(value, &["metadata", "namespace"]).as_ref() == Some(namespace)
                && selector::selects(selector, value.at(&["metadata", "labels"]))
        });
        let name = targets.filter_map(|value| text(value, &["metadata", "name"])).min();
        name.is_some_and(|name| self.observed.targets.insert(used.key.clone(), name.into()).is_none())
    }

    fn resolve(&mut self, used: &UsedCluster) -> bool {
        if used.former || self.observed.clusters.contains_key(&used.key) {
            return false;
        }
        let named = self.connections.iter().find(|(name, _)| is_named(&used.reference, name));
        let connection = match named {
            Some((_, (connection, since))) => connection.since(*since),
            None => Connection::Connected.since(self.now),
        };
        self.references.insert(used.id.clone(), (used.key.clone(), Arc::clone(&used.reference)));
        let state = clusters::observed(used, connection);
        self.observed.clusters_by_owner.insert(used.key.clone(), state.clone());
        self.observed.clusters.insert(used.key.clone(), state);
        true
    }

    fn read(&mut self, read: &ExternalRead) -> bool {
        let references = &self.references;
        let reference = references.get(read.cluster()).map(|(_, reference)| &**reference);
        let here = self.existing.iter().filter(|existing| existing.location.is_in(reference));
        let managed = self.observed.objects.iter().filter(|(key, _)| key.cluster == *read.cluster());
        match read {
            ExternalRead::Object { key, .. } => {
                let mut found =
                    here.filter(|existing| existing.is(key)).map(|existing| existing.value.clone());
                let managed = || self.observed.objects.get(key).map(|object| object.value.clone());
                let found = found.next().or_else(managed).map(ObservedObject::new);
                self.observed.externals.insert(key.clone(), found).is_none()
            }
            ExternalRead::Collection(query) => {
                let values: Vec<&Value> = here
                    .map(|existing| &existing.value)
                    .chain(managed.map(|(_, object)| &object.value))
                    .collect();
                let found = selector::find(query, &values.into_iter());
                self.observed.collections.insert(query.clone(), found).is_none()
            }
        }
    }

    /// Observes an object that exists in the place of a desired one. Returns whether there is one.
    fn find_existing(&mut self, key: &ObjectKey) -> bool {
        let reference = self.references.get(&key.cluster).map(|(_, reference)| &**reference);
        let is_here = |existing: &ExistingObject| {
            existing.location != Location::Anywhere && existing.location.is_in(reference) && existing.is(key)
        };
        let Some(at) = self.existing.iter().position(is_here) else { return false };
        let found = self.existing.remove(at).value;
        let stored = self.servers.completed(key, found, false, self.now);
        self.observed.objects.insert(key.clone(), ObservedObject::new(stored));
        true
    }

    /// Stores what the plan applies. Returns whether anything was attempted.
    fn apply(&mut self, plan: &Plan, attempted: &mut HashSet<ObjectKey>) -> bool {
        let mut changed = false;
        for action in &plan.apply {
            let (Some(node), Some(object)) = (plan.nodes.get(action.node.0), plan.object(action)) else {
                continue;
            };
            let Some(desired) = &object.desired else { continue };
            if !attempted.insert(object.key.clone()) && action.retry {
                continue;
            }
            self.wave += usize::from(!std::mem::replace(&mut changed, true));
            self.apply_object(&node.id, object, desired, action.create);
        }
        changed
    }

    fn apply_object(&mut self, node: &Text, object: &PlannedObject, desired: &Value, create: bool) {
        let key = &object.key;
        if let Some(refusal) = self.refusals.get(node).filter(|refusal| !refusal.deletions).cloned() {
            let operation = if create { Operation::Create } else { Operation::Update };
            self.fail(node, key, operation, &refusal);
            return;
        }
        self.observed.failures.remove(key);
        let before = self.observed.objects.get(key).map(|object| object.value.clone());
        let is_document =
            |existing: &&ExistingObject| existing.location == Location::Anywhere && existing.is(key);
        let document = self.existing.iter().find(is_document).map(|existing| existing.value.clone());
        let stored = self.servers.apply(key, before.as_ref(), document.as_ref(), desired, self.now);
        self.observed.objects.insert(key.clone(), ObservedObject::new(stored));
        self.observed.confirmed_missing.remove(key);
        if let Some((reference, _)) = self.references.get(&key.cluster) {
            for clusters in [&mut self.observed.clusters, &mut self.observed.clusters_by_owner] {
                if let Some(state) = clusters.get_mut(reference) {
                    state.succeeded = true;
                }
            }
        }
        let kind = if create { ActionKind::Create } else { ActionKind::Update };
        self.record(kind, node, key, None);
    }

    pub(super) fn fail(&mut self, node: &Text, key: &ObjectKey, operation: Operation, refusal: &Refusal) {
        let before = self.observed.failures.get(key).map(|failure| failure.since);
        let failure = OperationFailure {
            node: node.clone(),
            operation,
            reason: refusal.reason,
            message: refusal.message.clone(),
            since: before.unwrap_or(self.now),
        };
        self.observed.failures.insert(key.clone(), failure);
        if before.is_none() {
            self.record(ActionKind::Refused, node, key, Some(refusal.message.clone()));
        }
    }

    pub(super) fn record(&mut self, kind: ActionKind, node: &Text, key: &ObjectKey, why: Option<Text>) {
        let cluster = self.reference(&key.cluster).map(|reference| reference.display.as_str().into());
        let (node, key) = (node.clone(), key.clone());
        self.actions.push(Action { kind, node, key, cluster, wave: self.wave, why });
    }

    /// Writes the statuses of objects that exist by now. Returns whether there were any.
    fn write_statuses(&mut self, graph: &Graph) -> bool {
        let mut changed = false;
        let reachable = |cluster: &ClusterId| {
            let state = self.references.get(cluster).and_then(|(key, _)| self.observed.clusters.get(key));
            cluster.is_local() || state.is_some_and(|state| state.connection.is_connected())
        };
        let reachable: HashMap<ClusterId, bool> =
            self.observed.objects.keys().map(|key| (key.cluster.clone(), reachable(&key.cluster))).collect();
        for given in &mut self.statuses {
            let is_list = graph.find(&given.node).is_some_and(|(_, node)| node.is_list());
            for (key, object) in &mut self.observed.objects {
                let is_own =
                    object.node() == Some(&*given.node) && reachable.get(&key.cluster) == Some(&true);
                if !is_own || given.given.contains(key) {
                    continue;
                }
                let status = match (&given.status, object.collection_index().filter(|_| is_list)) {
                    (Value::List(items), Some(index)) => items.get(index).cloned(),
                    (status, _) => Some(status.clone()),
                };
                given.given.insert(key.clone());
                let Some(status) = status else { continue };
                let patch = Value::object([("status", status)]);
                let after = self.servers.patch(&object.value, &patch);
                changed |= after != object.value;
                object.value = after;
            }
        }
        changed
    }
}

/// What identifies an object in its cluster.
fn metadata_of(object: &Value) -> [Option<&str>; 4] {
    let text = |path: &[&str]| object.at(path).and_then(Value::as_str);
    let group = text(&["apiVersion"]).map(|version| version.split_once('/').map_or("", |(group, _)| group));
    [group, text(&["kind"]), text(&["metadata", "namespace"]), text(&["metadata", "name"])]
}
