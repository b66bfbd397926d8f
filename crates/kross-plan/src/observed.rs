//! The observed state from which a plan is made: objects, external objects, clusters and earlier failures. The planner has no
//! other input and reads no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use jiff::Timestamp;
use kross_api::{
    Authority, COMPUTE_GROUP, ClusterId, ConnectionFailure, FailureReason, LabelSelector, ManagedResource,
    ObjectKey, Operation, ResolvedCluster, ResolvedCredentials, SecretAddress, SyncMode, WORKLOAD_GROUP,
    annotations, labels,
};
use kross_value::{Text, Value};

use crate::plan::ExternalRead;
use crate::progress::ResourceFailure;

/// The observed state.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Objects with the instance's ownership labels, and other objects that were seen in the place of a desired one.
    pub objects: HashMap<ObjectKey, ObservedObject>,
    /// Objects of external references by name: no entry before the first read, none where the object does not exist.
    pub externals: HashMap<ObjectKey, Option<ObservedObject>>,
    /// Objects of external references by selector: no entry before the first list.
    pub collections: HashMap<CollectionQuery, Vec<ObservedObject>>,
    /// The last failure of each object. The caller removes it when the operation succeeds.
    pub failures: BTreeMap<ObjectKey, OperationFailure>,
    /// Objects that another client changes again after every repair.
    pub contested: BTreeMap<ObjectKey, Contest>,
    /// Who removes finalizer, labels or annotations of the instance itself again and again.
    pub contested_metadata: Option<Text>,
    /// Clusters by reference: no entry before the first attempt to connect.
    pub clusters: HashMap<ReferenceKey, ObservedCluster>,
    /// Clusters by references whose namespace the definition does not fix, as the owners of their credentials allow it.
    pub clusters_by_owner: HashMap<ReferenceKey, ObservedCluster>,
    /// The targets that were chosen for references by selector: the names by the keys of the references.
    pub targets: HashMap<ReferenceKey, Text>,
    /// Whether kinds are namespaced, where the graph does not know.
    pub scopes: HashMap<KindKey, bool>,
    /// Kinds whose objects are not known: they are being listed, or the list failed.
    pub unlisted: HashMap<KindKey, Option<OperationFailure>>,
    /// External reads that failed.
    pub unreadable: HashMap<ExternalRead, OperationFailure>,
    /// External reads whose content may be out of date: their cache is not in sync.
    pub stale: HashSet<ExternalRead>,
    /// The clusters in the instance's inventory, whether or not the graph still uses them.
    pub recorded: Vec<InventoryCluster>,
    /// When the deletion of objects was first attempted.
    pub attempts: BTreeMap<ObjectKey, Timestamp>,
    /// Objects of deletion hooks that do not exist any more, as their cluster says, not a cache. See [`crate::Plan::missing_hooks`].
    pub confirmed_missing: BTreeSet<ObjectKey>,
    /// Objects of deletion hooks that were about to be created and were not, as their cluster says.
    pub never_created: BTreeSet<ObjectKey>,
    /// Kinds that their cluster does not serve, as a complete discovery says that was fetched for this plan.
    pub unserved: BTreeSet<KindKey>,
    /// Objects that cannot be created because their namespace is being deleted.
    pub namespace_terminating: BTreeSet<ObjectKey>,
    /// The resources as they were last reported; if empty, those in the instance's status.
    pub previous: Vec<ManagedResource>,
}

/// An object that another client changes or deletes again after every repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Who changes which fields, how often the object was repaired, and when it is next.
    pub message: Text,
    /// Whether the next repair is not due yet.
    pub waiting: bool,
}

impl Observed {
    /// The cluster of a reference, as its authority allows.
    #[must_use]
    pub fn cluster(&self, key: &ReferenceKey, authority: Authority) -> Option<&ObservedCluster> {
        match authority {
            Authority::Granted => self.clusters.get(key),
            Authority::ByOwner => self.clusters_by_owner.get(key),
        }
    }

    /// A reference by selector with the target that was chosen for it, and the key of the selector. Any other reference stays
    /// as it is, and so does one for which there is no choice yet.
    pub(crate) fn chosen(&self, resolved: ResolvedCluster) -> (ResolvedCluster, Option<ReferenceKey>) {
        let ResolvedCredentials::TargetSelector { namespace, .. } = &resolved.credentials else {
            return (resolved, None);
        };
        let key = ReferenceKey::of(&resolved);
        let Some(name) = self.targets.get(&key) else { return (resolved, None) };
        let credentials =
            ResolvedCredentials::Target { namespace: namespace.clone(), name: name.to_string() };
        let ResolvedCluster { authority, poll, .. } = resolved;
        (ResolvedCluster { display: name.to_string(), credentials, authority, poll }, Some(key))
    }
}

/// A kind in a cluster: cluster, group, kind.
pub type KindKey = (ClusterId, Text, Text);

/// A cluster in the instance's inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryCluster {
    /// Its reference.
    pub key: ReferenceKey,
    /// The name that messages use.
    pub display: Text,
    /// Its id in object keys.
    pub id: ClusterId,
    /// Whether objects may be left there.
    pub holds_objects: bool,
    /// Whether they were listed: then they are among the observed objects even while the cluster is not connected.
    pub listed: bool,
    /// The connection Secret, where a target leads to the cluster.
    pub secret: Option<SecretAddress>,
}

/// The objects that lead to the clusters in an inventory: Secrets with kubeconfigs, the targets that name them, and the claims
/// that have a target of their name.
#[derive(Clone, Debug, Default)]
pub struct AccessObjects<'a>(HashMap<ObjectKey, Vec<&'a InventoryCluster>>);

impl<'a> AccessObjects<'a> {
    /// Those of these clusters.
    #[must_use]
    pub fn of(recorded: &'a [InventoryCluster]) -> Self {
        let mut objects: HashMap<ObjectKey, Vec<&InventoryCluster>> = HashMap::new();
        for cluster in recorded {
            for object in cluster.access_objects() {
                objects.entry(object).or_default().push(cluster);
            }
        }
        Self(objects)
    }

    /// The clusters that an object leads to; none if it is no such object.
    pub fn opened_by(&self, object: &ObjectKey) -> impl Iterator<Item = &'a InventoryCluster> {
        self.0.get(object).into_iter().flatten().copied()
    }
}

impl InventoryCluster {
    /// The objects that lead to the cluster by this reference.
    fn access_objects(&self) -> Vec<ObjectKey> {
        let object = |group: &str, kind: &str, namespace: &str, name: &str| ObjectKey {
            cluster: ClusterId::local(),
            group: group.into(),
            kind: kind.into(),
            namespace: Some(namespace.into()),
            name: name.into(),
        };
        let secret = |address: &SecretAddress| object("", "Secret", &address.namespace, &address.name);
        let mut objects: Vec<ObjectKey> = self.secret.as_ref().map(secret).into_iter().collect();
        match self.key.resolved().map(|reference| reference.credentials) {
            Some(ResolvedCredentials::Secret(address)) => objects.push(secret(&address)),
            Some(ResolvedCredentials::Target { namespace, name }) => {
                objects.push(object(WORKLOAD_GROUP, "KubernetesTarget", &namespace, &name));
                objects.push(object(COMPUTE_GROUP, "KubernetesCluster", &namespace, &name));
            }
            Some(ResolvedCredentials::TargetSelector { .. }) | None => {}
        }
        objects
    }
}

/// An object as an API server returned it. Its `Debug` output does not show what is in it: that may be a Secret.
#[derive(Clone, PartialEq)]
pub struct ObservedObject {
    /// The object, without managed fields.
    pub value: Value,
    /// Whether another client changed an applied field since.
    pub drifted: bool,
    /// Why expressions must not see it, if so.
    pub withheld: Option<Withheld>,
}

/// Why expressions must not see an object: it is not known that the ServiceAccount of the instance may get it.
#[derive(Clone, Debug, PartialEq)]
pub enum Withheld {
    /// Its access has not been reviewed yet.
    Unreviewed,
    /// It may not, or the review failed.
    Denied(OperationFailure),
}

impl fmt::Debug for ObservedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let namespace = self.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let drifted = if self.drifted { ", drifted" } else { "" };
        write!(f, "ObservedObject({kind} {namespace}{}, uid {}{drifted})", self.name(), self.uid())
    }
}

impl ObservedObject {
    /// An object without drift.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self { value, drifted: false, withheld: None }
    }

    fn metadata(&self, field: &str) -> Option<&Value> {
        self.value.get("metadata")?.get(field)
    }

    /// A label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata("labels")?.get(key)?.as_str()
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata("annotations")?.get(key)?.as_str()
    }

    /// Its UID; empty where it has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata("uid").and_then(Value::as_str).unwrap_or_default()
    }

    /// Its generation.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.metadata("generation").and_then(Value::as_int)
    }

    /// Its namespace, if it is in one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.metadata("namespace").and_then(Value::as_str)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Its API version, such as `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it has a deletion timestamp.
    #[must_use]
    pub fn terminating(&self) -> bool {
        self.metadata("deletionTimestamp").is_some_and(|time| !time.is_null())
    }

    /// Its finalizers.
    #[must_use]
    pub fn finalizers(&self) -> Vec<&str> {
        let list = self.metadata("finalizers").and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).collect()
    }

    /// The apply set that it belongs to.
    #[must_use]
    pub fn part_of(&self) -> Option<&str> {
        self.label(labels::APPLYSET_PART_OF)
    }

    /// The node that it was created from.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.label(labels::NODE_ID)
    }

    /// Its position in a collection.
    #[must_use]
    pub fn collection_index(&self) -> Option<usize> {
        self.label(labels::COLLECTION_INDEX)?.parse().ok()
    }

    /// The hash of the object that was last applied.
    #[must_use]
    pub fn desired_hash(&self) -> Option<&str> {
        self.annotation(annotations::DESIRED_HASH)
    }

    /// Its layer in the order of creation; 0 where it has none.
    #[must_use]
    pub fn apply_order(&self) -> i64 {
        self.annotation(annotations::APPLY_ORDER).and_then(|order| order.parse().ok()).unwrap_or(0)
    }
}

/// A failed operation on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFailure {
    /// The node of the object.
    pub node: Text,
    /// The operation.
    pub operation: Operation,
    /// The class of the failure.
    pub reason: FailureReason,
    /// The error.
    pub message: Text,
    /// When it first failed.
    pub since: Timestamp,
}

impl OperationFailure {
    /// The failure as the status reports it, with this message.
    pub(crate) fn reported(&self, message: String) -> ResourceFailure {
        ResourceFailure {
            operation: Some(self.operation),
            reason: self.reason,
            message: message.into(),
            error: self.message.clone(),
            since: Some(self.since),
            connection: None,
        }
    }
}

/// The observed state of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedCluster {
    /// Its id in object keys. References to the same cluster have the same id: a UID that two servers claim is not enough for that.
    pub id: ClusterId,
    /// The UID of its `kube-system` namespace, or its URL.
    pub uid: Option<Text>,
    /// Whether `uid` is its URL.
    pub unverified: bool,
    /// Whether it is watched or polled.
    pub mode: SyncMode,
    /// Whether it is connected.
    pub connection: ClusterConnection,
    /// Whether an operation of this instance ever succeeded there.
    pub succeeded: bool,
    /// Why a connected cluster serves deletions only, if so: nothing is applied or read there for an instance that lives.
    pub deletions_only: Option<ConnectionFailure>,
    /// What people should know about a connected cluster, which is used nevertheless.
    pub warning: Option<Text>,
    /// The connection Secret, where a target leads to the cluster.
    pub secret: Option<SecretAddress>,
}

/// Whether a cluster is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterConnection {
    /// It is.
    Connected {
        /// Since when.
        since: Timestamp,
        /// When it last answered.
        last_contact: Option<Timestamp>,
    },
    /// It is not, for this reason.
    NotConnected(ConnectionFailure),
}

impl ClusterConnection {
    /// Whether it is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self, Self::Connected { .. })
    }

    /// Why it is not connected, if it is not.
    #[must_use]
    pub fn failure(&self) -> Option<&ConnectionFailure> {
        match self {
            Self::Connected { .. } => None,
            Self::NotConnected(failure) => Some(failure),
        }
    }

    /// Since when it is or is not connected.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        match self {
            Self::Connected { since, .. } => *since,
            Self::NotConnected(failure) => failure.since,
        }
    }

    /// When the cluster last answered.
    #[must_use]
    pub fn last_contact(&self) -> Option<Timestamp> {
        match self {
            Self::Connected { last_contact, .. } => *last_contact,
            Self::NotConnected(failure) => failure.last_contact,
        }
    }

    /// Sets an earlier `since`, and the last contact where none is known.
    pub fn backdate(&mut self, earlier: Option<Timestamp>, contact: Option<Timestamp>) {
        let (since, last_contact) = match self {
            Self::Connected { since, last_contact } => (since, last_contact),
            Self::NotConnected(failure) => (&mut failure.since, &mut failure.last_contact),
        };
        *since = earlier.map_or(*since, |earlier| earlier.min(*since));
        *last_contact = last_contact.or(contact);
    }
}

/// The key of a cluster reference: references with the same credentials have the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReferenceKey(Text);

impl ReferenceKey {
    /// The key of a reference.
    #[must_use]
    pub fn of(cluster: &ResolvedCluster) -> Self {
        Self::of_credentials(&cluster.credentials)
    }

    /// The key of a reference with these credentials.
    #[must_use]
    pub fn of_credentials(credentials: &ResolvedCredentials) -> Self {
        Self(match credentials {
            ResolvedCredentials::Secret(secret) => {
                format!("secret/{}/{}/{}", secret.namespace, secret.name, secret.key).into()
            }
            ResolvedCredentials::Target { namespace, name } => format!("target/{namespace}/{name}").into(),
            ResolvedCredentials::TargetSelector { namespace, selector } => {
                let selector = serde_json::to_string(selector).unwrap_or_default();
                format!("targets/{namespace}/{selector}").into()
            }
        })
    }

    /// Parses a key.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let key = Self(text.into());
        key.resolved().is_some().then_some(key)
    }

    /// The reference, named after its credentials. A key grants nothing: it may come from an inventory.
    #[must_use]
    pub fn resolved(&self) -> Option<ResolvedCluster> {
        let (kind, rest) = self.0.split_once('/')?;
        let (namespace, rest) = rest.split_once('/')?;
        let namespace = namespace.to_owned();
        let credentials = match kind {
            "secret" => {
                let (name, key) = rest.split_once('/')?;
                let (name, key) = (name.to_owned(), key.to_owned());
                ResolvedCredentials::Secret(SecretAddress { namespace, name, key })
            }
            "target" => ResolvedCredentials::Target { namespace, name: rest.to_owned() },
            _ => {
                let selector = serde_json::from_str(rest).ok()?;
                ResolvedCredentials::TargetSelector { namespace, selector }
            }
        };
        let (display, authority) = (credentials.to_string(), Authority::ByOwner);
        Some(ResolvedCluster { display, credentials, authority, poll: None })
    }

    /// The key as text, such as `secret/shop/eu-kubeconfig/kubeconfig`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The objects that an external reference selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionQuery {
    /// The cluster.
    pub cluster: ClusterId,
    /// API group of the objects.
    pub group: Text,
    /// API version of the objects.
    pub version: Text,
    /// Kind of the objects.
    pub kind: Text,
    /// The namespace; none is all of them.
    pub namespace: Option<Text>,
    /// The label selector as JSON with sorted keys.
    selector: Text,
    /// The label selector for namespaces as JSON with sorted keys.
    namespace_selector: Option<Text>,
}

impl CollectionQuery {
    /// A query with these rendered selectors.
    #[must_use]
    pub fn new(
        kind: (ClusterId, &kross_graph::ObjectKind),
        namespace: Option<Text>,
        selector: &Value,
        namespace_selector: Option<&Value>,
    ) -> Self {
        let (cluster, kind) = kind;
        Self {
            cluster,
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
            namespace,
            selector: selector.to_string().into(),
            namespace_selector: namespace_selector.map(|selector| selector.to_string().into()),
        }
    }

    /// The label selector.
    #[must_use]
    pub fn selector(&self) -> LabelSelector {
        serde_json::from_str(&self.selector).unwrap_or_default()
    }

    /// The label selector for namespaces.
    #[must_use]
    pub fn namespace_selector(&self) -> Option<LabelSelector> {
        self.namespace_selector.as_ref().map(|selector| serde_json::from_str(selector).unwrap_or_default())
    }
}
