//! A definition and its instances as one test sees them.

use k8s_openapi::api::core::v1::ConfigMap;
use kross_controller::Settings;
use kross_testing::{FaultProxy, Fixture, Requests};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Objects, Running, install, until};

struct Shared {
    proxy: FaultProxy,
    _running: Running,
}

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// One definition, in a namespace of the test's own.
pub struct World {
    pub namespace: String,
    pub objects: Objects,
    pub config_maps: Api<ConfigMap>,
    pub instances: Api<DynamicObject>,
    pub kind: String,
    pub proxy: &'static FaultProxy,
}

impl World {
    /// Makes a definition of this kind with these resources and waits until it is ready.
    pub async fn new(kind: &str, schema: Json, resources: Json) -> Self {
        let fixture = Fixture::hub().await;
        let client = fixture.hub.client.clone();
        let shared = SHARED
            .get_or_init(|| async {
                install(&client).await;
                let admin = fixture.hub.plane.admin();
                let proxy = FaultProxy::start(admin).unwrap();
                let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
                let running = Running::start_with(config, Settings::default()).await;
                Shared { proxy, _running: running }
            })
            .await;
        let objects = Objects { client };
        let name = kind.to_lowercase();
        let mut schema = schema;
        schema["apiVersion"] = json!("v1alpha1");
        schema["kind"] = json!(kind);
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": name}, "spec": {"schema": schema, "resources": resources}});
        objects.create(&definition).await;
        objects.until_ready(&name).await;
        let namespace = fixture.namespace.clone();
        Self {
            config_maps: fixture.hub.api(),
            instances: objects.namespaced("kro.run", kind, &kross_api::plural(kind), &namespace),
            kind: kind.to_owned(),
            proxy: &shared.proxy,
            objects,
            namespace,
        }
    }

    pub async fn create(&self, name: &str, spec: Json) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": self.kind,
            "metadata": {"name": name}, "spec": spec});
        let instance = serde_json::from_value(instance).unwrap();
        self.instances.create(&PostParams::default(), &instance).await.unwrap();
    }

    pub async fn patch(&self, name: &str, patch: Json) {
        self.instances.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.instances.delete(name, &DeleteParams::default()).await.unwrap();
    }

    #[track_caller]
    pub fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.instances.clone(), name.to_owned(), condition)
    }

    /// Waits until an instance is in a state, in its current generation.
    #[track_caller]
    pub fn until_state(&self, name: &str, state: &'static str) -> impl Future<Output = Json> {
        self.until(name, move |instance| {
            let ready = crate::setup::condition(instance, "Ready");
            instance["status"]["state"] == state
                && ready["observedGeneration"] == instance["metadata"]["generation"]
        })
    }

    /// What the controller sent about objects of this namespace, Events apart.
    pub fn sent(&self) -> Vec<String> {
        let sent = self.proxy.requests(&Requests::any().namespace(&self.namespace));
        let sent = sent.iter().map(|record| &record.request);
        let sent = sent.filter(|request| !request.resource.starts_with("events"));
        sent.map(ToString::to_string).collect()
    }
}

/// A ConfigMap as a resource.
pub fn config_map(id: &str, data: Json) -> Json {
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}})
}

/// Changes the data of a ConfigMap as somebody else.
pub async fn edit(api: &Api<ConfigMap>, name: &str, data: Json) {
    let patch = json!({"data": data});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// The data of a ConfigMap under a key.
pub fn value<'a>(config_map: &'a ConfigMap, key: &str) -> Option<&'a str> {
    config_map.data.as_ref()?.get(key).map(String::as_str)
}
