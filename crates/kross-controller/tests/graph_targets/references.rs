//! References to targets by name on the definition, a resource and an external reference, with expressions, polling, and a list.

use k8s_openapi::api::core::v1::Namespace;
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value as Json, json};

use crate::published::{Published, Targets, WORKLOAD, by_name, entry};
use crate::setup::condition;
use crate::world::{config_map, edit, value};

fn with_target(mut resource: Json, target: Json) -> Json {
    resource["target"] = target;
    resource
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_of_a_definition_a_resource_and_an_external_reference_select_their_clusters() {
    let published = Published::new("PublishedTargets").await;
    published.publish("eu", json!({})).await;
    published.connect_by_fields("us-fields", "us").await;
    published.targets.publish("us", "us-fields", json!({})).await;
    let (eu, us) = (published.region("eu"), published.region("us"));
    let source = objects::config_map("source", &[("text", "from us")]);
    us.config_maps.create(&PostParams::default(), &source).await.unwrap();

    let read = json!({"id": "source", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "source"}, "target": by_name("us")}});
    let mut by_expression = by_name("${schema.spec.region}");
    by_expression["kubernetesTarget"]["pollConfig"] = json!({"interval": "10s"});
    let own = with_target(config_map("own", None, json!({"of": "${inherits.metadata.uid}"})), by_expression);
    let inherits = config_map("inherits", None, json!({"text": "${source.data.text}"}));
    published
        .define(json!({"schema": {"spec": {"region": "string"}}, "target": by_name("eu"),
            "resources": [own, inherits, read]}))
        .await;
    published.create("x", json!({"region": "us"})).await;
    let instance = published.until_state("x", "ACTIVE").await;
    for kind in ["ClusterResolved", "RemoteClusterConnected", "RemoteResourcesReady", "Ready"] {
        assert_eq!(condition(&instance, kind)["status"], "True", "{kind}: {instance:#}");
    }
    let namespace = &published.namespace;
    for (region, secret) in [("eu", "eu-connection"), ("us", "us-fields")] {
        let found = entry(&instance, region);
        assert_eq!(found["secret"], format!("{namespace}/{secret}"), "{found:#}");
        assert_eq!(found["target"], format!("{namespace}/{region}"), "{found:#}");
        assert_eq!(found["connected"], true, "{found:#}");
    }
    let inherited = eu.config_maps.get("x-inherits").await.unwrap();
    assert_eq!(value(&inherited, "text"), Some("from us"));
    let own = us.config_maps.get("x-own").await.unwrap();
    assert_eq!(value(&own, "of"), inherited.metadata.uid.as_deref());
    let inventory = published.inventory("x").await;
    assert!(inventory.contains(&format!("target/{namespace}/eu")), "{inventory}");

    edit(&eu.config_maps, "x-inherits", json!({"text": "drift"})).await;
    let repaired = |object: &_| value(object, "text") == Some("from us");
    wait::woken(wait::until_object(&eu.config_maps, "x-inherits", repaired)).await;
    published.delete("x").await;
    wait::until_deleted(&published.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-inherits").await.unwrap().is_none());
    assert!(us.config_maps.get_opt("x-own").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_with_poll_config_is_polled() {
    let published = Published::new("PolledTarget").await;
    published.publish("eu", json!({})).await;
    let mut target = by_name("eu");
    target["kubernetesTarget"]["pollConfig"] = json!({"interval": "10s"});
    let resources = json!([config_map("app", None, json!({}))]);
    published.define(json!({"schema": {"spec": {}}, "target": target, "resources": resources})).await;
    published.create("x", json!({})).await;
    let instance = published.until_state("x", "ACTIVE").await;
    assert_eq!(entry(&instance, "eu")["mode"], "Poll", "{instance:#}");
}

/// Defines a collection with an item for each target of the fleet `shop`, in its cluster. `each` is what `forEach` is over.
async fn define_fleet(published: &Published, each: &str) {
    let list = json!({"id": "fleet", "externalRef": {"apiVersion": format!("{WORKLOAD}/v1alpha1"),
        "kind": "KubernetesTargetList", "selector": {"matchLabels": {"fleet": "shop"}}}});
    let mut item = with_target(config_map("app", None, json!({})), by_name("${t.metadata.name}"));
    item["forEach"] = json!([{"t": each}]);
    published.define(json!({"schema": {"spec": {}}, "resources": [list, item]})).await;
    published.create("x", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_over_a_list_of_targets_has_an_item_in_each_cluster() {
    let published = Published::new("EachTarget").await;
    published.publish("eu", json!({"fleet": "shop"})).await;
    // What others publish is not in the list: the instance could not use it.
    let namespaces: Api<Namespace> = Api::all(published.objects.client.clone());
    let other = format!("{}-other", published.namespace);
    namespaces.create(&PostParams::default(), &objects::namespace(&other)).await.unwrap();
    for name in ["eu", "theirs"] {
        Targets::new(&published.objects, &other).publish(name, "missing", json!({"fleet": "shop"})).await;
    }
    define_fleet(&published, "${fleet}").await;
    published.until_state("x", "ACTIVE").await;
    let (eu, us) = (published.region("eu"), published.region("us"));
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_some());

    published.publish("us", json!({"fleet": "shop"})).await;
    wait::woken(wait::until_object(&us.config_maps, "x-app", |_| true)).await;
    // A target that is deleted waits for its object, and for whoever takes it out of the list.
    published.targets.api.delete("eu", &DeleteParams::default()).await.unwrap();
    let user = format!("EachTarget `{}/x`", published.namespace);
    let is_held = |target: &Json| {
        let ready = condition(target, "Ready");
        ready["reason"] == "InUse" && ready["message"].as_str().is_some_and(|text| text.contains(&user))
    };
    crate::setup::until(published.targets.api.clone(), "eu".to_owned(), is_held).await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_some());
    published.targets.patch("eu", json!({"metadata": {"labels": {"fleet": "other"}}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-app")).await;
    wait::until_deleted(&published.targets.api, "eu").await;
    assert!(us.config_maps.get_opt("x-app").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_the_targets_that_are_deleted_lets_them_go() {
    let published = Published::new("LeavingTarget").await;
    for region in ["eu", "us"] {
        published.publish(region, json!({"fleet": "shop"})).await;
    }
    define_fleet(&published, "${fleet.filter(t, !has(t.metadata.deletionTimestamp))}").await;
    published.until_state("x", "ACTIVE").await;
    wait::woken(async {
        published.targets.api.delete("eu", &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&published.targets.api, "eu").await;
    })
    .await;
    assert!(published.region("eu").config_maps.get_opt("x-app").await.unwrap().is_none());
    assert!(published.region("us").config_maps.get_opt("x-app").await.unwrap().is_some());
    published.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_scoped_instance_uses_the_target_of_a_literal_namespace_or_one_that_allows_it() {
    let published = Published::new("TargetForAll").await;
    published.publish("eu", json!({})).await;
    published.publish("us", json!({})).await;
    let namespace = published.namespace.clone();
    let place =
        |name: &str, namespace: &str| json!({"kubernetesTarget": {"name": name, "namespace": namespace}});
    let mut fixed = with_target(config_map("fixed", None, json!({})), place("eu", &namespace));
    let mut open = with_target(config_map("open", None, json!({})), place("us", "${schema.spec.place}"));
    for resource in [&mut fixed, &mut open] {
        resource["template"]["metadata"]["namespace"] = json!(namespace);
    }
    published
        .define(
            json!({"schema": {"scope": "Cluster", "spec": {"place": "string"}}, "resources": [fixed, open]}),
        )
        .await;
    let instances = published.objects.api("kro.run", "v1alpha1", "TargetForAll", "targetforalls");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "TargetForAll", "metadata": {"name": "x"},
        "spec": {"place": namespace}});
    crate::setup::create_once_served(&instances, instance).await;
    wait::until_object(&published.region("eu").config_maps, "x-fixed", |_| true).await;
    let refused = |instance: &Json| condition(instance, "ClusterResolved")["reason"] == "NoTarget";
    let instance = crate::setup::until(instances.clone(), "x".to_owned(), refused).await;
    let message = condition(&instance, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`kro.run/allowed-namespaces`"), "{message}");
    assert!(published.region("us").config_maps.get_opt("x-open").await.unwrap().is_none());

    let allow = json!({"metadata": {"annotations": {"kro.run/allowed-namespaces": "*"}}});
    published.targets.patch("us", allow).await;
    wait::woken(wait::until_object(&published.region("us").config_maps, "x-open", |_| true)).await;
    instances.delete("x", &Default::default()).await.unwrap();
    wait::until_deleted(&instances, "x").await;
}
