//! One instance with `forEach` over a fleet of clusters: a proxy presents one control plane under many UIDs.
//! `KROSS_FLEET_CLUSTERS=2000` runs it with as many clusters; that takes minutes and a gigabyte of memory.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::{FaultProxy, objects, shared, wait};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, condition, create_once_served, install};
use crate::world::{cluster_entry, config_map};

const PLANE: &str = "fleet";
const NAMESPACE: &str = "fleet";
/// More than `status.clusters` lists, and more than fit into the plain form of the inventory.
const CLUSTERS: usize = 104;
/// The annotations of an object may have this many bytes in total.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// A hub, a control plane that is presented as many clusters, and one instance.
struct Fleet {
    objects: Objects,
    remote: &'static ControlPlane,
    remote_client: Client,
    proxy: FaultProxy,
    names: Vec<String>,
    secrets: Api<Secret>,
    instances: Api<DynamicObject>,
    limit: Duration,
}

impl Fleet {
    /// Creates a namespace and a Secret for each cluster.
    async fn new(count: usize) -> Self {
        let (hub, remote) = tokio::join!(shared(PLANE), shared("eu"));
        let objects = Objects { client: hub.client().await.unwrap() };
        install(&objects.client).await;
        let namespaces: Api<Namespace> = Api::all(objects.client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
        let fleet = Self {
            remote_client: remote.client().await.unwrap(),
            proxy: FaultProxy::start(remote.admin()).unwrap(),
            names: (0..count).map(|at| format!("cluster-{at:04}")).collect(),
            secrets: Api::namespaced(objects.client.clone(), NAMESPACE),
            instances: objects.namespaced("kro.run", "Fleet", "fleets", NAMESPACE),
            limit: Duration::from_secs(300) + Duration::from_secs(1) * u32::try_from(count).unwrap(),
            objects,
            remote,
        };
        let namespaces = fleet.names.iter().map(|name| objects::namespace(name)).collect();
        create_all(&Api::all(fleet.remote_client.clone()), namespaces).await;
        create_all(&fleet.secrets, fleet.names.iter().map(|name| fleet.secret(name)).collect()).await;
        fleet
    }

    fn secret(&self, cluster: &str) -> Secret {
        let kubeconfig = self.proxy.virtual_cluster(self.remote.admin(), cluster).unwrap();
        objects::kubeconfig_secret(&format!("{cluster}-kubeconfig"), &kubeconfig)
    }

    /// Waits until the instance is as it should be.
    async fn until(&self, what: &str, check: impl Fn(&Json) -> bool) -> Json {
        wait::until_within(self.limit, what, || async {
            let instance = serde_json::to_value(self.instances.get("x").await.unwrap()).unwrap();
            let status = format!("{:#}", instance["status"]);
            if check(&instance) { Ok(instance) } else { Err(status) }
        })
        .await
    }

    /// How many objects the clusters have.
    async fn objects(&self) -> usize {
        let config_maps: Api<ConfigMap> = Api::all(self.remote_client.clone());
        let parameters = ListParams::default().labels("kro.run/instance-kind=Fleet");
        config_maps.list(&parameters).await.unwrap().items.len()
    }
}

/// Creates objects, several at once.
async fn create_all<K>(api: &Api<K>, all: Vec<K>)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let created = stream::iter(all).map(|object| async move {
        api.create(&PostParams::default(), &object).await.unwrap();
    });
    created.buffer_unordered(32).collect::<Vec<()>>().await;
}

fn definition() -> Json {
    let mut resource = config_map("app", None, json!({"cluster": "${cluster}"}));
    resource["forEach"] = json!([{"cluster": "${schema.spec.clusters}"}]);
    resource["cluster"] = json!({"name": "${cluster}-kubeconfig"});
    resource["template"]["metadata"] =
        json!({"name": "${schema.metadata.name}-app", "namespace": "${cluster}"});
    resource["lifecycle"] = json!({"delete": {"forceAfter": "24h"}});
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "fleet"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Fleet", "spec": {"clusters": "[]string"}},
            "resources": [resource]}})
}

/// Settings with which a slow machine loses no cluster: one process serves them all.
fn settings() -> Settings {
    let mut settings = Settings { max_collection_size: 2_000, ..Settings::default() };
    let (clusters, long) = (&mut settings.clusters, Duration::from_secs(300));
    (clusters.attempt_timeout, clusters.probe_interval, clusters.probe_timeout) = (long, long, long);
    let client = &mut clusters.client;
    (client.request_timeout, client.list_timeout, client.read_timeout) = (long, long, long);
    for transport in [&mut client.requests, &mut client.watches] {
        (transport.connect_timeout, transport.tls_timeout, transport.ping_interval) = (long, long, long);
    }
    settings
}

fn is_active(instance: &Json) -> bool {
    instance["status"]["state"] == "ACTIVE"
        && condition(instance, "Ready")["observedGeneration"] == instance["metadata"]["generation"]
}

fn annotation_bytes(instance: &Json) -> usize {
    let annotations = instance["metadata"]["annotations"].as_object().unwrap();
    annotations.iter().map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum()
}

/// How many entries `status.clusters` has, and the sums of their counts.
fn listed(instance: &Json) -> (usize, i64, i64) {
    let entries = instance["status"]["clusters"].as_array().cloned().unwrap_or_default();
    let sum = |field: &str| entries.iter().filter_map(|entry| entry[field].as_i64()).sum();
    (entries.len(), sum("ready"), sum("total"))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_instance_uses_a_fleet_of_clusters_with_bounded_status_and_metadata() {
    let count = std::env::var("KROSS_FLEET_CLUSTERS").ok().and_then(|text| text.parse().ok());
    let count = count.unwrap_or(CLUSTERS);
    let fleet = Fleet::new(count).await;
    let running = Running::start(PLANE, settings()).await;
    fleet.objects.create(&definition()).await;
    fleet.objects.until_ready("fleet").await;
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Fleet", "metadata": {"name": "x"},
        "spec": {"clusters": fleet.names}});
    create_once_served(&fleet.instances, instance).await;
    let active = fleet.until("the fleet to be active", is_active).await;
    assert_eq!(fleet.objects().await, count);
    let total = i64::try_from(count).unwrap();
    assert_eq!(listed(&active), (1, total, total), "{:#}", active["status"]["clusters"]);
    assert_eq!(active["status"]["clusters"][0]["name"], format!("{count} more clusters"));
    assert!(annotation_bytes(&active) < MAX_ANNOTATIONS / 2, "{} bytes", annotation_bytes(&active));
    assert!(active["status"].to_string().len() < 16 << 10, "{}", active["status"]);

    // A cluster that leaves is cleaned up, and one that cannot be used is listed.
    let shrunk = Patch::Merge(json!({"spec": {"clusters": fleet.names[..count - 1]}}));
    fleet.instances.patch("x", &PatchParams::default(), &shrunk).await.unwrap();
    fleet.until("the fleet to shrink", is_active).await;
    let last: Api<ConfigMap> = Api::namespaced(fleet.remote_client.clone(), fleet.names.last().unwrap());
    wait::until_deleted(&last, "x-app").await;
    let lost = &fleet.names[0];
    let secret = format!("{lost}-kubeconfig");
    fleet.secrets.delete(&secret, &DeleteParams::default()).await.unwrap();
    let is_listed = |instance: &Json| cluster_entry(instance, &secret)["connected"] == false;
    let degraded = fleet.until("the lost cluster to be listed", is_listed).await;
    assert_eq!(listed(&degraded).0, 2, "{:#}", degraded["status"]["clusters"]);

    // The deletion waits for the lost cluster alone, with bounded metadata.
    fleet.instances.delete("x", &DeleteParams::default()).await.unwrap();
    let attempts = "internal.kro.run/delete-attempts";
    let is_waiting = |instance: &Json| instance["metadata"]["annotations"][attempts].is_string();
    let waiting = fleet.until("the deletion to wait", is_waiting).await;
    assert!(annotation_bytes(&waiting) < MAX_ANNOTATIONS * 3 / 4, "{} bytes", annotation_bytes(&waiting));
    fleet.secrets.create(&PostParams::default(), &fleet.secret(lost)).await.unwrap();
    wait::until_within(fleet.limit, "the fleet to be deleted", || async {
        let found = fleet.instances.get_opt("x").await.unwrap();
        found.map_or(Ok(()), |_| Err("it still exists".to_owned()))
    })
    .await;
    assert_eq!(fleet.objects().await, 0);
    running.stop().await;
}
