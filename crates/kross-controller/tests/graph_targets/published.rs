//! A hub with the CRDs of published clusters, and targets whose connection Secrets the tests create.

use std::collections::BTreeMap;
use std::ops::Deref;

use kross_local::{Credential, Kubeconfig};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Objects, install_crds};
use crate::world::World;

static CRDS: OnceCell<()> = OnceCell::const_new();

pub const WORKLOAD: &str = "workload.crossplane.io";

/// A world in which clusters can be published.
pub struct Published {
    pub world: World,
    pub targets: Targets,
}

/// The targets of a namespace.
pub struct Targets {
    pub api: Api<DynamicObject>,
}

impl Deref for Published {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Published {
    /// Without a definition. The CRDs of published clusters are installed while the controller runs.
    pub async fn new(kind: &str) -> Self {
        let world = World::without_definition(kind).await;
        let client = world.objects.client.clone();
        CRDS.get_or_init(|| async { install_workload_crds(&client).await }).await;
        let targets = Targets::new(&world.objects, &world.namespace);
        Self { world, targets }
    }

    /// Creates or changes the connection Secret of a region, which has neither the label nor the suffix of kubeconfig Secrets.
    pub async fn connect(&self, secret: &str, region: &str) {
        self.apply_connection(secret, json!({"kubeconfig": self.kubeconfig(region).to_string()})).await;
    }

    /// The same with the fields in place of a kubeconfig.
    pub async fn connect_by_fields(&self, secret: &str, region: &str) {
        let Kubeconfig { server, authority, credential, .. } = self.kubeconfig(region);
        let mut data =
            json!({"endpoint": server, "clusterCA": authority, "username": "admin", "password": "unused"});
        match credential {
            Credential::Token(token) => data["token"] = json!(token),
            Credential::Certificate(identity) => {
                data["clientCert"] = json!(identity.certificate);
                data["clientKey"] = json!(identity.key);
            }
        }
        self.apply_connection(secret, data).await;
    }

    async fn apply_connection(&self, name: &str, data: Json) {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let parameters = PatchParams::apply("test").force();
        self.secrets.patch(name, &parameters, &Patch::Apply(secret)).await.unwrap();
    }

    /// Publishes the cluster of a region under its name, with these labels.
    pub async fn publish(&self, region: &str, labels: Json) {
        let secret = format!("{region}-connection");
        self.connect(&secret, region).await;
        self.targets.publish(region, &secret, labels).await;
    }

    /// The inventory of remote clusters of an instance, as text.
    pub async fn inventory(&self, name: &str) -> String {
        let instance = self.get(name).await;
        let annotations = &instance["metadata"]["annotations"];
        annotations[kross_api::annotations::CLUSTER_INVENTORY].as_str().unwrap_or_default().to_owned()
    }
}

impl Targets {
    pub fn new(objects: &Objects, namespace: &str) -> Self {
        Self { api: objects.namespaced(WORKLOAD, "KubernetesTarget", "kubernetestargets", namespace) }
    }

    /// Creates or changes a target that names a connection Secret, and reports it as ready.
    pub async fn publish(&self, name: &str, secret: &str, labels: Json) {
        self.apply(name, labels, json!({"connectionSecretRef": {"name": secret}})).await;
        self.set_ready(name).await;
    }

    pub async fn apply(&self, name: &str, labels: Json, spec: Json) {
        let target = json!({"apiVersion": format!("{WORKLOAD}/v1alpha1"), "kind": "KubernetesTarget",
            "metadata": {"name": name, "labels": labels}, "spec": spec});
        let parameters = PatchParams::apply("test").force();
        self.api.patch(name, &parameters, &Patch::Apply(target)).await.unwrap();
    }

    pub async fn set_ready(&self, name: &str) {
        let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"});
        let status = json!({"status": {"conditions": [condition]}});
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub async fn patch(&self, name: &str, patch: Json) {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Deletes a target whatever waits for it, as somebody does who removes its finalizers.
    pub async fn remove(&self, name: &str) {
        self.api.delete(name, &DeleteParams::default()).await.unwrap();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        // It is gone already if nothing held it.
        let _ = self.api.patch(name, &PatchParams::default(), &patch).await;
        kross_testing::wait::until_deleted(&self.api, name).await;
    }
}

/// Installs the CRDs that graphs alone do not need.
pub async fn install_workload_crds(client: &kube::Client) {
    let of_graphs: Vec<_> = kross_api::graph_crds().into_iter().map(|crd| crd.metadata.name).collect();
    let others = kross_api::crds().into_iter().filter(|crd| !of_graphs.contains(&crd.metadata.name));
    install_crds(client, others.collect()).await;
}

/// A `target` by the name of a KubernetesTarget.
pub fn by_name(name: &str) -> Json {
    json!({"kubernetesTarget": {"name": name}})
}

/// A `target` by labels.
pub fn by_labels<const N: usize>(labels: [(&str, &str); N]) -> Json {
    json!({"kubernetesTarget": {"selector": {"matchLabels": BTreeMap::from(labels)}}})
}

/// The entry of a cluster in `status.clusters`, by its name; null if there is none.
pub fn entry(instance: &Json, name: &str) -> Json {
    let entries = instance["status"]["clusters"].as_array().cloned().unwrap_or_default();
    entries.into_iter().find(|entry| entry["name"] == name).unwrap_or(Json::Null)
}
