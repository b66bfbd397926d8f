//! Deletion hooks (`lifecycle.when: Deletion`) and the order of deletion.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::retain_and_adopt::event;
use crate::setup::condition;
use crate::world::{World, config_map, edit};

/// A deletion hook that is ready once its data has `done`.
fn backup(of: &str) -> Json {
    let mut backup = config_map("backup", json!({"of": format!("${{{of}.metadata.name}}")}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    backup
}

fn entry<'a>(instance: &'a Json, id: &str) -> &'a Json {
    let entries = instance["status"]["managedResources"].as_array().unwrap();
    entries.iter().find(|entry| entry["id"] == id).unwrap_or(&Json::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_a_backup_before_it_deletes_the_database_and_then_deletes_the_backup() {
    let mut database = config_map("database", json!({"a": "1"}));
    database["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    let resources = json!([database, config_map("web", json!({})), backup("database")]);
    let world = World::new("BackedUp", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let active = world.until_state("x", "ACTIVE").await;
    assert_eq!(entry(&active, "backup")["state"], "Skipped");
    assert!(world.config_maps.get_opt("x-backup").await.unwrap().is_none());

    world.delete("x").await;
    wait::until_object(&world.config_maps, "x-backup", |_| true).await;
    wait::until_deleted(&world.config_maps, "x-web").await;
    let namespace = &world.namespace;
    let expected =
        format!("deleting resources: ConfigMap {namespace}/x-database: waiting for `backup` to be ready: ");
    let waits = |instance: &Json| {
        condition(instance, "ResourcesReady")["message"].as_str().is_some_and(|it| it.starts_with(&expected))
    };
    let waiting = world.until("x", waits).await;
    assert_eq!(waiting["status"]["state"], "DELETING");
    assert_eq!(entry(&waiting, "backup")["state"], "Pending");
    assert_eq!(entry(&waiting, "database")["state"], "Deleting");
    assert!(world.config_maps.get("x-database").await.unwrap().metadata.deletion_timestamp.is_none());

    edit(&world.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    for name in ["x-database", "x-backup"] {
        assert!(world.config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
    let deletes: Vec<String> =
        world.sent_requests().into_iter().filter(|sent| sent.starts_with("delete configmaps")).collect();
    let order = |name: &str| deletes.iter().position(|sent| sent.ends_with(name)).unwrap();
    assert!(order("x-database") < order("x-backup"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_failing_backup_and_waits_for_it_until_force_after() {
    let mut database = config_map("database", json!({"a": "1"}));
    database["lifecycle"] = json!({"delete": {"after": ["backup"], "forceAfter": "8s"}});
    let mut backup = backup("database");
    backup["template"]["metadata"]["name"] = json!("Not A Name");
    backup["lifecycle"]["delete"] = json!({"forceAfter": "8s"});
    let world = World::new("FailingBackup", json!({"spec": {}}), json!([database, backup])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    let failing = world.until("x", |instance| entry(instance, "backup")["state"] == "Error").await;
    assert_eq!(entry(&failing, "backup")["reason"], "Invalid");
    assert_eq!(entry(&failing, "backup")["operation"], "create");
    let message = condition(&failing, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("waiting for `backup` to be ready: cannot create ConfigMap"), "{message}");
    wait::until_deleted(&world.instances, "x").await;
    let orphaned = world.config_maps.get("x-database").await.unwrap();
    assert_eq!(orphaned.metadata.labels, None, "the database is orphaned: the ownership labels are removed");
    assert_eq!(orphaned.data.unwrap()["a"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_deletion_hooks_before_it_prunes() {
    let mut database = config_map("database", json!({"a": "1"}));
    database["includeWhen"] = json!(["${schema.spec.keep}"]);
    let resources = json!([database, config_map("web", json!({})), backup("database")]);
    let world = World::new("PrunedBackup", json!({"spec": {"keep": "boolean"}}), resources).await;
    world.create("x", json!({"keep": true})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"keep": false}})).await;
    wait::until_object(&world.config_maps, "x-backup", |_| true).await;
    let waiting = world.until_state("x", "IN_PROGRESS").await;
    assert_eq!(entry(&waiting, "backup")["state"], "Pending");
    assert!(world.config_maps.get_opt("x-database").await.unwrap().is_some());
    edit(&world.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::woken(wait::until_deleted(&world.config_maps, "x-database")).await;
    wait::woken(wait::until_deleted(&world.config_maps, "x-backup")).await;
    world.until_state("x", "ACTIVE").await;
    assert!(world.config_maps.get_opt("x-web").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_order_and_after_decide_the_order_and_may_be_computed() {
    let mut resources =
        vec![config_map("a", json!({})), config_map("b", json!({})), config_map("c", json!({}))];
    resources[0]["lifecycle"] = json!({"delete": {"order": "${schema.spec.first == 'a' ? 9 : 1}"}});
    resources[1]["lifecycle"] = json!({"delete": {"order": 5}});
    resources[2]["lifecycle"] = json!({"delete": {"order": 7, "after": ["b"]}});
    let world = World::new("Ordered", json!({"spec": {"first": "string"}}), json!(resources)).await;
    for (name, first) in [("x", "a"), ("y", "b")] {
        world.create(name, json!({"first": first})).await;
        world.until_state(name, "ACTIVE").await;
        world.delete(name).await;
        wait::until_deleted(&world.instances, name).await;
    }
    let deleted = |instance: &str| -> Vec<String> {
        let prefix = format!("delete configmaps {}/{instance}-", world.namespace);
        world
            .sent_requests()
            .iter()
            .filter_map(|sent| sent.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    };
    assert_eq!(deleted("x"), ["a", "b", "c"]);
    assert_eq!(deleted("y"), ["b", "c", "a"]);
}

/// A deletion hook that reads only the schema, and that is ready as soon as it exists.
fn notice() -> Json {
    let mut notice = config_map("notice", json!({"of": "${schema.metadata.name}"}));
    notice["lifecycle"] = json!({"when": "Deletion"});
    notice
}

/// How often the controller has written an object.
fn writes(world: &World, name: &str) -> usize {
    let object = format!(" configmaps {}/{name}", world.namespace);
    let is_write =
        |sent: &&String| sent.strip_suffix(&object).is_some_and(|verb| !["get", "delete"].contains(&verb));
    world.sent_requests().iter().filter(is_write).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_a_deletion_hook_that_reads_only_the_schema_once() {
    let resources = json!([config_map("web", json!({})), notice()]);
    let world = World::new("Noticed", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert_eq!(writes(&world, "x-notice"), 1);
    for name in ["x-web", "x-notice"] {
        assert!(world.config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_the_finalizer_of_a_completed_deletion_hook_and_runs_it_once() {
    let mut notice = notice();
    notice["template"]["metadata"]["finalizers"] = json!(["test.kross.run/hold"]);
    let world =
        World::new("NoticeHeld", json!({"spec": {}}), json!([config_map("web", json!({})), notice])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    let is_terminating = |notice: &ConfigMap| notice.metadata.deletion_timestamp.is_some();
    wait::until_object(&world.config_maps, "x-notice", is_terminating).await;
    let text = |instance: &Json| {
        instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"].as_str().map(str::to_owned)
    };
    let waiting = world.until("x", |instance| text(instance).is_some()).await;
    assert_eq!(text(&waiting).unwrap(), r#"{"hooksCompleted":["notice"]}"#);
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.config_maps.patch("x-notice", &PatchParams::default(), &released).await.unwrap();
    wait::until_deleted(&world.instances, "x").await;
    assert_eq!(writes(&world, "x-notice"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_create_a_deletion_hook_again_that_somebody_deleted() {
    let mut database = config_map("database", json!({"a": "1"}));
    database["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    let resources = json!([database, backup("database")]);
    let world = World::new("BackupLost", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    world
        .until("x", |instance| {
            let text = &instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"];
            text.as_str().is_some_and(|text| text.contains("hooksCreated"))
        })
        .await;
    world.config_maps.delete("x-backup", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&world.instances, "x").await;
    assert_eq!(writes(&world, "x-backup"), 1);
    assert!(world.config_maps.get_opt("x-database").await.unwrap().is_none());
    let note = event(&world, "x", "HookDeleted").await;
    assert!(note.contains(&format!("ConfigMap {}/x-backup", world.namespace)), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_a_deletion_hook_once_for_a_pruned_object_that_a_finalizer_keeps() {
    let mut database = config_map("database", json!({"a": "1"}));
    database["includeWhen"] = json!(["${schema.spec.keep}"]);
    database["template"]["metadata"]["finalizers"] = json!(["test.kross.run/hold"]);
    database["lifecycle"] = json!({"delete": {"after": ["notice"]}});
    let resources = json!([database, config_map("web", json!({})), notice()]);
    let world = World::new("NoticePruned", json!({"spec": {"keep": "boolean"}}), resources).await;
    world.create("x", json!({"keep": true})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"keep": false}})).await;
    let is_terminating = |object: &ConfigMap| object.metadata.deletion_timestamp.is_some();
    let database = wait::until_object(&world.config_maps, "x-database", is_terminating).await;
    let instance = world.instances.get("x").await.unwrap();
    let record = &instance.metadata.annotations.unwrap()["internal.kro.run/delete-attempts"];
    assert!(record.contains(&format!("notice/{}", database.metadata.uid.unwrap())), "{record}");
    // Once it has completed, it does not run again, not even if its object is deleted.
    world.config_maps.delete("x-notice", &DeleteParams::default()).await.unwrap();
    world.patch("x", json!({"metadata": {"labels": {"reconcile": "again"}}})).await;
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.config_maps.patch("x-database", &PatchParams::default(), &released).await.unwrap();
    wait::until_deleted(&world.config_maps, "x-database").await;
    let is_forgotten =
        |instance: &Json| instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"].is_null();
    world.until("x", is_forgotten).await;
    assert_eq!(writes(&world, "x-notice"), 1);
    assert!(world.config_maps.get_opt("x-notice").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn skips_a_deletion_hook_whose_namespace_is_being_deleted() {
    let mut notice = notice();
    notice["template"]["metadata"]["namespace"] = json!("${schema.spec.namespace}");
    let resources = json!([config_map("web", json!({})), notice]);
    let world = World::new("NoticeSkipped", json!({"spec": {"namespace": "string"}}), resources).await;
    let elsewhere = format!("{}-elsewhere", world.namespace);
    let namespaces: Api<Namespace> = Api::all(world.objects.client.clone());
    namespaces.create(&PostParams::default(), &objects::namespace(&elsewhere)).await.unwrap();
    world.create("x", json!({"namespace": elsewhere.as_str()})).await;
    world.until_state("x", "ACTIVE").await;
    namespaces.delete(&elsewhere, &DeleteParams::default()).await.unwrap();
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    let note = event(&world, "x", "HookSkipped").await;
    assert!(note.contains(&format!("ConfigMap {elsewhere}/x-notice")), "{note}");
}
