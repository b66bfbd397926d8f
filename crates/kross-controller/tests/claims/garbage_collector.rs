//! The life of a claim on a control plane with a garbage collector and a namespace controller.

use k8s_openapi::api::core::v1::Namespace;
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::{Cluster, objects, shared, wait};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value as Json, json};

use crate::end_to_end::Provided;
use crate::setup::{Objects, Running, condition};
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

    everything_in_a_namespace_is_deleted_with_it(&namespaces, world).await;
    running.stop().await;
}

/// A namespace with claim, target, application and an instance in the claimed cluster, and a graph that makes a claim and
/// deploys into its cluster.
async fn everything_in_a_namespace_is_deleted_with_it(
    namespaces: &Api<Namespace>,
    world: impl Fn(&str) -> World,
) {
    let plane = shared("eu").await;
    let eu =
        Cluster { plane, client: plane.client().await.unwrap(), namespace: "collected-three".to_owned() };
    let there: Api<Namespace> = Api::all(eu.client.clone());
    let name = eu.namespace.clone();
    for namespaces in [namespaces, &there] {
        namespaces.create(&PostParams::default(), &objects::namespace(&name)).await.unwrap();
    }
    let provided = Provided::on(world(&name), eu, "CollectedCluster").await;
    let (world, remote) = (&provided.world, provided.remote());
    let (instances, _) = provided.use_cluster("Collected").await;
    let stacks = provided.create_stack().await;

    // A claim in use is held back, also from the garbage collector.
    world.claims().delete("dev", &DeleteParams::foreground()).await.unwrap();
    let of_graph = format!("Collected `{name}/web`");
    let is_held = |claim: &Json| {
        let ready = condition(claim, "Ready");
        ready["reason"] == "InUse" && ready["message"].as_str().is_some_and(|text| text.contains(&of_graph))
    };
    world.until_claim("dev", is_held).await;
    for left in ["web", "app", "stack"] {
        assert!(remote.get_opt(left).await.unwrap().is_some());
    }
    assert!(instances.get("web").await.unwrap().metadata.deletion_timestamp.is_none());
    stacks.delete("stack", &DeleteParams::foreground()).await.unwrap();
    wait::until_deleted(&stacks, "stack").await;

    namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
    wait::until_deleted(namespaces, &name).await;
    for left in ["web", "app", "stack"] {
        assert!(remote.get_opt(left).await.unwrap().is_none(), "{left} is left behind");
    }
    assert!(provided.clusters.list(&ListParams::default()).await.unwrap().items.is_empty());
}
