//! A second hub whose controller tests start, stop and restart.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kross_controller::Settings;
use kross_testing::{Fault, FaultProxy, Requests, Stopwatch, Verb, objects, shared, wait};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::setup::{Objects, Running, condition, create_once_served, install, until};
use crate::world::{World, cluster_entry, config_map, edit, resource_entry, value};

static INSTALLED: OnceCell<()> = OnceCell::const_new();
/// Held by the test that uses the second hub.
static EXCLUSIVE: Mutex<()> = Mutex::const_new(());

/// The second hub, and the first one with the remote clusters.
struct SecondHub {
    world: World,
    objects: Objects,
    instances: Api<DynamicObject>,
    config_maps: Api<ConfigMap>,
    proxy: FaultProxy,
    _exclusive: MutexGuard<'static, ()>,
}

impl SecondHub {
    /// Creates the same namespace and Secrets as in the first hub, and a definition.
    async fn new(kind: &str, spec: Json) -> Self {
        let exclusive = EXCLUSIVE.lock().await;
        let world = World::without_definition(kind).await;
        let plane = shared("hub2").await;
        let client = plane.client().await.unwrap();
        INSTALLED.get_or_init(|| install(&client)).await;
        let namespaces = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(&world.namespace)).await.unwrap();
        let objects = Objects { client: client.clone() };
        let second = Self {
            instances: objects.namespaced("kro.run", kind, &kross_api::plural(kind), &world.namespace),
            config_maps: Api::namespaced(client, &world.namespace),
            proxy: FaultProxy::start(plane.admin()).unwrap(),
            objects,
            world,
            _exclusive: exclusive,
        };
        for name in ["eu", "us"] {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-kubeconfig")},
                "stringData": {"kubeconfig": second.world.kubeconfig(name).to_string()}});
            let secrets: Api<k8s_openapi::api::core::v1::Secret> =
                Api::namespaced(second.objects.client.clone(), &second.world.namespace);
            secrets
                .patch(&format!("{name}-kubeconfig"), &PatchParams::apply("test"), &Patch::Apply(secret))
                .await
                .unwrap();
        }
        let mut spec = spec;
        spec["schema"]["apiVersion"] = json!("v1alpha1");
        spec["schema"]["kind"] = json!(kind);
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": kind.to_lowercase()}, "spec": spec});
        second.objects.create(&definition).await;
        second
    }

    async fn start(&self, settings: Settings) -> Running {
        let config = self.proxy.kubeconfig(shared("hub2").await.admin()).unwrap().config().await.unwrap();
        let running = Running::start_with(config, settings).await;
        self.objects.until_ready(&self.world.kind.to_lowercase()).await;
        running
    }

    async fn create(&self, name: &str, spec: Json) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": self.world.kind,
            "metadata": {"name": name}, "spec": spec});
        create_once_served(&self.instances, instance).await;
    }

    #[track_caller]
    fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.instances.clone(), name.to_owned(), condition)
    }

    #[track_caller]
    fn until_state(&self, name: &str, state: &'static str) -> impl Future<Output = Json> {
        self.until(name, move |instance| {
            let ready = condition(instance, "Ready");
            instance["status"]["state"] == state
                && ready["observedGeneration"] == instance["metadata"]["generation"]
        })
    }

    /// The write requests to all three clusters, without those for Events.
    fn writes(&self) -> Vec<String> {
        let proxies = [&self.proxy, &self.world.region("eu").proxy, &self.world.region("us").proxy];
        let sent = proxies.into_iter().flat_map(|proxy| {
            // Instances of other tests still exist, but their clusters are not reachable any more.
            proxy.requests(&Requests::any().namespace(&self.world.namespace))
        });
        let writes = sent.filter(|record| {
            let write = [Verb::Create, Verb::Update, Verb::Patch, Verb::Apply, Verb::Delete]
                .contains(&record.request.verb);
            write && !record.request.resource.starts_with("events")
        });
        writes.map(|record| record.request.to_string()).collect()
    }

    fn clear_requests(&self) {
        for proxy in [&self.proxy, &self.world.region("eu").proxy, &self.world.region("us").proxy] {
            proxy.clear_requests();
        }
    }
}

fn spec() -> Json {
    json!({"schema": {"spec": {"text": "string | default=one"}}, "resources": [
        config_map("home", None, json!({"text": "${schema.spec.text}"})),
        config_map("east", Some("eu"), json!({"text": "${home.data.text}"})),
        config_map("west", Some("us"), json!({"text": "${east.data.text}"})),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hubs_never_write_to_each_others_objects() {
    let second = SecondHub::new("Twin", spec()).await;
    let running = second.start(Settings::default()).await;
    second.world.define(spec()).await;
    let first = &second.world;
    first.create("x", json!({})).await;
    first.until_state("x", "ACTIVE").await;
    second.create("x", json!({"text": "two"})).await;
    let refused = second.until_state("x", "ERROR").await;
    let message = resource_entry(&refused, "east")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("belongs to a different ApplySet"), "{message}");
    second.instances.delete("x", &Default::default()).await.unwrap();
    wait::until_deleted(&second.instances, "x").await;
    let east = &first.region("eu").config_maps;
    assert_eq!(value(&east.get("x-east").await.unwrap(), "text"), Some("one"));
    // Events of one hub's objects do not wake instances of the other hub in the same namespace.
    second.create("y", json!({"text": "two"})).await;
    second.until_state("y", "ACTIVE").await;
    first.delete("x").await;
    wait::until_deleted(&first.instances, "x").await;
    assert_eq!(value(&east.get("y-east").await.unwrap(), "text"), Some("two"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_requires_the_annotation_uses_no_secret_without_it() {
    let second = SecondHub::new("Annotated", spec()).await;
    let mut settings = Settings::default();
    settings.clusters.secrets.require_allowed_namespaces = true;
    let running = second.start(settings).await;
    second.create("x", json!({})).await;
    let is_refused =
        |instance: &Json| condition(instance, "ClusterResolved")["reason"] == "SecretNotAvailable";
    let refused = second.until("x", is_refused).await;
    let message = condition(&refused, "ClusterResolved")["message"].to_string();
    assert!(message.contains("`kro.run/allowed-namespaces`"), "{message}");
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(second.objects.client.clone(), &second.world.namespace);
    let allowed =
        json!({"metadata": {"annotations": {"kro.run/allowed-namespaces": second.world.namespace}}});
    for name in ["eu-kubeconfig", "us-kubeconfig"] {
        secrets.patch(name, &PatchParams::default(), &Patch::Merge(&allowed)).await.unwrap();
    }
    second.until_state("x", "ACTIVE").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_three_clusters_and_two_hundred_instances_writes_nothing() {
    let second = SecondHub::new("Steady", spec()).await;
    let running = second.start(Settings::default()).await;
    let names: Vec<String> = (0..200).map(|at| format!("i{at}")).collect();
    for name in &names {
        second.create(name, json!({})).await;
    }
    for name in &names {
        second.until_state(name, "ACTIVE").await;
    }
    running.stop().await;
    second.clear_requests();
    let running = second.start(Settings::default()).await;
    // An edit after the start is handled after everything that the start queued.
    edit(&second.world.region("us").config_maps, "i199-west", json!({"text": "edited"})).await;
    let west = &second.world.region("us").config_maps;
    wait::until_object(west, "i199-west", |object| value(object, "text") == Some("one")).await;
    running.stop().await;
    assert_eq!(second.writes(), [format!("apply configmaps {}/i199-west", second.world.namespace)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_inventory_over_a_restart_while_a_cluster_is_unreachable() {
    let second = SecondHub::new("Recall", spec()).await;
    let running = second.start(Settings::default()).await;
    second.create("x", json!({})).await;
    second.create("y", json!({})).await;
    let before = second.until_state("x", "ACTIVE").await;
    second.until_state("y", "ACTIVE").await;
    running.stop().await;
    let us = second.world.region("us");
    us.proxy.set(Fault::Refuse);
    let running = second.start(Settings::default()).await;
    let unreachable =
        second.until("x", |instance| cluster_entry(instance, "us-kubeconfig")["connected"] == false).await;
    let (west, west_before) = (resource_entry(&unreachable, "west"), resource_entry(&before, "west"));
    assert_eq!((&west["uid"], &west["reason"]), (&west_before["uid"], &json!("Unreachable")), "{west:#}");
    assert!(west["message"].as_str().unwrap().contains("last seen at"), "{west:#}");
    assert_eq!(
        cluster_entry(&unreachable, "us-kubeconfig")["uid"],
        cluster_entry(&before, "us-kubeconfig")["uid"]
    );
    assert_eq!(cluster_entry(&unreachable, "eu-kubeconfig")["connected"], true, "{unreachable:#}");
    // The status tells the restarted controller which objects to wait for, and in which order.
    second.instances.delete("x", &Default::default()).await.unwrap();
    second
        .until("x", |instance| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            message.contains("ConfigMap") && message.contains("x-west") && message.contains("us-kubeconfig")
        })
        .await;
    assert!(second.world.region("eu").config_maps.get_opt("x-east").await.unwrap().is_some());
    us.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&second.instances, "x")).await;
    assert!(us.config_maps.get_opt("x-west").await.unwrap().is_none());
    wait::woken(second.until_state("y", "ACTIVE")).await;
    assert!(us.config_maps.get_opt("y-west").await.unwrap().is_some());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_cluster_blocks_no_worker() {
    let app = config_map("app", Some("${schema.spec.region}"), json!({"text": "${schema.spec.text}"}));
    let spec =
        json!({"schema": {"spec": {"region": "string", "text": "string | default=one"}}, "resources": [app]});
    let second = SecondHub::new("Worker", spec).await;
    let running = second.start(Settings { instance_workers: 1, ..Settings::default() }).await;
    for at in 0..5 {
        second.create(&format!("hanging-{at}"), json!({"region": "us"})).await;
        second.until_state(&format!("hanging-{at}"), "ACTIVE").await;
    }
    second.create("free", json!({"region": "eu"})).await;
    second.until_state("free", "ACTIVE").await;
    second.world.region("us").proxy.set(Fault::Hang);
    let change = Patch::Merge(json!({"spec": {"text": "two"}}));
    for at in 0..5 {
        second.instances.patch(&format!("hanging-{at}"), &PatchParams::default(), &change).await.unwrap();
    }
    let stopwatch = Stopwatch::start();
    second.instances.patch("free", &PatchParams::default(), &change).await.unwrap();
    let east = &second.world.region("eu").config_maps;
    wait::woken(wait::until_object(east, "free-app", |object| value(object, "text") == Some("two"))).await;
    stopwatch.assert_within(Duration::from_secs(3));
    second.world.region("us").proxy.set(Fault::Pass);
    for at in 0..5 {
        wait::woken(second.until_state(&format!("hanging-{at}"), "ACTIVE")).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_what_exceeds_the_watch_budget_and_reports_the_mode() {
    let second = SecondHub::new("Budgeted", spec()).await;
    let mut settings = Settings::default();
    settings.caches.budget = 1;
    let running = second.start(settings).await;
    second.create("x", json!({})).await;
    let modes = |instance: &Json| {
        ["eu-kubeconfig", "us-kubeconfig"].map(|secret| cluster_entry(instance, secret)["mode"].clone())
    };
    // The budget allows one watch.
    second
        .until("x", |instance| ["Poll", "Watch"].iter().all(|mode| modes(instance).contains(&json!(mode))))
        .await;
    second.until_state("x", "ACTIVE").await;
    running.stop().await;
}
