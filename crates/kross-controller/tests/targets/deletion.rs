//! The deletion of targets: it waits for those who have objects in the cluster, unless it is forced. The hub has no garbage
//! collector.

use std::time::Duration;

use kross_testing::wait;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value as Json, json};

use crate::world::{AUDIT, RESOURCE, World, kubeconfig, message};

#[tokio::test(flavor = "multi_thread")]
async fn a_target_in_use_is_kept_and_names_its_users() {
    let world = World::new().await;
    world.publish("dev").await;
    let users = world.resources();
    world.create_user(&users, RESOURCE, "web", "dev").await;
    world.create_user(&users, RESOURCE, "api", "dev").await;
    world.delete_target("dev").await;
    let target = world
        .until("dev", |target| {
            let text = message(target, "Ready");
            text.contains("KubernetesApplicationResource `")
                && text.contains("/api`")
                && text.contains("/web`")
        })
        .await;
    assert_eq!(crate::setup::condition(&target, "Ready")["reason"], "InUse");
    // Until then its connection works, and follows a rotation.
    let rotated = format!("{}\n# rotated\n", world.remote.kubeconfig);
    wait::woken(async {
        world.patch_source(json!({"stringData": {"kubeconfig": rotated}})).await;
        world.until_copied(&world.namespace, "dev", &rotated).await;
        world.delete_user(&users, "api").await;
        world.until("dev", |target| !message(target, "Ready").contains("/api`")).await;
        let copy = world.copy(&world.namespace, "dev").await.unwrap();
        assert!(copy.metadata.deletion_timestamp.is_none() && kubeconfig(&copy) == rotated);
        world.delete_user(&users, "web").await;
        wait::until_deleted(&world.targets(), "dev").await;
    })
    .await;
    assert!(world.copy(&world.namespace, "dev").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_deleted_once_the_objects_of_its_instances_are() {
    let world = World::new().await;
    world.publish("dev").await;
    let instances = world.define("Published").await;
    world.create_instance(&instances, "Published", "web", "dev").await;
    let remote = world.remote_config_maps().await;
    remote.get("web").await.unwrap();
    let (target, secret) =
        (format!("{}/dev", world.namespace), format!("{}/dev-connection", world.namespace));
    until_audited("the apply", |record| {
        record["verb"] == "patch"
            && record["object"]["kind"] == "ConfigMap"
            && record["object"]["namespace"] == world.namespace
            && record["cluster"]["name"] == target
            && record["secret"] == secret
    })
    .await;
    world.delete_target("dev").await;
    let target = world.until_condition("dev", ("Ready", "False", "InUse")).await;
    assert!(
        message(&target, "Ready").contains(&format!("Published `{}/web`", world.namespace)),
        "{target:#}"
    );
    wait::woken(async {
        instances.delete("web", &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&instances, "web").await;
        wait::until_deleted(&world.targets(), "dev").await;
    })
    .await;
    assert!(remote.get_opt("web").await.unwrap().is_none());
    assert!(world.copy(&world.namespace, "dev").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inventory_of_an_instance_in_another_namespace_does_not_keep_a_target() {
    let world = World::new().await;
    world.publish("dev").await;
    let mut stranger = World::new().await;
    let own = std::mem::replace(&mut stranger.namespace, world.namespace.clone());
    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("kro.run", "v1alpha1", "Ghost"), "ghosts");
    let ghosts: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), &own, &kind);
    stranger.create_user(&ghosts, ("kro.run/v1alpha1", "Ghost"), "stranger", "dev").await;
    world.delete_target("dev").await;
    wait::until_deleted(&world.targets(), "dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_deletion_does_not_wait_and_is_audited() {
    let world = World::new().await;
    world.publish("dev").await;
    // No definition serves this instance, so only a list finds it.
    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("kro.run", "v1alpha1", "Ghost"), "ghosts");
    let ghosts: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
    world.create_user(&ghosts, ("kro.run/v1alpha1", "Ghost"), "left", "dev").await;
    world.delete_target("dev").await;
    let target = world.until_condition("dev", ("Ready", "False", "InUse")).await;
    assert!(message(&target, "Ready").contains(&format!("Ghost `{}/left`", world.namespace)), "{target:#}");
    wait::woken(async {
        world
            .patch_target("dev", json!({"metadata": {"annotations": {"kro.run/force-delete": "true"}}}))
            .await;
        wait::until_deleted(&world.targets(), "dev").await;
    })
    .await;
    assert!(world.copy(&world.namespace, "dev").await.is_none());
    until_audited("the end of the wait", |record| {
        record["verb"] == "abandon"
            && record["instance"]["name"] == "left"
            && record["object"]["kind"] == "KubernetesTarget"
            && record["object"]["namespace"] == world.namespace
            && record["cluster"]["uid"] == world.remote.uid
            && record["cluster"]["name"] == format!("{}/dev", world.namespace)
    })
    .await;
}

/// Waits until the audit log has exactly one record of this kind.
async fn until_audited(what: &str, is_wanted: impl Fn(&Json) -> bool) {
    let (path, audit) = &*AUDIT;
    wait::until(format!("the audit record of {what}"), || async {
        audit.flush(Duration::from_secs(5));
        let text = std::fs::read_to_string(path).unwrap();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        match records.filter(&is_wanted).count() {
            1 => Ok(()),
            count => Err(format!("{count} records")),
        }
    })
    .await;
}
