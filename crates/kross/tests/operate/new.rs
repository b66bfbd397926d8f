//! `kross new`, from objects of a cluster.

use kross_testing::wait;
use serde_json::{Value as Json, json};

use crate::world::World;

/// A web application as people have it.
fn objects(namespace: &str) -> Vec<Json> {
    let labels = json!({"app": "front"});
    let metadata = |name: &str| json!({"name": name, "namespace": namespace, "labels": labels});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("front")}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("front-config"), "data": {"theme": "dark"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("front"), "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": "front",
                "containers": [{
                    "name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 8080}],
                    "envFrom": [{"configMapRef": {"name": "front-config"}}],
                    "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
                }],
            }},
        }}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("front"), "spec": {
            "selector": labels, "ports": [{"port": 80, "targetPort": 8080}],
        }}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata("front"), "spec": {
            "rules": [{"host": "front.example.com", "http": {"paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "front", "port": {"number": 80}}},
            }]}}],
        }}),
    ]
}

/// What the object is, without what the API server counts and kross notes.
async fn content(world: &World, object: &Json) -> Json {
    let text = |field: &str| object[field].as_str().unwrap();
    let api = world.api(text("apiVersion"), text("kind"), Some(&world.namespace));
    let found = api.get(object["metadata"]["name"].as_str().unwrap()).await.unwrap();
    json!({"spec": found.data["spec"], "data": found.data["data"], "uid": found.metadata.uid})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_of_a_definition_made_from_running_objects_takes_them_over_unchanged() {
    let world = World::new().await;
    let objects = objects(&world.namespace);
    let mut before = Vec::new();
    for object in &objects {
        world.apply(object).await;
        before.push(content(&world, object).await);
    }
    let named = ["deployment/front", "service/front", "configmap/front-config", "ingress/front", "sa/front"];
    let made = world.kross(&[&["new"], &named[..], &["--name", "running-front"]].concat());
    assert_eq!(made.code, 0, "{made:?}");
    insta::assert_snapshot!("new", made.data);
    let selected = world.kross(&["new", "-l", "app=front", "--name", "running-front"]);
    assert_eq!(selected.code, 0, "{selected:?}");
    for kind in ["Deployment", "Service", "ConfigMap", "Ingress", "ServiceAccount"] {
        assert_eq!(selected.data.matches(&format!("        kind: {kind}\n")).count(), 1, "{}", selected.data);
    }

    let definition: Json = serde_saphyr::from_str(&made.data).unwrap();
    world.apply(&definition).await;
    let definitions = world.api("kro.run/v1alpha1", "ResourceGraphDefinition", None);
    wait::until_object(&definitions, "running-front", |found| found.data["status"]["state"] == "Active")
        .await;
    world.create("RunningFront", "front").await;
    world.until_state("RunningFront", "front", "ACTIVE").await;
    for (object, before) in objects.iter().zip(&before) {
        assert_eq!(content(&world, object).await, *before, "{object}");
    }
    let missing = world.kross(&["new", "deployment/nobody"]);
    assert!(missing.code == 2 && missing.notes.contains("cannot read deployment/nobody"), "{missing:?}");
}
