//! A target that cannot be read, since it is nested too deeply: it is not taken for deleted.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_controller::Settings;
use kross_testing::{shared, wait};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, condition, create_once_served, install_crds, until};
use crate::world::{World, message, provider_crds};

const PLANE: &str = "unreadable";

/// The CRDs, with a target that may have any field.
fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds: Vec<CustomResourceDefinition> = kross_api::crds();
    for crd in crds.iter_mut().filter(|crd| crd.spec.names.kind == "KubernetesTarget") {
        for version in &mut crd.spec.versions {
            let schema =
                version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()).unwrap();
            let spec = schema.properties.as_mut().and_then(|properties| properties.get_mut("spec")).unwrap();
            spec.x_kubernetes_preserve_unknown_fields = Some(true);
        }
    }
    crds
}

/// Sets `spec.blob` of a target. It is sent as text, since the client of the tests cannot read it either.
async fn set_blob(world: &World, blob: &str) {
    let path =
        format!("/apis/workload.crossplane.io/v1alpha1/namespaces/{}/kubernetestargets/dev", world.namespace);
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(format!(r#"{{"spec":{{"blob":{blob}}}}}"#).into_bytes()).unwrap();
    world.client.request_text(request).await.unwrap();
}

/// Waits until there is an Event that says why the target cannot be read.
async fn until_event(world: &World, objects: &Objects, count: usize) {
    let events = objects.events(&world.namespace);
    wait::until("an Event on the target", || async {
        let events = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let is_it = |event: &&DynamicObject| {
            event.data["regarding"]["name"] == "dev" && event.data["reason"] == "Unreadable"
        };
        let found = events.items.iter().filter(is_it).count();
        if found >= count { Ok(()) } else { Err(format!("{found} Events")) }
    })
    .await;
}

fn application(name: &str, text: Option<&str>) -> Json {
    let templates: Vec<Json> = text
        .map(|text| {
            json!({"metadata": {"name": name}, "spec": {"template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"text": text}}}})
        })
        .into_iter()
        .collect();
    json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
        "metadata": {"name": name}, "spec": {"resourceTemplates": templates}})
}

fn is_submitted(application: &Json) -> bool {
    application["status"]["state"] == "Submitted"
        && condition(application, "Ready")["observedGeneration"] == application["metadata"]["generation"]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_target_is_not_treated_as_deleted() {
    let plane = shared(PLANE).await;
    let client = plane.client().await.unwrap();
    install_crds(&client, crds()).await;
    install_crds(&client, provider_crds()).await;
    let running = Running::start(PLANE, Settings::default()).await;
    let world = World::on(client.clone(), "default").await;
    let objects = Objects { client: client.clone() };
    world.publish("dev").await;
    let instances = world.define("OnUnreadable").await;
    world.create_instance(&instances, "OnUnreadable", "web", "dev").await;
    let kind = GroupVersionKind::gvk("workload.crossplane.io", "v1alpha2", "KubernetesApplication");
    let applications: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    for (name, text) in [("app", Some("1")), ("none", None)] {
        create_once_served(&applications, application(name, text)).await;
        until(applications.clone(), name.to_owned(), is_submitted).await;
    }
    // Another target could take them over.
    world.create_local_secret("mine").await;
    world.create_target("other", json!({"connectionSecretRef": {"name": "mine"}})).await;
    world.until_ready("other").await;
    set_blob(&world, &format!("{}1{}", r#"{"a":"#.repeat(140), "}".repeat(140))).await;
    until_event(&world, &objects, 1).await;

    // Also a controller that has never read it leaves everything as it is.
    running.stop().await;
    let running = Running::start(PLANE, Settings::default()).await;
    let touch = Patch::Merge(json!({"spec": {"resourceSelector": {"matchLabels": {"a": "b"}}}}));
    for name in ["app", "none"] {
        applications.patch(name, &PatchParams::default(), &touch).await.unwrap();
        let is_current = |it: &Json| {
            condition(it, "Ready")["observedGeneration"] == it["metadata"]["generation"]
                && message(it, "Ready").contains("`dev`")
        };
        let kept = until(applications.clone(), name.to_owned(), is_current).await;
        assert_eq!(kept["spec"]["targetRef"]["name"], "dev", "{kept:#}");
        let text = message(&kept, "Ready");
        assert!(text.contains("KubernetesTarget `dev` is not Ready"), "{text}");
    }
    let maps = world.remote_config_maps().await;
    for name in ["web", "app"] {
        assert!(maps.get(name).await.unwrap().metadata.deletion_timestamp.is_none());
    }
    let copy = world.copy("default", "dev").await.unwrap();
    assert!(copy.metadata.deletion_timestamp.is_none());
    // Its users delete nothing, and its deletion waits for them.
    world.targets().delete("other", &Default::default()).await.unwrap();
    let path = "/apis/workload.crossplane.io/v1alpha1/namespaces/default/kubernetestargets/dev";
    client.request_text(http::Request::delete(path).body(Vec::new()).unwrap()).await.unwrap();
    instances.delete("web", &Default::default()).await.unwrap();
    let waits = |it: &Json| {
        it["status"]["state"] == "DELETING"
            && message(it, "Ready").contains("KubernetesTarget `default/dev` cannot be read")
    };
    until(instances.clone(), "web".to_owned(), waits).await;
    maps.get("web").await.unwrap();
    wait::until_deleted(&world.targets(), "other").await;
    assert!(world.copy("default", "dev").await.unwrap().metadata.deletion_timestamp.is_none());

    set_blob(&world, "null").await;
    wait::woken(wait::until_deleted(&instances, "web")).await;
    assert!(maps.get_opt("web").await.unwrap().is_none());
    let held = world.until_condition("dev", ("Ready", "False", "InUse")).await;
    assert!(message(&held, "Ready").contains("default/app`"), "{held:#}");
    for name in ["app", "none"] {
        applications.delete(name, &Default::default()).await.unwrap();
        wait::until_deleted(&applications, name).await;
    }
    wait::until_deleted(&world.targets(), "dev").await;
    assert!(maps.get_opt("app").await.unwrap().is_none());
    assert!(world.copy("default", "dev").await.is_none());
    running.stop().await;
}
