//! Turns the cluster references of an instance into what is known of their clusters, and those that are connected into
//! connections of the pass. Nothing is dialled here, and nothing is waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{
    ClusterId, ClusterInventory, FailureReason, GroupKind, Inventory, Poll, Reason, RecordedCluster,
    ResolvedCluster, ResolvedCredentials, SecretAddress, SyncMode, annotations,
};
use kross_cluster::{
    ClusterIdentity, ConnectStep, Connection, ConnectionState, Disconnected, ObjectKey, StoredObject,
};
use kross_plan::{
    AccessPath, ClusterConnection, InventoryCluster, KindKey, ObservedCluster, Plan, PlannedObject,
    ReferenceKey, UsedCluster,
};
use kross_value::{Text, Value};

use super::clients::InstanceClients;
use super::memory::Memory;
use super::observation::Observation;
use super::release_report;
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
    pub(super) fn recall(
        &self,
        clients: &mut InstanceClients<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) {
        for cluster in self.recorded.clusters() {
            let Some(key) = ReferenceKey::parse(&cluster.reference) else { continue };
            if let Some(mut reference) = key.resolved() {
                reference.display.clone_from(&cluster.name);
                self.meet(&reference, &key, clients, observation, memory);
            }
        }
        let mut recorded = self.recorded.clone();
        rename(&mut recorded, observation);
        for cluster in recorded.clusters() {
            let Some(key) = ReferenceKey::parse(&cluster.reference) else { continue };
            for kind in &cluster.contents.group_kinds {
                let (group, kind) = (kind.group.as_str().into(), kind.kind.as_str().into());
                clients.route((ClusterId::new(&cluster.uid), group, kind), &key);
            }
            observation.observed.recorded.push(InventoryCluster {
                key,
                display: cluster.name.as_str().into(),
                id: ClusterId::new(&cluster.uid),
                holds_objects: !cluster.contents.group_kinds.is_empty(),
            });
        }
    }

    /// Meets the clusters of a plan. Returns whether one of them is new.
    pub(super) fn meet_all(
        &self,
        plan: &Plan,
        clients: &mut InstanceClients<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) -> bool {
        let mut news = false;
        for used in &plan.clusters {
            news |= self.meet(&used.reference, &used.key, clients, observation, memory);
        }
        let mut routes: BTreeMap<KindKey, &AccessPath> = BTreeMap::new();
        for (object, access_path) in written(plan) {
            let ObjectKey { cluster, group, kind, .. } = &object.key;
            routes.entry((cluster.clone(), group.clone(), kind.clone())).or_insert(access_path);
        }
        for (kind, access_path) in routes {
            clients.route(kind, &access_path.key);
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
            clients.set_sync(&id, poll.into());
            news |= poll.is_some() && observation.set_polled(&id);
        }
        news
    }

    /// Meets one cluster. Returns whether that is news.
    fn meet(
        &self,
        reference: &ResolvedCluster,
        key: &ReferenceKey,
        clients: &mut InstanceClients<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) -> bool {
        if !observation.resolved.insert(key.clone()) {
            return false;
        }
        let ResolvedCredentials::Secret(secret) = &reference.credentials else {
            observation.observed.clusters.insert(key.clone(), self.unsupported(key));
            return true;
        };
        let hold = memory.cluster_handles.entry(key.clone()).or_insert_with(|| {
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
                dark(known, since, Reason::NotConnected, FailureReason::Unreachable, "it is being connected")
            }
            ConnectionState::NotConnected(down) => self.down(key, known, &down, secret),
            ConnectionState::Connected(live) => match self.identify(known, &live, secret) {
                Err(state) => state,
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
                    clients.add(&state.id, key, live.client.on_behalf_of(self.key));
                    state
                }
            },
        };
        state.succeeded = self.has_been_at(&reference.display, known);
        self.go_on(&mut state, secret);
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
    ) -> Result<Known<'r>, ObservedCluster> {
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
        let confirm = format!("kubectl annotate {kind} {name}{place} {value}");
        let message = if *verified || known.unverified {
            format!(
                "Secret `{secret}` leads to cluster `{uid}` now, and to `{}` before, where the instance has its \
                 objects; restore the Secret, or give them up with `{confirm}`",
                known.uid
            )
        } else {
            format!(
                "Secret `{secret}` leads to `{uid}`, which does not say whether it is cluster `{}`, where the instance \
                 has its objects; allow the credential to get namespace `kube-system` there, or give them up with \
                 `{confirm}`",
                known.uid
            )
        };
        let reason = FailureReason::Credentials;
        // The other cluster may have been connected for long; this is news. What the status says from before goes on.
        Err(dark(known, Timestamp::now(), Reason::IdentityChanged, reason, &message))
    }

    fn down(
        &self,
        key: &ReferenceKey,
        known: Option<&RecordedCluster>,
        down: &Disconnected,
        secret: &SecretAddress,
    ) -> ObservedCluster {
        // The plan says what is not connected; here is why.
        let opening = format!("cannot connect to cluster `{secret}`: ");
        let message = down.message.strip_prefix(opening.as_str()).unwrap_or(&down.message);
        let step = match down.step {
            ConnectStep::Secret => Reason::SecretNotAvailable,
            ConnectStep::Key => Reason::SecretKeyMissing,
            ConnectStep::Parse => Reason::KubeconfigInvalid,
            ConnectStep::Reach => Reason::Unreachable,
            ConnectStep::Authenticate => Reason::AuthenticationFailed,
        };
        let mut state = match (known, &down.identity) {
            (Some(known), _) => dark(known, down.since, step, down.reason, message),
            (None, Some(identity)) => ObservedCluster {
                id: identity.id.clone(),
                uid: Some(identity.uid.clone()),
                unverified: !identity.verified,
                ..unknown(key, down.since, step, down.reason, message)
            },
            (None, None) => unknown(key, down.since, step, down.reason, message),
        };
        state.last_contact = down.last_contact;
        state
    }

    /// Takes over the times that the status remembers: whether a cluster answers is no news because we are new.
    fn go_on(&self, state: &mut ObservedCluster, secret: &SecretAddress) {
        let entries = self.instance.value().at(&["status", "clusters"]).and_then(Value::as_list);
        let secret = secret.to_string();
        let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
        let found =
            entries.unwrap_or_default().iter().find(|entry| text(entry, "secret").as_ref() == Some(&secret));
        let Some(entry) = found else { return };
        let time = |field| text(entry, field).and_then(|text| text.parse::<Timestamp>().ok());
        let connected = entry.get("connected").and_then(Value::as_bool) == Some(true);
        if connected == state.connection.is_connected() {
            let (ClusterConnection::Connected { since } | ClusterConnection::NotConnected { since, .. }) =
                &mut state.connection;
            *since = time("since").map_or(*since, |before| before.min(*since));
        }
        state.last_contact = state.last_contact.or_else(|| time("lastContact"));
    }

    /// References that lead somewhere by other means than a Secret.
    fn unsupported(&self, key: &ReferenceKey) -> ObservedCluster {
        let message = "this version of the controller does not follow published targets; name a Secret";
        unknown(key, created(self.instance), Reason::NotConnected, FailureReason::Credentials, message)
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
            release_report::abandoned(context, instance, &owned);
        }
    }
}

/// Forgets the clusters that an inventory names no more. Returns whether there are any.
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
    memory.cluster_handles.retain(|key, hold| {
        let wanted = plan.clusters.iter().any(|used| used.key == *key)
            || recorded.by_reference(key.as_str()).is_some();
        if !wanted {
            context.instances.leave_cluster(instance, hold.secret());
        }
        wanted
    });
    memory.child_caches.retain(|(cluster, ..), child| {
        let wanted = plan.clusters.iter().any(|used| used.id == *cluster)
            || recorded.clusters().iter().any(|recorded| recorded.uid == cluster.as_str());
        if !wanted {
            context.instances.unwatch(instance, child.cache.key());
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
    ObservedCluster {
        id: live.identity.id.clone(),
        uid: Some(live.identity.uid.clone()),
        unverified: !live.identity.verified,
        mode: SyncMode::Watch,
        connection: ClusterConnection::Connected { since: live.since },
        succeeded: false,
        last_contact: Some(live.last_contact),
    }
}

/// A cluster that the inventory knows and that does not answer.
fn dark(
    known: &RecordedCluster,
    since: Timestamp,
    step: Reason,
    reason: FailureReason,
    message: &str,
) -> ObservedCluster {
    ObservedCluster {
        uid: Some(known.uid.as_str().into()),
        unverified: known.unverified,
        ..closed(ClusterId::new(&known.uid), since, step, reason, message)
    }
}

/// A cluster of which only the reference is known.
fn unknown(
    key: &ReferenceKey,
    since: Timestamp,
    step: Reason,
    reason: FailureReason,
    message: &str,
) -> ObservedCluster {
    closed(ClusterId::new(key.as_str()), since, step, reason, message)
}

/// A cluster that does not answer, whatever else is known of it.
fn closed(
    id: ClusterId,
    since: Timestamp,
    step: Reason,
    reason: FailureReason,
    message: &str,
) -> ObservedCluster {
    ObservedCluster {
        id,
        uid: None,
        unverified: false,
        mode: SyncMode::Watch,
        connection: ClusterConnection::NotConnected { since, reason, message: message.into(), step },
        succeeded: false,
        last_contact: None,
    }
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
