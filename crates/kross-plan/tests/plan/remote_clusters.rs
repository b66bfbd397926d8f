//! Graphs over several clusters: connection, identity, conditions, and reactions to an unreachable cluster.

use kross_api::{
    ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, InstanceState, ResourceState,
};
use kross_plan::{ClusterConnection, Progress};

use super::world::*;

const TWO: &str = r"
schema:
  apiVersion: v1
  kind: App
  spec: {region: string}
resources:
- id: here
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: same}}
- id: there
  cluster: {name: '${schema.spec.region}-kubeconfig', namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: same}, data: {uid: '${here.metadata.uid}'}}
";

pub(crate) fn connected() -> ClusterConnection {
    ClusterConnection::Connected { since: at(0), last_contact: None }
}

pub(crate) fn unreachable() -> ClusterConnection {
    not_connected(ConnectStep::Reach, FailureReason::Unreachable, "connection refused", at(30))
}

fn not_connected(
    step: ConnectStep,
    reason: FailureReason,
    cause: &str,
    since: jiff::Timestamp,
) -> ClusterConnection {
    let advice = ConnectionAdvice::None;
    ClusterConnection::NotConnected(ConnectionFailure::new(step, reason, cause, advice, since))
}

fn world() -> World {
    let mut world = World::of(TWO, "{region: eu}");
    world.settings.assume_namespaced = true;
    world
}

const CREDENTIALS: &str = r"
schema: {apiVersion: v1, kind: App, spec: {region: string}}
resources:
- id: credentials
  CLUSTER
  template: {apiVersion: v1, kind: Secret, metadata: {name: credentials}, data: {password: c2VjcmV0}}
- id: here
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: here}
    data:
      password: ${string(credentials.data.password)}
      length: ${string(size(credentials.data.password))}
- id: copy
  template: {apiVersion: v1, kind: Secret, metadata: {name: copy}, data: '${credentials.data}'}
- id: again
  CLUSTER
  template: {apiVersion: v1, kind: Secret, metadata: {name: again}, data: {password: '${credentials.data.password}'}}
";

#[test]
fn expressions_read_the_same_values_whether_or_not_the_cluster_depends_on_the_instance() {
    for region in ["eu", "${schema.spec.region}"] {
        let cluster = format!("cluster: {{name: '{region}-kubeconfig', namespace: clusters}}");
        let mut world = World::of(&CREDENTIALS.replace("CLUSTER", &cluster), "{region: eu}");
        world.settings.assume_namespaced = true;
        let plan = world.settle();
        world.connect(&plan, &connected());
        world.settle();
        let here = world.object_mut("here").value.get("data").unwrap().to_string();
        assert_eq!(here, r#"{"length":"6","password":"secret"}"#, "{region}");
        for copy in ["copy", "again"] {
            let data = world.object_mut(copy).value.get("data").unwrap().to_string();
            assert_eq!(data, r#"{"password":"c2VjcmV0"}"#, "{region}: {copy}");
        }
    }
}

#[test]
fn applies_objects_to_their_cluster_once_it_is_connected() {
    let mut world = world();
    let plan = world.settle();
    assert_eq!(plan.clusters.len(), 1);
    assert_eq!(plan.clusters[0].reference.display, "clusters/eu-kubeconfig");
    assert!(matches!(progress(&plan, "there"), Progress::NotConnected(_)));
    assert_eq!(plan.state, InstanceState::InProgress);
    assert_eq!(condition(&plan, "RemoteClusterConnected").0, "False");
    assert_eq!(condition(&plan, "ClusterResolved").0, "True");
    world.connect(&plan, &connected());
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::Active);
    for kind in ["ClusterResolved", "RemoteClusterConnected", "RemoteResourcesReady", "Ready"] {
        assert_eq!(condition(&plan, kind).0, "True", "{kind}");
    }
    let remote = &plan.node("there").unwrap().objects[0];
    let label = remote
        .desired
        .as_ref()
        .unwrap()
        .at(&["metadata", "labels"])
        .unwrap()
        .get("applyset.kubernetes.io/part-of")
        .unwrap();
    let id = kross_api::remote_applyset_id("app", "shop", "App", "kro.run", "hub");
    assert_eq!(label.as_str(), Some(id.as_str()));
    let clusters = plan.status.get("clusters").unwrap().to_string();
    assert!(
        clusters.contains(r#""ready":1"#) && clusters.contains(r#""secret":"clusters/eu-kubeconfig""#),
        "{clusters}"
    );
    assert_eq!(plan.resources[1].cluster.as_deref(), Some("clusters/eu-kubeconfig"));
}

#[test]
fn an_unreachable_cluster_is_an_error_after_the_first_success_there() {
    let mut world = world();
    let plan = world.settle();
    world.connect(&plan, &connected());
    let plan = world.settle();
    world.connect(&plan, &unreachable());
    assert_eq!(world.plan().state, InstanceState::InProgress);
    world.observed.clusters.values_mut().for_each(|state| state.succeeded = true);
    let plan = world.plan();
    assert_eq!(plan.state, InstanceState::Error);
    assert!(plan.apply.is_empty() && plan.prune.is_done());
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert_eq!(
        message,
        "resource error: `there`: cluster `clusters/eu-kubeconfig` is not connected: connection refused (since 2027-01-15T08:00:30Z)"
    );
    assert_eq!(condition(&plan, "RemoteClusterConnected").1, "Unreachable");
}

#[test]
fn an_instance_that_moves_is_pruned_from_its_former_cluster() {
    let mut world = world();
    let plan = world.settle();
    world.connect(&plan, &connected());
    world.settle();
    world.set_spec("{region: us}");
    let plan = world.plan();
    assert!(plan.prune.delete.is_empty(), "not before the new cluster is connected");
    world.connect(&plan, &connected());
    let plan = world.settle();
    assert_eq!(plan.prune.delete.len(), 1);
    assert_eq!(plan.prune.delete[0].key.cluster.as_str(), "uid of clusters/eu-kubeconfig");
    assert_eq!(plan.inventory.len(), 3);
}

const CHAIN: &str = r"
schema: {apiVersion: v1, kind: App, spec: {region: string}}
cluster: {name: '${schema.spec.region}-kubeconfig', namespace: clusters}
resources:
- id: first
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
- id: second
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {uid: '${first.metadata.uid}'}}
";

/// Ready and total of each cluster.
fn counts(plan: &kross_plan::Plan) -> Vec<(i64, i64)> {
    let clusters = plan.status.get("clusters").unwrap().as_list().unwrap();
    let count = |entry: &kross_value::Value, field| entry.get(field).unwrap().as_int().unwrap();
    clusters.iter().map(|entry| (count(entry, "ready"), count(entry, "total"))).collect()
}

#[test]
fn a_cluster_counts_objects_that_wait_or_are_to_be_deleted() {
    let mut world = World::of(CHAIN, "{region: eu}");
    world.settings.assume_namespaced = true;
    let plan = world.settle();
    world.connect(&plan, &connected());
    let plan = world.settle();
    assert_eq!(counts(&plan), [(2, 2)]);
    world.connect(&plan, &unreachable());
    assert_eq!(counts(&world.plan()), [(0, 2)], "the second waits for the first, and exists");
    world.set_spec("{region: us}");
    let mut plan = world.plan();
    plan.clusters.retain(|used| !used.former);
    world.connect(&plan, &connected());
    let plan = world.settle();
    assert_eq!(counts(&plan), [(2, 2), (0, 2)], "objects to clean up in the former cluster count too");
}

const SPREAD: &str = r"
schema: {apiVersion: v1, kind: App, spec: {numbers: '[]integer'}}
resources:
- id: parts
  forEach: [{number: '${schema.spec.numbers}'}]
  cluster: {name: '${number % 2 == 0 ? ''eu'' : ''us''}-kubeconfig', namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'part-${string(number)}'}}
";

#[test]
fn a_collection_over_several_clusters_is_summarized_without_naming_one() {
    let numbers: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let mut world = World::of(SPREAD, &format!("{{numbers: [{}]}}", numbers.join(", ")));
    world.settings.assume_namespaced = true;
    let plan = world.settle();
    world.connect(&plan, &connected());
    let plan = world.settle();
    assert_eq!(plan.resources.len(), 1);
    assert_eq!(plan.resources[0].cluster.as_deref(), Some("2 clusters"));
    assert_eq!(plan.resources[0].message.as_deref(), Some("50 of 50 items are ready"));
}

const STANDBY: &str = r"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: main
  includeWhen: ['${resources.main.clusterConnected}']
  cluster: {name: eu-kubeconfig, namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: main}}
- id: standby
  includeWhen: ['${resources.main.reason == ''Unreachable'' && resources.main.failingFor > duration(''2m'')}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: standby}}
";

const EITHER: &str = r"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: main
  includeWhen: ['${resources.main.clusterConnected}']
  cluster: {name: eu-kubeconfig, namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: main}}
- id: standby
  includeWhen: ['${!resources.main.clusterConnected}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: standby}}
- id: settings
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {up: '${string(resources.main.clusterConnected)}'}}
";

#[test]
fn expressions_wait_for_the_connection_state_of_a_cluster() {
    for (connection, created) in
        [(connected(), ["main", "settings"]), (unreachable(), ["standby", "settings"])]
    {
        let mut world = World::of(EITHER, "{}");
        let plan = world.settle();
        assert!(world.observed.objects.is_empty(), "{:?}", world.observed.objects.keys());
        assert_eq!(plan.state, InstanceState::InProgress, "an instance without objects is not ready");
        for id in ["main", "standby", "settings"] {
            let message = progress(&plan, id).message().unwrap();
            assert_eq!(
                message, "waiting for the connection state of cluster `clusters/eu-kubeconfig`",
                "{id}"
            );
        }
        world.connect(&plan, &connection);
        let plan = world.settle();
        assert_eq!(plan.state, InstanceState::Active);
        assert_eq!(world.observed.objects.len(), created.len());
        for name in created {
            assert!(world.observed.objects.keys().any(|key| key.name == *name), "{name}");
        }
    }
}

#[test]
fn a_graph_can_react_to_an_unreachable_cluster_and_back_without_flapping() {
    let mut world = World::of(STANDBY, "{}");
    let plan = world.plan();
    world.connect(&plan, &connected());
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::Active);
    assert!(matches!(progress(&plan, "standby"), Progress::Skipped(_)));
    world.connect(&plan, &unreachable());
    world.observed.clusters.values_mut().for_each(|state| state.succeeded = true);
    world.now = at(40);
    let plan = world.settle();
    assert!(matches!(progress(&plan, "main"), Progress::Skipped(_)), "{:?}", progress(&plan, "main"));
    assert!(matches!(progress(&plan, "standby"), Progress::Skipped(_)));
    let recheck = plan.recheck_at.unwrap();
    assert!(recheck > at(150) && recheck < at(151), "{recheck}");
    world.now = recheck;
    let plan = world.settle();
    assert!(progress(&plan, "standby").is_ready(), "{:?}", progress(&plan, "standby"));
    assert!(matches!(progress(&plan, "main"), Progress::Skipped(_)));
    assert_eq!(plan.state, InstanceState::Active);
    let again = world.plan();
    assert!(again.apply.is_empty());
    assert_eq!(again.status, plan.status);
    // The remote object is still reported: it waits to be deleted.
    let waiting = plan.resources.iter().find(|entry| entry.state == ResourceState::Deleting).unwrap();
    assert_eq!(waiting.reason, Some(FailureReason::Unreachable));
    world.connect(&plan, &connected());
    world.now = at(300);
    let plan = world.settle();
    assert!(progress(&plan, "main").is_ready());
    let deleted: Vec<&str> = plan.prune.delete.iter().map(|pending| pending.key.name.as_str()).collect();
    assert_eq!(deleted, ["standby"]);
}

#[test]
fn items_that_are_the_same_object_by_two_references_are_an_error() {
    let mut world = World::of(
        r"
schema: {apiVersion: v1, kind: App, spec: {regions: '[]string'}}
resources:
- id: parts
  forEach: [{region: '${schema.spec.regions}'}]
  cluster: {name: '${region}-kubeconfig', namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: same}}
",
        "{regions: [a, b]}",
    );
    world.settings.assume_namespaced = true;
    let plan = world.plan();
    assert_eq!(plan.node("parts").unwrap().objects.len(), 2);
    world.connect(&plan, &connected());
    world.observed.clusters.values_mut().for_each(|state| state.id = kross_api::ClusterId::new("one"));
    let (_, _, message) = condition(&world.plan(), "ResourcesReady");
    assert!(message.contains("items 0 and 1 are the same object"), "{message}");
}

#[test]
fn a_former_cluster_is_reported_until_it_is_cleaned_up() {
    let mut world = world();
    let plan = world.settle();
    world.connect(&plan, &connected());
    world.settle();
    world.set_spec("{region: us}");
    world.observed.clusters.values_mut().for_each(|state| state.connection = unreachable());
    let plan = world.plan();
    let used: Vec<_> = plan.clusters.iter().map(|used| used.key.clone()).collect();
    for used in plan.clusters.iter().filter(|used| used.needed) {
        let mut state = world.observed.clusters.values().next().unwrap().clone();
        state.id = kross_api::ClusterId::new("us");
        state.connection = connected();
        world.observed.clusters.insert(used.key.clone(), state);
    }
    assert_eq!(used.len(), 2);
    let plan = world.settle();
    assert!(plan.prune.delete.is_empty());
    let entry = plan.resources.last().unwrap();
    assert_eq!(entry.cluster.as_deref(), Some("clusters/eu-kubeconfig"));
    assert_eq!((entry.state, entry.reason), (ResourceState::Deleting, Some(FailureReason::Unreachable)));
    let clusters = plan.status.get("clusters").unwrap().to_string();
    assert!(
        clusters.contains("clusters/eu-kubeconfig") && clusters.contains(r#""connected":false"#),
        "{clusters}"
    );
    assert_eq!(plan.state, InstanceState::Active);
}

#[test]
fn the_last_contact_alone_does_not_change_the_status() {
    let mut world = world();
    let plan = world.settle();
    world.connect(&plan, &connected());
    world.settle();
    world.observed.clusters.values_mut().for_each(|state| state.connection.backdate(None, Some(at(90))));
    world.now = at(90);
    assert_eq!(Some(&world.plan().status), world.instance.get("status"));
}

#[test]
fn a_secret_that_points_to_another_cluster_stops_everything_there() {
    let mut world = world();
    let plan = world.settle();
    world.connect(&plan, &connected());
    let plan = world.settle();
    let cause = "the Secret points to another cluster than before";
    let moved = not_connected(ConnectStep::Identify, FailureReason::Credentials, cause, at(9));
    world.connect(&plan, &moved);
    let plan = world.plan();
    assert_eq!(plan.state, InstanceState::Error);
    assert_eq!(condition(&plan, "RemoteClusterConnected").1, "IdentityChanged");
    assert!(plan.prune.is_done() && plan.apply.is_empty());
}

#[test]
fn a_reference_whose_secret_is_missing_is_not_resolved_unless_the_definition_fixed_it() {
    let cause = "there is no such Secret";
    let missing = not_connected(ConnectStep::Secret, FailureReason::Credentials, cause, at(9));
    let resolved = |mut world: World| {
        let plan = world.settle();
        world.connect(&plan, &missing);
        let plan = world.plan();
        assert_eq!(condition(&plan, "RemoteClusterConnected").1, "SecretNotAvailable");
        assert_eq!(plan.state, InstanceState::InProgress);
        condition(&plan, "ClusterResolved")
    };
    let (status, reason, message) = resolved(world());
    assert_eq!((&*status, &*reason), ("False", "SecretNotAvailable"));
    assert!(message.contains("`clusters/eu-kubeconfig`") && message.contains("no such Secret"), "{message}");
    let fixed = r"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: there
  cluster: {name: eu-kubeconfig, namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: same, namespace: shop}}
";
    assert_eq!(resolved(World::of(fixed, "{}")).0, "True");
}

const OPTIONAL: &str = r"
schema: {apiVersion: v1, kind: App, spec: {want: boolean}}
resources:
- id: there
  includeWhen: ['${schema.spec.want}']
  cluster: {name: eu-kubeconfig, namespace: clusters}
  lifecycle: {delete: {forceWhen: ['${resources.there.reason == ''Unreachable''}']}}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: same, namespace: shop}}
";

#[test]
fn reported_orphans_survive_a_restart_and_end_when_the_object_is_desired_again() {
    let mut world = World::of(OPTIONAL, "{want: true}");
    let plan = world.plan();
    world.connect(&plan, &connected());
    let plan = world.settle();
    world.connect(&plan, &unreachable());
    world.observed.clusters.values_mut().for_each(|state| state.succeeded = true);
    world.set_spec("{want: false}");
    let orphaned = world.plan();
    assert_eq!((orphaned.prune.orphaned.len(), orphaned.prune.reported_orphans.len()), (1, 1));
    let persist = |world: &mut World, persisted: &Option<kross_value::Text>| {
        let note = persisted.clone().map_or(kross_value::Value::Null, Into::into);
        let notes = kross_value::Value::object([(kross_api::annotations::DELETE_ATTEMPTS, note)]);
        let instance = world.instance.as_object_mut().unwrap();
        instance.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("annotations", notes);
    };
    persist(&mut world, &orphaned.prune.persisted);

    // Another process continues, whose cache never had the object.
    let objects = std::mem::take(&mut world.observed.objects);
    let unlisted = world.plan();
    assert_eq!(unlisted.prune.reported_orphans, orphaned.prune.reported_orphans);
    assert_eq!(unlisted.prune.persisted, orphaned.prune.persisted);
    assert!(unlisted.prune.orphaned.is_empty());
    // The cluster is back: the object is kept, though `forceWhen` no longer holds.
    world.connect(&unlisted, &connected());
    world.observed.objects = objects;
    let back = world.plan();
    assert!(back.prune.delete.is_empty());
    assert_eq!(back.prune.release.iter().map(|pending| pending.reported).collect::<Vec<_>>(), [true]);
    // Unless it is desired again.
    world.set_spec("{want: true}");
    let wanted = world.settle();
    assert!(wanted.prune.reported_orphans.is_empty() && wanted.prune.release.is_empty());
    assert_eq!(wanted.state, InstanceState::Active);
    // Nothing is persisted once the object is deleted.
    world.set_spec("{want: false}");
    world.observed.objects.clear();
    assert!(world.plan().prune.reported_orphans.is_empty());
}
