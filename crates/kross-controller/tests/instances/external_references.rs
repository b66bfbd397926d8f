//! External references: objects that a graph reads and never writes.

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange};
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::world::{World, config_map, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_an_external_object_and_applies_its_changes() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.from}"}}});
    let copy = config_map("copy", json!({"x": "${outside.data.x}"}));
    let world =
        World::new("ReadsExternal", json!({"spec": {"from": "string"}}), json!([outside, copy])).await;
    world.create("x", json!({"from": "elsewhere"})).await;
    world.until_state("x", "IN_PROGRESS").await;
    let elsewhere = objects::config_map("elsewhere", &[("x", "1")]);
    world.config_maps.create(&PostParams::default(), &elsewhere).await.unwrap();
    wait::woken(world.until_state("x", "ACTIVE")).await;
    edit(&world.config_maps, "elsewhere", json!({"x": "2"})).await;
    wait::woken(wait::until_object(&world.config_maps, "x-copy", |object| value(object, "x") == Some("2")))
        .await;
    // The controller never labels it.
    let elsewhere = world.config_maps.get("elsewhere").await.unwrap();
    assert_eq!(elsewhere.metadata.labels, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_external_objects_by_label() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "${schema.metadata.namespace}", "selector": {"matchLabels": {"tier": "web"}}}}});
    let count = config_map("count", json!({"n": "${string(size(outside))}"}));
    let world = World::new("Counter", json!({"spec": {}}), json!([outside, count])).await;
    world.create("x", json!({})).await;
    wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("0")).await;
    for (name, count) in [("one", "1"), ("two", "2")] {
        let mut found = objects::config_map(name, &[]);
        found.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
        world.config_maps.create(&PostParams::default(), &found).await.unwrap();
        wait::woken(wait::until_object(&world.config_maps, "x-count", |object| {
            value(object, "n") == Some(count)
        }))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluates_selectors_and_an_empty_selector_selects_everything() {
    let outside = |id: &str, selector| {
        json!({"id": id, "externalRef": {"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"namespace": "${schema.metadata.namespace}", "selector": selector}}})
    };
    let chosen = json!({"matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["${schema.spec.tier}", "always"]}]});
    let resources = json!([
        outside("everything", json!({})),
        outside("chosen", chosen),
        config_map("count", json!({"all": "${string(size(everything))}", "some": "${string(size(chosen))}"})),
    ]);
    let world = World::new("Chooser", json!({"spec": {"tier": "string"}}), resources).await;
    let limits: Api<LimitRange> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    for (name, tier) in [("one", "web"), ("two", "data"), ("three", "always")] {
        let found = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
        limits.create(&PostParams::default(), &serde_json::from_value(found).unwrap()).await.unwrap();
    }
    world.create("x", json!({"tier": "web"})).await;
    let counts = |object: &ConfigMap, all: &str, some: &str| {
        value(object, "all") == Some(all) && value(object, "some") == Some(some)
    };
    wait::until_object(&world.config_maps, "x-count", |object| counts(object, "3", "2")).await;
    // A change of the labels or of the selector changes which objects are selected.
    let other = Patch::Merge(json!({"metadata": {"labels": {"tier": "none"}}}));
    limits.patch("one", &PatchParams::default(), &other).await.unwrap();
    wait::woken(wait::until_object(&world.config_maps, "x-count", |object| counts(object, "3", "1"))).await;
    world.patch("x", json!({"spec": {"tier": "data"}})).await;
    wait::woken(wait::until_object(&world.config_maps, "x-count", |object| counts(object, "3", "2"))).await;
    limits.delete("two", &DeleteParams::default()).await.unwrap();
    wait::woken(wait::until_object(&world.config_maps, "x-count", |object| counts(object, "2", "1"))).await;
    // Deleting the instance does not delete external objects.
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    for name in ["one", "three"] {
        assert!(limits.get(name).await.unwrap().metadata.deletion_timestamp.is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_instance_still_watches_external_objects() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "numbers"}}});
    let resources = json!([outside, config_map("sum", json!({"n": "${string(int(outside.data.n) + 1)}"}))]);
    let world = World::new("WatchesInError", json!({"spec": {}}), resources).await;
    let numbers = objects::config_map("numbers", &[("n", "1")]);
    world.config_maps.create(&PostParams::default(), &numbers).await.unwrap();
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    for (number, sum) in [("4", "5"), ("7", "8")] {
        edit(&world.config_maps, "numbers", json!({"n": "many"})).await;
        wait::woken(world.until_state("x", "ERROR")).await;
        edit(&world.config_maps, "numbers", json!({"n": number})).await;
        wait::woken(wait::until_object(&world.config_maps, "x-sum", |object| {
            value(object, "n") == Some(sum)
        }))
        .await;
        world.until_state("x", "ACTIVE").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn external_objects_selected_by_label_can_become_ready() {
    let outside = json!({"id": "outside", "readyWhen": ["${each.data.?ready.orValue('no') == 'yes'}"],
        "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "${schema.metadata.namespace}", "selector": {"matchLabels": {"ready": "maybe"}}}}});
    let resources = json!([outside, config_map("after", json!({"n": "${string(size(outside))}"}))]);
    let world = World::new("ReadyOutside", json!({"spec": {}}), resources).await;
    let mut one = objects::config_map("one", &[("ready", "no")]);
    one.metadata.labels = Some([("ready".to_owned(), "maybe".to_owned())].into());
    world.config_maps.create(&PostParams::default(), &one).await.unwrap();
    world.create("x", json!({})).await;
    world.until_state("x", "IN_PROGRESS").await;
    edit(&world.config_maps, "one", json!({"ready": "yes"})).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
    assert_eq!(value(&world.config_maps.get("x-after").await.unwrap(), "n"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_external_objects_without_a_namespace_in_all_namespaces() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"selector": {"matchLabels": {"everywhere": "yes"}}}}});
    let resources = json!([outside, config_map("count", json!({"n": "${string(size(outside))}"}))]);
    let world = World::new("Everywhere", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let elsewhere: Api<ConfigMap> = Api::namespaced(world.objects.client.clone(), "default");
    for (api, name) in [(&world.config_maps, "here"), (&elsewhere, "everywhere-there")] {
        let mut found = objects::config_map(name, &[]);
        found.metadata.labels = Some([("everywhere".to_owned(), "yes".to_owned())].into());
        api.create(&PostParams::default(), &found).await.unwrap();
    }
    wait::woken(wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("2")))
        .await;
}
