//! Copies of connection Secrets that somebody still needs: they are kept when the copy, the managed resource or its binding is
//! deleted.

use k8s_openapi::api::core::v1::Secret;
use kross_testing::wait;
use kube::api::DeleteParams;
use serde_json::{Value as Json, json};

use crate::setup::{condition, create_once_served, until};
use crate::world::{World, kubeconfig, message};

const HOLD: &str = "example.com/hold";

fn is_terminating(secret: &Secret) -> bool {
    secret.metadata.deletion_timestamp.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_somebody_deletes_serves_deletions_until_its_last_user_is_deleted() {
    let world = World::new().await;
    world.publish("dev").await;
    let instances = world.define("KeptCopy").await;
    world.create_instance(&instances, "KeptCopy", "web", "dev").await;
    let (secrets, maps) = (world.secrets(&world.namespace), world.remote_config_maps().await);
    let before = secrets.get("dev-connection").await.unwrap();
    secrets.delete("dev-connection", &DeleteParams::default()).await.unwrap();
    let target =
        wait::woken(world.until_condition("dev", ("ConnectionSecretPropagated", "False", "Deleting"))).await;
    assert_eq!(condition(&target, "Ready")["reason"], "Deleting");
    assert_eq!(condition(&target, "Reachable")["status"], "True", "{target:#}");
    // Nothing new is applied with it.
    let late = json!({"apiVersion": "kro.run/v1alpha1", "kind": "KeptCopy", "metadata": {"name": "late"},
        "spec": {"target": "dev"}});
    create_once_served(&instances, late).await;
    let is_refused = |it: &Json| message(it, "ClusterResolved").contains("serves deletions only");
    until(instances.clone(), "late".to_owned(), is_refused).await;
    assert!(maps.get_opt("late").await.unwrap().is_none());
    let kept = secrets.get("dev-connection").await.unwrap();
    assert!(is_terminating(&kept) && kept.metadata.uid == before.metadata.uid);
    assert_eq!(kubeconfig(&kept), kubeconfig(&before));

    // Its last user deletes its object with it. Then the Secret is copied again.
    wait::woken(async {
        instances.delete("web", &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&instances, "web").await;
        assert!(maps.get_opt("web").await.unwrap().is_none());
        wait::until_object(&secrets, "dev-connection", |copy| !is_terminating(copy)).await;
        world.until_ready("dev").await;
        wait::until_object(&maps, "late", |_| true).await;
    })
    .await;
    assert_eq!(kubeconfig(&secrets.get("dev-connection").await.unwrap()), kubeconfig(&before));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_copy_of_a_released_or_deleted_managed_resource_is_kept_for_its_users() {
    let world = World::new().await;
    world.publish("dev").await;
    let instances = world.define("KeptForUsers").await;
    for name in ["web", "api"] {
        world.create_instance(&instances, "KeptForUsers", name, "dev").await;
    }
    let (secrets, maps) = (world.secrets(&world.namespace), world.remote_config_maps().await);
    let before = secrets.get("dev-connection").await.unwrap();
    let delete = async |name: &str| {
        instances.delete(name, &DeleteParams::default()).await.unwrap();
        wait::woken(wait::until_deleted(&instances, name)).await;
        assert!(maps.get_opt(name).await.unwrap().is_none());
    };
    world.patch_managed(json!({"status": {"bindingPhase": "Released"}})).await;
    world.until_condition("dev", ("Ready", "False", "Released")).await;
    world.secrets(&world.infra).delete("source", &DeleteParams::default()).await.unwrap();
    delete("web").await;

    // Somebody deletes the managed resource, and the copy.
    world.managed().delete(&world.cluster(), &DeleteParams::default()).await.unwrap();
    let target =
        wait::woken(world.until_condition("dev", ("Ready", "False", "ManagedResourceNotFound"))).await;
    assert_eq!(condition(&target, "Reachable")["status"], "True", "{target:#}");
    let kept = secrets.get("dev-connection").await.unwrap();
    assert_eq!(
        (kept.metadata.uid, kept.metadata.resource_version),
        (before.metadata.uid, before.metadata.resource_version)
    );
    secrets.delete("dev-connection", &DeleteParams::default()).await.unwrap();
    world.until_condition("dev", ("ConnectionSecretPropagated", "False", "Deleting")).await;
    assert!(is_terminating(&secrets.get("dev-connection").await.unwrap()));
    delete("api").await;
    world.delete_target("dev").await;
    wait::until_deleted(&world.targets(), "dev").await;
    assert!(world.copy(&world.namespace, "dev").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_resource_that_is_being_deleted_keeps_its_targets_and_gets_no_new_ones() {
    let world = World::new().await;
    world.publish("dev").await;
    world.patch_managed(json!({"metadata": {"finalizers": [HOLD]}})).await;
    world.managed().delete(&world.cluster(), &DeleteParams::default()).await.unwrap();
    world.create_target("late", world.cluster_ref()).await;
    let refused = world.until_condition("late", ("Ready", "False", "Deleting")).await;
    assert!(message(&refused, "Ready").contains(&world.cluster()), "{refused:#}");
    assert!(refused["spec"]["connectionSecretRef"].is_null(), "{refused:#}");
    assert!(world.copy(&world.namespace, "late").await.is_none());
    // Its provider may still rotate the credentials, which users need to delete their objects.
    let rotated = format!("{}\n# rotated\n", world.remote.kubeconfig);
    world.patch_source(json!({"stringData": {"kubeconfig": rotated}})).await;
    wait::woken(world.until_copied(&world.namespace, "dev", &rotated)).await;

    world.patch_managed(json!({"metadata": {"finalizers": null}})).await;
    for name in ["dev", "late"] {
        world.until_condition(name, ("Ready", "False", "ManagedResourceNotFound")).await;
    }
    assert_eq!(kubeconfig(&world.copy(&world.namespace, "dev").await.unwrap()), rotated);
    for name in ["dev", "late"] {
        world.delete_target(name).await;
        wait::until_deleted(&world.targets(), name).await;
    }
    assert!(world.copy(&world.namespace, "dev").await.is_none());
}
