//! The resync: what no event reports is found anyway, and nothing else is requested.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kross_cluster::CacheOptions;
use kross_controller::Settings;
use kross_testing::{Action, FaultProxy, Requests, Verb, shared, wait};
use kube::Api;
use serde_json::json;

use crate::instance_api::{InstanceApi, edit, value};
use crate::setup::{Objects, Running, install};
use crate::world::config_map;

/// A control plane whose controller this test starts.
const PLANE: &str = "resync";

#[tokio::test(flavor = "multi_thread")]
async fn a_resync_finds_what_no_event_has_reported() {
    let plane = shared(PLANE).await;
    let client = plane.client().await.unwrap();
    install(&client).await;
    let proxy = FaultProxy::start(plane.admin()).unwrap();
    let config = proxy.kubeconfig(plane.admin()).unwrap().config().await.unwrap();
    let caches = CacheOptions { resync_period: Some(Duration::from_secs(5)), ..CacheOptions::default() };
    let running = Running::start_with(config, Settings { caches, ..Settings::default() }).await;
    let objects = Objects { client: client.clone() };
    let instances = InstanceApi::new(&objects, "Resynced", "default");
    let config_maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let schema = json!({"apiVersion": "v1alpha1", "kind": "Resynced", "spec": {}});
    objects
        .create(&json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "resynced"},
            "spec": {"schema": schema, "resources": [config_map("a", json!({"x": "ours"}))]}}))
        .await;
    objects.until_ready("resynced").await;
    instances.create("x", json!({})).await;
    instances.until_state("x", "ACTIVE").await;

    // Instances are reconciled, and nothing but lists and watches is requested. (Events are written later.)
    let reconciles = || running.metric("instance_reconcile_total");
    let other = || {
        let sent = proxy.requests(&Requests::any());
        let other = sent.iter().map(|record| &record.request).filter(|request| {
            !matches!(request.verb, Verb::List | Verb::Watch) && !request.resource.starts_with("events")
        });
        other.map(ToString::to_string).collect::<Vec<_>>()
    };
    let (sent, before) = (other(), reconciles());
    wait::until_true("three more reconciles", || reconciles() >= before + 3.0).await;
    assert_eq!(other(), sent);

    // No watch reports a change any more.
    let is_watch = Requests::any().verb(Verb::Watch).resource("configmaps");
    let silent = proxy.on(is_watch.clone(), Action::Hang);
    let watches = proxy.count(&is_watch);
    wait::until_true("a watch that hangs", || proxy.count(&is_watch) > watches).await;
    edit(&config_maps, "x-a", json!({"x": "edited"})).await;
    wait::until_object(&config_maps, "x-a", |object| value(object, "x") == Some("ours")).await;
    proxy.remove(silent);
    running.stop().await;
}
