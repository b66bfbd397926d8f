//! Deletion hooks run once for each deletion, whatever happens to their objects and wherever the controller is restarted.

use std::collections::{BTreeMap, BTreeSet};

use kross_api::annotations;
use kross_plan::{
    Deletion, DeletionPlan, HookRecord, Hooks, MissingCause, OwnedObject, Plan, plan_deletion,
    plan_for_deletion,
};
use kross_value::{Object, Value};

use super::world::*;

fn record(world: &World) -> HookRecord {
    HookRecord::parse(
        world.instance.at(&["metadata", "annotations", annotations::DELETE_ATTEMPTS]).and_then(Value::as_str),
    )
}

/// Writes what survives a restart into the instance.
fn persist(world: &mut World, plan: &DeletionPlan) {
    let mut kept = Object::new();
    if let Some(text) = &plan.persisted {
        kept.insert(annotations::DELETE_ATTEMPTS, Value::from(text.as_str()));
    }
    let metadata = world.instance.as_object_mut().unwrap().get_mut("metadata").unwrap();
    metadata.as_object_mut().unwrap().insert("annotations", Value::Object(kept));
}

fn hooks(world: &World) -> Plan {
    plan_for_deletion(&world.graph, &world.instance, &world.observed, &world.settings, world.now)
}

fn deletion(world: &World, hooks: &Plan) -> DeletionPlan {
    let objects = world.observed.objects.iter();
    let objects: Vec<OwnedObject> =
        objects.map(|(key, object)| OwnedObject::new(key.clone(), object)).collect();
    plan_deletion(Deletion {
        objects: &objects,
        hooks: Hooks::Planned(&hooks.hooks),
        hook_record: &hooks.prune.hook_record,
        attempts: &BTreeMap::new(),
        persisted: None,
        reported_orphans: &BTreeSet::new(),
        reports_orphans: false,
        now: world.now,
    })
}

/// Takes the next step of a deletion, and says what it did. Nothing else is remembered from step to step: the controller is
/// restarted after each of them.
fn step(world: &mut World) -> Option<String> {
    let hooks = hooks(world);
    let created: Vec<String> = hooks
        .apply
        .iter()
        .filter_map(|action| hooks.object(action))
        .map(|object| object.key.name.to_string())
        .collect();
    if !created.is_empty() {
        world.apply(&hooks);
        return Some(format!("create {}", created.join(" ")));
    }
    if let Some(missing) =
        hooks.missing_hooks.iter().find(|missing| missing.cause == MissingCause::Unconfirmed)
    {
        world.observed.confirmed_missing.insert(missing.key.clone());
        return Some(format!("confirm {}", missing.key.name));
    }
    let plan = deletion(world, &hooks);
    if plan.is_done() {
        return None;
    }
    if plan.hook_record != record(world) {
        persist(world, &plan);
        return Some("record".to_owned());
    }
    let mut done: Vec<String> = Vec::new();
    for (verb, pending) in [("delete", &plan.delete), ("release", &plan.release)] {
        for pending in pending {
            world.observed.objects.remove(&pending.key);
            done.push(format!("{verb} {}", pending.key.name));
        }
    }
    done.sort();
    Some(if done.is_empty() { "wait".to_owned() } else { done.join(", ") })
}

/// Every step until the deletion is done or waits.
fn steps(world: &mut World) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some(step) = step(world) {
        let waits = step == "wait";
        steps.push(step);
        assert!(steps.len() < 30, "the deletion does not end: {steps:?}");
        if waits {
            break;
        }
    }
    steps
}

fn finish(world: &mut World, name: &str) {
    let object = world.object_mut(name).value.as_object_mut().unwrap();
    object.insert("data", yaml("{done: 'yes'}"));
}

const NOTICE: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: web
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}}
- id: notice
  lifecycle: {when: Deletion}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: notice}, data: {of: '${schema.metadata.name}'}}
"#;

#[test]
fn a_hook_that_reads_only_the_schema_runs_once() {
    let mut world = World::of(NOTICE, "{}");
    world.settle();
    assert_eq!(steps(&mut world), ["create notice", "record", "delete web", "delete notice"]);
}

#[test]
fn a_hook_that_depends_on_nothing_runs_once_for_an_instance_without_objects() {
    let mut world = World::of(NOTICE, "{}");
    assert_eq!(steps(&mut world), ["create notice", "record", "delete notice"]);
}

const BACKUP: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: database
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: database}}
- id: backup
  lifecycle: {when: Deletion}
  readyWhen: ['${backup.?data.?done.hasValue()}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: backup}, data: {of: '${database.metadata.name}'}}
"#;

#[test]
fn a_hook_that_reads_an_object_runs_once() {
    let mut world = World::of(BACKUP, "{}");
    world.settle();
    assert_eq!(steps(&mut world), ["create backup", "record", "wait"]);
    finish(&mut world, "backup");
    assert_eq!(steps(&mut world), ["record", "delete database", "delete backup"]);
}

#[test]
fn a_completed_hook_stays_completed_when_it_is_not_ready_any_more() {
    let mut world = World::of(BACKUP, "{}");
    world.settle();
    steps(&mut world);
    finish(&mut world, "backup");
    assert_eq!(step(&mut world).unwrap(), "record");
    world.object_mut("backup").value.as_object_mut().unwrap().insert("data", yaml("{}"));
    assert_eq!(steps(&mut world), ["delete database", "delete backup"]);
}

#[test]
fn a_hook_whose_object_was_deleted_before_it_was_ready_is_not_created_again() {
    let mut world = World::of(BACKUP, "{}");
    world.settle();
    steps(&mut world);
    world.observed.objects.remove(&local("ConfigMap", "shop", "backup"));
    let unconfirmed = hooks(&world);
    assert!(unconfirmed.apply.is_empty());
    assert!(
        deletion(&world, &unconfirmed).delete.is_empty(),
        "a cache alone does not prove that it was deleted"
    );
    assert_eq!(steps(&mut world), ["confirm backup", "record", "delete database"]);
}

#[test]
fn a_retained_hook_is_released_when_it_is_ready_and_not_created_again() {
    let retained = BACKUP.replace("{when: Deletion}", "{when: Deletion, delete: {policy: Retain}}");
    let mut world = World::of(&retained, "{}");
    world.settle();
    assert_eq!(steps(&mut world), ["create backup", "record", "wait"]);
    finish(&mut world, "backup");
    assert_eq!(steps(&mut world), ["record", "delete database, release backup"]);
}

#[test]
fn a_hook_whose_namespace_is_being_deleted_is_skipped() {
    let mut world = World::of(BACKUP, "{}");
    world.settle();
    let refused = local("ConfigMap", "shop", "backup");
    world.fail(&hooks(&world), "backup", kross_api::FailureReason::Forbidden, "it is being terminated");
    assert_eq!(step(&mut world).unwrap(), "create backup", "another failure is retried");
    world.observed.objects.remove(&refused);
    world.observed.namespace_terminating.insert(refused);
    assert_eq!(steps(&mut world), ["record", "delete database"]);
}

/// Writes that an object of a hook is about to be created at this resource version.
fn expect(world: &mut World, hook: &str, item: Option<&kross_api::ObjectKey>) {
    let before = world.instance.at(&["metadata", "annotations", annotations::DELETE_ATTEMPTS]);
    let text = HookRecord::with_creating(before.and_then(Value::as_str), [(hook, item, "77")]).unwrap();
    let kept = Value::object([(annotations::DELETE_ATTEMPTS, Value::from(text.as_str()))]);
    let metadata = world.instance.as_object_mut().unwrap().get_mut("metadata").unwrap();
    metadata.as_object_mut().unwrap().insert("annotations", kept);
}

#[test]
fn a_hook_that_may_have_been_created_waits_until_its_cluster_says_whether_it_was() {
    let key = local("ConfigMap", "shop", "backup");
    for was_created in [true, false] {
        let mut world = World::of(BACKUP, "{}");
        world.settle();
        expect(&mut world, "backup", None);
        let unconfirmed = hooks(&world);
        assert!(unconfirmed.apply.is_empty());
        assert!(deletion(&world, &unconfirmed).delete.is_empty());
        assert_eq!(unconfirmed.missing_hooks[0].since.as_deref(), Some("77"));
        if was_created {
            assert_eq!(steps(&mut world), ["confirm backup", "record", "delete database"]);
        } else {
            world.observed.never_created.insert(key.clone());
            assert_eq!(steps(&mut world), ["create backup", "record", "wait"]);
            assert!(record(&world).creating_since("backup", None).is_none(), "it is known now");
            world.observed.objects.remove(&key);
            assert_eq!(steps(&mut world), ["confirm backup", "record", "delete database"]);
        }
    }
}

#[test]
fn items_of_a_collection_of_hooks_are_told_apart() {
    let mut world = World::of(BACKUPS, "{}");
    world.settle();
    let [a, b] = ["backup-a", "backup-b"].map(|name| local("ConfigMap", "shop", name));
    expect(&mut world, "backups", Some(&a));
    expect(&mut world, "backups", Some(&b));
    world.observed.never_created.insert(b);
    assert_eq!(step(&mut world).unwrap(), "create backup-b");
    assert_eq!(step(&mut world).unwrap(), "confirm backup-a");
}

#[test]
fn a_hook_whose_kind_is_not_served_any_more_is_skipped() {
    let key = local("ConfigMap", "shop", "backup");
    let unserved = (key.cluster, key.group, key.kind);
    let mut world = World::of(BACKUP, "{}");
    world.settle();
    world.fail(&hooks(&world), "backup", kross_api::FailureReason::NotFound, "the kind is not served");
    world.observed.unserved.insert(unserved);
    assert_eq!(hooks(&world).missing_hooks[0].cause, MissingCause::KindNotServed);
    assert_eq!(steps(&mut world), ["record", "delete database"]);
}

const BACKUPS: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: databases
  forEach: [{name: "${['a', 'b']}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${name}"}}
- id: backups
  lifecycle: {when: Deletion}
  forEach: [{database: "${databases}"}]
  readyWhen: ['${each.?data.?done.hasValue()}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "backup-${database.metadata.name}"}}
"#;

#[test]
fn each_item_of_a_collection_of_hooks_runs_once() {
    let mut world = World::of(BACKUPS, "{}");
    world.settle();
    assert_eq!(steps(&mut world), ["create backup-a backup-b", "record", "wait"]);
    finish(&mut world, "backup-a");
    world.observed.objects.remove(&local("ConfigMap", "shop", "backup-b"));
    assert_eq!(steps(&mut world), ["confirm backup-b", "record", "delete a, delete b", "delete backup-a"]);
}

const PRUNED: &str = r#"
schema: {apiVersion: v1, kind: App, spec: {keep: boolean, ready: boolean}}
resources:
- id: database
  includeWhen: ['${schema.spec.keep}']
  lifecycle: {delete: {after: [notice]}}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: database}}
- id: web
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {ready: "${string(schema.spec.ready)}"}}
- id: notice
  lifecycle: {when: Deletion}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: notice}}
"#;

fn names(deletions: &[kross_plan::PendingDeletion]) -> Vec<&str> {
    deletions.iter().map(|pending| pending.key.name.as_str()).collect()
}

#[test]
fn a_hook_runs_once_for_each_object_that_is_pruned() {
    let (database, notice) = (local("ConfigMap", "shop", "database"), local("ConfigMap", "shop", "notice"));
    let mut world = World::of(PRUNED, "{keep: true, ready: true}");
    for _ in 0..2 {
        world.set_spec("{keep: true, ready: true}");
        world.settle();
        world.set_spec("{keep: false, ready: true}");
        assert_eq!(applied(&world.plan()), ["notice"], "once for each UID");
        let plan = world.settle();
        assert_eq!(names(&plan.prune.delete), ["database"]);
        persist(&mut world, &plan.prune);
        let uid = world.object_mut("database").uid().to_owned();
        assert!(record(&world).is_completed_for("notice", &uid));
        // A finalizer keeps the database, and somebody deletes the notice.
        world.terminate("database");
        world.observed.objects.remove(&notice);
        let plan = world.settle();
        assert!(plan.apply.is_empty() && plan.prune.delete.is_empty());
        persist(&mut world, &plan.prune);
        assert!(record(&world).is_completed_for("notice", &uid), "the database still exists");
        world.observed.objects.remove(&database);
        let plan = world.settle();
        assert!(plan.prune.is_done());
        assert_eq!(plan.prune.persisted, None);
        persist(&mut world, &plan.prune);
    }
}

#[test]
fn a_hook_gets_new_objects_for_an_object_that_is_pruned_after_another() {
    let second = PRUNED.replace(
        "- id: web",
        r#"- id: cache
  includeWhen: ['${schema.spec.ready}']
  lifecycle: {delete: {after: [notice]}}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: cache}}
- id: web"#,
    );
    let mut world = World::of(&second, "{keep: true, ready: true}");
    world.settle();
    world.set_spec("{keep: false, ready: true}");
    let plan = world.settle();
    persist(&mut world, &plan.prune);
    world.terminate("database");
    // The notice of the database is still there when the cache is pruned.
    world.set_spec("{keep: false, ready: false}");
    let plan = world.settle();
    assert_eq!(names(&plan.prune.delete), ["notice"]);
    persist(&mut world, &plan.prune);
    world.observed.objects.remove(&local("ConfigMap", "shop", "notice"));
    assert_eq!(applied(&world.plan()), ["notice"]);
    let plan = world.settle();
    persist(&mut world, &plan.prune);
    assert!(record(&world).is_completed_for("notice", world.object_mut("cache").uid()));
    let waiting = plan.prune.waiting.iter().map(|(pending, _)| pending.key.name.as_str());
    let remaining: BTreeSet<&str> = names(&plan.prune.delete).into_iter().chain(waiting).collect();
    assert_eq!(
        remaining,
        BTreeSet::from(["cache", "database"]),
        "the new notice is kept until it is recorded"
    );
}

#[test]
fn a_hook_does_not_run_again_for_a_pruned_object_while_others_are_not_applied() {
    let mut world = World::of(PRUNED, "{keep: true, ready: true}");
    world.settle();
    world.set_spec("{keep: false, ready: true}");
    let plan = world.settle();
    persist(&mut world, &plan.prune);
    let completed = record(&world);
    world.terminate("database");
    world.set_spec("{keep: false, ready: false}");
    let plan = world.plan();
    assert_eq!(applied(&plan), ["web"]);
    assert_eq!(plan.prune.hook_record, completed);
    let plan = world.settle();
    assert_eq!(plan.prune.hook_record, completed);
}

#[test]
fn an_object_does_not_wait_for_a_completed_hook_while_the_graph_is_unavailable() {
    let mut world = World::of(BACKUP, "{}");
    world.settle();
    steps(&mut world);
    let objects = |world: &World| -> Vec<OwnedObject> {
        let objects = world.observed.objects.iter();
        objects.map(|(key, object)| OwnedObject::new(key.clone(), object)).collect()
    };
    let planned = |world: &World| {
        plan_deletion(Deletion {
            objects: &objects(world),
            hooks: Hooks::GraphUnavailable("it does not compile"),
            hook_record: &record(world),
            attempts: &BTreeMap::new(),
            persisted: None,
            reported_orphans: &BTreeSet::new(),
            reports_orphans: false,
            now: world.now,
        })
    };
    assert!(planned(&world).delete.is_empty());
    finish(&mut world, "backup");
    assert_eq!(step(&mut world).unwrap(), "record");
    assert_eq!(names(&planned(&world).delete), ["database"]);
}
