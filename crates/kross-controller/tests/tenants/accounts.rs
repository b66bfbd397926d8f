//! Attempts through definitions that act as a ServiceAccount of the tenant.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use serde_json::json;

use crate::world::{BANK, World};

async fn account(world: &World) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "tenant", "namespace": "mallory"}});
    crate::world::apply(&world.mallory.client, &account).await.unwrap();
}

/// Attempt 22: the Secret of another tenant as an external reference.
#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_another_tenant_is_not_read() {
    let world = World::new().await;
    account(&world).await;
    let shop = world.shop("read").await;
    let spec = json!({"account": "tenant", "name": shop.secret, "namespace": BANK});
    world.mallory.create("Reader", "thief", spec).await;
    let refused = world
        .mallory
        .until("Reader", "thief", |it| it["status"].to_string().contains("ServiceAccount `mallory/tenant`"));
    let status = refused.await["status"].to_string();
    assert!(status.contains("Forbidden"), "{status}");
    assert!(world.mallory.config_maps().get_opt("thief-copy").await.unwrap().is_none());
    world.mallory.delete("Reader", "thief").await;
    kross_testing::wait::until_deleted(&world.mallory.api("Reader"), "thief").await;
    shop.assert_unharmed().await;
    shop.delete().await;
}

/// Attempt 23: an empty account, which must not mean the controller.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_account_is_not_that_of_the_controller() {
    let world = World::new().await;
    let shop = world.shop("empty").await;
    for (at, account) in ["", "system:admin", "a/b"].into_iter().enumerate() {
        let name = format!("empty-{at}");
        let spec = json!({"account": account, "name": shop.secret, "namespace": BANK});
        world.mallory.create("Reader", &name, spec).await;
        world.mallory.until_state("Reader", &name, "ERROR").await;
        assert!(world.mallory.config_maps().get_opt(&format!("{name}-copy")).await.unwrap().is_none());
        world.mallory.delete("Reader", &name).await;
        kross_testing::wait::until_deleted(&world.mallory.api("Reader"), &name).await;
    }
    shop.delete().await;
}

/// Attempt 24: an object of another tenant is taken over by its name.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_another_tenant_is_not_taken_over() {
    let world = World::new().await;
    account(&world).await;
    let ledger = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ledger", "namespace": BANK}, "data": {"owner": BANK}});
    crate::world::apply(&world.bank.client, &ledger).await.unwrap();
    world.mallory.create("Writer", "taken", json!({"name": "ledger", "namespace": BANK})).await;
    let refused = world.mallory.until("Writer", "taken", |it| it["status"].to_string().contains("Forbidden"));
    refused.await;
    let ledgers: Api<ConfigMap> = world.bank.config_maps();
    assert_eq!(ledgers.get("ledger").await.unwrap().data.unwrap()["owner"], BANK);
    world.mallory.delete("Writer", "taken").await;
    kross_testing::wait::until_deleted(&world.mallory.api("Writer"), "taken").await;
    ledgers.get("ledger").await.unwrap();
}

/// Attempt 25: cluster-admin for herself.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_does_not_grant_what_its_account_may_not() {
    let world = World::new().await;
    account(&world).await;
    world.mallory.create("Granter", "admin", json!({"user": "mallory"})).await;
    let refused =
        world.mallory.until("Granter", "admin", |it| it["status"].to_string().contains("Forbidden"));
    refused.await;
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin.client.clone());
    assert!(bindings.get_opt("admin-binding").await.unwrap().is_none());
    world.mallory.delete("Granter", "admin").await;
    kross_testing::wait::until_deleted(&world.mallory.api("Granter"), "admin").await;
}
