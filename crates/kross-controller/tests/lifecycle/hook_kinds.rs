//! Deletion hooks of other kinds than ConfigMaps: Jobs, and kinds that are not served any more. And what API servers guarantee about
//! updates of them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::{FaultProxy, Requests, Verb, wait};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::instance_api::InstanceApi;
use crate::retain_and_adopt::event;
use crate::setup::{Objects, Running, install, install_crds};
use crate::world::{World, config_map, edit};

/// A database, and a Job that backs it up before it is deleted.
fn backed_up_by_a_job() -> Json {
    let mut database = config_map("database", json!({"a": "1"}));
    database["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    let backup = json!({"id": "backup", "lifecycle": {"when": "Deletion"},
        "readyWhen": ["${backup.status.?succeeded.orValue(0) > 0}"],
        "template": {"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "${schema.metadata.name}-backup"},
            "spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "dump", "image": "dump", "args": ["${database.metadata.name}"]}]}}}}});
    json!([database, backup])
}

/// A control plane whose own controllers run Jobs, but for the kubelet.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_job_controller_runs_once_and_leaves_no_pod() {
    let plane = ControlPlane::named("jobs").controller_manager().start().await.unwrap();
    let client = plane.client().await.unwrap();
    install(&client).await;
    let proxy = FaultProxy::start(plane.admin()).unwrap();
    let config = proxy.kubeconfig(plane.admin()).unwrap().config().await.unwrap();
    let running = Running::start_with(config, Settings::default()).await;
    let objects = Objects { client: client.clone() };
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "jobrun"}, "spec": {"resources": backed_up_by_a_job(),
            "schema": {"apiVersion": "v1alpha1", "kind": "JobRun", "spec": {}}}});
    objects.create(&definition).await;
    objects.until_ready("jobrun").await;
    let instances = InstanceApi::new(&objects, "JobRun", "default");
    instances.create("x", json!({})).await;
    instances.until_state("x", "ACTIVE").await;
    instances.delete("x").await;

    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = wait::until("the Pod of the Job", || async {
        let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        all.items.into_iter().next().and_then(|pod| pod.metadata.name).ok_or_else(|| "no Pod".to_owned())
    })
    .await;
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    assert!(config_maps.get("x-database").await.unwrap().metadata.deletion_timestamp.is_none());
    // As the kubelet reports it.
    let succeeded = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status(&pod, &PatchParams::default(), &succeeded).await.unwrap();
    wait::until_deleted(&instances.instances, "x").await;
    assert!(config_maps.get_opt("x-database").await.unwrap().is_none());
    let jobs: Api<Job> = Api::namespaced(client, "default");
    wait::until_deleted(&jobs, "x-backup").await;
    wait::until_deleted(&pods, &pod).await;
    let writes = Requests::any().verb(Verb::Apply).resource("jobs.batch").name("x-backup");
    assert_eq!(proxy.count(&writes), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_a_job_once_before_it_deletes_the_database() {
    let world = World::new("JobBackedUp", json!({"spec": {}}), backed_up_by_a_job()).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    let jobs: Api<Job> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    wait::until_object(&jobs, "x-backup", |_| true).await;
    assert!(world.config_maps.get("x-database").await.unwrap().metadata.deletion_timestamp.is_none());
    let succeeded = Patch::Merge(json!({"status": {"succeeded": 1}}));
    jobs.patch_status("x-backup", &PatchParams::default(), &succeeded).await.unwrap();
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(world.config_maps.get_opt("x-database").await.unwrap().is_none());
    let writes =
        Requests::any().verb(Verb::Apply).resource("jobs.batch").namespace(&world.namespace).name("x-backup");
    assert_eq!(world.proxy.count(&writes), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn skips_a_deletion_hook_whose_kind_is_not_served_any_more() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "dumps.hooks.test"}, "spec": {"group": "hooks.test", "scope": "Namespaced",
        "names": {"plural": "dumps", "singular": "dump", "kind": "Dump", "listKind": "DumpList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {"of": {"type": "string"}}}}}}}]}});
    let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
    let client = kross_testing::Fixture::hub().await.hub.client.clone();
    install_crds(&client, vec![crd]).await;
    let dump = json!({"id": "dump", "lifecycle": {"when": "Deletion"},
        "template": {"apiVersion": "hooks.test/v1", "kind": "Dump",
            "metadata": {"name": "${schema.metadata.name}-dump"}, "spec": {"of": "${database.metadata.name}"}}});
    let resources = json!([config_map("database", json!({"a": "1"})), dump]);
    let world = World::new("KindGone", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    crds.delete("dumps.hooks.test", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&crds, "dumps.hooks.test").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    let note = event(&world, "x", "HookSkipped").await;
    assert!(note.contains(&format!("Dump {}/x-dump", world.namespace)), "{note}");
    assert!(world.config_maps.get_opt("x-database").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_a_deletion_hook_only_as_long_as_it_exists() {
    let mut backup = config_map("backup", json!({"of": "${database.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let resources = json!([config_map("database", json!({"a": "1"})), backup]);
    let world = World::new("BackupRepaired", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_object(&world.config_maps, "x-backup", |_| true).await;
    edit(&world.config_maps, "x-backup", json!({"of": "another"})).await;
    let is_repaired =
        |backup: &ConfigMap| backup.data.as_ref().is_some_and(|data| data["of"] == "x-database");
    let repaired = wait::until_object(&world.config_maps, "x-backup", is_repaired).await;
    // What the repair relies on: an apply with a UID never creates an object.
    let missing = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x-missing", "uid": repaired.metadata.uid}});
    let params = PatchParams::apply("test").force();
    let refused = world.config_maps.patch("x-missing", &params, &Patch::Apply(missing)).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
    edit(&world.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::until_deleted(&world.instances, "x").await;
}
