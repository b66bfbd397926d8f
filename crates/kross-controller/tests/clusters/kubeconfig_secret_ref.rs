//! Cluster references with `kubeconfigSecretRef`, which has the Secret as one string: `name` or `namespace/name`.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn finds_the_secret_by_name_and_by_namespace_and_name() {
    let world = World::without_definition("SecretByString").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    let elsewhere = format!("{}-credentials", world.namespace);
    let hub = world.objects.client.clone();
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    namespaces.create(&PostParams::default(), &objects::namespace(&elsewhere)).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(hub, &elsewhere);
    let mut secret = objects::kubeconfig_secret("america", &world.kubeconfig("us"));
    // The instance chooses the namespace of one of the references.
    let allowed = [("kro.run/allowed-namespaces".to_owned(), world.namespace.clone())];
    secret.metadata.annotations = Some(allowed.into());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    us.config_maps
        .create(&PostParams::default(), &objects::config_map("source", &[("text", "one")]))
        .await
        .unwrap();

    // On the definition, a name: the Secret is in the namespace of the instance. On a resource and on an external reference,
    // a namespace and a name, literal and computed.
    let america = |reference: String| json!({"name": "america", "kubeconfigSecretRef": reference});
    let source = json!({"id": "source", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "source"}, "cluster": america(format!("{elsewhere}/america"))}});
    let mut own = config_map("own", None, json!({"text": "${source.data.text}"}));
    own["cluster"] = america("${schema.spec.credentials + '/america'}".to_owned());
    let resources =
        json!([source, own, config_map("inherits", None, json!({"text": "${schema.spec.text}"}))]);
    let schema = json!({"spec": {"region": "string", "credentials": "string", "text": "string"}});
    let europe = json!({"name": "europe", "kubeconfigSecretRef": "${schema.spec.region}-kubeconfig"});
    world.define(json!({"schema": schema, "cluster": europe, "resources": resources})).await;
    world.create("x", json!({"region": "eu", "credentials": elsewhere, "text": "two"})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    for kind in ["ClusterResolved", "RemoteClusterConnected", "RemoteResourcesReady", "Ready"] {
        assert_eq!(condition(&instance, kind)["status"], "True", "{kind}: {instance:#}");
    }
    let shown = [("eu-kubeconfig", "europe", &world.namespace), ("america", "america", &elsewhere)];
    for (secret, name, namespace) in shown {
        let entry = cluster_entry(&instance, secret);
        assert_eq!(entry["name"], format!("{name} ({namespace}/{secret})"));
        assert_eq!(entry["secret"], format!("{namespace}/{secret}"));
    }
    let placed = [(eu, "x-inherits", "two"), (us, "x-own", "one")];
    for (region, name, text) in placed {
        let as_desired = |object: &_| value(object, "text") == Some(text);
        assert!(as_desired(&region.config_maps.get(name).await.unwrap()), "{name}");
        edit(&region.config_maps, name, json!({"text": "drift"})).await;
        wait::woken(wait::until_object(&region.config_maps, name, as_desired)).await;
    }
    assert!(us.config_maps.get_opt("x-inherits").await.unwrap().is_none());
    assert!(eu.config_maps.get_opt("x-own").await.unwrap().is_none());
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    for (region, name, _) in placed {
        assert!(region.config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_computed_reference_that_names_no_secret_and_recovers_when_it_is_corrected() {
    let mut app = config_map("app", None, json!({}));
    app["cluster"] = json!({"name": "europe", "kubeconfigSecretRef": "${schema.spec.secret}"});
    let spec = json!({"schema": {"spec": {"secret": "string"}}, "resources": [app]});
    let world = World::new("MistypedSecret", spec).await;
    world.create("x", json!({"secret": "a/b/c"})).await;
    let failed =
        world.until("x", |instance| condition(instance, "ClusterResolved")["status"] == "False").await;
    let message = condition(&failed, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`a/b/c`"), "{message}");
    let secret = format!("{}/eu-kubeconfig", world.namespace);
    world.patch("x", json!({"spec": {"secret": secret}})).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
    assert!(world.region("eu").config_maps.get_opt("x-app").await.unwrap().is_some());
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.region("eu").config_maps.get_opt("x-app").await.unwrap().is_none());
}
