//! A hub whose controller is no administrator: it may do everything but impersonate others than the accounts of these tests.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kross_cluster::Backoff;
use kross_controller::{ReviewAges, Settings};
use kross_local::{Access, ControlPlane};
use kross_testing::{FaultProxy, Fixture, Requests, Verb, shared, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::instance_api::InstanceApi;
use crate::setup::{Objects, Running, install};

/// The accounts that the controller may impersonate.
const ACCOUNTS: [&str; 2] = ["deployer", "reader"];

/// How long decisions are kept in these tests.
pub const AGES: ReviewAges =
    ReviewAges { allowed: Duration::from_secs(2), denied: Duration::from_millis(300) };

/// A hub with its controller.
pub struct Hub {
    pub proxy: FaultProxy,
    _running: Running,
}

impl Hub {
    pub async fn start(plane: &'static ControlPlane, settings: Settings) -> Self {
        let client = Client::try_from(plane.admin().config().await.unwrap()).unwrap();
        install(&client).await;
        let proxy = FaultProxy::start(plane.admin()).unwrap();
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "bind", "escalate"];
        let everything = rule("*", &["*"], &verbs);
        let impersonate = PolicyRule {
            resource_names: Some(ACCOUNTS.map(str::to_owned).to_vec()),
            ..rule("", &["serviceaccounts"], &["impersonate"])
        };
        let access = Access::none().in_cluster([everything, impersonate]);
        let user = plane.mint_certificate("kross", None, &access).await.unwrap();
        let config = proxy.kubeconfig(&user).unwrap().config().await.unwrap();
        let backoff = Backoff { base: Duration::from_millis(100), cap: Duration::from_secs(1) };
        let settings = Settings { access_reviews: AGES, instance_backoff: backoff, ..settings };
        Self { proxy, _running: Running::start_with(config, settings).await }
    }

    /// How many reviews the controller has sent.
    pub fn reviews(&self) -> usize {
        let reviews =
            Requests::any().verb(Verb::Create).resource("subjectaccessreviews.authorization.k8s.io");
        self.proxy.requests(&reviews).len()
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(texts(resources)),
        verbs: texts(verbs),
        ..PolicyRule::default()
    }
}

static SHARED: OnceCell<Hub> = OnceCell::const_new();

/// A namespace for the instances of one test.
pub struct World {
    pub namespace: String,
    pub objects: Objects,
    pub hub: &'static Hub,
}

impl World {
    pub async fn new() -> Self {
        let fixture = Fixture::hub().await;
        let hub = SHARED.get_or_init(|| Hub::start(fixture.hub.plane, Settings::default())).await;
        Self { namespace: fixture.namespace.clone(), objects: Objects { client: fixture.hub.client }, hub }
    }

    /// Creates a definition of this kind and waits until it is ready.
    pub async fn define(
        &self,
        kind: &str,
        schema: Json,
        access: Option<&str>,
        resources: Json,
    ) -> InstanceApi {
        let access = access.map(|name| json!({"serviceAccountName": name}));
        self.define_with(kind, schema, access, resources).await
    }

    pub async fn define_with(
        &self,
        kind: &str,
        mut schema: Json,
        access: Option<Json>,
        resources: Json,
    ) -> InstanceApi {
        schema["apiVersion"] = json!("v1alpha1");
        schema["kind"] = json!(kind);
        let mut spec = json!({"schema": schema, "resources": resources});
        if let Some(access) = access {
            spec["access"] = access;
        }
        let name = kind.to_lowercase();
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": name}, "spec": spec});
        self.objects.create(&definition).await;
        self.objects.until_ready(&name).await;
        InstanceApi::new(&self.objects, kind, &self.namespace)
    }

    pub fn api(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kross_api::plural(kind));
        let client = self.objects.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    pub fn of(&self, object: &Json) -> Api<DynamicObject> {
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let namespace = object["metadata"]["namespace"].as_str();
        self.api(group, version, object["kind"].as_str().unwrap(), namespace)
    }

    pub async fn apply(&self, object: Json) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.of(&object)
            .patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&object))
            .await
            .unwrap();
    }

    pub async fn remove(&self, object: Json) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.of(&object).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Creates a namespace beside that of the test.
    pub async fn other_namespace(&self) -> String {
        let name = format!("{}-other", self.namespace);
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        name
    }

    pub fn account_object(&self, name: &str) -> Json {
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": self.namespace}})
    }

    /// Creates a ServiceAccount in the namespace of the test.
    pub async fn account(&self, name: &str) {
        self.apply(self.account_object(name)).await;
    }

    /// Grants verbs on a resource of the core group in a namespace to an account of the test's namespace.
    pub async fn grant(&self, account: &str, namespace: &str, resource: &str, verbs: &[&str]) {
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": self.namespace});
        self.grant_to(subject, account, namespace, (resource, verbs)).await;
    }

    pub async fn grant_to(
        &self,
        subject: Json,
        account: &str,
        namespace: &str,
        (resource, verbs): (&str, &[&str]),
    ) {
        let name = format!("{}-{account}-{resource}", self.namespace);
        self.apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": verbs}]}))
            .await;
        self.apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [subject]}))
            .await;
    }

    /// Takes back what [`World::grant`] granted.
    pub async fn revoke(&self, account: &str, namespace: &str, resource: &str) {
        let name = format!("{}-{account}-{resource}", self.namespace);
        self.remove(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace}}))
            .await;
    }

    /// What an account needs to manage ConfigMaps in the namespace of the test.
    pub async fn manages_config_maps(&self, account: &str) {
        self.grant(account, &self.namespace, "configmaps", &["get", "create", "patch", "delete"]).await;
    }

    pub async fn data(&self, namespace: &str, name: &str) -> Option<Json> {
        let api = self.api("", "v1", "ConfigMap", Some(namespace));
        Some(api.get_opt(name).await.unwrap()?.data["data"].clone())
    }

    /// Waits until a ConfigMap has this data.
    pub async fn until_data(&self, namespace: &str, name: &str, data: Json) {
        let api = self.api("", "v1", "ConfigMap", Some(namespace));
        wait::until_object(&api, name, |object| object.data["data"] == data).await;
    }
}

/// A resource that is a ConfigMap.
pub fn config_map(id: &str, data: Json) -> Json {
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}})
}

pub fn secret(namespace: &str, name: &str, value: &str) -> Json {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
        "stringData": {"password": value}})
}

/// Waits until the status of an instance contains all of these texts, and returns it.
pub async fn until_says(instances: &InstanceApi, name: &str, texts: &[&str]) -> String {
    let found = instances
        .until(name, |instance| {
            let status = instance["status"].to_string();
            texts.iter().all(|text| status.contains(text))
        })
        .await;
    found["status"].to_string()
}
