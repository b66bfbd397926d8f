//! The controller is killed at every write of a claim's life, or gets no answer to it: nothing is lost, nothing is made twice.

use k8s_openapi::api::core::v1::Namespace;
use kross_local::ControlPlane;
use kross_testing::{Action, FaultProxy, Verb, objects, shared};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::killable::{Killable, Moment, Write, on_write, stop_at, until_stopped};
use crate::setup::Objects;
use crate::world::{World, install};

const MOMENT: Moment = Moment::BeforeTheWrite;
const CLAIMS: &str = "kubernetesclusters.compute.crossplane.io";

/// The writes of a claim's life, each with its number among those of the same verb and resource.
const CREATION: [Write; 9] = [
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
const DELETION: [Write; 5] = [
    (Verb::Delete, "kubernetestargets.workload.crossplane.io", 0),
    (Verb::Delete, "secrets", 0),
    (Verb::Patch, "secrets", 0),
    (Verb::Delete, "clouds.cloud.example.com", 0),
    (Verb::Patch, CLAIMS, 0),
];

struct Hub {
    plane: &'static ControlPlane,
    proxy: FaultProxy,
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
        Self { plane, proxy: FaultProxy::start(plane.admin()).unwrap(), world }
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
        stop_at(&hub.proxy, write, MOMENT);
        hub.world.claim_of(name, "small").await;
        let provide = async {
            hub.provide(name).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = provide => {}
            _ = until_stopped(&hub.proxy, write, MOMENT, async || hub.is_ready(name).await) => {}
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
        stop_at(&hub.proxy, write, MOMENT);
        hub.world.delete_claim(name).await;
        let is_deleted = async || hub.world.claims().get_opt(name).await.unwrap().is_none();
        until_stopped(&hub.proxy, write, MOMENT, is_deleted).await;
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
        on_write(&hub.proxy, write, Action::CutAfter(0));
        hub.world.claim_of(name, "small").await;
        hub.provide(name).await;
        hub.world.until_ready(name).await;
        hub.assert_one_of_each(name).await;
        hub.proxy.clear();
        let deletion = DELETION[index % DELETION.len()];
        on_write(&hub.proxy, deletion, Action::CutAfter(0));
        hub.world.delete_claim(name).await;
        hub.world.until_deleted(name).await;
        hub.assert_nothing_left(name).await;
        hub.proxy.clear();
    }
    running.kill().await;
}
