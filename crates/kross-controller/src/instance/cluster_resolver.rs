//! Resolves the cluster references of an instance: into the observed state of their clusters, and into clients where those are
//! connected. It never connects and never waits.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{
    Authority, ClusterId, ClusterInventory, ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason,
    GroupKind, Poll, RecordedCluster, ResolvedCluster, ResolvedCredentials, SecretAddress, SyncMode,
    annotations,
};
use kross_cluster::{
    ClusterHandle, ClusterIdentity, Connection, ConnectionState, ObjectKey, SecretConsumer, StoredObject,
};
use kross_plan::{
    AccessPath, ClusterConnection, InventoryCluster, KindKey, Observed, ObservedCluster, OperationFailure,
    Plan, ReferenceKey, UsedCluster,
};
use kross_value::Value;

use super::clients::InstanceClients;
use super::cluster_inventory;
use super::memory::Memory;
use super::observation::{Observation, unproven_id};
use super::targets::{FoundTarget, Source, TargetKey, Targets, Unresolved};
use crate::context::Context;
use crate::graphs::Served;
use crate::recorded_authority::RecordedAuthority;

/// How long a cluster may take to connect after a start before an instance that has objects there reports it as not connected.
const RECONNECT_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Resolves the cluster references of one instance.
pub(super) struct ClusterResolver<'a> {
    pub(super) context: &'a Context,
    /// The definition that serves the instance.
    pub(super) served: &'a Served,
    pub(super) key: &'a ObjectKey,
    pub(super) instance: &'a StoredObject,
    /// The clusters in which the instance has or had objects.
    pub(super) recorded: &'a ClusterInventory,
}

impl ClusterResolver<'_> {
    /// Resolves the clusters in the instance's inventory.
    pub(super) fn resolve_recorded(
        &self,
        clients: &mut InstanceClients<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) {
        let authorities = RecordedAuthority::new(self.context, self.served);
        for cluster in self.recorded.clusters() {
            let Some(key) = ReferenceKey::parse(&cluster.reference) else { continue };
            if let Some(mut reference) = key.resolved() {
                reference.display.clone_from(&cluster.name);
                reference.authority = authorities.of(&reference.credentials, self.instance);
                self.resolve(&reference, &key, clients, observation, memory);
            }
        }
        let mut recorded = self.recorded.clone();
        cluster_inventory::record_uids(&mut recorded, observation);
        for cluster in recorded.clusters() {
            let Some(key) = ReferenceKey::parse(&cluster.reference).filter(|key| !is_choice(key)) else {
                continue;
            };
            let id = observation.id_of(cluster);
            for kind in &cluster.contents.group_kinds {
                let (group, kind) = (kind.group.as_str().into(), kind.kind.as_str().into());
                clients.route((id.clone(), group, kind), &key);
            }
            let is_listed = |kind: &GroupKind| {
                let key = (id.clone(), kind.group.as_str().into(), kind.kind.as_str().into());
                memory.child_caches.get(&key).is_some_and(|child| child.cache.has_synced())
            };
            observation.observed.recorded.push(InventoryCluster {
                display: cluster.name.as_str().into(),
                holds_objects: !cluster.contents.group_kinds.is_empty(),
                listed: cluster.contents.group_kinds.iter().all(is_listed),
                secret: observation.observed.clusters.get(&key).and_then(|state| state.secret.clone()),
                key,
                id,
            });
        }
    }

    /// Resolves the clusters of a plan. Returns whether that observed anything new.
    pub(super) fn resolve_planned(
        &self,
        plan: &Plan,
        clients: &mut InstanceClients<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) -> bool {
        let mut changed = false;
        // Former clusters were resolved from the inventory, with its authority.
        let is_new =
            |used: &&UsedCluster| !used.former || !observation.observed.clusters.contains_key(&used.key);
        let new: Vec<&UsedCluster> = plan.clusters.iter().filter(is_new).collect();
        for used in new {
            changed |= self.resolve(&used.reference, &used.key, clients, observation, memory);
        }
        let mut routes: BTreeMap<KindKey, &AccessPath> = BTreeMap::new();
        for (object, access_path) in cluster_inventory::applied_objects(plan) {
            let ObjectKey { cluster, group, kind, .. } = &object.key;
            routes.entry((cluster.clone(), group.clone(), kind.clone())).or_insert(access_path);
        }
        for (kind, access_path) in routes {
            clients.route(kind, &access_path.key);
        }
        let mut polls: BTreeMap<ClusterId, Vec<(&ReferenceKey, Option<Poll>)>> = BTreeMap::new();
        for used in plan.clusters.iter().filter(|used| !used.former) {
            if let Some(state) = observation.observed.cluster(&used.key, used.reference.authority) {
                polls.entry(state.id.clone()).or_default().push((&used.key, used.reference.poll));
            }
        }
        for (id, references) in polls {
            // A cluster with several references has one cache for each kind: it watches unless all of them ask for polls.
            let polls: Option<Vec<Poll>> = references.iter().map(|(_, poll)| *poll).collect();
            let poll = polls.and_then(|polls| polls.into_iter().min_by_key(|poll| poll.interval));
            clients.set_sync(&id, poll.into());
            let references = references.iter().map(|(key, _)| *key).chain(clients.references(&id));
            changed |= poll.is_some() && observation.set_polled(references);
        }
        changed
    }

    /// Resolves one reference. Returns whether that observed anything new.
    fn resolve(
        &self,
        reference: &ResolvedCluster,
        key: &ReferenceKey,
        clients: &mut InstanceClients<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) -> bool {
        if !observation.resolved.insert((key.clone(), reference.authority)) {
            return false;
        }
        self.subscribe(reference, memory);
        let targets = Targets { context: self.context, instance: self.instance, recorded: self.recorded };
        let source = match targets.source(reference) {
            Ok(source) => source,
            Err(unresolved) => {
                return self.observe_unresolved((reference, key), unresolved, observation, memory);
            }
        };
        let known = self.recorded.by_reference(key.as_str());
        if known.is_none() && !self.has_room_for(key, &source, memory) {
            observation.too_many_clusters = true;
            self.observe(key, self.too_many(key), reference, Some(&source), observation);
            return true;
        }
        let handle = self.handle(key, &source, memory);
        let namespace = self.instance.namespace().map(|namespace| &**namespace);
        let consumer = SecretConsumer::Instance(namespace, reference.authority);
        let mut state = match handle.state(consumer) {
            ConnectionState::Connecting { since } => {
                observation.connecting |= known.is_some() && is_in_grace_period(since);
                let Some(known) = known else { return false };
                recorded(known, self.recorded_id(key, known, memory), connecting(since))
            }
            ConnectionState::NotConnected { failure, identity } => match (known, identity) {
                (Some(known), _) => recorded(known, self.recorded_id(key, known, memory), failure),
                (None, identity) => unrecorded(key, identity, failure),
            },
            ConnectionState::Connected(connection) => {
                match self.identify(known, &connection, &source) {
                    Identity::Same => {}
                    Identity::Verified(known) => {
                        let uid = connection.identity.uid.clone();
                        observation.renamed.push((known.reference.clone(), known.uid.clone(), uid));
                    }
                    Identity::Confirmed(known) => {
                        observation.abandoned.push((known.reference.clone(), known.uid.clone()));
                    }
                    Identity::Changed(known, failure) => {
                        let mut state = recorded(known, self.recorded_id(key, known, memory), failure);
                        state.secret = source.behind_target();
                        self.observe(key, state, reference, Some(&source), observation);
                        return true;
                    }
                }
                match source.not_ready().filter(|_| known.is_none()) {
                    Some(failure) => unrecorded(key, Some(connection.identity.clone()), failure),
                    None => self.connect(key, &connection, &source, clients, memory),
                }
            }
        };
        state.secret = source.behind_target();
        self.observe(key, state, reference, Some(&source), observation);
        true
    }

    /// Adds the client of a connected cluster, and observes it.
    fn connect(
        &self,
        key: &ReferenceKey,
        connection: &Connection,
        source: &Source,
        clients: &mut InstanceClients<'_>,
        memory: &mut Memory,
    ) -> ObservedCluster {
        let mut state = connected(connection);
        let deleting = connection.deletions_only;
        let by_secret = deleting.map(|since| serves_deletions_only(source, since));
        let by_target = source.target.as_ref().and_then(FoundTarget::deletions_only);
        state.deletions_only = by_target.or(by_secret);
        clear_connection_failures(&state.id, connection.since, memory);
        let client = connection.client.on_behalf_of(self.key);
        let client = match &source.target {
            Some(target) => client.known_as(&target.display()),
            None => client,
        };
        clients.add(&state.id, key, client);
        memory.cluster_ids.insert(key.clone(), state.id.clone());
        state
    }

    /// The id of a cluster in the inventory that is not connected. The inventory proves nothing: what counts is where the reference
    /// led before, or else what its Secret says. A cluster of which neither is known is the same as no other.
    fn recorded_id(&self, key: &ReferenceKey, known: &RecordedCluster, memory: &Memory) -> ClusterId {
        let namespace = self.instance.namespace().map(|namespace| &**namespace);
        let last = memory.cluster_ids.get(key).filter(|id| id.claim() == known.uid).cloned();
        let by_secret = || memory.cluster_handles.get(key)?.cluster_id(&known.uid, namespace);
        last.or_else(by_secret).unwrap_or_else(|| unproven_id(known))
    }

    /// Changes of the target that a reference leads to concern the instance from now on.
    fn subscribe(&self, reference: &ResolvedCluster, memory: &mut Memory) {
        if let Some(target) = TargetKey::of(&reference.credentials)
            && memory.targets.insert(target.clone())
        {
            self.context.instances.use_target(self.key, &target);
        }
    }

    /// Observes a reference that does not lead to a Secret, or not yet. Returns whether that is anything new.
    fn observe_unresolved(
        &self,
        (reference, key): (&ResolvedCluster, &ReferenceKey),
        unresolved: Unresolved,
        observation: &mut Observation,
        memory: &Memory,
    ) -> bool {
        let known = self.recorded.by_reference(key.as_str()).filter(|_| !is_choice(key));
        let failure = match unresolved {
            Unresolved::Chosen(target) => {
                observation.observed.targets.insert(key.clone(), target);
                return true;
            }
            // The first list of the targets requeues the instance.
            Unresolved::Unknown => {
                observation.connecting |= known.is_some();
                return false;
            }
            Unresolved::Failed(failure) => failure,
        };
        let state = match known {
            Some(known) => recorded(known, self.recorded_id(key, known, memory), failure),
            None => unrecorded(key, None, failure),
        };
        self.observe(key, state, reference, None, observation);
        true
    }

    /// Whether the instances of the namespace may use one more cluster. Each takes a watch in the hub, even one that does not
    /// exist. Clusters of the inventory do not count: without them nothing could be deleted there.
    fn has_room_for(&self, key: &ReferenceKey, source: &Source, memory: &Memory) -> bool {
        let limit = self.context.settings.max_namespace_clusters;
        memory.cluster_handles.contains_key(key)
            || self.context.instances.has_room_for(self.key, &source.secret, limit)
    }

    /// A cluster that is not connected, because the instances of the namespace use too many.
    fn too_many(&self, key: &ReferenceKey) -> ObservedCluster {
        let limit = self.context.settings.max_namespace_clusters;
        let whose = match &self.key.namespace {
            Some(namespace) => format!("the instances in namespace `{namespace}`"),
            None => "the instances without a namespace".to_owned(),
        };
        let cause =
            format!("{whose} use {limit} clusters already, which is the limit (`--namespace-max-clusters`)");
        let (step, reason) = (ConnectStep::Secret, FailureReason::Throttled);
        let advice = ConnectionAdvice::None;
        unrecorded(key, None, ConnectionFailure::new(step, reason, cause, advice, Timestamp::now()))
    }

    /// The handle of the cluster. A target may name another Secret by now.
    fn handle<'m>(&self, key: &ReferenceKey, source: &Source, memory: &'m mut Memory) -> &'m ClusterHandle {
        let is_former = |handle: &ClusterHandle| *handle.secret() != source.secret;
        if memory.cluster_handles.get(key).is_some_and(is_former)
            && let Some(former) = memory.cluster_handles.remove(key)
        {
            leave_cluster(self.context, self.key, &former, memory);
        }
        memory.cluster_handles.entry(key.clone()).or_insert_with(|| {
            self.context.instances.use_cluster(self.key, &source.secret);
            match &source.target {
                Some(target) => self.context.clusters.hold_connection(&target.secret_name()),
                None => self.context.clusters.hold(&source.secret),
            }
        })
    }

    /// Stores the state of a cluster, with what only the instance knows of it.
    fn observe(
        &self,
        key: &ReferenceKey,
        mut state: ObservedCluster,
        reference: &ResolvedCluster,
        source: Option<&Source>,
        observation: &mut Observation,
    ) {
        let known = self.recorded.by_reference(key.as_str());
        state.succeeded = self.has_succeeded_in(&reference.display, known);
        let secret = source.filter(|source| source.target.is_none()).map(|source| &source.secret);
        self.restore_times(&mut state.connection, reference, secret);
        let Observed { clusters, clusters_by_owner, .. } = &mut observation.observed;
        match reference.authority {
            Authority::Granted => {
                clusters.insert(key.clone(), state);
            }
            Authority::ByOwner => {
                clusters.entry(key.clone()).or_insert_with(|| state.clone());
                clusters_by_owner.insert(key.clone(), state);
            }
        }
    }

    /// Compares a connected cluster with the one that the reference gave access to before.
    fn identify<'r>(
        &self,
        known: Option<&'r RecordedCluster>,
        connection: &Connection,
        source: &Source,
    ) -> Identity<'r> {
        let ClusterIdentity { uid, verified, .. } = &connection.identity;
        let Some(known) = known.filter(|known| known.uid != **uid) else { return Identity::Same };
        // The same server, whose UID the credential may read by now.
        if known.unverified && *verified && known.uid == *connection.server {
            return Identity::Verified(known);
        }
        let confirmed = self.instance.annotation(annotations::CONFIRM_CLUSTER).unwrap_or_default();
        let for_all = source.target.as_ref().map_or("", FoundTarget::confirmed);
        let is_confirmed = |list: &str| list.split(',').any(|confirmed| confirmed.trim() == uid.as_str());
        if is_confirmed(confirmed) || is_confirmed(for_all) {
            return Identity::Confirmed(known);
        }
        // Confirming on the target counts for all who use it.
        let (annotate, confirmed) = match &source.target {
            Some(target) => (target.annotate_command(), for_all),
            None => (self.annotate_command(), confirmed),
        };
        // UIDs that were confirmed before stay in the annotation.
        let value = match confirmed.trim() {
            "" => format!("{}={uid}", annotations::CONFIRM_CLUSTER),
            others => format!("--overwrite {}={others},{uid}", annotations::CONFIRM_CLUSTER),
        };
        let command = format!("{annotate} {value}");
        let before = &known.uid;
        let (cause, advice) = if *verified || known.unverified {
            let cause = format!(
                "{source} now points to cluster `{uid}`; previously it pointed to `{before}`, where the \
                 instance has its objects"
            );
            (cause, ConnectionAdvice::ConfirmCluster { command })
        } else {
            let cause = format!(
                "{source} points to `{uid}`, which does not tell whether it is cluster `{before}`, where the \
                 instance has its objects"
            );
            (cause, ConnectionAdvice::VerifyCluster { command })
        };
        // The new cluster may have been connected for long: the failure begins now, or when the status says that it did.
        let (step, reason, now) = (ConnectStep::Identify, FailureReason::Credentials, Timestamp::now());
        Identity::Changed(known, ConnectionFailure::new(step, reason, cause, advice, now))
    }

    /// The beginning of the command that annotates the instance.
    fn annotate_command(&self) -> String {
        let (kind, name) = (self.key.kind.to_lowercase(), &self.key.name);
        let place = self.key.namespace.as_ref().map_or_else(String::new, |it| format!(" -n {it}"));
        format!("kubectl annotate {kind} {name}{place}")
    }

    /// Takes over the times that the instance's status has from an earlier process.
    ///
    /// The registry knows since when a cluster is connected, or is not, only for as long as its own process lives. A controller
    /// that was just started would otherwise report a new `since` and forget the last contact, though nothing happened to
    /// the cluster, and expressions that compare `failingFor` would begin to count anew.
    fn restore_times(
        &self,
        connection: &mut ClusterConnection,
        reference: &ResolvedCluster,
        secret: Option<&SecretAddress>,
    ) {
        let entries = self.instance.value().at(&["status", "clusters"]).and_then(Value::as_list);
        let secret = secret.map(SecretAddress::status_text);
        let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
        let is_entry = |entry: &&Value| match &secret {
            Some(_) => text(entry, "secret") == secret,
            // The Secret of a target may change.
            None => text(entry, "name").as_deref() == Some(reference.display.as_str()),
        };
        let found = entries.unwrap_or_default().iter().find(is_entry);
        let Some(entry) = found else { return };
        let time = |field| text(entry, field).and_then(|text| text.parse::<Timestamp>().ok());
        let was_connected = entry.get("connected").and_then(Value::as_bool) == Some(true);
        let unchanged = was_connected == connection.is_connected();
        connection.backdate(time("since").filter(|_| unchanged), time("lastContact"));
    }

    /// Whether the instance ever had an object in the cluster of this name.
    fn has_succeeded_in(&self, display: &str, known: Option<&RecordedCluster>) -> bool {
        // The status of an existing kind is not the controller's: there is only the inventory.
        if self.instance.annotation(annotations::STATE).is_some() {
            return known.is_some_and(|known| !known.contents.group_kinds.is_empty());
        }
        let entries = self.instance.value().at(&["status", "managedResources"]).and_then(Value::as_list);
        entries.unwrap_or_default().iter().any(|entry| {
            entry.get("cluster").and_then(Value::as_str) == Some(display) && entry.get("uid").is_some()
        })
    }
}

/// How a connected cluster compares with the one that its reference gave access to before.
enum Identity<'r> {
    /// It is the same, or the reference is new.
    Same,
    /// It is the same. It was known by its URL; its UID is known now.
    Verified(&'r RecordedCluster),
    /// It is another one, and the owner confirmed to give up the objects in the previous one.
    Confirmed(&'r RecordedCluster),
    /// It is another one, which the instance must not touch.
    Changed(&'r RecordedCluster, ConnectionFailure),
}

/// Drops the handles and caches of clusters that neither the plan nor the inventory uses any more.
pub(super) fn release_unused(
    context: &Context,
    instance: &ObjectKey,
    plan: &Plan,
    (recorded, observation): (&ClusterInventory, &Observation),
    memory: &mut Memory,
) {
    let keys: HashSet<&ReferenceKey> = plan.clusters.iter().map(|used| &used.key).collect();
    let mut left = Vec::new();
    memory.cluster_handles.retain(|key, handle| {
        let wanted = keys.contains(key) || recorded.by_reference(key.as_str()).is_some();
        if !wanted {
            left.push(handle.clone());
        }
        wanted
    });
    left.iter().for_each(|handle| leave_cluster(context, instance, handle, memory));
    let Memory { cluster_ids, cluster_handles, .. } = memory;
    cluster_ids.retain(|key, _| keys.contains(key) || cluster_handles.contains_key(key));
    release_targets(context, instance, plan, recorded, memory);
    let used = plan.clusters.iter().map(|used| used.id.clone());
    let ids: HashSet<ClusterId> =
        used.chain(recorded.clusters().iter().map(|recorded| observation.id_of(recorded))).collect();
    memory.child_caches.retain(|(cluster, ..), child| {
        let wanted = ids.contains(cluster);
        if !wanted {
            context.instances.unwatch(instance, child.cache.key());
        }
        wanted
    });
}

/// Changes of targets that neither the plan nor the inventory uses do not concern the instance any more.
fn release_targets(
    context: &Context,
    instance: &ObjectKey,
    plan: &Plan,
    recorded: &ClusterInventory,
    memory: &mut Memory,
) {
    if memory.targets.is_empty() {
        return;
    }
    let planned = plan.clusters.iter().filter_map(|used| TargetKey::of(&used.reference.credentials));
    let recorded = recorded.clusters().iter();
    let recorded = recorded.filter_map(|it| ReferenceKey::parse(&it.reference)?.resolved());
    let recorded = recorded.filter_map(|reference| TargetKey::of(&reference.credentials));
    let wanted: HashSet<TargetKey> = planned.chain(recorded).collect();
    memory.targets.retain(|target| {
        let is_wanted = wanted.contains(target);
        if !is_wanted {
            context.instances.leave_target(instance, target);
        }
        is_wanted
    });
}

/// The instance no longer uses a cluster by one of its handles. Another handle may be of the same Secret.
fn leave_cluster(context: &Context, instance: &ObjectKey, former: &ClusterHandle, memory: &Memory) {
    if !memory.cluster_handles.values().any(|handle| handle.secret() == former.secret()) {
        context.instances.leave_cluster(instance, former.secret());
    }
}

/// Whether a reference is by selector: in the inventory it is the choice of a target.
fn is_choice(key: &ReferenceKey) -> bool {
    let credentials = key.resolved().map(|reference| reference.credentials);
    matches!(credentials, Some(ResolvedCredentials::TargetSelector { .. }))
}

/// Removes failures that an outage caused before the cluster was connected again.
fn clear_connection_failures(cluster: &ClusterId, since: Timestamp, memory: &mut Memory) {
    let first = ObjectKey {
        cluster: cluster.clone(),
        group: "".into(),
        kind: "".into(),
        namespace: None,
        name: "".into(),
    };
    // Sorted by cluster: the failures in others are not looked at.
    let there = memory.failures.range(first..).take_while(|(key, _)| key.cluster == *cluster);
    let by_outage = |failure: &OperationFailure| {
        matches!(
            failure.reason,
            FailureReason::Unreachable
                | FailureReason::Timeout
                | FailureReason::Unauthorized
                | FailureReason::Credentials
        )
    };
    let ended = there.filter(|(_, failure)| by_outage(failure) && failure.since < since);
    let ended: Vec<ObjectKey> = ended.map(|(key, _)| key.clone()).collect();
    for key in &ended {
        memory.failures.remove(key);
    }
}

fn connected(connection: &Connection) -> ObservedCluster {
    let (since, last_contact) = (connection.since, Some(connection.last_contact));
    ObservedCluster {
        id: connection.identity.id.clone(),
        uid: Some(connection.identity.uid.clone()),
        unverified: !connection.identity.verified,
        mode: SyncMode::Watch,
        connection: ClusterConnection::Connected { since, last_contact },
        succeeded: false,
        deletions_only: None,
        warning: connection.identity_conflict.clone(),
        secret: None,
    }
}

/// A cluster of the inventory that is not connected.
fn recorded(known: &RecordedCluster, id: ClusterId, failure: ConnectionFailure) -> ObservedCluster {
    ObservedCluster {
        uid: Some(known.uid.as_str().into()),
        unverified: known.unverified,
        ..not_connected(id, failure)
    }
}

/// A cluster that is not connected and not in the inventory. Its identity is known if it was connected before.
fn unrecorded(
    key: &ReferenceKey,
    identity: Option<ClusterIdentity>,
    failure: ConnectionFailure,
) -> ObservedCluster {
    let Some(ClusterIdentity { id, uid, verified }) = identity else {
        return not_connected(ClusterId::new(key.as_str()), failure);
    };
    ObservedCluster { uid: Some(uid), unverified: !verified, ..not_connected(id, failure) }
}

fn not_connected(id: ClusterId, failure: ConnectionFailure) -> ObservedCluster {
    ObservedCluster {
        id,
        uid: None,
        unverified: false,
        mode: SyncMode::Watch,
        connection: ClusterConnection::NotConnected(failure),
        succeeded: false,
        deletions_only: None,
        warning: None,
        secret: None,
    }
}

/// The failure of a cluster whose Secret is being deleted.
fn serves_deletions_only(source: &Source, since: Timestamp) -> ConnectionFailure {
    let cause = format!(
        "{source} is being deleted and serves deletions only: nothing is applied; refer to another Secret, or \
         delete the instance"
    );
    let step = ConnectStep::Secret;
    ConnectionFailure::new(step, FailureReason::Credentials, cause, ConnectionAdvice::None, since)
}

/// The failure of a cluster while the first attempt to connect runs.
fn connecting(since: Timestamp) -> ConnectionFailure {
    let (step, reason) = (ConnectStep::Attempt, FailureReason::Unreachable);
    let cause = "the first connection attempt is running";
    ConnectionFailure::new(step, reason, cause, ConnectionAdvice::None, since)
}

fn is_in_grace_period(since: Timestamp) -> bool {
    let waited = Timestamp::now().duration_since(since);
    Duration::try_from(waited).is_ok_and(|waited| waited < RECONNECT_GRACE_PERIOD)
}
