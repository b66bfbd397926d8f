//! The controller is killed at every write of a target's life: nothing is lost, nothing is made twice, and what the status says is
//! true.

use k8s_openapi::api::core::v1::Namespace;
use kross_local::ControlPlane;
use kross_testing::{FaultProxy, Verb, objects, shared, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value as Json, json};

use crate::killable::{Killable, Moment, Write, stop_at, until_stopped};
use crate::setup::{condition, install_crds};
use crate::world::{RESOURCE, World, kubeconfig, message, provider_crds};

const TARGETS: &str = "kubernetestargets.workload.crossplane.io";
const STATUS: &str = "kubernetestargets.workload.crossplane.io/status";

/// Finalizer, copy, reference, and the status before and after the cluster is connected.
const CREATION: [Write; 5] = [
    (Verb::Patch, TARGETS, 0),
    (Verb::Create, "secrets", 0),
    (Verb::Patch, TARGETS, 1),
    (Verb::Patch, STATUS, 0),
    (Verb::Patch, STATUS, 1),
];
const ROTATION: Write = (Verb::Update, "secrets", 0);
/// With a user.
const IN_USE: Write = (Verb::Patch, STATUS, 0);
/// The copy, its finalizer, and that of the target.
const DELETION: [Write; 3] =
    [(Verb::Delete, "secrets", 0), (Verb::Patch, "secrets", 0), (Verb::Patch, TARGETS, 0)];

struct Hub {
    plane: &'static ControlPlane,
    proxy: FaultProxy,
    world: World,
}

impl Hub {
    async fn start() -> Self {
        let plane = shared("kills").await;
        let client = plane.client().await.unwrap();
        install_crds(&client, kross_api::crds()).await;
        install_crds(&client, provider_crds()).await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace("kills")).await.unwrap();
        let world = World::on(client, "kills").await;
        world.provide().await;
        Self { plane, proxy: FaultProxy::start(plane.admin()).unwrap(), world }
    }

    async fn run(&self) -> Killable {
        Killable::start(&self.proxy, self.plane).await
    }

    /// Kills a controller at a write, or where it ends without one, and checks what it left behind. Returns the next one.
    async fn kill_at(
        &self,
        running: Killable,
        (write, moment): (Write, Moment),
        name: &str,
        done: impl AsyncFn() -> bool,
    ) -> Killable {
        let is_sent = until_stopped(&self.proxy, write, moment, done).await;
        running.kill().await;
        // Two changes of a status may be written at once.
        assert!(is_sent || write.1.ends_with("/status"), "{name} has no write {write:?}");
        self.assert_true_status(name).await;
        self.proxy.clear();
        self.run().await
    }

    async fn target(&self, name: &str) -> Option<Json> {
        let target = self.world.targets().get_opt(name).await.unwrap();
        target.map(|target| serde_json::to_value(target).unwrap())
    }

    async fn is_ready(&self, name: &str) -> bool {
        let target = self.target(name).await;
        target.is_some_and(|target| condition(&target, "Ready")["status"] == "True")
    }

    async fn copy_uid(&self, name: &str) -> Option<String> {
        self.world.copy("kills", name).await.and_then(|copy| copy.metadata.uid)
    }

    /// A ready target has its copy, a copy has its target, and a target that is being deleted is not ready once its copy is.
    async fn assert_true_status(&self, name: &str) {
        let (target, copy) = (self.target(name).await, self.world.copy("kills", name).await);
        let Some(target) = target else {
            assert!(copy.is_none(), "the copy of {name} is left behind");
            return;
        };
        let is_deleting = !target["metadata"]["deletionTimestamp"].is_null();
        if condition(&target, "Ready")["status"] == "True" && !is_deleting {
            assert!(!kubeconfig(&copy.unwrap()).is_empty());
            assert_eq!(target["spec"]["connectionSecretRef"]["name"], format!("{name}-connection"));
            assert_eq!(target["status"]["cluster"]["uid"], self.world.remote.uid);
        }
    }

    async fn assert_deleted(&self, name: &str) {
        wait::until_deleted(&self.world.targets(), name).await;
        assert!(self.world.copy("kills", name).await.is_none());
        self.world.secrets(&self.world.infra).get("source").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_write_of_a_target_loses_nothing() {
    let hub = Hub::start().await;
    let world = &hub.world;
    let mut running = hub.run().await;
    let writes = CREATION.iter().zip(DELETION.map(Some).into_iter().chain(std::iter::repeat(None)));
    let lives = Moment::ALL.into_iter().flat_map(|moment| writes.clone().map(move |writes| (moment, writes)));
    for (index, (moment, (&write, deletion))) in lives.enumerate() {
        let name = &format!("dev-{index}");
        stop_at(&hub.proxy, write, moment);
        world.create_target(name, world.cluster_ref()).await;
        running = hub.kill_at(running, (write, moment), name, async || hub.is_ready(name).await).await;
        let made = hub.copy_uid(name).await;
        world.until_ready(name).await;
        let copy = hub.copy_uid(name).await;
        assert!(copy.is_some() && (made.is_none() || made == copy), "the copy was made twice");

        if let Some(write) = deletion {
            stop_at(&hub.proxy, write, moment);
        }
        world.delete_target(name).await;
        if let Some(write) = deletion {
            let is_deleted = async || hub.target(name).await.is_none();
            running = hub.kill_at(running, (write, moment), name, is_deleted).await;
        }
        hub.assert_deleted(name).await;
    }
    rotate_and_wait_for_a_user(&hub, running).await.kill().await;
}

/// The rest of a target's life: its Secret is rotated, and its deletion waits for a user.
async fn rotate_and_wait_for_a_user(hub: &Hub, mut running: Killable) -> Killable {
    let (world, users) = (&hub.world, hub.world.resources());
    for (index, moment) in Moment::ALL.into_iter().enumerate() {
        let name = &format!("used-{index}");
        world.create_target(name, world.cluster_ref()).await;
        world.until_ready(name).await;
        stop_at(&hub.proxy, ROTATION, moment);
        let rotated = format!("{}\n# {index}\n", world.remote.kubeconfig);
        world.patch_source(json!({"stringData": {"kubeconfig": rotated}})).await;
        running = hub.kill_at(running, (ROTATION, moment), name, async || false).await;
        world.until_copied("kills", name, &rotated).await;

        let user = &format!("user-{index}");
        world.create_user(&users, RESOURCE, user, name).await;
        stop_at(&hub.proxy, IN_USE, moment);
        world.delete_target(name).await;
        running =
            hub.kill_at(running, (IN_USE, moment), name, async || hub.target(name).await.is_none()).await;
        let target = world.until_condition(name, ("Ready", "False", "InUse")).await;
        assert!(message(&target, "Ready").contains(&format!("kills/{user}`")), "{target:#}");
        assert_eq!(kubeconfig(&world.copy("kills", name).await.unwrap()), rotated);
        world.delete_user(&users, user).await;
        hub.assert_deleted(name).await;
    }
    running
}
