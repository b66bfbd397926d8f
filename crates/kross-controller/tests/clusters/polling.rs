//! Clusters that the controller polls instead of watching them.

use std::time::Instant;

use kross_testing::{Requests, Verb, wait};
use serde_json::json;

use crate::world::{World, cluster_entry, config_map, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn never_watches_a_polled_cluster_and_repairs_drift_after_one_poll() {
    let mut app = config_map("app", Some("eu"), json!({"text": "one"}));
    app["cluster"]["pollConfig"] = json!({"interval": "10s", "jitter": "1s"});
    let source = json!({"id": "source", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "source"},
        "cluster": {"name": "eu-kubeconfig", "pollConfig": {"interval": "10s", "jitter": "1s"}}}});
    let resources = json!([source, app, config_map("copy", None, json!({"text": "${source.data.text}"}))]);
    let world = World::new("Polled", json!({"schema": {"spec": {}}, "resources": resources})).await;
    let eu = world.region("eu");
    let source =
        serde_json::from_value(json!({"metadata": {"name": "source"}, "data": {"text": "a"}})).unwrap();
    eu.config_maps.create(&Default::default(), &source).await.unwrap();
    let started = Instant::now();
    world.create("x", json!({})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    assert_eq!(cluster_entry(&instance, "eu-kubeconfig")["mode"], "Poll");
    edit(&eu.config_maps, "x-app", json!({"text": "two"})).await;
    edit(&eu.config_maps, "source", json!({"text": "b"})).await;
    wait::until_object(&eu.config_maps, "x-app", |object| value(object, "text") == Some("one")).await;
    wait::until_object(&world.config_maps, "x-copy", |object| value(object, "text") == Some("b")).await;
    let lists = eu.proxy.requests(&Requests::any().verb(Verb::List).resource("configmaps"));
    let limit = 8 + 2 * usize::try_from(started.elapsed().as_secs() / 10).unwrap();
    assert!(lists.len() <= limit, "{lists:#?}");
    assert_eq!(eu.proxy.count(&Requests::any().verb(Verb::Watch)), 0);
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert_eq!(eu.proxy.count(&Requests::any().verb(Verb::Watch)), 0);
}
