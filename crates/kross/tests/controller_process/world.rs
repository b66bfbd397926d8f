//! A control plane with an audit log of requests, a controller as a process, and helpers to create definitions and instances.
#![allow(dead_code, unreachable_pub)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use futures::{StreamExt, TryStreamExt, stream};
use kross_local::ControlPlane;
use kross_testing::{AuditLog, AuditedRequest, wait};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

pub const NAMESPACE: &str = "default";

/// The user agent of the controller.
const USER_AGENT: &str = "kro/";

/// A controller that is killed when it is dropped.
pub struct Controller(Child);

impl Controller {
    pub fn start(kubeconfig: &std::path::Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(["controller", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0", "--admin-bind-address=0"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct World {
    pub client: Client,
    pub kubeconfig: PathBuf,
    plane: ControlPlane,
    log: AuditLog,
}

impl World {
    /// Starts a control plane with kross's CRDs, without a controller manager.
    pub async fn new(name: &str) -> Self {
        let (plane, log) = AuditLog::start(name).await.unwrap();
        let client = plane.client().await.unwrap();
        let world = Self { client, kubeconfig: plane.admin_path(), plane, log };
        let crds = world.all("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        for crd in kross_api::graph_crds() {
            let crd = serde_json::from_value(serde_json::to_value(crd).unwrap()).unwrap();
            crds.create(&PostParams::default(), &crd).await.unwrap();
        }
        world
    }

    pub async fn stop(self) {
        self.plane.stop().await;
    }

    pub fn all(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.client.clone(), &kind)
    }

    pub fn namespaced(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &kind)
    }

    /// The instances of a kind.
    pub fn instances(&self, kind: &str) -> Api<DynamicObject> {
        self.namespaced("kro.run", "v1alpha1", kind)
    }

    pub fn config_maps(&self) -> Api<DynamicObject> {
        self.namespaced("", "v1", "ConfigMap")
    }

    pub fn definitions(&self) -> Api<DynamicObject> {
        self.all("kro.run", "v1alpha1", "ResourceGraphDefinition")
    }

    /// Creates a definition whose instances have a field `text`, with these resources, and waits until it is active.
    pub async fn define(&self, kind: &str, resources: Json) {
        self.submit(kind, resources).await;
        wait::until_object(&self.definitions(), &kind.to_lowercase(), |object| {
            object.data["status"]["state"] == "Active"
        })
        .await;
    }

    /// Creates such a definition.
    pub async fn submit(&self, kind: &str, resources: Json) {
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": kind.to_lowercase()}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string"}},
                "resources": resources}});
        let definition = serde_json::from_value(definition).unwrap();
        let definitions = self.definitions();
        wait::until("the definition to be created", || async {
            definitions.create(&PostParams::default(), &definition).await.map_err(|error| error.to_string())
        })
        .await;
    }

    pub async fn create(&self, kind: &str, name: &str, text: &str) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": {"text": text}});
        let instance = serde_json::from_value(instance).unwrap();
        wait::create_once_served(&self.instances(kind), &instance).await;
    }

    pub async fn create_many(&self, kind: &str, names: &[String]) {
        let creates = stream::iter(names).map(|name| async move {
            self.create(kind, name, name).await;
            Ok::<(), String>(())
        });
        creates.buffer_unordered(16).try_for_each(|()| async { Ok(()) }).await.unwrap();
    }

    /// The number of instances of a kind that are ready in their current generation.
    pub async fn ready(&self, kind: &str) -> usize {
        let list = self.instances(kind).list(&ListParams::default()).await.unwrap();
        list.items.iter().filter(|instance| is_ready(instance)).count()
    }

    /// The requests of the controller so far, without watches and Leases.
    pub fn requests(&self) -> Vec<AuditedRequest> {
        self.log.requests(USER_AGENT)
    }
}

pub fn is_ready(instance: &DynamicObject) -> bool {
    let conditions = instance.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"].as_i64() == instance.metadata.generation
    })
}

/// A ConfigMap as a resource.
pub fn config_map(id: &str, text: &str) -> Json {
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": {"x": text}}})
}
