//! A hub with the CRD of a provider, a namespace for targets and one for the provider's Secrets, and a remote cluster behind a
//! proxy of each test.

use std::path::PathBuf;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_cluster::{Audit, AuditFile};
use kross_controller::Settings;
use kross_local::Kubeconfig;
use kross_testing::{FaultProxy, Fixture, objects, shared, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Objects, Running, condition, create_once_served, install_crds, until};

pub const GKE: &str = "compute.gcp.crossplane.io/v1alpha3";

struct Shared {
    proxy: FaultProxy,
    _running: Running,
}

static SHARED: OnceCell<Shared> = OnceCell::const_new();

pub static AUDIT: LazyLock<(PathBuf, Audit)> = LazyLock::new(|| {
    // Unique also if an earlier process had the same id.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let path = std::env::temp_dir().join(format!("kross-targets-{}-{now}.jsonl", std::process::id()));
    let audit = Audit::to_file(AuditFile { path: path.clone(), max_bytes: 0, max_backups: 0 }).unwrap();
    (path, audit)
});

/// The CRDs of a provider: a cluster-scoped kind, a namespaced one, and one that a definition could own.
pub fn provider_crds() -> Vec<CustomResourceDefinition> {
    let crd = |group: &str, version: &str, kind: &str, plural: &str, scope: &str| {
        let preserved = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": preserved, "status": preserved}});
        let owned = if kind == "Ghost" { json!({"kro.run/owned": "true"}) } else { json!({}) };
        serde_json::from_value(json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}"), "labels": owned},
            "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural},
                "versions": [{"name": version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}]}}))
        .unwrap()
    };
    vec![
        crd("compute.gcp.crossplane.io", "v1alpha3", "GKECluster", "gkeclusters", "Cluster"),
        crd("compute.gcp.crossplane.io", "v1alpha3", "SharedCluster", "sharedclusters", "Namespaced"),
        crd("kro.run", "v1alpha1", "Ghost", "ghosts", "Namespaced"),
    ]
}

/// The parts of a hub that a test uses.
pub struct World {
    pub client: Client,
    /// The namespace of targets.
    pub namespace: String,
    /// The namespace of the provider's Secrets.
    pub infra: String,
    pub remote: Remote,
}

/// The remote cluster, through a proxy of this test.
pub struct Remote {
    pub proxy: FaultProxy,
    pub kubeconfig: Kubeconfig,
    pub uid: String,
}

impl Remote {
    pub async fn new() -> Self {
        let plane = shared("eu").await;
        let proxy = FaultProxy::start(plane.admin()).unwrap();
        let namespaces: Api<Namespace> = Api::all(plane.client().await.unwrap());
        let system = namespaces.get("kube-system").await.unwrap();
        Self {
            kubeconfig: proxy.kubeconfig(plane.admin()).unwrap(),
            proxy,
            uid: system.metadata.uid.unwrap(),
        }
    }
}

impl World {
    /// A world on the shared hub, whose controller runs.
    pub async fn new() -> Self {
        let fixture = Fixture::hub().await;
        let client = fixture.hub.client.clone();
        SHARED
            .get_or_init(|| async {
                install_crds(&client, kross_api::crds()).await;
                install_crds(&client, provider_crds()).await;
                let admin = fixture.hub.plane.admin();
                let proxy = FaultProxy::start(admin).unwrap();
                let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
                let mut settings = Settings::default();
                settings.clusters.audit = AUDIT.1.clone();
                let running = Running::start_with(config, settings).await;
                Shared { proxy, _running: running }
            })
            .await;
        Self::on(client, &fixture.namespace).await
    }

    /// A world on any hub, with an existing namespace for targets.
    pub async fn on(client: Client, namespace: &str) -> Self {
        let world = Self {
            client,
            namespace: namespace.to_owned(),
            infra: format!("{namespace}-infra"),
            remote: Remote::new().await,
        };
        world.create_namespace(&world.infra).await;
        world
    }

    /// The proxy between the shared hub and its controller.
    pub fn proxy(&self) -> &'static FaultProxy {
        &SHARED.get().unwrap().proxy
    }

    pub async fn create_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(name)).await.unwrap();
    }

    fn kind(&self, group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }

    pub fn targets_in(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = self.kind("workload.crossplane.io", "v1alpha1", "KubernetesTarget", "kubernetestargets");
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    pub fn targets(&self) -> Api<DynamicObject> {
        self.targets_in(&self.namespace)
    }

    /// Resources of applications, which use targets as instances do.
    pub fn resources(&self) -> Api<DynamicObject> {
        let plural = "kubernetesapplicationresources";
        let kind = self.kind("workload.crossplane.io", "v1alpha1", "KubernetesApplicationResource", plural);
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }

    pub fn managed(&self) -> Api<DynamicObject> {
        let kind = self.kind("compute.gcp.crossplane.io", "v1alpha3", "GKECluster", "gkeclusters");
        Api::all_with(self.client.clone(), &kind)
    }

    pub fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The name of this test's managed resource.
    pub fn cluster(&self) -> String {
        format!("{}-cluster", self.namespace)
    }

    /// Creates a bound managed resource, and the Secret that it controls.
    pub async fn provide(&self) {
        let uid = self.create_managed(&self.cluster(), "Bound").await;
        self.create_source("source", &uid).await;
    }

    /// Creates a managed resource whose connection Secret is `source`. Returns its UID.
    pub async fn create_managed(&self, name: &str, phase: &str) -> String {
        let managed = json!({"apiVersion": GKE, "kind": "GKECluster", "metadata": {"name": name},
            "spec": {"writeConnectionSecretToRef": {"namespace": self.infra, "name": "source"}},
            "status": {"bindingPhase": phase}});
        create_once_served(&self.managed(), managed).await;
        self.managed().get(name).await.unwrap().metadata.uid.unwrap()
    }

    /// Creates a connection Secret that the managed resource of this UID controls.
    pub async fn create_source(&self, name: &str, uid: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "ownerReferences":
                [{"apiVersion": GKE, "kind": "GKECluster", "name": self.cluster(), "uid": uid, "controller": true}]},
            "type": "connection.crossplane.io/v1alpha1",
            "stringData": {"kubeconfig": self.remote.kubeconfig.to_string(), "other": "not copied"}});
        let secret = serde_json::from_value(secret).unwrap();
        self.secrets(&self.infra).create(&PostParams::default(), &secret).await.unwrap();
    }

    pub async fn patch_source(&self, patch: Json) {
        let secrets = self.secrets(&self.infra);
        secrets.patch("source", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn patch_managed(&self, patch: Json) {
        let patch = Patch::Merge(patch);
        self.managed().patch(&self.cluster(), &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn patch_target(&self, name: &str, patch: Json) {
        self.targets().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// A reference to this test's managed resource.
    pub fn cluster_ref(&self) -> Json {
        json!({"clusterRef": {"apiVersion": GKE, "kind": "GKECluster", "name": self.cluster()}})
    }

    pub async fn create_target_in(&self, namespace: &str, name: &str, spec: Json) {
        let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
            "metadata": {"name": name}, "spec": spec});
        create_once_served(&self.targets_in(namespace), target).await;
    }

    pub async fn create_target(&self, name: &str, spec: Json) {
        self.create_target_in(&self.namespace, name, spec).await;
    }

    /// Publishes this test's managed resource, and waits until the target is ready.
    pub async fn publish(&self, name: &str) -> Json {
        self.provide().await;
        self.create_target(name, self.cluster_ref()).await;
        self.until_ready(name).await
    }

    /// Creates a Secret with the kubeconfig of the remote cluster.
    pub async fn create_local_secret(&self, name: &str) {
        let secret = objects::kubeconfig_secret(name, &self.remote.kubeconfig);
        self.secrets(&self.namespace).create(&PostParams::default(), &secret).await.unwrap();
    }

    #[track_caller]
    pub fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.targets(), name.to_owned(), condition)
    }

    /// Waits until a condition of a target has this status and reason.
    #[track_caller]
    pub fn until_condition(
        &self,
        name: &str,
        (kind, status, reason): (&'static str, &'static str, &'static str),
    ) -> impl Future<Output = Json> {
        self.until(name, move |target| {
            let found = condition(target, kind);
            found["status"] == status && found["reason"] == reason
        })
    }

    #[track_caller]
    pub fn until_ready(&self, name: &str) -> impl Future<Output = Json> {
        self.until_condition(name, ("Ready", "True", "Ready"))
    }

    pub async fn delete_target(&self, name: &str) {
        self.targets().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn delete_namespace(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &DeleteParams::default()).await.unwrap();
    }

    /// The copy of a target.
    pub async fn copy(&self, namespace: &str, target: &str) -> Option<Secret> {
        self.secrets(namespace).get_opt(&format!("{target}-connection")).await.unwrap()
    }

    /// Waits until the kubeconfig in the copy of a target is this text.
    pub async fn until_copied(&self, namespace: &str, target: &str, text: &str) {
        let secrets = self.secrets(namespace);
        wait::until_object(&secrets, &format!("{target}-connection"), |copy| kubeconfig(copy) == text).await;
    }

    /// Creates a definition whose instances have a ConfigMap in the cluster of a target, and the namespace in that cluster.
    pub async fn define(&self, kind: &str) -> Api<DynamicObject> {
        let remote: Api<Namespace> = Api::all(shared("eu").await.client().await.unwrap());
        let _ = remote.create(&PostParams::default(), &objects::namespace(&self.namespace)).await;
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": kind.to_lowercase()}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"target": "string"}},
                "resources": [{"id": "note", "target": {"kubernetesTarget": {"name": "${schema.spec.target}"}},
                    "template": {"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "${schema.metadata.name}"}}}]}});
        let objects = Objects { client: self.client.clone() };
        objects.create(&definition).await;
        objects.until_ready(&kind.to_lowercase()).await;
        objects.namespaced("kro.run", kind, &kross_api::plural(kind), &self.namespace)
    }

    /// Creates an instance that uses a target, and waits until it is ready.
    pub async fn create_instance(&self, api: &Api<DynamicObject>, kind: &str, name: &str, target: &str) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": name},
            "spec": {"target": target}});
        create_once_served(api, instance).await;
        until(api.clone(), name.to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    }

    /// The ConfigMaps of the test's namespace in the remote cluster.
    pub async fn remote_config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(shared("eu").await.client().await.unwrap(), &self.namespace)
    }

    /// Creates an object of a kind whose inventory says that it has objects in the cluster of a target.
    pub async fn create_user(&self, api: &Api<DynamicObject>, kind: (&str, &str), name: &str, target: &str) {
        let reference = format!("target/{}/{target}", self.namespace);
        let inventory = json!({"version": 1, "hash": "sha256:0", "clusters":
            [{"reference": reference, "name": target, "uid": self.remote.uid, "kinds": "ConfigMap"}]});
        let user = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name,
                "finalizers": ["kro.run/finalizer"], "labels": {"kro.run/owned": "true"},
                "annotations": {"internal.kro.run/cluster-inventory": inventory.to_string()}},
            "spec": {"targetRef": {"name": target}, "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}}}});
        create_once_served(api, user).await;
    }

    /// Deletes a user of a target, as if its objects were deleted.
    pub async fn delete_user(&self, api: &Api<DynamicObject>, name: &str) {
        api.delete(name, &DeleteParams::default()).await.unwrap();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = api.patch(name, &PatchParams::default(), &patch).await;
        wait::until_deleted(api, name).await;
    }
}

pub const RESOURCE: (&str, &str) = ("workload.crossplane.io/v1alpha1", "KubernetesApplicationResource");

/// The kubeconfig in a Secret.
pub fn kubeconfig(secret: &Secret) -> String {
    let data = secret.data.as_ref().and_then(|data| data.get("kubeconfig"));
    data.map(|bytes| String::from_utf8(bytes.0.clone()).unwrap()).unwrap_or_default()
}

/// The message of a condition.
pub fn message(target: &Json, kind: &str) -> String {
    condition(target, kind)["message"].as_str().unwrap_or_default().to_owned()
}
