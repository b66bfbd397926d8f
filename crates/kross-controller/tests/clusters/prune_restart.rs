//! A restart of the controller between a change of the spec and the prune, while a cluster is unreachable: the new process has never
//! seen the objects there.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_controller::Settings;
use kross_testing::{Fault, FaultProxy, objects, shared, wait};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, condition, install, until};
use crate::world::{config_map, resource_entry};

const PLANE: &str = "prune-restart";
const NAMESPACE: &str = "prune-restart";

/// A collection of ConfigMaps over the names in the spec, or over another collection.
fn collection(id: &str, region: &str, (variable, list): (&str, &str), data: Json) -> Json {
    let mut resource = config_map(id, Some(region), data);
    resource["forEach"] = json!([{ variable: list }]);
    let name = if variable == "name" { "${name}" } else { "${other.data.name}" };
    resource["template"]["metadata"]["name"] = json!(format!("${{schema.metadata.name}}-{id}-{name}"));
    resource
}

fn is_current(instance: &Json) -> bool {
    condition(instance, "Ready")["observedGeneration"] == instance["metadata"]["generation"]
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_what_an_unreachable_object_depends_on_and_prunes_the_rest_after_a_restart() {
    let (hub, eu, us) = tokio::join!(shared(PLANE), shared("eu"), shared("us"));
    let world = Objects { client: hub.client().await.unwrap() };
    install(&world.client).await;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), NAMESPACE);
    let (eu_client, us_client) = (eu.client().await.unwrap(), us.client().await.unwrap());
    for client in [&world.client, &eu_client, &us_client] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
    }
    let proxies = [("eu", eu.admin()), ("us", us.admin())].map(|(name, admin)| {
        let proxy = FaultProxy::start(admin).unwrap();
        let secret =
            objects::kubeconfig_secret(&format!("{name}-kubeconfig"), &proxy.kubeconfig(admin).unwrap());
        (proxy, secret)
    });
    for (_, secret) in &proxies {
        secrets.create(&PostParams::default(), secret).await.unwrap();
    }
    let names = ("name", "${schema.spec.names}");
    let resources = [
        collection("db", "eu", names, json!({"name": "${name}"})),
        collection("app", "us", ("other", "${db}"), json!({"db": "${other.metadata.name}"})),
        collection("note", "eu", names, json!({})),
    ];
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "restarting"}, "spec": {"resources": resources,
            "schema": {"apiVersion": "v1alpha1", "kind": "Restarting", "spec": {"names": "[]string"}}}});
    let running = Running::start(PLANE, Settings::default()).await;
    world.create(&definition).await;
    world.until_ready("restarting").await;
    let instances = world.namespaced("kro.run", "Restarting", "restartings", NAMESPACE);
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Restarting", "metadata": {"name": "x"},
        "spec": {"names": ["a", "b"]}});
    instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    until(instances.clone(), "x".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    running.stop().await;

    let (us_proxy, _) = &proxies[1];
    us_proxy.set(Fault::Refuse);
    let fewer = Patch::Merge(json!({"spec": {"names": ["a"]}}));
    instances.patch("x", &PatchParams::default(), &fewer).await.unwrap();
    let running = Running::start(PLANE, Settings::default()).await;
    let in_eu: Api<ConfigMap> = Api::namespaced(eu_client, NAMESPACE);
    let in_us: Api<ConfigMap> = Api::namespaced(us_client, NAMESPACE);
    wait::until_deleted(&in_eu, "x-note-b").await;
    let waiting = until(instances.clone(), "x".to_owned(), is_current).await;
    assert!(in_eu.get_opt("x-db-b").await.unwrap().is_some(), "{waiting:#}");
    assert_eq!(resource_entry(&waiting, "app")["reason"], "Unreachable", "{waiting:#}");
    us_proxy.set(Fault::Pass);
    wait::until_deleted(&in_us, "x-app-b").await;
    wait::until_deleted(&in_eu, "x-db-b").await;
    until(instances.clone(), "x".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    for (api, name) in [(&in_eu, "x-db-a"), (&in_us, "x-app-a"), (&in_eu, "x-note-a")] {
        assert!(api.get_opt(name).await.unwrap().is_some(), "{name}");
    }
    running.stop().await;
}
