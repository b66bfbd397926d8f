//! Attempts to gain rights through the bookkeeping on an instance, which its owner may edit.

use kross_api::{ClusterInventory, applyset_id};
use kross_testing::Requests;
use serde_json::{Value as Json, json};

use crate::world::{BANK, World};

const CLUSTERS: &str = "internal.kro.run/cluster-inventory";

/// Attempts 10 and 11: the inventory of the bank's instance on an instance of mallory's, which is then deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_inventory_deletes_nothing() {
    let world = World::new().await;
    let shop = world.shop("forged").await;
    let inventory = shop.instance["metadata"]["annotations"][CLUSTERS].as_str().unwrap();
    assert!(inventory.contains(&shop.secret), "{inventory}");
    let theirs = applyset_id(&shop.name, BANK, "Shop", "kro.run");
    let clusters = ClusterInventory::parse(&theirs, inventory).unwrap();
    world.mallory.kubeconfig("own-kubeconfig", &world.hostile_kubeconfig().to_string()).await;
    // Roaming could have used the Secret: its definition lets the instance choose the namespace.
    for (kind, name) in [("Shop", "forged"), ("Roaming", "forged-roaming")] {
        world.mallory.create(kind, name, json!({"secret": "own-kubeconfig", "namespace": "mallory"})).await;
        world.mallory.until_state(kind, name, "ACTIVE").await;
        world.production.clear_requests();
        // With the hash that belongs to her instance.
        let forged = clusters.text(&applyset_id(name, "mallory", kind, "kro.run")).unwrap().unwrap();
        let patch = json!({"metadata": {"annotations": {CLUSTERS: forged}}});
        world.mallory.patch(kind, name, patch).await;
        world.mallory.delete(kind, name).await;
        let waiting = world.mallory.until(kind, name, |it| {
            it["metadata"]["deletionTimestamp"].is_string()
                && it["status"].to_string().contains("kro.run/allowed-namespaces")
        });
        waiting.await;
        let sent = world.production.requests(&Requests::any().namespace("mallory"));
        assert!(sent.is_empty(), "{sent:?}");
        shop.assert_unharmed().await;
        let patch = json!({"metadata": {"annotations": {"kro.run/abandon-cluster": "*"}}});
        world.mallory.patch(kind, name, patch).await;
        kross_testing::wait::until_deleted(&world.mallory.api(kind), name).await;
    }
    shop.assert_unharmed().await;
    shop.delete().await;
}

/// Attempt 12: clusters that her own status claims to use.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_status_gives_no_access() {
    let world = World::new().await;
    let shop = world.shop("status").await;
    world.mallory.kubeconfig("status-kubeconfig", &world.hostile_kubeconfig().to_string()).await;
    world.mallory.create("Shop", "status", json!({"secret": "status-kubeconfig"})).await;
    world.mallory.until_state("Shop", "status", "ACTIVE").await;
    world.production.clear_requests();
    let clusters: Json = shop.instance["status"]["clusters"].clone();
    let patch = kube::api::Patch::Merge(json!({"status": {"clusters": clusters}}));
    let instances = world.mallory.api("Shop");
    instances.patch_status("status", &kube::api::PatchParams::default(), &patch).await.unwrap();
    let remove = json!({"metadata": {"annotations": {CLUSTERS: null}}});
    world.mallory.patch("Shop", "status", remove).await;
    world.mallory.delete("Shop", "status").await;
    // The inventory is restored from the status, and its Secret is refused.
    let is_refused = |it: &Json| it["status"].to_string().contains("allowed-namespaces");
    world.mallory.until("Shop", "status", is_refused).await;
    shop.assert_unharmed().await;
    let sent = world.production.requests(&Requests::any().namespace("mallory"));
    assert!(sent.is_empty(), "{sent:?}");
    let patch = json!({"metadata": {"annotations": {"kro.run/abandon-cluster": "*"}}});
    world.mallory.patch("Shop", "status", patch).await;
    kross_testing::wait::until_deleted(&instances, "status").await;
    shop.assert_unharmed().await;
    shop.delete().await;
}

/// Attempt 13: the bank's cluster is confirmed and abandoned on an instance of mallory's.
#[tokio::test(flavor = "multi_thread")]
async fn confirming_and_abandoning_concerns_only_the_own_instance() {
    let world = World::new().await;
    let shop = world.shop("abandoned").await;
    let uid = shop.instance["status"]["clusters"][0]["uid"].as_str().unwrap().to_owned();
    world.mallory.kubeconfig("abandoned-kubeconfig", &world.hostile_kubeconfig().to_string()).await;
    world.mallory.create("Shop", "abandoned", json!({"secret": "abandoned-kubeconfig"})).await;
    world.mallory.until_state("Shop", "abandoned", "ACTIVE").await;
    let patch = json!({"metadata": {"annotations":
        {"kro.run/abandon-cluster": uid, "kro.run/confirm-cluster": uid}}});
    world.mallory.patch("Shop", "abandoned", patch).await;
    world.mallory.delete("Shop", "abandoned").await;
    kross_testing::wait::until_deleted(&world.mallory.api("Shop"), "abandoned").await;
    shop.assert_unharmed().await;
    shop.delete().await;
}
