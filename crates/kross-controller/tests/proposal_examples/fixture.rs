//! A hub with one controller and the clusters `east` and `west`. One test at a time uses them, since the examples have fixed
//! names.

use std::path::Path;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kross_api::yaml;
use kross_controller::Settings;
use kross_diagnostics::{Diagnostics, Sources};
use kross_testing::{objects, shared, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::setup::{Objects, Running, condition, create_once_served, install, until};

static CONTROLLER: OnceCell<Running> = OnceCell::const_new();
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// The clusters, and the lock that one test at a time holds.
pub struct ProposalFixture {
    pub hub: Client,
    pub east: Client,
    pub west: Client,
    pub objects: Objects,
    _exclusive: MutexGuard<'static, ()>,
}

impl ProposalFixture {
    pub async fn new() -> Self {
        let exclusive = ONE_AT_A_TIME.lock().await;
        let (hub, east, west) = tokio::join!(client("hub"), client("east"), client("west"));
        CONTROLLER
            .get_or_init(|| async {
                install(&hub).await;
                let namespaces: Api<Namespace> = Api::all(hub.clone());
                namespaces.create(&PostParams::default(), &objects::namespace("kro-system")).await.unwrap();
                let settings = Settings { allow_crd_deletion: true, ..Settings::default() };
                Running::start("hub", settings).await
            })
            .await;
        Self { objects: Objects { client: hub.clone() }, hub, east, west, _exclusive: exclusive }
    }

    /// Creates the kubeconfig Secret of a cluster, under this key or else `kubeconfig`.
    pub async fn create_secret(&self, address: (&str, &str), cluster: &'static str, key: Option<&str>) {
        let (namespace, name) = address;
        let mut secret = objects::kubeconfig_secret(name, shared(cluster).await.admin());
        // The examples have Secrets without the label.
        secret.metadata.labels = None;
        if let (Some(key), Some(data)) = (key, &mut secret.data) {
            let kubeconfig = data.remove("kubeconfig").unwrap();
            data.insert(key.to_owned(), kubeconfig);
        }
        self.secrets(namespace).create(&PostParams::default(), &secret).await.unwrap();
    }

    pub async fn delete_secret(&self, namespace: &str, name: &str) {
        self.secrets(namespace).delete(name, &DeleteParams::default()).await.unwrap();
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.hub.clone(), namespace)
    }

    /// Creates a definition and waits until it is ready.
    pub async fn create_definition(&self, definition: &Json) {
        self.objects.create(definition).await;
        self.objects.until_ready(definition["metadata"]["name"].as_str().unwrap()).await;
    }

    /// Deletes a definition without instances, and waits until its CRD is deleted too.
    pub async fn delete_definition(&self, definition: &Json) {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let kind = definition["spec"]["schema"]["kind"].as_str().unwrap();
        self.objects.delete(name).await;
        wait::until_deleted(&self.objects.definitions(), name).await;
        let crd = format!("{}.{}", kross_api::plural(kind), group(definition));
        wait::until_deleted(&self.objects.crds(), &crd).await;
    }

    pub async fn create_instance(&self, definition: &Json, name: &str, spec: Json) -> Instance {
        let api = instances(&self.hub, definition);
        let kind = &definition["spec"]["schema"]["kind"];
        let api_version = format!("{}/v1alpha1", group(definition));
        let instance =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        create_once_served(&api, instance).await;
        Instance { api, name: name.to_owned() }
    }
}

async fn client(plane: &'static str) -> Client {
    shared(plane).await.client().await.unwrap()
}

fn group(definition: &Json) -> &str {
    definition["spec"]["schema"]["group"].as_str().unwrap_or("kro.run")
}

/// The instances of a definition in the namespace `default`.
pub fn instances(client: &Client, definition: &Json) -> Api<DynamicObject> {
    let kind = definition["spec"]["schema"]["kind"].as_str().unwrap();
    let gvk = GroupVersionKind::gvk(group(definition), "v1alpha1", kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &kross_api::plural(kind));
    Api::namespaced_with(client.clone(), "default", &resource)
}

pub struct Instance {
    pub api: Api<DynamicObject>,
    pub name: String,
}

impl Instance {
    #[track_caller]
    pub fn until(&self, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.api.clone(), self.name.clone(), condition)
    }

    /// Waits until `Ready` and every condition about clusters are `True`.
    #[track_caller]
    pub fn until_ready(&self) -> impl Future<Output = Json> {
        self.until(|instance| {
            let kinds = ["ClusterResolved", "RemoteClusterConnected", "RemoteResourcesReady", "Ready"];
            kinds.iter().all(|kind| condition(instance, kind)["status"] == "True")
        })
    }

    pub async fn patch(&self, patch: Json) {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&self.api, &self.name).await;
    }
}

/// Reads the definition of an example.
pub fn example(file: &str) -> Json {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kross-graph/tests/definitions");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let documents = yaml::parse(&mut sources, file, text, &yaml::Limits::default(), &mut found);
    let documents =
        documents.into_iter().map(|document| serde_json::to_value(document.into_value()).unwrap());
    let mut definitions = documents.filter(|document| document["kind"] == "ResourceGraphDefinition");
    definitions.next().unwrap()
}

/// Adds fields that the examples omit and the API server requires: selectors, the labels that they select, and images.
pub fn with_required_fields(mut definition: Json) -> Json {
    for resource in definition["spec"]["resources"].as_array_mut().unwrap() {
        let template = &mut resource["template"];
        if template["kind"] != "Deployment" {
            continue;
        }
        let spec = &mut template["spec"];
        if spec["selector"].is_null() {
            spec["selector"] = json!({"matchLabels": {"app": "example"}});
            spec["template"]["metadata"] = json!({"labels": {"app": "example"}});
        }
        for container in spec["template"]["spec"]["containers"].as_array_mut().unwrap() {
            if container["image"].is_null() {
                container["image"] = json!("example:latest");
            }
        }
    }
    definition
}

/// Reads an object in a cluster, if it exists.
pub async fn get_object(
    client: &Client,
    kind: (&str, &str, &str),
    namespace: &str,
    name: &str,
) -> Option<Json> {
    let (group, version, kind) = kind;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = api.get_opt(name).await.unwrap();
    found.map(|object| serde_json::to_value(object).unwrap())
}

pub const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");
pub const SERVICE: (&str, &str, &str) = ("", "v1", "Service");
pub const CONFIG_MAP: (&str, &str, &str) = ("", "v1", "ConfigMap");

/// Installs a CRD of a kind that an example uses, with an arbitrary spec.
pub async fn install_crd(client: &Client, group: &str, kind: &str, plural: &str) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let endpoint = json!({"type": "object", "properties": {"endpoint": {"type": "string"}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": endpoint}}}}],
        },
    });
    let objects = Objects { client: client.clone() };
    let name = format!("{plural}.{group}");
    objects.crds().create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    until(objects.crds(), name, |crd| condition(crd, "Established")["status"] == "True").await;
}
