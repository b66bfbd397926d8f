//! Lifecycle: annotations, policies, limits, order and deletion hooks.

use std::collections::{BTreeMap, BTreeSet};

use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, DeletePolicy, FailureReason, annotations};
use kross_plan::{
    ClusterConnection, Deletion, DeletionPlan, DeletionProgress, EvaluatedLifecycle, HookRecord, Hooks,
    OwnedObject, ResourceFailure, Wait, deletion_status, plan_deletion, plan_for_deletion,
};
use kross_value::Value;

use super::world::*;

const SHOP: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {keep: boolean}}
resources:
- id: database
  lifecycle:
    delete:
      policy: "${schema.spec.keep ? 'Retain' : 'Delete'}"
      forceAfter: 5m
      forceWhen: ['${database.status.reason == ''Unreachable''}']
      after: [backup]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: database}}
- id: web
  lifecycle: {delete: {order: 10}}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}}
- id: backup
  lifecycle: {when: Deletion}
  readyWhen: ['${has(backup.data.done)}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: backup}, data: {of: '${database.metadata.name}'}}
"#;

fn unreachable(cause: &str, since: jiff::Timestamp) -> ConnectionFailure {
    let advice = ConnectionAdvice::None;
    ConnectionFailure::new(ConnectStep::Reach, FailureReason::Unreachable, cause, advice, since)
}

fn pending(world: &World) -> Vec<OwnedObject> {
    world.observed.objects.iter().map(|(key, object)| OwnedObject::new(key.clone(), object)).collect()
}

fn step(world: &World, objects: &[OwnedObject], previous: &DeletionPlan) -> DeletionPlan {
    let plan = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    plan_deletion(Deletion {
        reported_orphans: &BTreeSet::new(),
        reports_orphans: false,
        objects,
        hooks: Hooks::Planned(&plan.hooks),
        hook_record: &plan.prune.hook_record,
        attempts: &previous.attempts,
        persisted: None,
        now: world.now,
    })
}

/// Plans a deletion without hooks at this second.
fn plan_at(
    objects: &[OwnedObject],
    attempts: &BTreeMap<kross_api::ObjectKey, jiff::Timestamp>,
    second: i64,
) -> DeletionPlan {
    plan_deletion(Deletion {
        reported_orphans: &BTreeSet::new(),
        reports_orphans: false,
        objects,
        hooks: Hooks::Planned(&[]),
        hook_record: &HookRecord::default(),
        attempts,
        persisted: None,
        now: at(second),
    })
}

fn names(deletions: &[kross_plan::PendingDeletion]) -> Vec<&str> {
    deletions.iter().map(|pending| pending.key.name.as_str()).collect()
}

#[test]
fn the_lifecycle_is_kept_in_an_annotation() {
    let mut world = World::of(SHOP, "{keep: true}");
    world.settle();
    assert_eq!(world.observed.objects.len(), 2, "`backup` is a deletion hook");
    let database = world.object_mut("database").clone();
    assert_eq!(
        database.annotation(annotations::LIFECYCLE),
        Some(r#"{"policy":"Retain","awaits":["backup"],"forceAfter":"300s","forceWhen":false}"#)
    );
    assert_eq!(EvaluatedLifecycle::of(&database).policy, DeletePolicy::Retain);
    assert_eq!(world.object_mut("web").annotation(annotations::LIFECYCLE), Some(r#"{"order":10}"#));
}

#[test]
fn a_backup_is_created_and_ready_before_the_database_is_deleted() {
    let mut world = World::of(SHOP, "{keep: false}");
    world.settle();
    let mut deletion = DeletionPlan::default();
    let plan = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    assert_eq!(applied(&plan), ["backup"]);
    assert!(plan.prune.is_done(), "this plan does not prune");
    assert_eq!(plan.lifecycles["database"].awaits, ["backup"]);
    world.apply(&plan);
    deletion = step(&world, &pending(&world), &deletion);
    assert_eq!(names(&deletion.delete), ["web"], "the author's order comes first");
    world.observed.objects.remove(&local("ConfigMap", "shop", "web"));
    deletion = step(&world, &pending(&world), &deletion);
    assert!(deletion.delete.is_empty());
    let wait = &deletion.waiting[0].1;
    assert!(matches!(wait, Wait::Hook(why) if why.contains("`backup`")), "{wait:?}");
    let backup = world.object_mut("backup");
    let data = backup.value.as_object_mut().unwrap().get_mut("data").unwrap();
    data.as_object_mut().unwrap().insert("done", Value::from("yes"));
    deletion = step(&world, &pending(&world), &deletion);
    assert_eq!(names(&deletion.delete), ["database"]);
    world.observed.objects.remove(&local("ConfigMap", "shop", "database"));
    deletion = step(&world, &pending(&world), &deletion);
    assert_eq!(names(&deletion.delete), ["backup"], "the hook is deleted last");
    world.observed.objects.clear();
    assert!(step(&world, &pending(&world), &deletion).is_done());
}

#[test]
fn a_retained_object_is_released() {
    let mut world = World::of(SHOP, "{keep: true}");
    world.settle();
    let plan = plan_at(&pending(&world), &BTreeMap::new(), 0);
    assert_eq!(names(&plan.release), ["database"]);
    assert_eq!(names(&plan.delete), ["web"]);
}

#[test]
fn the_wait_for_an_unreachable_cluster_ends_as_the_lifecycle_says() {
    let mut world = World::of(SHOP, "{keep: false}");
    world.settle();
    world.observed.objects.remove(&local("ConfigMap", "shop", "web"));
    let mut objects = pending(&world);
    objects[0].unavailable =
        Some(ResourceFailure::not_connected("eu", &unreachable("connection refused", at(0))));
    objects[0].lifecycle.force_when = Some(true);
    let plan = plan_at(&objects, &BTreeMap::new(), 0);
    assert!(matches!(plan.waiting[0].1, Wait::Connection(_)));
    assert_eq!(plan.recheck_at, Some(at(300)));
    assert!(plan_at(&objects, &plan.attempts, 299).orphaned.is_empty());
    let forced = plan_at(&objects, &plan.attempts, 300);
    assert_eq!(names(&forced.orphaned), ["database"]);
    assert!(forced.is_done());
    objects[0].lifecycle.force_when = Some(false);
    assert!(plan_at(&objects, &plan.attempts, 900).orphaned.is_empty(), "both must hold");
    let progress = DeletionProgress { plan: &plan, hooks: None, clusters: &[] };
    let status = deletion_status(Some(&world.graph), &world.instance, &progress, at(0));
    assert_eq!(status.get("state"), Some(&Value::from("DELETING")));
    let text = status.to_string();
    assert!(
        text.contains("deleting resources: ConfigMap shop/database: cluster `eu` is not connected"),
        "{text}"
    );
    assert!(text.contains("UnderDeletion"), "{text}");
}

const REACTING: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: database
  cluster: {name: eu-kubeconfig, namespace: clusters}
  lifecycle:
    delete:
      policy: "${database.status.error.contains('connection refused') ? 'Retain' : 'Delete'}"
      order: "${web.status.ready ? 7 : 3}"
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: database}}
- id: web
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: web}
    data: {replicas: "${resources.database.reason == 'Unreachable' ? '1' : '3'}", state: "${resources.database.state}"}
"#;

#[test]
fn expressions_see_the_tracked_status_without_waiting_for_it() {
    let mut world = World::of(REACTING, "{}");
    let plan = world.plan();
    assert_eq!(applied(&plan), ["web"], "`resources` adds no dependency");
    world.connect(&plan, &ClusterConnection::Connected { since: at(0), last_contact: None });
    let plan = world.settle();
    let web = |world: &World| {
        world.observed.objects[&local("ConfigMap", "shop", "web")].value.get("data").unwrap().to_string()
    };
    assert_eq!(web(&world), r#"{"replicas":"3","state":"Ready"}"#);
    assert_eq!(
        (plan.lifecycles["database"].policy, plan.lifecycles["database"].order),
        (DeletePolicy::Delete, Some(7))
    );
    let unreachable = ClusterConnection::NotConnected(unreachable("dial tcp: connection refused", at(10)));
    world.observed.clusters.values_mut().for_each(|state| state.connection = unreachable.clone());
    world.now = at(20);
    let plan = world.settle();
    assert_eq!(web(&world), r#"{"replicas":"1","state":"Error"}"#);
    assert_eq!(
        plan.lifecycles["database"].policy,
        DeletePolicy::Retain,
        "as the graph says now, not as the annotation says"
    );
    let writes = world.writes;
    world.now = at(500);
    world.settle();
    assert_eq!(world.writes, writes, "one write per state");
}

const PRUNED: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {keep: boolean}}
resources:
- id: database
  includeWhen: ['${schema.spec.keep}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: database}}
- id: web
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}}
- id: backup
  lifecycle: {when: Deletion}
  readyWhen: ['${has(backup.data.done)}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: backup}, data: {of: '${database.metadata.name}'}}
"#;

fn finish(world: &mut World, name: &str) {
    let data = world.object_mut(name).value.as_object_mut().unwrap().get_mut("data").unwrap();
    data.as_object_mut().unwrap().insert("done", Value::from("yes"));
}

#[test]
fn an_object_removed_from_the_graph_is_backed_up_before_it_is_pruned() {
    let mut world = World::of(PRUNED, "{keep: true}");
    world.settle();
    assert_eq!(world.observed.objects.len(), 2);
    world.set_spec("{keep: false}");
    let plan = world.plan();
    assert_eq!(applied(&plan), ["backup"], "it reads an object to prune, which waits for it");
    assert!(plan.prune.delete.is_empty());
    let plan = world.settle();
    assert_eq!(plan.state, kross_api::InstanceState::InProgress);
    assert!(plan.prune.delete.is_empty());
    let wait = plan.prune.waiting[0].1.message().to_string();
    assert!(wait.starts_with("waiting for `backup` to be ready: `readyWhen` is false"), "{wait}");
    finish(&mut world, "backup");
    let plan = world.settle();
    assert_eq!(names(&plan.prune.delete), ["database"]);
    world.observed.objects.remove(&local("ConfigMap", "shop", "database"));
    let plan = world.settle();
    assert_eq!(names(&plan.prune.delete), ["backup"]);
    world.observed.objects.remove(&local("ConfigMap", "shop", "backup"));
    let plan = world.settle();
    assert!(plan.is_noop());
    assert_eq!(plan.state, kross_api::InstanceState::Active);
}

#[test]
fn a_backup_counts_after_the_object_it_read_is_deleted() {
    let mut world = World::of(SHOP, "{keep: false}");
    world.settle();
    let plan = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    world.apply(&plan);
    world.observed.objects.remove(&local("ConfigMap", "shop", "database"));
    let plan = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    assert!(plan.apply.is_empty());
    assert_eq!(plan.hooks[0].id, "backup");
    finish(&mut world, "backup");
    let plan = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    assert!(plan.hooks.is_empty());
}

#[test]
fn the_status_of_a_deletion_shows_its_hooks_and_what_waits_for_them() {
    let mut world = World::of(SHOP, "{keep: false}");
    world.settle();
    world.observed.objects.remove(&local("ConfigMap", "shop", "web"));
    let hooks = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    world.apply(&hooks);
    let hooks = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    let plan = step(&world, &pending(&world), &DeletionPlan::default());
    let progress = DeletionProgress { plan: &plan, hooks: Some(&hooks), clusters: &[] };
    let status = deletion_status(Some(&world.graph), &world.instance, &progress, world.now);
    let entries = status.get("managedResources").unwrap().as_list().unwrap();
    let word =
        |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let reported: Vec<_> = entries.iter().map(|entry| (word(entry, "id"), word(entry, "state"))).collect();
    let expected = [("backup", "Pending"), ("database", "Deleting")];
    assert_eq!(reported, expected.map(|(id, state)| (id.to_owned(), state.to_owned())));
    assert!(
        status
            .to_string()
            .contains("deleting resources: ConfigMap shop/database: waiting for `backup` to be ready")
    );
}

const WATCHED: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: shards
  forEach: [{name: "${['a', 'b']}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${name}"}}
- id: alarm
  includeWhen: ["${resources.shards.exists(shard, shard.failingFor > duration('2m'))}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: alarm}}
"#;

#[test]
fn a_plan_rechecks_when_failing_for_exceeds_a_threshold_also_for_items() {
    let mut world = World::of(WATCHED, "{}");
    let plan = world.plan();
    world.fail(&plan, "shards", FailureReason::Forbidden, "no");
    let plan = world.plan();
    assert_eq!(plan.recheck_at, Some(at(120) + jiff::SignedDuration::from_millis(1)));
    world.now = plan.recheck_at.unwrap();
    let plan = world.plan();
    assert!(applied(&plan).contains(&"alarm"), "{:?}", applied(&plan));
}

const EXCLUSIVE: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: data
  lifecycle: {adopt: Never}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: data}}
"#;

#[test]
fn an_object_without_an_owner_is_adopted_only_where_the_lifecycle_allows_it() {
    let mut world = World::of(EXCLUSIVE, "{}");
    let there = yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: data, namespace: shop, uid: u-9}}");
    let key = local("ConfigMap", "shop", "data");
    world.observed.objects.insert(key, kross_plan::ObservedObject::new(there));
    let plan = world.plan();
    assert!(plan.apply.is_empty());
    assert_eq!(progress(&plan, "data").failure().unwrap().reason, FailureReason::Conflict);
    world.keep_status(&plan);
    assert!(world.plan().apply.is_empty(), "the reported conflict does not make it adopted");
    world.observed.objects.clear();
    assert_eq!(applied(&world.plan()), ["data"]);
    world.settle();
    let metadata = world.object_mut("data").value.as_object_mut().unwrap().get_mut("metadata").unwrap();
    metadata.as_object_mut().unwrap().remove("labels");
    assert_eq!(applied(&world.plan()), ["data"], "removing the ownership labels does not release it");
}
