//! The part of an instance's inventory about remote clusters: what a plan requires in it before the first write, and what leaves
//! it when a cluster is no longer used.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kross_api::{ClusterId, ClusterInventory, GroupKind, Inventory, RecordedCluster, annotations};
use kross_cluster::{ObjectKey, StoredObject};
use kross_plan::{
    AccessPath, InventoryCluster, ObservedCluster, Plan, PlannedObject, ReferenceKey, UsedCluster,
};
use kross_value::Text;

use super::observation::Observation;
use super::release_report;
use crate::context::Context;

/// In place of a UID: all clusters are given up.
const ALL_CLUSTERS: &str = "*";

/// Replaces the URLs of clusters by their UIDs, where those became known.
pub(super) fn record_uids(recorded: &mut ClusterInventory, observation: &Observation) {
    let mut found: Vec<RecordedCluster> = Vec::new();
    for (reference, url, uid) in &observation.renamed {
        let known = recorded.find(reference, url).cloned();
        found.extend(known.map(|known| RecordedCluster { uid: uid.to_string(), unverified: false, ..known }));
    }
    if found.is_empty() {
        return;
    }
    let renamed = observation.renamed.iter().map(|(reference, url, _)| (reference.as_str(), url.as_str()));
    let renamed: HashSet<(&str, &str)> = renamed.collect();
    recorded.retain(|cluster| !renamed.contains(&(cluster.reference.as_str(), cluster.uid.as_str())));
    found.into_iter().for_each(|cluster| recorded.add(cluster));
}

/// Removes the clusters whose objects the instance's owner confirmed to give up, and reports each of them.
pub(super) fn remove_abandoned(
    context: &Context,
    instance: &StoredObject,
    recorded: &mut ClusterInventory,
    observation: &mut Observation,
) {
    for (reference, uid) in observation.abandoned.drain(..) {
        let owned = recorded.find(&reference, &uid).cloned();
        recorded.retain(|cluster| cluster.reference != reference || cluster.uid != uid);
        let is_abandoned =
            |known: &InventoryCluster| known.key.as_str() == reference && known.id.claim() == uid;
        observation.observed.recorded.retain(|known| !is_abandoned(known));
        if let Some(owned) = owned {
            release_report::abandoned(context, instance, &owned);
        }
    }
}

/// The clusters whose objects the instance's owner gives up.
pub(crate) struct GivenUp<'i> {
    uids: HashSet<&'i str>,
    /// Whether it is all of them, whether their UIDs are known or not.
    pub(super) all: bool,
}

impl<'i> GivenUp<'i> {
    pub(crate) fn of(instance: &'i StoredObject) -> Self {
        let uids = instance.annotation(annotations::ABANDON_CLUSTER).unwrap_or_default().split(',');
        let mut uids: HashSet<&str> = uids.map(str::trim).filter(|uid| !uid.is_empty()).collect();
        // A living instance would give up clusters that it is about to use.
        let all = uids.remove(ALL_CLUSTERS) && instance.deletion_timestamp().is_some();
        Self { uids, all }
    }

    fn is_none(&self) -> bool {
        !self.all && self.uids.is_empty()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.all || self.uids.contains(uid)
    }
}

/// Removes the clusters whose objects the instance's owner gives up, and reports each of them. A cluster that the plan uses stays.
/// Returns whether there was one.
pub(super) fn remove_given_up(
    context: &Context,
    instance: &StoredObject,
    recorded: &mut ClusterInventory,
    plan: Option<(&Plan, &Observation)>,
) -> bool {
    let given_up = GivenUp::of(instance);
    if given_up.is_none() {
        return false;
    }
    let is_used = |cluster: &RecordedCluster| {
        plan.is_some_and(|(plan, observation)| {
            let id = observation.id_of(cluster);
            plan.clusters.iter().any(|used| !used.former && used.id == id)
        })
    };
    let is_given_up = |cluster: &RecordedCluster| given_up.contains(&cluster.uid) && !is_used(cluster);
    let removed: Vec<RecordedCluster> =
        recorded.clusters().iter().filter(|cluster| is_given_up(cluster)).cloned().collect();
    recorded.retain(|cluster| !is_given_up(cluster));
    removed.iter().for_each(|cluster| release_report::abandoned(context, instance, cluster));
    !removed.is_empty()
}

/// Removes the clusters from an observation that the inventory no longer has. Returns whether there were any.
pub(super) fn remove_unrecorded(recorded: &ClusterInventory, observation: &mut Observation) -> bool {
    let known = observation.observed.recorded.len();
    let still = |known: &InventoryCluster| recorded.find(known.key.as_str(), known.id.claim()).is_some();
    observation.observed.recorded.retain(still);
    observation.observed.recorded.len() != known
}

/// The entries that the inventory must have before the first write of a plan.
pub(super) fn required_entries(plan: &Plan) -> Vec<RecordedCluster> {
    let in_use = plan.clusters.iter().filter(|used| !used.former);
    let planned = PlannedContents::of(plan);
    let applied = plan.apply.iter().filter_map(|action| plan.object(action));
    let applied: HashSet<(&ClusterId, &ReferenceKey)> = applied
        .filter_map(|object| Some((&object.key.cluster, &plan.access_paths.to(&object.key)?.key)))
        .collect();
    let record = |used: &UsedCluster| {
        // A Secret that is being deleted waits for the inventories that name it, so it gets no new ones, except for deletion
        // hooks.
        let is_usable = |state: &&ObservedCluster| {
            state.connection.is_connected()
                && (state.deletions_only.is_none() || applied.contains(&(&used.id, &used.key)))
        };
        let state = used.state.as_ref().filter(is_usable)?;
        Some(RecordedCluster {
            reference: used.key.as_str().to_owned(),
            uid: state.uid.as_ref()?.to_string(),
            unverified: state.unverified,
            name: used.reference.display.clone(),
            contents: planned.contents(used).into(),
        })
    };
    in_use.filter_map(record).collect()
}

/// Records which targets the plan chose by selectors. A choice is an entry without contents, whose name is that of the target.
pub(super) fn record_choices(plan: &Plan, recorded: &mut ClusterInventory) {
    for (selector, target) in &plan.choices {
        let used = plan.clusters.iter().find(|used| used.key == *target);
        let Some((used, uid)) = used.and_then(|used| Some((used, used.state.as_ref()?.uid.as_ref()?))) else {
            continue;
        };
        // Like the cluster itself, which is recorded when it is connected.
        if recorded.find(target.as_str(), uid).is_none() {
            continue;
        }
        let name = used.reference.display.as_str();
        let is_former = |other: &RecordedCluster| {
            other.reference == selector.as_str() && (other.uid != uid.as_str() || other.name != name)
        };
        recorded.retain(|other| !is_former(other));
        recorded.add(RecordedCluster {
            reference: selector.as_str().to_owned(),
            uid: uid.to_string(),
            unverified: used.state.as_ref().is_some_and(|state| state.unverified),
            name: name.to_owned(),
            contents: Arc::default(),
        });
    }
}

/// The objects that a plan applies in remote clusters, with their access paths.
pub(super) fn applied_objects(plan: &Plan) -> impl Iterator<Item = (&PlannedObject, &AccessPath)> {
    let objects = plan.nodes.iter().flat_map(|node| &node.objects);
    let desired = objects.filter(|object| object.desired.is_some());
    desired.filter_map(|object| Some((object, plan.access_paths.to(&object.key)?)))
}

/// The kinds that a plan applies in remote clusters, by cluster and reference.
pub(super) struct PlannedContents<'a> {
    plan: &'a Plan,
    in_use: HashMap<&'a ClusterId, Vec<&'a UsedCluster>>,
    kinds: HashMap<(&'a ClusterId, &'a ReferenceKey), BTreeSet<GroupKind>>,
}

impl<'a> PlannedContents<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let mut seen: HashSet<(&ClusterId, &ReferenceKey, &Text, &Text)> = HashSet::new();
        let mut kinds: HashMap<(&ClusterId, &ReferenceKey), BTreeSet<GroupKind>> = HashMap::new();
        for (object, access_path) in applied_objects(plan) {
            let ObjectKey { cluster, group, kind, .. } = &object.key;
            if seen.insert((cluster, &access_path.key, group, kind)) {
                kinds.entry((cluster, &access_path.key)).or_default().insert(GroupKind::new(group, kind));
            }
        }
        let mut in_use: HashMap<&ClusterId, Vec<&UsedCluster>> = HashMap::new();
        for used in plan.clusters.iter().filter(|used| !used.former) {
            in_use.entry(&used.id).or_default().push(used);
        }
        Self { plan, in_use, kinds }
    }

    /// What the plan applies in a cluster by one reference.
    fn contents(&self, used: &UsedCluster) -> Inventory {
        let Some(group_kinds) = self.kinds.get(&(&used.id, &used.key)).cloned() else {
            return Inventory::default();
        };
        let all = self.plan.inventory.get(&used.id).cloned().unwrap_or_default();
        Inventory { group_kinds, namespaces: all.namespaces }
    }

    /// What the plan keeps in a recorded cluster by the recorded reference, and the kinds that it has there by others.
    pub(super) fn kept(
        &self,
        recorded: &RecordedCluster,
        id: &ClusterId,
    ) -> (Inventory, BTreeSet<GroupKind>) {
        let (mut own, mut others) = (Inventory::default(), BTreeSet::new());
        for used in self.in_use.get(id).into_iter().flatten() {
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

/// A remote cluster, and what the inventory has there.
pub(super) struct RemoteInventory {
    pub(super) cluster: ClusterId,
    /// The name that messages call it by.
    pub(super) name: Text,
    /// What is, or may be, there, by whichever reference.
    pub(super) contents: Inventory,
    /// The references that it is recorded by, with the names that they give it.
    pub(super) references: Vec<(ReferenceKey, Text)>,
}

/// The remote clusters that have, or may have, objects.
pub(super) fn remote_inventories(
    recorded: &ClusterInventory,
    observation: &Observation,
) -> Vec<RemoteInventory> {
    let mut references: HashMap<ClusterId, Vec<(ReferenceKey, Text)>> = HashMap::new();
    for cluster in recorded.clusters() {
        let key = ReferenceKey::parse(&cluster.reference).map(|key| (key, cluster.name.as_str().into()));
        references.entry(observation.id_of(cluster)).or_default().extend(key);
    }
    let contents = contents_by_cluster(recorded, observation).into_iter();
    let remote = |(cluster, (name, contents)): (ClusterId, (Text, Inventory))| {
        let references = references.remove(&cluster).unwrap_or_default();
        RemoteInventory { cluster, name, contents, references }
    };
    contents.map(remote).collect()
}

/// What is, or may be, in each remote cluster, by whichever reference that is proven to lead there.
pub(super) fn contents_by_cluster(
    recorded: &ClusterInventory,
    observation: &Observation,
) -> BTreeMap<ClusterId, (Text, Inventory)> {
    let mut contents: BTreeMap<ClusterId, (Text, Inventory)> = BTreeMap::new();
    for cluster in recorded.clusters().iter().filter(|cluster| !cluster.contents.group_kinds.is_empty()) {
        let new = || (Text::from(cluster.name.as_str()), Inventory::default());
        let (_, there) = contents.entry(observation.id_of(cluster)).or_insert_with(new);
        there.extend(&cluster.contents);
    }
    contents
}
