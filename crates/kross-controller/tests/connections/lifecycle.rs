//! The ClusterConnection of a cluster: from its first use over an outage and a restart to its last use.

use kross_api::{ClusterConnectionSpec, ConnectionSecretReference};
use kross_testing::{Fault, wait};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::world::World;

const NAME: &str = "default.eu-kubeconfig";

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_follows_its_cluster_through_an_outage_and_a_restart_until_nobody_uses_it() {
    let world = World::new("lifecycle").await;
    crate::setup::install_crds(&world.client, vec![kross_api::connection_crd()]).await;
    // It is of an earlier controller, which used a cluster that this one does not use.
    let reference = |name: &str| ConnectionSecretReference {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        key: "kubeconfig".to_owned(),
    };
    let stale = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ClusterConnection",
        "metadata": {"name": "default.stale"}, "spec": ClusterConnectionSpec { secret_ref: reference("stale") }});
    let stale = serde_json::from_value(stale).unwrap();
    world.connections().create(&PostParams::default(), &stale).await.unwrap();
    let running = world.start().await;
    wait::until_deleted(&world.connections(), "default.stale").await;

    let clusters = ["eu-kubeconfig".to_owned()];
    world.create_secrets(&clusters).await;
    let shops = world.define().await;
    world.create(&shops, "web", &clusters).await;
    let complete = world.until(NAME, |status| status["objects"] == 1 && status["instances"] == 1).await;
    let status = &complete["status"];
    assert_eq!(complete["spec"]["secretRef"]["name"], "eu-kubeconfig");
    assert_eq!(status["state"], "Connected", "{complete:#}");
    assert_eq!(status["uid"], json!(world.uid));
    assert_eq!((&status["mode"], &status["watches"]), (&json!("Watch"), &json!(1)), "{complete:#}");
    assert!(status["version"].as_str().unwrap().starts_with("v1."), "{complete:#}");
    assert_eq!(status["credential"]["method"], "client-certificate");
    assert!(status["credential"]["expires"].as_str().unwrap().ends_with('Z'), "{complete:#}");
    let text = complete.to_string();
    assert!(!text.contains(&world.remote.url()) && !text.contains("certificate-authority"), "{text}");
    world.until_idle().await;
    let idle = world.requests().len();

    world.remote.set(Fault::Refuse);
    let lost = wait::woken(world.until(NAME, |status| status["state"] == "NotConnected")).await;
    let status = &lost["status"];
    assert_eq!((&status["step"], &status["reason"]), (&json!("Reach"), &json!("Unreachable")), "{lost:#}");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("cluster `default/eu-kubeconfig` is not connected, last seen at "),
        "{message}"
    );
    assert_eq!(status["objects"], 1, "what is known of the cluster stays: {lost:#}");
    assert_eq!(status["uid"], json!(world.uid));

    // The next controller sees the same outage, and does not begin it anew.
    running.stop().await;
    let running = world.start().await;
    world.until_idle().await;
    let restarted = world.until(NAME, |status| status["state"] == "NotConnected").await;
    for field in ["since", "lastContact", "uid", "version", "objects", "instances"] {
        assert_eq!(restarted["status"][field], status[field], "{field} of {restarted:#}");
    }

    world.remote.set(Fault::Pass);
    let back = wait::woken(world.until(NAME, |status| status["state"] == "Connected")).await;
    assert!(back["status"]["message"].is_null() && back["status"]["lastContact"].is_null(), "{back:#}");
    world.until_idle().await;
    assert!(world.requests().len() < idle + 20, "{:#?}", world.requests());

    // Somebody deletes it, and it comes back. Then the cluster is not used any more.
    world.connections().delete(NAME, &DeleteParams::default()).await.unwrap();
    wait::woken(world.until(NAME, |status| status["state"] == "Connected")).await;
    shops.delete("web", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&world.connections(), NAME).await;
    running.stop().await;
}
