//! References to targets by labels: the choice is recorded, kept, and made again when the selector changes.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_controller::Settings;
use kross_testing::{objects, shared, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value as Json, json};

use crate::published::{Published, Targets, by_labels, entry, install_workload_crds};
use crate::setup::{Objects, Running, condition, install, until};
use crate::world::{config_map, value};

fn spec() -> Json {
    json!({"schema": {"spec": {"tier": "string", "text": "string | default=a"}},
        "target": by_labels([("tier", "${schema.spec.tier}")]),
        "resources": [config_map("app", None, json!({"text": "${schema.spec.text}"}))]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_chooses_a_ready_target_and_keeps_it_until_the_selector_changes() {
    let published = Published::new("ChosenTarget").await;
    published.define(spec()).await;
    published.create("x", json!({"tier": "web"})).await;
    let none = published.until_condition("x", ("ClusterResolved", "False", "NoTarget")).await;
    let message = condition(&none, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("tier=web") && message.contains("publish a cluster"), "{message}");

    published.publish("us", json!({"tier": "web"})).await;
    let instance = wait::woken(published.until_state("x", "ACTIVE")).await;
    assert_eq!(entry(&instance, "us")["connected"], true, "{instance:#}");
    let inventory = published.inventory("x").await;
    assert!(inventory.contains("targets/"), "{inventory}");

    // A target that the selector would choose now does not move the instance, even if the chosen one does not match any more.
    published.publish("eu", json!({"tier": "web"})).await;
    published.targets.patch("us", json!({"metadata": {"labels": {"tier": "none"}}})).await;
    published.patch("x", json!({"spec": {"text": "b"}})).await;
    let (eu, us) = (published.region("eu"), published.region("us"));
    wait::until_object(&us.config_maps, "x-app", |object| value(object, "text") == Some("b")).await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());

    published.targets.patch("eu", json!({"metadata": {"labels": {"tier": "batch"}}})).await;
    published.patch("x", json!({"spec": {"tier": "batch"}})).await;
    wait::until_object(&eu.config_maps, "x-app", |_| true).await;
    wait::until_deleted(&us.config_maps, "x-app").await;
    let moved = published.until("x", |instance| entry(instance, "us").is_null()).await;
    assert_eq!(entry(&moved, "eu")["connected"], true, "{moved:#}");
    let inventory = published.inventory("x").await;
    assert!(!inventory.contains("tier\\\":\\\"web"), "{inventory}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_is_made_again_when_the_target_is_gone_and_its_cluster_is_given_up() {
    let published = Published::new("GoneTarget").await;
    published.publish("eu", json!({"tier": "web"})).await;
    published.define(spec()).await;
    published.create("x", json!({"tier": "web"})).await;
    let instance = published.until_state("x", "ACTIVE").await;
    let uid = entry(&instance, "eu")["uid"].as_str().unwrap().to_owned();
    published.publish("us", json!({"tier": "web"})).await;
    published.targets.remove("eu").await;
    // Objects are left in the cluster of the target: the choice is kept, and the instance says what it waits for.
    let waiting = published.until_condition("x", ("ClusterResolved", "False", "NoTarget")).await;
    let message = condition(&waiting, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("KubernetesTarget `{}/eu`", published.namespace)), "{message}");
    assert!(published.region("us").config_maps.get_opt("x-app").await.unwrap().is_none());

    published.patch("x", json!({"metadata": {"annotations": {"kro.run/abandon-cluster": uid}}})).await;
    wait::until_object(&published.region("us").config_maps, "x-app", |_| true).await;
    let moved = published.until("x", |instance| entry(instance, "eu").is_null()).await;
    assert_eq!(entry(&moved, "us")["connected"], true, "{moved:#}");
}

const PLANE: &str = "graph-targets-restart";

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_is_kept_over_a_restart_of_the_controller() {
    let (hub, eu, us) = tokio::join!(shared(PLANE), shared("eu"), shared("us"));
    let world = Objects { client: hub.client().await.unwrap() };
    install(&world.client).await;
    install_workload_crds(&world.client).await;
    let clients = [world.client.clone(), eu.client().await.unwrap(), us.client().await.unwrap()];
    for client in &clients {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(PLANE)).await.unwrap();
    }
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), PLANE);
    for (name, admin) in [("eu", eu.admin()), ("us", us.admin())] {
        let mut secret = objects::kubeconfig_secret(name, admin);
        secret.metadata.labels = None;
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let targets = Targets::new(&world, PLANE);
    targets.publish("us", "us", json!({"tier": "web"})).await;
    let mut spec = spec();
    spec["schema"]["apiVersion"] = json!("v1alpha1");
    spec["schema"]["kind"] = json!("Chosen");
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "chosen"}, "spec": spec});
    let running = Running::start(PLANE, Settings::default()).await;
    world.create(&definition).await;
    world.until_ready("chosen").await;
    let instances = world.namespaced("kro.run", "Chosen", "chosens", PLANE);
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Chosen", "metadata": {"name": "x"},
        "spec": {"tier": "web"}});
    instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    until(instances.clone(), "x".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    running.stop().await;

    targets.publish("eu", "eu", json!({"tier": "web"})).await;
    targets.patch("us", json!({"metadata": {"labels": {"tier": "none"}}})).await;
    let patch = kube::api::Patch::Merge(json!({"spec": {"text": "b"}}));
    instances.patch("x", &Default::default(), &patch).await.unwrap();
    let running = Running::start(PLANE, Settings::default()).await;
    let in_us: Api<ConfigMap> = Api::namespaced(clients[2].clone(), PLANE);
    let in_eu: Api<ConfigMap> = Api::namespaced(clients[1].clone(), PLANE);
    wait::until_object(&in_us, "x-app", |object| value(object, "text") == Some("b")).await;
    assert!(in_eu.get_opt("x-app").await.unwrap().is_none());
    running.stop().await;
}
