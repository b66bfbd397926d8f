//! The object of a resource in the cluster of its target: applied, repaired, refused, and shown in the status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kross_testing::wait;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, message, template, value};

#[tokio::test(flavor = "multi_thread")]
async fn the_object_is_applied_as_it_is_and_its_status_is_shown() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    let service = json!({"metadata": {"name": "web-service"}, "spec": {"template": {"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "annotations": {"note": "${this} is \"literal\""}},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}}}});
    let text = "echo ${HOME} $${x} ${\"a\"}\n${unclosed";
    world.create_with("web", vec![service, template("web-map", text)], json!({})).await;
    world.until_state("web", "Submitted").await;
    let eu = world.region("eu");
    let services: Api<Service> = eu.cluster.api();
    let applied = services.get("web").await.unwrap();
    assert_eq!(applied.metadata.annotations.unwrap()["note"], "${this} is \"literal\"");
    assert_eq!(value(&eu.config_maps.get("web-map").await.unwrap(), "text"), Some(text));
    let managers: Vec<_> =
        applied.metadata.managed_fields.unwrap().into_iter().map(|it| (it.manager, it.operation)).collect();
    assert!(
        managers.contains(&(Some("kro.run/applyset".to_owned()), Some("Apply".to_owned()))),
        "{managers:?}"
    );
    let resource = world.until_resource("web-service", "Submitted").await;
    assert_eq!(resource["status"]["remote"], json!({"loadBalancer": {}}), "{resource:#}");
    assert_eq!(resource["status"]["clusters"][0]["connected"], true);
    let ingress = json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.1.2.3"}]}}});
    services.patch_status("web", &PatchParams::default(), &Patch::Merge(ingress)).await.unwrap();
    wait::woken(wait::until_object(&world.resources, "web-service", |resource| {
        resource.data["status"]["remote"]["loadBalancer"]["ingress"][0]["ip"] == "10.1.2.3"
    }))
    .await;
    let map = world.until_resource("web-map", "Submitted").await;
    assert!(map["status"].get("remote").is_none(), "{map:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_repaired_by_a_watch() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web-a", "1")], json!({})).await;
    world.until_state("web", "Submitted").await;
    let maps = &world.region("eu").config_maps;
    let edit = json!({"data": {"text": "drifted"}});
    maps.patch("web-a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    wait::woken(wait::until_object(maps, "web-a", |map| value(map, "text") == Some("1"))).await;
    maps.delete("web-a", &Default::default()).await.unwrap();
    wait::woken(wait::until_object(maps, "web-a", |map| value(map, "text") == Some("1"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_is_refused_and_left_alone() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    let maps = &world.region("eu").config_maps;
    let metadata = ObjectMeta { name: Some("web-a".to_owned()), ..ObjectMeta::default() };
    let data = BTreeMap::from([("text".to_owned(), "theirs".to_owned())]);
    let theirs = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
    maps.create(&PostParams::default(), &theirs).await.unwrap();
    world.create("web", &[("web-a", "1")], json!({})).await;
    let refused = world.until_resource("web-a", "Failed").await;
    assert_eq!(refused["status"]["managedResources"][0]["reason"], "Conflict", "{refused:#}");
    let failed = world.until_state("web", "Failed").await;
    assert!(message(&failed, "Ready").contains("`web-a`"), "{failed:#}");
    world.delete("web").await;
    wait::until_deleted(&world.applications, "web").await;
    wait::until_deleted(&world.resources, "web-a").await;
    let left = maps.get("web-a").await.unwrap();
    assert_eq!((value(&left, "text"), &left.metadata.deletion_timestamp), (Some("theirs"), &None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_goes_to_the_namespace_of_the_application_and_a_missing_namespace_is_named() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    let mut elsewhere = template("web-b", "2");
    elsewhere["spec"]["template"]["metadata"]["namespace"] = json!("nowhere");
    world.create_with("web", vec![template("web-a", "1"), elsewhere], json!({})).await;
    wait::until_object(&world.region("eu").config_maps, "web-a", |_| true).await;
    let failed = world.until_resource("web-b", "Failed").await;
    assert!(message(&failed, "Ready").contains("nowhere"), "{failed:#}");
    assert_eq!(failed["status"]["managedResources"][0]["reason"], "NotFound", "{failed:#}");
    let partial = world.until_state("web", "PartiallySubmitted").await;
    assert_eq!(condition(&partial, "Ready")["status"], "False");

    // The application may bring the namespace itself. It has none of its own.
    let name = format!("{}-brought", world.namespace);
    let namespace = json!({"metadata": {"name": "web-c"}, "spec": {"template":
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}}});
    let mut inside = template("web-b", "2");
    inside["spec"]["template"]["metadata"]["namespace"] = json!(name);
    let templates = json!([template("web-a", "1"), inside, namespace]);
    world.patch("web", json!({"spec": {"resourceTemplates": templates}})).await;
    world.until_state("web", "Submitted").await;
    let maps: Api<ConfigMap> = Api::namespaced(world.region("eu").cluster.client.clone(), &name);
    assert!(maps.get_opt("web-b").await.unwrap().is_some());
}
