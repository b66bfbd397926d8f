//! Lifecycle: answers kept with objects, policies, forcing, order, and resources that exist for the deletion.

use std::collections::BTreeMap;

use kross_api::{DeletePolicy, FailureReason, Operation, annotations};
use kross_plan::{
    Answers, Connection, Deletion, DeletionPlan, DoomedObject, Trouble, Wait, deletion_status, plan_deletion,
    plan_for_deletion,
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

fn doomed(world: &World) -> Vec<DoomedObject> {
    world.observed.objects.iter().map(|(key, object)| DoomedObject::new(key.clone(), object)).collect()
}

fn step(world: &World, objects: &[DoomedObject], kept: &DeletionPlan) -> DeletionPlan {
    let plan = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    plan_deletion(Deletion { objects, unready: &plan.unready(), attempts: &kept.attempts, now: world.now })
}

fn names(dooms: &[kross_plan::Doom]) -> Vec<&str> {
    dooms.iter().map(|doom| doom.key.name.as_str()).collect()
}

#[test]
fn answers_are_kept_with_the_objects() {
    let mut world = World::of(SHOP, "{keep: true}");
    world.settle();
    assert_eq!(world.observed.objects.len(), 2, "`backup` is for the deletion");
    let database = world.object_mut("database").clone();
    assert_eq!(
        database.annotation(annotations::LIFECYCLE),
        Some(r#"{"policy":"Retain","after":["backup"],"forceAfter":"300s","forceWhen":false}"#)
    );
    assert_eq!(Answers::of(&database).policy, DeletePolicy::Retain);
    assert_eq!(world.object_mut("web").annotation(annotations::LIFECYCLE), Some(r#"{"order":10}"#));
}

#[test]
fn a_backup_is_made_and_awaited_before_the_database_goes() {
    let mut world = World::of(SHOP, "{keep: false}");
    world.settle();
    let mut kept = DeletionPlan::default();
    let plan = plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now);
    assert_eq!(applied(&plan), ["backup"]);
    assert!(plan.prune.is_done(), "what goes is not for this plan to say");
    assert_eq!(plan.answers["database"].after, ["backup"]);
    world.apply(&plan);
    kept = step(&world, &doomed(&world), &kept);
    assert_eq!(names(&kept.delete), ["web"], "the author's order comes first");
    world.observed.objects.remove(&local("ConfigMap", "shop", "web"));
    kept = step(&world, &doomed(&world), &kept);
    assert!(kept.delete.is_empty());
    assert!(matches!(&kept.waiting[0].1, Wait::For(why) if why.contains("`backup`")), "{:?}", kept.waiting);
    let backup = world.object_mut("backup");
    let data = backup.value.as_object_mut().unwrap().get_mut("data").unwrap();
    data.as_object_mut().unwrap().insert("done", Value::from("yes"));
    kept = step(&world, &doomed(&world), &kept);
    assert_eq!(names(&kept.delete), ["database"]);
    world.observed.objects.remove(&local("ConfigMap", "shop", "database"));
    kept = step(&world, &doomed(&world), &kept);
    assert_eq!(names(&kept.delete), ["backup"], "and it is cleaned up in the end");
    world.observed.objects.clear();
    assert!(step(&world, &doomed(&world), &kept).is_done());
}

#[test]
fn what_is_retained_is_released() {
    let mut world = World::of(SHOP, "{keep: true}");
    world.settle();
    let plan = plan_deletion(Deletion {
        objects: &doomed(&world),
        unready: &BTreeMap::new(),
        attempts: &BTreeMap::new(),
        now: world.now,
    });
    assert_eq!(names(&plan.release), ["database"]);
    assert_eq!(names(&plan.delete), ["web"]);
}

#[test]
fn waiting_for_a_dark_cluster_ends_when_the_author_says_so() {
    let mut world = World::of(SHOP, "{keep: false}");
    world.settle();
    world.observed.objects.remove(&local("ConfigMap", "shop", "web"));
    let mut objects = doomed(&world);
    objects[0].closed = Some(Trouble {
        operation: Some(Operation::Connect),
        reason: FailureReason::Unreachable,
        message: "cluster `eu` is not connected: connection refused".into(),
        error: "connection refused".into(),
        since: Some(at(0)),
    });
    objects[0].answers.force_when = Some(true);
    let none = BTreeMap::new();
    let plan =
        plan_deletion(Deletion { objects: &objects, unready: &none, attempts: &BTreeMap::new(), now: at(0) });
    assert!(matches!(plan.waiting[0].1, Wait::Closed(_)));
    assert_eq!(plan.recheck_at, Some(at(300)));
    let later =
        plan_deletion(Deletion { objects: &objects, unready: &none, attempts: &plan.attempts, now: at(299) });
    assert!(later.left_behind.is_empty());
    let forced =
        plan_deletion(Deletion { objects: &objects, unready: &none, attempts: &plan.attempts, now: at(300) });
    assert_eq!(names(&forced.left_behind), ["database"]);
    assert!(forced.is_done());
    objects[0].answers.force_when = Some(false);
    let held =
        plan_deletion(Deletion { objects: &objects, unready: &none, attempts: &plan.attempts, now: at(900) });
    assert!(held.left_behind.is_empty(), "both must hold");
    let status =
        deletion_status(Some(&world.graph), &world.instance, &plan, &|_| Some("eu".to_owned()), at(0));
    assert_eq!(status.get("state"), Some(&Value::from("DELETING")));
    let text = status.to_string();
    assert!(
        text.contains(
            "deleting resources: ConfigMap shop/database in cluster `eu`: cluster `eu` is not connected"
        ),
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
    assert_eq!(applied(&plan), ["web"], "no edge, no waiting");
    world.connect(&plan, &Connection::Connected { since: at(0) });
    let plan = world.settle();
    let web = |world: &World| {
        world.observed.objects[&local("ConfigMap", "shop", "web")].value.get("data").unwrap().to_string()
    };
    assert_eq!(web(&world), r#"{"replicas":"3","state":"Ready"}"#);
    assert_eq!(
        (plan.answers["database"].policy, plan.answers["database"].order),
        (DeletePolicy::Delete, Some(7))
    );
    let dark = Connection::NotConnected {
        since: at(10),
        reason: FailureReason::Unreachable,
        message: "dial tcp: connection refused".into(),
        identity_changed: false,
    };
    world.observed.clusters.values_mut().for_each(|state| state.connection = dark.clone());
    world.now = at(20);
    let plan = world.settle();
    assert_eq!(web(&world), r#"{"replicas":"1","state":"Error"}"#);
    assert_eq!(
        plan.answers["database"].policy,
        DeletePolicy::Retain,
        "as the graph says now, whatever is kept over there"
    );
    let writes = world.writes;
    world.now = at(500);
    world.settle();
    assert_eq!(world.writes, writes, "once per state");
}
