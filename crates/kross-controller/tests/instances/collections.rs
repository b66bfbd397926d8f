//! Collections: items are created and pruned as the lists that they iterate over change.

use kross_testing::{Action, Requests, Verb, wait};
use serde_json::{Value as Json, json};

use crate::world::{World, config_map, value};

/// A collection of ConfigMaps, one for each item of the list `over`.
pub fn collection(id: &str, variable: &str, over: &str, name: &str, data: Json) -> Json {
    let mut resource = config_map(id, data);
    resource["forEach"] = json!([{variable: over}]);
    resource["template"]["metadata"]["name"] = json!(name);
    resource
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_and_prunes_items_as_the_collection_changes() {
    let mut zones = config_map("zones", json!({"zone": "${zone}"}));
    zones["forEach"] = json!([{"zone": "${schema.spec.zones}"}]);
    zones["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${zone}");
    let world = World::new("Zoned", json!({"spec": {"zones": "[]string"}}), json!([zones])).await;
    world.create("x", json!({"zones": ["a", "b"]})).await;
    world.until_state("x", "ACTIVE").await;
    let label = |object: &k8s_openapi::api::core::v1::ConfigMap, key: &str| {
        object.metadata.labels.as_ref().and_then(|labels| labels.get(key).cloned()).unwrap_or_default()
    };
    let second = world.config_maps.get("x-b").await.unwrap();
    assert_eq!(label(&second, "kro.run/collection-index"), "1");
    assert_eq!(label(&second, "kro.run/collection-size"), "2");
    world.patch("x", json!({"spec": {"zones": ["b", "c", "d"]}})).await;
    wait::until_deleted(&world.config_maps, "x-a").await;
    let size = |object: &_| label(object, "kro.run/collection-size") == "3";
    for name in ["x-b", "x-c", "x-d"] {
        wait::until_object(&world.config_maps, name, size).await;
    }
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn includes_a_collection_as_a_whole_or_not_at_all() {
    let mut zones = config_map("zones", json!({"zone": "${zone}"}));
    zones["forEach"] = json!([{"zone": "${['a', 'b']}"}]);
    zones["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${zone}");
    zones["includeWhen"] = json!(["${schema.spec.wanted}"]);
    let world = World::new("AllOrNone", json!({"spec": {"wanted": "boolean"}}), json!([zones])).await;
    world.create("x", json!({"wanted": false})).await;
    world.until_state("x", "ACTIVE").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
    world.patch("x", json!({"spec": {"wanted": true}})).await;
    for name in ["x-a", "x-b"] {
        wait::until_object(&world.config_maps, name, |_| true).await;
    }
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"wanted": false}})).await;
    for name in ["x-a", "x-b"] {
        wait::until_deleted(&world.config_maps, name).await;
    }
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_collections_use_one_variable_for_different_types() {
    let schema = json!({"spec": {"names": "[]string", "sizes": "[]integer"}});
    let resources = json!([
        collection(
            "names",
            "one",
            "${schema.spec.names}",
            "${schema.metadata.name}-${one}",
            json!({"x": "${one}"})
        ),
        collection(
            "sizes",
            "one",
            "${schema.spec.sizes}",
            "${schema.metadata.name}-${string(one)}",
            json!({"x": "${string(one + 1)}"})
        ),
    ]);
    let world = World::new("TwoLists", schema, resources).await;
    world.create("x", json!({"names": ["a"], "sizes": [1]})).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(value(&world.config_maps.get("x-a").await.unwrap(), "x"), Some("a"));
    assert_eq!(value(&world.config_maps.get("x-1").await.unwrap(), "x"), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_all_items_when_the_list_of_a_collection_becomes_empty() {
    let resources = json!([
        collection("first", "name", "${schema.spec.names}", "${schema.metadata.name}-${name}", json!({})),
        collection("second", "one", "${first}", "${one.metadata.name}-again", json!({})),
        config_map("count", json!({"n": "${string(size(second))}"})),
    ]);
    let world = World::new("Emptied", json!({"spec": {"names": "[]string"}}), resources).await;
    world.create("x", json!({"names": ["a", "b"]})).await;
    world.until_state("x", "ACTIVE").await;
    wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("2")).await;
    world.patch("x", json!({"spec": {"names": []}})).await;
    wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("0")).await;
    for name in ["x-a", "x-b", "x-a-again", "x-b-again"] {
        wait::until_deleted(&world.config_maps, name).await;
    }
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_concurrent_applies_of_a_large_collection() {
    let mut maps = config_map("maps", json!({}));
    maps["forEach"] = json!([{"n": "${lists.range(60)}"}]);
    maps["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${string(n)}");
    let world = World::new("LargeCollection", json!({"spec": {}}), json!([maps])).await;
    let applies = Requests::any().verb(Verb::Apply).resource("configmaps").namespace(&world.namespace);
    let rule = world.proxy.on(applies.clone(), Action::Hold);
    world.create("x", json!({})).await;
    wait::until_true("as many applies as are sent at once", || world.proxy.count(&applies) >= 16).await;
    // An instance of another definition becomes active meanwhile, so more applies would have been sent by now.
    let others = World::new("Bystander", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    others.create("y", json!({})).await;
    others.until_state("y", "ACTIVE").await;
    assert_eq!(world.proxy.count(&applies), 16);
    world.proxy.remove(rule);
    world.until_state("x", "ACTIVE").await;
}
