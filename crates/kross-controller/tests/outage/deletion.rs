//! Deleting instances across clusters: backups in another cluster, retained objects, and objects that are orphaned in
//! unreachable clusters.

use std::collections::BTreeSet;

use kross_testing::{Fault, wait};
use kube::api::ListParams;
use serde_json::json;

use crate::audited_world::{given_up_clusters, normalized_yaml, orphaned_objects, until_orphaned, world};
use crate::instance_api::ownership_metadata;
use crate::setup::condition;
use crate::world::{cluster_entry, config_map, edit, resource_entry};

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_lists_what_was_orphaned_in_an_unreachable_cluster() {
    let mut shards = config_map("shards", Some("eu"), json!({}));
    shards["forEach"] = json!([{"shard": "${['a', 'b', 'c']}"}]);
    shards["template"]["metadata"]["name"] = json!("${schema.metadata.name}-shard-${shard}");
    let mut kept = config_map("kept", Some("eu"), json!({}));
    kept["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let resources = json!([
        config_map("database", Some("eu"), json!({})),
        shards,
        kept,
        config_map("other", Some("us"), json!({})),
        config_map("web", None, json!({})),
    ]);
    let lifecycle = json!({"delete": {"forceAfter": "12s", "forceWhen": ["${resources.database.reason == 'Unreachable'}"]}});
    let spec = json!({"schema": {"spec": {}}, "lifecycle": lifecycle, "resources": resources});
    let world = world("Forced", spec).await;
    let eu = world.region("eu");
    world.create("x", json!({})).await;
    world.create("y", json!({})).await;
    for name in ["x", "y"] {
        world.until_state(name, "ACTIVE").await;
    }
    eu.proxy.set(Fault::Refuse);
    world.until_state("x", "ERROR").await;
    world.delete("x").await;
    let waiting = world
        .until("x", |instance| {
            let deleted = |id: &str| resource_entry(instance, id).is_null();
            instance["status"]["state"] == "DELETING"
                && resource_entry(instance, "database")["reason"] == "Unreachable"
                && deleted("web")
                && deleted("other")
        })
        .await;
    insta::assert_snapshot!("deleting while a cluster is unreachable", normalized_yaml(&world, &waiting));
    wait::until_deleted(&world.instances, "x").await;
    for api in [&world.config_maps, &world.region("us").config_maps] {
        for name in ["x-web", "x-other"] {
            assert!(api.get_opt(name).await.unwrap().is_none(), "{name}");
        }
    }
    let cluster = format!("{}/eu-kubeconfig", world.namespace);
    let names = ["x-database", "x-kept", "x-shard-a", "x-shard-b", "x-shard-c"];
    let expected: BTreeSet<_> = names.iter().map(|name| (cluster.clone(), (*name).to_owned())).collect();
    until_orphaned(&world.namespace, &expected).await;

    eu.proxy.set(Fault::Pass);
    wait::woken(world.until_state("y", "ACTIVE")).await;
    let existing = eu.config_maps.list(&ListParams::default()).await.unwrap().items;
    let existing: BTreeSet<_> = existing.into_iter().filter_map(|object| object.metadata.name).collect();
    let of_x: BTreeSet<_> = existing.iter().filter(|name| name.starts_with("x-")).cloned().collect();
    assert_eq!(of_x, names.iter().map(|name| (*name).to_owned()).collect());
    // The other instance is deleted as usual.
    world.delete("y").await;
    wait::until_deleted(&world.instances, "y").await;
    let mut expected = expected;
    expected.insert((format!("{}/eu-kubeconfig", world.namespace), "y-kept".to_owned()));
    until_orphaned(&world.namespace, &expected).await;
    let existing = eu.config_maps.list(&ListParams::default()).await.unwrap().items;
    let existing: BTreeSet<_> = existing.into_iter().filter_map(|object| object.metadata.name).collect();
    let of_y: Vec<_> = existing.iter().filter(|name| name.starts_with("y-")).collect();
    assert_eq!(of_y, ["y-kept"]);
    assert_eq!(ownership_metadata(&eu.config_maps.get("y-kept").await.unwrap()), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_given_up_is_in_the_audit_log_once_for_each_instance() {
    let mut app = config_map("app", None, json!({}));
    app["cluster"] = json!({"name": "${schema.spec.region}-kubeconfig"});
    let spec = json!({"schema": {"spec": {"region": "string"}}, "resources": [app]});
    let world = world("GivenUp", spec).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    for name in ["moved", "deleted"] {
        world.create(name, json!({"region": "eu"})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let uid = cluster_entry(&world.get("moved").await, "eu-kubeconfig")["uid"].as_str().unwrap().to_owned();
    eu.proxy.set(Fault::Refuse);
    world.until_state("deleted", "ERROR").await;
    world.delete("deleted").await;
    world.patch("moved", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "moved-app", |_| true).await;
    world.until("moved", |instance| cluster_entry(instance, "eu-kubeconfig")["connected"] == false).await;
    assert_eq!(given_up_clusters(&world.namespace), []);

    let give_up = json!({"metadata": {"annotations": {"kro.run/abandon-cluster": uid}}});
    for name in ["moved", "deleted"] {
        world.patch(name, give_up.clone()).await;
    }
    wait::until_deleted(&world.instances, "deleted").await;
    world.until("moved", |instance| cluster_entry(instance, "eu-kubeconfig").is_null()).await;
    let record = |instance: &str| (instance.to_owned(), uid.clone(), "ConfigMap".to_owned());
    let expected = [record("deleted"), record("moved")];
    wait::until("the clusters that were given up in the audit log", || async {
        let recorded = given_up_clusters(&world.namespace);
        if recorded == expected { Ok(()) } else { Err(format!("{recorded:?}")) }
    })
    .await;
    eu.proxy.set(Fault::Pass);
    for name in ["moved-app", "deleted-app"] {
        assert!(eu.config_maps.get(name).await.unwrap().metadata.deletion_timestamp.is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_a_backup_in_one_cluster_before_it_deletes_the_database_in_another() {
    let mut database = config_map("database", Some("eu"), json!({"a": "1"}));
    database["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    let mut backup = config_map("backup", Some("us"), json!({"of": "${database.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let world = world("FarBackup", json!({"schema": {"spec": {}}, "resources": [database, backup]})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_object(&us.config_maps, "x-backup", |_| true).await;
    let waiting = world
        .until("x", |instance| {
            let entry = resource_entry(instance, "backup");
            entry["message"].as_str().is_some_and(|message| message.contains("`readyWhen` is false"))
        })
        .await;
    insta::assert_snapshot!("deleting while a backup is created", normalized_yaml(&world, &waiting));
    assert!(eu.config_maps.get("x-database").await.unwrap().metadata.deletion_timestamp.is_none());
    edit(&us.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(eu.config_maps.get_opt("x-database").await.unwrap().is_none());
    assert!(us.config_maps.get_opt("x-backup").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn retains_an_object_when_its_instance_moves_and_adopts_it_when_it_moves_back() {
    let mut data = config_map("data", None, json!({"text": "${schema.spec.region}"}));
    data["cluster"] = json!({"name": "${schema.spec.region}-kubeconfig"});
    data["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let world = world("Moving", json!({"schema": {"spec": {"region": "string"}}, "resources": [data]})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let before = eu.config_maps.get("x-data").await.unwrap();
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-data", |_| true).await;
    let retained = wait::woken(wait::until_object(&eu.config_maps, "x-data", |object| {
        ownership_metadata(object).is_empty()
    }))
    .await;
    assert_eq!((&retained.metadata.uid, &retained.data), (&before.metadata.uid, &before.data));
    world.patch("x", json!({"spec": {"region": "eu"}})).await;
    let adopted = wait::woken(wait::until_object(&eu.config_maps, "x-data", |object| {
        !ownership_metadata(object).is_empty()
    }))
    .await;
    assert_eq!(adopted.metadata.uid, before.metadata.uid);
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    for api in [&eu.config_maps, &us.config_maps] {
        assert_eq!(ownership_metadata(&api.get("x-data").await.unwrap()), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphaned_object_stays_orphaned_after_its_cluster_reconnects() {
    let mut pruned = config_map("pruned", Some("eu"), json!({"text": "mine"}));
    pruned["includeWhen"] = json!(["${schema.spec.on}"]);
    let lifecycle =
        json!({"delete": {"forceAfter": "2s", "forceWhen": ["${resources.pruned.reason == 'Unreachable'}"]}});
    pruned["lifecycle"] = lifecycle;
    let kept = config_map("kept", Some("us"), json!({}));
    let spec = json!({"schema": {"spec": {"on": "boolean"}}, "resources": [pruned, kept]});
    let world = world("StaysOrphaned", spec).await;
    let eu = world.region("eu");
    world.create("x", json!({"on": true})).await;
    world.until_state("x", "ACTIVE").await;
    eu.proxy.set(Fault::Refuse);
    world.until_state("x", "ERROR").await;
    world.patch("x", json!({"spec": {"on": false}})).await;
    wait::until_true("the object to be orphaned", || !orphaned_objects(&world.namespace).is_empty()).await;
    let reports = |instance: &serde_json::Value| {
        let message =
            condition(instance, "RemoteClusterConnected")["message"].as_str().unwrap_or_default().to_owned();
        message.contains("orphaned objects in cluster") && message.contains("eu-kubeconfig")
    };
    let pending = world.until("x", reports).await;
    assert_eq!(pending["status"]["state"], "ACTIVE", "{pending:#}");
    // The cluster is reachable again, so `forceWhen` is false now: the object stays orphaned anyway.
    eu.proxy.set(Fault::Pass);
    let orphaned = wait::woken(wait::until_object(&eu.config_maps, "x-pruned", |object| {
        ownership_metadata(object).is_empty()
    }))
    .await;
    assert!(orphaned.metadata.deletion_timestamp.is_none());
    assert_eq!(orphaned.data.unwrap()["text"], "mine");
    let cluster = format!("{}/eu-kubeconfig", world.namespace);
    until_orphaned(&world.namespace, &BTreeSet::from([(cluster, "x-pruned".to_owned())])).await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-pruned").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_a_backup_before_it_deletes_a_moved_database_from_its_old_cluster() {
    let mut database = config_map("database", None, json!({"text": "precious"}));
    database["cluster"] = json!({"name": "${schema.spec.region}-kubeconfig"});
    database["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    let mut backup = config_map("backup", None, json!({"of": "${database.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let spec = json!({"schema": {"spec": {"region": "string"}}, "resources": [database, backup]});
    let world = world("Removal", spec).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-database", |_| true).await;
    wait::until_object(&world.config_maps, "x-backup", |_| true).await;
    let old_database = eu.config_maps.get("x-database").await.unwrap();
    assert!(old_database.metadata.deletion_timestamp.is_none());
    edit(&world.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-database")).await;
    wait::woken(wait::until_deleted(&world.config_maps, "x-backup")).await;
    world.until_state("x", "ACTIVE").await;
    assert!(us.config_maps.get_opt("x-database").await.unwrap().is_some());
}
