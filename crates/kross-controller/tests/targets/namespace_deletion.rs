//! A hub with a namespace controller and a garbage collector: a namespace is deleted with everything that it has.

use k8s_openapi::api::core::v1::Namespace;
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::wait;
use kube::Api;

use crate::setup::{Running, install_crds};
use crate::world::{RESOURCE, World, provider_crds};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_deleted_with_its_target_once_its_users_are_done() {
    let plane = ControlPlane::named("managed").controller_manager().start().await.unwrap();
    let client = plane.client().await.unwrap();
    install_crds(&client, kross_api::crds()).await;
    install_crds(&client, provider_crds()).await;
    let running = Running::start_with(plane.admin().config().await.unwrap(), Settings::default()).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let shop = kross_testing::objects::namespace("shop");
    namespaces.create(&kube::api::PostParams::default(), &shop).await.unwrap();
    let world = World::on(client, "shop").await;
    world.publish("dev").await;
    let users = world.resources();
    world.create_user(&users, RESOURCE, "web", "dev").await;

    world.delete_namespace().await;
    world.until_condition("dev", ("Ready", "False", "InUse")).await;
    // The namespace controller deletes the copy. It is kept, and serves deletions, until its last user is deleted.
    let secrets = world.secrets("shop");
    wait::until_object(&secrets, "dev-connection", |copy| copy.metadata.deletion_timestamp.is_some()).await;
    world.until_condition("dev", ("ConnectionSecretPropagated", "False", "Deleting")).await;
    world.until_condition("dev", ("Reachable", "True", "Connected")).await;
    world.delete_user(&users, "web").await;
    wait::until_deleted(&namespaces, "shop").await;

    // The same with an instance, which needs nobody.
    let store = kross_testing::objects::namespace("store");
    namespaces.create(&kube::api::PostParams::default(), &store).await.unwrap();
    let world = World::on(world.client, "store").await;
    world.publish("dev").await;
    let instances = world.define("Stored").await;
    world.create_instance(&instances, "Stored", "web", "dev").await;
    // A Secret of the user is kept as long, if its label asks for it.
    world.create_local_secret("mine").await;
    let secrets = world.secrets("store");
    let label =
        kube::api::Patch::Merge(serde_json::json!({"metadata": {"labels": {"kro.run/protect": "true"}}}));
    secrets.patch("mine", &kube::api::PatchParams::default(), &label).await.unwrap();
    world.create_target("own", serde_json::json!({"connectionSecretRef": {"name": "mine"}})).await;
    world.until_ready("own").await;
    world.create_instance(&instances, "Stored", "api", "own").await;
    wait::until_object(&secrets, "mine", |secret| secret.metadata.finalizers.is_some()).await;
    let remote = world.remote_config_maps().await;
    remote.get("web").await.unwrap();
    world.delete_namespace().await;
    wait::until_deleted(&namespaces, "store").await;
    for name in ["web", "api"] {
        assert!(remote.get_opt(name).await.unwrap().is_none(), "the object in the other cluster is deleted");
    }
    running.stop().await;
}
