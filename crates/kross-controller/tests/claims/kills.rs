//! The controller is killed at every write of a claim's life, or gets no answer to it: nothing is lost, nothing is made twice.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kross_cluster::{ClientOptions, ClusterClient, ClusterId};
use kross_controller::{Controller, Settings};
use kross_local::ControlPlane;
use kross_testing::{Action, FaultProxy, Requests, Verb, objects, shared, wait};
use kube::Api;
use kube::api::{ListParams, PostParams};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::oneshot;

use crate::setup::Objects;
use crate::world::{World, install};

const CLAIMS: &str = "kubernetesclusters.compute.crossplane.io";

/// The writes of a claim's life, each with its number among those of the same verb and resource.
const CREATION: [(Verb, &str, u32); 9] = [
    (Verb::Patch, CLAIMS, 0),
    (Verb::Patch, CLAIMS, 1),
    (Verb::Create, "clouds.cloud.example.com", 0),
    (Verb::Patch, "kubernetesclusters.compute.crossplane.io/status", 0),
    (Verb::Patch, "clouds.cloud.example.com/status", 0),
    (Verb::Create, "secrets", 0),
    (Verb::Create, "kubernetestargets.workload.crossplane.io", 0),
    (Verb::Patch, "kubernetesclusters.compute.crossplane.io/status", 1),
    (Verb::Patch, "kubernetesclusters.compute.crossplane.io/status", 2),
];
const DELETION: [(Verb, &str, u32); 5] = [
    (Verb::Delete, "kubernetestargets.workload.crossplane.io", 0),
    (Verb::Delete, "secrets", 0),
    (Verb::Patch, "secrets", 0),
    (Verb::Delete, "clouds.cloud.example.com", 0),
    (Verb::Patch, CLAIMS, 0),
];

/// A controller that ends between two instructions, as a process that is killed.
struct Killable {
    kill: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Killable {
    async fn start(proxy: &FaultProxy, plane: &ControlPlane) -> Self {
        let config = proxy.kubeconfig(plane.admin()).unwrap().config().await.unwrap();
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let options = ClientOptions::for_version("devel");
                let client = ClusterClient::trusted(ClusterId::local(), config, options).await.unwrap();
                let mut registry = Registry::default();
                let controller = Controller::new(client.clone(), client, Settings::default(), &mut registry);
                tokio::select! {
                    ended = controller.run(std::future::pending()) => panic!("{ended:?}"),
                    _ = killed => {}
                }
            });
            runtime.shutdown_background();
        });
        Self { kill, thread }
    }

    async fn kill(self) {
        let Self { kill, thread } = self;
        kill.send(()).unwrap();
        tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    }
}

struct Hub {
    plane: &'static ControlPlane,
    proxy: Arc<FaultProxy>,
    world: World,
}

impl Hub {
    async fn start(name: &'static str) -> Self {
        let plane = shared(name).await;
        let client = plane.client().await.unwrap();
        install(&client).await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace("kills")).await.unwrap();
        let world = World { namespace: "kills".to_owned(), objects: Objects { client }, proxy: None };
        world.class("small", "Cloud", json!({})).await;
        Self { plane, proxy: Arc::new(FaultProxy::start(plane.admin()).unwrap()), world }
    }

    /// Lets the first requests of a kind pass, and does something to the next one.
    fn on(&self, (verb, resource, before): (Verb, &str, u32), action: Action) {
        self.proxy.clear_requests();
        let requests = Requests::any().verb(verb).resource(resource);
        if before > 0 {
            self.proxy.on_next(before, requests.clone(), Action::Delay(std::time::Duration::ZERO));
        }
        self.proxy.on_next(1, requests, action);
    }

    /// Waits until the request was sent, or the condition holds without it: not every life of a claim has every write.
    async fn until_sent(&self, (verb, resource, before): (Verb, &str, u32), done: impl AsyncFn() -> bool) {
        let requests = Requests::any().verb(verb).resource(resource);
        let proxy = Arc::clone(&self.proxy);
        let count = usize::try_from(before).unwrap() + 1;
        wait::until("the request, or the end", || async {
            if proxy.count(&requests) >= count || done().await { Ok(()) } else { Err("neither".to_owned()) }
        })
        .await;
    }

    async fn is_ready(&self, name: &str) -> bool {
        let claim = serde_json::to_value(self.world.claims().get(name).await.unwrap()).unwrap();
        crate::setup::condition(&claim, "Ready")["status"] == "True"
    }

    /// Plays the provider until the claim is ready.
    async fn provide(&self, name: &str) {
        let managed = self.world.provisioned(name, "Cloud").await;
        self.world.make_ready("Cloud", &managed).await;
    }

    async fn assert_one_of_each(&self, name: &str) {
        let uid = self.world.claim_uid(name).await;
        let clouds = self.world.managed("Cloud").list(&ListParams::default()).await.unwrap();
        let names: Vec<String> = clouds.items.into_iter().filter_map(|cloud| cloud.metadata.name).collect();
        assert_eq!(names, [format!("cluster-{uid}")]);
        assert!(self.world.targets().get_opt(name).await.unwrap().is_some());
        assert!(self.world.secrets().get_opt(&format!("{name}-conn")).await.unwrap().is_some());
    }

    async fn assert_nothing_left(&self, name: &str) {
        assert!(self.world.managed("Cloud").list(&ListParams::default()).await.unwrap().items.is_empty());
        assert!(self.world.targets().get_opt(name).await.unwrap().is_none());
        assert!(self.world.secrets().get_opt(&format!("{name}-conn")).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_write_loses_nothing() {
    let hub = Hub::start("kills").await;
    let mut running = Killable::start(&hub.proxy, hub.plane).await;
    for (index, write) in CREATION.into_iter().enumerate() {
        let name = &format!("created-{index}");
        hub.on(write, Action::Hang);
        hub.world.claim_of(name, "small").await;
        let provide = async {
            hub.provide(name).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = provide => {}
            () = hub.until_sent(write, async || hub.is_ready(name).await) => {}
        }
        running.kill().await;
        hub.proxy.clear();
        running = Killable::start(&hub.proxy, hub.plane).await;
        hub.provide(name).await;
        hub.world.until_ready(name).await;
        hub.assert_one_of_each(name).await;
        hub.world.delete_claim(name).await;
        hub.world.until_deleted(name).await;
        hub.assert_nothing_left(name).await;
    }
    for (index, write) in DELETION.into_iter().enumerate() {
        let name = &format!("deleted-{index}");
        hub.world.claim_of(name, "small").await;
        hub.provide(name).await;
        hub.world.until_ready(name).await;
        hub.on(write, Action::Hang);
        hub.world.delete_claim(name).await;
        hub.until_sent(write, async || hub.world.claims().get_opt(name).await.unwrap().is_none()).await;
        running.kill().await;
        hub.proxy.clear();
        running = Killable::start(&hub.proxy, hub.plane).await;
        hub.world.until_deleted(name).await;
        hub.assert_nothing_left(name).await;
    }
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_is_lost_is_not_repeated() {
    let hub = Hub::start("answers").await;
    let running = Killable::start(&hub.proxy, hub.plane).await;
    for (index, write) in CREATION.into_iter().enumerate() {
        let name = &format!("created-{index}");
        hub.on(write, Action::CutAfter(0));
        hub.world.claim_of(name, "small").await;
        hub.provide(name).await;
        hub.world.until_ready(name).await;
        hub.assert_one_of_each(name).await;
        hub.proxy.clear();
        let deletion = DELETION[index % DELETION.len()];
        hub.on(deletion, Action::CutAfter(0));
        hub.world.delete_claim(name).await;
        hub.world.until_deleted(name).await;
        hub.assert_nothing_left(name).await;
        hub.proxy.clear();
    }
    running.kill().await;
}
