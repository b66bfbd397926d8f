//! The controller is killed at every write of an application's life, in the hub and in the remote cluster: nothing is lost, nothing
//! is made twice, and what the status says is true.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_local::ControlPlane;
use kross_testing::{Action, FaultProxy, Requests, Verb, objects, shared, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::killable::{Killable, Moment, Write, stop_at, until_stopped};
use crate::setup::{Objects, condition, definition, install_crds, until};
use crate::world::{api, has_state, template, value};

const APPLICATIONS: &str = "kubernetesapplications.workload.crossplane.io";
const STATUS: &str = "kubernetesapplications.workload.crossplane.io/status";
const RESOURCES: &str = "kubernetesapplicationresources.workload.crossplane.io";
const RESOURCE_STATUS: &str = "kubernetesapplicationresources.workload.crossplane.io/status";

/// Where a write goes.
#[derive(Clone, Copy, Debug)]
enum Cluster {
    Hub,
    Remote,
}
use Cluster::{Hub as H, Remote as R};

const CREATION: [(Cluster, Write); 10] = [
    // The schedule, and the resources of two templates.
    (H, (Verb::Patch, APPLICATIONS, 0)),
    (H, (Verb::Apply, RESOURCES, 0)),
    (H, (Verb::Apply, RESOURCES, 1)),
    (H, (Verb::Patch, STATUS, 0)),
    // Finalizer and inventory of the resources.
    (H, (Verb::Patch, RESOURCES, 0)),
    (H, (Verb::Patch, RESOURCES, 1)),
    (R, (Verb::Apply, "configmaps", 0)),
    (R, (Verb::Apply, "configmaps", 1)),
    (H, (Verb::Update, RESOURCE_STATUS, 0)),
    (H, (Verb::Patch, STATUS, 1)),
];
const DELETION: [(Cluster, Write); 5] = [
    (H, (Verb::Delete, RESOURCES, 0)),
    (H, (Verb::Delete, RESOURCES, 1)),
    (R, (Verb::Delete, "configmaps", 0)),
    (H, (Verb::Patch, RESOURCES, 0)),
    (H, (Verb::Patch, APPLICATIONS, 0)),
];

struct Clusters {
    plane: &'static ControlPlane,
    hub: FaultProxy,
    remote: FaultProxy,
    applications: Api<DynamicObject>,
    resources: Api<DynamicObject>,
    secrets: Api<Secret>,
    maps: Api<ConfigMap>,
}

impl Clusters {
    /// A hub of this name, and a namespace of this name in both clusters.
    async fn start(name: &str) -> Self {
        let (hub, eu) = tokio::join!(shared(name), shared("eu"));
        let (client, eu_client) = (hub.client().await.unwrap(), eu.client().await.unwrap());
        install_crds(&client, kross_api::crds()).await;
        for client in [&client, &eu_client] {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            namespaces.create(&PostParams::default(), &objects::namespace(name)).await.unwrap();
        }
        let remote = FaultProxy::start(eu.admin()).unwrap();
        let secrets: Api<Secret> = Api::namespaced(client.clone(), name);
        let secret = objects::kubeconfig_secret("a-connection", &remote.kubeconfig(eu.admin()).unwrap());
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        let targets = api(&client, "v1alpha1", "KubernetesTarget", name);
        let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
            "metadata": {"name": "a"}, "spec": {"connectionSecretRef": {"name": "a-connection"}}});
        targets.create(&PostParams::default(), &serde_json::from_value(target).unwrap()).await.unwrap();
        Self {
            plane: hub,
            hub: FaultProxy::start(hub.admin()).unwrap(),
            remote,
            applications: api(&client, "v1alpha2", "KubernetesApplication", name),
            resources: api(&client, "v1alpha1", "KubernetesApplicationResource", name),
            secrets,
            maps: Api::namespaced(eu_client, name),
        }
    }

    async fn run(&self) -> Killable {
        Killable::start(&self.hub, self.plane).await
    }

    fn proxy(&self, cluster: Cluster) -> &FaultProxy {
        match cluster {
            Cluster::Hub => &self.hub,
            Cluster::Remote => &self.remote,
        }
    }

    /// Kills a controller at a write, and checks what it left behind. Returns the next one.
    async fn kill_at(
        &self,
        running: Killable,
        ((cluster, write), moment): ((Cluster, Write), Moment),
        name: &str,
        done: impl AsyncFn() -> bool,
    ) -> Killable {
        let is_sent = until_stopped(self.proxy(cluster), write, moment, done).await;
        running.kill().await;
        // Two changes of a status may be written at once.
        assert!(is_sent || write.1.ends_with("/status"), "{name} has no write {write:?}");
        self.assert_true_status(name).await;
        self.hub.clear();
        self.remote.clear();
        self.run().await
    }

    async fn create(&self, name: &str) {
        let templates = parts(name).map(|part| template(&part, "1"));
        let application = json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
            "metadata": {"name": name}, "spec": {"resourceTemplates": templates}});
        let application: DynamicObject = serde_json::from_value(application).unwrap();
        self.applications.create(&PostParams::default(), &application).await.unwrap();
    }

    async fn application(&self, name: &str) -> Option<Json> {
        let found = self.applications.get_opt(name).await.unwrap();
        found.map(|found| serde_json::to_value(found).unwrap())
    }

    async fn is_submitted(&self, name: &str) -> bool {
        self.application(name).await.is_some_and(|application| has_state(&application, "Submitted"))
    }

    /// The UIDs of the resources and of the objects of an application; none where there is none.
    async fn uids(&self, name: &str) -> Vec<Option<String>> {
        let mut uids = Vec::new();
        for part in parts(name) {
            uids.push(self.resources.get_opt(&part).await.unwrap().and_then(|it| it.metadata.uid));
            uids.push(self.maps.get_opt(&part).await.unwrap().and_then(|it| it.metadata.uid));
        }
        uids
    }

    /// What is submitted exists in the remote cluster, and nobody forgets an object there before it is deleted.
    async fn assert_true_status(&self, name: &str) {
        let application = self.application(name).await;
        for part in parts(name) {
            let (resource, map) =
                (self.resources.get_opt(&part).await.unwrap(), self.maps.get_opt(&part).await.unwrap());
            let resource = resource.map(|resource| serde_json::to_value(resource).unwrap());
            assert!(resource.is_some() || map.is_none(), "{part} is left behind");
            assert!(application.is_some() || resource.is_none(), "{part} is left behind");
            let is_deleting = |object: &Option<Json>| {
                object.as_ref().is_some_and(|it| !it["metadata"]["deletionTimestamp"].is_null())
            };
            let is_submitted =
                |object: &Option<Json>| object.as_ref().is_some_and(|it| has_state(it, "Submitted"));
            if (is_submitted(&application) && !is_deleting(&application))
                || (is_submitted(&resource) && !is_deleting(&resource))
            {
                assert_eq!(map.as_ref().and_then(|map| value(map, "text")), Some("1"), "{part} is not there");
            }
        }
    }
}

/// The names of an application's templates.
fn parts(name: &str) -> [String; 2] {
    [format!("{name}-a"), format!("{name}-b")]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_before_any_write_of_an_application_loses_nothing() {
    let clusters = kill_at_every_write("kills-before", Moment::BeforeTheWrite).await;
    kill_while_a_protected_secret_is_deleted(&clusters).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_any_write_of_an_application_loses_nothing() {
    kill_at_every_write("kills-after", Moment::BeforeTheAnswer).await;
}

async fn kill_at_every_write(hub: &str, moment: Moment) -> Clusters {
    let clusters = Clusters::start(hub).await;
    let mut running = clusters.run().await;
    let mut deletions = DELETION.into_iter();
    for (index, write) in CREATION.into_iter().enumerate() {
        let name = &format!("web-{index}");
        stop_at(clusters.proxy(write.0), write.1, moment);
        clusters.create(name).await;
        let is_submitted = async || clusters.is_submitted(name).await;
        running = clusters.kill_at(running, (write, moment), name, is_submitted).await;
        let made = clusters.uids(name).await;
        let submitted = |it: &Json| has_state(it, "Submitted") && condition(it, "Ready")["status"] == "True";
        until(clusters.applications.clone(), name.clone(), submitted).await;
        for (made, uid) in made.into_iter().zip(clusters.uids(name).await) {
            assert!(uid.is_some() && (made.is_none() || made == uid), "an object was made twice");
        }

        let write = deletions.next();
        if let Some((cluster, write)) = write {
            stop_at(clusters.proxy(cluster), write, moment);
        }
        clusters.applications.delete(name, &Default::default()).await.unwrap();
        if let Some(write) = write {
            let is_deleted = async || clusters.application(name).await.is_none();
            running = clusters.kill_at(running, (write, moment), name, is_deleted).await;
        }
        wait::until_deleted(&clusters.applications, name).await;
        assert_eq!(clusters.uids(name).await, [const { None }; 4], "something is left behind");
    }
    running.kill().await;
    clusters
}

/// The next controller keeps the Secret also while it does not know yet who uses the target of the Secret.
async fn kill_while_a_protected_secret_is_deleted(clusters: &Clusters) {
    let running = clusters.run().await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"kro.run/protect": "true"}}}));
    clusters.secrets.patch("a-connection", &PatchParams::default(), &label).await.unwrap();
    clusters.create("kept").await;
    until(clusters.applications.clone(), "kept".to_owned(), |it| has_state(it, "Submitted")).await;
    let is_kept =
        |secret: &Secret| secret.metadata.finalizers.iter().flatten().any(|it| it == "kro.run/protect");
    wait::until_object(&clusters.secrets, "a-connection", is_kept).await;
    clusters.secrets.delete("a-connection", &DeleteParams::default()).await.unwrap();
    running.kill().await;
    let lists = Requests::any().verb(Verb::List).resource(RESOURCES);
    let held = clusters.hub.on(lists, Action::Hold);
    let running = clusters.run().await;
    // Its queue is that of Secrets too.
    let objects = Objects { client: clusters.plane.client().await.unwrap() };
    objects.create(&definition("plain", "Plain")).await;
    objects.until_ready("plain").await;
    wait::until_object(&clusters.secrets, "a-connection", is_kept).await;
    clusters.hub.remove(held);
    clusters.applications.delete("kept", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&clusters.applications, "kept").await;
    assert_eq!(clusters.uids("kept").await, [const { None }; 4], "something is left behind");
    wait::until_deleted(&clusters.secrets, "a-connection").await;
    running.kill().await;
}
