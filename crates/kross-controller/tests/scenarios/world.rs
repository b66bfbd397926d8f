//! A hub with a controller, the roles for users, two remote clusters, and a stand-in for a provider of clusters.

use std::path::Path;

use kross_controller::Settings;
use kross_local::{Access, Kubeconfig, rule};
use kross_testing::{Fixture, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Running, condition, install_crds, until};

static SHARED: OnceCell<Running> = OnceCell::const_new();

/// The clusters, as the administrator of the hub sees them.
pub struct World {
    pub fixture: Fixture,
    pub admin: User,
}

impl World {
    pub async fn new() -> Self {
        // Starting control planes takes a deep stack.
        let fixture = Box::pin(Fixture::with(&["dev", "stage"])).await;
        let admin = User { client: fixture.hub.client.clone() };
        let client = fixture.hub.client.clone();
        SHARED
            .get_or_init(|| async {
                install_crds(&client, kross_api::crds()).await;
                for document in documents("examples/targets/managed-cluster-crd.yaml") {
                    admin.apply(&document).await.unwrap();
                }
                for document in documents("deploy/target-roles.yaml") {
                    admin.apply(&document).await.unwrap();
                }
                admin.namespace("infrastructure").await;
                let running = Running::start("hub", Settings::default()).await;
                // The stand-in kind must be served before the first object is created.
                wait::until("GKECluster to be served", || async {
                    let list = admin.api("GKECluster", None).list(&kube::api::ListParams::default()).await;
                    list.map(drop).map_err(|error| error.to_string())
                })
                .await;
                running
            })
            .await;
        Self { fixture, admin }
    }

    /// A user with a certificate, and with these of the roles of `deploy/target-roles.yaml`: in a namespace, or everywhere.
    pub async fn user(&self, name: &str, roles: &[(&str, Option<&str>)], access: Access) -> User {
        let plane = self.fixture.hub.plane;
        let access = access.in_cluster([rule(&[""], &["namespaces"], &["get"])]);
        for (role, namespace) in roles {
            let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
            let mut binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": format!("{name}-{role}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]});
            if let Some(namespace) = namespace {
                self.admin.namespace(namespace).await;
                binding["metadata"]["namespace"] = json!(namespace);
            }
            self.admin.apply(&binding).await.unwrap();
        }
        let kubeconfig = plane.mint_certificate(name, None, &access).await.unwrap();
        User { client: Client::try_from(kubeconfig.config().await.unwrap()).unwrap() }
    }

    /// The infrastructure owner: provisions and publishes clusters everywhere.
    pub async fn infrastructure_owner(&self) -> User {
        let access = Access::none().in_cluster([
            rule(&["compute.gcp.crossplane.io"], &["gkeclusters"], &["*"]),
            rule(&["compute.crossplane.io"], &["kubernetesclusterclasses"], &["*"]),
            rule(&["kro.run"], &["*"], &["*"]),
            rule(&[""], &["namespaces", "secrets"], &["get", "create", "patch"]),
        ]);
        let roles = [("kross-cluster-provisioner", None), ("kross-cluster-publisher", None)];
        self.user("infrastructure-owner", &roles, access).await
    }

    /// The administrator of a remote cluster.
    pub fn remote(&self, name: &str) -> User {
        User { client: self.fixture.remote(name).client.clone() }
    }

    /// The credentials of a remote cluster.
    pub fn kubeconfig(&self, remote: &str) -> Kubeconfig {
        self.fixture.remote(remote).plane.admin().clone()
    }

    /// In place of the provider: writes the credentials of a remote cluster into the Secret that a GKECluster names and
    /// controls, and sets its condition.
    pub async fn provide(&self, name: &str, remote: &str) {
        let clusters = self.admin.api("GKECluster", None);
        let cluster = self.admin.until(&clusters, name, |_| true).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "namespace": cluster["spec"]["writeConnectionSecretToRef"]["namespace"],
                "name": cluster["spec"]["writeConnectionSecretToRef"]["name"],
                "ownerReferences": [{"apiVersion": cluster["apiVersion"], "kind": "GKECluster", "name": name,
                    "uid": cluster["metadata"]["uid"], "controller": true}]},
            "stringData": {"kubeconfig": self.kubeconfig(remote).to_string()}});
        self.admin.apply(&secret).await.unwrap();
        let ready =
            json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}});
        clusters.patch_status(name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    }
}

/// A user of the hub or of a remote cluster.
pub struct User {
    pub client: Client,
}

impl User {
    /// The objects of a kind, in a namespace or in none.
    pub fn api(&self, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version, plural) = match kind {
            "KubernetesTarget" => ("workload.crossplane.io", "v1alpha1", "kubernetestargets"),
            "KubernetesApplication" => ("workload.crossplane.io", "v1alpha2", "kubernetesapplications"),
            "KubernetesApplicationResource" => {
                ("workload.crossplane.io", "v1alpha1", "kubernetesapplicationresources")
            }
            "KubernetesCluster" => ("compute.crossplane.io", "v1alpha1", "kubernetesclusters"),
            "KubernetesClusterClass" => ("compute.crossplane.io", "v1alpha1", "kubernetesclusterclasses"),
            "GKECluster" => ("compute.gcp.crossplane.io", "v1alpha3", "gkeclusters"),
            "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            "Deployment" => ("apps", "v1", "deployments"),
            "ClusterRole" => ("rbac.authorization.k8s.io", "v1", "clusterroles"),
            "ClusterRoleBinding" => ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
            "RoleBinding" => ("rbac.authorization.k8s.io", "v1", "rolebindings"),
            "ResourceGraphDefinition" => ("kro.run", "v1alpha1", "resourcegraphdefinitions"),
            "Namespace" => ("", "v1", "namespaces"),
            "Secret" => ("", "v1", "secrets"),
            "Service" => ("", "v1", "services"),
            "ConfigMap" => ("", "v1", "configmaps"),
            other => return self.served(other, namespace),
        };
        self.dynamic(group, version, kind, plural, namespace)
    }

    /// The objects of a kind that a definition serves.
    fn served(&self, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        self.dynamic("kro.run", "v1alpha1", kind, &kross_api::plural(kind), namespace)
    }

    fn dynamic(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Applies an object, as `kubectl apply --server-side` does.
    pub async fn apply(&self, object: &Json) -> Result<Json, kube::Error> {
        let text = |path: &str| object.pointer(path).and_then(Json::as_str).map(str::to_owned);
        let (kind, name) = (text("/kind").unwrap(), text("/metadata/name").unwrap());
        let api = self.api(&kind, text("/metadata/namespace").as_deref());
        let parameters = PatchParams::apply("user").force();
        let applied = api.patch(&name, &parameters, &Patch::Apply(object)).await?;
        Ok(serde_json::to_value(applied).unwrap())
    }

    /// Applies every document of a file of the repository.
    pub async fn apply_file(&self, path: &str) {
        for document in documents(path) {
            let applied = self.apply(&document).await;
            applied.unwrap_or_else(|error| panic!("cannot apply {document:#} of {path}: {error}"));
        }
    }

    /// Creates a namespace, unless it exists.
    pub async fn namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.apply(&namespace).await.unwrap();
    }

    #[track_caller]
    pub fn until(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        condition: impl Fn(&Json) -> bool,
    ) -> impl Future<Output = Json> {
        until(api.clone(), name.to_owned(), condition)
    }

    /// Waits until a condition of an object has this status.
    #[track_caller]
    pub fn until_condition(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        (kind, status): (&'static str, &'static str),
    ) -> impl Future<Output = Json> {
        self.until(api, name, move |object| condition(object, kind)["status"] == status)
    }

    pub async fn delete(&self, api: &Api<DynamicObject>, name: &str) {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

/// The documents of a file of the repository.
pub fn documents(path: &str) -> Vec<Json> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(path)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// The HTTP status of a refused request.
pub fn status_code<T>(result: Result<T, kube::Error>) -> Option<u16> {
    match result {
        Err(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}
