//! Turns the cluster references of an instance into what is known of their clusters, and those that are connected into
//! connections of the pass. Nothing is dialled here, and nothing is waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{
    ClusterId, ClusterInventory, ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, GroupKind,
    Inventory, Poll, RecordedCluster, ResolvedCluster, ResolvedCredentials, SecretAddress, SyncMode,
    annotations,
};
use kross_cluster::{ClusterIdentity, Connection, ConnectionState, ObjectKey, StoredObject};
use kross_plan::{
    AccessPath, ClusterConnection, InventoryCluster, KindKey, ObservedCluster, Plan, PlannedObject,
    ReferenceKey, UsedCluster,
};
use kross_value::{Text, Value};

use super::memory::Memory;
use super::observe::Observation;
use super::reach::Reach;
use super::report;
use crate::context::Context;

/// How long after a restart a cluster that was connected before may take to connect again before anybody is told.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who asks for clusters.
pub(super) struct Asker<'a> {
    pub(super) context: &'a Context,
    pub(super) key: &'a ObjectKey,
    pub(super) instance: &'a StoredObject,
    /// Where the instance has been.
    pub(super) recorded: &'a ClusterInventory,
}

impl Asker<'_> {
    /// Meets the clusters that the inventory names, and those that the last plan did.
    pub(super) fn recall(&self, reach: &mut Reach<'_>, observation: &mut Observation, memory: &mut Memory) {
        for cluster in self.recorded.clusters() {
            let Some(key) = ReferenceKey::parse(&cluster.reference) else { continue };
            if let Some(mut reference) = key.resolved() {
                reference.display.clone_from(&cluster.name);
                self.meet(&reference, &key, reach, observation, memory);
            }
        }
        let mut recorded = self.recorded.clone();
        rename(&mut recorded, observation);
        for cluster in recorded.clusters() {
            let Some(key) = ReferenceKey::parse(&cluster.reference) else { continue };
            for kind in &cluster.contents.group_kinds {
                let (group, kind) = (kind.group.as_str().into(), kind.kind.as_str().into());
                reach.route((ClusterId::new(&cluster.uid), group, kind), &key);
            }
            observation.observed.recorded.push(InventoryCluster {
                key,
                display: cluster.name.as_str().into(),
                id: ClusterId::new(&cluster.uid),
                holds_objects: !cluster.contents.group_kinds.is_empty(),
            });
        }
    }

    /// Meets the clusters of a plan. Gives whether one of them is new.
    pub(super) fn meet_all(
        &self,
        plan: &Plan,
        reach: &mut Reach<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) -> bool {
        let mut news = false;
        for used in &plan.clusters {
            news |= self.meet(&used.reference, &used.key, reach, observation, memory);
        }
        let mut routes: BTreeMap<KindKey, &AccessPath> = BTreeMap::new();
        for (object, access_path) in written(plan) {
            let ObjectKey { cluster, group, kind, .. } = &object.key;
            routes.entry((cluster.clone(), group.clone(), kind.clone())).or_insert(access_path);
        }
        for (kind, access_path) in routes {
            reach.route(kind, &access_path.key);
        }
        let used = || plan.clusters.iter().filter(|used| !used.former);
        for one in used() {
            let Some(id) = observation.observed.clusters.get(&one.key).map(|state| state.id.clone()) else {
                continue;
            };
            // However many ways lead to one cluster, it is followed in one: at once if anybody wants that.
            let same = used().filter(|other| {
                observation.observed.clusters.get(&other.key).is_some_and(|state| state.id == id)
            });
            let polls: Option<Vec<Poll>> = same.map(|other| other.reference.poll).collect();
            let poll = polls.and_then(|polls| polls.into_iter().min_by_key(|poll| poll.interval));
            reach.follow_by(&id, poll.into());
            news |= poll.is_some() && observation.polls(&id);
        }
        news
    }

    /// Meets one cluster. Gives whether that is news.
    fn meet(
        &self,
        reference: &ResolvedCluster,
        key: &ReferenceKey,
        reach: &mut Reach<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) -> bool {
        if !observation.met.insert(key.clone()) {
            return false;
        }
        let ResolvedCredentials::Secret(secret) = &reference.credentials else {
            observation.observed.clusters.insert(key.clone(), self.unsupported(key));
            return true;
        };
        let hold = memory.holds.entry(key.clone()).or_insert_with(|| {
            self.context.instances.use_cluster(self.key, secret);
            self.context.clusters.hold(secret)
        });
        let namespace = self.instance.namespace().map(|namespace| &**namespace);
        let link = hold.state(namespace);
        let known = self.recorded.by_reference(key.as_str());
        let mut state = match link {
            ConnectionState::Connecting { since } => {
                observation.connecting |= known.is_some() && is_recent(since);
                let Some(known) = known else { return false };
                recorded(known, connecting(since))
            }
            ConnectionState::NotConnected { failure, identity } => match (known, identity) {
                (Some(known), _) => recorded(known, failure),
                (None, Some(identity)) => ObservedCluster {
                    id: identity.id,
                    uid: Some(identity.uid),
                    unverified: !identity.verified,
                    ..unknown(key, failure)
                },
                (None, None) => unknown(key, failure),
            },
            ConnectionState::Connected(live) => match self.identify(known, &live, secret) {
                Err((known, failure)) => recorded(known, failure),
                Ok(identity) => {
                    let Connection { identity: ClusterIdentity { uid, .. }, .. } = &live;
                    match identity {
                        Known::Same => {}
                        Known::Renamed(known) => {
                            observation.renamed.push((
                                known.reference.clone(),
                                known.uid.clone(),
                                uid.clone(),
                            ));
                        }
                        Known::GivenUp(known) => {
                            observation.abandoned.push((known.reference.clone(), known.uid.clone()));
                        }
                    }
                    let state = connected(&live);
                    forgive(&state.id, live.since, memory);
                    reach.join(&state.id, key, live.client.on_behalf_of(self.key));
                    state
                }
            },
        };
        state.succeeded = self.has_been_at(&reference.display, known);
        self.restore_times(&mut state.connection, secret);
        observation.observed.clusters.insert(key.clone(), state);
        true
    }

    /// Whether a cluster is the one that the reference led to before; an error is the state of a reference that must not be
    /// followed.
    fn identify<'r>(
        &self,
        known: Option<&'r RecordedCluster>,
        live: &Connection,
        secret: &SecretAddress,
    ) -> Result<Known<'r>, (&'r RecordedCluster, ConnectionFailure)> {
        let ClusterIdentity { uid, verified, .. } = &live.identity;
        let Some(known) = known.filter(|known| known.uid != **uid) else { return Ok(Known::Same) };
        // The same address: only now may we ask who it is.
        if known.unverified && *verified && known.uid == *live.server {
            return Ok(Known::Renamed(known));
        }
        let confirmed = self.instance.annotation(annotations::CONFIRM_CLUSTER).unwrap_or_default();
        if confirmed.split(',').any(|confirmed| confirmed.trim() == uid.as_str()) {
            return Ok(Known::GivenUp(known));
        }
        let (kind, name) = (self.key.kind.to_lowercase(), &self.key.name);
        let place = self.key.namespace.as_ref().map_or_else(String::new, |it| format!(" -n {it}"));
        // Others that were confirmed stay so.
        let value = match confirmed.trim() {
            "" => format!("{}={uid}", annotations::CONFIRM_CLUSTER),
            others => format!("--overwrite {}={others},{uid}", annotations::CONFIRM_CLUSTER),
        };
        let command = format!("kubectl annotate {kind} {name}{place} {value}");
        let before = &known.uid;
        let (cause, advice) = if *verified || known.unverified {
            let cause = format!(
                "Secret `{secret}` now points to cluster `{uid}`; previously it pointed to `{before}`, where the \
                 instance has its objects"
            );
            (cause, ConnectionAdvice::ConfirmCluster { command })
        } else {
            let cause = format!(
                "Secret `{secret}` points to `{uid}`, which does not tell whether it is cluster `{before}`, where the \
                 instance has its objects"
            );
            (cause, ConnectionAdvice::VerifyCluster { command })
        };
        // The other cluster may have been connected for long: the failure begins now, or when the status says it did.
        let (step, reason, now) = (ConnectStep::Identify, FailureReason::Credentials, Timestamp::now());
        Err((known, ConnectionFailure::new(step, reason, cause, advice, now)))
    }

    /// Takes over the times that the instance's status has from an earlier process.
    ///
    /// The registry knows since when a cluster is connected, or is not, only for as long as its own process lives. A controller
    /// that was just started would otherwise report a new `since` and forget the last contact, though nothing happened to
    /// the cluster, and expressions that compare `failingFor` would begin to count anew.
    fn restore_times(&self, connection: &mut ClusterConnection, secret: &SecretAddress) {
        let entries = self.instance.value().at(&["status", "clusters"]).and_then(Value::as_list);
        let secret = secret.to_string();
        let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
        let found =
            entries.unwrap_or_default().iter().find(|entry| text(entry, "secret").as_ref() == Some(&secret));
        let Some(entry) = found else { return };
        let time = |field| text(entry, field).and_then(|text| text.parse::<Timestamp>().ok());
        let was_connected = entry.get("connected").and_then(Value::as_bool) == Some(true);
        let unchanged = was_connected == connection.is_connected();
        connection.backdate(time("since").filter(|_| unchanged), time("lastContact"));
    }

    /// References that lead somewhere by other means than a Secret.
    fn unsupported(&self, key: &ReferenceKey) -> ObservedCluster {
        let message = "this version of the controller does not follow published targets; name a Secret";
        let (step, advice) = (ConnectStep::Attempt, ConnectionAdvice::None);
        let since = created(self.instance);
        unknown(key, ConnectionFailure::new(step, FailureReason::Credentials, message, advice, since))
    }

    /// Whether an object of the instance has ever been seen in the cluster of this name.
    fn has_been_at(&self, display: &str, known: Option<&RecordedCluster>) -> bool {
        // The status of an existing type is not ours; there the inventory is all that is written down.
        if self.instance.annotation(annotations::STATE).is_some() {
            return known.is_some_and(|known| !known.contents.group_kinds.is_empty());
        }
        let entries = self.instance.value().at(&["status", "managedResources"]).and_then(Value::as_list);
        entries.unwrap_or_default().iter().any(|entry| {
            entry.get("cluster").and_then(Value::as_str) == Some(display) && entry.get("uid").is_some()
        })
    }
}

/// How a cluster compares with the one that its reference led to before.
enum Known<'r> {
    Same,
    /// It is the same, which was known by its URL.
    Renamed(&'r RecordedCluster),
    /// It is another, and what is in the one before is given up.
    GivenUp(&'r RecordedCluster),
}

/// Names clusters in an inventory by what they say of themselves.
pub(super) fn rename(recorded: &mut ClusterInventory, observation: &Observation) {
    for (reference, url, uid) in &observation.renamed {
        let Some(found) = recorded.find(reference, url).cloned() else { continue };
        recorded.retain(|cluster| cluster.reference != *reference || cluster.uid != *url);
        recorded.add(RecordedCluster { uid: uid.to_string(), unverified: false, ..found });
    }
}

/// Forgets what the instance had in clusters that its references no longer lead to, as confirmed, and says so.
pub(super) fn give_up(
    context: &Context,
    instance: &StoredObject,
    recorded: &mut ClusterInventory,
    observation: &mut Observation,
) {
    for (reference, uid) in observation.abandoned.drain(..) {
        let owned = recorded.find(&reference, &uid).cloned();
        recorded.retain(|cluster| cluster.reference != reference || cluster.uid != uid);
        observation.observed.recorded.retain(|recorded| recorded.id.as_str() != uid);
        if let Some(owned) = owned {
            report::abandoned(context, instance, &owned);
        }
    }
}

/// Forgets the clusters that an inventory names no more. Gives whether there are any.
pub(super) fn forget(recorded: &ClusterInventory, observation: &mut Observation) -> bool {
    let known = observation.observed.recorded.len();
    let still = |known: &InventoryCluster| recorded.find(known.key.as_str(), known.id.as_str()).is_some();
    observation.observed.recorded.retain(still);
    observation.observed.recorded.len() != known
}

/// What the inventory has to say of remote clusters before the first write of a plan.
pub(super) fn needed(plan: &Plan) -> Vec<RecordedCluster> {
    let connected = plan.clusters.iter().filter(|used| !used.former);
    let made = Made::by(plan);
    let record = |used: &UsedCluster| {
        let state = used.state.as_ref().filter(|state| state.connection.is_connected())?;
        Some(RecordedCluster {
            reference: used.key.as_str().to_owned(),
            uid: state.uid.as_ref()?.to_string(),
            unverified: state.unverified,
            name: used.reference.display.clone(),
            contents: made.contents(used),
        })
    };
    connected.filter_map(record).collect()
}

/// What a plan makes in remote clusters, and by which way.
fn written(plan: &Plan) -> impl Iterator<Item = (&PlannedObject, &AccessPath)> {
    let objects = plan.nodes.iter().flat_map(|node| &node.objects);
    let desired = objects.filter(|object| object.desired.is_some());
    desired.filter_map(|object| Some((object, plan.access_paths.to(&object.key)?)))
}

/// What a plan makes in remote clusters, by cluster and way.
pub(super) struct Made<'a> {
    plan: &'a Plan,
    kinds: HashMap<(&'a ClusterId, &'a ReferenceKey), BTreeSet<GroupKind>>,
}

impl<'a> Made<'a> {
    pub(super) fn by(plan: &'a Plan) -> Self {
        let mut seen: HashSet<(&ClusterId, &ReferenceKey, &Text, &Text)> = HashSet::new();
        let mut kinds: HashMap<(&ClusterId, &ReferenceKey), BTreeSet<GroupKind>> = HashMap::new();
        for (object, access_path) in written(plan) {
            let ObjectKey { cluster, group, kind, .. } = &object.key;
            if seen.insert((cluster, &access_path.key, group, kind)) {
                kinds.entry((cluster, &access_path.key)).or_default().insert(GroupKind::new(group, kind));
            }
        }
        Self { plan, kinds }
    }

    /// What it makes in a cluster by one of the ways into it.
    fn contents(&self, used: &UsedCluster) -> Inventory {
        let Some(group_kinds) = self.kinds.get(&(&used.id, &used.key)).cloned() else {
            return Inventory::default();
        };
        let all = self.plan.inventory.get(&used.id).cloned().unwrap_or_default();
        Inventory { group_kinds, namespaces: all.namespaces }
    }

    /// What it keeps in a recorded cluster by the reference that was recorded, and the kinds that it has there by others.
    pub(super) fn kept(&self, recorded: &RecordedCluster) -> (Inventory, BTreeSet<GroupKind>) {
        let (mut own, mut others) = (Inventory::default(), BTreeSet::new());
        let there = |used: &&UsedCluster| !used.former && *used.id.as_str() == *recorded.uid;
        for used in self.plan.clusters.iter().filter(there) {
            let contents = self.contents(used);
            if used.key.as_str() == recorded.reference {
                own.extend(&contents);
            } else {
                others.extend(contents.group_kinds);
            }
        }
        (own, others)
    }
}

/// What is, or may be, in which remote cluster, however it is referred to.
pub(super) fn contents(recorded: &ClusterInventory) -> BTreeMap<ClusterId, (Text, Inventory)> {
    let mut contents: BTreeMap<ClusterId, (Text, Inventory)> = BTreeMap::new();
    for cluster in recorded.clusters().iter().filter(|cluster| !cluster.contents.group_kinds.is_empty()) {
        let new = || (Text::from(cluster.name.as_str()), Inventory::default());
        let (_, there) = contents.entry(ClusterId::new(&cluster.uid)).or_insert_with(new);
        there.extend(&cluster.contents);
    }
    contents
}

/// Lets go of clusters that neither the plan nor the inventory names any more.
pub(super) fn retain(
    context: &Context,
    instance: &ObjectKey,
    plan: &Plan,
    recorded: &ClusterInventory,
    memory: &mut Memory,
) {
    memory.holds.retain(|key, hold| {
        let wanted = plan.clusters.iter().any(|used| used.key == *key)
            || recorded.by_reference(key.as_str()).is_some();
        if !wanted {
            context.instances.leave_cluster(instance, hold.secret());
        }
        wanted
    });
    memory.children.retain(|(cluster, ..), child| {
        let wanted = plan.clusters.iter().any(|used| used.id == *cluster)
            || recorded.clusters().iter().any(|recorded| recorded.uid == cluster.as_str());
        if !wanted {
            context.instances.look_away(instance, child.watch.key());
        }
        wanted
    });
}

/// What failed for want of an answer counts no more once the cluster was connected anew.
fn forgive(cluster: &ClusterId, since: Timestamp, memory: &mut Memory) {
    memory.failures.retain(|key, failure| {
        let passing = matches!(
            failure.reason,
            FailureReason::Unreachable
                | FailureReason::Timeout
                | FailureReason::Unauthorized
                | FailureReason::Credentials
        );
        key.cluster != *cluster || !passing || failure.since >= since
    });
}

fn connected(live: &Connection) -> ObservedCluster {
    let (since, last_contact) = (live.since, Some(live.last_contact));
    ObservedCluster {
        id: live.identity.id.clone(),
        uid: Some(live.identity.uid.clone()),
        unverified: !live.identity.verified,
        mode: SyncMode::Watch,
        connection: ClusterConnection::Connected { since, last_contact },
        succeeded: false,
    }
}

/// A cluster that the inventory knows and that is not connected.
fn recorded(known: &RecordedCluster, failure: ConnectionFailure) -> ObservedCluster {
    ObservedCluster {
        uid: Some(known.uid.as_str().into()),
        unverified: known.unverified,
        ..not_connected(ClusterId::new(&known.uid), failure)
    }
}

/// A cluster that is not connected, of which only the reference is known.
fn unknown(key: &ReferenceKey, failure: ConnectionFailure) -> ObservedCluster {
    not_connected(ClusterId::new(key.as_str()), failure)
}

fn not_connected(id: ClusterId, failure: ConnectionFailure) -> ObservedCluster {
    ObservedCluster {
        id,
        uid: None,
        unverified: false,
        mode: SyncMode::Watch,
        connection: ClusterConnection::NotConnected(failure),
        succeeded: false,
    }
}

/// The failure of a cluster while the first attempt to connect runs.
fn connecting(since: Timestamp) -> ConnectionFailure {
    let (step, reason) = (ConnectStep::Attempt, FailureReason::Unreachable);
    let cause = "the first connection attempt is running";
    ConnectionFailure::new(step, reason, cause, ConnectionAdvice::None, since)
}

fn is_recent(since: Timestamp) -> bool {
    let waited = Timestamp::now().duration_since(since);
    Duration::try_from(waited).is_ok_and(|waited| waited < PATIENCE)
}

/// When the instance came to be: the time from which it waits, the same in every pass.
fn created(instance: &StoredObject) -> Timestamp {
    let text = instance.value().at(&["metadata", "creationTimestamp"]).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}
