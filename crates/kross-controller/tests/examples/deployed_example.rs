//! The definitions of one example on the control planes of this program, and their instances.

use std::ops::Deref;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kross_local::Kubeconfig;
use kross_testing::wait;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::setup::{condition, create_once_served, until};
use crate::world::World;

/// An example that was applied. The world has no definition of its own.
pub struct Example {
    pub world: World,
    definitions: Vec<Json>,
}

impl Deref for Example {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Example {
    /// Reads the definitions of a file in `examples/`, with texts in it replaced. They are not applied yet.
    pub async fn read(file: &str, shortened: &[(&str, &str)]) -> Self {
        let path = format!("{}/../../examples/{file}", env!("CARGO_MANIFEST_DIR"));
        let mut text = std::fs::read_to_string(path).unwrap();
        for (long, short) in shortened {
            assert!(text.contains(long), "{file} does not have `{long}`");
            text = text.replace(long, short);
        }
        let (mut sources, mut found) =
            (kross_diagnostics::Sources::default(), kross_diagnostics::Diagnostics::new());
        let limits = kross_api::yaml::Limits::default();
        let documents = kross_api::yaml::parse(&mut sources, file, &*text, &limits, &mut found);
        let definitions: Vec<Json> = documents.iter().map(|document| Json::from(document.value())).collect();
        let kind = definitions[0]["spec"]["schema"]["kind"].as_str().unwrap();
        Self { world: World::without_definition(kind).await, definitions }
    }

    /// Creates the definitions in the order of the file, and waits until all are ready.
    pub async fn apply(&self) {
        for definition in &self.definitions {
            self.objects.create(definition).await;
        }
        for definition in &self.definitions {
            self.objects.until_ready(definition["metadata"]["name"].as_str().unwrap()).await;
        }
    }

    /// The instances of one of the definitions, in the namespace of the test if they have one.
    pub fn instances_of(&self, kind: &str) -> Instances {
        let schema = self.definitions.iter().map(|definition| &definition["spec"]["schema"]);
        let schema = schema.into_iter().find(|schema| schema["kind"] == kind).unwrap();
        let group = schema["group"].as_str().unwrap_or("kro.run");
        let gvk = GroupVersionKind::gvk(group, schema["apiVersion"].as_str().unwrap(), kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kross_api::plural(kind));
        let client = self.objects.client.clone();
        let api = if schema["scope"] == "Cluster" {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, &self.namespace, &resource)
        };
        Instances { api, gvk }
    }

    /// Creates or updates a kubeconfig Secret in a namespace of the hub, which is created if it does not exist.
    pub async fn credentials(&self, namespace: &str, name: &str, kubeconfig: &Kubeconfig) {
        ensure_namespace(&self.objects.client, namespace).await;
        let secrets: Api<Secret> = Api::namespaced(self.objects.client.clone(), namespace);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"kubeconfig": kubeconfig.to_string()}});
        secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(secret)).await.unwrap();
    }

    /// The objects of a kind in the namespace of the test, in the hub.
    pub fn local<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.objects.client.clone(), &self.namespace)
    }

    /// The objects of a kind in the namespace of the test, in a region.
    pub fn remote<K>(&self, region: &str) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        self.region(region).cluster.api()
    }
}

/// The instances of one definition.
pub struct Instances {
    pub api: Api<DynamicObject>,
    gvk: GroupVersionKind,
}

impl Instances {
    pub async fn create(&self, name: &str, spec: Json) {
        let instance = json!({"apiVersion": self.gvk.api_version(), "kind": self.gvk.kind,
            "metadata": {"name": name}, "spec": spec});
        create_once_served(&self.api, instance).await;
    }

    pub async fn patch(&self, name: &str, patch: Json) {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    #[track_caller]
    pub fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.api.clone(), name.to_owned(), condition)
    }

    /// Waits until an instance is in a state, in its current generation.
    #[track_caller]
    pub fn until_state(&self, name: &str, state: &'static str) -> impl Future<Output = Json> {
        self.until(name, move |instance| {
            let ready = condition(instance, "Ready");
            instance["status"]["state"] == state
                && ready["observedGeneration"] == instance["metadata"]["generation"]
        })
    }

    /// Deletes an instance and waits until its finalizer is removed.
    pub async fn delete(&self, name: &str) {
        self.api.delete(name, &Default::default()).await.unwrap();
        wait::until_deleted(&self.api, name).await;
    }
}

/// Creates a namespace, unless another test of this program did.
pub async fn ensure_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    namespaces.patch(name, &PatchParams::apply("test"), &Patch::Apply(namespace)).await.unwrap();
}

/// Writes the status of a Deployment as its controller does when all Pods of the current generation are available.
pub async fn roll_out(deployments: &Api<Deployment>, name: &str) {
    let deployment = deployments.get(name).await.unwrap();
    let replicas = deployment.spec.unwrap().replicas.unwrap();
    let status = json!({"status": {"observedGeneration": deployment.metadata.generation, "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}});
    deployments.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// The image of the first container of a Deployment.
pub fn image(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.as_deref()
}
