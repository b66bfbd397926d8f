//! The life of a claim on a control plane with a garbage collector and a namespace controller.

use k8s_openapi::api::core::v1::Namespace;
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::setup::{Objects, Running};
use crate::world::{World, get, install};

#[tokio::test(flavor = "multi_thread")]
async fn claims_are_deleted_in_order_with_a_garbage_collector() {
    let plane = ControlPlane::named("collected").controller_manager().start().await.unwrap();
    let client = plane.client().await.unwrap();
    install(&client).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let running = Running::start_with(plane.admin().config().await.unwrap(), Settings::default()).await;
    let world = |namespace: &str| World {
        namespace: namespace.to_owned(),
        objects: Objects { client: client.clone() },
        proxy: None,
    };

    // The deletion of a claim.
    namespaces.create(&PostParams::default(), &objects::namespace("one")).await.unwrap();
    let one = world("one");
    let managed = one.bound("dev", "Cloud", json!({})).await;
    one.claims().delete("dev", &DeleteParams::foreground()).await.unwrap();
    one.until_deleted("dev").await;
    wait::until_deleted(&one.managed("Cloud"), &managed).await;
    wait::until_deleted(&one.targets(), "dev").await;
    wait::until_deleted(&one.secrets(), "dev-conn").await;

    // The deletion of its namespace. A retained resource survives it.
    namespaces.create(&PostParams::default(), &objects::namespace("two")).await.unwrap();
    let two = world("two");
    let deleted = two.bound("dev", "Cloud", json!({})).await;
    two.class("kept", "Plain", json!({"spec": {"reclaimPolicy": "Retain"}})).await;
    two.claim_of("kept", "kept").await;
    let kept = two.provisioned("kept", "Plain").await;
    two.set_ready("Plain", &kept, "True").await;
    two.until_claim("kept", |claim| claim["status"]["bindingPhase"] == "Bound").await;
    namespaces.delete("two", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&namespaces, "two").await;
    wait::until_deleted(&two.managed("Cloud"), &deleted).await;
    let kept = get(&two.managed("Plain"), &kept).await;
    assert_eq!(kept["metadata"]["annotations"]["kro.run/binding-phase"], "Released");
    running.stop().await;
}
