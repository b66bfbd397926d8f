//! A hub with a controller, two tenants with rights in their own namespaces only, and a cluster for each of them.

use k8s_openapi::api::core::v1::ConfigMap;
use kross_controller::Settings;
use kross_local::{Access, Kubeconfig, rule};
use kross_testing::{Action, Answer, FaultProxy, Fixture, Requests, Verb, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Objects, Running, condition, install_crds, until};

pub const BANK: &str = "bank";
pub const MALLORY: &str = "mallory";

static RUNNING: OnceCell<Running> = OnceCell::const_new();

/// What the tests share. Each test has proxies of its own.
pub struct World {
    pub fixture: Fixture,
    pub admin: Objects,
    pub bank: Tenant,
    pub mallory: Tenant,
    /// In front of the cluster of the bank, and of that of mallory.
    pub production: FaultProxy,
    pub hostile: FaultProxy,
}

/// A user with a certificate, who may do everything in one namespace and nothing else.
pub struct Tenant {
    pub client: Client,
    pub namespace: &'static str,
}

impl World {
    pub async fn new() -> Self {
        // Starting control planes takes a deep stack.
        let fixture = Box::pin(Fixture::with(&["eu", "us"])).await;
        let admin = Objects { client: fixture.hub.client.clone() };
        RUNNING
            .get_or_init(|| async {
                install_crds(&admin.client, kross_api::crds()).await;
                for client in [&fixture.hub.client, &fixture.remote("eu").client, &fixture.remote("us").client] {
                    for namespace in [BANK, MALLORY] {
                        apply(client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
                            .await
                            .unwrap();
                    }
                }
                let running = Running::start("hub", Settings::default()).await;
                for (kind, spec) in definitions() {
                    define(&admin, kind, spec).await;
                }
                running
            })
            .await;
        let admin_of = |name: &str| fixture.remote(name).plane.admin();
        let production = FaultProxy::start(admin_of("eu")).unwrap();
        // Nobody but the bank has a certificate of the bank's authority.
        let hostile = FaultProxy::start_under_own_authority(admin_of("us")).unwrap();
        let bank = Tenant::new(&fixture, BANK).await;
        let mallory = Tenant::new(&fixture, MALLORY).await;
        Self { fixture, admin, bank, mallory, production, hostile }
    }

    /// The kubeconfig of the bank's cluster through the proxy of this test.
    pub fn production_kubeconfig(&self) -> Kubeconfig {
        self.production.kubeconfig(self.fixture.remote("eu").plane.admin()).unwrap()
    }

    /// The kubeconfig of mallory's cluster through the proxy of this test.
    pub fn hostile_kubeconfig(&self) -> Kubeconfig {
        self.hostile.kubeconfig(self.fixture.remote("us").plane.admin()).unwrap()
    }

    /// The Secret `NAME-kubeconfig` of the bank, and an instance with an object in the bank's cluster.
    pub async fn shop(&self, name: &str) -> Shop<'_> {
        let secret = format!("{name}-kubeconfig");
        self.bank.kubeconfig(&secret, &self.production_kubeconfig().to_string()).await;
        self.bank.create("Shop", name, json!({"secret": secret})).await;
        let active = self.bank.until_state("Shop", name, "ACTIVE").await;
        let objects = self.fixture.remote("eu").client.clone();
        let objects: Api<ConfigMap> = Api::namespaced(objects, BANK);
        let object = objects.get(&format!("{name}-app")).await.unwrap();
        Shop {
            world: self,
            name: name.to_owned(),
            secret,
            instance: active,
            objects,
            uid: object.metadata.uid.unwrap(),
        }
    }

    /// Lets mallory's server claim to be the bank's cluster.
    pub async fn impersonate_production(&self) {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
            Api::all(self.fixture.remote("eu").client.clone());
        let kube_system = serde_json::to_value(namespaces.get("kube-system").await.unwrap()).unwrap();
        let mut answer = kube_system;
        answer["apiVersion"] = json!("v1");
        answer["kind"] = json!("Namespace");
        let reads = Requests::any().verb(Verb::Get).resource("namespaces").name("kube-system");
        self.hostile.on(reads, Action::Answer(Answer::json(200, &answer)));
    }
}

/// An instance of the bank.
pub struct Shop<'a> {
    world: &'a World,
    pub name: String,
    pub secret: String,
    /// As it was when it became active.
    pub instance: Json,
    objects: Api<ConfigMap>,
    uid: String,
}

impl Shop<'_> {
    /// The bank's object is the same, and the bank's instance is still reconciled.
    pub async fn assert_unharmed(&self) {
        let object = self.objects.get(&format!("{}-app", self.name)).await.unwrap();
        assert_eq!(object.metadata.uid.as_deref(), Some(&*self.uid), "the object was replaced");
        assert!(object.metadata.deletion_timestamp.is_none(), "{object:#?}");
        assert_eq!(object.data.unwrap()["owner"], BANK);
        let size = format!("{}", fastrand::u32(..));
        self.world.bank.patch("Shop", &self.name, json!({"spec": {"size": size}})).await;
        wait::until_object(&self.objects, &format!("{}-app", self.name), |object| {
            object.data.as_ref().is_some_and(|data| data["size"] == size)
        })
        .await;
        self.world.bank.until_state("Shop", &self.name, "ACTIVE").await;
    }

    pub async fn delete(self) {
        self.world.bank.delete("Shop", &self.name).await;
        wait::until_deleted(&self.world.bank.api("Shop"), &self.name).await;
        assert!(self.objects.get_opt(&format!("{}-app", self.name)).await.unwrap().is_none());
    }
}

impl Tenant {
    async fn new(fixture: &Fixture, namespace: &'static str) -> Self {
        let rules = [
            rule(&["kro.run"], &["*"], &["*"]),
            rule(&["workload.crossplane.io"], &["kubernetesapplications"], &["*"]),
            rule(&[""], &["secrets", "configmaps", "serviceaccounts", "events"], &["*"]),
        ];
        let access = Access::none().in_namespace(namespace, rules);
        let kubeconfig = fixture.hub.plane.mint_certificate(namespace, None, &access).await.unwrap();
        let client = Client::try_from(kubeconfig.config().await.unwrap()).unwrap();
        let tenant = Self { client, namespace };
        wait::until("the rights of the tenant to be in force", || async {
            tenant
                .api("Shop")
                .list(&kube::api::ListParams::default())
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await;
        tenant
    }

    /// The objects of a kind in the tenant's namespace.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let objects = Objects { client: self.client.clone() };
        objects.namespaced("kro.run", kind, &kross_api::plural(kind), self.namespace)
    }

    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Stores a kubeconfig, as the tenant may.
    pub async fn kubeconfig(&self, name: &str, kubeconfig: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace}, "stringData": {"kubeconfig": kubeconfig}});
        apply(&self.client, &secret).await.unwrap();
    }

    pub async fn create(&self, kind: &str, name: &str, spec: Json) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec});
        crate::setup::create_once_served(&self.api(kind), instance).await;
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Json) {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    #[track_caller]
    pub fn until(&self, kind: &str, name: &str, is: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.api(kind), name.to_owned(), is)
    }

    #[track_caller]
    pub fn until_state(&self, kind: &str, name: &str, state: &'static str) -> impl Future<Output = Json> {
        self.until(kind, name, move |instance| {
            let ready = condition(instance, "Ready");
            instance["status"]["state"] == state
                && ready["observedGeneration"] == instance["metadata"]["generation"]
        })
    }

    /// Waits until an instance is not ready for a reason that its status tells.
    #[track_caller]
    pub fn until_refused(&self, kind: &str, name: &str) -> impl Future<Output = String> {
        let refused = self.until(kind, name, |instance| {
            let ready = condition(instance, "Ready");
            ready["status"] == "False"
                && ready["observedGeneration"] == instance["metadata"]["generation"]
                && ready["message"].as_str().is_some_and(|message| {
                    message.contains("cannot")
                        || message.contains("refus")
                        || message.contains("forbidden")
                        || message.contains("Forbidden")
                        || message.contains("not allowed")
                })
        });
        async move { refused.await["status"].to_string() }
    }
}

/// Applies an object, as `kubectl apply --server-side` does.
pub async fn apply(client: &Client, object: &Json) -> Result<(), kube::Error> {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str).map(str::to_owned);
    let (kind, name) = (text("/kind").unwrap(), text("/metadata/name").unwrap());
    let (group, version) = match text("/apiVersion").unwrap().split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text("/apiVersion").unwrap()),
    };
    let kind = kube::core::GroupVersionKind::gvk(&group, &version, &kind);
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.map(drop)
}

async fn define(admin: &Objects, kind: &str, mut spec: Json) {
    let name = kind.to_lowercase();
    spec["schema"]["apiVersion"] = json!("v1alpha1");
    spec["schema"]["kind"] = json!(kind);
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": name}, "spec": spec});
    admin.create(&definition).await;
    admin.until_ready(&name).await;
}

fn app(cluster: Json) -> Json {
    let mut resource = json!({"id": "app", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-app"},
        "data": {"owner": "${schema.metadata.namespace}", "size": "${schema.spec.size}"}}});
    for (key, value) in cluster.as_object().unwrap() {
        resource[key] = value.clone();
    }
    resource
}

/// What the platform team offers to all tenants.
fn definitions() -> Vec<(&'static str, Json)> {
    let size = "string | default=\"1\"";
    let secret = |spelling: Json| {
        json!({"schema": {"spec": {"secret": "string", "namespace": "string | default=\"none\"", "size": size}},
            "resources": [app(spelling)]})
    };
    vec![
        ("Shop", secret(json!({"cluster": {"name": "${schema.spec.secret}"}}))),
        (
            "Roaming",
            secret(
                json!({"cluster": {"name": "${schema.spec.secret}", "namespace": "${schema.spec.namespace}"}}),
            ),
        ),
        (
            "ByString",
            secret(json!({"cluster": {"name": "shown", "kubeconfigSecretRef": "${schema.spec.secret}"}})),
        ),
        (
            "ByTarget",
            secret(json!({"target": {"cluster": {"kubeconfigSecretName": "${schema.spec.secret}",
                "kubeconfigSecretNamespace": "${schema.spec.namespace}"}}})),
        ),
        ("Published", secret(json!({"target": {"kubernetesTarget": {"name": "${schema.spec.secret}"}}}))),
        (
            "Labelled",
            json!({"schema": {"spec": {"labels": "map[string]string", "annotations": "map[string]string"}},
                "resources": [{"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}-map", "labels": "${schema.spec.labels}",
                        "annotations": "${schema.spec.annotations}"},
                    "data": {"text": "${schema.metadata.name}"}}}]}),
        ),
        (
            "Reader",
            json!({"access": {"serviceAccountName": "${schema.spec.account}"},
                "schema": {"spec": {"account": "string", "name": "string", "namespace": "string"}},
                "resources": [
                    {"id": "secret", "externalRef": {"apiVersion": "v1", "kind": "Secret",
                        "metadata": {"name": "${schema.spec.name}", "namespace": "${schema.spec.namespace}"}}},
                    {"id": "copy", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "${schema.metadata.name}-copy"},
                        "data": {"stolen": "${string(secret.data.kubeconfig)}"}}}]}),
        ),
        (
            "Writer",
            json!({"access": {"serviceAccountName": "tenant"},
                "schema": {"spec": {"name": "string", "namespace": "string"}},
                "resources": [{"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}", "namespace": "${schema.spec.namespace}"},
                    "data": {"owner": "mallory"}}}]}),
        ),
        (
            "Granter",
            json!({"access": {"serviceAccountName": "tenant"},
                "schema": {"spec": {"user": "string"}},
                "resources": [{"id": "binding", "template": {"apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding", "metadata": {"name": "${schema.metadata.name}-binding"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                        "name": "${schema.spec.user}"}]}}]}),
        ),
    ]
}
