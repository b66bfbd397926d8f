//! A cluster that answers slowly while many instances write to it: they wait for a permit, and none of them reports an
//! outage.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kross_testing::{Action, FaultProxy, Requests, Verb, objects, shared, wait};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::{Value as Json, json};

use crate::audited_world::settings;
use crate::setup::{Objects, Running, install, until};
use crate::world::config_map;

const PLANE: &str = "slow";
const NAMESPACE: &str = "slow";
const SMALL_INSTANCES: usize = 30;

/// The instances as JSON.
async fn list(instances: &Api<DynamicObject>) -> Vec<Json> {
    let listed = instances.list(&ListParams::default()).await.unwrap().items;
    listed.into_iter().map(|instance| serde_json::to_value(instance).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_wait_for_a_permit_of_a_slow_cluster_do_not_report_it_as_unreachable() {
    let (hub, eu) = tokio::join!(shared(PLANE), shared("eu"));
    let objects = Objects { client: hub.client().await.unwrap() };
    install(&objects.client).await;
    for client in [&objects.client, &eu.client().await.unwrap()] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
    }
    let proxy = FaultProxy::start(eu.admin()).unwrap();
    let secrets: Api<Secret> = Api::namespaced(objects.client.clone(), NAMESPACE);
    let secret = objects::kubeconfig_secret("eu-kubeconfig", &proxy.kubeconfig(eu.admin()).unwrap());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let mut settings = settings();
    settings.clusters.client.requests.max_streams = 2;
    settings.clusters.client.read_timeout = Duration::from_secs(3);
    let running = Running::start(PLANE, settings).await;
    let mut many = config_map("many", Some("eu"), json!({"a": "1"}));
    many["forEach"] = json!([{"i": "${lists.range(schema.spec.count)}"}]);
    many["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${string(i)}");
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "patient"}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Patient", "spec": {"count": "integer"}},
            "resources": [many]}});
    objects.create(&definition).await;
    objects.until_ready("patient").await;

    let instances = objects.namespaced("kro.run", "Patient", "patients", NAMESPACE);
    let create = async |name: String, count: usize| {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Patient",
            "metadata": {"name": name}, "spec": {"count": count}});
        instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    };
    // The cluster is connected before the others use it.
    create("first".to_owned(), 1).await;
    until(instances.clone(), "first".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    let writes = Requests::any().verb(Verb::Apply).resource("configmaps");
    proxy.on(writes.clone(), Action::Delay(Duration::from_millis(200)));
    // The writes take more than ten seconds altogether, much longer than the read timeout.
    create("large".to_owned(), 80).await;
    for number in 0..SMALL_INSTANCES {
        create(format!("small-{number}"), 1).await;
    }
    let failures = Mutex::new(Vec::new());
    wait::until("all instances to be active", || async {
        let listed = list(&instances).await;
        failures.lock().unwrap().extend(listed.iter().filter_map(failure));
        let is_active = |instance: &&Json| instance["status"]["state"] == "ACTIVE";
        let active = listed.iter().filter(is_active).count();
        if active == SMALL_INSTANCES + 2 { Ok(()) } else { Err(format!("{active} are active")) }
    })
    .await;
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(proxy.count(&writes), 1 + 80 + SMALL_INSTANCES, "no write was repeated");
    running.stop().await;
}

/// The part of an instance's status that reports an outage.
fn failure(instance: &Json) -> Option<String> {
    let status = &instance["status"];
    let resources = status["managedResources"].as_array().into_iter().flatten();
    let clusters = status["clusters"].as_array().into_iter().flatten();
    let is_failure = |entry: &&Json| {
        matches!(entry["reason"].as_str(), Some("Unreachable" | "Timeout")) || entry["connected"] == false
    };
    resources.chain(clusters).find(is_failure).map(ToString::to_string)
}
