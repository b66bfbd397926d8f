//! Secrets with the label `kro.run/protect`: they outlive the objects in their clusters, and serve deletions only while they are
//! being deleted.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kross_testing::{Fault, Requests, Verb, wait};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::instance_api::InstanceApi;
use crate::setup::condition;
use crate::world::{World, config_map, resource_entry, value};

const FINALIZER: &str = "kro.run/protect";

fn spec() -> Json {
    json!({"schema": {"spec": {"text": "string | default=one", "secret": "string | default=eu-kubeconfig"}},
        "resources": [with_secret(config_map("a", None, json!({"text": "${schema.spec.text}"})))]})
}

/// The resource in the cluster of the Secret that the instance names.
fn with_secret(mut resource: Json) -> Json {
    resource["cluster"] = json!({"name": "${schema.spec.secret}"});
    resource
}

async fn label(secrets: &Api<Secret>, name: &str, value: Option<&str>) {
    let patch = json!({"metadata": {"labels": {"kro.run/protect": value}}});
    secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn has_finalizer(secret: &Secret) -> bool {
    secret.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
}

async fn until_protected(secrets: &Api<Secret>, name: &str) {
    wait::until_object(secrets, name, has_finalizer).await;
}

fn message(instance: &Json, kind: &str) -> String {
    condition(instance, kind)["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_remote_objects_although_the_secret_is_deleted_with_the_instances() {
    let world = World::new("ProtectedTogether", spec()).await;
    label(&world.secrets, "eu-kubeconfig", Some("true")).await;
    for name in ["x", "y"] {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let secret = world.secrets.get("eu-kubeconfig").await.unwrap();
    assert!(has_finalizer(&secret), "protected before the first write to its cluster");
    // As the namespace controller does: everything in the namespace, in any order.
    world.secrets.delete("eu-kubeconfig", &Default::default()).await.unwrap();
    world.delete("x").await;
    world.delete("y").await;
    for name in ["x", "y"] {
        wait::until_deleted(&world.instances, name).await;
        let object = world.region("eu").config_maps.get_opt(&format!("{name}-a")).await.unwrap();
        assert!(object.is_none(), "{name}");
    }
    wait::woken(wait::until_deleted(&world.secrets, "eu-kubeconfig")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_deletions_only_while_the_secret_is_being_deleted() {
    let world = World::new("DeletionsOnly", spec()).await;
    let eu = world.region("eu");
    label(&world.secrets, "eu-kubeconfig", Some("true")).await;
    for name in ["x", "y"] {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    world.secrets.delete("eu-kubeconfig", &Default::default()).await.unwrap();
    let says_so = |instance: &Json| {
        instance["status"]["state"] == "ERROR"
            && message(instance, "ClusterResolved").contains("serves deletions only")
            && resource_entry(instance, "a")["reason"] == "Credentials"
    };
    world.until("x", says_so).await;
    world.until("y", says_so).await;
    eu.proxy.clear_requests();
    // Neither a change nor a new instance is applied there.
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    world.create("z", json!({})).await;
    world.until("z", says_so).await;
    let generation = |instance: &Json| condition(instance, "Ready")["observedGeneration"] == 2;
    let refused = world.until("x", |instance| says_so(instance) && generation(instance)).await;
    assert!(message(&refused, "ClusterResolved").contains("eu-kubeconfig"), "{refused:#}");
    assert_eq!(eu.writes(), [""; 0]);
    assert_eq!(value(&eu.config_maps.get("x-a").await.unwrap(), "text"), Some("one"));
    let inventory =
        world.get("z").await["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].clone();
    assert_eq!(inventory, Json::Null, "an instance that never used the Secret does not keep it");
    // An instance that moves away is cleaned up with it, one that is deleted as well.
    world.patch("x", json!({"spec": {"secret": "us-kubeconfig"}})).await;
    world.until_state("x", "ACTIVE").await;
    wait::until_deleted(&eu.config_maps, "x-a").await;
    assert_eq!(value(&world.region("us").config_maps.get("x-a").await.unwrap(), "text"), Some("two"));
    world.secrets.get("eu-kubeconfig").await.unwrap();
    world.delete("y").await;
    wait::until_deleted(&world.instances, "y").await;
    assert!(eu.config_maps.get_opt("y-a").await.unwrap().is_none());
    wait::woken(wait::until_deleted(&world.secrets, "eu-kubeconfig")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_hook_in_the_cluster_of_a_secret_that_is_being_deleted_is_deleted_too() {
    // A kind that the living instance has not applied, so that its inventory lacks it.
    let backup = json!({"id": "backup", "lifecycle": {"when": "Deletion"},
        "template": {"apiVersion": "v1", "kind": "ServiceAccount", "metadata":
            {"name": "${schema.metadata.name}-backup", "finalizers": ["test.kross.run/hold"]}}});
    let mut spec = spec();
    spec["resources"].as_array_mut().unwrap().push(with_secret(backup));
    let world = World::new("HookInProtected", spec).await;
    label(&world.secrets, "eu-kubeconfig", Some("true")).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.secrets.delete("eu-kubeconfig", &Default::default()).await.unwrap();
    world.until("x", |instance| message(instance, "ClusterResolved").contains("serves deletions only")).await;
    world.delete("x").await;
    let backups: Api<ServiceAccount> =
        Api::namespaced(world.region("eu").config_maps.clone().into_client(), &world.namespace);
    let is_terminating = |backup: &ServiceAccount| backup.metadata.deletion_timestamp.is_some();
    wait::until_object(&backups, "x-backup", is_terminating).await;
    world
        .until("x", |instance| {
            let annotations = &instance["metadata"]["annotations"];
            let text = |name: &str| annotations[name].as_str().unwrap_or_default().to_owned();
            text("internal.kro.run/delete-attempts").contains("hooksCompleted")
                && text("internal.kro.run/cluster-inventory").contains("ServiceAccount")
        })
        .await;
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    backups.patch("x-backup", &PatchParams::default(), &released).await.unwrap();
    wait::until_deleted(&world.instances, "x").await;
    assert!(backups.get_opt("x-backup").await.unwrap().is_none());
    wait::woken(wait::until_deleted(&world.secrets, "eu-kubeconfig")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protects_a_secret_as_long_as_the_last_instance_of_any_definition_uses_it() {
    let world = World::new("FirstUser", spec()).await;
    let second = InstanceApi::new(&world.objects, "SecondUser", &world.namespace);
    let mut definition = spec();
    definition["schema"]["apiVersion"] = json!("v1alpha1");
    definition["schema"]["kind"] = json!("SecondUser");
    definition["resources"] = json!([with_secret(config_map("b", None, json!({})))]);
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "seconduser"}, "spec": definition});
    world.objects.create(&definition).await;
    world.objects.until_ready("seconduser").await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let secret = world.secrets.get("eu-kubeconfig").await.unwrap();
    assert_eq!(secret.metadata.finalizers, None, "no label, no finalizer");
    // The label may come later, to a Secret that is in use.
    label(&world.secrets, "eu-kubeconfig", Some("true")).await;
    until_protected(&world.secrets, "eu-kubeconfig").await;
    second.create("y", json!({})).await;
    second.until_state("y", "ACTIVE").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    // Whatever the controller does after the deletion of `x` is done before it deletes `z`.
    world.create("z", json!({"secret": "us-kubeconfig"})).await;
    world.until_state("z", "ACTIVE").await;
    world.delete("z").await;
    wait::until_deleted(&world.instances, "z").await;
    assert!(has_finalizer(&world.secrets.get("eu-kubeconfig").await.unwrap()), "`y` still uses it");
    second.delete("y").await;
    wait::until_deleted(&second.instances, "y").await;
    let released =
        wait::until_object(&world.secrets, "eu-kubeconfig", |secret: &Secret| !has_finalizer(secret));
    let released = wait::woken(released).await;
    let labels = released.metadata.labels.unwrap_or_default();
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["kro.run/protect"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_loses_its_label_is_not_protected_any_more() {
    let world = World::new("LabelRemoved", spec()).await;
    label(&world.secrets, "eu-kubeconfig", Some("true")).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    until_protected(&world.secrets, "eu-kubeconfig").await;
    label(&world.secrets, "eu-kubeconfig", None).await;
    let unprotected = wait::until_object(&world.secrets, "eu-kubeconfig", |secret: &Secret| {
        !has_finalizer(secret) && secret.metadata.labels.iter().flatten().count() == 0
    });
    wait::woken(unprotected).await;
    // Somebody who removes the finalizer by hand, but not the label, gets it back.
    label(&world.secrets, "eu-kubeconfig", Some("true")).await;
    until_protected(&world.secrets, "eu-kubeconfig").await;
    let stripped = json!({"metadata": {"finalizers": []}});
    world.secrets.patch("eu-kubeconfig", &PatchParams::default(), &Patch::Merge(stripped)).await.unwrap();
    wait::woken(until_protected(&world.secrets, "eu-kubeconfig")).await;
    world.until_state("x", "ACTIVE").await;
}

/// A graph with the Secret of the cluster of its only other resource.
fn own_secret(world: &World, lifecycle: Json) -> Json {
    let kubeconfig = world.kubeconfig("eu").to_string();
    let secret = json!({"id": "credential", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-own-kubeconfig", "labels": {"example.com/a": "b"}},
        "stringData": {"kubeconfig": kubeconfig}}});
    let mut remote = config_map("a", None, json!({}));
    remote["cluster"] = json!({"name": "${credential.metadata.name}"});
    remote["lifecycle"] = lifecycle;
    json!({"schema": {"spec": {}}, "resources": [secret, remote]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_creates_its_own_protected_secret_can_be_deleted() {
    let world = World::without_definition("OwnSecret").await;
    world.define(own_secret(&world, json!({}))).await;
    for (name, is_deleted_first) in [("x", false), ("y", true)] {
        let secret = format!("{name}-own-kubeconfig");
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
        label(&world.secrets, &secret, Some("true")).await;
        until_protected(&world.secrets, &secret).await;
        if is_deleted_first {
            world.secrets.delete(&secret, &Default::default()).await.unwrap();
        }
        world.delete(name).await;
        wait::until_deleted(&world.instances, name).await;
        assert!(world.region("eu").config_maps.get_opt(&format!("{name}-a")).await.unwrap().is_none());
        assert!(world.secrets.get_opt(&secret).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_secret_of_the_graph_is_deleted_once_the_objects_in_its_cluster_are_orphaned() {
    let world = World::without_definition("OwnSecretForced").await;
    world.define(own_secret(&world, json!({"delete": {"forceAfter": "3s"}}))).await;
    let eu = world.region("eu");
    for (name, is_deleted_first) in [("x", false), ("y", true)] {
        let secret = format!("{name}-own-kubeconfig");
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
        label(&world.secrets, &secret, Some("true")).await;
        until_protected(&world.secrets, &secret).await;
        eu.proxy.set(Fault::Refuse);
        world.until_condition(name, ("RemoteClusterConnected", "False", "Unreachable")).await;
        if is_deleted_first {
            world.secrets.delete(&secret, &Default::default()).await.unwrap();
        }
        world.delete(name).await;
        wait::until_deleted(&world.instances, name).await;
        assert!(world.secrets.get_opt(&secret).await.unwrap().is_none(), "{name}");
        let object = format!("{name}-a");
        assert!(eu.config_maps.get_opt(&object).await.unwrap().is_some(), "{name}");
        // What is orphaned is reported, although the inventory lost its cluster in an earlier pass.
        let events: Api<Event> = Api::namespaced(world.objects.client.clone(), &world.namespace);
        let left_behind = || async {
            let list = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let notes = list.items.into_iter().filter(|event| event.reason.as_deref() == Some("LeftBehind"));
            let notes: Vec<String> = notes.filter_map(|event| event.note).collect();
            let count = notes.iter().filter(|note| note.contains(&object)).count();
            if count == 1 { Ok(()) } else { Err(format!("{count} Events: {notes:?}")) }
        };
        wait::until("an Event `LeftBehind`", left_behind).await;
        eu.proxy.set(Fault::Pass);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_instance_costs_no_request_when_its_secret_is_protected() {
    let world = World::new("ProtectedIdle", spec()).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    eu.proxy.clear_requests();
    label(&world.secrets, "eu-kubeconfig", Some("true")).await;
    until_protected(&world.secrets, "eu-kubeconfig").await;
    // The next write proves that everything before it was processed.
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    wait::until_object(&eu.config_maps, "x-a", |object| value(object, "text") == Some("two")).await;
    assert_eq!(eu.proxy.count(&Requests::any().verb(Verb::Apply)), 1, "{:?}", eu.writes());
}
