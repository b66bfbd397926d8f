//! Previews what the controller would do for one instance with a changed definition: simulates it with the planner of the controller,
//! beginning with what the clusters have.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kross_api::{ObjectKey, ResolvedCluster};
use kross_graph::Graph;
use kross_plan::simulate::{Action, ActionKind, Connection, Location, Reconcile, Simulator, admitted};
use kross_plan::{CollectionQuery, ExternalRead, Progress, Settings};
use kross_value::{Text, Value};

use crate::state::{InstanceState, StateSource, value};

/// How often a preview begins again with objects that it turned out to read.
const MAX_ROUNDS: usize = 8;

/// What would happen to an instance.
pub(super) struct Preview {
    pub(super) actions: Vec<Action>,
    /// The objects as they would be applied, in every cluster.
    pub(super) desired: BTreeMap<ObjectKey, Value>,
    /// The objects as the clusters have them.
    pub(super) before: BTreeMap<ObjectKey, Value>,
    /// Resources that cannot be previewed to the end, and why: they fail, or wait for data that only a cluster has.
    pub(super) open: Vec<(Text, Text, bool)>,
    /// Every resource with its state, and why it is in it.
    pub(super) nodes: Vec<(String, String, Option<String>)>,
    /// What could not be read.
    pub(super) unknown: BTreeSet<String>,
    /// What was read beside the objects of the instance, with its cluster.
    pub(super) read: Vec<(Option<ResolvedCluster>, serde_json::Value)>,
}

/// An object to read from a cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    Object(ObjectKey, Text),
    List(CollectionQuery),
}

/// Previews an instance.
pub(super) async fn preview(
    graph: &Graph,
    state: &InstanceState,
    source: &StateSource<'_>,
    hub_uid: &str,
    now: Timestamp,
) -> Preview {
    let settings = settings(state, hub_uid);
    let mut read: BTreeMap<Wanted, Vec<(Option<ResolvedCluster>, Value)>> = BTreeMap::new();
    let mut unknown: BTreeSet<String> = state.unknown.iter().cloned().collect();
    let mut round = 0;
    loop {
        round += 1;
        let mut simulator = restored(graph, state, &settings, now);
        let before = simulator
            .objects()
            .into_iter()
            .map(|(key, _, object)| (key.clone(), object.value.clone()))
            .collect();
        for (cluster, object) in read.values().flatten() {
            let location = match cluster {
                Some(cluster) => Location::Cluster(cluster.display.clone()),
                None => Location::Local,
            };
            simulator.add_object(&location, object);
        }
        let reconcile = simulator.reconcile(graph);
        let actions = simulator.take_actions();
        let mut wanted = wanted(&reconcile, &actions);
        wanted.retain(|wanted| !read.contains_key(wanted));
        if wanted.is_empty() || round == MAX_ROUNDS {
            let mut preview = finish(&reconcile, actions, before, unknown);
            let found = read.into_values().flatten();
            preview.read = found.map(|(cluster, object)| (cluster, (&object).into())).collect();
            return preview;
        }
        for wanted in wanted {
            let found = match fetch(&wanted, &simulator, source).await {
                Ok(found) => found,
                Err(error) => {
                    unknown.insert(format!("{error:#}"));
                    Vec::new()
                }
            };
            read.insert(wanted, found);
        }
    }
}

/// The settings with which the objects were applied: the version is in their labels.
fn settings(state: &InstanceState, hub_uid: &str) -> Settings {
    let mut objects = state.local.iter().chain(state.clusters.iter().flat_map(|cluster| &cluster.objects));
    let version = objects
        .find_map(|object| object.pointer("/metadata/labels")?.get(kross_api::labels::KRO_VERSION)?.as_str());
    let mut settings = Settings { hub_uid: hub_uid.into(), ..Settings::default() };
    if let Some(version) = version {
        settings.version = version.into();
    }
    settings
}

fn restored(graph: &Graph, state: &InstanceState, settings: &Settings, now: Timestamp) -> Simulator {
    let instance = admitted(graph, &value(&state.instance));
    let mut simulator = Simulator::new(instance, settings, now);
    for object in &state.local {
        simulator.restore(&kross_api::ClusterId::local(), &value(object));
    }
    for cluster in &state.clusters {
        let Some(reference) = cluster.reference() else { continue };
        let connection = match cluster.connected {
            true => Connection::Connected,
            false => Connection::NotConnected {
                reason: kross_api::FailureReason::Unreachable,
                cause: "it is not connected".into(),
            },
        };
        let id = simulator.restore_cluster(reference, &connection);
        for object in &cluster.objects {
            simulator.restore(&id, &value(object));
        }
    }
    simulator
}

/// What a preview reads: external objects, and objects that may exist in the place of those that it creates.
fn wanted(reconcile: &Reconcile, actions: &[Action]) -> Vec<Wanted> {
    let mut wanted: Vec<Wanted> = reconcile
        .plan
        .reads
        .iter()
        .map(|read| match read {
            ExternalRead::Object { key, version } => {
                let api_version = match key.group.is_empty() {
                    true => version.clone(),
                    false => format!("{}/{version}", key.group).into(),
                };
                Wanted::Object(key.clone(), api_version)
            }
            ExternalRead::Collection(query) => Wanted::List(query.clone()),
        })
        .collect();
    let planned = reconcile.plan.nodes.iter().flat_map(|node| &node.objects);
    let version = |key: &ObjectKey| {
        planned.clone().find(|object| object.key == *key).map(|object| object.api_version.clone())
    };
    let created = actions.iter().filter(|action| action.kind == ActionKind::Create);
    wanted
        .extend(created.filter_map(|action| Some(Wanted::Object(action.key.clone(), version(&action.key)?))));
    wanted
}

async fn fetch(
    wanted: &Wanted,
    simulator: &Simulator,
    source: &StateSource<'_>,
) -> anyhow::Result<Vec<(Option<ResolvedCluster>, Value)>> {
    match wanted {
        Wanted::Object(key, api_version) => {
            let cluster = simulator.reference(&key.cluster);
            let kind = (api_version.as_str(), key.kind.as_str());
            let found = source.read(cluster, kind, key.namespace.as_deref(), &key.name).await?;
            Ok(found.iter().map(|object| (cluster.cloned(), value(object))).collect())
        }
        Wanted::List(query) => {
            let cluster = simulator.reference(&query.cluster);
            let kind = (query.group.as_str(), query.version.as_str(), query.kind.as_str());
            let found = source.list(cluster, kind, query.namespace.as_deref()).await?;
            Ok(found.iter().map(|object| (cluster.cloned(), value(object))).collect())
        }
    }
}

fn finish(
    reconcile: &Reconcile,
    actions: Vec<Action>,
    before: BTreeMap<ObjectKey, Value>,
    unknown: BTreeSet<String>,
) -> Preview {
    let planned = reconcile.plan.nodes.iter().flat_map(|node| &node.objects);
    let desired = planned.filter_map(|object| Some((object.key.clone(), object.desired.clone()?))).collect();
    let mut open: Vec<(Text, Text, bool)> = Vec::new();
    for node in &reconcile.plan.nodes {
        let failed = matches!(node.progress, Progress::Failed(_) | Progress::NotConnected(_));
        let is_open = failed
            || matches!(
                node.progress,
                Progress::Blocked { .. }
                    | Progress::Unresolved(_)
                    | Progress::Held(_)
                    | Progress::Deleting(_)
            );
        if let (true, Some(message)) = (is_open, node.progress.message()) {
            open.push((node.id.clone(), message, failed));
        }
    }
    for (pending, wait) in &reconcile.plan.prune.waiting {
        let object = format!("{} {}: {}", pending.key.kind, pending.key.namespaced_name(), wait.message());
        open.push((pending.node.clone(), object.into(), wait.reason().is_some()));
    }
    let nodes = reconcile.plan.nodes.iter().map(|node| {
        let message = node.progress.message().map(|message| message.to_string());
        (node.id.to_string(), node.progress.state().to_string(), message)
    });
    Preview { actions, desired, before, open, nodes: nodes.collect(), unknown, read: Vec::new() }
}
