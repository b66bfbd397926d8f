//! The `target` spelling of a cluster reference on the definition, a resource and an external reference, watched and polled.

use kross_testing::{Requests, Verb, objects, wait};
use kube::api::PostParams;
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map, edit, value};

/// A `target` that names the Secret of a region in the namespace of a test.
fn target(world: &World, region: &str) -> Json {
    let name = format!("{region}-kubeconfig");
    json!({"cluster": {"kubeconfigSecretName": name, "kubeconfigSecretNamespace": world.namespace}})
}

/// An external reference to the ConfigMap `source`.
fn source(id: &str) -> Json {
    json!({"id": id, "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}}})
}

async fn create_source(api: &kube::Api<k8s_openapi::api::core::v1::ConfigMap>, text: &str) {
    let object = objects::config_map("source", &[("text", text)]);
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_of_a_definition_a_resource_and_an_external_reference_select_their_clusters() {
    let world = World::without_definition("Targeted").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    create_source(&us.config_maps, "remote").await;
    create_source(&world.config_maps, "local").await;
    let mut remote = source("remote");
    remote["externalRef"]["target"] = target(&world, "us");
    let mut own =
        config_map("own", None, json!({"text": "${remote.data.text}", "of": "${inherits.metadata.uid}"}));
    own["target"] = target(&world, "us");
    let inherits = config_map("inherits", None, json!({"text": "${local.data.text}"}));
    let resources = json!([own, inherits, remote, source("local")]);
    world
        .define(json!({"schema": {"spec": {}}, "target": target(&world, "eu"), "resources": resources}))
        .await;
    world.create("x", json!({})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    for kind in ["ClusterResolved", "RemoteClusterConnected", "RemoteResourcesReady", "Ready"] {
        assert_eq!(condition(&instance, kind)["status"], "True", "{kind}: {instance:#}");
    }
    for region in ["eu", "us"] {
        let entry = cluster_entry(&instance, &format!("{region}-kubeconfig"));
        assert_eq!(entry["name"], format!("{}/{region}-kubeconfig", world.namespace));
        assert_eq!((&entry["mode"], &entry["connected"]), (&json!("Watch"), &json!(true)), "{entry:#}");
    }
    // The resource without a `target` is in the cluster of the definition, the other one in its own. Only the external
    // reference without a `target` is read from the hub.
    let inherited = eu.config_maps.get("x-inherits").await.unwrap();
    assert_eq!(value(&inherited, "text"), Some("local"));
    let own = us.config_maps.get("x-own").await.unwrap();
    assert_eq!(value(&own, "text"), Some("remote"));
    assert_eq!(value(&own, "of"), inherited.metadata.uid.as_deref());
    assert!(us.config_maps.get_opt("x-inherits").await.unwrap().is_none());
    assert!(eu.config_maps.get_opt("x-own").await.unwrap().is_none());

    edit(&us.config_maps, "source", json!({"text": "changed"})).await;
    let changed = |object: &_| value(object, "text") == Some("changed");
    wait::woken(wait::until_object(&us.config_maps, "x-own", changed)).await;
    for (region, name, text) in [(eu, "x-inherits", "local"), (us, "x-own", "changed")] {
        edit(&region.config_maps, name, json!({"text": "drift"})).await;
        let repaired = |object: &_| value(object, "text") == Some(text);
        wait::woken(wait::until_object(&region.config_maps, name, repaired)).await;
        region.config_maps.delete(name, &Default::default()).await.unwrap();
        wait::woken(wait::until_object(&region.config_maps, name, repaired)).await;
    }

    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-inherits").await.unwrap().is_none());
    assert!(us.config_maps.get_opt("x-own").await.unwrap().is_none());
    assert!(us.config_maps.get_opt("source").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_the_clusters_of_targets_with_a_poll_config() {
    let world = World::without_definition("PolledTarget").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    create_source(&us.config_maps, "a").await;
    let polled = |region: &str| {
        let mut target = target(&world, region);
        target["cluster"]["pollConfig"] = json!({"interval": "10s", "jitter": "1s"});
        target
    };
    let mut remote = source("remote");
    remote["externalRef"]["target"] = polled("us");
    let mut own = config_map("own", None, json!({"text": "${inherits.data.text}"}));
    own["target"] = polled("us");
    let inherits = config_map("inherits", None, json!({"text": "${remote.data.text}"}));
    let resources = json!([remote, own, inherits]);
    world.define(json!({"schema": {"spec": {}}, "target": polled("eu"), "resources": resources})).await;
    world.create("x", json!({})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    for region in ["eu", "us"] {
        assert_eq!(cluster_entry(&instance, &format!("{region}-kubeconfig"))["mode"], "Poll", "{instance:#}");
    }
    // At the next poll, the change of the external object is applied in one cluster and then in the other, and the object
    // that was deleted is created again.
    edit(&us.config_maps, "source", json!({"text": "b"})).await;
    eu.config_maps.delete("x-inherits", &Default::default()).await.unwrap();
    for (region, name) in [(eu, "x-inherits"), (us, "x-own")] {
        wait::until_object(&region.config_maps, name, |object| value(object, "text") == Some("b")).await;
    }
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    for (region, name) in [(eu, "x-inherits"), (us, "x-own")] {
        assert!(region.config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
        assert_eq!(region.proxy.count(&Requests::any().verb(Verb::Watch)), 0);
    }
    assert!(us.config_maps.get_opt("source").await.unwrap().is_some());
}
