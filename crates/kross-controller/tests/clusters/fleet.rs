//! One instance with `forEach` over a fleet of clusters: a proxy presents one control plane under many UIDs.
//! `KROSS_FLEET_CLUSTERS=2000` runs it with as many clusters; that takes minutes and a gigabyte of memory.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::{Action, FaultProxy, Requests, Verb, objects, shared, wait};
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
/// The most reconciles in one phase of the test.
const MOST_PASSES: f64 = 60.0;
/// How many clusters are listed at once.
const LISTED_AT_ONCE: usize = 128;
/// The most bytes of a status, however many clusters there are.
const MAX_STATUS: usize = 64 << 10;

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

    /// Waits until the instance is as it should be. Its status and its metadata must never be too large.
    async fn until(&self, what: &str, check: impl Fn(&Json) -> bool) -> Json {
        wait::until_within(self.limit, what, || async {
            let instance = serde_json::to_value(self.instances.get("x").await.unwrap()).unwrap();
            let status = format!("{:#}", instance["status"]);
            assert!(instance["status"].to_string().len() < MAX_STATUS, "{status}");
            assert!(
                annotation_bytes(&instance) < MAX_ANNOTATIONS * 3 / 4,
                "{} bytes",
                annotation_bytes(&instance)
            );
            if check(&instance) { Ok(instance) } else { Err(status) }
        })
        .await
    }

    /// How often the status of the instance was written. The API server counts that: a proxy in front of it would need a
    /// connection for each of thousands of watches.
    async fn status_writes(&self) -> f64 {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let metrics = self.objects.client.request_text(request).await.unwrap();
        let is_write = |line: &&str| {
            let labels = ["resource=\"fleets\"", "subresource=\"status\"", "verb=\"PUT\""];
            line.starts_with("apiserver_request_total{") && labels.iter().all(|label| line.contains(label))
        };
        let count = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<f64>().ok());
        metrics.lines().filter(is_write).filter_map(count).sum()
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
    let annotations = instance["metadata"]["annotations"].as_object();
    annotations.into_iter().flatten().map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum()
}

/// How many entries `status.clusters` has, and the sums of their counts.
fn listed(instance: &Json) -> (usize, i64, i64) {
    let entries = instance["status"]["clusters"].as_array().cloned().unwrap_or_default();
    let sum = |field: &str| entries.iter().filter_map(|entry| entry[field].as_i64()).sum();
    (entries.len(), sum("ready"), sum("total"))
}

/// What the phases of the test cost.
struct Phases {
    begin: Instant,
    passes: f64,
    writes: f64,
}

impl Phases {
    fn begin() -> Self {
        Self { begin: Instant::now(), passes: 0.0, writes: 0.0 }
    }

    /// Ends a phase, and prints what it cost. However many clusters there are, it has at most so many reconciles, and status
    /// writes.
    #[expect(clippy::print_stdout, reason = "figures for people who run it with more clusters")]
    async fn end(&mut self, phase: &str, fleet: &Fleet, running: &Running, most: f64) {
        let (passes, writes) = (running.metric("instance_reconcile_total"), fleet.status_writes().await);
        let took = std::mem::replace(&mut self.begin, Instant::now()).elapsed();
        let (passes, writes) = (
            passes - std::mem::replace(&mut self.passes, passes),
            writes - std::mem::replace(&mut self.writes, writes),
        );
        let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let memory = memory.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
        println!("{phase}: {took:.1?}, {passes} reconciles, {writes} status writes, {memory}");
        assert!(passes <= most && writes <= most, "{phase}: {passes} reconciles, {writes} status writes");
    }
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
    let mut phases = Phases::begin();
    let active = fleet.until("the fleet to be active", is_active).await;
    assert_eq!(fleet.objects().await, count);
    let total = i64::try_from(count).unwrap();
    assert_eq!(listed(&active), (1, total, total), "{:#}", active["status"]["clusters"]);
    assert_eq!(active["status"]["clusters"][0]["name"], format!("{count} more clusters"));
    println!(
        "status {} bytes, annotations {} bytes",
        active["status"].to_string().len(),
        annotation_bytes(&active)
    );
    assert!(annotation_bytes(&active) < MAX_ANNOTATIONS / 2, "{} bytes", annotation_bytes(&active));
    assert!(active["status"].to_string().len() < 16 << 10, "{}", active["status"]);
    phases.end("active", &fleet, &running, MOST_PASSES).await;

    // A cluster that leaves is cleaned up, and one that cannot be used is listed.
    let shrunk = Patch::Merge(json!({"spec": {"clusters": fleet.names[..count - 1]}}));
    fleet.instances.patch("x", &PatchParams::default(), &shrunk).await.unwrap();
    fleet.until("the fleet to shrink", is_active).await;
    phases.end("shrunk", &fleet, &running, MOST_PASSES).await;
    let last: Api<ConfigMap> = Api::namespaced(fleet.remote_client.clone(), fleet.names.last().unwrap());
    wait::until_deleted(&last, "x-app").await;
    let lost = &fleet.names[0];
    let secret = format!("{lost}-kubeconfig");
    fleet.secrets.delete(&secret, &DeleteParams::default()).await.unwrap();
    let is_listed = |instance: &Json| cluster_entry(instance, &secret)["connected"] == false;
    let degraded = fleet.until("the lost cluster to be listed", is_listed).await;
    phases.end("degraded", &fleet, &running, MOST_PASSES).await;
    assert_eq!(listed(&degraded).0, 2, "{:#}", degraded["status"]["clusters"]);

    // The deletion lists many clusters at once: one that does not answer delays none of the others.
    let lists = Requests::any().verb(Verb::List).resource("configmaps");
    fleet.proxy.clear_requests();
    let hold = fleet.proxy.on(lists.clone(), Action::Hold);
    fleet.instances.delete("x", &DeleteParams::default()).await.unwrap();
    let all = (count - 2).min(LISTED_AT_ONCE);
    wait::until_true("many clusters to be listed at once", || fleet.proxy.count(&lists) >= all).await;
    fleet.proxy.remove(hold);

    // It waits for the lost cluster alone, with bounded metadata.
    let attempts = "internal.kro.run/delete-attempts";
    let is_waiting = |instance: &Json| instance["metadata"]["annotations"][attempts].is_string();
    let waiting = fleet.until("the deletion to wait", is_waiting).await;
    assert!(annotation_bytes(&waiting) < MAX_ANNOTATIONS * 3 / 4, "{} bytes", annotation_bytes(&waiting));
    phases.end("waiting for one", &fleet, &running, MOST_PASSES).await;
    fleet.secrets.create(&PostParams::default(), &fleet.secret(lost)).await.unwrap();
    wait::until_within(fleet.limit, "the fleet to be deleted", || async {
        let found = fleet.instances.get_opt("x").await.unwrap();
        found.map_or(Ok(()), |_| Err("it still exists".to_owned()))
    })
    .await;
    phases.end("deleted", &fleet, &running, MOST_PASSES).await;
    assert_eq!(fleet.objects().await, 0);
    running.stop().await;
}
