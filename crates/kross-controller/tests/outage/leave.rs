//! Deletion across clusters: backups elsewhere, objects that stay, and clusters that nobody waits for any more.

use std::collections::BTreeSet;

use kross_testing::{Fault, wait};
use kube::api::ListParams;
use serde_json::json;

use crate::own::marks;
use crate::setup::condition;
use crate::stage::{left, shown, until_left, world};
use crate::world::{config_map, edit, resource};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_in_a_dark_cluster_is_what_the_audit_log_says() {
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
            let gone = |id: &str| resource(instance, id).is_null();
            instance["status"]["state"] == "DELETING"
                && resource(instance, "database")["reason"] == "Unreachable"
                && gone("web")
                && gone("other")
        })
        .await;
    insta::assert_snapshot!("deleting while a cluster is dark", shown(&world, &waiting));
    wait::until_gone(&world.instances, "x").await;
    for api in [&world.config_maps, &world.region("us").config_maps] {
        for name in ["x-web", "x-other"] {
            assert!(api.get_opt(name).await.unwrap().is_none(), "{name}");
        }
    }
    let cluster = format!("{}/eu-kubeconfig", world.namespace);
    let names = ["x-database", "x-kept", "x-shard-a", "x-shard-b", "x-shard-c"];
    let expected: BTreeSet<_> = names.iter().map(|name| (cluster.clone(), (*name).to_owned())).collect();
    until_left(&world.namespace, &expected).await;

    eu.proxy.set(Fault::Pass);
    world.until_state("y", "ACTIVE").await;
    let there = eu.config_maps.list(&ListParams::default()).await.unwrap().items;
    let there: BTreeSet<_> = there.into_iter().filter_map(|object| object.metadata.name).collect();
    let of_x: BTreeSet<_> = there.iter().filter(|name| name.starts_with("x-")).cloned().collect();
    assert_eq!(of_x, names.iter().map(|name| (*name).to_owned()).collect());
    // What was not left behind goes as always.
    world.delete("y").await;
    wait::until_gone(&world.instances, "y").await;
    let mut expected = expected;
    expected.insert((format!("{}/eu-kubeconfig", world.namespace), "y-kept".to_owned()));
    until_left(&world.namespace, &expected).await;
    let there = eu.config_maps.list(&ListParams::default()).await.unwrap().items;
    let there: BTreeSet<_> = there.into_iter().filter_map(|object| object.metadata.name).collect();
    let of_y: Vec<_> = there.iter().filter(|name| name.starts_with("y-")).collect();
    assert_eq!(of_y, ["y-kept"]);
    assert_eq!(marks(&eu.config_maps.get("y-kept").await.unwrap()), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_one_region_is_backed_up_in_another_before_it_goes() {
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
            let entry = resource(instance, "backup");
            entry["message"].as_str().is_some_and(|message| message.contains("`readyWhen` is false"))
        })
        .await;
    insta::assert_snapshot!("deleting while a backup is made", shown(&world, &waiting));
    assert!(eu.config_maps.get("x-database").await.unwrap().metadata.deletion_timestamp.is_none());
    edit(&us.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::until_gone(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-database").await.unwrap().is_none());
    assert!(us.config_maps.get_opt("x-backup").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_when_an_instance_moves_is_nobodys_and_is_found_again_when_it_moves_back() {
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
    let stays = wait::until_object(&eu.config_maps, "x-data", |object| marks(object).is_empty()).await;
    assert_eq!((&stays.metadata.uid, &stays.data), (&before.metadata.uid, &before.data));
    world.patch("x", json!({"spec": {"region": "eu"}})).await;
    let again = wait::until_object(&eu.config_maps, "x-data", |object| !marks(object).is_empty()).await;
    assert_eq!(again.metadata.uid, before.metadata.uid);
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    for api in [&eu.config_maps, &us.config_maps] {
        assert_eq!(marks(&api.get("x-data").await.unwrap()), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_to_be_left_behind_stays_when_its_cluster_is_back() {
    let mut gone = config_map("gone", Some("eu"), json!({"text": "mine"}));
    gone["includeWhen"] = json!(["${schema.spec.on}"]);
    let lifecycle =
        json!({"delete": {"forceAfter": "2s", "forceWhen": ["${resources.gone.reason == 'Unreachable'}"]}});
    gone["lifecycle"] = lifecycle;
    let stays = config_map("stays", Some("us"), json!({}));
    let spec = json!({"schema": {"spec": {"on": "boolean"}}, "resources": [gone, stays]});
    let world = world("Promised", spec).await;
    let eu = world.region("eu");
    world.create("x", json!({"on": true})).await;
    world.until_state("x", "ACTIVE").await;
    eu.proxy.set(Fault::Refuse);
    world.until_state("x", "ERROR").await;
    world.patch("x", json!({"spec": {"on": false}})).await;
    wait::until_true("it to be given up", || !left(&world.namespace).is_empty()).await;
    let says = |instance: &serde_json::Value| {
        let message =
            condition(instance, "RemoteClusterConnected")["message"].as_str().unwrap_or_default().to_owned();
        message.contains("orphaned objects in cluster") && message.contains("eu-kubeconfig")
    };
    let owing = world.until("x", says).await;
    assert_eq!(owing["status"]["state"], "ACTIVE", "{owing:#}");
    // The cluster answers, so that the author's condition holds no more: what was said holds all the same.
    eu.proxy.set(Fault::Pass);
    let kept = wait::until_object(&eu.config_maps, "x-gone", |object| marks(object).is_empty()).await;
    assert!(kept.metadata.deletion_timestamp.is_none());
    assert_eq!(kept.data.unwrap()["text"], "mine");
    let cluster = format!("{}/eu-kubeconfig", world.namespace);
    until_left(&world.namespace, &BTreeSet::from([(cluster, "x-gone".to_owned())])).await;
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-gone").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_moves_is_backed_up_before_it_goes_from_where_it_was() {
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
    let there = eu.config_maps.get("x-database").await.unwrap();
    assert!(there.metadata.deletion_timestamp.is_none());
    edit(&world.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::until_gone(&eu.config_maps, "x-database").await;
    wait::until_gone(&world.config_maps, "x-backup").await;
    world.until_state("x", "ACTIVE").await;
    assert!(us.config_maps.get_opt("x-database").await.unwrap().is_some());
}
